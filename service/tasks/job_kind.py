"""Contract of a kind of job: its parameters, its input, how it runs, and what it leaves.

Decision: a kind is one class without state in a file of its own, and
`peewit.service.tasks.kind_list` lists them. Consequence: API, command line, worker and child know
the contract only, and treat all kinds alike.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from peewit.service.catalog import GraphRecord
from peewit.service.home import Home
from peewit.service.jobs.job import LABEL_COLUMN, Job, JobSpec, Lane
from peewit.service.tasks.labels_task import LabelsTask
from peewit.service.tasks.newest_snapshot import newest_snapshot
from peewit.service.tasks.progress import Cancelled, Report
from peewit.service.tasks.tasks_and_messages import Done, Task, TaskStopped
from peewit.service.tasks.warm_graphs import WarmGraphs
from peewit.solvers.arguments import BadArgument

TaskT = TypeVar("TaskT", bound=Task)
LabelsTaskT = TypeVar("LabelsTaskT", bound=LabelsTask)
SettingsT = TypeVar("SettingsT")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskContext:
    """What a warm child gives a task."""

    graphs: WarmGraphs  # stay between tasks
    report: Report  # takes the progress
    cancelled: Cancelled  # true once the task is to end


def capture_inputs(
    home: Home, job: Job, graph: GraphRecord, snapshot: int, *, labels_seq: int | None = None
) -> None:
    """Store the inputs of an attempt; ingest keeps the snapshots of running jobs."""
    home.jobs.capture(
        job.id,
        job.attempt,
        snapshot=snapshot,
        labels_seq=graph.labels_seq if labels_seq is None else labels_seq,
        features_version=graph.features_version,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Generic[SettingsT]):
    """Parameters of a job without a model: the fields of a settings dataclass."""

    doc: str  # what they choose
    settings: type[SettingsT]  # checks its values; every field has a default
    docs: Mapping[str, str]  # by field


class Kind(ABC, Generic[TaskT]):
    """One kind of job; the docstring of a subclass describes it in the API document."""

    name: ClassVar[str]  # public

    @abstractmethod
    def check(self, model: str | None, parameters: Mapping[str, Any]) -> None:
        """Raise ValueError if a job cannot have these parameters."""

    def lane(self, model: str | None, parameters: Mapping[str, Any]) -> Lane:
        """The lane that runs a job."""
        del model, parameters
        return "heavy"

    def spec(
        self,
        graph_id: str,
        *,
        model: str | None = None,
        parameters: Mapping[str, Any],
        priority: int = 0,
        idempotency_key: str | None = None,
        owner: str | None = None,
    ) -> JobSpec:
        """A job of this kind for the queue; raises ValueError as `JobSpec` does."""
        return JobSpec(
            graph_id=graph_id,
            kind=self.name,
            model=model,
            parameters=parameters,
            lane=self.lane(model, parameters),
            priority=priority,
            idempotency_key=idempotency_key,
            owner=owner,
        )

    def admit(self, spec: JobSpec, graph: GraphRecord, home: Home) -> None:
        """Raise, before the job is submitted, if it could only fail."""
        del spec, graph, home

    def is_small(self, job: Job, graph: GraphRecord, home: Home) -> bool:
        """Whether the process that waits for the job may run it, instead of starting a child."""
        del job, graph, home
        return False

    @abstractmethod
    def capture(self, job: Job, graph: GraphRecord, home: Home) -> TaskT:
        """Task of an attempt, from the present state; in the worker.

        Raises ValueError if something that the job needs is missing.
        """

    @abstractmethod
    def run(self, task: TaskT, context: TaskContext) -> Done | TaskStopped:
        """How the task ended, with its files on the disk; in the warm child.

        Raises ValueError or ArithmeticError if the task cannot be done, and OSError, MemoryError,
        LookupError or RuntimeError if files cannot be read or written.
        """

    def publish(self, job: Job, result: Mapping[str, Any], home: Home) -> Job:
        """The job after its last write; in the worker.

        Raises `LeaseLost` if the attempt is no longer the current one.
        """
        return home.jobs.finish(job.id, job.attempt, result)

    def sweep(self, graph_id: str, home: Home) -> None:
        """Remove what finished jobs left behind; called after every attempt, and now and then."""
        del graph_id, home


class GraphKind(Kind[TaskT], Generic[TaskT, SettingsT]):
    """A kind of job on the graph alone."""

    options: ClassVar[Options[Any]]

    def read(self, parameters: Mapping[str, Any]) -> SettingsT:
        """Settings of a job, defaults for parameters left out; raises ValueError for bad ones."""
        docs = self.options.docs
        if unknown := sorted(parameters.keys() - docs.keys()):
            known = ", ".join(sorted(docs)) or "none"
            raise ValueError(f"{self.name} has no parameter {unknown[0]!r}; it has {known}")
        settings: SettingsT = self.options.settings(**parameters)
        return settings

    def check(self, model: str | None, parameters: Mapping[str, Any]) -> None:
        """Raise ValueError if a job cannot have these parameters."""
        if model is not None:
            raise BadArgument("model", f"must be left out of a {self.name} job, got {model!r}")
        self.read(parameters)


class ModelKind(Kind[LabelsTaskT]):
    """A kind of job that works with a model on the newest snapshot and all labels.

    ``example_model``, ``parameters_doc`` and ``example_parameters`` are for the API document.
    """

    task: type[LabelsTaskT]
    example_model: ClassVar[str]
    parameters_doc: ClassVar[str | None] = None  # of those beside hyperparameters
    example_parameters: ClassVar[Mapping[str, Any] | None] = None

    def check(self, model: str | None, parameters: Mapping[str, Any]) -> None:
        """Raise ValueError if a job cannot have these parameters."""
        self.check_model(self.named(model), parameters)

    @abstractmethod
    def check_model(self, model: str, parameters: Mapping[str, Any]) -> None:
        """Raise ValueError if a job cannot have these parameters with a model."""

    def capture(self, job: Job, graph: GraphRecord, home: Home) -> LabelsTaskT:
        """Task for the job's snapshot, else the newest, and all labels of its column."""
        column = job.parameters.get(LABEL_COLUMN, "")
        labels = home.labels.current(job.graph_id, column=column)
        model = self.named(job.model)
        snapshot = newest_snapshot(graph) if job.snapshot is None else job.snapshot
        if not labels.labels:
            name = graph.settings.name
            where = f" in label column {column!r}" if column else ""
            if named := [repr(each) for each in home.labels.columns(job.graph_id) if each]:
                where += f" (say label_column for one of {', '.join(named)})"
            raise ValueError(
                f"graph {name} has no labels{where}; put labels of at least two classes"
            )
        capture_inputs(home, job, graph, snapshot, labels_seq=labels.labels_seq)
        return self.task(
            job_id=job.id,
            attempt=job.attempt,
            graph_id=job.graph_id,
            graph_directory=home.directory(job.graph_id),
            snapshot=snapshot,
            labels_seq=labels.labels_seq,
            features_version=graph.features_version,
            model=model,
            parameters=job.parameters,
            nodes=labels.nodes,
            labels=labels.labels,
            origins=labels.origins,
            answers=graph.settings.answers,
            directed=graph.settings.directed,
            keep_raw=graph.settings.keep_raw,
            n_threads=home.settings.n_threads,
            scheduler=home.settings.scheduler,
            is_automatic=job.coalesce_key is not None,
        )

    def named(self, model: str | None) -> str:
        """The model's name; raises ValueError if there is none."""
        if model is None:
            raise ValueError(f"a job of kind {self.name} must name a model, got none")
        return model
