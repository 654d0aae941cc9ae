"""`peewit graph filter-features`: features smoothed along the edges."""

from pathlib import Path
from typing import Annotated

import typer

from peewit.service.cli.labels.table_files import table_format, write_table
from peewit.service.cli.session import AsJson, GraphName, command_group, open_home, tell
from peewit.service.cli.solving.submission import print_failure, require_valid, wait_for_job
from peewit.service.jobs.job import JobStatus
from peewit.service.tasks.filter import files_of
from peewit.service.tasks.kind_list import KINDS
from peewit.streaming.edges.table_formats import Format

app = command_group()


@app.command()
def filter_features(
    name: GraphName,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            help=".parquet or .arrow with a list features for each node; .csv or .ndjson with "
            "f0, f1, ... for its numbers",
        ),
    ],
    teleport: Annotated[
        float, typer.Option(help="Part of the result that is a node's own, in (0, 1].")
    ] = 0.1,
    json: AsJson = False,
) -> None:
    """Write the features of all nodes, smoothed along the edges, for classifiers of your own.

    Personalized PageRank mixes every node's features with those of its neighborhood; nodes without
    features get their neighbors'. The newest snapshot and the present features are taken. The job
    goes through the queue; while no worker is alive this command runs it itself. What it makes
    stays with the graph until another one replaces it, as large as the dense features.
    """
    is_flat = table_format(output, "--output") in (Format.CSV, Format.NDJSON)
    if not output.parent.is_dir():
        raise NotADirectoryError(
            f"no directory {output.parent} to write {output.name} into; make it"
        )
    kind, values = KINDS["filter"], {"teleport": teleport}
    require_valid(kind, None, values, hint="--teleport")
    with open_home() as home:
        graph = home.graph(name)
        spec = kind.spec(graph.id, parameters=values)
        kind.admit(spec, graph, home)
        job = wait_for_job(home, home.jobs.submit(spec), is_quiet=json)
        if job.status is not JobStatus.SUCCEEDED:
            print_failure(job)
            raise typer.Exit(1)
        nodes = home.nodes
        features = files_of(home).read(graph, job, nodes)
        write_table(output, features.schema(is_flat=is_flat), features.batches(is_flat=is_flat))
    n_nodes, n_columns = features.values.shape
    text = (
        f"wrote {n_columns:,} features of {n_nodes:,} nodes, version {features.features_version}, "
        f"smoothed along snapshot {features.snapshot}, to {output}"
    )
    value = {
        "path": output,
        "snapshot": features.snapshot,
        "features_version": features.features_version,
        "n_nodes": n_nodes,
        "n_features": n_columns,
    }
    tell(text, value, as_json=json)
