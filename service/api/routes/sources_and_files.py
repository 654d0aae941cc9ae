"""Sources that the ingest daemon reads, and their files."""

from functools import partial
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import CallerHere, requires
from peewit.service.api.errors import problems
from peewit.service.api.long_poll import WaitSeconds, wait_until
from peewit.service.api.routes.query_parameters import MAX_ID, ONE_GRAPH, PageSize, resource
from peewit.service.api.schemas.bodies_and_problems import refusing
from peewit.service.api.schemas.sources_and_pushes import SourceIn, file_of, source_of
from peewit.service.api.served_home import GraphHere, HomeHere, ServedHome
from peewit.service.catalog import GraphNotFound, GraphRecord
from peewit.service.inbox.confinement import SourceRefused, SourceRules
from peewit.service.inbox.inbox_records import (
    FileNotListed,
    FileStatus,
    RetractionRefused,
    SourceNotFound,
    SourceRecord,
    TooManySources,
)
from peewit.service.inbox.source_columns import source_columns
from peewit.service.live_sources.kinds import FILES, start_of
from peewit.service.problems import InvalidArgument
from peewit.service.wire.sources_and_pushes import File, FilePage, Retry, Source, SourceList
from peewit.solvers.arguments import BadArgument
from peewit.streaming.edges.sources import EdgeFiles

router = resource("sources", ONE_GRAPH)

_RETRACTED: dict[int | str, dict[str, Any]] = {
    HTTPStatus.OK: {"description": "The file is not in the graph."},
    HTTPStatus.ACCEPTED: {"model": File, "description": "Ingest will take it out."},
}

Status = Annotated[FileStatus | None, Query(description="Only files that stand so.")]
FileId = Annotated[int, Path(ge=1, le=MAX_ID)]
Page = Annotated[int, Query(ge=0, le=MAX_ID, description="The `next_page` of the page before.")]


@router.post(
    "/sources",
    status_code=HTTPStatus.CREATED,
    dependencies=[requires("ingest")],
    responses=problems(GraphNotFound, SourceRefused, TooManySources, InvalidArgument),
)
def add_source(
    body: SourceIn, graph: GraphHere, home: HomeHere, caller: CallerHere, response: Response
) -> Source:
    """Have ingest read a source; one that is there already gets the new `follow`.

    It must lie where the server's settings allow it: PEEWIT_SOURCE_ROOTS, _SCHEMES and _HOSTS.
    One that holds labels needs the scope `label`, too.
    """
    if body.holds == "labels":
        caller.require("label")
    with refusing():
        place = SourceRules.of(home.settings).place_of(body.url)
        columns = source_columns(graph.settings, body.holds, body.columns)
        if body.kind == FILES:
            _require_readable(body.url)
        start = start_of(body.kind, body.url, columns, body.start)
        source = home.manifest.sources.add(
            graph.id,
            body.url,
            kind=body.kind,
            holds=body.holds,
            label_column=body.label_column,
            start=start,
            follow=body.follow,
            columns=body.columns,
            max_bad_rows=body.max_bad_rows,
            replaces=body.replaces,
            confined_to=place,
            max_sources=home.settings.max_sources,
        )
    response.headers["Location"] = f"/v1/graphs/{graph.settings.name}/sources/{source.id}"
    return _source_answer(source, graph, home)


@router.get("/sources", dependencies=[requires("read")], responses=problems(GraphNotFound))
def list_sources(
    graph: GraphHere,
    home: HomeHere,
    status: Status = None,
    page: Page = 0,
    page_size: PageSize = 100,
) -> SourceList:
    """The sources, and a page of the manifest: pending, committed, quarantined with the reason."""
    sources = [_source_answer(each, graph, home) for each in home.manifest.sources.list(graph.id)]
    files = _page(graph, home, status, page, page_size)
    return SourceList(sources=sources, files=files.files, next_page=files.next_page)


