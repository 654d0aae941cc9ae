"""What runs inside a warm child: load a snapshot, prepare a model, solve, write what came out.

`certifying` does the other kind of task.

Knows files, not the database: a task says what to work on, an answer what the job will record.
Prepared graphs stay in memory between tasks, so that a changed label costs a warm solve only.
"""

import gc
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import Any, Final

import numpy as np
import psutil

from peewit.service.predictions.files import PredictionMeta, predictor_path, write_predictions
from peewit.service.predictions.predictors import write_predictor
from peewit.service.tasks.assessment import Answered, Assessment, assess
from peewit.service.tasks.labels import labels_in_snapshot
from peewit.service.tasks.messages import (
    Advanced,
    Answer,
    Solved,
    SolveTask,
    Stopped,
    Tuned,
    TuneTask,
)
from peewit.service.tasks.refine import refined
from peewit.service.tasks.solve_memory import kept_bytes, refusal
from peewit.service.tasks.solve_options import validate_solve
from peewit.service.tasks.tune import told, validate_tune
from peewit.solvers.assessment.tuning import tune
from peewit.solvers.features import FeatureRows
from peewit.solvers.gram.planning import GramTooLarge
from peewit.solvers.iterate import ProgressReport
from peewit.solvers.labels import Labels, RealLabels, deal_folds
from peewit.solvers.models.base import Model, as_classes, solve_either
from peewit.solvers.models.growing import grown
from peewit.solvers.models.point_model import GIVEN
from peewit.solvers.models.refining import Refinable
from peewit.solvers.solution import Functions, Solution, Status
from peewit.streaming.edges.blocks import MAX_NODES
from peewit.streaming.features.store import FeatureStore
from peewit.streaming.nodes.index import Nodes, open_nodes
from peewit.streaming.passes.raw_edges import PassStopped
from peewit.streaming.snapshots.store import GraphPaths, Snapshot, SnapshotStore

REPORT_SECONDS: Final = 0.5
"""Progress within one phase is reported this often."""

_AHEAD_MEMORY: Final = 0.8
"""Part of the memory above which nothing is done ahead."""

Report = Callable[[Advanced], None]
Cancelled = Callable[[], bool]


class _StoppedEarly(Exception):
    """The task was told to stop between two phases."""


class _Progress:
    """Times the phases of a task, reports where it is and stops it between two phases."""

    def __init__(self, report: Report, cancelled: Cancelled) -> None:
        self.seconds: dict[str, float] = {}
        self._report = report
        self._cancelled = cancelled
        self._stage = ""
        self._last = Advanced(phase="")
        self._last_at = 0.0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """One phase of the task, a stage that what models report is part of."""
        if self._cancelled():
            raise _StoppedEarly
        self._stage = name
        self._report(Advanced(phase=name, stage=name))
        began = monotonic()
        yield
        self.seconds[name] = round(monotonic() - began, 6)

    def iteration(self, report: ProgressReport) -> None:
        """Pass on what a model says after each step, at most every `REPORT_SECONDS`."""
        if report.phase != self._last.phase or monotonic() - self._last_at >= REPORT_SECONDS:
            self._last = Advanced(phase=report.phase, fraction=report.fraction, stage=self._stage)
            self._last_at = monotonic()
            self._report(self._last)


@dataclass(slots=True, kw_only=True, eq=False)
class _LastSolution:
    """Where the next solve of a model starts; ``class_names`` is None where it predicts numbers."""

    snapshot: int
    class_names: tuple[str | int, ...] | None
    solution: Solution


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Prepared:
    """What a model prepared; any model of the same preparation can use it.

    ``features_version`` is None for a model that takes no features.
    """

    model: Model
    value: Any
    features_version: int | None


@dataclass(slots=True, kw_only=True, eq=False)
class _WarmGraph:
    """One snapshot in memory with what was prepared on it, by class of model.

    ``bequests`` are what preparations of the snapshot before left.
    """

    snapshot: Snapshot
    nodes: Nodes
    prepared: dict[str, _Prepared] = field(default_factory=dict)
    bequests: dict[str, Any] = field(default_factory=dict)
    last: dict[type[Model], _LastSolution] = field(default_factory=dict)

    def forget_features_but(self, version: int) -> None:
        """Drop what was prepared with other features; what needs none stays."""
        for kind, each in list(self.prepared.items()):
            if each.features_version not in {None, version}:
                del self.prepared[kind]


