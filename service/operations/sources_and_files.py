"""Sources that ingest reads, and their files."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from peewit.service.catalog import GraphRecord
from peewit.service.graphs.table_notes import source_note
from peewit.service.inbox.confinement import SourceRefused, SourceRules
from peewit.service.inbox.inbox_records import (
    FileNotListed,
    FileRecord,
    RetractionRefused,
    SourceNotFound,
    SourceRecord,
    TooManySources,
)
from peewit.service.inbox.source_columns import source_columns
from peewit.service.inbox.source_store import MAX_BAD_ROWS
from peewit.service.live_sources.contract import UNREAD
from peewit.service.live_sources.kinds import FILES, KINDS, start_of
from peewit.service.live_sources.node_columns import Holds
from peewit.service.operations.answers import answer_of
from peewit.service.operations.declaration import Body, Group, Path, Query, operation
from peewit.service.operations.here import Here
from peewit.service.redaction import shown_url
from peewit.service.wire.sources_and_pushes import (
    File,
    FilePage,
    FileStatus,
    RefusedRows,
    Retry,
    Source,
    SourceList,
)
from peewit.solvers.arguments import BadArgument
from peewit.streaming.edges.sources import EdgeFiles

MAX_ID: Final = 2**63 - 1
"""Databases count no further."""

_REFUSALS_SHOWN: Final = 100

SourceId = Annotated[str, Path("The `id` that adding it gave.", flag="SOURCE")]
FileId = Annotated[int, Path("The `id` of the file, as the list tells.", ge=1, le=MAX_ID)]


@dataclass(frozen=True, kw_only=True)
class FilesPage(Group):
    """Which files of a manifest."""

    status: Annotated[FileStatus | None, Query("Only files that stand so.")] = None
    page: Annotated[int, Query("The `next_page` of the page before.", ge=0, le=MAX_ID)] = 0
    limit: Annotated[int, Query("Most entries.", ge=1, le=1000)] = 100

    def read(self, here: Here, graph: GraphRecord) -> FilePage:
        """The page."""
        files = here.home.manifest.list_files(
            graph.id, status=self.status, after_id=self.page, limit=self.limit + 1
        )
        shown = [file_of(each) for each in files[: self.limit]]
        return FilePage(
            files=shown, next_page=str(shown[-1].id) if len(files) > self.limit else None
        )


@dataclass(frozen=True, kw_only=True)
class Reading(Group):
    """How a source is read."""

    kind: Annotated[
        str, Body(f"What is read: {', '.join((FILES, *KINDS))}.", examples=list(KINDS))
    ] = FILES
    holds: Annotated[
        Holds, Body("What the rows of a live source are; labels need a key that may label, too.")
    ] = "edges"
    label_column: Annotated[
        str | None,
        Body(
            "The column of labels that labels go to; by default the one without a name.",
            examples=["risk"],
        ),
    ] = None
    start: Annotated[
        str | int | None,
        Body(
            "Where a live source begins: a version of a table, or, for a topic, earliest, "
            "latest or a time. By default it is read from its beginning, or from where it "
            "was.",
            examples=["57"],
        ),
    ] = None
    follow: Annotated[bool, Body("Look for new files until the source is removed.")] = False
    columns: Annotated[
        dict[str, str] | None,
        Body(
            "What its columns are called, where that is not as the graph says.",
            examples=[{"src": "source", "dst": "target"}],
            given_as=Mapping[str, str] | None,
        ),
    ] = None
    max_bad_rows: Annotated[
        int | None,
        Body(
            "Most rows of each file that may be left out because they break a rule.",
            ge=0,
            le=MAX_BAD_ROWS,
        ),
    ] = None
    replaces: Annotated[
        bool | None, Body("Whether a file that changed takes the place of its earlier version.")
    ] = None
    again: Annotated[
        bool | None,
        Body("Whether a file counts though its content came before by another path or door."),
    ] = None


@operation(
    "POST /sources",
    "ingest",
    raises=(SourceRefused, TooManySources),
    status=201,
    location="/graphs/{graph}/sources/{answer.id}",
    is_repeatable=True,
)
def add_source(
    here: Here,
    graph: GraphRecord,
    url: Annotated[
        str,
        Body(
            "Absolute path of a file or directory, a glob, or an fsspec URL. A live source "
            "has the place that it names.",
            min_length=1,
            examples=["/data/edges/*.parquet", "s3://bucket/edges/"],
        ),
    ],
    reading: Reading,
) -> Source:
    """Have ingest read a source; one that is there already gets the new `follow`.

    It must lie where the server's settings allow it: PEEWIT_SOURCE_ROOTS, _SCHEMES and _HOSTS. One
    that holds labels needs the scope `label`, too.
    """
    if reading.holds == "labels":
        here.require("label")
    settings = here.home.settings
    place = None if here.is_local else SourceRules.of(settings).place_of(url)
    named = source_columns(graph.settings, reading.holds, reading.columns)
    if reading.kind == FILES:
        _require_readable(url)
    start = None if reading.start is None else str(reading.start)
    source = here.home.manifest.sources.add(
        graph.id,
        url,
        **vars(reading) | {"start": start_of(reading.kind, url, named, start)},
        confined_to=place,
        max_sources=None if here.is_local else settings.max_sources,
    )
    return _source(here, graph, source)


@operation(
    "GET /sources", "read", client="sources", items="sources", hidden=("status", "page", "limit")
)
def list_sources(here: Here, graph: GraphRecord, which: FilesPage) -> SourceList:
    """The sources, each with its files by status and its last error, and a page of the files."""
    manifest = here.home.manifest
    files = which.read(here, graph)
    return SourceList(
        sources=[_source(here, graph, each) for each in manifest.sources.list(graph.id)],
        files=files.files,
        next_page=files.next_page,
        refusals=[
            answer_of(RefusedRows, each)
            for each in manifest.live.refusals(graph.id, limit=_REFUSALS_SHOWN)
        ],
    )


@operation("DELETE /sources/{source_id}", "ingest", raises=(SourceNotFound,))
def remove_source(here: Here, graph: GraphRecord, source_id: SourceId) -> None:
    """Read nothing more from a source; what is committed stays, its refused files are forgotten."""
    here.home.manifest.sources.remove(graph.id, source_id)


@operation(
    "POST /sources/{source_id}:retry",
    "ingest",
    raises=(SourceNotFound,),
    items="n_files",
    is_repeatable=True,
)
def retry_source(here: Here, graph: GraphRecord, source_id: SourceId) -> Retry:
    """Offer the quarantined files of a source again; try it at once if it could not be read."""
    return Retry(n_files=here.home.manifest.retry_source(graph.id, source_id))


@operation("GET /files", "read", client="files", is_paged=True, items="files")
def list_files(here: Here, graph: GraphRecord, which: FilesPage) -> FilePage:
    """The files of a graph, pushes included, oldest first: committed, or quarantined and why."""
    return which.read(here, graph)


@operation("GET /files/{file_id}", "read", raises=(FileNotListed,), client="file")
def get_file(here: Here, graph: GraphRecord, file_id: FileId) -> File:
    """One file; `wait` can wait until it waits for ingest no more."""
    return file_of(here.home.manifest.file(graph.id, file_id))


@operation(
    "DELETE /files/{file_id}",
    "ingest",
    raises=(FileNotListed, RetractionRefused),
    follow=get_file,
    refused=RetractionRefused,
    is_repeatable=True,
)
def retract_file(
    here: Here,
    graph: GraphRecord,
    file_id: FileId,
    inserts_only: Annotated[
        bool, Query("Let edges stay deleted that the file deleted or set.", flag="--inserts-only")
    ] = False,
) -> File:
    """Retract a file: its edges leave the graph, and one that waits is left out.

    Whoever ingests the graph does it. The file itself is not touched, and does not come again until
    its content changes or somebody asks for it.
    """
    retractions = here.home.manifest.retractions
    return file_of(retractions.want(graph.id, file_id, inserts_only=inserts_only))


@operation(
    "POST /files/{file_id}:retry",
    "ingest",
    raises=(FileNotListed,),
    status=200,
    follow=get_file,
    is_repeatable=True,
)
def retry_file(here: Here, graph: GraphRecord, file_id: FileId) -> File:
    """Offer a file again that is quarantined, or was retracted and has no newer version."""
    if not here.home.manifest.retry_file(graph.id, file_id):
        raise FileNotListed(f"no quarantined or retracted file {file_id} of this graph")
    return file_of(here.home.manifest.file(graph.id, file_id))


def file_of(file: FileRecord) -> File:
    """The answer for a file."""
    return answer_of(File, file, path=shown_url(file.path))


def _source(here: Here, graph: GraphRecord, source: SourceRecord) -> Source:
    position = dict(source.position or {})
    position.pop(UNREAD, None)
    return answer_of(
        Source,
        source,
        url=shown_url(source.url),
        files=dict(here.home.manifest.counts(source.graph_id, source_id=source.id)),
        columns=dict(source.columns or {}),
        position=None if source.position is None else position,
        note=source_note(graph, source, door="command" if here.is_local else None),
    )


def _require_readable(url: str) -> None:
    """Refuse what no ingest process could read; that something is there is for ingest to see."""
    try:
        EdgeFiles(url)
    except (ValueError, OSError) as error:
        raise BadArgument(
            "url", f"must name files that ingest can read, got {url!r}: {error}"
        ) from error
