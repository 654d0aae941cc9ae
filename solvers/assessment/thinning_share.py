"""Thinning share: labels that the random choice of edges decided, without reading more edges (B27).

A sparsifier holds each edge with a random weight w, of relative variance q by its coins. Other
coins would give other weights, w + dw; to first order the columns f of a linear system
``(L + S) f = b`` then move by ``df = -(L + S)^-1 dL f``. One draw of dw, normal of variance w^2 q,
and one solve of few digits in memory show which labels that changes: single nodes that lean on few
edges as well as whole classes that shift. As f contains such a change already, f is shrunk by it:
where coins made nearly all of f, its labels say nothing. The estimate misses what the coins erased,
such as where hardly more than a spanning forest was kept.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray, Int32Array, frozen_all
from peewit.solvers.graph import Graph
from peewit.solvers.kernels.edge_pulls import add_pulls
from peewit.solvers.laplacian.solver import LaplacianSolver
from peewit.solvers.row_ranges import row_blocks
from peewit.solvers.solution import Decisive
from peewit.solvers.status import Status

TOO_MUCH: Final = 0.02
"""Share above which a warning follows."""

_TELLING: Final = 0.25
"""Least informative share where more is possible: of .06 estimated, half have changed."""

_RTOL: Final = 3e-2
_MAX_ITER: Final = 1_000
_COLUMNS: Final = 16
"""Classes solved for together, which bounds the memory."""


class ThinnedEdges(NamedTuple):
    """Some edges of a sparsifier: ends, weights, and their relative variances over the coins."""

    u: Int32Array
    v: Int32Array
    weight: FloatArray
    relative: Float32Array


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinningShare:
    """Share of the labels that other coins would change."""

    share: float  # of the labels of reached nodes, in [0, 1]
    column: str  # what decides: the scores, or a part of a composite answer
    is_most: bool = False  # an upper bound: hardly more labels are wrong
    is_least: bool = False  # a lower bound: without a promised error coins may have erased more

    @property
    def is_much(self) -> bool:
        """Whether to warn of it."""
        return self.share > TOO_MUCH or (self.is_least and not self.is_most)

    @property
    def is_unknown(self) -> bool:
        """Whether the true share may be anything."""
        return self.is_least and not self.is_most and self.share < _TELLING

    def where_right(self, accuracy: float) -> "ThinningShare":
        """An upper bound where this accuracy holds, and would hold with all edges (B27)."""
        most = 2.0 * (1.0 - accuracy)
        is_lower = most < self.share or (self.is_unknown and most < _TELLING)
        return replace(self, share=most, is_most=True) if is_lower else self


def thinning_share(
    decisive: Decisive,
    graph: Graph,
    edges: Callable[[], Iterable[ThinnedEdges]],
    *,
    seed: int,
    cancelled: Callable[[], bool] = lambda: False,
) -> ThinningShare | None:
    """Share of the labels that other coins would change; None if the solve fails or is stopped.

    Parameters
    ----------
    decisive : Decisive
        Columns whose largest entry decides the class of a node.
    graph : Graph
        The sparsifier.
    edges : callable
        Its edges in parts, each edge once, in the same order in every call.
    seed : int
        Of the other coins.
    """
    n_nodes, n_classes = decisive.values.shape
    nothing = ThinningShare(share=0.0, column=decisive.name)
    if n_classes < 2 or not decisive.is_free.any():
        return nothing
    solver = LaplacianSolver(
        graph,
        shift=decisive.shift,
        zero_mean=not decisive.is_held,
        rtol=_RTOL,
        max_iter=_MAX_ITER,
        hierarchy=decisive.hierarchy,
    )
    change = np.empty((n_nodes, n_classes), np.float32)
    for first in range(0, n_classes, _COLUMNS):
        some = slice(first, first + _COLUMNS)
        values = np.ascontiguousarray(decisive.values[:, some], np.float64)
        pull, rng = np.zeros_like(values), np.random.default_rng(seed)
        for part in edges():
            other = rng.standard_normal(part.u.size) * part.weight * np.sqrt(part.relative)
            u, v, weight, columns = frozen_all(part.u, part.v, other, values)
            add_pulls(u, v, weight, columns, pull)
        if first == 0 and not pull.any():
            return nothing
        moved = solver.solve(-pull, project=True, cancelled=cancelled)
        if moved.status is not Status.CONVERGED:
            return None
        change[:, some] = moved.x
    scale = np.sqrt(_share_of_signal(decisive, change))
    n_changed = 0
    for rows in row_blocks(n_nodes):
        values = np.asarray(decisive.values[rows])
        is_other = (scale * values + change[rows]).argmax(axis=1) != values.argmax(axis=1)
        n_changed += int(np.count_nonzero(is_other & decisive.is_free[rows]))
    n_reached = max(int(np.count_nonzero(decisive.is_reached)), 1)
    return ThinningShare(share=n_changed / n_reached, column=decisive.name)


def _share_of_signal(decisive: Decisive, change: Float32Array) -> float:
    """Part of the differences between usual nodes that the coins did not make."""
    variances: list[FloatArray] = []
    noise: list[FloatArray] = []
    for rows in row_blocks(len(change)):
        is_free = decisive.is_free[rows]
        for spreads, columns in ((variances, decisive.values), (noise, change)):
            some = np.asarray(columns[rows][is_free], np.float64)
            spreads.append(some.var(axis=1))
    whole = float(np.median(np.concatenate(variances)))
    return max(0.0, 1.0 - float(np.median(np.concatenate(noise))) / whole) if whole > 0 else 0.0
