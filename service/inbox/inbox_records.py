"""Records of sources, files, pushes and outcomes, between the manifest and ingest."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, Self, get_args

from sqlalchemy import Row

from peewit.service.jobs.job import require_key
from peewit.service.live_sources.kinds import FILES
from peewit.service.live_sources.node_columns import Holds

FileStatus = Literal["pending", "committed", "quarantined", "duplicate", "retracting", "retracted"]
"""Waits or is being read; is in the graph; broke a rule; the same content was committed before; is
to be taken out of the graph, or not to come into it; is not in the graph, as somebody wanted."""

Retractable = Literal["whole", "inserts_only", "no"]
"""Whether a file can be retracted: whole, as to what it inserted only, or not."""

FILE_STATUSES: Final[tuple[FileStatus, ...]] = get_args(FileStatus)

REPLACED: Final = "a newer version took its place"
"""Reason of a file that left the graph when its path had another content."""

FILE_GONE: Final = "the file is gone"
"""Reason of a file that was deleted between its listing and its reading."""

_MAX_SHOWN: Final = 200


class SourceNotFound(LookupError):
    """The graph has no source of this id, or it was removed."""


class FileNotListed(LookupError):
    """The graph's manifest has no file of this id."""


class RetractionRefused(RuntimeError):
    """The file is not in the graph, or cannot be taken out of it."""


class TooManySources(ValueError):
    """The graph has as many sources as it may have."""


class PushNotFound(LookupError):
    """The graph has no push of this id, or it was forgotten some time after it went in."""


class BacklogFull(RuntimeError):
    """Pushes that wait for ingest leave no room; try again later."""


class ListedFile(NamedTuple):
    """A file as a listing shows it; ``version`` changes whenever the content may have changed."""

    path: str
    version: str
    size: int


