"""Stability of an answer: how often other samples of the sparsifier lead to the same class."""

import numpy as np

from peewit.service.tasks.progress import StoppedEarly
from peewit.service.tasks.solving.state import Solving
from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import Float32Array
from peewit.solvers.status import Status
from peewit.streaming.snapshots.replicas import VariancesNotKept, replicas


def compare_replicas(solving: Solving) -> None:
    """Add the share of the replicas in which each node has the same class.

    Raises ValueError if the snapshot does not keep the variances of its weights.
    """
    answer, graph, watch = solving.answer, solving.graph, solving.watch
    model, n_replicas, meta = answer.model, solving.options.replicas, graph.snapshot.meta
    classes = solving.shown(answer.solution).classes()
    n_same = np.zeros(classes.size, np.float32)
    if meta.sampling_constant is None:  # every edge was kept: no coin was thrown
        n_same += n_replicas
    else:
        try:
            for replica in replicas(graph.store, meta.number, n_replicas):
                parts = graph.snapshot.graph.parts  # features are smoothed along relations as kept
                replica.keep_parts([part.graph for part in parts], [part.weight for part in parts])
                of_replica = model.solve(
                    solving.graphs.prepared_alone(solving.task, replica, model, graph),
                    answer.labels,
                    progress=watch.progress,
                    cancelled=watch.cancelled,
                )
                if of_replica.status is Status.CANCELLED:
                    raise StoppedEarly
                n_same += solving.shown(of_replica).classes() == classes
        except VariancesNotKept as error:
            raise BadArgument("replicas", f"cannot be made: {error}") from error
    same: Float32Array = (n_same / n_replicas).astype(np.float32)
    n_unstable = int(np.count_nonzero(answer.solution.reachable & (same < 1.0)))
    solving.assessment.stability = same
    solving.assessment.figures["replicas"] = {"n_replicas": n_replicas, "n_unstable": n_unstable}
