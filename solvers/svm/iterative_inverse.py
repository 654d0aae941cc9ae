"""The penalty's inverse by conjugate gradients, for spaces in which nothing is factored (E17)."""

from collections.abc import Callable
from typing import Final

import numpy as np

from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.gram.feature_spaces import symmetric
from peewit.solvers.gram.sparse_spaces import LocalMap, SparseGram
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.laplacian.iterated_laplacian import IteratedLaplacian

_CHUNK_COLUMNS: Final = 32
_MAX_ITER: Final = 2_000
_MAX_RUNS: Final = 3
_RTOL: Final = 1e-8
"""Size of the residual in the space at which a run ends, as a part of the right-hand side's."""
_ACCEPTED: Final = {np.dtype(np.float64): 1e-6, np.dtype(np.float32): 1e-3}
"""What of it, made anew, still counts as accurate, by the precision of the space's products."""


class IterativeInverse:
    """A^{-1} of A = norm_penalty I + graph_penalty (adjoint L^p values), in a space of many nodes.

    A is self-adjoint and positive in the inner product of the space, in which the steps are
    conjugate: in K's, if coefficients are those of kernel columns. One product with the Gram matrix
    and one with L^p a step. ``watch`` is asked in every step, and may be another for each solve.
    """

    def __init__(
        self,
        space: SparseGram | LocalMap,
        laplacian: IteratedLaplacian,
        norm_penalty: float,
        graph_penalty: float,
        *,
        watch: Watch,
    ) -> None:
        self.space = space
        self.is_accurate = True
        self._laplacian = laplacian
        self._norm_penalty, self._graph_penalty = norm_penalty, graph_penalty
        self.watch = watch
        self._at: tuple[bytes, FloatArray, bool] | None = None

    def at(self, nodes: Int64Array) -> tuple[FloatArray, Callable[[FloatArray], FloatArray]]:
        """The labeled kernel by one solve for each label, some at a time; see `PenaltyInverse`."""
        key = nodes.tobytes()
        if self._at is None or self._at[0] != key:
            self.is_accurate = True
            kernel = np.empty((nodes.size, nodes.size))
            for start in range(0, nodes.size, _CHUNK_COLUMNS):
                self.watch.step("labels", start, nodes.size)
                some = nodes[start : start + _CHUNK_COLUMNS]
                coef = self._spread(some, np.eye(some.size))
                kernel[:, start : start + some.size] = self.space.values(coef)[nodes]
            self._at = key, symmetric(kernel), self.is_accurate
        self.is_accurate = self._at[2]
        return self._at[1], lambda dual: self._spread(nodes, dual)

    def apply(self, residual: FloatArray) -> FloatArray:
        """Coefficients A^{-1} residual; ``is_accurate`` is False from then on if they are not.

        The residual of a run is a sum of steps, from which rounding parts the true one: that is
        made anew after each run, ends or begins another, and alone says what is accurate.
        """
        right = self.space.adjoint(residual)
        coef, rest = np.zeros_like(right), right
        scale = size = self._square(rest)
        for _ in range(_MAX_RUNS):
            if not (size > _RTOL**2 * scale).any():
                break
            coef += self._run(rest, _RTOL**2 * scale)
            rest = right - self._product(coef, self.space.values(coef))
            size = self._square(rest)
        self.is_accurate &= bool((size <= _ACCEPTED[self.space.dtype] ** 2 * scale).all())
        return coef

    def _run(self, right: FloatArray, limit: FloatArray) -> FloatArray:
        """Conjugate steps from 0 until the squared size of every column's residual is in limit."""
        coef, rest, rest_values = np.zeros_like(right), right.copy(), self.space.values(right)
        size = self.space.inner(rest, rest, rest_values)
        direction, direction_values = rest.copy(), rest_values.copy()
        for _ in range(_MAX_ITER):
            is_live = size > limit
            if not is_live.any():
                break
            self.watch.check()
            moved = self._product(direction, direction_values)
            curvature = self.space.inner(moved, direction, direction_values)
            step = np.divide(size, curvature, out=np.zeros_like(size), where=is_live)
            coef += step * direction
            rest -= step * moved
            rest_values = self.space.values(rest)
            before, size = size, self.space.inner(rest, rest, rest_values)
            share = np.divide(size, before, out=np.zeros_like(size), where=is_live)
            direction = rest + share * direction
            direction_values = rest_values + share * direction_values
        return coef

    def _product(self, coef: FloatArray, values: FloatArray) -> FloatArray:
        """A coef, of functions with these values at the nodes."""
        smooth = np.asarray(self._laplacian.product(values), np.float64)
        return self._norm_penalty * coef + self._graph_penalty * self.space.adjoint(smooth)

    def _square(self, coef: FloatArray) -> FloatArray:
        return self.space.inner(coef, coef, self.space.values(coef))

    def _spread(self, nodes: Int64Array, dual: FloatArray) -> FloatArray:
        residual = np.zeros((self.space.n_rows, dual.shape[1]))
        residual[nodes] = dual
        return self.apply(residual)
