"""`peewit watch`: how a graph grows and what its jobs do, live in the terminal."""

import time
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import Annotated, Final

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from peewit.service.catalog import GraphRecord
from peewit.service.cli.progress import fault_text, shown_time
from peewit.service.cli.session import (
    AsJson,
    GraphName,
    command_group,
    open_home,
    print_json,
    printable,
)
from peewit.service.graphs.ingest_history import IngestHistory, IngestPoint, edges_per_second
from peewit.service.graphs.notes import kept_text
from peewit.service.home import Home
from peewit.service.jobs.job import Job, JobStatus
from peewit.service.process_lifetime import StopSignal
from peewit.service.wire.graphs import epsilon_text
from peewit.streaming.snapshots.store import SnapshotStore

app = command_group()

_BARS: Final = " ▁▂▃▄▅▆▇█"
_BAR_WIDTH: Final = 40
_JOBS_SHOWN: Final = 8
_FAULTS_SHOWN: Final = 3
_MEBIBYTE: Final = 2**20
_COLOURS: Final = {
    JobStatus.RUNNING: "yellow",
    JobStatus.SUCCEEDED: "green",
    JobStatus.FAILED: "red",
}


@app.command()
def watch(
    name: GraphName,
    every: Annotated[
        float, typer.Option("--every", min=0.1, max=60.0, help="Seconds between two looks.")
    ] = 1.0,
    json: AsJson = False,
) -> None:
    """Watch a graph: ingest, backlog, refused files and jobs, until Ctrl-C.

    Where stdout is no terminal, and with --json, it is shown once.
    """
    with open_home() as home:
        if json:
            print_json(_figures(home, home.graph(name)))
            return
        console = Console(highlight=False, markup=False)
        if not console.is_terminal:
            console.print(view(home, home.graph(name)))
            return
        with (
            StopSignal() as stop,
            Live(view(home, home.graph(name)), console=console, auto_refresh=False) as live,
        ):
            while not stop():
                time.sleep(every)
                live.update(view(home, home.graph(name)), refresh=True)


def view(home: Home, graph: GraphRecord) -> RenderableType:
    """The present view of a graph."""
    history = IngestHistory(home.database)
    moment, points = history.now(), history.points(graph.id)
    jobs = home.jobs.list(graph_id=graph.id, limit=_JOBS_SHOWN).jobs
    pieces: list[RenderableType] = [
        Panel(_ingest(home, graph, points, moment), title=graph.settings.name, expand=False)
    ]
    faults = home.manifest.list_files(graph.id, status="quarantined", limit=_FAULTS_SHOWN)
    for file in faults:
        place = file.path.rsplit("/", 1)[-1]
        fault = fault_text(file.reason, file.row, file.value)
        pieces.append(Text(printable(f"quarantined {place}: {fault}"), style="red"))
    pieces.append(_jobs(jobs, moment))
    return Group(*pieces)


def sparkline(values: Sequence[float], width: int = _BAR_WIDTH) -> str:
    """Values as bars of text; a bar is the mean of several if there are many."""
    if not values:
        return ""
    n_bars = min(width, len(values))
    groups = [
        values[len(values) * bar // n_bars : len(values) * (bar + 1) // n_bars]
        for bar in range(n_bars)
    ]
    means = [sum(group) / len(group) for group in groups]
    most = max(means)
    if most <= 0:
        return _BARS[0] * n_bars
    return "".join(_BARS[round(mean / most * (len(_BARS) - 1))] for mean in means)


def _ingest(
    home: Home, graph: GraphRecord, points: Sequence[IngestPoint], moment: datetime
) -> Table:
    progress, backlog = graph.progress, home.manifest.backlog(graph.id)
    files = home.manifest.counts(graph.id)
    speed = edges_per_second(points, moment)
    seen = points[-1].edges_seen if speed else progress.edges_seen
    rows = {
        "nodes": f"{progress.n_nodes:,}",
        "edges seen": f"{seen:,}",
        "edges kept": kept_text(graph, SnapshotStore(home.paths(graph).snapshots).newest()),
        "ingest": f"{speed:,.0f} edges/s" if speed else "idle",
        "growth": sparkline(_speeds(points)),
        "memory": f"{points[-1].memory_bytes / _MEBIBYTE:,.0f} MiB" if speed else "-",
        "backlog": f"{backlog.n_files:,} files, {backlog.n_bytes / _MEBIBYTE:,.1f} MiB",
        "files": ", ".join(f"{count:,} {status}" for status, count in files.items() if count)
        or "none",
        "snapshot": _spectral_error(graph),
        "labels": f"event {graph.labels_seq:,}",
    }
    table = Table.grid(padding=(0, 2))
    for name, value in rows.items():
        table.add_row(Text(name, style="dim"), value)
    return table


def _spectral_error(graph: GraphRecord) -> str:
    progress = graph.progress
    if progress.snapshot is None or progress.epsilon_expected is None:
        return "none yet"
    error = epsilon_text(graph.settings.epsilon, progress.epsilon_expected)
    return f"{progress.snapshot}: {error}"


def _speeds(points: Sequence[IngestPoint]) -> list[float]:
    """Edges per second between each two points."""
    return [
        max(later.edges_seen - earlier.edges_seen, 0)
        / max((later.at - earlier.at).total_seconds(), 1e-3)
        for earlier, later in pairwise(points)
    ]


def _jobs(jobs: Sequence[Job], moment: datetime) -> RenderableType:
    if not jobs:
        return Text("no jobs yet", style="dim")
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("job", "what", "status", "progress", "left", "took"):
        table.add_column(column)
    for job in jobs:
        is_running = job.status is JobStatus.RUNNING
        table.add_row(
            job.short_id,
            f"{job.kind} {job.model or ''}".strip(),
            Text(job.status, style=_COLOURS.get(job.status, "")),
            _progress(job) if is_running else Text(printable(job.error or ""), style="red"),
            _time_left(job, moment) if is_running else "",
            _took(job, moment),
        )
    return table


def _progress(job: Job) -> RenderableType:
    if job.progress is None:
        return Text(job.phase or "starting")
    bar = Table.grid(padding=(0, 1))
    bar.add_row(ProgressBar(total=1.0, completed=job.progress, width=16), job.phase or "")
    return bar


def _time_left(job: Job, moment: datetime) -> str:
    if job.expected_end_at is None:
        return ""
    return shown_time(max((job.expected_end_at - moment).total_seconds(), 0.0))


def _took(job: Job, moment: datetime) -> str:
    if job.started_at is None:
        return ""
    return shown_time(((job.finished_at or moment) - job.started_at).total_seconds())


def _figures(home: Home, graph: GraphRecord) -> dict[str, object]:
    """The view as one JSON value."""
    history = IngestHistory(home.database)
    points = history.latest(graph.id)
    jobs = home.jobs.list(graph_id=graph.id, limit=_JOBS_SHOWN).jobs
    return {
        "graph": graph.settings.name,
        "progress": graph.progress,
        "edges_per_second": edges_per_second(points, history.now()),
        "memory_bytes": points[-1].memory_bytes if points else None,
        "backlog": home.manifest.backlog(graph.id),
        "files": dict(home.manifest.counts(graph.id)),
        "labels_seq": graph.labels_seq,
        "jobs": jobs,
    }
