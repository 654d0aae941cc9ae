"""Solve jobs: their parameters, how a child runs them, and how predictions come in.

A child knows files, not the database: a task is its whole input, an answer all that the job
records.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final, cast

import numpy as np
import pyarrow as pa
import structlog

from peewit.service.catalog import GraphRecord
from peewit.service.home import Home
from peewit.service.jobs.job import (
    LABEL_COLUMN,
    Job,
    JobSpec,
    JobStatus,
    Lane,
    LeaseLost,
    UnknownJob,
    lane_of,
)
from peewit.service.predictions.kept_labels import write_labels
from peewit.service.predictions.left_out import write_left_out
from peewit.service.predictions.prediction_files import (
    MAX_SCORE_COLUMNS,
    PredictionMeta,
    ScoreKind,
    densities_path,
    given_path,
    predictor_path,
    require_few_classes,
    shares_path,
    write_array,
    write_predictions,
)
from peewit.service.predictions.predictors import given_of, write_predictor
from peewit.service.tasks.job_kind import Child, ModelKind
from peewit.service.tasks.labels_task import LabelsTask, labels_in_snapshot
from peewit.service.tasks.progress import Cancelled, Phases, StoppedEarly
from peewit.service.tasks.solving.assessment import (
    Answered,
    Assessment,
    JudgedLabels,
    assess,
    leave_out,
    share_out,
)
from peewit.service.tasks.solving.estimate import Estimator
from peewit.service.tasks.solving.judgement import judged, least_right
from peewit.service.tasks.solving.refine import refined
from peewit.service.tasks.solving.refit import refit
from peewit.service.tasks.solving.solve_options import SolveOptions, validate_solve
from peewit.service.tasks.solving.stability import stability
from peewit.service.tasks.solving.thinning import (
    CORRECTED_RTOL,
    corrected,
    is_settled,
    passes_worth,
    share_of_thinning,
    told_of_thinning,
)
from peewit.service.tasks.solving.warm_graphs import LastSolution, WarmGraph
from peewit.service.tasks.tasks_and_messages import Done, Stopped
from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import BoolArray
from peewit.solvers.assessment.plausibility import (
    CLOSE_TOGETHER,
    ComparedShares,
    answer_warnings,
)
from peewit.solvers.labels import Labels, RealLabels, deal_folds
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.classes.score_calibration import Calibration
from peewit.solvers.models.contract.feature_model import FEATURES
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.contract.refinable_model import Refinable
from peewit.solvers.models.left_out.label_sample import NO_SAMPLE, without_blame
from peewit.solvers.solution import (
    Advice,
    Advised,
    Functions,
    Solution,
    give_shares,
    grown,
)
from peewit.solvers.status import Status
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.nodes.index import open_nodes
from peewit.streaming.passes.edge_passes import PassStopped
from peewit.streaming.snapshots.store import SnapshotMeta

HISTORY_SECONDS: Final = 30 * 86_400.0
"""How long finished jobs without predictions are remembered, with their keys."""

SMALL_NODES: Final = 100_000
SMALL_EDGES: Final = 2_000_000
"""Above either a solve takes so much longer than the start of a process that it may have its
own."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveTask(LabelsTask):
    """Predict the labels of all nodes; fields as of `LabelsTask`."""

    kind: ClassVar[str] = "solve"


