"""`peewit graph list` and `graph delete`: light, as people call them often."""

import sys
from typing import Annotated

import typer

from peewit.service.cli.session import (
    AsJson,
    GraphName,
    command_group,
    open_home,
    print_json,
    print_rows,
    say,
    tell,
)

app = command_group()


@app.command("list")
def list_graphs(json: AsJson = False) -> None:
    """List all graphs."""
    with open_home() as home:
        records, outdated = home.catalog.list(), home.catalog.outdated()
    for each in outdated:
        say(f"note: {each}")
    if json:
        print_json(records)
        return
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
                each.settings.name,
                each.progress.n_nodes,
                each.progress.edges_seen,
                each.progress.edges_kept,
                each.settings.max_edges,
                each.settings.epsilon,
                each.progress.snapshot,
                each.labels_seq,
            )
            for each in records
        ),
    )


@app.command()
def delete(
    name: GraphName,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json: AsJson = False,
) -> None:
    """Delete a graph with its labels and predictions; its files go after a time of grace."""
    with open_home() as home:
        graph_id = home.catalog.id_of(name)
        if not yes:
            if not sys.stdin.isatty():
                raise typer.BadParameter("nobody can be asked here; give --yes", param_hint="--yes")
            if not _confirm(f"Delete {name} with its labels and predictions?"):
                say(f"{name} stays; --yes deletes without a question")
                raise typer.Exit(1)

        queue = home.jobs
        home.catalog.delete(graph_id, cancel_jobs=queue.cancel_graph)
    tell(f"deleted {name}", {"deleted": graph_id}, as_json=json)


def _confirm(question: str) -> bool:
    """Whether the answer on the terminal is yes; the end of input is no."""
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:
        return False
