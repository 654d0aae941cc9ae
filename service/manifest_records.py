"""What the manifest tells about sources, files and pushes, and what ingest tells it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, NamedTuple, Self, get_args

FileStatus = Literal["pending", "committed", "quarantined", "duplicate"]
"""Waits or is being read; is in the graph; broke a rule; the same content was committed before."""

FILE_STATUSES: Final[tuple[FileStatus, ...]] = get_args(FileStatus)

_MAX_SHOWN: Final = 200


class SourceNotFound(LookupError):
    """The graph has no source of this id, or it was removed."""


class FileNotListed(LookupError):
    """The graph's manifest has no file of this id."""


class ListedFile(NamedTuple):
    """A file as a listing shows it; ``version`` changes whenever the content may have changed."""

    path: str
    version: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord:
    """A place that ingest reads files from.

    Attributes
    ----------
    id : str
        Names the source.
    url : str
        Directory, glob, file or fsspec URL.
    follow : bool
        Whether the daemon looks for new files until the source is removed.
    created_at : datetime
        By the database's clock, in UTC.
    """

    id: str
    url: str
    follow: bool
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """One version of one file, and what became of it.

    Attributes
    ----------
    id : int
        Names it within the database.
    position : int
        Its turn within the graph.
    source_id, push_id : str, optional
        Where it came from; one of the two.
    path, version, size : str, str, int
        As listed; size in bytes.
    digest : str, optional
        Of the whole content, once it was read.
    status : {"pending", "committed", "quarantined", "duplicate"}
        Where it stands.
    reason, row, value : str, int, str, optional
        Why it is quarantined: the rule, the row that breaks it and what stands there.
    n_rows, n_self_loops : int, optional
        Rows read, and those of them dropped as self-loops.
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
    created_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PushRecord:
    """A block that came over HTTP.

    Attributes
    ----------
    id : str
        Names the push.
    idempotency_key : str, optional
        Chosen by the sender.
    body_digest : str
        Of the request's body.
    path : str
        Where the block lies; ``file.path`` too.
    n_rows, n_bytes : int
        Of the block on disk.
    created_at : datetime
        By the database's clock, in UTC.
    file : FileRecord
        What became of it.
    """

    id: str
    idempotency_key: str | None
    body_digest: str
    path: str
    n_rows: int
    n_bytes: int
    created_at: datetime
    file: FileRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOutcome:
    """How a file ended; make one with `committed`, `quarantined` or `duplicate`."""

    file_id: int
    status: FileStatus
    digest: str | None = None
    reason: str | None = None
    row: int | None = None
    value: str | None = None
    n_rows: int | None = None
    n_self_loops: int | None = None

    @classmethod
    def committed(cls, file_id: int, *, digest: str, n_rows: int, n_self_loops: int) -> Self:
        """The whole file is in the graph."""
        return cls(
            file_id=file_id,
            status="committed",
            digest=digest,
            n_rows=n_rows,
            n_self_loops=n_self_loops,
        )

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
        shown = None if value is None else _printable(value)
        return cls(
            file_id=file_id,
            status="quarantined",
            reason=_printable(reason, limit=10 * _MAX_SHOWN),
            row=row,
            value=shown,
            digest=digest,
        )

    @classmethod
    def duplicate(cls, file_id: int, *, digest: str) -> Self:
        """A committed file has the same content; nothing is added."""
        return cls(file_id=file_id, status="duplicate", digest=digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What waits to be ingested; ``pushed_bytes`` are those that came by push."""

    n_files: int
    n_bytes: int
    pushed_bytes: int


def _printable(text: str, *, limit: int = _MAX_SHOWN) -> str:
    """The text as any database can hold it."""
    safe = text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    return safe if len(safe) <= limit else safe[: limit - 1] + "…"
