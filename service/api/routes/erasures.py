"""Erasures: nodes that somebody asked to be forgotten."""

from functools import partial
from http import HTTPStatus

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import CallerHere, requires
from peewit.service.api.errors import problems
from peewit.service.api.long_poll import WaitSeconds, wait_until
from peewit.service.api.routes.query_parameters import ONE_GRAPH, resource
from peewit.service.api.schemas.erasures import ErasureIn, erasure_of
from peewit.service.api.served_home import GraphHere, HomeHere
from peewit.service.catalog import GraphNotFound
from peewit.service.inbox.erasures import ErasureNotFound
from peewit.service.tables.uploads import BadUpload, node_id
from peewit.service.wire.erasures import Erasure, ErasureList

router = resource("erasures", f"{ONE_GRAPH}/erasures")


@router.post(
    "",
    dependencies=[requires("erase")],
    status_code=HTTPStatus.ACCEPTED,
    responses=problems(GraphNotFound, BadUpload),
)
async def erase_nodes(
    body: ErasureIn,
    response: Response,
    graph: GraphHere,
    home: HomeHere,
    caller: CallerHere,
) -> Erasure:
    """Forget nodes: their edges, labels, features and predictions, and their ids.

    From the answer on no call shows them: they are hidden. Whoever ingests the graph then
    overwrites the files that hold them, and the nodes are erased. Nodes that the graph does not
    know are taken, too. An id that comes again later is a new node; where ids are dense the number
    is never used again. Files of sources and backups stay as they are.
    """
    nodes = [
        node_id(node, graph.settings.node_ids, name="nodes", row=row)
        for row, node in enumerate(body.nodes)
    ]
    erasure = await run_in_threadpool(
        partial(home.forgetting.erase, graph, nodes, owner=caller.name)
    )
    response.headers["Location"] = f"/v1/graphs/{graph.settings.name}/erasures/{erasure.id}"
    return erasure_of(erasure)


@router.get("", dependencies=[requires("read", "erase")], responses=problems(GraphNotFound))
def list_erasures(graph: GraphHere, home: HomeHere, caller: CallerHere) -> ErasureList:
    """Erasures of a graph, newest first; a key that must not read sees its own."""
    found = home.manifest.erasures.list(graph.id, owner=caller.only)
    return ErasureList(erasures=[erasure_of(each) for each in found])


@router.get(
    "/{erasure_id}",
    dependencies=[requires("read", "erase")],
    responses=problems(GraphNotFound, ErasureNotFound),
)
async def get_erasure(
    request: Request,
    erasure_id: str,
    graph: GraphHere,
    home: HomeHere,
    caller: CallerHere,
    wait: WaitSeconds = 0,
) -> Erasure:
    """How far an erasure is; `wait` can wait until the nodes are erased."""
    look = partial(home.manifest.erasures.get, graph.id, erasure_id, owner=caller.only)
    found = await wait_until(request, look, lambda each: each.status == "erased", seconds=wait)
    return erasure_of(found)
