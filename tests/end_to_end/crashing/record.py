"""What clients asked for and were told: the side of the story that the stores must agree with."""

import time
from collections import defaultdict
from dataclasses import dataclass, field
from threading import Lock
from typing import Literal

CLASSES = ("red", "green", "blue")
N_NODES = 240
"""Nodes of the first push, `n0` to `n239`; node number modulo 3 tells its community."""

LabelEvent = tuple[str, str | None]


@dataclass(slots=True, kw_only=True)
class LabelBatch:
    """Label events of one request, whole or not at all; ``labels_seq`` where it was answered.

    ``n_optional`` is true for a removal, which stores nothing when there is no label.
    """

    events: list[LabelEvent]
    is_removal: bool = False
    labels_seq: int | None = None
    accepted: int | None = None


@dataclass(slots=True, kw_only=True)
class EdgeBatch:
    """Edges of one push or one file; all of them have the weight that names the batch."""

    number: int
    src: list[str]
    dst: list[str]
    fate: Literal["committed", "quarantined", "duplicate", "unknown"] = "unknown"
    """What must become of it; unknown while it was not acknowledged."""
    key: str | None = None
    push_id: str | None = None
    path: str | None = None
    deletes: bool = False
    """Whether its rows delete their pairs, but for the last one, which sets the weight of its."""

    @property
    def weighted(self) -> list[tuple[str, str]]:
        """Ends of the rows that have its weight."""
        rows = list(zip(self.src, self.dst, strict=True))
        return rows[-1:] if self.deletes else rows

    @property
    def weight(self) -> float:
        """Exact in 32 bits."""
        return 1.0 + self.number / 65_536


@dataclass(slots=True, kw_only=True)
class AskedJob:
    """A job that was acknowledged."""

    id: str
    is_cancelled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRead:
    """Whole predictions as a reader got them."""

    job: str
    snapshot: int
    labels_seq: int
    n_rows: int
    digest: str


@dataclass(slots=True)
class Record:
    """Everything that clients know; any number of threads may write."""

    label_batches: list[LabelBatch] = field(default_factory=list)
    edge_batches: list[EdgeBatch] = field(default_factory=list)
    jobs: list[AskedJob] = field(default_factory=list)
    tables: dict[str, TableRead] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    n_reads: int = 0
    n_answers: int = 0
    n_broken: int = 0
    """Requests that broke off without an answer."""
    n_unavailable: int = 0
    """Requests that were answered with 503."""
    statuses: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    outages: list[tuple[float, float]] = field(default_factory=list)
    """Monotonic seconds between which the database was away."""
    _lock: Lock = field(default_factory=Lock)
    _last_number: int = 0

    def violate(self, text: str) -> None:
        """Note something that must never be."""
        with self._lock:
            self.violations.append(text)

    def next_number(self) -> int:
        """The number of the next batch of edges."""
        with self._lock:
            self._last_number += 1
            return self._last_number

    def answered(self, status: int) -> None:
        """Count an answer."""
        with self._lock:
            self.n_answers += 1
            self.statuses[status] += 1

    def broke(self) -> None:
        """Count a request without an answer."""
        with self._lock:
            self.n_broken += 1

    def was_away(self, began: float) -> bool:
        """Whether the database was away at some time since then."""
        with self._lock:
            return any(end >= began for _, end in self.outages)

    def read(self, table: TableRead) -> None:
        """Note predictions; those of one job never change."""
        with self._lock:
            self.n_reads += 1
            before = self.tables.setdefault(table.job, table)
        if before != table:
            self.violate(f"predictions of job {table.job} changed: {before} became {table}")

    def database_goes(self) -> None:
        """The database is about to be killed."""
        with self._lock:
            self.outages.append((time.monotonic(), float("inf")))

    def database_is_back(self, grace_seconds: float) -> None:
        """It answers again; what was under way may still fail for a moment."""
        with self._lock:
            began, _ = self.outages[-1]
            self.outages[-1] = (began, time.monotonic() + grace_seconds)
