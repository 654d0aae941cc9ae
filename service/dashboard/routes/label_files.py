"""A file of labels that is sent: its columns and first rows before it is put."""

from functools import partial
from urllib.parse import urlencode

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import CallerHere
from peewit.service.api.served_home import GraphHere, HomeHere
from peewit.service.dashboard.access import viewing
from peewit.service.dashboard.column_choices import LabelsChosen
from peewit.service.dashboard.label_intake import look, proposal, take
from peewit.service.dashboard.pages import back_to, form_of, page_router
from peewit.service.dashboard.routes.common import Column, origin_in
from peewit.service.dashboard.routes.sent_files import (
    address_of,
    columns_page,
    decoding_of,
    received,
    report_piece,
    sent_to,
    upload_of,
    uploads_of,
)
from peewit.service.tables.uploads.label_words import REASONS
from peewit.streaming.edges.table_formats import Format

router = page_router()


@router.post("/graphs/{graph}/labels/files", dependencies=[viewing("label")])
async def send_labels(
    request: Request, graph: GraphHere, name: str = "", into: Column = ""
) -> Response:
    """Keep a file until its columns are known."""
    upload = await received(request, graph, "labels", name)
    query = f"?{urlencode({'into': into})}" if into else ""
    return sent_to(request, address_of(graph, "labels", upload) + query)


@router.get("/graphs/{graph}/labels/files/{upload_id}", dependencies=[viewing("label")])
def show_labels_file(
    request: Request, graph: GraphHere, home: HomeHere, upload_id: str, chosen: LabelsChosen
) -> Response:
    """The first rows of a file that was sent, and what its columns are."""
    upload = upload_of(request, graph, "labels", upload_id)
    propose = partial(proposal, upload, graph, home, chosen)
    return columns_page(
        *(request, "label_columns.html", graph, "labels", upload, chosen, propose),
        columns=[each for each in home.labels.columns(graph.id) if each],
        is_text=upload.table_format is Format.CSV,
    )


@router.get("/graphs/{graph}/labels/files/{upload_id}/look", dependencies=[viewing("label")])
async def look_through_labels(
    request: Request, graph: GraphHere, home: HomeHere, upload_id: str, chosen: LabelsChosen
) -> Response:
    """What would be put of it; reads it whole."""
    upload = upload_of(request, graph, "labels", upload_id)
    async with home.label_tables, home.decoding.held(await decoding_of(upload, home)):
        report = await run_in_threadpool(look, upload, graph, home, chosen)
    address = address_of(graph, "labels", upload)
    return await run_in_threadpool(
        report_piece,
        request,
        "label_report.html",
        graph=graph,
        upload=upload,
        chosen=chosen,
        report=report,
        address=address,
        reasons=REASONS,
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
    upload = upload_of(request, graph, "labels", upload_id)
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
    upload_of(request, graph, "labels", upload_id).remove()
    return back_to(f"/graphs/{graph.settings.name}/labels")