class SolveKind(ModelKind[SolveTask]):
    """A job that predicts labels."""

    name = "solve"
    task = SolveTask
    example_model = "stable-hfs"

    def check_model(self, model: str, parameters: Mapping[str, Any]) -> None:
        """See `validate_solve`."""
        validate_solve(model, parameters)

    def lane(self, model: str | None, parameters: Mapping[str, Any]) -> Lane:
        """The fast lane for quick models without long options."""
        return lane_of(self.named(model), parameters)

    def admit(self, spec: JobSpec, graph: GraphRecord, home: Home) -> None:
        """Raise `DoesNotFit` for a solve that cannot fit the memory, or `LabelColumnNotFound`."""
        Estimator.of(home).require_room(graph, self.named(spec.model), spec.parameters)

    def is_small(self, job: Job, graph: GraphRecord, home: Home) -> bool:
        """Whether the solve is quick and takes little of the free memory.

        One that cannot begin is not small; it reports the reason when it runs.
        """
        if job.lane != "fast":
            return False
        try:
            found = Estimator.of(home).estimate(graph, self.named(job.model), job.parameters)
        except (ValueError, LookupError, OSError):
            return False
        is_small = found.n_nodes <= SMALL_NODES and found.n_edges <= SMALL_EDGES
        return is_small and Estimator.of(home).leaves_room(found)

    def run(self, task: SolveTask, child: Child) -> Done | Stopped:
        """`Done` once the file of predictions is on the disk, or `Stopped`.

        Raises
        ------
        ValueError
            Unknown parameters, no label in the snapshot, one class, labels of another kind than the
            target, or a Gram matrix that does not fit the memory.
        FeaturesNotFound
            Newer features replaced those of the task, which were removed since.
        OSError, MemoryError, LookupError, RuntimeError
            Files could not be read or written.
        """
        try:
            with child.graphs.within_memory():
                return Done(result=_solved(task, child))
        except (StoppedEarly, PassStopped):
            return Stopped()

    def publish(self, job: Job, result: Mapping[str, Any], home: Home) -> Job:
        """The job with its predictions; removes the file if the job does not name it."""
        try:
            ended = home.jobs.finish(job.id, job.attempt, result)
        except LeaseLost:
            if not _has_file(job.id, result["file"], home):
                home.prediction_files.discard(job.graph_id, result["file"])
            raise
        if ended.status is not JobStatus.SUCCEEDED:
            home.prediction_files.discard(job.graph_id, result["file"])
        _remove_replaced(job.graph_id, home)
        return ended


