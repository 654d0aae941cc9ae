"""Effect of thinning on an answer: estimated after solves of thinned snapshots, and corrected.

The estimate reads the snapshot alone (`peewit.solvers.assessment.thinning_share`). Where it is
large and a person asked for the solve, a `Refinable` model makes a few passes over all edges, if
they cost no more than the solve did. Their residual tells whether they were enough.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from typing import Any, Final, cast

import numpy as np

from peewit.service.tasks.progress import StoppedEarly
from peewit.service.tasks.solving.refine import refine_on_all_edges
from peewit.service.tasks.solving.state import Solving
from peewit.solvers.assessment.thinning_share import ThinnedEdges, ThinningShare, thinning_share
from peewit.solvers.labels import Labels, Targets
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.contract.refinable_model import Refinable
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status
from peewit.streaming.cluster.cluster_error import ClusterError
from peewit.streaming.passes.edge_passes import PassStopped
from peewit.streaming.snapshots.store import Snapshot, SnapshotStore
from peewit.streaming.snapshots.variances import VARIANCES

MOST_PASSES: Final = 12
_LEAST_CORRECTION_PASSES: Final = 3
"""Each takes about three quarters of the error of a column where the spectral error is below .5,
and little where nothing is promised."""

CORRECTED_RTOL: Final = 0.01
"""Relative residual to which a correction solves; below it no label differed from the exact
solve."""

_SETTLED: Final = 0.03
"""Largest residual at which dropped edges do no harm: at .028 no label differed, at .042 a tenth
did."""

_WORTH_SECONDS: Final = 10.0
_SECONDS_A_PRODUCT: Final = 2e-8
"""Of an edge and a column in a pass, on one core."""
_SECONDS_A_ROW: Final = 5e-7


def share_of_thinning(
    store: SnapshotStore,
    snapshot: Snapshot,
    solution: Solution,
    *,
    cancelled: Callable[[], bool] = lambda: False,
) -> ThinningShare | None:
    """What other samples would have decided otherwise; None if nothing was dropped or unknown.

    It is unknown for models whose classes no linear system decides, and for snapshots that do not
    say how far their weights may be off, as nodes were erased since.
    """
    meta, decisive = snapshot.meta, solution.decisive
    if meta.is_whole or decisive is None:
        return None
    try:
        path = store.companion(meta.number, VARIANCES)
        relative = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        return None
    edges = store.edges(meta.number)
    if edges.num_rows != relative.size:
        return None

    def parts() -> Iterator[ThinnedEdges]:
        first = 0
        for batch in edges.to_batches():
            u, v, weight = (batch.column(name).to_numpy() for name in ("u", "v", "weight"))
            yield ThinnedEdges(u, v, weight, relative[first : first + u.size])
            first += u.size

    share = thinning_share(decisive, snapshot.graph, parts, seed=meta.seed, cancelled=cancelled)
    if share is None and cancelled():
        raise StoppedEarly
    return None if share is None else replace(share, is_least=meta.epsilon_expected >= 1.0)


def add_thinning_share(solving: Solving) -> None:
    """Add what thinning decided of the answer."""
    graph, solution = solving.graph, solving.answer.solution
    cancelled = solving.watch.is_cancelled
    solving.thinning = share_of_thinning(graph.store, graph.snapshot, solution, cancelled=cancelled)


def n_passes_worth(solving: Solving) -> int:
    """Most passes of a correction that are wanted and worth their cost; 0 where these are too few.

    The cost is that of two corrections: of the answer, and of the one without held-out labels.
    """
    model, options = solving.answer.model, solving.options
    if (
        not (solving.is_thinned and isinstance(model, Refinable))
        or isinstance(model, Auto)
        or solving.task.is_automatic
        or options.refine
        or options.prove
        # these look at solves on what is left of the edges, which would tell of another answer
        or (options.cross_validate or options.replicas or options.label_shares)
    ):
        return 0
    n_edges = solving.graph.snapshot.meta.n_edges
    n_columns = solving.answer.solution.scores.shape[1]
    solve_seconds = sum(solving.stages.seconds.values())
    seconds = max(solve_seconds, _WORTH_SECONDS) / 2 - n_edges * _SECONDS_A_ROW
    n_passes = min(int(seconds / (n_edges * n_columns * _SECONDS_A_PRODUCT)), MOST_PASSES)
    return min(n_passes, options.max_passes) if n_passes >= _LEAST_CORRECTION_PASSES else 0


def is_residual_small(solution: Solution) -> bool:
    """Whether passes over all edges left too small a residual to change a label."""
    return float(solution.stats.get("residual", 1.0)) <= _SETTLED


def correct_by_passes(solving: Solving) -> None:
    """Answer after a few passes over all edges, or warn why none were made."""
    solving.take(
        correct(
            solving,
            solving.answer.labels,
            solving.answer.solution,
            max_passes=n_passes_worth(solving),
            rtol=CORRECTED_RTOL,
            fault="not corrected by passes over all edges",
        )
    )


def corrected_too(solving: Solving, solution: Solution, labels: Labels) -> Solution:
    """A solve without some labels, corrected by as many passes as the answer was."""
    of_answer = cast(Any, solving.answer)
    return correct(
        solving,
        labels,
        solution,
        max_passes=int(of_answer.solution.stats["passes"]),
        rtol=of_answer.model.rtol if solving.options.refine else CORRECTED_RTOL,
        fault="how often it is right was measured before all edges were read",
    )


def correct(
    solving: Solving,
    labels: Targets,
    solution: Solution,
    *,
    max_passes: int,
    rtol: float,
    fault: str,
) -> Solution:
    """The solution after passes over all edges or, with a warning of the fault, as it was.

    They end once the residual is below ``rtol``. Raises `StoppedEarly` or `PassStopped` if
    cancelled.
    """
    model = replace(solving.answer.model, rtol=rtol)  # type: ignore[call-arg]
    try:
        refined_scores = refine_on_all_edges(
            solving, cast(Refinable, model), labels, solution, max_passes=max_passes, looks=False
        )
    except (StoppedEarly, PassStopped):
        raise
    except (ValueError, OSError, ClusterError) as error:
        solving.assessment.warnings.append(f"{fault}: {error}")
        return solution
    if refined_scores.status is Status.CANCELLED:
        raise StoppedEarly
    return replace(
        refined_scores,
        status=solution.status
        if refined_scores.status is Status.MAX_ITER
        else refined_scores.status,
    )


def thinning_summary(solving: Solving) -> dict[str, Any] | None:
    """Effect of thinning and what to do about it, as JSON values; None where none was dropped.

    ``share`` is None if unknown. ``way_out`` is ``refine`` (the model can read all edges),
    ``model`` (another can) or None. ``correction`` says what reading all edges came to: None
    without it, ``settled``, ``unfinished``, or ``part`` where a part of the model follows kept
    edges alone. ``is_asked`` is whether an epsilon was asked for, ``can_keep`` whether dropped
    edges can be read again.
    """
    snapshot, thinning, model = solving.graph.snapshot, solving.thinning, solving.answer.model
    meta, way_out, correction = snapshot.meta, None, None
    if meta.is_whole:
        return None
    can_keep = meta.has_log or not meta.n_erased
    if "refined" in solving.answer.solution.stats:
        correction = "settled" if is_residual_small(solving.answer.solution) else "unfinished"
        correction = "part" if isinstance(model, Auto) else correction
    share: dict[str, Any] = {"share": None, "column": None, "is_most": False, "is_least": False}
    if thinning is not None:
        share = asdict(thinning) | {"is_unknown": thinning.is_unknown}
    if isinstance(model, Auto):  # which is right far more often than what thinning decided in it
        way_out = None if thinning is not None and thinning.is_most else "model"
    elif isinstance(model, Refinable):
        way_out = "refine"
    return share | {
        "is_much": thinning is not None and thinning.is_much,
        "is_asked": meta.epsilon_asked is not None,
        "way_out": way_out if can_keep else None,
        "can_keep": can_keep,
        "correction": correction,
        "n_edges": meta.n_edges,
        "n_kept": meta.edges_kept,
    }
