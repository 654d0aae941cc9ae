"""Stability of an answer: whether other coins of the sparsifier would lead to another class."""

from collections.abc import Callable
from typing import Any

import numpy as np

from peewit.service.tasks.progress import StoppedEarly
from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import Float32Array
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Cancelled, Progress
from peewit.solvers.labels import Labels
from peewit.solvers.models.contract.model import Model
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status
from peewit.streaming.snapshots.replicas import VariancesNotKept, replicas
from peewit.streaming.snapshots.store import SnapshotMeta, SnapshotStore


def stability(
    model: Model,
    labels: Labels,
    solution: Solution,
    *,
    read: Callable[[Solution], Solution],
    snapshots: SnapshotStore,
    snapshot: SnapshotMeta,
    n_replicas: int,
    prepare: Callable[[Graph], Any],
    progress: Progress,
    cancelled: Cancelled,
) -> tuple[Float32Array, dict[str, Any]]:
    """Share of the replicas in which each node has the same class, and the job's figures.

    Parameters
    ----------
    model, labels, solution
        The answer on the snapshot.
    read : callable
        From a solution to the one that people see.
    snapshots, snapshot
        Of the graph, and the one that was solved.
    n_replicas : int
    prepare : callable
        Prepares the model on a replica.
    progress, cancelled
        As in `peewit.solvers.iteration_loop.iterate`.

    Returns
    -------
    (n_nodes,) float32
    dict
        ``n_replicas``, and ``n_unstable`` nodes that have another class in one of them.

    Raises
    ------
    ValueError
        The snapshot does not say how far its weights may be off.
    """
    classes = read(solution).scores.argmax(axis=1)
    n_same = np.zeros(classes.size, np.float32)
    if snapshot.sampling_constant is None:  # every edge was kept: no coin was thrown
        n_same += n_replicas
    else:
        try:
            for graph in replicas(snapshots, snapshot.number, n_replicas):
                found = model.solve(prepare(graph), labels, progress=progress, cancelled=cancelled)
                if found.status is Status.CANCELLED:
                    raise StoppedEarly
                n_same += read(found).scores.argmax(axis=1) == classes
        except VariancesNotKept as error:
            raise BadArgument("replicas", f"cannot be made: {error}") from error
    same: Float32Array = (n_same / n_replicas).astype(np.float32)
    is_unstable = solution.reachable & (same < 1.0)
    return same, {"n_replicas": n_replicas, "n_unstable": int(np.count_nonzero(is_unstable))}