def _solved(task: SolveTask, child: Child) -> dict[str, Any]:
    """Result of the job, once the file of predictions is on the disk."""
    phases, graphs, cancelled = Phases(child.report, child.cancelled), child.graphs, child.cancelled
    model, options = validate_solve(task.model, task.parameters)
    with phases.phase("loading"):
        graph = graphs.load(task)
        labels, origins, n_waiting = labels_in_snapshot(
            task, graph.nodes, graph.snapshot.meta.node_kind, options.target
        )
        judged_labels = JudgedLabels.of(labels, origins, options.cross_validate)
        if options.cross_validate:  # refuses folds that lack labels, before the work and not after
            _require_folds(labels, judged_labels, options)
        if options.sets != "off" and isinstance(labels, Labels):
            require_few_classes("sets", labels.n_classes)
    with phases.phase("preparing"):
        prepared, is_warm = graphs.prepared(task, graph, model)
    with phases.phase("solving"):
        start = _start_of(task, model, graph, labels)
        started_from = None if start is None else graph.last[_key(task, model)].snapshot
        solution = _solve(task, model, graph, prepared, labels, start, phases, cancelled)
    answer = Answered(
        model=model,
        prepared=prepared,
        snapshot=graph.snapshot,
        labels=labels,
        judged=judged_labels,
        solution=solution,
    )
    assessment, kept = Assessment(), answer
    if options.cross_validate:
        with phases.phase("cross-validation"):
            leave_out(answer, assessment, options, progress=phases.iteration, cancelled=cancelled)
    if options.without_doubtful:
        with phases.phase("refitting"):
            n_most = options.without_doubtful
            kept = refit(answer, assessment, n_most, progress=phases.iteration, cancelled=cancelled)
            _require_whole(kept.solution)
    labels, solution = kept.labels, kept.solution
    thinning = None
    if not graph.snapshot.meta.is_whole:
        with phases.phase("estimating"):
            thinning = share_of_thinning(graph.store, graph.snapshot, solution, cancelled=cancelled)
    n_passes = 0
    if (
        thinning is not None
        and thinning.is_much
        and not (task.is_automatic or options.refine)
        # these look at solves on what is left of the edges, which would tell of another answer
        and not (options.cross_validate or options.replicas or options.label_shares)
    ):
        n_columns, seconds = solution.scores.shape[1], sum(phases.seconds.values())
        n_passes = passes_worth(model, graph.snapshot, n_columns, solve_seconds=seconds)
        n_passes = min(n_passes, options.max_passes)
    if n_passes and isinstance(model, Refinable):
        with phases.phase("correcting"):
            solution, fault = corrected(
                task,
                model,
                answer.prepared,
                labels,
                solution,
                graph.snapshot,
                max_passes=n_passes,
                progress=phases.iteration,
                cancelled=cancelled,
            )
            if fault is not None:
                assessment.warnings.append(f"not corrected by passes over all edges: {fault}")
    if options.refine and isinstance(model, Refinable):
        with phases.phase("refining"):
            solution = refined(
                task,
                model,
                answer.prepared,
                labels,
                solution,
                graph.snapshot.meta,
                max_passes=options.max_passes,
                progress=phases.iteration,
                cancelled=cancelled,
            )
            _require_whole(solution)

    def corrected_too(found: Solution, rest: Labels) -> Solution:
        """A solve without some labels, corrected by as many passes as the answer was."""
        found, fault = corrected(
            task,
            cast(Refinable, model),
            answer.prepared,
            rest,
            found,
            graph.snapshot,
            max_passes=int(solution.stats["passes"]),
            rtol=CORRECTED_RTOL if n_passes else cast(Any, model).rtol,
            progress=phases.iteration,
            cancelled=cancelled,
        )
        if fault is not None:
            told = f"how often it is right was measured before all edges were read: {fault}"
            assessment.warnings.append(told)
        return found

    reads_all = thinning is not None and "refined" in solution.stats
    if reads_all and options.cross_validate:
        assessment.warnings.append(
            "cross-validation left labels out of solves on what is left of the edges, so that "
            "accuracy and probabilities may be told lower than they are"
        )
    with phases.phase("judging"):
        judgement = judged(
            replace(answer, solution=solution) if reads_all and kept is answer else answer,
            assessment,
            origins.is_random,
            is_thinned=thinning is not None and thinning.is_much and not reads_all,
            holds_out=not task.is_automatic,
            correct=corrected_too if reads_all and not isinstance(model, Auto) else None,
            is_settled=not reads_all or isinstance(model, Auto) or is_settled(solution),
            progress=phases.iteration,
            cancelled=cancelled,
        )
    if judgement is not None and thinning is not None and not reads_all:
        if thinning.is_much and judgement["are_all_random"] and not judgement["biases"]:
            solution = replace(solution, warnings=without_blame(solution.warnings))
        least = least_right(judgement, is_tested="sample_p_value" in solution.stats)
        if least is not None:
            thinning = thinning.where_right(least)
    assess(
        kept,
        assessment,
        options,
        phase=phases.phase,
        progress=phases.iteration,
        cancelled=cancelled,
    )
    if options.label_shares and isinstance(labels, Labels):
        with phases.phase("label shares"):
            share_out(kept, assessment, progress=phases.iteration, cancelled=cancelled)
    read = partial(_told, labels=labels, calibration=assessment.calibration)
    told = read(solution)
    if options.replicas and isinstance(labels, Labels):
        with phases.phase("replicas"):
            assessment.stability, assessment.figures["replicas"] = stability(
                model,
                labels,
                solution,
                read=read,
                snapshots=graph.store,
                snapshot=graph.snapshot.meta,
                n_replicas=options.replicas,
                prepare=lambda replica: graphs.prepared_alone(task, replica, model, graph),
                progress=phases.iteration,
                cancelled=cancelled,
            )
    if thinning is not None:
        solution = replace(solution, stats={**solution.stats, "thinning_share": thinning.share})
    shares = _compared(answer, labels, told) if isinstance(labels, Labels) else None
    is_thinned = thinning is not None and thinning.is_much and not reads_all
    doubts = [
        *assessment.warnings,
        *_doubts(kept, told, assessment, shares, judgement, is_thinned=is_thinned),
    ]
    warning, notes, advice = _texts(solution, doubts, judgement)
    with phases.phase("writing"):
        asked = asdict(model) | options.chosen()
        functions = _functions_of_points(solution)
        file_name = _write(task, asked, graph, answer, solution, told, assessment, functions)
    return {
        "file": file_name,
        "status": solution.status.value,
        "warning": warning,
        "advice": advice,
        "notes": notes,
        "n_nodes": len(solution.reachable),
        "n_unreachable": int(np.count_nonzero(~solution.reachable)),
        "n_labels": labels.n_labeled,
        "n_labels_waiting": n_waiting,
        "n_classes": labels.n_classes if isinstance(labels, Labels) else None,
        "class_shares": None if shares is None else shares.listed(),
        "input": solution.stats.get("input", "graph"),
        "n_without_features": solution.stats.get("n_without_features", 0),
        "features_version": task.features_version if model.uses_features else 0,
        "inductive": functions is not None,
        "warm": is_warm,
        "started_from": started_from,
        "seconds": phases.seconds,
        "judged": judgement,
        "thinning": None
        if graph.snapshot.meta.is_whole
        else told_of_thinning(thinning, model, graph.snapshot, solution),
        "stats": {**solution.stats, **assessment.figures},
    }


