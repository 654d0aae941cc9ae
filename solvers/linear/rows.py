"""Products with rows of features that are in memory, mapped from files, or read anew in each pass.

Context: a Newton step needs X p and X' C X p, again and again, of rows that may not fit in memory.
Decision: what is asked of rows is one pass that gives both, and nothing copies, scales or joins
them; unit length and the constant feature are factors beside the rows. Consequence: conjugate
gradients on the normal equations need one pass for each iteration, where CGLS as printed needs two.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import scipy.sparse as sp

from peewit.solvers.arrays import FloatArray, IntArray
from peewit.solvers.features import Rows
from peewit.solvers.kernels.sparse_rows import adjoint_rows, normal_rows, output_rows
from peewit.solvers.linear.row_form import RowForm
from peewit.solvers.parallel import Parallel

_N_RANGES: Final = 8
_LEAST_WORK: Final = 1 << 17
"""Entries from which a pass is worth dividing among threads."""

_CHUNK_BYTES: Final = 1 << 18
"""Of dense rows as float64, so that the second product with them finds them in the cache."""


@dataclass(slots=True, eq=False)
class Passes:
    """How often all rows were gone through."""

    count: int = 0


class LinearRows(Protocol):
    """Rows in a `RowForm`; weights have ``n_weights`` entries, the last of the constant."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def n_weights(self) -> int:
        """One more than there are columns."""

    @property
    def form(self) -> RowForm:
        """What became of the rows."""

    @property
    def passes(self) -> Passes:
        """Counts the calls below."""

    def outputs(self, weights: FloatArray, cost: FloatArray, out: FloatArray) -> None:
        """Fill ``out`` (n_rows,) with the products of the rows whose ``cost`` is 0."""

    def values(self, weights: FloatArray) -> FloatArray:
        """(n_rows, n_functions) products with all columns of ``weights`` (n_weights, ...)."""

    def adjoint(self, residual: FloatArray) -> FloatArray:
        """(n_weights,) sum of the rows, each times its residual (n_rows,)."""

    def normal(self, direction: FloatArray, cost: FloatArray) -> tuple[FloatArray, FloatArray]:
        """X direction, 0 where ``cost`` (n_rows,) is 0, and X' cost X direction."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatrixRows:
    """Rows of a matrix in memory or mapped: what `SparseRows` and `DenseRows` share.

    Attributes
    ----------
    matrix : (n_rows, n_columns) scipy.sparse.csr_array or array
        float32 or float64, read where it lies.
    scale : (n_rows,) float64
        What each row is multiplied by.
    form : RowForm
    parallel : callable
        Runs the parts of a pass; results do not depend on it.
    """

    matrix: Any
    scale: FloatArray
    form: RowForm
    parallel: Parallel = map
    passes: Passes = field(default_factory=Passes)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.matrix.shape[0])

    @property
    def n_weights(self) -> int:
        """One more than there are columns."""
        return int(self.matrix.shape[1]) + 1


class SparseRows(MatrixRows):
    """Rows of a CSR matrix, by kernels that copy none of it."""

    __slots__ = ()

    def outputs(self, weights: FloatArray, cost: FloatArray, out: FloatArray) -> None:
        """Fill ``out`` with the products of the rows whose ``cost`` is 0."""
        self.passes.count += 1
        self._fill(weights, cost, out)

    def _fill(self, weights: FloatArray, cost: FloatArray, out: FloatArray) -> None:
        cuts = self._cuts()
        fill = partial(output_rows, *self._arrays(), cost, weights, out)
        _each(self.parallel, lambda r: fill(cuts[r], cuts[r + 1]), len(cuts) - 1)

    def values(self, weights: FloatArray) -> FloatArray:
        """Products with all columns of the weights."""
        products = np.empty((weights.shape[1], self.n_rows))
        everywhere = np.zeros(self.n_rows)
        for column in range(weights.shape[1]):
            self._fill(np.ascontiguousarray(weights[:, column]), everywhere, products[column])
        self.passes.count += 1
        return np.ascontiguousarray(products.T)

    def adjoint(self, residual: FloatArray) -> FloatArray:
        """Sum of the rows, each times its residual."""
        self.passes.count += 1
        cuts = self._cuts()

        def part(r: int) -> FloatArray:
            total = np.zeros(self.n_weights)
            adjoint_rows(*self._arrays(), residual, total, cuts[r], cuts[r + 1])
            return total

        return _sum(_each(self.parallel, part, len(cuts) - 1))

    def normal(self, direction: FloatArray, cost: FloatArray) -> tuple[FloatArray, FloatArray]:
        """X direction where there is a cost, and X' cost X direction."""
        self.passes.count += 1
        cuts, products = self._cuts(), np.empty(self.n_rows)

        def part(r: int) -> FloatArray:
            total = np.zeros(self.n_weights)
            normal_rows(*self._arrays(), cost, direction, products, total, cuts[r], cuts[r + 1])
            return total

        return products, _sum(_each(self.parallel, part, len(cuts) - 1))

    def _arrays(self) -> tuple[Any, Any, Any, FloatArray, float]:
        """What the kernels take first; mapped arrays as plain ones."""
        starts, indices, data = map(
            np.asarray, (self.matrix.indptr, self.matrix.indices, self.matrix.data)
        )
        return starts, indices, data, self.scale, self.form.constant

    def _cuts(self) -> list[int]:
        """Where the parts of a pass begin and end: a matter of size alone."""
        n_entries = int(self.matrix.indptr[-1])
        # each part has a sum of its own, which must stay small beside the rows
        n_ranges = min(_N_RANGES, n_entries // max(_LEAST_WORK, 4 * self.n_weights))
        return [self.n_rows * r // max(1, n_ranges) for r in range(max(1, n_ranges) + 1)]


class DenseRows(MatrixRows):
    """Rows of an array, a few at a time as float64."""

    __slots__ = ()

    def outputs(self, weights: FloatArray, cost: FloatArray, out: FloatArray) -> None:
        """Fill ``out`` with the products of the rows whose ``cost`` is 0."""
        self.passes.count += 1

        def fill(r: int) -> None:
            for place in self._chunks(r):
                missing = cost[place] == 0.0
                if missing.any():
                    products = self._chunk(place) @ weights[:-1] + self.form.constant * weights[-1]
                    out[place] = np.where(missing, products, out[place])

        _each(self.parallel, fill, self._n_parts())

    def values(self, weights: FloatArray) -> FloatArray:
        """Products with all columns of the weights."""
        self.passes.count += 1
        products = np.empty((self.n_rows, weights.shape[1]))
        for part in range(self._n_parts()):
            for place in self._chunks(part):
                products[place] = self._chunk(place) @ weights[:-1]
        products += self.form.constant * weights[-1]
        return products

    def adjoint(self, residual: FloatArray) -> FloatArray:
        """Sum of the rows, each times its residual."""
        self.passes.count += 1

        def part(r: int) -> FloatArray:
            total = np.zeros(self.n_weights)
            for place in self._chunks(r):
                if residual[place].any():
                    total[:-1] += residual[place] @ self._chunk(place)
                    total[-1] += self.form.constant * residual[place].sum()
            return total

        return _sum(_each(self.parallel, part, self._n_parts()))

    def normal(self, direction: FloatArray, cost: FloatArray) -> tuple[FloatArray, FloatArray]:
        """X direction where there is a cost, and X' cost X direction."""
        self.passes.count += 1
        products = np.zeros(self.n_rows)

        def part(r: int) -> FloatArray:
            total = np.zeros(self.n_weights)
            for place in self._chunks(r):
                if not cost[place].any():
                    continue
                chunk = self._chunk(place)
                own = chunk @ direction[:-1] + self.form.constant * direction[-1]
                products[place] = np.where(cost[place] == 0.0, 0.0, own)
                weighed = cost[place] * own
                total[:-1] += weighed @ chunk
                total[-1] += self.form.constant * weighed.sum()
            return total

        return products, _sum(_each(self.parallel, part, self._n_parts()))

    def _chunk(self, place: slice) -> FloatArray:
        chunk = np.asarray(self.matrix[place], np.float64)
        if self.form.center.size:
            chunk = chunk - self.form.center
        return chunk * self.scale[place, None]

    def _chunks(self, part: int) -> list[slice]:
        step = max(1, _CHUNK_BYTES // (8 * self.n_weights))
        n_parts = self._n_parts()
        start, stop = self.n_rows * part // n_parts, self.n_rows * (part + 1) // n_parts
        return [slice(at, min(at + step, stop)) for at in range(start, stop, step)]

    def _n_parts(self) -> int:
        n_entries = self.n_rows * self.n_weights
        return max(1, min(_N_RANGES, n_entries // _LEAST_WORK))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamedRows:
    """Rows that do not fit in memory: every pass reads them anew, a block at a time.

    Attributes
    ----------
    source : Rows
        Where they are read.
    scale, form
        As of `MatrixRows`.
    """

    source: Rows
    scale: FloatArray
    form: RowForm
    passes: Passes = field(default_factory=Passes)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.source.n_rows

    @property
    def n_weights(self) -> int:
        """One more than there are columns."""
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


HeldRows: TypeAlias = SparseRows | DenseRows
"""Rows of a matrix that is there."""


def some_of(rows: HeldRows, places: IntArray) -> HeldRows:
    """Some of the rows, copied."""
    return replace(rows, matrix=rows.matrix[places], scale=rows.scale[places], passes=Passes())


def rows_of(matrix: Any, scale: FloatArray, form: RowForm, parallel: Parallel = map) -> HeldRows:
    """Rows in memory or mapped."""
    if sp.issparse(matrix):
        return SparseRows(matrix=matrix, scale=scale, form=form, parallel=parallel)
    return DenseRows(matrix=matrix, scale=scale, form=form, parallel=parallel)


def _each(parallel: Parallel, task: Callable[[int], Any], n_parts: int) -> list[Any]:
    """What a task gives for each part; one part alone is not worth handing to a thread."""
    return [task(0)] if n_parts == 1 else list(parallel(task, range(n_parts)))


def _sum(parts: list[FloatArray]) -> FloatArray:
    """In the order of the parts."""
    total = parts[0]
    for each in parts[1:]:
        total += each
    return total
