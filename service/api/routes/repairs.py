"""Repairs that somebody asks for: edges are sampled anew before a snapshot would need it."""

from functools import partial
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import requires
from peewit.service.api.errors import problems
from peewit.service.api.long_poll import WaitSeconds, wait_until
from peewit.service.api.routes.query_parameters import ONE_GRAPH, resource
from peewit.service.api.schemas.graphs import RepairIn, repair_of
from peewit.service.api.served_home import GraphHere, HomeHere, ServedHome
from peewit.service.catalog import GraphNotFound, GraphRecord
from peewit.service.inbox.repairs import RepairRefused, WantedRepair
from peewit.service.wire.graphs import RepairState
from peewit.streaming.snapshots.store import SnapshotStore

router = resource("repairs", f"{ONE_GRAPH}/repairs")

_ASKED: dict[int | str, dict[str, Any]] = {
    HTTPStatus.OK: {"description": "It is made, or nothing was due."},
    HTTPStatus.ACCEPTED: {"model": RepairState, "description": "Ingest will make it."},
}


@router.post(
    "",
    dependencies=[requires("ingest")],
    responses=_ASKED | problems(GraphNotFound, RepairRefused),
)
async def repair_graph(
    request: Request,
    response: Response,
    body: RepairIn,
    graph: GraphHere,
    home: HomeHere,
    wait: WaitSeconds = 0,
) -> RepairState:
    """Sample edges anew that deletes have spoiled, or all of them, before the next snapshot.

    202 until whoever ingests the graph has done it, between two files, for which `wait` can wait;
    200 then, with what was made. A graph of which every edge is kept stays as it is. One whose
    deletions are off has no log to be repaired from: with `rebuild` all its files are read again.
    Where that cannot be done `fault` says why, and ingest tries it again.
    """
    before = await run_in_threadpool(_state, graph, home)
    kind: WantedRepair = "all" if body.rebuild else "due"
    await run_in_threadpool(home.manifest.repairs.want, graph.id, kind)
    look = partial(_state, graph, home, after=before.snapshot or 0)
    state = await wait_until(request, look, _is_settled, seconds=wait)
    response.status_code = HTTPStatus.OK if state.wanted is None else HTTPStatus.ACCEPTED
    return state


@router.get("", dependencies=[requires("read", "ingest")], responses=problems(GraphNotFound))
async def get_repairs(
    request: Request, graph: GraphHere, home: HomeHere, wait: WaitSeconds = 0
) -> RepairState:
    """The repair that is asked for, and the last one; `wait` can wait until it is made or fails."""
    look = partial(_state, graph, home)
    return await wait_until(request, look, _is_settled, seconds=wait)


def _state(graph: GraphRecord, home: ServedHome, *, after: int = 0) -> RepairState:
    """What is asked for, and the last repair if it is newer than a snapshot."""
    wanted = home.manifest.repairs.wanted(graph.id)  # first: it is done after its snapshot
    fault = home.manifest.repairs.fault(graph.id)
    newest = SnapshotStore(home.paths(graph).snapshots).newest()
    return repair_of(wanted, newest, after=after, fault=fault)


def _is_settled(state: RepairState) -> bool:
    return state.wanted is None or state.fault is not None
