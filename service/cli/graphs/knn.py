"""`peewit graph knn`: edges from features."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from peewit.service.cli.edges.reading import STOP_SECONDS, ended_when_stopped, read_all
from peewit.service.cli.option_groups import OptionGroup, with_groups
from peewit.service.cli.session import (
    AsJson,
    GraphName,
    as_text,
    command_group,
    echo,
    given,
    open_home,
    print_json,
    say,
)
from peewit.service.cli.solving.submission import print_failure, require_valid, wait_for_job
from peewit.service.graph_settings import GraphSettings
from peewit.service.home import Home
from peewit.service.inbox.inbox_records import FileRecord
from peewit.service.jobs.job import Job, JobStatus
from peewit.service.process_lifetime import StopSignal, exit_after_signal
from peewit.service.tasks.kind_list import KINDS
from peewit.service.tasks.knn import KnnKind
from peewit.solvers.neighbors.neighbor_graph import Symmetrization, WeightName
from peewit.solvers.neighbors.neighbor_lists import Metric
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.neighbors.knn import Method

app = command_group()

_ENOUGH_RECALL = 0.9
_DOCS = KnnKind.options.docs


@dataclass(frozen=True, kw_only=True)
class KnnOptions(OptionGroup):
    """Which neighbors are joined, and how; None leaves it to the job."""

    k: Annotated[int | None, typer.Option("--k", help=_DOCS["k"])] = None
    weights: Annotated[WeightName | None, typer.Option(help=_DOCS["weights"])] = None
    symmetrize: Annotated[Symmetrization | None, typer.Option(help=_DOCS["symmetrize"])] = None
    metric: Annotated[Metric | None, typer.Option(help=_DOCS["metric"])] = None
    width: Annotated[float | None, typer.Option(help=_DOCS["width"])] = None
    method: Annotated[Method | None, typer.Option(help=_DOCS["method"])] = None
    n_probes: Annotated[int | None, typer.Option(help=_DOCS["n_probes"])] = None


@app.command()
@with_groups
def knn(name: GraphName, options: KnnOptions, json: AsJson = False) -> None:
    """Make edges between nodes whose features are near, and ingest them.

    The job goes through the queue; while no worker is alive this command runs it itself. In a graph
    with deletions the edges take the place of those of the last time; others take them once.
    """
    values = given(**vars(options))
    kind = KINDS["knn"]
    require_valid(kind, None, values)
    with open_home() as home:
        graph_id = home.graph(name).id
        job = home.jobs.submit(kind.spec(graph_id, parameters=values))
        job = wait_for_job(home, job, is_quiet=json)
        made = _ingest_edges(home, graph_id, job, is_quiet=json)
        graph = home.graph(name)
    refused = [file for file in made if file.status == "quarantined"]
    if json:
        print_json({"job": job, "files": made, "progress": graph.progress})
    elif job.status is not JobStatus.SUCCEEDED:
        print_failure(job)
    else:
        _tell_outcome(graph.settings, job)
    for file in refused:
        say(f"quarantined {Path(file.path).name}: {file.reason}")
    if job.status is not JobStatus.SUCCEEDED or refused:
        raise typer.Exit(1)


def _ingest_edges(home: Home, graph_id: str, job: Job, *, is_quiet: bool) -> list[FileRecord]:
    """The file of the job once ingest has taken it, here or in another process."""
    if job.status is not JobStatus.SUCCEEDED:
        return []
    directory = GraphPaths(root=home.settings.graphs_directory / graph_id).knn
    sources = [
        source
        for source in home.manifest.sources.list(graph_id)
        if Path(source.url).parent == directory and Path(source.url).name.startswith(job.id)
    ]
    with (
        StopSignal() as stop,
        exit_after_signal(STOP_SECONDS),
        ended_when_stopped("the edges are on disk, `peewit ingest` takes them in"),
    ):
        read_all(home, graph_id, sources, stop, is_quiet=is_quiet)
    return [
        file
        for source in sources
        for file in home.manifest.list_files(graph_id, source_id=source.id)
    ]


def _tell_outcome(graph: GraphSettings, job: Job) -> None:
    result = job.result or {}
    width = "" if result["width"] is None else f", width {as_text(result['width'])}"
    echo(
        f"{graph.name}: {result['n_edges']:,} edges between the {result['k']} nearest of "
        f"{result['n_nodes'] - result['n_without_features']:,} nodes{width}, "
        f"{result['seconds']:.1f} s"
    )
    if result["recall_rows"]:
        echo(
            f"{result['recall']:.1%} of the true neighbors were found, by "
            f"{result['recall_rows']:,} nodes"
        )
    if result["recall"] < _ENOUGH_RECALL:
        where = ", in another graph" if graph.deletions == "off" else ""
        say(f"note: raise --n-probes to find more of them{where}")
    if result["n_without_features"]:
        say(f"{result['n_without_features']:,} nodes have no features, and got no edges")
    if result["n_short"]:
        say(f"{result['n_short']:,} nodes have fewer neighbors than asked; raise n_probes")
    if result["n_least"]:
        say(f"{result['n_least']:,} weights are the least there is; raise width")
