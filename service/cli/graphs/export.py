"""`peewit graph export`: the sparsified edges of a snapshot."""

from pathlib import Path
from typing import Annotated

import typer

from peewit.service.cli.labels.table_files import write_table
from peewit.service.cli.session import AsJson, GraphName, command_group, open_home, tell
from peewit.service.graphs.export import snapshot_edges

app = command_group()


@app.command()
def export(
    name: GraphName,
    output: Annotated[
        Path, typer.Option("-o", "--output", help=".parquet, .csv, .ndjson or .arrow")
    ],
    snapshot: Annotated[int | None, typer.Option(help="Which; the newest by default.")] = None,
    json: AsJson = False,
) -> None:
    """Write the sparsified edges of a snapshot: src, dst, weight, and relation if they have one."""
    with open_home() as home:
        record = home.graph(name)
        nodes = home.nodes
        edges = snapshot_edges(record, home.settings.graphs_directory, nodes, snapshot)
        write_table(output, edges.schema, edges.batches())
    text = f"wrote {edges.n_edges:,} edges of snapshot {edges.number} to {output}"
    value = {"path": output, "snapshot": edges.number, "n_edges": edges.n_edges}
    tell(text, value, as_json=json)
