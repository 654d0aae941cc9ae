"""Share of the labels that the choice of edges decided, told without reading one edge more (B27).

A sparsifier holds each edge with a weight w that coins have made, of relative variance q. Other
coins would have made other weights, w + dw; to first order the columns f of a linear system
``(L + S) f = b`` then move by ``df = -(L + S)^-1 dL f``. One draw of dw, normal of variance w^2 q,
and one solve of few digits in memory tell which labels that changes: single nodes that lean on few
edges as well as whole classes that shift. It is an estimate: what the coins left nothing of, as
where hardly more than a spanning forest was kept, it does not see.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray, Int32Array, frozen_all
from peewit.solvers.graph import Graph
from peewit.solvers.kernels.edge_pulls import add_pulls
from peewit.solvers.laplacian.solver import LaplacianSolver
from peewit.solvers.solution import Decisive
from peewit.solvers.status import Status

TOO_MUCH: Final = 0.02
"""Share from which on it is warned of."""

_RTOL: Final = 3e-2
_MAX_ITER: Final = 1_000
_COLUMNS: Final = 16
"""Classes that are solved for together: memory is that of so many."""


class ThinnedEdges(NamedTuple):
    """Some edges of a sparsifier: ends, weights, and their relative variances over the coins."""

    u: Int32Array
    v: Int32Array
    weight: FloatArray
    relative: Float32Array


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinningShare:
    """What other coins would have decided otherwise.

    Attributes
    ----------
    share : float
        Of the labels of reached nodes, in [0, 1].
    column : str
        By what: the scores, or a part of the answer where that is made of several.
    """

    share: float
    column: str

    @property
    def is_much(self) -> bool:
        """Whether it is to be warned of."""
        return self.share > TOO_MUCH


def thinning_share(
    decisive: Decisive,
    graph: Graph,
    edges: Callable[[], Iterable[ThinnedEdges]],
    *,
    seed: int,
    cancelled: Callable[[], bool] = lambda: False,
) -> ThinningShare | None:
    """Share of the labels that other coins would change; None where the solve fails or is stopped.

    Parameters
    ----------
    decisive : Decisive
        Columns whose largest tells the class of a node.
    graph : Graph
        The sparsifier.
    edges : callable
        Its edges in parts, each edge once, in the same order whenever it is called.
    seed : int
        Of the other coins.
    cancelled : callable
        Asked between steps.
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
    winner, best = np.zeros(n_nodes, np.int32), np.full(n_nodes, -np.inf)
    for first in range(0, n_classes, _COLUMNS):
        some = decisive.values[:, first : first + _COLUMNS]
        values = np.array(some, dtype=np.float64, order="C")  # a copy: it is moved below
        pull, rng = np.zeros_like(values), np.random.default_rng(seed)
        for each in edges():
            change = rng.standard_normal(each.u.size) * each.weight * np.sqrt(each.relative)
            u, v, weight, columns = frozen_all(each.u, each.v, change, values)
            add_pulls(u, v, weight, columns, pull)
        if first == 0 and not pull.any():
            return nothing
        moved = solver.solve(-pull, project=True, cancelled=cancelled)
        if moved.status is not Status.CONVERGED:
            return None
        values += moved.x
        own = values.max(axis=1)
        is_better = own > best
        winner[is_better] = first + values.argmax(axis=1)[is_better]
        best[is_better] = own[is_better]
    was = np.asarray(decisive.values).argmax(axis=1)
    n_changed = np.count_nonzero((winner != was) & decisive.is_free)
    n_reached = max(int(np.count_nonzero(decisive.is_reached)), 1)
    return ThinningShare(share=n_changed / n_reached, column=decisive.name)