@dataclass(frozen=True, slots=True)
class RowRecord:
    """Base of records whose fields are columns of a table."""

    @classmethod
    def of(cls, row: Row[Any]) -> Self:
        """The record of a row of the table."""
        return cls(**{each.name: getattr(row, each.name) for each in fields(cls)})


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord(RowRecord):
    """A place that ingest reads.

    Attributes
    ----------
    id, graph_id : str
        Names of the source and of what it feeds.
    url : str
        Directory, glob, file or fsspec URL; of a live source what its kind reads.
    kind : str
        ``files``, or that of a live source, from `peewit.service.live_sources.kinds`.
    holds : {"edges", "labels", "features"}
        What its rows are; files hold edges.
    label_column : str, optional
        The column of labels that labels go to; None for the one without a name.
    follow : bool
        Whether the daemon looks for new files until the source is removed.
    confined_to : str, optional
        What it may read if it was added over HTTP, for
        `peewit.service.inbox.confinement.is_within`.
    columns : mapping of str to str, optional
        What its columns are called, of those that are not as the graph says.
    max_bad_rows : int
        Most rows of each file that may be left out.
    replaces : bool
        Whether a file that changed takes the place of its earlier version.
    created_at : datetime
        By the database's clock, in UTC.
    listed_at : datetime, optional
        When ingest last listed it; noted once a minute at most while nothing changes.
    error, error_at : str, datetime, optional
        Why the last try to list or read it failed, and when; None once one has succeeded.
    n_failures : int
        Tries that have failed since the last success.
    position : mapping, optional
        How far a live source is read; None before its first chunk.
    lag : int, optional
        How much of it was not read when that was last looked at.
    n_refused : int
        What it had so far that was not taken.
    """

    id: str
    graph_id: str
    url: str
    kind: str
    holds: Holds
    label_column: str | None
    follow: bool
    confined_to: str | None
    columns: Mapping[str, str] | None
    max_bad_rows: int
    replaces: bool
    created_at: datetime
    listed_at: datetime | None
    error: str | None
    error_at: datetime | None
    n_failures: int
    position: Mapping[str, Any] | None
    lag: int | None
    n_refused: int

    @property
    def is_live(self) -> bool:
        """Whether it is read by position, and not as files."""
        return self.kind != FILES


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord(RowRecord):
    """One version of one file, and what became of it.

    Attributes
    ----------
    id : int
        Names it within the database.
    position : int
        Its turn within the graph.
    source_id, push_id : str, optional
        Where it came from, one of the two; of gathered pushes the first.
    path, version, size : str, str, int
        As listed; size in bytes.
    digest : str, optional
        Of the whole content, once it was read.
    status : {"pending", "committed", "quarantined", "duplicate", "retracting", "retracted"}
        Where it stands.
    reason, row, value : str, int, str, optional
        Why it is quarantined: the rule, the row that breaks it and what stands there. The reason
        also tells why it was retracted, or was not when that was wanted.
    n_rows, n_self_loops, n_bad_rows : int, optional
        Rows taken, those of them dropped as self-loops, and those left out as they break a rule.
    retractable : {"whole", "inserts_only", "no"}, optional
        Of a file in the graph; None where the manifest was not told.
    inserts_only : bool
        Whether it is to be retracted as to what it inserted only.
    created_at, finished_at : datetime
        By the database's clock, in UTC.
    """

    id: int
    position: int
    source_id: str | None
    push_id: str | None
    path: str
    version: str
    size: int
    digest: str | None
    status: FileStatus
    reason: str | None
    row: int | None
    value: str | None
    n_rows: int | None
    n_self_loops: int | None
    n_bad_rows: int | None
    retractable: Retractable | None
    inserts_only: bool
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PushRecord:
    """A block that came over HTTP; ingest gathers several into one file.

    Attributes
    ----------
    id : str
        Names the push.
    position : int
        Its turn among the graph's pushes.
    idempotency_key : str, optional
        Chosen by the sender.
    body_digest : str
        Of the request's body.
    path : str
        Where the block lies on disk; empty where the database holds it.
    n_rows, n_bytes : int
        Of the block.
    owner : str, optional
        Prefix of the key that sent it, where there was one.
    file : FileRecord, optional
        What it was gathered into; None before that.
    is_repeated : bool
        Whether this is the answer to a push that came again with its Idempotency-Key.
    """

    id: str
    position: int
    idempotency_key: str | None
    body_digest: str
    path: str
    n_rows: int
    n_bytes: int
    owner: str | None
    file: FileRecord | None
    is_repeated: bool = False

    @property
    def status(self) -> FileStatus:
        """Where it stands."""
        return "pending" if self.file is None else self.file.status


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPush:
    """A block to be taken in.

    Attributes
    ----------
    body_digest : str
        Of the request's body.
    n_rows, n_bytes : int
        Of the block.
    content : bytes, optional
        The block itself, an Arrow IPC stream; None when it lies at ``path``.
    path : str
        A Parquet file, flushed; empty when ``content`` is given.
    idempotency_key : str, optional
        Chosen by the sender.
    owner : str, optional
        Prefix of the key that sent it.

    Raises
    ------
    ValueError
        The key is empty or too long.
    """

    body_digest: str
    n_rows: int
    n_bytes: int
    content: bytes | None = None
    path: str = ""
    idempotency_key: str | None = None
    owner: str | None = None

    def __post_init__(self) -> None:
        require_key(self.idempotency_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class PushLimits:
    """Most bytes of pushes that may wait: of one graph, and of all together."""

    graph_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOutcome:
    """How a file ended; make one with its class methods.

    Attributes
    ----------
    file_id : int
        Which one; the further fields are those of `FileRecord`.
    is_kept : bool
        Whether it is in the graph though it was to be retracted.
    has_replaced : bool
        Whether what it takes the place of left the graph.
    """

    file_id: int
    status: FileStatus
    digest: str | None = None
    reason: str | None = None
    row: int | None = None
    value: str | None = None
    n_rows: int | None = None
    n_self_loops: int | None = None
    n_bad_rows: int | None = None
    retractable: Retractable | None = None
    is_kept: bool = False
    has_replaced: bool = False

    @classmethod
    def committed(
        cls,
        file_id: int,
        *,
        digest: str,
        n_rows: int,
        n_self_loops: int,
        n_bad_rows: int = 0,
        retractable: Retractable | None = None,
        kept_as: str | None = None,
    ) -> Self:
        """The whole file is in the graph; ``kept_as`` tells why though it was to be retracted."""
        return cls(
            file_id=file_id,
            status="committed",
            digest=digest,
            n_rows=n_rows,
            n_self_loops=n_self_loops,
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
        """Nothing of the file is in the graph; ``value`` is cut where it is long."""
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
    def duplicate(cls, file_id: int, *, digest: str, has_replaced: bool = False) -> Self:
        """A committed file has the same content; nothing is added."""
        return cls(file_id=file_id, status="duplicate", digest=digest, has_replaced=has_replaced)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What waits to be ingested, pushes counted one by one until they are gathered into a file.

    ``pushed_bytes`` are those that came by push, as they came.
    """

    n_files: int
    n_bytes: int
    pushed_bytes: int


def printable(text: str, *, limit: int = _MAX_SHOWN) -> str:
    """The text as any database can hold it."""
    safe = text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    return safe if len(safe) <= limit else safe[: limit - 1] + "…"