def _require_folds(
    labels: Labels | RealLabels, judged: JudgedLabels, options: SolveOptions
) -> None:
    """Raise `BadArgument` for options that need more labels left out than can be."""
    try:
        deal_folds(labels, judged.n_folds, 0, judged.may_leave_out)
    except ValueError as error:
        asked = next(iter(options.of_classes), "cross_validate")
        raise BadArgument(
            asked, f"leaves labels out in {options.cross_validate} folds: {error}"
        ) from error


def _told(
    solution: Solution,
    *,
    labels: Labels | RealLabels,
    calibration: Calibration | None,
) -> Solution:
    """The solution as people see it: calibrated; the mean of the others where no label reaches."""
    if not isinstance(labels, Labels):
        return solution
    if calibration is not None:
        scores = calibration.probabilities(solution.scores)
    elif not solution.reachable.all():
        scores = solution.scores.copy()
    else:
        return solution
    give_shares(scores, solution.reachable)
    return replace(solution, scores=scores)


def _has_file(job_id: str, file_name: str, home: Home) -> bool:
    """Whether the job has this file after all: a commit may succeed and its answer be lost."""
    try:
        result = home.jobs.get(job_id).result
    except UnknownJob:
        return False
    return result is not None and result["file"] == file_name


def _remove_replaced(graph_id: str, home: Home) -> None:
    """Remove replaced predictions, and jobs that ended long ago."""
    try:
        home.prediction_files.clean(graph_id)
        kept = [job.id for job in home.prediction_files.kept(graph_id)]
    except OSError as error:
        _log.warning("old predictions not removed", error=str(error))
    else:
        home.jobs.forget(graph_id, older_than_seconds=HISTORY_SECONDS, keep=kept)


def _class_names(labels: Labels | RealLabels) -> tuple[str | int, ...] | None:
    """The classes; None where labels are numbers."""
    return labels.class_names if isinstance(labels, Labels) else None


def _start_of(
    task: SolveTask, model: Model, graph: WarmGraph, labels: Labels | RealLabels
) -> Solution | None:
    """The last solution for the same classes, on this snapshot or an older one."""
    last = graph.last.get(_key(task, model))
    if last is None or last.class_names != _class_names(labels):
        return None
    return grown(last.solution, graph.snapshot.graph.adjacency)


def _key(task: SolveTask, model: Model) -> tuple[type[Model], str]:
    """Key of the solution that the next equal solve starts from."""
    return type(model), task.parameters.get(LABEL_COLUMN, "")


def _solve(
    task: SolveTask,
    model: Model,
    graph: WarmGraph,
    prepared: Any,
    labels: Labels | RealLabels,
    start: Solution | None,
    phases: Phases,
    cancelled: Cancelled,
) -> Solution:
    """The solution, kept as a start for the next one."""
    solution = model.solve(
        prepared, labels, start=start, progress=phases.iteration, cancelled=cancelled
    )
    _require_whole(solution)
    last = LastSolution(
        snapshot=graph.snapshot.meta.number,
        class_names=_class_names(labels),
        solution=replace(solution, densities=None, decisive=None, left_out=None),
    )
    graph.keep(_key(task, model), last)
    return solution


def _functions_of_points(solution: Solution) -> Functions | None:
    """Functions that predict new points, where the model worked on given features."""
    functions = solution.functions
    if functions is None or solution.stats.get("input") != FEATURES:
        return None
    return functions.trimmed()


def _require_whole(solution: Solution) -> None:
    """Raise if a solution was cancelled or has scores that are not finite."""
    if solution.status is Status.CANCELLED:
        raise StoppedEarly
    if not np.isfinite(solution.scores).all():
        raise ArithmeticError(
            f"the scores are not finite (solver status {solution.status.value}); "
            "the edge weights may span too many orders of magnitude"
        )


