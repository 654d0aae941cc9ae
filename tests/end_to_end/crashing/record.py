"""What clients asked for and were told: the side of the story that the stores must agree with."""

import time
from collections import defaultdict
from dataclasses import dataclass, field
from threading import Lock
from typing import Literal

CLASSES = ("red", "green", "blue")
N_NODES = 240
"""Nodes of the first push, `n0` to `n239`; node number modulo 3 tells its community."""

FORGETTABLE = "somebody-who-asks-to-be-forgotten-"
"""How the ids begin that are erased, and that nobody else names."""

LabelEvent = tuple[str, str | None]


def is_forgettable(node: str | None) -> bool:
    """Whether a node may be erased."""
    return node is not None and node.startswith(FORGETTABLE)


@dataclass(slots=True, kw_only=True)
class LabelBatch:
    """Label events of one request, whole or not at all; ``labels_seq`` where it was answered.

    A removal stores nothing where there is no label. Events of a node that may be erased are alone
    in their batch; ``is_erased`` tells whether that was done, None while nobody knows.
    """

    events: list[LabelEvent]
    is_removal: bool = False
    is_erased: bool | None = False
    labels_seq: int | None = None
    accepted: int | None = None


@dataclass(slots=True, kw_only=True)
class EdgeBatch:
    """Edges of one push or one file; all of them have the weight that names the batch."""

    number: int
    src: list[str]
    dst: list[str]
    fate: Literal["committed", "quarantined", "duplicate", "retracted", "unknown"] = "unknown"
    """What must become of it; unknown while it was not acknowledged."""
    key: str | None = None
    push_id: str | None = None
    path: str | None = None
    relation: str = ""
    """Of its edges."""
    deletes: bool = False
    """Whether its rows delete their pairs, but for the last one, which sets the weight of its."""
    is_version: bool = False
    """Whether its path has other contents at other times, of which the last one counts."""
    is_forgettable: bool = False
    """Whether it names nodes that may be erased."""
    copies: "list[EdgeBatch]" = field(default_factory=list)
    """Of one in a file, those of other files with the same content."""
    erased: dict[str, bool | None] = field(default_factory=dict)
    """Nodes of it that were erased later; None where nobody knows."""

    def keeps(self, u: str, v: str) -> bool | None:
        """Whether an edge of it is there still, as far as erasures say; None if nobody knows."""
        told = [self.erased.get(node, False) for node in (u, v)]
        return False if True in told else None if None in told else True

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


@dataclass(slots=True, kw_only=True)
class AskedErasure:
    """An erasure that was acknowledged; ``holding`` are files that hold one of the nodes."""

    id: str
    nodes: list[str]
    holding: list[str]
    is_erased: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRead:
    """Whole predictions as a reader got them, without rows of nodes that may be erased."""

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
    erasures: list[AskedErasure] = field(default_factory=list)
    n_erasures_sent: int = 0
    forgotten: set[str] = field(default_factory=set)
    """Nodes that nobody may be shown: their erasure was acknowledged, they have not come again."""
    n_reborn: int = 0
    """Nodes that came again after their erasure was acknowledged."""
    n_seen_hidden: int = 0
    """Answers that were looked through for nodes that nobody may be shown."""
    n_searched: int = 0
    """Times that the home was searched for a node that was reported as erased."""
    retractions: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """How often files were retracted, taken in again, replaced, and how often that was refused."""
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
