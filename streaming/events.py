"""What a stream tells while it works: one event per group of blocks and per file that ends."""

from dataclasses import dataclass

from streaming.checkpoints import AbsorbedFile
from streaming.parts import EdgeFile


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSummary:
    """Counters of the stream.

    Attributes
    ----------
    n_nodes, edges_seen, self_loops : int
        Nodes, rows and dropped self-loops so far.
    n_records : int
        Records in the buffer.
    n_resparsifications : int
        How often the buffer was thinned.
    snapshot : int or None
        Number of the newest snapshot.
    """

    n_nodes: int
    edges_seen: int
    self_loops: int
    n_records: int
    n_resparsifications: int
    snapshot: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """A file broke a rule; the graph is as if it had never come."""

    file: EdgeFile
    reason: str
    row: int | None
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate:
    """A file whose whole content is already in the graph; nothing was added."""

    file: EdgeFile
    digest: str
    original: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """Files that are in the clean checkpoint on disk, hence in the graph for good.

    Also told, with no files, when nothing but a snapshot is new.
    """

    files: tuple[AbsorbedFile, ...]
    summary: StreamSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A group of blocks went through."""

    path: str
    n_rows: int
    n_bytes: int
    summary: StreamSummary


IngestEvent = Quarantined | Duplicate | Committed | Progress
