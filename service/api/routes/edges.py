"""Edges by push."""

from http import HTTPStatus
from typing import Any

from fastapi import Depends, Request, Response
from starlette.concurrency import run_in_threadpool

from service.api.auth import requires
from service.api.bodies import BodyTooLarge, BodyTypeUnknown, TableBody, body_schema
from service.api.errors import problems
from service.api.routes.common import ONE_GRAPH, IdempotencyKey, resource
from service.api.schemas import PushOut
from service.api.stores import GraphHere, StoresHere
from service.api.waiting import WaitSeconds, wait_until
from service.catalog import GraphNotFound
from service.jobs import IdempotencyConflict
from service.pushes import BacklogFull
from service.uploads import BadUpload
from streaming.blocks import BadEdges

router = resource("edges", f"{ONE_GRAPH}/edges")


def _room(graph: GraphHere, stores: StoresHere) -> None:
    stores.pushes.require_room(graph.id)


_ACCEPTED: dict[int | str, dict[str, Any]] = {
    HTTPStatus.OK: {"description": "The edges are in the graph."},
    HTTPStatus.ACCEPTED: {"model": PushOut, "description": "The edges are on disk."},
}


@router.post(
    "",
    dependencies=[requires("ingest"), Depends(_room)],
    openapi_extra=body_schema("Columns `src`, `dst` and, if need be, `weight`."),
    responses=_ACCEPTED
    | problems(
        GraphNotFound,
        IdempotencyConflict,
        BodyTooLarge,
        BodyTypeUnknown,
        BadEdges,
        BadUpload,
        BacklogFull,
    ),
)
async def push_edges(
    request: Request,
    response: Response,
    graph: GraphHere,
    stores: StoresHere,
    body: TableBody,
    idempotency_key: IdempotencyKey = None,
    wait: WaitSeconds = 0,
) -> PushOut:
    """Push a block of edges.

    It is checked whole, then written to disk and flushed: from the answer on it cannot be lost. 202
    while it waits, 200 once it is in the graph, for which `wait` can wait.
    """
    push = await run_in_threadpool(
        stores.pushes.add,
        graph,
        body.file,
        body.table_format,
        body_digest=body.digest,
        idempotency_key=idempotency_key,
    )
    file = await wait_until(
        request,
        lambda: stores.manifest.file(graph.id, push.file.id),
        lambda file: file.status != "pending",
        seconds=wait,
    )
    if file.status == "quarantined":
        raise BadEdges(file.reason or "the block was refused", row=file.row, value=file.value)
    response.status_code = HTTPStatus.ACCEPTED if file.status == "pending" else HTTPStatus.OK
    response.headers["Location"] = f"/v1/graphs/{graph.settings.name}/files/{file.id}"
    return PushOut.of(push, file)
