"""Edges by push."""

import io
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import Caller, CallerHere, requires
from peewit.service.api.bodies import BodyTooLarge, BodyTypeUnknown, TableBody, body_schema
from peewit.service.api.errors import problems
from peewit.service.api.long_poll import WaitSeconds, wait_until
from peewit.service.api.routes.query_parameters import (
    ONE_GRAPH,
    DstColumn,
    IdempotencyKey,
    OpColumn,
    SrcColumn,
    TimeColumn,
    WeightColumn,
    named,
    resource,
)
from peewit.service.api.schemas.bodies_and_problems import refusing
from peewit.service.api.schemas.sources_and_pushes import push_of
from peewit.service.api.served_home import GraphHere, HomeHere, ServedHome
from peewit.service.catalog import GraphNotFound, GraphRecord
from peewit.service.inbox.edge_deletes import deletes_of_pairs, write_deletes
from peewit.service.inbox.inbox_records import BacklogFull, PushNotFound, PushRecord
from peewit.service.jobs.job import IdempotencyConflict
from peewit.service.problems import InvalidArgument
from peewit.service.tables.column_names import edge_columns
from peewit.service.tables.uploads import BadUpload, TableTooLarge
from peewit.service.wire.sources_and_pushes import Push
from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.edges.column_mapping import CHANGES
from peewit.streaming.edges.table_formats import Format

Ends = Annotated[
    list[str], Query(min_length=1, max_length=100, description="One end of each pair, in order.")
]

router = resource("edges", f"{ONE_GRAPH}/edges")
pushes = resource("edges", f"{ONE_GRAPH}/pushes")


def _room(graph: GraphHere, home: HomeHere) -> None:
    home.pushes.require_room(graph.id)


_ACCEPTED: dict[int | str, dict[str, Any]] = {
    HTTPStatus.OK: {"description": "The edges are in the graph."},
    HTTPStatus.ACCEPTED: {"model": Push, "description": "The edges are on disk."},
}


@router.post(
    "",
    dependencies=[requires("ingest"), Depends(_room)],
    openapi_extra=body_schema(
        "Columns `src`, `dst`, perhaps `weight` and `op`, or as the query names them."
    ),
    responses=_ACCEPTED
    | problems(
        GraphNotFound,
        IdempotencyConflict,
        BodyTooLarge,
        BodyTypeUnknown,
        BadEdges,
        BadUpload,
        TableTooLarge,
        BacklogFull,
        InvalidArgument,
    ),
)
async def push_edges(
    request: Request,
    response: Response,
    graph: GraphHere,
    home: HomeHere,
    caller: CallerHere,
    body: TableBody,
    idempotency_key: IdempotencyKey = None,
    wait: WaitSeconds = 0,
    src: SrcColumn = None,
    dst: DstColumn = None,
    weight: WeightColumn = None,
    op: OpColumn = None,
    time: TimeColumn = None,
) -> Push:
    """Push a block of edges, or of changes.

    It is checked whole, then written to disk and flushed: from the answer on it cannot be lost. 202
    while it waits, 200 once it is in the graph, for which `wait` can wait. Pushes that wait are
    gathered into one file. The header `Idempotent-Replayed` says that the push came before with its
    Idempotency-Key, and counts once.
    """
    with refusing():
        columns = edge_columns(
            graph.settings.columns_of_edges,
            named(src=src, dst=dst, weight=weight, op=op, time=time),
        )
    async with home.decoding.held(body.decoding_bytes):
        push = await run_in_threadpool(
            home.pushes.add,
            graph,
            body.file,
            body.table_format,
            body_digest=body.digest,
            columns=columns,
            idempotency_key=idempotency_key,
            owner=caller.name,
            limits=home.upload_limits,
        )
    return await _answer(push, request, response, graph, home, caller, wait)


@router.delete(
    "",
    dependencies=[requires("ingest"), Depends(_room)],
    responses=_ACCEPTED
    | problems(GraphNotFound, IdempotencyConflict, BadEdges, BadUpload, BacklogFull),
)
async def delete_edges(
    request: Request,
    response: Response,
    graph: GraphHere,
    home: HomeHere,
    caller: CallerHere,
    src: Ends,
    dst: Ends,
    idempotency_key: IdempotencyKey = None,
    wait: WaitSeconds = 0,
) -> Push:
    """Delete all edges between some pairs of nodes.

    The first `src` and the first `dst` are one pair, and so on; either end may come first. Edges
    that come later stay; of a pair without edges nothing happens. It is answered as a push is, of
    which it is one; more pairs go into a push with a column `op`.
    """
    content = io.BytesIO()
    write_deletes([deletes_of_pairs(src, dst, graph.settings.node_ids)], content)
    push = await run_in_threadpool(
        home.pushes.add,
        graph,
        content,
        Format.ARROW,
        body_digest=sha256(content.getvalue()).hexdigest(),
        columns=CHANGES,
        idempotency_key=idempotency_key,
        owner=caller.name,
    )
    return await _answer(push, request, response, graph, home, caller, wait)


async def _answer(
    push: PushRecord,
    request: Request,
    response: Response,
    graph: GraphRecord,
    home: ServedHome,
    caller: Caller,
    wait: float,
) -> Push:
    """The answer to a push, perhaps once it is in the graph."""
    caller.require_own(push.owner)
    if push.is_repeated:
        response.headers["Idempotent-Replayed"] = "true"
    if wait:
        look = partial(home.manifest.pushes.get, graph.id, push.id)
        push = await wait_until(request, look, seconds=wait)
    if push.file is not None and push.status == "quarantined":
        reason = push.file.reason or "the block was refused"
        raise BadEdges(reason, row=push.file.row, value=push.file.value)
    response.status_code = HTTPStatus.ACCEPTED if push.status == "pending" else HTTPStatus.OK
    response.headers["Location"] = f"/v1/graphs/{graph.settings.name}/pushes/{push.id}"
    return push_of(push)


@pushes.get(
    "/{push_id}",
    dependencies=[requires("read", "ingest")],
    responses=problems(GraphNotFound, PushNotFound),
)
async def get_push(
    request: Request,
    push_id: str,
    graph: GraphHere,
    home: HomeHere,
    caller: CallerHere,
    wait: WaitSeconds = 0,
) -> Push:
    """One push and the file it was gathered into; `wait` can wait until it is pending no more.

    A key that must not read sees its own. A push without Idempotency-Key is forgotten ten minutes
    after it went in, others after a month.
    """
    look = partial(home.manifest.pushes.get, graph.id, push_id, owner=caller.only)
    return push_of(await wait_until(request, look, seconds=wait))
