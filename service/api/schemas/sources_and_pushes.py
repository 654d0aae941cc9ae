"""Sources, their files, and pushes."""

from typing import Annotated

from pydantic import Field, StringConstraints

from peewit.service.inbox.inbox_records import FileRecord, FileStatus, PushRecord, SourceRecord
from peewit.service.inbox.source_store import MAX_BAD_ROWS
from peewit.service.live_sources.kinds import FILES, KINDS
from peewit.service.live_sources.node_columns import Holds
from peewit.service.operations.answers import answer_of
from peewit.service.operations.bodies import Body
from peewit.service.redaction import shown_url
from peewit.service.wire.sources_and_pushes import File, Push, Source


class SourceIn(Body):
    """A place to read from."""

    url: Annotated[str, StringConstraints(min_length=1)] = Field(
        description="Absolute path of a file or directory, a glob, or an fsspec URL; of another "
        "kind the place that it names.",
        examples=["/data/edges/*.parquet", "s3://bucket/edges/"],
    )
    kind: str = Field(
        FILES,
        description=f"What is read: {', '.join((FILES, *KINDS))}.",
        examples=list(KINDS),
    )
    holds: Holds = Field(
        "edges",
        description="What the rows of a live source are; labels need a key that may label, too.",
    )
    label_column: str | None = Field(
        None,
        description="The column of labels that labels go to; by default the one without a name.",
        examples=["risk"],
    )
    start: str | None = Field(
        None,
        description="After what a live source begins: a version; of a topic earliest, latest or a "
        "time; by default with all there is.",
        examples=["57"],
    )
    follow: bool = Field(False, description="Look for new files until the source is removed.")
    columns: dict[str, str] | None = Field(
        None,
        description="What its columns are called, where that is not as the graph says.",
        examples=[{"src": "source", "dst": "target"}],
    )
    max_bad_rows: int | None = Field(
        None,
        description="Most rows of each file that may be left out because they break a rule.",
        ge=0,
        le=MAX_BAD_ROWS,
    )
    replaces: bool | None = Field(
        None,
        description="Whether a file that changed takes the place of its earlier version.",
    )


def file_of(file: FileRecord) -> File:
    """The answer for a file."""
    return answer_of(File, file, path=shown_url(file.path))


def push_of(push: PushRecord) -> Push:
    """The answer for a push."""
    return answer_of(Push, push, file=None if push.file is None else file_of(push.file))


def source_of(source: SourceRecord, files: dict[FileStatus, int]) -> Source:
    """The answer for a source."""
    return answer_of(
        Source,
        source,
        url=shown_url(source.url),
        files=files,
        columns=dict(source.columns or {}),
        position=None if source.position is None else dict(source.position),
    )
