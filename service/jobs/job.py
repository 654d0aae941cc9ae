"""Jobs: requests for them, and their state.

A job outlives the process that asked for it. A worker runs it under a lease: every write names its
attempt and is refused unless that is the current one, so a job that changes hands ends once.

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
from peewit.streaming.problems import Conflict, NotFound

Lane = Literal["fast", "heavy"]
"""Which warm child runs the job: quick re-solves never wait behind long work."""

LANES: tuple[Lane, ...] = get_args(Lane)

FAST_MODELS = frozenset({"auto", "harmonic-mbo", "hfs", "poisson", "stable-hfs"})
"""Models that answer within seconds once a graph is prepared."""

HEAVY_OPTIONS = frozenset(
    {
        *("refine", "prove", "variance", "cross_validate", "probabilities", "sets"),
        *("without_doubtful", "replicas", "label_shares"),
    }
)
"""Options of solve jobs that take any model long (`tasks.solving.solve_options`)."""

LABEL_COLUMN: Final = "label_column"
"""Parameter of jobs with labels: their column, by default the one without a name."""

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
"""Characters at the end of an id that people see."""


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
        """Whether the status never changes again."""
        return self not in {JobStatus.QUEUED, JobStatus.RUNNING}


class LeaseLost(RuntimeError):
    """The attempt is no longer the job's current one; drop its work, another worker has the job."""


class UnknownJob(NotFound):
    """No job has this id."""

    title = "Job not found"


class IdempotencyConflict(Conflict, ValueError):
    """The Idempotency-Key was used before on this graph, for another request."""

    title = "Idempotency-Key in use"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """Request for a job.

    Equal keys with equal specs submit one job; a ValueError names a field that breaks its rule.
    """

    graph_id: str
    model: str | None  # public name; None for kinds without a model
    parameters: Mapping[str, Any]  # hyperparameters and options as JSON; others take defaults
    kind: str = "solve"  # of `peewit.service.tasks.kind_list`, which the queue does not read
    lane: Lane = "fast"
    priority: int = 0  # higher runs earlier; within one the oldest comes first
    idempotency_key: str | None = None
    max_attempts: int = 3  # that may end with the death of the process before the job fails
    owner: str | None = None  # prefix of the key that asks
    snapshot: int | None = None  # to work on; None: the newest when the job begins
    after_ingest: bool = False  # whether it waits until what was sent to the graph is read

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

    Fields that are not explained are as in `JobSpec`. Of equal jobs, ``owner`` and ``traceparent``
    are those of the first. ``owner`` is None where nobody had a key, for automatic jobs, and in old
    rows.

    The attempt's ``snapshot``, ``labels_seq`` and ``features_version`` are fixed at its start. A
    job that does not coalesce keeps the snapshot for later attempts, or from the beginning if one
    was asked for.
    """

    id: str
    graph_id: str
    kind: str
    model: str | None
    parameters: Mapping[str, Any]
    lane: Lane
    priority: int
    idempotency_key: str | None
    coalesce_key: str | None  # at most one job of a graph with this key waits, and at most one runs
    status: JobStatus
    phase: str | None  # what the current attempt is doing
    progress: float | None  # estimated part done, in [0, 1]; never falls within an attempt
    expected_end_at: datetime | None  # estimated at the last progress
    cancel_requested: bool  # whether a running job was asked to stop
    attempt: int  # how often it was claimed; fences every write
    max_attempts: int  # one more whenever a stopping worker gives the job back
    worker_id: str | None  # that runs it, or ran it last
    snapshot: int | None
    labels_seq: int | None
    features_version: int | None
    result: Mapping[str, Any] | None  # file, solver status, statistics, once it succeeded
    error: str | None  # why it failed, or the system cancelled it
    created_at: datetime  # UTC, by the database's clock
    started_at: datetime | None  # of the current attempt
    finished_at: datetime | None
    owner: str | None
    traceparent: str | None = None  # span that led to it; None where nothing is traced
    after_ingest: bool = False

    @property
    def short_id(self) -> str:
        """The end of the id, by which pages and commands name the job."""
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
