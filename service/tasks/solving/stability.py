"""Stability of an answer: how often other samples of the sparsifier lead to the same class."""

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

    ``read`` turns a solution into the one that people see; ``prepare`` prepares the model on a
    replica. Raises ValueError if the snapshot does not keep the variances of its weights.

    Returns
    -------
    (n_nodes,) float32
    dict
        ``n_replicas``, and ``n_unstable`` nodes that have another class in one of them.
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
