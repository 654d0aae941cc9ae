"""What a job is; the contract of the queue that `peewit.service.jobs.queue` implements.

A job outlives the process that asked for it. A worker runs it under a lease: every write names its
attempt and is refused unless that is the current one, so that a job that changes hands ends once.

Context: a dead worker's job must end once within 15 s. Decision: a table of leases of our own, not
dbos 3.4. Consequence: liveness, attempts, fence and coalescing stand in one transaction; dbos
needed our own heartbeat and janitor, and its takeover lost attempt counts and deduplication.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Protocol, get_args

from sqlalchemy import Connection

Lane = Literal["fast", "heavy"]
"""Which warm child runs the job: quick re-solves never wait behind long work."""

LANES: tuple[Lane, ...] = get_args(Lane)

FAST_MODELS = frozenset({"harmonic-mbo", "hfs", "poisson", "stable-hfs"})
"""Models that answer within seconds once a graph is prepared."""

HEAVY_OPTIONS = frozenset({"refine", "variance", "bound", "cross_validate"})
"""Options of solve jobs with which any model takes long (`tasks.solve_options`)."""

MAX_KEY_LENGTH = 255
MAX_PRIORITY = 100


def lane_of(model: str, parameters: Mapping[str, Any]) -> Lane:
    """The lane for jobs of a model with these hyperparameters and options."""
    is_heavy = any(parameters.get(name) for name in HEAVY_OPTIONS)
    return "fast" if model in FAST_MODELS and not is_heavy else "heavy"


class JobStatus(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"
    """Waits for a worker; also between two attempts."""
    RUNNING = "running"
    """A worker holds its lease, or held it until a moment ago."""
    SUCCEEDED = "succeeded"
    """The result is published; the solver's own status stands in it."""
    FAILED = "failed"
    """``Job.error`` says why and what to do."""
    CANCELLED = "cancelled"
    """Stopped on request, or replaced by a newer job that covers it."""

    @property
    def is_final(self) -> bool:
        """True when the status never changes again."""
        return self not in {JobStatus.QUEUED, JobStatus.RUNNING}


class LeaseLost(RuntimeError):
    """The attempt is no longer the job's current one; drop its work, another worker has the job."""


class UnknownJob(LookupError):
    """No job has this id."""


class IdempotencyConflict(ValueError):
    """The Idempotency-Key was used before on this graph, for another request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """What is asked for.

    Attributes
    ----------
    graph_id : str
        The graph to work on.
    kind : str
        What to do with it: a name of the table `peewit.service.tasks.kinds`, which the queue does
        not read.
    model : str, optional
        Public name of a model; none for kinds of job that need none.
    parameters : mapping
        The model's hyperparameters and the options of the job, or what another kind may be asked,
        as JSON values; those left out take their defaults.
    lane : "fast" or "heavy"
        The lane that runs it.
    priority : int
        Higher runs earlier; within one priority the oldest comes first.
    idempotency_key : str, optional
        A second submission with the same key and the same spec is the first one.
    max_attempts : int
        Attempts that may end with the death of the process before the job fails.

    Raises
    ------
    ValueError
        A field breaks its rule.
    """

    graph_id: str
    model: str | None
    parameters: Mapping[str, Any]
    kind: str = "solve"
    lane: Lane = "fast"
    priority: int = 0
    idempotency_key: str | None = None
    max_attempts: int = 3

    def __post_init__(self) -> None:
        if self.lane not in LANES:
            raise ValueError(f"lane must be one of {', '.join(LANES)}, got {self.lane!r}")
        if not -MAX_PRIORITY <= self.priority <= MAX_PRIORITY:
            raise ValueError(
                f"priority must lie in {-MAX_PRIORITY} to {MAX_PRIORITY}, got {self.priority}"
            )
        if self.max_attempts < 1:
            raise ValueError(f"max_attempts must be at least 1, got {self.max_attempts}")
        if self.idempotency_key is not None and not 0 < len(self.idempotency_key) <= MAX_KEY_LENGTH:
            raise ValueError(
                f"Idempotency-Key must have 1 to {MAX_KEY_LENGTH} characters, "
                f"got {len(self.idempotency_key)}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as the queue knows it at one moment.

    Attributes
    ----------
    id : str
        Names the job everywhere.
    graph_id, kind, model, parameters, lane, priority, idempotency_key, max_attempts
        As asked for; see `JobSpec`. ``max_attempts`` grows by one whenever a worker that is told to
        stop gives the job back.
    coalesce_key : str, optional
        Of all jobs of a graph with this key at most one waits and at most one runs.
    status : JobStatus
        Where the job stands.
    phase : str, optional
        What the current attempt is doing.
    progress : float, optional
        Part of the phase that is done, in [0, 1]; None where it cannot be known.
    expected_end_at : datetime, optional
        When a running job will end, estimated when it last told how far it is; None where nothing
        tells.
    cancel_requested : bool
        True once a running job was asked to stop.
    attempt : int
        How often the job was claimed; fences every write.
    worker_id : str, optional
        Who runs it, or ran it last.
    snapshot, labels_seq, features_version : int, optional
        What the current attempt works on, fixed at its start.
    result : mapping, optional
        Of a job that succeeded: file, solver status, statistics.
    error : str, optional
        Why the job failed or was cancelled by the system.
    created_at, started_at, finished_at : datetime
        By the database's clock, in UTC; ``started_at`` is that of the current attempt.
    """

    id: str
    graph_id: str
    kind: str
    model: str | None
    parameters: Mapping[str, Any]
    lane: Lane
    priority: int
    idempotency_key: str | None
    coalesce_key: str | None
    status: JobStatus
    phase: str | None
    progress: float | None
    expected_end_at: datetime | None
    cancel_requested: bool
    attempt: int
    max_attempts: int
    worker_id: str | None
    snapshot: int | None
    labels_seq: int | None
    features_version: int | None
    result: Mapping[str, Any] | None
    error: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """One line of a job's history; ``seq`` counts from 1 within the job."""

    job_id: str
    seq: int
    at: datetime
    kind: str
    data: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """Some jobs, newest first; ``next_page`` is None on the last page."""

    jobs: Sequence[Job]
    next_page: str | None


