"""Events of a stream: one per group of blocks and per file that ends."""

from dataclasses import dataclass

from peewit.streaming.edges.parts import EdgeFile
from peewit.streaming.snapshots.checkpoints import AbsorbedFile
from peewit.streaming.snapshots.store import SnapshotMeta
from peewit.streaming.sparsifier.repair import Repair


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
    newest : SnapshotMeta or None
        Its provenance, as it was published.
    """

    n_nodes: int
    edges_seen: int
    self_loops: int
    n_records: int
    n_resparsifications: int
    snapshot: int | None
    newest: SnapshotMeta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """A file broke a rule; the graph is as if it had never come."""

    file: EdgeFile
    reason: str
    row: int | None
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate:
    """A file whose whole content is already in the graph; nothing was added.

    Attributes
    ----------
    file : EdgeFile
    digest : str
        Of the content.
    original : str
        Path of the file that it came with.
    replaced : AbsorbedFile or None
        File that it takes the place of, which is out of the graph for good.
    """

    file: EdgeFile
    digest: str
    original: str
    replaced: AbsorbedFile | None = None

    @property
    def has_replaced(self) -> bool:
        """Whether no file that it takes the place of is in the graph.

        It may have left before, when this could not be told any more.
        """
        takes_a_place = self.file.replaces or self.file.replaces_siblings
        return takes_a_place and not self.file.takes_place_of(self.original)


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """A file whose content was retracted and is not to come back by itself; nothing was added."""

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

    What they take the place of is out of it. Sent without files, too, when nothing but a
    snapshot is new.
    """

    files: tuple[AbsorbedFile, ...]
    summary: StreamSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A group of blocks went through.

    Attributes
    ----------
    path : str
        The file that it belongs to.
    n_rows, n_bytes : int
        Of the group; bytes as its parts are encoded.
    summary : StreamSummary
        The stream after it.
    n_blocks : int
        Blocks of the group.
    block_seconds : float
        From asking for its first row to its last record, without a resparsification.
    resparsify_seconds : float or None
        The resparsification that it led to; None where it led to none.
    """

    path: str
    n_rows: int
    n_bytes: int
    summary: StreamSummary
    n_blocks: int = 1
    block_seconds: float = 0.0
    resparsify_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """The sparsifier was repaired after deletes, or needed no repair.

    Attributes
    ----------
    repair : Repair
        What was sampled anew.
    seconds : float
        How long it took, with the reading of the log.
    """

    repair: Repair
    seconds: float


IngestEvent = Quarantined | Duplicate | Withheld | Retracted | Committed | Progress | Repaired
