"""The penalty's inverse by conjugate gradients, for spaces in which nothing is factored (E17)."""

from collections.abc import Callable
from typing import Final

import numpy as np

from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.gram.feature_spaces import symmetric
from peewit.solvers.gram.space_base import Space
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.laplacian.iterated_laplacian import IteratedLaplacian

_CHUNK_COLUMNS: Final = 32
_MAX_ITER: Final = 2_000
_RTOL: Final = 1e-8
"""Size of the residual in the space, relative to that of the right-hand side."""


class IterativeInverse:
    """A^{-1} of A = norm_penalty I + graph_penalty (adjoint L^p values), in a space of any kind.

    A is self-adjoint and positive in the inner product of the space, in which the steps are
    conjugate: in K's, if coefficients are those of kernel columns. One product with the Gram matrix
    and one with L^p a step. ``watch`` is asked in every step, and may be another for each solve.
    """

    def __init__(
        self,
        space: Space,
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
        """Coefficients A^{-1} residual; ``is_accurate`` is False from then on if they are not."""
        right = self.space.adjoint(residual)
        coef, values = np.zeros_like(right), self.space.values(right)
        rest = right.copy()
        rest_values = values
        size = self.space.inner(rest, rest, rest_values)
        limit = _RTOL**2 * size
        direction, direction_values = rest.copy(), rest_values.copy()
        for _ in range(_MAX_ITER):
            is_live = size > limit
            if not is_live.any():
                break
            self.watch.check()
            moved = self._norm_penalty * direction + self._graph_penalty * self.space.adjoint(
                np.asarray(self._laplacian.product(direction_values), np.float64)
            )
            curvature = self.space.inner(moved, direction, direction_values)
            step = np.divide(size, curvature, out=np.zeros_like(size), where=is_live)
            coef += step * direction
            rest -= step * moved
            rest_values = self.space.values(rest)
            before, size = size, self.space.inner(rest, rest, rest_values)
            share = np.divide(size, before, out=np.zeros_like(size), where=is_live)
            direction = rest + share * direction
            direction_values = rest_values + share * direction_values
        self.is_accurate &= bool((size <= limit).all())
        return coef

    def _spread(self, nodes: Int64Array, dual: FloatArray) -> FloatArray:
        residual = np.zeros((self.space.n_rows, dual.shape[1]))
        residual[nodes] = dual
        return self.apply(residual)
