"""`peewit graph list` and `graph delete`: light, as people call them often."""

import sys
from typing import Annotated

import typer

from peewit.service.cli.operation_commands import add_command, here_of
from peewit.service.cli.session import (
    AsJson,
    GraphName,
    command_group,
    open_home,
    print_rows,
    say,
    tell,
)
from peewit.service.jobs.ingest_steps import length_text
from peewit.service.operations.graphs import delete_graph, list_graphs, list_relations
from peewit.service.wire.graphs import GraphList, RelationList

app = command_group()


def show_graphs(answer: GraphList, **_: object) -> None:
    """A line for each."""
    print_rows(
        (
            "name",
            "nodes",
            "edges seen",
            "edges kept",
            "max_edges",
            "epsilon",
            "snapshot",
            "labels_seq",
        ),
        (
            (
                each.name,
                each.nodes,
                each.edges_seen,
                each.edges_kept,
                each.settings.max_edges,
                each.settings.epsilon,
                each.snapshot,
                each.labels_seq,
            )
            for each in answer.graphs
        ),
    )


add_command(app, list_graphs, "list", show=show_graphs)


def show_relations(answer: RelationList, **_: object) -> None:
    """A line for each."""
    headings = ["relation", "edges", "edges kept", "nodes", "volume", "epsilon", "directed"]
    rows: list[list[object]] = [
        [
            each.name,
            each.n_edges,
            each.edges_kept,
            each.n_nodes,
            each.volume,
            each.epsilon_expected,
            "yes" if each.is_directed else "",
        ]
        for each in answer.relations
    ]
    if any(each.watermark for each in answer.relations):  # in a graph with a window
        headings += ["window", "live since", "latest", "left", "too old when they came"]
        for each, row in zip(answer.relations, rows, strict=True):
            row += [length_text(each.window), each.horizon or "all", each.watermark or "-"]
            row += [each.n_left, 0 if each.left_out is None else each.left_out.too_old]
    print_rows(headings, rows)


add_command(app, list_relations, "relations", show=show_relations)


@app.command()
def delete(
    name: GraphName,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json: AsJson = False,
) -> None:
    """Delete a graph with its labels and predictions; its files go after a time of grace."""
    with open_home() as home:
        graph = home.graph(name)
        if not yes:
            if not sys.stdin.isatty():
                raise typer.BadParameter(
                    "there is no terminal to ask on; add --yes to delete without a question",
                    param_hint="--yes",
                )
            if not _confirm(f"Delete {name} with its labels and predictions?"):
                say(f"{name} stays; --yes deletes without a question")
                raise typer.Exit(1)
        delete_graph(here_of(home), graph)
    tell(f"deleted {name}", {"deleted": graph.id}, as_json=json)


def _confirm(question: str) -> bool:
    """Whether the answer on the terminal is yes; the end of input is no."""
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:
        return False
