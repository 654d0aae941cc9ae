"""All graphs, and one: how it grows, what waits, what was refused, its spectral error."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Query, Request, Response
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import CallerHere
from peewit.service.api.json_response import json_response
from peewit.service.api.served_home import GraphHere, HomeHere, ServedHome
from peewit.service.catalog import GraphRecord
from peewit.service.dashboard.access import viewing
from peewit.service.dashboard.help_words import PAGES
from peewit.service.dashboard.next_step import next_step
from peewit.service.dashboard.pages import back_to, form_of, is_piece, page, page_router, piece
from peewit.service.dashboard.routes.common import Seen
from peewit.service.dashboard.routes.maps import map_state
from peewit.service.dashboard.svg_geometry import Spectrum
from peewit.service.graphs.ingest_history import IngestHistory, edges_per_second
from peewit.service.graphs.table_notes import source_note
from peewit.service.jobs.ingest_steps import IngestSteps
from peewit.service.jobs.job import JobStatus
from peewit.service.operations import sources_and_files as operations
from peewit.service.operations.graphs import get_graph, list_relations, list_snapshots
from peewit.service.operations.here import Here
from peewit.service.tasks.kind_list import KINDS
from peewit.streaming.snapshots.store import SnapshotStore

router = page_router()

_QUARANTINED_SHOWN = 20
_ERASURES_SHOWN = 10
_FILES_SHOWN = 10
_SNAPSHOTS_SHOWN = 10


@router.get("/", dependencies=[viewing("read")])
def show_graphs(request: Request, home: HomeHere, seen: Seen = "") -> Response:
    """The catalog."""
    rows = [_row(graph, home) for graph in home.catalog.list()]
    if is_piece(request):
        return piece(request, "graphs_table.html", seen=seen, rows=rows)
    request.app.state.rounds.prepare()
    return page(request, "graphs.html", seen="", rows=rows)


@router.get("/help", dependencies=[viewing("read")])
def show_help(request: Request) -> Response:
    """What words mean, and what pages are for."""
    return page(request, "help.html", pages=PAGES)


@router.get("/graphs/{graph}", dependencies=[viewing("read")])
def show_graph(request: Request, graph: GraphHere, home: HomeHere) -> Response:
    """One graph."""
    request.app.state.rounds.prepare()
    return page(
        request,
        "graph.html",
        graph=graph,
        seen="",
        map=map_state(graph, home),
        **_live(graph, home),
    )


@router.get("/graphs/{graph}/live", dependencies=[viewing("read")])
def show_live(request: Request, graph: GraphHere, home: HomeHere, seen: Seen = "") -> Response:
    """What changes on that page."""
    return piece(request, "graph_live.html", seen=seen, graph=graph, **_live(graph, home))


@router.get("/graphs/{graph}/next-step", dependencies=[viewing("read")])
def show_next_step(
    request: Request,
    graph: GraphHere,
    home: HomeHere,
    seen: Seen = "",
    here: Annotated[str, Query(max_length=300)] = "",
) -> Response:
    """What to do next with a graph; ``here`` is the page that shows it."""
    step = next_step(graph, home)
    return piece(request, "next_step.html", seen=seen, graph=graph, step=step, here=here)


@router.get("/graphs/{graph}/growth", dependencies=[viewing("read")])
def get_growth(graph: GraphHere, home: HomeHere) -> Response:
    """Points of the chart: seconds since the epoch, edges seen, kept and in the buffer."""
    points = IngestHistory(home.database).points(graph.id)
    return json_response(
        {
            "at": [each.at.timestamp() for each in points],
            "seen": [each.edges_seen for each in points],
            "kept": [each.edges_kept for each in points],
            "buffer": [each.n_records for each in points],
        }
    )


@router.post("/graphs/{graph}/sources/{source_id}/retry", dependencies=[viewing("ingest")])
def retry_source(graph: GraphHere, home: HomeHere, source_id: str) -> Response:
    """Offer the refused files of a source again."""
    operations.retry_source(Here(home=home), graph, source_id=source_id)
    return back_to(f"/graphs/{graph.settings.name}")


@router.post("/graphs/{graph}/files/{file_id}/retry", dependencies=[viewing("ingest")])
def retry_file(graph: GraphHere, home: HomeHere, file_id: int) -> Response:
    """Offer a file again that was refused or retracted."""
    operations.retry_file(Here(home=home), graph, file_id=file_id)
    return back_to(f"/graphs/{graph.settings.name}")


@router.post("/graphs/{graph}/files/{file_id}/retract", dependencies=[viewing("ingest")])
def retract_file(graph: GraphHere, home: HomeHere, file_id: int) -> Response:
    """Have a file leave the graph."""
    operations.retract_file(Here(home=home), graph, file_id=file_id)
    return back_to(f"/graphs/{graph.settings.name}")


@router.post("/graphs/{graph}/repair", dependencies=[viewing("ingest")])
def repair(graph: GraphHere, home: HomeHere) -> Response:
    """Have edges sampled anew that deletes have spoiled."""
    home.manifest.wishes.want_repair(graph.id, "due")
    return back_to(f"/graphs/{graph.settings.name}")


@router.post("/graphs/{graph}/certify", dependencies=[viewing("label")])
async def certify(
    request: Request, graph: GraphHere, home: HomeHere, caller: CallerHere
) -> Response:
    """Have the newest snapshot measured."""
    await form_of(request)
    spec = KINDS["certify"].spec(graph.id, parameters={}, owner=caller.name)
    job = await run_in_threadpool(home.jobs.submit_coalesced, spec)
    return back_to(f"/jobs/{job.id}")


def _row(graph: GraphRecord, home: ServedHome) -> dict[str, Any]:
    """Template values of a graph in the catalog."""
    files = home.manifest.counts(graph.id)
    running = home.jobs.list(graph_id=graph.id, status=JobStatus.RUNNING, limit=1).jobs
    snapshots = SnapshotStore(home.paths(graph).snapshots)
    latest = snapshots.latest()
    return {
        "graph": graph,
        "state": _state(files, has_job=bool(running)),
        "fresh_at": None
        if latest is None
        else datetime.fromtimestamp(snapshots.meta(latest).created_at, UTC),
    }


def _state(files: Any, *, has_job: bool) -> tuple[str, str]:
    """A word and its color."""
    if files["quarantined"]:
        return f"{files['quarantined']} quarantined", "bad"
    if files["pending"] or files["retracting"]:
        return "ingesting", "busy"
    return ("solving", "busy") if has_job else ("idle", "calm")


def _live(graph: GraphRecord, home: ServedHome) -> dict[str, Any]:
    """Template values of the changing part of a graph's page."""
    here = Here(home=home)
    details = get_graph(here, graph)
    history = IngestHistory(home.database)
    points = history.latest(graph.id)
    stall_seconds = home.settings.stall_seconds
    steps = [
        (each.source_id, each.doing(stall_seconds), each.is_stuck(stall_seconds))
        for each in IngestSteps(home.database).present(graph.id)
    ]
    sources = home.manifest.sources.list(graph.id)
    return {
        "details": details,
        "repair_wanted": home.manifest.wishes.of(graph.id).repair_wanted,
        "speed": edges_per_second(points, history.now()),
        "memory_bytes": points[-1].memory_bytes if points else None,
        "steps": steps,
        "sources": [(each, source_note(graph, each, door="page")) for each in sources],
        "quarantined": home.manifest.list_files(
            graph.id, status="quarantined", limit=_QUARANTINED_SHOWN
        ),
        "erasures": home.manifest.erasures.list(graph.id)[:_ERASURES_SHOWN],
        "latest_files": home.manifest.latest_files(
            graph.id, ("committed", "retracting", "retracted"), limit=_FILES_SHOWN
        )
        if graph.settings.deletions != "off"
        else (),
        "snapshots": list_snapshots(here, graph).snapshots[:_SNAPSHOTS_SHOWN],
        "spectrum": Spectrum.of(details),
        **_relations(graph, home),
    }


def _relations(graph: GraphRecord, home: ServedHome) -> dict[str, Any]:
    """Relations of the newest snapshot where tables name them, and what the newest solve made."""
    newest = home.snapshots(graph).newest()
    names_some = newest is not None and newest.relations
    relations = list_relations(Here(home=home), graph).relations if names_some else []
    solved = None
    if relations:
        with_weights = (
            job
            for job in home.predictions.store.kept(graph.id)
            if ((job.result or {}).get("stats") or {}).get("relations")
        )
        solved = next(with_weights, None)
    stats = [] if solved is None or solved.result is None else solved.result["stats"]["relations"]
    return {
        "relations": relations,
        "solved": solved,
        "weights": {each["name"]: each for each in stats},
    }
