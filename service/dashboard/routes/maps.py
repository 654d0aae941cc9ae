"""The map of a graph: what it shows, its tiles, and what to do where there is none."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Annotated, Any, Final

from fastapi import Header, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import CallerHere
from peewit.service.api.json_response import json_response
from peewit.service.api.routes.maps import get_map_tile
from peewit.service.api.served_home import GraphHere, HomeHere, ServedHome
from peewit.service.api.tables import IfNoneMatch, not_modified
from peewit.service.catalog import GraphRecord
from peewit.service.dashboard.access import viewing
from peewit.service.dashboard.class_colors import class_colors
from peewit.service.dashboard.pages import back_to, form_of, is_piece, page, page_router, piece
from peewit.service.dashboard.routes.common import Seen
from peewit.service.jobs.job import JobStatus
from peewit.service.operations.here import Here
from peewit.service.operations.snapshots import get_map
from peewit.service.predictions.store import PredictionsNotFound
from peewit.service.tasks.kind_list import KINDS
from peewit.streaming.passes.node_map import TILE_POINTS

router = page_router()

DRAWN_UNASKED: Final = 100_000
"""Largest graph, in nodes, that is drawn when somebody who may label first looks at it."""

_SECONDS_PER_NODE: Final = 6e-5
_QUICK_SECONDS: Final = 2.0
"""A map that takes no longer is drawn by the process for quick solves."""

_DOUBTFUL: Final = 0.5

Column = Annotated[str | None, Query(alias="label_column", max_length=500)]


@router.get("/graphs/{graph}/map", dependencies=[viewing("read")])
def get_about(
    graph: GraphHere,
    home: HomeHere,
    column: Column = None,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """What the map shows; 304 while that is the same."""
    about = get_map(Here(home=home), graph, label_column=_column(graph, home, column))
    tag = f'"{about.tag}-{about.newest_snapshot}"'
    unchanged = not_modified(tag, if_none_match)
    if unchanged is not None:
        return unchanged
    file = None if about.job is None else home.predictions.open(home.jobs.get(about.job))
    labels = [each.label for each in about.classes]
    colors = class_colors(file, labels)
    answer = json_response(asdict(about) | {"palette": [colors[each] for each in labels]})
    answer.headers.update({"ETag": tag, "Cache-Control": "private, no-cache"})
    return answer


@router.get("/graphs/{graph}/map/tiles/{z}/{x}/{y}", dependencies=[viewing("read")])
def get_tile(
    request: Request,
    graph: GraphHere,
    home: HomeHere,
    z: int,
    x: int,
    y: int,
    column: Column = None,
    doubtful: bool = False,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """A tile, as ``GET /v1/graphs/{g}/map/tiles/{z}/{x}/{y}`` sends it."""
    return get_map_tile(
        z,
        x,
        y,
        graph,
        home,
        request,
        label_column=_column(graph, home, column),
        min_doubt=_DOUBTFUL if doubtful else 0.0,
        if_none_match=if_none_match,
    )


@router.get("/graphs/{graph}/map/section", dependencies=[viewing("read")])
def show_section(request: Request, graph: GraphHere, home: HomeHere, seen: Seen = "") -> Response:
    """The map, or what to do to have one."""
    return piece(request, "map.html", seen=seen, graph=graph, map=map_state(graph, home))


@router.get("/graphs/{graph}/map/notes", dependencies=[viewing("read")])
def show_notes(request: Request, graph: GraphHere, home: HomeHere, seen: Seen = "") -> Response:
    """What to do next, below the map."""
    return piece(request, "map_notes.html", seen=seen, graph=graph, map=map_state(graph, home))


@router.post("/graphs/{graph}/map", dependencies=[viewing("label")])
async def draw_map(
    request: Request, graph: GraphHere, home: HomeHere, caller: CallerHere
) -> Response:
    """Have the newest snapshot drawn."""
    await form_of(request)
    kind = KINDS["map"]
    spec = kind.spec(graph.id, parameters={}, owner=caller.name)
    if graph.progress.n_nodes * _SECONDS_PER_NODE <= _QUICK_SECONDS:
        spec = replace(spec, lane="fast")
    kind.admit(spec, graph, home)
    await run_in_threadpool(home.jobs.submit_coalesced, spec)
    if not is_piece(request):
        return back_to(f"/graphs/{graph.settings.name}")
    state = await run_in_threadpool(map_state, graph, home)
    template = "map_notes.html" if state["version"] else "map.html"
    return page(request, template, seen="", graph=graph, map=state)


def map_state(graph: GraphRecord, home: ServedHome) -> Mapping[str, Any]:
    """What there is of a map, and what is missing."""
    version = home.maps.version(graph)
    snapshot, n_nodes = graph.progress.snapshot, graph.progress.n_nodes
    jobs = home.jobs.list(graph_id=graph.id, kind="map", limit=1).jobs
    last = jobs[0] if jobs else None
    is_over = last is None or last.status.is_final
    has_failed = last is not None and last.status in {JobStatus.FAILED, JobStatus.CANCELLED}
    columns = home.labels.columns(graph.id)
    return {
        "version": version,
        "snapshot": snapshot,
        "drawn": home.maps.drawn(graph),
        "job": None if is_over and not has_failed else last,
        "is_under_way": not is_over,
        "draws_itself": is_over
        and not has_failed
        and snapshot is not None
        and n_nodes <= DRAWN_UNASKED,
        "seconds": n_nodes * _SECONDS_PER_NODE,
        "n_nodes": n_nodes,
        "is_dense": n_nodes > TILE_POINTS,
        "has_labels": bool(columns),
        "has_predictions": any(
            home.predictions.store.latest(graph.id, column=column) for column in columns or [""]
        ),
    }


def _column(graph: GraphRecord, home: ServedHome, named: str | None) -> str:
    """The column of labels asked for, else the first with predictions."""
    if named is not None:
        return named
    try:
        home.predictions.find(graph)
    except PredictionsNotFound:
        columns = home.labels.columns(graph.id) or [""]
        latest = home.predictions.store.latest
        return next((each for each in columns if latest(graph.id, column=each)), columns[0])
    return ""