@router.delete(
    "/sources/{source_id}",
    status_code=HTTPStatus.NO_CONTENT,
    dependencies=[requires("ingest")],
    responses=problems(GraphNotFound, SourceNotFound),
)
def remove_source(source_id: str, graph: GraphHere, home: HomeHere) -> None:
    """Read nothing more from a source; what is committed stays, its refused files are forgotten."""
    home.manifest.sources.remove(graph.id, source_id)


@router.post(
    "/sources/{source_id}:retry",
    dependencies=[requires("ingest")],
    responses=problems(GraphNotFound, SourceNotFound),
)
def retry_source(source_id: str, graph: GraphHere, home: HomeHere) -> Retry:
    """Offer the quarantined files of a source again."""
    return Retry(n_files=home.manifest.retry_source(graph.id, source_id))


@router.get("/files", dependencies=[requires("read")], responses=problems(GraphNotFound))
def list_files(
    graph: GraphHere,
    home: HomeHere,
    status: Status = None,
    page: Page = 0,
    page_size: PageSize = 100,
) -> FilePage:
    """A page of the manifest, pushes included, oldest first."""
    return _page(graph, home, status, page, page_size)


@router.get(
    "/files/{file_id}",
    dependencies=[requires("read")],
    responses=problems(GraphNotFound, FileNotListed),
)
async def get_file(
    request: Request, file_id: FileId, graph: GraphHere, home: HomeHere, wait: WaitSeconds = 0
) -> File:
    """One file; `wait` can wait until it waits for ingest no more."""
    look = partial(home.manifest.file, graph.id, file_id)
    return file_of(await wait_until(request, look, seconds=wait))


@router.delete(
    "/files/{file_id}",
    dependencies=[requires("ingest")],
    responses=_RETRACTED | problems(GraphNotFound, FileNotListed, RetractionRefused),
)
async def retract_file(
    request: Request,
    response: Response,
    file_id: FileId,
    graph: GraphHere,
    home: HomeHere,
    inserts_only: Annotated[
        bool, Query(description="Let edges stay deleted that the file deleted or set.")
    ] = False,
    wait: WaitSeconds = 0,
) -> File:
    """Retract a file: its edges leave the graph, and one that waits is left out.

    202 until ingest has carried it out, for which `wait` can wait, and 200 then. The file itself is
    not touched, and does not come again until its content changes or somebody asks for it.
    """
    file = await run_in_threadpool(
        home.manifest.retractions.want, graph.id, file_id, inserts_only=inserts_only
    )
    if wait:
        look = partial(home.manifest.file, graph.id, file_id)
        file = await wait_until(request, look, seconds=wait)
    if file.status == "committed":
        raise RetractionRefused(f"file {file_id} stays: {file.reason}")
    is_out = file.status == "retracted"
    response.status_code = HTTPStatus.OK if is_out else HTTPStatus.ACCEPTED
    return file_of(file)


@router.post(
    "/files/{file_id}:retry",
    dependencies=[requires("ingest")],
    responses=problems(GraphNotFound, FileNotListed),
)
def retry_file(file_id: FileId, graph: GraphHere, home: HomeHere) -> File:
    """Offer a file again that is quarantined, or was retracted and has no newer version."""
    if not home.manifest.retry_file(graph.id, file_id):
        raise FileNotListed(f"no quarantined or retracted file {file_id} of this graph")
    return file_of(home.manifest.file(graph.id, file_id))


def _require_readable(url: str) -> None:
    """Refuse what no ingest process could read; that something is there is for ingest to see."""
    try:
        EdgeFiles(url)
    except (ValueError, OSError) as error:
        raise BadArgument(
            "url", f"must name files that ingest can read, got {url!r}: {error}"
        ) from error


def _source_answer(source: SourceRecord, graph: GraphRecord, home: ServedHome) -> Source:
    return source_of(source, dict(home.manifest.counts(graph.id, source_id=source.id)))


def _page(
    graph: GraphRecord, home: ServedHome, status: FileStatus | None, page: int, page_size: int
) -> FilePage:
    files = home.manifest.list_files(graph.id, status=status, after_id=page, limit=page_size + 1)
    shown = [file_of(file) for file in files[:page_size]]
    return FilePage(files=shown, next_page=str(shown[-1].id) if len(files) > page_size else None)
