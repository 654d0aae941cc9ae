"""Replicas of a snapshot: sparsifiers as other coins might have left them.

A record that was kept with probability p has the conductance w / p. A replica multiplies it by a
number of mean 1 and variance 1 - p (B26), so that replicas are as far from the snapshot as the
snapshot is from the graph; edges of probability 1 stay as they are. Coins of a sparsifier are
dependent and even out degrees; those of replicas are independent, and err a little more.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from peewit.solvers.graph import Graph
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.snapshots.variances import VARIANCES

_LEAST: Final = 1e-6
"""Least factor of a conductance, so that a replica has the edges of its snapshot."""


class VariancesNotKept(LookupError):
    """The snapshot has no variances of its conductances."""


def replicas(
    snapshots: SnapshotStore, number: int, n_replicas: int, *, seed: int = 0
) -> Iterator[Graph]:
    """Replicas of a snapshot, one after another; equal to it where every edge was kept.

    Raises `SnapshotNotFound`, and `VariancesNotKept` of a snapshot from which nodes were erased.
    """
    meta, edges = snapshots.meta(number), snapshots.edges(number)
    u, v, weight = (edges[name].to_numpy() for name in ("u", "v", "weight"))
    thrown = np.zeros(0, np.int64)
    relative = np.zeros(0)
    if meta.sampling_constant is not None:
        try:
            variances = np.load(snapshots.companion(number, VARIANCES), allow_pickle=False)
        except FileNotFoundError:
            raise VariancesNotKept(
                f"snapshot {number} does not say how far its weights may be off, as nodes were "
                "erased since; solve again on a newer one"
            ) from None
        thrown = np.flatnonzero(variances > 0.0)
        relative = variances[thrown].astype(np.float64)
    for place in range(n_replicas):
        rng = np.random.default_rng([seed, number, place])
        other = weight.copy()
        other[thrown] *= np.maximum(rng.gamma(1.0 / relative, relative), _LEAST)
        yield Graph.from_edges(u, v, other, n_nodes=meta.n_nodes)
