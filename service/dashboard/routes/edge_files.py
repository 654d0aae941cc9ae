"""Edges: a file that is sent, or a place that is read; columns and rows before it is taken."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final

from fastapi import Query, Request, Response
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import CallerHere
from peewit.service.api.operation_routes import here_of
from peewit.service.api.schemas.bodies_and_problems import refusing
from peewit.service.api.served_home import GraphHere, HomeHere, ServedHome
from peewit.service.catalog import GraphRecord
from peewit.service.dashboard.access import viewing
from peewit.service.dashboard.column_choices import EdgeChoice, EdgesChosen
from peewit.service.dashboard.edge_intake import (
    MAX_BAD_ROWS_LOOKED_FOR,
    earlier,
    files_at,
    look,
    missing_rows,
    plain_text,
    proposal,
    proposed_for_place,
    take,
    upload_file,
)
from peewit.service.dashboard.pages import back_to, form_of, page, page_router
from peewit.service.dashboard.routes.sent_files import (
    address_of,
    decoding_of,
    received,
    report_piece,
    sent_to,
    upload_of,
    uploads_of,
)
from peewit.service.dashboard.uploads import Upload
from peewit.service.graphs.directed_relations import directed_relation, mark_directed
from peewit.service.inbox.confinement import SourceRules
from peewit.service.live_sources.kinds import FILES, KINDS
from peewit.service.operations.sources_and_files import add_source
from peewit.streaming.edges.bad_table import BadTable
from peewit.streaming.edges.parts import EdgeFile
from peewit.streaming.edges.table_formats import Format

router = page_router()

_BAD_ROWS_SHOWN: Final = 10

Url = Annotated[str, Query(max_length=2000)]
Follow = Annotated[bool, Query()]
PushId = Annotated[str, Query(alias="push", max_length=64)]


@router.get("/graphs/{graph}/edges", dependencies=[viewing("read")])
def show_edges(
    request: Request,
    graph: GraphHere,
    home: HomeHere,
    caller: CallerHere,
    push_id: PushId = "",
    again: Annotated[bool, Query()] = False,
) -> Response:
    """Where edges come from: a file that is sent, or a place."""
    push = home.manifest.push_log.get(graph.id, push_id, owner=caller.only) if push_id else None
    return page(
        request,
        "edges.html",
        graph=graph,
        push=push,
        is_repeated=again,
        rules=SourceRules.of(home.settings),
        kinds=[FILES, *KINDS],
        max_bytes=home.settings.max_body_bytes,
    )


@router.post("/graphs/{graph}/edges/files", dependencies=[viewing("ingest")])
async def send_file(
    request: Request, graph: GraphHere, name: Annotated[str, Query(max_length=1000)] = ""
) -> Response:
    """Keep a file until its columns are known."""
    upload = await received(request, graph, "edges", name)
    return sent_to(request, address_of(graph, "edges", upload))


@router.get("/graphs/{graph}/edges/files/{upload_id}", dependencies=[viewing("ingest")])
def show_file(
    request: Request, graph: GraphHere, home: HomeHere, upload_id: str, chosen: EdgesChosen
) -> Response:
    """The first rows of a file that was sent, and what its columns are."""
    upload = upload_of(request, graph, "edges", upload_id)
    last = uploads_of(request).remembered(graph.id, "edges")
    values = _columns_of(upload_file(upload), graph, home, chosen, upload=upload, last=last)
    address = address_of(graph, "edges", upload)
    return page(request, "edge_columns.html", upload=upload, place=None, address=address, **values)


@router.get("/graphs/{graph}/edges/files/{upload_id}/look", dependencies=[viewing("ingest")])
async def look_through_file(
    request: Request, graph: GraphHere, home: HomeHere, upload_id: str, chosen: EdgesChosen
) -> Response:
    """What would be taken of it and what refused; reads it whole."""
    upload = upload_of(request, graph, "edges", upload_id)
    file = upload_file(upload)
    n_bytes, packed = await decoding_of(upload, home), upload.packed_digest
    values = await _looked_through(file, n_bytes, graph, home, chosen, packed)
    report = values["report"]
    if report.refusal is not None:
        values["report"] = replace(report, refusal=plain_text(report.refusal, upload))
    address = address_of(graph, "edges", upload)
    return await run_in_threadpool(
        partial(_report_piece, request, graph, chosen, address=address, upload=upload, **values)
    )


@router.post("/graphs/{graph}/edges/files/{upload_id}", dependencies=[viewing("ingest")])
async def take_file(
    graph: GraphHere,
    request: Request,
    home: HomeHere,
    caller: CallerHere,
    upload_id: str,
    chosen: EdgesChosen,
) -> Response:
    """Take a file as it was looked at."""
    upload = upload_of(request, graph, "edges", upload_id)
    again = bool((await form_of(request)).get("again"))
    await run_in_threadpool(home.pushes.require_room, graph.id)
    # first: a disk without room for it has none for the edges
    await run_in_threadpool(uploads_of(request).remember, graph.id, "edges", chosen.named)
    async with home.decoding.held(await decoding_of(upload, home)):
        push = await run_in_threadpool(
            partial(take, upload, graph, home, chosen, owner=caller.name, again=again)
        )
    caller.require_own(push.owner)
    query = {"push": push.id}
    if push.is_repeated:
        query["again"] = "1"
    return back_to(f"/graphs/{graph.settings.name}/edges", **query)


@router.post("/graphs/{graph}/edges/files/{upload_id}/remove", dependencies=[viewing("ingest")])
def remove_file(request: Request, graph: GraphHere, upload_id: str) -> Response:
    """Give a file up."""
    upload_of(request, graph, "edges", upload_id).remove()
    return back_to(f"/graphs/{graph.settings.name}/edges")


@router.post("/graphs/{graph}/edges/files/{upload_id}/node-ids", dependencies=[viewing("admin")])
def make_integers(
    request: Request, graph: GraphHere, home: HomeHere, upload_id: str, chosen: EdgesChosen
) -> Response:
    """Make a graph that is empty one of whole numbers, as the file has them."""
    upload = upload_of(request, graph, "edges", upload_id)
    renewed = home.catalog.renew_empty(
        graph.id,
        lambda settings: replace(settings, node_ids="int64"),
        cancel_jobs=home.jobs.cancel_graph,
    )
    uploads_of(request).move(upload, "edges", renewed.id)
    return _to_columns(f"/graphs/{graph.settings.name}/edges/files/{upload.id}", chosen)


@router.get("/graphs/{graph}/edges/place", dependencies=[viewing("ingest")])
def show_place(
    request: Request,
    graph: GraphHere,
    home: HomeHere,
    chosen: EdgesChosen,
    url: Url,
    follow: Follow = False,
    kind: Annotated[str, Query(max_length=20)] = FILES,
) -> Response:
    """The first rows of the first file of a place, and what its columns are."""
    place = files_at(url, home, kind)
    if not (place.is_local or chosen.named or chosen.relation):
        chosen = replace(chosen, relation=proposed_for_place(url, graph, home))
    first = place.files[0] if place.files else None
    values = _columns_of(first, graph, home, chosen, upload=None, last={})
    address = f"/graphs/{graph.settings.name}/edges/place"
    fields = {"url": url, "follow": "1" if follow else "", "kind": "" if kind == FILES else kind}
    return page(
        request,
        "edge_columns.html",
        upload=None,
        place=place,
        address=address,
        **values | {"fields": fields},
    )


@router.get("/graphs/{graph}/edges/place/look", dependencies=[viewing("ingest")])
async def look_through_place(
    request: Request, graph: GraphHere, home: HomeHere, chosen: EdgesChosen, url: Url
) -> Response:
    """What would be taken of the first file of a place; reads it whole."""
    place = await run_in_threadpool(files_at, url, home)
    values: dict[str, Any] = {"report": None}
    if place.files and place.files[0].size <= home.settings.max_body_bytes:
        file = place.files[0]
        values = await _looked_through(file, 2 * file.size, graph, home, chosen)
    address = f"/graphs/{graph.settings.name}/edges/place"
    return await run_in_threadpool(
        partial(_report_piece, request, graph, chosen, address=address, place=place, **values)
    )


@router.post("/graphs/{graph}/edges/place", dependencies=[viewing("ingest")])
async def add_place(
    request: Request, graph: GraphHere, home: HomeHere, caller: CallerHere
) -> Response:
    """Have ingest read a place, as ``POST /v1/graphs/{g}/sources`` does."""
    form = await form_of(request)
    choice = EdgeChoice.typed(form, graph)
    add = partial(
        add_source,
        here_of(home, caller),
        graph,
        url=form.get("url", "").strip(),
        kind=form.get("kind", FILES),
        follow=bool(form.get("follow")),
        columns=choice.reading or None,
        max_bad_rows=choice.max_bad_rows or None,
        again=True if form.get("again") else None,
    )
    with refusing():
        directed_one = directed_relation(choice.one_relation, is_directed=choice.directed)
        await run_in_threadpool(add)
    await run_in_threadpool(mark_directed, home.catalog, graph, directed_one)
    return back_to(f"/graphs/{graph.settings.name}/edges")


def _to_columns(address: str, chosen: EdgeChoice) -> Response:
    return back_to(address, **{name: str(value) for name, value in chosen.given.items()})


def _columns_of(
    file: EdgeFile | None,
    graph: GraphRecord,
    home: ServedHome,
    chosen: EdgeChoice,
    *,
    upload: Upload | None,
    last: Mapping[str, str],
) -> dict[str, Any]:
    """Template values for the columns of a file, or the reason why it cannot be read."""
    head = fault = None
    if file is not None:
        try:
            head, chosen = proposal(file, graph, home, chosen, last=last)
        except (BadTable, OSError) as error:
            fault = str(error) if upload is None else plain_text(str(error), upload)
    is_text = upload is not None and upload.table_format is Format.CSV
    has_integers = (
        head is not None
        and upload is not None
        and not is_text
        and any(head.are_integers(name) for name in (chosen.src, chosen.dst) if name in head.names)
    )
    return {
        "graph": graph,
        "head": head,
        "fault": fault,
        "chosen": chosen,
        "is_text": is_text,
        "wants_integers": has_integers and graph.settings.node_ids == "string",
        "first": file,
        "fields": {},
    }


async def _looked_through(
    file: EdgeFile,
    n_bytes: int,
    graph: GraphRecord,
    home: ServedHome,
    chosen: EdgeChoice,
    packed_digest: str | None = None,
) -> dict[str, Any]:
    """Report on a file, and a message where it has no rows."""
    async with home.decoding.held(n_bytes):
        report = await run_in_threadpool(look, file, graph, home, chosen, packed_digest)
        without_rows = await run_in_threadpool(missing_rows, file, report, home, chosen)
        came = await run_in_threadpool(earlier, report, graph, home)
    return {"report": report, "without_rows": without_rows, "earlier": came}


def _report_piece(
    request: Request, graph: GraphRecord, chosen: EdgeChoice, **values: Any
) -> Response:
    return report_piece(
        request,
        "edge_report.html",
        graph=graph,
        chosen=chosen,
        n_shown=_BAD_ROWS_SHOWN,
        looked_for=MAX_BAD_ROWS_LOOKED_FOR,
        **values,
    )
