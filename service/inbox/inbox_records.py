"""Records of sources, files, pushes and outcomes, which the manifest and ingest exchange."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, Self, get_args

from sqlalchemy import Row

from peewit.service.jobs.job import require_key
from peewit.service.live_sources.kinds import FILES
from peewit.service.live_sources.node_columns import Holds
from peewit.service.problems import RETRY_SECONDS
from peewit.streaming.left_out import NO_ROWS, LeftOut
from peewit.streaming.problems import Conflict, NotFound, Problem

FileStatus = Literal["pending", "committed", "quarantined", "duplicate", "retracting", "retracted"]
"""Pending: waits or is being read. Committed: is in the graph. Quarantined: broke a rule.
Duplicate: the same content was committed before. Retracting: is to be taken out of the graph, or
kept from it. Retracted: is not in the graph, as somebody wanted."""

Retractable = Literal["whole", "inserts_only", "no"]
"""Whether a file can be retracted: whole, only what it inserted, or not."""

FILE_STATUSES: Final[tuple[FileStatus, ...]] = get_args(FileStatus)

REPLACED: Final = "a newer version took its place"
"""Reason of a file that left the graph when its path got another content."""

FILE_GONE: Final = "the file is gone"
"""Reason of a file that was deleted between its listing and its reading."""

_MAX_SHOWN: Final = 200


class SourceNotFound(NotFound):
    """The graph has no source of this id, or it was removed."""

    title = "Source not found"


class FileNotListed(NotFound):
    """The graph's manifest has no file of this id."""

    title = "File not found"


class RetractionRefused(Conflict, RuntimeError):
    """The file is not in the graph, or cannot be taken out of it."""

    title = "File cannot be retracted"


class TooManySources(Conflict, ValueError):
    """The graph has as many sources as it may have."""

    title = "Too many sources"


class PushNotFound(NotFound):
    """The graph has no push of this id, or it was forgotten some time after it was ingested."""

    title = "Push not found"


class BacklogFull(Problem, RuntimeError):
    """Pushes that wait for ingest leave no room; try again later."""

    status = 429
    title = "Backlog full"
    retry_seconds = RETRY_SECONDS


class ListedFile(NamedTuple):
    """A file in a listing; ``version`` changes whenever the content may have changed."""

    path: str
    version: str
    size: int


