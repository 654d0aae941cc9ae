"""Where edges come from: sources, their files, and pushes."""

from dataclasses import asdict, replace
from datetime import datetime
from typing import Annotated, Self

from pydantic import Field, StringConstraints

from peewit.service.api.schemas.base import Answer, Body
from peewit.service.inbox.records import FileRecord, FileStatus, PushRecord, SourceRecord
from peewit.service.redaction import shown_url


class FileOut(Answer):
    """One version of a file and what became of it; pushes are gathered into files too."""

    id: int
    source_id: str | None
    push_id: str | None
    path: str
    size: int = Field(description="Bytes.")
    status: FileStatus
    reason: str | None = Field(description="The rule that a quarantined file breaks.")
    row: int | None = Field(description="The row that breaks it, from 0.")
    value: str | None = Field(description="What stands there.")
    n_rows: int | None
    n_self_loops: int | None
    created_at: datetime
    finished_at: datetime | None

    @classmethod
    def of(cls, file: FileRecord) -> Self:
        """What people see of a file."""
        return cls.model_validate(replace(file, path=shown_url(file.path)))


class FilePage(Answer):
    """Part of a manifest, oldest first."""

    files: list[FileOut]
    next_page: str | None = Field(description="For ?page=; null on the last one.")


class PushOut(Answer):
    """Edges that are on disk, and how far they are."""

    id: str
    n_rows: int
    n_bytes: int = Field(description="Of the block on disk.")
    idempotency_key: str | None
    status: FileStatus
    file: FileOut | None = Field(
        description="What it was gathered into with its neighbors; null before that."
    )

    @classmethod
    def of(cls, push: PushRecord) -> Self:
        """What people see of a push."""
        return cls(
            id=push.id,
            n_rows=push.n_rows,
            n_bytes=push.n_bytes,
            idempotency_key=push.idempotency_key,
            status=push.status,
            file=None if push.file is None else FileOut.of(push.file),
        )


class SourceIn(Body):
    """A place to read edges from."""

    url: Annotated[str, StringConstraints(min_length=1)] = Field(
        description="Absolute path of a file or directory, a glob, or an fsspec URL.",
        examples=["/data/edges/*.parquet", "s3://bucket/edges/"],
    )
    follow: bool = Field(False, description="Look for new files until the source is removed.")


class SourceOut(Answer):
    """A source, its files by status, and what the last try to list or read it came to."""

    id: str
    url: str = Field(description="Without password and signature.")
    follow: bool
    created_at: datetime
    listed_at: datetime | None = Field(description="When ingest last listed it.")
    error: str | None = Field(description="Why the last try failed; it is tried again.")
    error_at: datetime | None
    n_failures: int = Field(description="Tries that failed since the last success.")
    files: dict[FileStatus, int]

    @classmethod
    def of(cls, source: SourceRecord, files: dict[FileStatus, int]) -> Self:
        """What people see of a source."""
        values = asdict(source)
        del values["graph_id"], values["confined_to"]
        return cls(**values | {"url": shown_url(source.url)}, files=files)


class SourceList(FilePage):
    """The sources of a graph, and part of its manifest."""

    sources: list[SourceOut]


class RetryOut(Answer):
    """How many files wait to be read again."""

    n_files: int
