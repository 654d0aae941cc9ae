"""Horizons by hand: edges leave the window of a graph before newer ones would make them."""

from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import requires
from peewit.service.api.errors import problems
from peewit.service.api.long_poll import WaitSeconds, wait_until
from peewit.service.api.routes.query_parameters import ONE_GRAPH, resource
from peewit.service.api.schemas.bodies_and_problems import refusing
from peewit.service.api.schemas.graphs import HorizonIn
from peewit.service.api.served_home import GraphHere, HomeHere, ServedHome
from peewit.service.catalog import GraphNotFound, GraphRecord
from peewit.service.inbox.horizons import HorizonRefused
from peewit.service.problems import InvalidArgument
from peewit.service.wire.graphs import HorizonState
from peewit.streaming.snapshots.store import SnapshotStore

router = resource("windows", f"{ONE_GRAPH}/horizon")

_ASKED: dict[int | str, dict[str, Any]] = {
    HTTPStatus.OK: {"description": "They are gone."},
    HTTPStatus.ACCEPTED: {"model": HorizonState, "description": "Ingest will let go of them."},
}


@router.post(
    "",
    dependencies=[requires("ingest")],
    responses=_ASKED | problems(GraphNotFound, HorizonRefused, InvalidArgument),
)
async def move_horizon(
    request: Request,
    response: Response,
    body: HorizonIn,
    graph: GraphHere,
    home: HomeHere,
    wait: WaitSeconds = 0,
) -> HorizonState:
    """Let go of all edges before a time, as a window does by itself once newer ones come.

    Edges leave by whole buckets; those of the one that holds the time stay. It never goes back, nor
    beyond the latest edge. 202
    until whoever ingests the graph has done it, between two files, for which `wait` can wait.
    """
    newest = await run_in_threadpool(SnapshotStore(home.paths(graph).snapshots).newest)
    latest = None if newest is None else newest.watermark
    with refusing():
        await run_in_threadpool(
            home.manifest.horizons.want, graph.id, body.before.timestamp(), latest=latest
        )
    look = partial(_state, graph, home)
    state = await wait_until(request, look, lambda each: each.wanted is None, seconds=wait)
    response.status_code = HTTPStatus.OK if state.wanted is None else HTTPStatus.ACCEPTED
    return state


@router.get("", dependencies=[requires("read", "ingest")], responses=problems(GraphNotFound))
async def get_horizon(
    request: Request, graph: GraphHere, home: HomeHere, wait: WaitSeconds = 0
) -> HorizonState:
    """Since when edges live; `wait` can wait until no other time is asked for."""
    look = partial(_state, graph, home)
    return await wait_until(request, look, lambda each: each.wanted is None, seconds=wait)


def _state(graph: GraphRecord, home: ServedHome) -> HorizonState:
    wanted = home.manifest.horizons.wanted(graph.id)  # first: it is done after its snapshot
    newest = SnapshotStore(home.paths(graph).snapshots).newest()
    horizon = None if newest is None else newest.horizon
    return HorizonState(
        wanted=None if wanted is None else datetime.fromtimestamp(wanted, UTC),
        snapshot=None if newest is None else newest.number,
        horizon=None if horizon is None else datetime.fromtimestamp(horizon, UTC),
    )
