"""Sources, their files, and pushes."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, Self

from peewit.service.wire.records import Ongoing, described, record
from peewit.streaming.left_out import LeftOut

FileStatus = Literal["pending", "committed", "quarantined", "duplicate", "retracting", "retracted"]


@record
class File(Ongoing):
    """One version of a file and what became of it; pushes are gathered into files too."""

    id: int
    source_id: str | None
    push_id: str | None
    path: str
    size: int = described("Bytes.")
    status: FileStatus
    reason: str | None = described(
        "The rule that a quarantined file breaks, or what a duplicate repeats; why another one was "
        "retracted, or could not be."
    )
    row: int | None = described("The row that breaks it, from 0.")
    value: str | None = described("What stands there.")
    n_rows: int | None
    left_out: LeftOut | None = described("How many of these rows made no edge.")
    n_bad_rows: int | None = described("Rows left out because they break a rule.", default=None)
    created_at: datetime
    finished_at: datetime | None
    retractable: Literal["whole", "inserts_only", "no"] | None = described(
        "Whether a file in the graph can be taken out: whole, as to what it inserted only, "
        "or not. Null where that is not known.",
        default=None,
    )

    @property
    def is_settled(self) -> bool:
        """Whether it waits for ingest no more."""
        return self.status not in {"pending", "retracting"}

    @property
    def is_done(self) -> bool:
        """Whether it is out of the graph, of one that was to be retracted."""
        return self.status == "retracted"

    @property
    def refusal(self) -> str | None:
        """Why it is still in the graph, of one that was to be retracted."""
        return f"{self.path} stays: {self.reason}" if self.status == "committed" else None


@record
class FilePage:
    """Part of a manifest, oldest first."""

    files: list[File]
    next_page: str | None = described("For ?page=; null on the last one.")


@record
class Push(Ongoing):
    """Edges that are on disk, and how far they are."""

    id: str
    n_rows: int
    n_bytes: int = described("Size of the block on disk.")
    idempotency_key: str | None
    status: FileStatus
    file: File | None = described("What it was gathered into with its neighbors; null before that.")
    n_bad_rows: int = described("Rows that were left out because they break a rule.", default=0)
    note: str | None = described(
        "What is odd about ids of its first rows; also why edges of the graph wait whose "
        "arrival a wrong clock may have stamped.",
        default=None,
    )

    def since(self, first: Self) -> Self:
        """The same, with what was told at first."""
        notes = filter(None, (first.note, self.note))
        return replace(self, note="; ".join(dict.fromkeys(notes)) or None)

    @property
    def is_settled(self) -> bool:
        """Whether it waits for ingest no more."""
        return self.status not in {"pending", "retracting"}

    @property
    def is_done(self) -> bool:
        """Whether it has left the disk for the graph."""
        return self.status != "pending"

    @property
    def refusal(self) -> str | None:
        """Which rule its edges break."""
        if self.status != "quarantined":
            return None
        return (self.file and self.file.reason) or "the block was refused"

    @property
    def place(self) -> Mapping[str, Any]:
        """Where they break it."""
        return {} if self.file is None else {"row": self.file.row, "value": self.file.value}


@record
class Source:
    """A source, its files by status, and what the last try to list or read it came to."""

    id: str
    url: str = described("Without password and signature.")
    follow: bool
    created_at: datetime
    listed_at: datetime | None = described("When ingest last listed it.")
    error: str | None = described("Why the last try failed; it is tried again.")
    error_at: datetime | None
    n_failures: int = described("Tries that failed since the last success.")
    files: dict[FileStatus, int]
    columns: dict[str, str] = described(
        "What its columns are called, where that is not as the graph says.", default_factory=dict
    )
    max_bad_rows: int = described("Most rows of each file that may be left out.", default=0)
    replaces: bool = described(
        "Whether a file that changed takes the place of its earlier version.", default=False
    )
    again: bool = described(
        "Whether a file counts though its content came before by another path or door.",
        default=False,
    )
    kind: str = described("files, or of a live source delta, iceberg or kafka.", default="files")
    holds: Literal["edges", "labels", "features"] = described(
        "What its rows are; files hold edges.", default="edges"
    )
    label_column: str | None = described(
        "The column of labels that its labels go to; null for the one without a name.", default=None
    )
    position: dict[str, Any] | None = described(
        "How far a live source is read; null before its first chunk.", default=None
    )
    lag: int | None = described(
        "How much of a live source is not read yet: versions or messages; null where that is "
        "not known.",
        default=None,
    )
    n_refused: int = described(
        "What a live source had that was not taken; refused chunks are among the files.", default=0
    )
    note: str | None = described(
        "What columns of a live source say that are not read, and how to read them.", default=None
    )


@record
class RefusedRows:
    """Rows of a live source that were not taken."""

    source_id: str
    place: str = described("Where they stood.")
    reason: str = described("The rule that they break.")
    created_at: datetime


@record
class SourceList(FilePage):
    """The sources of a graph, and part of its manifest."""

    sources: list[Source]
    refusals: list[RefusedRows] = described(
        "What live sources had that was not taken, the newest first.", default_factory=list
    )


@record
class Retry:
    """How many files wait to be read again."""

    n_files: int
