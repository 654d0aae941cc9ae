"""Kernel functions: Gaussian, polynomial, linear and of compact support, in one unit of length.

Rows are divided by ``width`` once; a block of a Gram matrix is then one matrix product and one pass
over its entries.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from peewit.solvers.arrays import FloatArray, RealArray
from peewit.solvers.features import Rows
from peewit.solvers.neighbors.distances import euclidean_distances
from peewit.solvers.row_ranges import Parallel

KernelName = Literal["gaussian", "polynomial", "linear", "wendland"]
KERNELS: tuple[KernelName, ...] = ("gaussian", "polynomial", "linear", "wendland")

_WIDTH_ROWS = 1024
_WIDTH_SHARE = 0.7
_CACHED_ENTRIES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KernelFunction:
    """A kernel with its parameters; build it with `fitted`.

    Gaussian: exp(-|x - z|^2 / (2 width^2)); polynomial: ((1 + <x, z> / width^2) / 2)^degree;
    linear: <x, z> / width^2; wendland: (1 - r)_+^(l + 1) ((l + 1) r + 1) for r = |x - z| / (width
    `support`), which is positive definite, twice differentiable and near 0 the Gaussian. ``degree``
    is that of the polynomial, or l of (E15). ``center`` (n_columns,) is subtracted from dense rows
    of kernels of distances, which changes them by rounding only; else it is empty.

    References
    ----------
    Wendland, Piecewise polynomial, positive definite and compactly supported radial functions of
    minimal degree, Advances in Computational Mathematics 4, 1995.
    """

    name: KernelName
    width: float  # unit of length of the features, > 0
    degree: int
    center: FloatArray

    @classmethod
    def fitted(
        cls, name: KernelName, rows: Rows, *, width: float | None, degree: int
    ) -> "KernelFunction":
        """The kernel for ``rows``; a ``width`` of None is found from them.

        Notes
        -----
        The width found is 0.7 of the mean distance of two rows for kernels of distances, else the
        root of the mean squared length, of 1,024 rows drawn with a fixed seed; 1 where that is 0.
        0.7 is the middle of the shares (0.35 to 1) that serve digits, news and Gaussian clouds
        alike.
        """
        places = np.arange(rows.n_rows)
        if rows.n_rows > _WIDTH_ROWS:
            drawn = np.random.default_rng(0).choice(rows.n_rows, _WIDTH_ROWS, replace=False)
            places = np.sort(drawn)
        sample = rows.take(places).astype(np.float64)
        center = np.zeros(0)
        is_of_distances = name in {"gaussian", "wendland"}
        if is_of_distances and not rows.is_sparse:
            center = np.asarray(sample).mean(axis=0)
        if width is None:
            width = _width(sample) if is_of_distances else _root_mean_square(sample)
        if not np.isfinite(width):
            raise ValueError(
                f"features must have lengths that a float can hold, got a width of {width}; "
                "scale them down"
            )
        if name == "wendland":
            degree = rows.n_columns // 2 + 2  # (E15)
        return cls(name=name, width=float(width), degree=degree, center=center)

    @property
    def support(self) -> float:
        """Distance, in units of ``width``, from which a kernel of compact support is 0."""
        return float(np.sqrt((self.degree + 1.0) * (self.degree + 2.0)))

    def scaled(self, values: Any, dtype: Any) -> "ScaledRows":
        """``values`` in the unit of the kernel, as `block` takes them.

        Sparse values stay sparse unless a center is subtracted.
        """
        if sp.issparse(values) and self.center.size:
            values = values.toarray()
        if sp.issparse(values):
            scaled = (sp.csr_array(values) / self.width).astype(dtype)
            half = 0.5 * np.asarray(scaled.multiply(scaled).sum(axis=1)).ravel()
        else:
            # in the precision of the features: float32 may hold them only after scaling
            scaled = np.array(values, order="C")
            if self.center.size:
                scaled -= self.center.astype(scaled.dtype)
            scaled /= self.width
            scaled = scaled.astype(dtype, copy=False)
            half = 0.5 * np.einsum("ij,ij->i", scaled, scaled)
        return ScaledRows(values=scaled, half_squares=half.astype(dtype))

    def block(
        self,
        rows: "ScaledRows",
        others: "ScaledRows",
        *,
        out: RealArray | None = None,
        parallel: Parallel = map,
    ) -> RealArray:
        """Kernel of all ``rows`` with all ``others``, (n_rows, n_others), in their dtype."""
        if out is None:
            out = np.empty((rows.n_rows, others.n_rows), rows.half_squares.dtype)
        if sp.issparse(rows.values) or sp.issparse(others.values):
            products = rows.values @ others.values.T
            out[:] = products.toarray() if sp.issparse(products) else products
        else:
            np.matmul(rows.values, others.values.T, out=out)
        n_rows = max(1, _CACHED_ENTRIES // max(1, out.shape[1]))

        def finish(part: int) -> None:
            place = slice(part * n_rows, (part + 1) * n_rows)
            self._finish(out[place], rows.half_squares[place], others.half_squares)

        if self.name != "linear":
            list(parallel(finish, range(-(-out.shape[0] // n_rows))))
        return out

    def of_distances(self, distances: RealArray) -> RealArray:
        """Wendland's function of distances in units of ``width``."""
        shares = distances / self.support
        power = self.degree + 1
        return np.asarray(np.maximum(1.0 - shares, 0.0) ** power * (power * shares + 1.0))

    def _finish(self, products: RealArray, half_rows: RealArray, half_others: RealArray) -> None:
        """Turn inner products into the kernel, in place."""
        if self.name in {"gaussian", "wendland"}:
            products -= half_rows[:, None]
            products -= half_others
            np.minimum(products, 0.0, out=products)
            if self.name == "gaussian":
                np.exp(products, out=products)
            else:
                products[:] = self.of_distances(np.sqrt(-2.0 * products))
            return
        products += 1.0
        products *= 0.5
        base = products.copy()
        for digit in bin(self.degree)[3:]:  # by squaring, from the second binary digit on
            np.square(products, out=products)
            if digit == "1":
                products *= base


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScaledRows:
    """Rows in the unit of a kernel; from `KernelFunction.scaled`."""

    values: Any  # (n_rows, n_columns) array or csr_array
    half_squares: RealArray  # (n_rows,) half of their squared lengths

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.values.shape[0])

    def __getitem__(self, places: Any) -> "ScaledRows":
        """Some of the rows."""
        return ScaledRows(values=self.values[places], half_squares=self.half_squares[places])


def _width(sample: Any) -> float:
    """A share of the mean Euclidean distance of two different rows; 1 where all are equal."""
    largest = float(abs(sample).max())
    n_pairs = sample.shape[0] * (sample.shape[0] - 1)
    total = float(euclidean_distances(sample / largest).sum()) if largest > 0 else 0.0
    return _WIDTH_SHARE * largest * (total / n_pairs) if total > 0 else 1.0


def _root_mean_square(sample: Any) -> float:
    """Root of the mean squared length of the rows; 1 where all are 0."""
    largest = float(abs(sample).max())
    if largest == 0:
        return 1.0
    rows = sample / largest
    squares = rows.multiply(rows) if sp.issparse(rows) else np.square(rows)
    return largest * float(np.sqrt(float(squares.sum()) / rows.shape[0]))
