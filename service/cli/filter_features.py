"""`peewit graph filter-features`: features smoothed along the edges."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from peewit.service.cli.session import (
    AsJson,
    GraphName,
    command_group,
    open_session,
    tell,
)
from peewit.service.cli.table_files import table_format, write_table
from peewit.service.graphs.filtered_features import filtered_nodes
from peewit.service.graphs.known_nodes import KnownNodes
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
        float,
        typer.Option(help="Part of the result that is a node's own, in (0, 1]."),
    ] = 0.1,
    json: AsJson = False,
) -> None:
    """Write the features of all nodes, smoothed along the edges, for classifiers of your own.

    Personalized PageRank mixes every node's features with those of its neighborhood; nodes without
    features get their neighbors'. The newest snapshot and the present features are taken; a file as
    large as the dense features stands beside the output meanwhile.
    """
    is_flat = table_format(output, "--output") in (Format.CSV, Format.NDJSON)
    if not output.parent.is_dir():
        raise NotADirectoryError(
            f"no directory {output.parent} to write {output.name} into; make it"
        )
    with (
        open_session() as session,
        TemporaryDirectory(prefix=".peewit-filter-", dir=output.parent) as directory,
    ):
        found = filtered_nodes(
            session.graph(name),
            session.settings.graphs_directory,
            KnownNodes(session.settings.graphs_directory, session.manifest),
            Path(directory) / "filtered.npy",
            teleport=teleport,
        )
        write_table(output, found.schema(is_flat=is_flat), found.batches(is_flat=is_flat))
    n_nodes, n_columns = found.values.shape
    text = (
        f"wrote {n_columns:,} features of {n_nodes:,} nodes, version {found.features_version}, "
        f"smoothed along snapshot {found.snapshot}, to {output}"
    )
    value = {
        "path": output,
        "snapshot": found.snapshot,
        "features_version": found.features_version,
        "n_nodes": n_nodes,
        "n_features": n_columns,
    }
    tell(text, value, as_json=json)