class JobQueue(Protocol):
    """The durable queue.

    Submitters use `submit` to `wait`, workers the rest. A method that takes ``connection`` joins
    the caller's transaction, so that a label and the job it leads to are stored together or not
    at all; without one it commits before it returns. Methods that take ``attempt`` raise
    `LeaseLost` unless that attempt is the current one and still running.
    """

    def submit(self, spec: JobSpec, connection: Connection | None = None) -> Job:
        """The new job, or the earlier one with the same Idempotency-Key.

        Raises
        ------
        peewit.service.catalog.GraphNotFound
            There is no such graph.
        IdempotencyConflict
            The key belongs to a job with another spec.
        """
        ...

    def submit_coalesced(self, spec: JobSpec, connection: Connection | None = None) -> Job:
        """A job that starts after this transaction commits: the waiting equal one, or a new one.

        However often it is called, at most one equal job waits beside the one that runs, and what
        the caller's transaction wrote is seen by a job that starts later. Raises as `submit` does.
        """
        ...

    def get(self, job_id: str) -> Job:
        """The job at this moment; raises `UnknownJob`."""
        ...

    def list(
        self,
        *,
        graph_id: str | None = None,
        status: JobStatus | None = None,
        limit: int = 50,
        page: str | None = None,
    ) -> JobPage:
        """Jobs, newest first; ``page`` is the ``next_page`` of the page before."""
        ...

    def newest(self, graph_id: str, kind: str) -> Job | None:
        """The job of a kind that was submitted last; None before the first."""
        ...

    def events(self, job_id: str, *, after_seq: int = 0, limit: int = 1000) -> Sequence[JobEvent]:
        """The job's history after an event, oldest first; raises `UnknownJob`."""
        ...

    def cancel(self, job_id: str, connection: Connection | None = None) -> Job:
        """Cancel a waiting job at once, ask a running one to stop, leave a finished one alone."""
        ...

    def cancel_graph(self, graph_id: str, connection: Connection | None = None) -> int:
        """Cancel every unfinished job of a graph; how many there were."""
        ...

    def forget(self, graph_id: str, *, older_than_seconds: float, keep: Collection[str]) -> int:
        """Delete jobs of a graph that ended long ago, with their history and keys; how many.

        Those with an id in ``keep`` stay.
        """
        ...

    def wait(self, job_id: str, timeout_seconds: float) -> Job:
        """The job once it is finished, or as it stands when the time is over."""
        ...

    def claim(
        self, worker_id: str, lanes: Collection[Lane], *, job_id: str | None = None
    ) -> Job | None:
        """Start an attempt at the job that comes first in these lanes, or None.

        Waiting jobs and jobs whose worker has stopped answering are offered alike, by priority,
        then age. With ``job_id`` only that job is considered.
        """
        ...

    def heartbeat(self, job_id: str, attempt: int) -> bool:
        """Extend the lease; True when the job was asked to stop."""
        ...

    def asked_to_stop(self, job_ids: Collection[str]) -> set[str]:
        """Those of the jobs that were asked to stop; nothing is written."""
        ...

    def capture(
        self,
        job_id: str,
        attempt: int,
        *,
        snapshot: int,
        labels_seq: int,
        features_version: int,
    ) -> None:
        """Store what this attempt works on."""
        ...

    def progress(
        self,
        job_id: str,
        attempt: int,
        *,
        phase: str,
        fraction: float | None = None,
        seconds_left: float | None = None,
    ) -> bool:
        """Store how far the attempt is; True when the job was asked to stop."""
        ...

    def finish(
        self,
        job_id: str,
        attempt: int,
        result: Mapping[str, Any],
        connection: Connection | None = None,
    ) -> Job:
        """End the job with its result, or as cancelled when that was asked for before."""
        ...

    def fail(self, job_id: str, attempt: int, error: str, *, retry: bool = False) -> Job:
        """End the job with a reason; with ``retry`` only when no attempt is left."""
        ...

    def cancelled(self, job_id: str, attempt: int) -> Job:
        """End a job that has stopped because it was asked to."""
        ...

    def release(self, job_id: str, attempt: int) -> Job:
        """Give the job back without counting the attempt."""
        ...