class WarmSolver:
    """Solves tasks one after another and keeps what later ones can use again.

    Of each graph one snapshot stays, the last one asked for, with what models prepared on it and
    their last solutions. After a task the graphs longest unused are dropped until the process is
    back within its memory.

    Parameters
    ----------
    memory_bytes : int
        Resident memory of the whole process to come back to after each task.
    n_threads : int
        Threads that large products are divided among; results do not depend on it.
    """

    def __init__(self, *, memory_bytes: int, n_threads: int = 1) -> None:
        self._memory_bytes = memory_bytes
        self._pool = ThreadPoolExecutor(n_threads, thread_name_prefix="products")
        self._graphs: OrderedDict[str, _WarmGraph] = OrderedDict()

    @property
    def n_graphs(self) -> int:
        """Graphs in memory."""
        return len(self._graphs)

    def solve(self, task: SolveTask, *, report: Report, cancelled: Cancelled) -> Answer:
        """`Solved` once the file of predictions is on the disk, or `Stopped`.

        Raises
        ------
        ValueError
            The task cannot be done: unknown parameters, no label in the snapshot, one class,
            labels of another kind than the target, a Gram matrix that does not fit the memory.
        FeaturesNotFound
            Newer features have replaced those of the task, and they were removed since.
        OSError, MemoryError, LookupError, RuntimeError
            Files that could not be read or written.
        """
        progress = _Progress(report, cancelled)
        model, options = validate_solve(task.model, task.parameters)
        try:
            with progress.phase("loading"):
                graph = self._load(task)
                labels, n_waiting = labels_in_snapshot(
                    task, graph.nodes, graph.snapshot.meta.node_kind, options.target
                )
                _require_folds(labels, options.cross_validate)
            with progress.phase("preparing"):
                prepared, is_warm = self._prepared(task, graph, model)
            with progress.phase("solving"):
                start = _start_of(model, graph, labels)
                started_from = None if start is None else graph.last[type(model)].snapshot
                solution = _solve(model, graph, prepared, labels, start, progress, cancelled)
            answer = Answered(
                model=model,
                prepared=prepared,
                snapshot=graph.snapshot,
                labels=labels,
                solution=solution,
            )
            if options.refine and isinstance(model, Refinable):
                with progress.phase("refining"):
                    solution = refined(
                        task,
                        model,
                        answer.prepared,
                        labels,
                        solution,
                        graph.snapshot.meta,
                        max_passes=options.max_passes,
                        progress=progress.iteration,
                        cancelled=cancelled,
                    )
                    _require_whole(solution)
            assessment = assess(
                answer,
                options,
                phase=progress.phase,
                progress=progress.iteration,
                cancelled=cancelled,
            )
            with progress.phase("writing"):
                asked = asdict(model) | options.chosen()
                functions = _functions_of_points(solution)
                file_name = _write(task, asked, graph, answer, solution, assessment, functions)
        except (_StoppedEarly, PassStopped):
            return Stopped()
        except GramTooLarge as error:
            raise ValueError(refusal(error, self._memory_bytes, graph.snapshot.meta)) from error
        finally:
            self._shrink()
        return Solved(
            result={
                "file": file_name,
                "status": solution.status.value,
                "warning": _warning(solution, assessment),
                "n_nodes": len(solution.reachable),
                "n_unreachable": int(np.count_nonzero(~solution.reachable)),
                "n_labels": labels.n_labeled,
                "n_labels_waiting": n_waiting,
                "n_classes": labels.n_classes if isinstance(labels, Labels) else None,
                "input": solution.stats.get("input", "graph"),
                "n_without_features": solution.stats.get("n_without_features", 0),
                "features_version": task.features_version if model.uses_features else 0,
                "inductive": functions is not None,
                "warm": is_warm,
                "started_from": started_from,
                "seconds": progress.seconds,
                "stats": {**solution.stats, **assessment.figures},
            }
        )

    def tune(self, task: TuneTask, *, report: Report, cancelled: Cancelled) -> Answer:
        """`Tuned` with every trial, or `Stopped`; raises as `solve`."""
        progress = _Progress(report, cancelled)
        request = validate_tune(task.model, task.parameters)
        try:
            with progress.phase("loading"):
                graph = self._load(task)
                labels, n_waiting = labels_in_snapshot(
                    task, graph.nodes, graph.snapshot.meta.node_kind, "class"
                )
            with progress.phase("preparing"):
                prepared, is_warm = self._prepared(task, graph, request.model)
            with progress.phase("tuning"):
                tuning = tune(
                    request.model,
                    prepared,
                    as_classes(labels),
                    grid=request.grid,
                    n_folds=request.n_folds,
                    progress=progress.iteration,
                    cancelled=cancelled,
                )
        except _StoppedEarly:
            return Stopped()
        except GramTooLarge as error:
            raise ValueError(refusal(error, self._memory_bytes, graph.snapshot.meta)) from error
        finally:
            self._shrink()
        if tuning.status is Status.CANCELLED:
            return Stopped()
        return Tuned(
            result={
                **told(request, tuning),
                "n_labels": labels.n_labeled,
                "n_labels_waiting": n_waiting,
                "warm": is_warm,
                "seconds": progress.seconds,
            }
        )

    def work_ahead(self, cancelled: Cancelled) -> bool:
        """Do some of what the next solve on the graph used last may need; False when none is left.

        Nothing is begun close to the limit of the memory: graphs are worth more than that.
        """
        if not self._graphs or _resident_bytes() > _AHEAD_MEMORY * self._memory_bytes:
            return False
        latest = next(reversed(self._graphs.values()))
        found = any(
            each.model.work_ahead(each.value, cancelled=cancelled)
            for each in latest.prepared.values()
        )
        self._shrink()
        return found

    def _load(self, task: SolveTask) -> _WarmGraph:
        """The snapshot and the node index, from memory when they were the last ones of the graph.

        A newer snapshot replaces the older one before it is loaded, so that both are never in
        memory together; the last solutions stay, since a node keeps its dense id.
        """
        known = self._graphs.pop(task.graph_id, None)
        if known is None or known.snapshot.meta.number != task.snapshot:
            last, bequests = {}, {}
            if known is not None:
                last, bequests = known.last, known.bequests
                bequests |= {
                    kind: each.model.bequest(each.value) for kind, each in known.prepared.items()
                }
            del known
            paths = GraphPaths(root=task.graph_directory)
            snapshot = SnapshotStore(paths.snapshots).load(task.snapshot)
            nodes = open_nodes(
                paths.nodes,
                kind=snapshot.meta.node_kind,
                n_nodes=snapshot.meta.n_nodes,
                max_nodes=MAX_NODES,
                writable=False,
            )
            known = _WarmGraph(snapshot=snapshot, nodes=nodes, last=last, bequests=bequests)
        self._graphs[task.graph_id] = known
        return known

    def _prepared(self, task: SolveTask, graph: _WarmGraph, model: Model) -> tuple[Any, bool]:
        """What the model prepared on the graph and its features, and whether it was there."""
        graph.forget_features_but(task.features_version)
        kind = model.preparation or type(model).__name__
        if kind in graph.prepared:
            return graph.prepared[kind].value, True
        value = model.prepare(
            graph.snapshot.graph,
            _features(task, model, graph.snapshot),
            parallel=self._pool.map,
            kept_bytes=kept_bytes(self._memory_bytes, model, graph.snapshot.meta),
        )
        model.inherit(value, graph.bequests.pop(kind, None))
        graph.prepared[kind] = _Prepared(
            model=model,
            value=value,
            features_version=task.features_version if model.uses_features else None,
        )
        return value, False

    def _shrink(self) -> None:
        while self._graphs and _resident_bytes() > self._memory_bytes:
            self._graphs.popitem(last=False)
            gc.collect()


