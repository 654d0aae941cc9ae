"""`peewit why`: which labels speak for what is predicted of a node."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Final

import typer

from peewit.service.cli.judging import judged_file
from peewit.service.cli.predictions import prediction_reader
from peewit.service.cli.session import (
    AsJson,
    GraphName,
    JobOption,
    ModelName,
    command_group,
    open_session,
    print_json,
    print_rows,
    say,
)
from peewit.service.cli.table_files import LabelColumnOption
from peewit.service.predictions.reasons import MAX_REASONS, node_reasons
from peewit.service.tables.uploads import node_id
from peewit.service.wire.predictions import LabelReason
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.snapshots.store import SnapshotStore

app = command_group()

MAX_LEFT: Final = 0.005
"""Share of the walks whose end nobody needs to hear of."""


@app.command()
def why(
    name: GraphName,
    node: Annotated[str, typer.Argument(metavar="NODE", help="External id of the node.")],
    n_labels: Annotated[
        int, typer.Option("-k", min=1, max=MAX_REASONS, help="Most labels for it, and against it.")
    ] = 5,
    model: ModelName = None,
    label_column: LabelColumnOption = None,
    job: JobOption = None,
    json: AsJson = False,
) -> None:
    """Say which labels speak for what is predicted of a node, and how walks come to them.

    Of jobs with label_shares=true what labels add to the model's own scores is told.

    The first question after a snapshot reads it whole; further ones take a moment.
    """
    with open_session() as session:
        graph = session.graph(name)
        file = judged_file(session, name, model, label_column, job)
        snapshots = SnapshotStore(
            GraphPaths(root=session.settings.graphs_directory / graph.id).snapshots
        )
        asked = node_id(node, graph.settings.node_ids, name="NODE")
        reader = prediction_reader(session)
        found = node_reasons(reader, snapshots, graph, file, asked, k=n_labels)
    if json:
        print_json({"model": file.meta.model, "snapshot": file.meta.snapshot, **asdict(found)})
        return
    predicted = found.label
    if predicted is None:
        typer.echo(f"{node}: no label reaches it")
        return
    typer.echo(f"{node}: {predicted} ({file.meta.score} {found.score:.4f})")
    support = ", ".join(f"{each.label} {each.support:.4g}" for each in found.classes)
    told = {"walks": "walks find, for what those from anywhere do", "shares": "labels add up to"}
    typer.echo(f"{told[found.by]}: {support}")
    typer.echo()
    _print_labels(f"for {predicted}", found.labels)
    if found.labels:
        typer.echo(f"these carry {found.carried:.1%} of what speaks for {predicted}")
    if found.against:
        typer.echo()
        _print_labels("against it", found.against)
    if not found.is_whole and found.followed < 1.0 - MAX_LEFT:
        say(f"walks were followed as far as {found.followed:.1%}; there may be more labels")
    if found.note is not None:
        say(found.note)


def _way(each: LabelReason) -> str:
    """What lies between the node and a label."""
    if each.way is None:
        return "too far to look for"
    if len(each.way) < 3:
        return "the node itself" if len(each.way) == 1 else "a neighbor"
    return " > ".join(map(str, each.way[1:-1]))


def _print_labels(title: str, labels: Sequence[LabelReason]) -> None:
    print_rows(
        (title, "label", "part", "on the way"),
        (
            (
                str(each.node),
                str(each.label),
                f"{each.part:.1%}",
                _way(each),
            )
            for each in labels
        ),
    )
