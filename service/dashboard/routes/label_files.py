"""A file of labels that is sent: its columns and first rows before it is put."""

from urllib.parse import urlencode

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import CallerHere
from peewit.service.api.served_home import GraphHere, HomeHere
from peewit.service.catalog import GraphRecord
from peewit.service.dashboard.access import viewing
from peewit.service.dashboard.column_choices import LabelsChosen
from peewit.service.dashboard.label_intake import look, proposal, take
from peewit.service.dashboard.pages import back_to, form_of, page, page_router
from peewit.service.dashboard.routes.common import Column, origin_in
from peewit.service.dashboard.routes.edge_files import (
    decoding_of,
    received,
    report_piece,
    sent_to,
    uploads_of,
)
from peewit.service.dashboard.uploads import Upload
from peewit.service.tables.uploads import TableTooLarge
from peewit.service.tables.uploads.label_words import SEVERAL
from peewit.streaming.edges.bad_table import BadTable
from peewit.streaming.edges.table_formats import Format

router = page_router()


@router.post("/graphs/{graph}/labels/files", dependencies=[viewing("label")])
async def send_labels(
    request: Request, graph: GraphHere, name: str = "", into: Column = ""
) -> Response:
    """Keep a file until its columns are known."""
    upload = await received(request, graph, "labels", name)
    query = f"?{urlencode({'into': into})}" if into else ""
    return sent_to(request, _address(graph, upload) + query)


@router.get("/graphs/{graph}/labels/files/{upload_id}", dependencies=[viewing("label")])
def show_labels_file(
    request: Request, graph: GraphHere, home: HomeHere, upload_id: str, chosen: LabelsChosen
) -> Response:
    """The first rows of a file that was sent, and what its columns are."""
    upload = _upload(request, graph, upload_id)
    head = fault = None
    try:
        last = uploads_of(request).remembered(graph.id, "labels")
        head, chosen = proposal(upload, graph, home, chosen, last=last)
    except (BadTable, TableTooLarge) as error:
        fault = str(error)
    return page(
        request,
        "label_columns.html",
        graph=graph,
        upload=upload,
        address=_address(graph, upload),
        head=head,
        fault=fault,
        chosen=chosen,
        columns=[each for each in home.labels.columns(graph.id) if each],
        is_text=upload.table_format is Format.CSV,
    )


@router.get("/graphs/{graph}/labels/files/{upload_id}/look", dependencies=[viewing("label")])
async def look_through_labels(
    request: Request, graph: GraphHere, home: HomeHere, upload_id: str, chosen: LabelsChosen
) -> Response:
    """What would be put of it; reads it whole."""
    upload = _upload(request, graph, upload_id)
    async with home.label_tables, home.decoding.held(await decoding_of(upload, home)):
        report = await run_in_threadpool(look, upload, graph, home, chosen)
    address = _address(graph, upload)
    return await run_in_threadpool(
        report_piece,
        request,
        "label_report.html",
        graph=graph,
        upload=upload,
        chosen=chosen,
        report=report,
        address=address,
        several=SEVERAL,
    )


@router.post("/graphs/{graph}/labels/files/{upload_id}", dependencies=[viewing("label")])
async def take_labels(
    request: Request,
    graph: GraphHere,
    home: HomeHere,
    caller: CallerHere,
    upload_id: str,
    chosen: LabelsChosen,
) -> Response:
    """Put a file as it was looked at."""
    upload = _upload(request, graph, upload_id)
    said = (await form_of(request)).get("origin", "imported")
    origin = None if said == "rows" else origin_in(said)
    # first: a disk without room for it has none for the labels
    await run_in_threadpool(uploads_of(request).remember, graph.id, "labels", chosen.named)
    async with home.label_tables, home.decoding.held(await decoding_of(upload, home)):
        who = {"annotator": caller.annotator, "key": caller.key_name}
        receipt = await run_in_threadpool(take, upload, graph, home, chosen, origin=origin, **who)
    query = {"put": str(receipt.accepted)}
    if receipt.left_out:
        query["left_out"] = str(sum(receipt.left_out.values()))
    if chosen.into:
        query["label_column"] = chosen.into
    return back_to(f"/graphs/{graph.settings.name}/labels", **query)


@router.post("/graphs/{graph}/labels/files/{upload_id}/remove", dependencies=[viewing("label")])
def remove_labels_file(request: Request, graph: GraphHere, upload_id: str) -> Response:
    """Give a file up."""
    _upload(request, graph, upload_id).remove()
    return back_to(f"/graphs/{graph.settings.name}/labels")


def _upload(request: Request, graph: GraphRecord, upload_id: str) -> Upload:
    owner = request.state.caller.name
    return uploads_of(request).get(graph.id, "labels", upload_id, owner=owner)


def _address(graph: GraphRecord, upload: Upload) -> str:
    return f"/graphs/{graph.settings.name}/labels/files/{upload.id}"