def _features(task: SolveTask, model: Model, snapshot: Snapshot) -> FeatureRows | None:
    """The features of a snapshot's nodes, for a model that takes them where there are some."""
    if not model.uses_features or task.features_version == 0:
        return None
    store = FeatureStore(GraphPaths(root=task.graph_directory).features)
    return store.load(task.features_version, snapshot.meta.n_nodes)


def _resident_bytes() -> int:
    """Memory of this process; of a factorisation only the system knows the size."""
    return int(psutil.Process().memory_info().rss)


def _class_names(labels: Labels | RealLabels) -> tuple[str | int, ...] | None:
    """The classes, None where numbers are predicted."""
    return labels.class_names if isinstance(labels, Labels) else None


def _start_of(model: Model, graph: _WarmGraph, labels: Labels | RealLabels) -> Solution | None:
    """The last solution for the same classes, on this snapshot or an older one."""
    last = graph.last.get(type(model))
    if last is None or last.class_names != _class_names(labels):
        return None
    return grown(last.solution, graph.snapshot.graph)


def _solve(
    model: Model,
    graph: _WarmGraph,
    prepared: Any,
    labels: Labels | RealLabels,
    start: Solution | None,
    progress: _Progress,
    cancelled: Cancelled,
) -> Solution:
    """The solution, which the next one starts from."""
    solution = solve_either(
        model,
        prepared,
        labels,
        start=start,
        progress=progress.iteration,
        cancelled=cancelled,
    )
    _require_whole(solution)
    graph.last[type(model)] = _LastSolution(
        snapshot=graph.snapshot.meta.number, class_names=_class_names(labels), solution=solution
    )
    return solution