def _write(
    task: SolveTask,
    parameters: Mapping[str, Any],
    graph: WarmGraph,
    answer: Answered,
    solution: Solution,
    told: Solution,
    assessment: Assessment,
    functions: Functions | None,
) -> str:
    """Write the file of predictions; returns its name.

    ``answer`` is with all labels; ``solution`` may be refitted and refined; ``told`` has the scores
    that people see. Companion files are written first, so that whoever finds predictions finds them
    too.
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
        score=_score_kind(answer, assessment),
        class_names=_class_names(labels) or (),
        stats=dict(solution.stats),
        sets=assessment.figures.get("sets"),
        calibration=None if assessment.calibration is None else assessment.calibration.stored,
        judged_by=answer.judged.told,
    )
    directory = GraphPaths(root=task.graph_directory).predictions
    if functions is not None:
        write_predictor(predictor_path(directory / meta.file_name), functions)
        given = given_of(answer.model, answer.prepared, solution)
        if given is not None:
            write_array(given_path(directory / meta.file_name), given.astype(np.float32))
    if isinstance(labels, Labels):
        is_dropped = assessment.is_dropped
        kept = labels if is_dropped is None else labels.subset(np.flatnonzero(~is_dropped))
        write_labels(directory / meta.file_name, kept)
    if solution.densities is not None and solution.densities.shape[1] <= MAX_SCORE_COLUMNS:
        write_array(densities_path(directory / meta.file_name), solution.densities)
    if assessment.label_shares is not None:
        write_array(shares_path(directory / meta.file_name), assessment.label_shares)
    if assessment.left_out_scores is not None and isinstance(labels, Labels):
        write_left_out(
            directory / meta.file_name,
            labels.nodes,
            labels.classes,
            assessment.left_out_scores,
            assessment.is_dropped,
        )
    path = write_predictions(
        directory,
        meta,
        nodes=_present_ids(task, made_of),
        scores=told.scores,
        reachable=solution.reachable,
        variance=assessment.variance,
        p_values=assessment.p_values,
        stability=assessment.stability,
    )
    return path.name


def _score_kind(answer: Answered, assessment: Assessment) -> ScoreKind:
    if not isinstance(answer.labels, Labels):
        return "value"
    return answer.model.score_kind if assessment.calibration is None else "probability"


def _present_ids(task: SolveTask, made_of: SnapshotMeta) -> pa.ChunkedArray:
    """Present external ids: nodes may have been erased since the graph was loaded."""
    nodes = open_nodes(
        GraphPaths(root=task.graph_directory).nodes,
        kind=made_of.node_kind,
        n_nodes=made_of.n_nodes,
        writable=False,
    )
    return nodes.external_ids()


def _compared(answer: Answered, labels: Labels, told: Solution) -> ComparedShares:
    """Shares of classes, by component where the model used edges: features reach isolated nodes."""
    by_edges = told.stats.get("input", "graph") == "graph"
    return ComparedShares.of(labels, told, answer.snapshot.graph.component if by_edges else None)


def _doubts(
    answer: Answered,
    solution: Solution,
    assessment: Assessment,
    shares: ComparedShares | None,
    judgement: Mapping[str, Any] | None,
    *,
    is_thinned: bool,
) -> Iterator[str]:
    """Warnings from labels, predicted shares and left-out accuracy."""
    labels, folds = answer.labels, assessment.figures.get("cross_validation")
    if shares is not None and isinstance(labels, Labels):
        judged: tuple[float, int, BoolArray] | None = None
        by = answer.judged.may_leave_out
        if folds is not None and assessment.is_dropped is None:
            judged = folds["accuracy"], folds["n_left_out"], by
        elif judgement is not None and judgement["n_left_out"] and labels is answer.labels:
            judged = judgement["accuracy"], judgement["n_left_out"], by
        yield from answer_warnings(
            labels,
            answer.snapshot.graph,
            solution,
            shares,
            left_out=judged,
            are_random=judgement is not None and judgement["are_all_random"],
            is_thinned=is_thinned,
        )


def _texts(
    solution: Solution, others: Sequence[str], judgement: Mapping[str, Any] | None
) -> tuple[str | None, str | None, list[Advice]]:
    """Warning, notes (details that the first lines say already), and advice.

    The first lines tell whom the labels speak for, also by leaving it out.
    """
    own, status = list(solution.warnings), solution.status
    if status is not Status.CONVERGED:
        advice = status.advice
        if status is Status.MAX_ITER and "refined" in solution.stats:
            advice = f"raise max_passes, of which {solution.stats['passes']} were made, or max_iter"
        own.append(f"{status.message}; {advice}")
    told = [*own, *others]
    is_said = judgement is not None and (judgement["biases"] or judgement["sample"] == "random")
    notes = [each for each in told if is_said and each.startswith((NO_SAMPLE, CLOSE_TOGETHER))]
    warnings = [each for each in told if each not in notes]
    ways: list[Advice] = []
    for each in warnings:
        if isinstance(each, Advised):
            ways += [way for way in each.advice if way not in ways]
    return ". ".join(warnings) or None, ". ".join(notes) or None, ways