@dataclass(frozen=True, slots=True)
class RowRecord:
    """Base of records whose fields are columns of a table."""

    @classmethod
    def of(cls, row: Row[Any]) -> Self:
        """The record of a row of the table."""
        return cls(**{column.name: getattr(row, column.name) for column in fields(cls)})


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord(RowRecord):
    """A place that ingest reads.

    ``confined_to`` is what a source added over HTTP may read, for `confinement.is_within`; None for
    the machine owner's. ``error`` and ``error_at`` say why and when the last try to list or read it
    failed; None once a try succeeds.
    """

    id: str
    graph_id: str
    url: str  # directory, glob, file or fsspec URL; of a live source what its kind reads
    kind: str  # files, or a kind of `peewit.service.live_sources.kinds`
    holds: Holds  # what its rows are; files hold edges
    label_column: str | None  # that labels go to; None: the one without a name
    follow: bool  # whether to look for new files until it is removed
    confined_to: str | None
    columns: Mapping[str, str] | None  # names that differ from the graph's
    max_bad_rows: int  # of each file, that may be left out
    replaces: bool  # whether a changed file replaces its earlier version
    again: bool  # whether a file counts whose content came before from elsewhere
    created_at: datetime  # UTC, by the database's clock
    listed_at: datetime | None  # by ingest; stored once a minute at most while nothing changes
    error: str | None
    error_at: datetime | None
    n_failures: int  # since the last success
    position: Mapping[str, Any] | None  # how far a live source is read; None before its first chunk
    lag: int | None  # how much was unread when last looked at
    n_refused: int  # rows so far that were not taken

    @property
    def is_live(self) -> bool:
        """Whether it is read by position, and not as files."""
        return self.kind != FILES


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord(RowRecord):
    """One version of one file, and what became of it.

    ``reason``, ``row`` and ``value`` say why it is quarantined: the rule, the row that breaks it
    and what stands there. The reason also tells why it was retracted, or why it was not when that
    was wanted.
    """

    id: int  # unique in the database
    position: int  # its turn within the graph
    source_id: str | None  # None of gathered pushes
    push_id: str | None  # the first of gathered pushes; None of a source's file
    path: str
    version: str
    size: int  # bytes
    digest: str | None  # of the whole content, once it was read
    status: FileStatus
    reason: str | None
    row: int | None
    value: str | None
    n_rows: int | None  # that were taken
    left_out: LeftOut | None  # of these, without an edge
    n_bad_rows: int | None  # left out as they break a rule
    retractable: Retractable | None  # of a file in the graph; None where the manifest was not told
    inserts_only: bool  # whether only what it inserted is to be retracted
    created_at: datetime  # UTC, by the database's clock
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PushRecord:
    """A block that came over HTTP; ingest gathers several into one file."""

    id: str
    position: int  # its turn among the graph's pushes
    idempotency_key: str | None  # chosen by the sender
    body_digest: str  # of the request's body
    path: str  # of the block on disk; empty where the database holds it
    n_rows: int
    n_bytes: int
    n_bad_rows: int  # left out of what was sent
    owner: str | None  # prefix of the key that sent it
    file_digest: str | None  # of what it was sent as: a file, or a partition of dask
    file: FileRecord | None  # that it was gathered into; None before
    is_repeated: bool = False  # whether the push came again with its Idempotency-Key

    @property
    def status(self) -> FileStatus:
        """The status of its file; pending before it has one."""
        return "pending" if self.file is None else self.file.status


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPush:
    """A block to be stored; a ValueError where its Idempotency-Key is empty or too long."""

    body_digest: str  # of the request's body
    n_rows: int
    n_bytes: int
    content: bytes | None = None  # the block as an Arrow IPC stream; None when it lies at path
    path: str = ""  # a Parquet file, flushed; empty when content is given
    idempotency_key: str | None = None  # chosen by the sender
    owner: str | None = None  # prefix of the key that sent it
    file_digest: str | None = None  # of what it was sent as: a file, or a partition of dask
    n_bad_rows: int = 0  # left out of what was sent

    def __post_init__(self) -> None:
        require_key(self.idempotency_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class PushLimits:
    """Most bytes of pushes that may wait: of one graph, and of all together."""

    graph_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOutcome:
    """How a file ended, by its class methods; other fields are as in `FileRecord`."""

    file_id: int
    status: FileStatus
    digest: str | None = None
    reason: str | None = None
    row: int | None = None
    value: str | None = None
    n_rows: int | None = None
    left_out: LeftOut | None = None
    n_bad_rows: int | None = None
    retractable: Retractable | None = None
    is_kept: bool = False  # in the graph though it was to be retracted
    has_replaced: bool = False  # whether the version before left the graph

    @classmethod
    def committed(
        cls,
        file_id: int,
        *,
        digest: str,
        n_rows: int,
        left_out: LeftOut = NO_ROWS,
        n_bad_rows: int = 0,
        retractable: Retractable | None = None,
        kept_as: str | None = None,
    ) -> Self:
        """The whole file is in the graph; ``kept_as`` is why, if it was to be retracted."""
        return cls(
            file_id=file_id,
            status="committed",
            digest=digest,
            n_rows=n_rows,
            left_out=left_out,
            n_bad_rows=n_bad_rows,
            retractable=retractable,
            reason=None if kept_as is None else printable(kept_as, limit=10 * _MAX_SHOWN),
            is_kept=kept_as is not None,
            has_replaced=kept_as is None,
        )

    @classmethod
    def retracted(cls, file_id: int, *, digest: str | None = None) -> Self:
        """Nothing of the file is in the graph, as somebody wanted."""
        return cls(file_id=file_id, status="retracted", digest=digest)

    @classmethod
    def quarantined(
        cls,
        file_id: int,
        reason: str,
        *,
        row: int | None = None,
        value: str | None = None,
        digest: str | None = None,
    ) -> Self:
        """Nothing of the file is in the graph; a long ``value`` is cut."""
        shown = None if value is None else printable(value)
        return cls(
            file_id=file_id,
            status="quarantined",
            reason=printable(reason, limit=10 * _MAX_SHOWN),
            row=row,
            value=shown,
            digest=digest,
        )

    @classmethod
    def duplicate(
        cls, file_id: int, *, digest: str, reason: str | None = None, has_replaced: bool = False
    ) -> Self:
        """A committed file has the same content; nothing is added."""
        return cls(
            file_id=file_id,
            status="duplicate",
            digest=digest,
            reason=None if reason is None else printable(reason, limit=10 * _MAX_SHOWN),
            has_replaced=has_replaced,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What waits to be ingested; pushes count one by one until they are gathered into a file.

    ``pushed_bytes`` are those that came by push, as they came.
    """

    n_files: int
    n_bytes: int
    pushed_bytes: int


def printable(text: str, *, limit: int = _MAX_SHOWN) -> str:
    """The text in a form that any database can hold, cut at ``limit`` characters."""
    safe = text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    return safe if len(safe) <= limit else safe[: limit - 1] + "…"