def _require_folds(labels: Labels | RealLabels, n_folds: int) -> None:
    """Refuse folds that the labels do not suffice for, before the work and not after it."""
    if n_folds:
        deal_folds(labels, n_folds, 0)


def _functions_of_points(solution: Solution) -> Functions | None:
    """What new points can be put into, where the model worked on features."""
    functions = solution.functions
    if functions is None or solution.stats.get("input") != GIVEN:
        return None
    return functions.trimmed()


def _require_whole(solution: Solution) -> None:
    """Refuse a solution that was cut short or has scores that are not finite."""
    if solution.status is Status.CANCELLED:
        raise _StoppedEarly
    if not np.isfinite(solution.scores).all():
        raise ArithmeticError(
            f"the scores are not finite (solver status {solution.status.value}); "
            "the edge weights may span too many orders of magnitude"
        )


def _write(
    task: SolveTask,
    parameters: Mapping[str, Any],
    graph: _WarmGraph,
    answer: Answered,
    solution: Solution,
    assessment: Assessment,
    functions: Functions | None,
) -> str:
    """Write the file of predictions; its name. ``solution`` may be refined, ``answer`` is not.

    The predictor comes first: who finds predictions of an inductive job finds it, too.
    """
    labels = answer.labels
    made_of = graph.snapshot.meta
    meta = PredictionMeta(
        graph_id=task.graph_id,
        job_id=task.job_id,
        attempt=task.attempt,
        model=task.model,
        parameters=parameters,
        snapshot=task.snapshot,
        labels_seq=task.labels_seq,
        features_version=task.features_version,
        epsilon_asked=made_of.epsilon_asked,
        epsilon_expected=made_of.epsilon_expected,
        solver_status=solution.status.value,
        score=answer.model.score_kind if isinstance(labels, Labels) else "value",
        class_names=_class_names(labels) or (),
        stats=dict(solution.stats),
    )
    directory = GraphPaths(root=task.graph_directory).predictions
    if functions is not None:
        write_predictor(predictor_path(directory / meta.file_name), functions)
    path = write_predictions(
        directory,
        meta,
        nodes=graph.nodes.external_ids(0, made_of.n_nodes),
        scores=solution.scores,
        reachable=solution.reachable,
        variance=assessment.variance,
    )
    return path.name


def _warning(solution: Solution, assessment: Assessment) -> str | None:
    """What is short of perfect, and what to try."""
    own, status = list(solution.warnings), solution.status
    if status is not Status.CONVERGED:
        advice = status.advice
        if status is Status.MAX_ITER and "refined" in solution.stats:
            advice = f"raise max_passes, of which {solution.stats['passes']} were made, or max_iter"
        own.append(f"{status.message}; {advice}")
    return ". ".join(own + assessment.warnings) or None
