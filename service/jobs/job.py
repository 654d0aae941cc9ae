"""Jobs: requests for them, and their state.

A job outlives the process that asked for it. A worker runs it under a lease: every write names its
attempt and is refused unless that is the current one, so that a job that changes hands ends once.

Context: a dead worker's job must end once within 15 s. Decision: a table of leases of our own, not
dbos 3.4. Consequence: liveness, attempts, fence and coalescing stand in one transaction; dbos
needed our own heartbeat and janitor, and its takeover lost attempt counts and deduplication.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Literal, get_args

from peewit.solvers.arguments import BadArgument

Lane = Literal["fast", "heavy"]
"""Which warm child runs the job: quick re-solves never wait behind long work."""

LANES: tuple[Lane, ...] = get_args(Lane)

FAST_MODELS = frozenset({"auto", "harmonic-mbo", "hfs", "poisson", "stable-hfs"})
"""Models that answer within seconds once a graph is prepared."""

HEAVY_OPTIONS = frozenset(
    {
        *("refine", "variance", "cross_validate", "probabilities", "sets"),
        *("without_doubtful", "replicas", "label_shares"),
    }
)
"""Options of solve jobs with which any model takes long (`tasks.solve_options`)."""

LABEL_COLUMN: Final = "label_column"
"""Parameter of jobs with labels: the column that they work on, the one without a name otherwise."""

MAX_KEY_LENGTH = 255
MAX_PRIORITY = 100


def lane_of(model: str, parameters: Mapping[str, Any]) -> Lane:
    """The lane for jobs of a model with these hyperparameters and options."""
    is_heavy = any(parameters.get(name) not in {None, 0, "off"} for name in HEAVY_OPTIONS)
    return "fast" if model in FAST_MODELS and not is_heavy else "heavy"


def require_key(key: str | None) -> None:
    """Refuse an Idempotency-Key that is empty or too long."""
    if key is not None and not 0 < len(key) <= MAX_KEY_LENGTH:
        raise BadArgument(
            "Idempotency-Key", f"must have 1 to {MAX_KEY_LENGTH} characters, got {len(key)}"
        )


SHORT_ID: Final = 8
"""Characters of the end of an id that people see."""


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
    """Request for a job.

    Attributes
    ----------
    graph_id : str
        The graph to work on.
    kind : str
        What to do with it: a name of the table `peewit.service.tasks.kind_list`, which the queue
        does not read.
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
    owner : str, optional
        Prefix of the key that asks; None where nobody has a key.
    snapshot : int, optional
        What to work on; the newest when the job begins where left out.

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
    owner: str | None = None
    snapshot: int | None = None

    def __post_init__(self) -> None:
        if self.lane not in LANES:
            raise BadArgument("lane", f"must be one of {', '.join(LANES)}, got {self.lane!r}")
        if not -MAX_PRIORITY <= self.priority <= MAX_PRIORITY:
            raise BadArgument(
                "priority", f"must lie in {-MAX_PRIORITY} to {MAX_PRIORITY}, got {self.priority}"
            )
        if self.max_attempts < 1:
            raise BadArgument("max_attempts", f"must be at least 1, got {self.max_attempts}")
        require_key(self.idempotency_key)


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
        Estimated part of the job that is done, in [0, 1]; it never falls within an attempt. None
        before an attempt has told anything.
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
        What the current attempt works on, fixed at its start. The snapshot stays for later attempts
        of a job that does not coalesce, and is fixed from the beginning where that was asked for.
    result : mapping, optional
        Of a job that succeeded: file, solver status, statistics.
    error : str, optional
        Why the job failed or was cancelled by the system.
    created_at, started_at, finished_at : datetime
        By the database's clock, in UTC; ``started_at`` is that of the current attempt.
    owner : str, optional
        Prefix of the key that asked for it, of equal jobs the first; None where nobody had a key,
        for jobs that follow by themselves, and before owners were noted.
    traceparent : str, optional
        The span that led to it, of equal jobs the first; None where nothing is traced.
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
    owner: str | None
    traceparent: str | None = None

    @property
    def short_id(self) -> str:
        """The end of the id, by which people name the job; pages and commands show it."""
        return self.id[-SHORT_ID:]


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
