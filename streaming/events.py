"""Events of a stream: one per group of blocks and per file that ends."""

from dataclasses import dataclass

from peewit.streaming.edges.parts import EdgeFile
from peewit.streaming.left_out import LeftOut
from peewit.streaming.snapshots.checkpoints import AbsorbedFile
from peewit.streaming.snapshots.provenance import SnapshotMeta
from peewit.streaming.sparsifier.repair import Repair


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSummary:
    """Counters of the stream."""

    n_nodes: int
    edges_seen: int  # rows, those without an edge included
    left_out: LeftOut  # of these
    n_records: int  # in the buffer
    n_resparsifications: int
    snapshot: int | None  # number of the newest one
    newest: SnapshotMeta | None = None  # provenance of that, as published


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
    digest: str  # of the content
    original: str  # path of the file that brought the content
    replaced: AbsorbedFile | None = None  # earlier file, now out of the graph for good

    @property
    def reason(self) -> str:
        """What it repeats, and how it counts all the same."""
        if self.original == self.file.path:
            return "it has the content that it had before"
        return f"it has the same content as {self.original}; again=True counts it once more"

    @property
    def has_replaced(self) -> bool:
        """Whether no file that it replaces is in the graph.

        The replaced one may have left earlier, when that could not be reported.
        """
        takes_a_place = self.file.replaces or self.file.replaces_siblings
        return takes_a_place and not self.file.takes_place_of(self.original)


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """A file whose content was retracted and must not return by itself; nothing was added."""

    file: EdgeFile
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Retracted:
    """Files that are out of the clean checkpoint on disk, hence out of the graph for good."""

    files: tuple[AbsorbedFile, ...]
    summary: StreamSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """Files that are in the clean checkpoint on disk, hence in the graph for good.

    What they replace is out of it. Also sent without files when only a snapshot is new.
    """

    files: tuple[AbsorbedFile, ...]
    summary: StreamSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A group of blocks went through."""

    path: str
    n_rows: int  # of the group, as are n_bytes and n_blocks
    n_bytes: int  # of its parts as encoded
    summary: StreamSummary  # after it
    n_blocks: int = 1
    block_seconds: float = 0.0  # from its first row's request to its last record
    resparsify_seconds: float | None = None  # not in block_seconds; None where none was due


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """The sparsifier was repaired after deletes, or needed no repair."""

    repair: Repair
    seconds: float  # with the reading of the log


IngestEvent = Quarantined | Duplicate | Withheld | Retracted | Committed | Progress | Repaired
