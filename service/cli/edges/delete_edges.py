"""`peewit delete`: edges leave a graph again."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import pyarrow as pa
import typer

from peewit.service.catalog import GraphRecord
from peewit.service.cli.edges.reading import STOP_SECONDS, ended_when_stopped, read_all
from peewit.service.cli.progress import fault_text
from peewit.service.cli.session import AsJson, command_group, echo, given, open_home, print_json
from peewit.service.home import Home
from peewit.service.inbox.edge_deletes import (
    as_deletes,
    deletes_of_pairs,
    lacking_note,
    require_deletes,
    write_deletes,
)
from peewit.service.operations.declaration import doc_of
from peewit.service.operations.tables import EdgeColumnNames
from peewit.service.process_lifetime import StopSignal, exit_after_signal
from peewit.service.tables.column_names import edge_columns
from peewit.service.tables.uploads import edge_batches
from peewit.service.wire.graphs import epsilon_text
from peewit.streaming.edges.change_columns import names_operations
from peewit.streaming.edges.column_mapping import CHANGES, NO_COLUMN
from peewit.streaming.edges.reading_options import Quote
from peewit.streaming.edges.table_formats import Format, format_of_file, unpacked
from peewit.streaming.snapshots.store import SnapshotStore

app = command_group()


def _named(column: str) -> Any:
    return typer.Option(metavar="COLUMN", help=doc_of(EdgeColumnNames, column))


@app.command()
def delete(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the graph.")],
    pair: Annotated[
        list[str] | None, typer.Argument(metavar="SRC DST", help="Ends of one pair.")
    ] = None,
    edges: Annotated[
        list[Path] | None,
        typer.Option(
            "--edges", metavar="FILE", help="Table of the pairs, with src and dst; repeatable."
        ),
    ] = None,
    src: Annotated[str | None, _named("src")] = None,
    dst: Annotated[str | None, _named("dst")] = None,
    quote: Annotated[Quote | None, typer.Option(help=doc_of(EdgeColumnNames, "quote"))] = None,
    relation: Annotated[
        str | None,
        typer.Option(
            "--relation",
            metavar="NAME",
            help="Kind of the edges to delete, '' for those without a name; needed where some "
            "have one.",
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Delete all edges between some pairs of nodes.

    Either end may come first. Edges that come later stay, also those of files that still wait. A
    pair without edges is passed over.
    The nodes stay known. Files hold the two ends; a feed of changes, which also inserts, is to be
    ingested instead. The graph needs --deletions exact.
    """
    if not (edges or pair):
        raise typer.BadParameter("give a pair, SRC DST, or many, by --edges FILE")
    if pair and len(pair) != 2:
        raise typer.BadParameter(f"must be two, SRC and DST, got {len(pair)}", param_hint="SRC DST")
    with open_home() as home, tempfile.TemporaryFile() as file:
        graph = home.graph(name)
        if graph.settings.deletions == "off":
            raise ValueError(
                f"deletions of {name} must be exact, they are off; create another graph with "
                "--deletions exact"
            )
        n_unmatched = _n_unmatched(home, graph)
        rows = _deletes(graph, edges or (), pair or (), given(src=src, dst=dst, quote=quote))
        write_deletes(rows, file, graph.settings.node_ids)
        columns = replace(CHANGES, missing_ids="keep", relation=relation)
        # the digest is never compared: there is no Idempotency-Key
        push = home.pushes.add(graph, file, Format.ARROW, body_digest=uuid4().hex, columns=columns)
        with (
            StopSignal() as stop,
            exit_after_signal(STOP_SECONDS),
            ended_when_stopped("the deletes are on disk, and the next ingest goes on"),
        ):
            read_all(
                *(home, graph.id, (), stop),
                is_quiet=True,
                is_done=lambda: home.manifest.push_log.get(graph.id, push.id).status != "pending",
            )
        push = home.manifest.push_log.get(graph.id, push.id)
        after = home.graph(name)
        progress, without = after.progress, _n_unmatched(home, after) - n_unmatched
        lacking = lacking_note(home.snapshots(after).relation_names(), [relation or ""])
    if push.file is not None and push.status == "quarantined":
        fault = fault_text(push.file.reason, push.file.row, push.file.value)
        raise ValueError(f"the deletes were refused: {fault}")
    if json:
        told = {"graph": name, "push": push.id, "status": push.status, "rows": push.n_rows}
        print_json({**told, "without_edges": without})
    elif push.status == "pending":
        echo(f"{name}: {push.n_rows:,} deletes are on disk; another process takes them in")
    else:
        echo(
            f"{name}: rows that delete {push.n_rows:,}, edges kept {progress.edges_kept:,}, before "
            f"{graph.progress.edges_kept:,}; "
            + (f"{without:,} of the pairs had no edge; " if without else "")
            + (f"{lacking}; " if lacking else "")
            + epsilon_text(graph.settings.epsilon, progress.epsilon_expected)
        )


def _n_unmatched(home: Home, graph: GraphRecord) -> int:
    """Deletes of pairs without an edge so far."""
    snapshot = graph.progress.snapshot
    store = SnapshotStore(home.paths(graph).snapshots)
    return 0 if snapshot is None else store.meta(snapshot).n_unmatched


def _deletes(
    graph: GraphRecord, files: Sequence[Path], pair: Sequence[str], named: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """Rows of all files, then of the pair."""
    kind = graph.settings.node_ids
    said = edge_columns({**graph.settings.columns_of_edges, **named})
    columns = replace(said, weight=NO_COLUMN, needs_weight=False, time=None, missing_ids="keep")
    for path in files:
        table_format, compression = format_of_file(path.name)
        with unpacked(path, compression) as content:
            first_row = 0
            for batch in edge_batches(content, table_format, kind, columns=columns):
                names = batch.schema.names
                watched = filter(names_operations, columns.watched(names))
                for op in [str(columns.op)] if columns.op in names else watched:
                    require_deletes(batch.column(op), op, first_row)
                yield as_deletes(batch, columns)
                first_row += batch.num_rows
    if pair:
        yield deletes_of_pairs(pair[:1], pair[1:], kind)
