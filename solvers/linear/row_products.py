"""Products with rows of features in memory, mapped from files, or read anew in each pass.

Context: a Newton step needs X p and X' C X p many times, with rows that may not fit in memory.
Decision: one pass gives both, and nothing copies, scales or joins the rows; unit length and the
constant feature are factors beside them. Consequence: conjugate gradients on the normal equations
need one pass per iteration, where CGLS as printed needs two.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np
import scipy.sparse as sp

from peewit.solvers.arrays import FloatArray, IntArray, frozen_all
from peewit.solvers.features import Rows
from peewit.solvers.kernels.sparse_rows import adjoint_rows, normal_rows, output_rows
from peewit.solvers.linear.row_scaling import RowScaling
from peewit.solvers.row_ranges import Parallel

_N_RANGES: Final = 8
_LEAST_WORK: Final = 1 << 17
"""Entries from which a pass is divided among threads."""

_CHUNK_BYTES: Final = 1 << 18
"""Of dense rows as float64, so that the second product with them finds them in the cache."""


@dataclass(slots=True, eq=False)
class Passes:
    """Number of passes over all rows."""

    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinearRows(ABC):
    """Rows in a `RowScaling`; weights have ``n_weights`` entries, the last of the constant."""

    scale: FloatArray  # (n_rows,) factor of each row
    form: RowScaling
    passes: Passes = field(default_factory=Passes)  # counts the calls of the methods

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.scale.size

    @property
    @abstractmethod
    def n_weights(self) -> int:
        """Number of columns plus one."""

    @abstractmethod
    def outputs(self, weights: FloatArray, cost: FloatArray, out: FloatArray) -> None:
        """Fill ``out`` (n_rows,) with the products of the rows whose ``cost`` is 0."""

    @abstractmethod
    def values(self, weights: FloatArray) -> FloatArray:
        """(n_rows, n_functions) products with all columns of ``weights`` (n_weights, ...)."""

    @abstractmethod
    def adjoint(self, residual: FloatArray) -> FloatArray:
        """(n_weights,) sum of the rows, each times its residual (n_rows,)."""

    @abstractmethod
    def normal(self, direction: FloatArray, cost: FloatArray) -> tuple[FloatArray, FloatArray]:
        """X direction, 0 where ``cost`` (n_rows,) is 0, and X' cost X direction."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatrixRows(LinearRows):
    """Rows of a matrix in memory or mapped, in parts; results do not depend on ``parallel``."""

    matrix: Any  # (n_rows, n_columns) csr_array or array, float32 or float64; not copied
    parallel: Parallel = map

    @property
    def n_weights(self) -> int:
        """Number of columns plus one."""
        return int(self.matrix.shape[1]) + 1

    def outputs(self, weights: FloatArray, cost: FloatArray, out: FloatArray) -> None:
        """Fill ``out`` with the products of the rows whose ``cost`` is 0."""
        self.passes.count += 1
        self._run_parts(lambda part: self._fill(part, weights, cost, out))

    def adjoint(self, residual: FloatArray) -> FloatArray:
        """Sum of the rows, each times its residual."""
        self.passes.count += 1
        return _sum(self._run_parts(lambda part: self._adjoint(part, residual)))

    def normal(self, direction: FloatArray, cost: FloatArray) -> tuple[FloatArray, FloatArray]:
        """X direction where there is a cost, and X' cost X direction."""
        self.passes.count += 1
        products = np.zeros(self.n_rows)
        sums = self._run_parts(lambda part: self._normal(part, direction, cost, products))
        return products, _sum(sums)

    def _run_parts(self, task: Callable[[slice], Any]) -> list[Any]:
        """Results of a task for each part; a single part is not handed to a thread."""
        n_parts = max(1, min(_N_RANGES, self._most_parts()))
        cuts = [self.n_rows * r // n_parts for r in range(n_parts + 1)]
        parallel = map if n_parts == 1 else self.parallel
        return list(parallel(lambda r: task(slice(cuts[r], cuts[r + 1])), range(n_parts)))

    @abstractmethod
    def _most_parts(self) -> int:
        """Parts that a pass is worth dividing into, by size alone."""

    @abstractmethod
    def _fill(self, part: slice, weights: FloatArray, cost: FloatArray, out: FloatArray) -> None:
        """`outputs` of one part."""

    @abstractmethod
    def _adjoint(self, part: slice, residual: FloatArray) -> FloatArray:
        """`adjoint` of one part."""

    @abstractmethod
    def _normal(
        self, part: slice, direction: FloatArray, cost: FloatArray, products: FloatArray
    ) -> FloatArray:
        """`normal` of one part, whose products are filled."""


class SparseRows(MatrixRows):
    """Rows of a CSR matrix, by kernels that do not copy it."""

    __slots__ = ()

    def values(self, weights: FloatArray) -> FloatArray:
        """Products with all columns of the weights."""
        self.passes.count += 1
        products, everywhere = np.empty((weights.shape[1], self.n_rows)), np.zeros(self.n_rows)
        for own, out in zip(np.ascontiguousarray(weights.T), products, strict=True):
            self._run_parts(partial(self._fill, weights=own, cost=everywhere, out=out))
        return np.ascontiguousarray(products.T)

    def _fill(self, part: slice, weights: FloatArray, cost: FloatArray, out: FloatArray) -> None:
        output_rows(*self._arrays(), cost, weights, out, part.start, part.stop)

    def _adjoint(self, part: slice, residual: FloatArray) -> FloatArray:
        total = np.zeros(self.n_weights)
        adjoint_rows(*self._arrays(), residual, total, part.start, part.stop)
        return total

    def _normal(
        self, part: slice, direction: FloatArray, cost: FloatArray, products: FloatArray
    ) -> FloatArray:
        total, vectors = np.zeros(self.n_weights), (cost, direction, products)
        normal_rows(*self._arrays(), *vectors, total, part.start, part.stop)
        return total

    def _arrays(self) -> tuple[Any, Any, Any, FloatArray, float]:
        """The first arguments of the kernels."""
        starts, indices, data = frozen_all(
            self.matrix.indptr, self.matrix.indices, self.matrix.data
        )
        return starts, indices, data, self.scale, self.form.constant

    def _most_parts(self) -> int:
        # each part has a sum of its own, which must stay small beside the rows
        return int(self.matrix.indptr[-1]) // max(_LEAST_WORK, 4 * self.n_weights)


class DenseRows(MatrixRows):
    """Rows of an array, a few at a time as float64."""

    __slots__ = ()

    def values(self, weights: FloatArray) -> FloatArray:
        """Products with all columns of the weights."""
        self.passes.count += 1
        products = np.empty((self.n_rows, weights.shape[1]))

        def fill(part: slice) -> None:
            for place in self._chunks(part):
                products[place] = self._chunk(place) @ weights[:-1]

        self._run_parts(fill)
        products += self.form.constant * weights[-1]
        return products

    def _fill(self, part: slice, weights: FloatArray, cost: FloatArray, out: FloatArray) -> None:
        for place in self._chunks(part):
            missing = cost[place] == 0.0
            if missing.any():
                products = self._chunk(place) @ weights[:-1] + self.form.constant * weights[-1]
                out[place] = np.where(missing, products, out[place])

    def _adjoint(self, part: slice, residual: FloatArray) -> FloatArray:
        total = np.zeros(self.n_weights)
        for place in self._chunks(part):
            if residual[place].any():
                total[:-1] += residual[place] @ self._chunk(place)
                total[-1] += self.form.constant * residual[place].sum()
        return total

    def _normal(
        self, part: slice, direction: FloatArray, cost: FloatArray, products: FloatArray
    ) -> FloatArray:
        total = np.zeros(self.n_weights)
        for place in self._chunks(part):
            if not cost[place].any():
                continue
            chunk = self._chunk(place)
            own = chunk @ direction[:-1] + self.form.constant * direction[-1]
            products[place] = np.where(cost[place] == 0.0, 0.0, own)
            weighed = cost[place] * own
            total[:-1] += weighed @ chunk
            total[-1] += self.form.constant * weighed.sum()
        return total

    def _chunk(self, place: slice) -> FloatArray:
        chunk = np.asarray(self.matrix[place], np.float64)
        if self.form.center.size:
            chunk = chunk - self.form.center
        return chunk * self.scale[place, None]

    def _chunks(self, part: slice) -> list[slice]:
        step = max(1, _CHUNK_BYTES // (8 * self.n_weights))
        starts = range(part.start, part.stop, step)
        return [slice(at, min(at + step, part.stop)) for at in starts]

    def _most_parts(self) -> int:
        return self.n_rows * self.n_weights // _LEAST_WORK


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamedRows(LinearRows):
    """Rows that do not fit in memory: every pass reads them anew, a block at a time."""

    source: Rows

    @property
    def n_weights(self) -> int:
        """Number of columns plus one."""
        return self.source.n_columns + 1

    def outputs(self, weights: FloatArray, cost: FloatArray, out: FloatArray) -> None:
        """Fill ``out`` with the products of the rows whose ``cost`` is 0."""
        self.passes.count += 1
        for place, block in self.source.blocks():
            self._rows(place, block).outputs(weights, cost[place], out[place])

    def values(self, weights: FloatArray) -> FloatArray:
        """Products with all columns of the weights."""
        self.passes.count += 1
        products = np.empty((self.n_rows, weights.shape[1]))
        for place, block in self.source.blocks():
            products[place] = self._rows(place, block).values(weights)
        return products

    def adjoint(self, residual: FloatArray) -> FloatArray:
        """Sum of the rows, each times its residual."""
        self.passes.count += 1
        total = np.zeros(self.n_weights)
        for place, block in self.source.blocks():
            total += self._rows(place, block).adjoint(residual[place])
        return total

    def normal(self, direction: FloatArray, cost: FloatArray) -> tuple[FloatArray, FloatArray]:
        """X direction where there is a cost, and X' cost X direction."""
        self.passes.count += 1
        products, total = np.empty(self.n_rows), np.zeros(self.n_weights)
        for place, block in self.source.blocks():
            products[place], added = self._rows(place, block).normal(direction, cost[place])
            total += added
        return products, total

    def _rows(self, place: slice, block: Any) -> LinearRows:
        return rows_of(block, self.scale[place], self.form)


def some_of(rows: MatrixRows, places: IntArray) -> MatrixRows:
    """A copy of some of the rows."""
    return replace(rows, matrix=rows.matrix[places], scale=rows.scale[places], passes=Passes())


def rows_of(
    matrix: Any, scale: FloatArray, form: RowScaling, parallel: Parallel = map
) -> MatrixRows:
    """Rows in memory or mapped."""
    if sp.issparse(matrix):
        return SparseRows(matrix=matrix, scale=scale, form=form, parallel=parallel)
    return DenseRows(matrix=matrix, scale=scale, form=form, parallel=parallel)


def _sum(parts: list[FloatArray]) -> FloatArray:
    """Sum in the order of the parts."""
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total
