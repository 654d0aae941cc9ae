"""Features: what nodes have, and a table that is sent, understood before it is kept."""

from functools import partial
from typing import Annotated, Any

from fastapi import Query, Request, Response
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import CallerHere
from peewit.service.api.served_home import GraphHere, HomeHere
from peewit.service.dashboard.access import viewing
from peewit.service.dashboard.column_choices import FeaturesChosen
from peewit.service.dashboard.feature_intake import look, proposal, take
from peewit.service.dashboard.pages import back_to, is_piece, page, page_router, piece
from peewit.service.dashboard.routes.common import Seen
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
from peewit.service.inbox.feature_log import FeatureSetNotFound

router = page_router()


@router.get("/graphs/{graph}/features", dependencies=[viewing("read")])
def show_features(
    request: Request,
    graph: GraphHere,
    home: HomeHere,
    caller: CallerHere,
    set_id: Annotated[str, Query(alias="set", max_length=64)] = "",
    seen: Seen = "",
) -> Response:
    """The features that nodes have, what waits, and the set that was sent last."""
    try:
        taken = (
            home.manifest.feature_log.get(graph.id, set_id, owner=caller.only) if set_id else None
        )
    except FeatureSetNotFound:  # ended long ago
        taken = None
    status = home.features.status(graph)
    values: dict[str, Any] = {
        "graph": graph,
        "taken": taken,
        "status": status,
        "names": home.features.names(graph, status.features_version or None),
        "set_id": set_id,
    }
    if is_piece(request):
        return piece(request, "features_live.html", seen=seen, **values)
    max_bytes = home.settings.max_body_bytes
    return page(request, "features.html", seen="", max_bytes=max_bytes, **values)


@router.post("/graphs/{graph}/features/files", dependencies=[viewing("ingest")])
async def send_features(
    request: Request, graph: GraphHere, name: Annotated[str, Query(max_length=1000)] = ""
) -> Response:
    """Keep a table until its column of nodes is known."""
    return sent_to(
        request, address_of(graph, "features", await received(request, graph, "features", name))
    )


@router.get("/graphs/{graph}/features/files/{upload_id}", dependencies=[viewing("ingest")])
def show_features_file(
    request: Request, graph: GraphHere, home: HomeHere, upload_id: str, chosen: FeaturesChosen
) -> Response:
    """The first rows of a table that was sent, and which column names the nodes."""
    upload = upload_of(request, graph, "features", upload_id)
    propose = partial(proposal, upload, graph, home, chosen)
    return columns_page(
        *(request, "feature_columns.html", graph, "features", upload, chosen, propose),
        has_features=home.features.status(graph).present is not None,
    )


@router.get("/graphs/{graph}/features/files/{upload_id}/look", dependencies=[viewing("ingest")])
async def look_through_features(
    request: Request, graph: GraphHere, home: HomeHere, upload_id: str, chosen: FeaturesChosen
) -> Response:
    """What would be kept of it; reads it whole."""
    upload = upload_of(request, graph, "features", upload_id)
    async with home.decoding.held(await decoding_of(upload, home)):
        report = await run_in_threadpool(look, upload, graph, home, chosen)
    return await run_in_threadpool(
        report_piece,
        request,
        "feature_report.html",
        graph=graph,
        upload=upload,
        chosen=chosen,
        report=report,
        address=address_of(graph, "features", upload),
    )


@router.post("/graphs/{graph}/features/files/{upload_id}", dependencies=[viewing("ingest")])
async def take_features(
    request: Request,
    graph: GraphHere,
    home: HomeHere,
    caller: CallerHere,
    upload_id: str,
    chosen: FeaturesChosen,
) -> Response:
    """Take a table as it was looked at."""
    upload = upload_of(request, graph, "features", upload_id)
    await run_in_threadpool(uploads_of(request).remember, graph.id, "features", chosen.named)
    async with home.decoding.held(await decoding_of(upload, home)):
        record = await run_in_threadpool(take, upload, graph, home, chosen, owner=caller.name)
    return back_to(f"/graphs/{graph.settings.name}/features", set=record.id)


@router.post("/graphs/{graph}/features/files/{upload_id}/remove", dependencies=[viewing("ingest")])
def remove_features_file(request: Request, graph: GraphHere, upload_id: str) -> Response:
    """Give a table up."""
    upload_of(request, graph, "features", upload_id).remove()
    return back_to(f"/graphs/{graph.settings.name}/features")
