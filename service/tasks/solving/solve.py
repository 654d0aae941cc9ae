"""Solve jobs: their parameters, how a child runs them, and how predictions come in.

A child knows files, not the database: a task is its whole input, an answer all that the job
records.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final

import structlog

from peewit.service.catalog import GraphRecord
from peewit.service.home import Home
from peewit.service.jobs.job import Job, JobSpec, JobStatus, Lane, LeaseLost, UnknownJob, lane_of
from peewit.service.predictions.prediction_files import require_few_classes
from peewit.service.tasks.job_kind import ModelKind, TaskContext
from peewit.service.tasks.labels_task import LabelsTask, labels_in_snapshot
from peewit.service.tasks.progress import StageTimer, StoppedEarly
from peewit.service.tasks.solving.all_edges import forget_passes, hold_all_edges, release_all_edges
from peewit.service.tasks.solving.assessment import (
    add_cross_validation,
    add_label_shares,
    add_variance,
)
from peewit.service.tasks.solving.counts import (
    CountsFound,
    found_counts,
    unknown_relations,
    wants_counts,
)
from peewit.service.tasks.solving.estimate import Estimator
from peewit.service.tasks.solving.judgement import add_judgement
from peewit.service.tasks.solving.leaks import told_leaks
from peewit.service.tasks.solving.points import PointsGiven, give_points, keep_points
from peewit.service.tasks.solving.prove import prove_answer
from peewit.service.tasks.solving.refine import refine_answer
from peewit.service.tasks.solving.refit import refit
from peewit.service.tasks.solving.relations import (
    final_choice,
    first_choice,
    prepared_on_two,
    runs_on_two,
    stats_of,
    weights_of,
)
from peewit.service.tasks.solving.solve_options import SolveOptions, validate_solve
from peewit.service.tasks.solving.stability import compare_replicas
from peewit.service.tasks.solving.state import Answered, LeaveOutPlan, Solving, require_whole
from peewit.service.tasks.solving.thinning import (
    add_thinning_share,
    correct_by_passes,
    n_passes_worth,
)
from peewit.service.tasks.solving.written import write_result
from peewit.service.tasks.tasks_and_messages import Done, TaskStopped
from peewit.service.tasks.warm_graphs import LastSolution
from peewit.solvers.arguments import BadArgument
from peewit.solvers.iteration_loop import RunStopped
from peewit.solvers.labels import Labels, RealLabels, deal_folds
from peewit.solvers.models.auto.preparation import PreparedAuto
from peewit.solvers.models.catalogue import DEFAULT_MODEL
from peewit.solvers.relations.solving import PreparedRelations, RelationModel
from peewit.solvers.solution import grown
from peewit.streaming.passes.edge_passes import PassStopped

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
            estimate = Estimator.of(home).estimate(graph, self.named(job.model), job.parameters)
        except (ValueError, LookupError, OSError):
            return False
        # points of a thinned snapshot are made from all its rows
        n_read = graph.progress.edges_seen if self.named(job.model) == DEFAULT_MODEL else 0
        n_edges = max(estimate.n_edges, n_read)
        is_small = estimate.n_nodes <= SMALL_NODES and n_edges <= SMALL_EDGES
        return is_small and Estimator.of(home).leaves_room(estimate)

    def run(self, task: SolveTask, context: TaskContext) -> Done | TaskStopped:
        """`Done` once the file of predictions is on the disk, or `TaskStopped`.

        What cannot be solved is a ValueError. `FeaturesNotFound` tells that newer features replaced
        those of the task, which were removed since.
        """
        has_ended = True
        try:
            with context.graphs.within_memory():
                return Done(result=_solve_task(task, context))
        except (StoppedEarly, PassStopped, RunStopped):
            has_ended = False  # another attempt may follow
            return TaskStopped()
        finally:
            release_all_edges(task, has_ended=has_ended)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """A part of a solve job after the answer on the snapshot."""

    name: str
    applies: Callable[[Solving], object]
    run: Callable[[Solving], None]  # adds what it finds to the state; see `Solving`


_STAGES: Final = tuple(
    _Stage(name=name, applies=applies, run=run)
    for name, applies, run in (
        ("cross-validation", lambda solving: solving.options.cross_validate, add_cross_validation),
        ("refitting", lambda solving: solving.options.without_doubtful, refit),
        (
            "estimating",
            lambda solving: not solving.graph.snapshot.meta.is_whole,
            add_thinning_share,
        ),
        ("correcting", n_passes_worth, correct_by_passes),
        ("refining", lambda solving: solving.options.refine, refine_answer),
        ("proving", lambda solving: solving.options.prove, prove_answer),
        ("judging", lambda _: True, add_judgement),
        ("variance", lambda solving: solving.options.variance, add_variance),
        ("label shares", lambda solving: solving.options.label_shares, add_label_shares),
        ("replicas", lambda solving: solving.options.replicas, compare_replicas),
    )
)


def _solve_task(task: SolveTask, context: TaskContext) -> dict[str, Any]:
    """Result of the job, once the file of predictions is on the disk."""
    stages, graphs = StageTimer(context.report, context.cancelled), context.graphs
    model, options = validate_solve(task.model, task.parameters)
    with stages.stage("loading"):
        choice = first_choice(graphs, task, options)
        graph = graphs.load(task, weights_of(choice))
        labels, origins, n_waiting = labels_in_snapshot(
            task, graph.nodes, graph.snapshot.meta.node_kind, options.target
        )
        plan = LeaveOutPlan.of(labels, origins, options.cross_validate)
        if options.cross_validate:  # refuses folds that lack labels, before the work and not after
            _require_folds(labels, plan, options)
        if options.sets != "off" and isinstance(labels, Labels):
            require_few_classes("sets", labels.n_classes)
    if len(graph.snapshot.meta.relations) > 1:
        with stages.stage("weighing relations"):
            choice = final_choice(graphs, task, options, graph, labels, choice, stages)
            graph = graphs.load(task, weights_of(choice))
    hold_all_edges(task, graph)
    counts = CountsFound(joined=None)
    if wants_counts(
        model,
        options,
        graph.snapshot.meta,
        directed=task.directed,
        features_version=task.features_version,
    ):
        with stages.stage("counting"):
            counts = found_counts(graphs, task, graph, getattr(labels, "among", None), stages)
    graph.counts = counts.joined
    on_two: PreparedRelations | None = None
    with stages.stage("preparing"):
        if choice is not None and runs_on_two(model, options, choice):
            on_two, is_warm = prepared_on_two(graphs, task, graph, model, choice)
            prepared = on_two.of(model, choice.best.weights)
        else:
            prepared, is_warm = graphs.prepared(task, graph, model)
    points = PointsGiven()
    if isinstance(prepared, PreparedAuto) and on_two is None:
        with stages.stage("placing nodes"):
            reads_all = options.refine or options.prove > 0
            points = give_points(
                *(graphs, task, graph, prepared, stages),
                max_passes=0 if reads_all else options.max_passes,
                makes_own=reads_all,
            )
    with stages.stage("solving"):
        key = task.graph_id, (type(model), options.label_column)
        names = labels.class_names if isinstance(labels, Labels) else None
        start: LastSolution | None = graphs.kept.get(key) if model.uses_start else None
        if start is not None and start.class_names != names:
            start = None
        adjacency = graph.snapshot.graph.adjacency
        solves = model if on_two is None else RelationModel(model=model)
        solution = solves.solve(
            prepared if on_two is None else on_two,
            labels,
            start=None if start is None else grown(start.solution, adjacency),
            progress=stages.watch.progress,
            cancelled=stages.watch.cancelled,
        )
        require_whole(solution)
        if isinstance(prepared, PreparedAuto) and on_two is None:
            keep_points(graph, prepared)
        if model.uses_start:
            graphs.kept[key] = LastSolution(
                snapshot=task.snapshot,
                class_names=names,
                solution=replace(solution, densities=None, decisive=None, left_out=None),
            )
    answer = Answered(
        model=model,
        prepared=prepared,
        snapshot=graph.snapshot,
        labels=labels,
        leave_out_plan=plan,
        solution=solution,
    )
    solving = Solving(
        task=task,
        options=options,
        graphs=graphs,
        graph=graph,
        stages=stages,
        n_waiting=n_waiting,
        is_random=origins.is_random,
        is_warm=is_warm,
        started_from=None if start is None else start.snapshot,
        first=answer,
        answer=answer,
    )
    solving.assessment.figures |= stats_of(choice) | counts.stats | points.stats
    solving.assessment.warnings += [*counts.warnings, *points.warnings]
    solving.assessment.warnings += unknown_relations(task, model, graph.snapshot.meta)
    solving.assessment.warnings += told_leaks(task, graph, model, labels)
    for stage in _STAGES:
        if stage.applies(solving):
            with stages.stage(stage.name):
                stage.run(solving)
    return write_result(solving)


def _require_folds(labels: Labels | RealLabels, plan: LeaveOutPlan, options: SolveOptions) -> None:
    """Raise `BadArgument` for options that need more labels left out than can be."""
    try:
        deal_folds(labels, plan.n_folds, 0, plan.may_leave_out)
    except ValueError as error:
        option = next(iter(options.of_classes), "cross_validate")
        raise BadArgument(
            option, f"leaves labels out in {options.cross_validate} folds: {error}"
        ) from error


def _has_file(job_id: str, file_name: str, home: Home) -> bool:
    """Whether the job has this file after all: a commit may succeed and its answer be lost."""
    try:
        result = home.jobs.get(job_id).result
    except UnknownJob:
        return False
    return result is not None and result["file"] == file_name


def _is_over(home: Home, job_id: str) -> bool:
    """Whether a job will not run again."""
    try:
        return home.jobs.get(job_id).status.is_final
    except UnknownJob:
        return True


def _remove_replaced(graph_id: str, home: Home) -> None:
    """Remove replaced predictions, and jobs that ended long ago."""
    try:
        forget_passes(home.settings.graphs_directory / graph_id, partial(_is_over, home))
        home.prediction_files.clean(graph_id)
        with_predictions = [job.id for job in home.prediction_files.kept(graph_id)]
    except OSError as error:
        _log.warning("old predictions not removed", error=str(error))
    else:
        home.jobs.forget(graph_id, older_than_seconds=HISTORY_SECONDS, keep=with_predictions)
