"""`peewit graph`: graphs, their settings and their sparsified edges."""

from typing import Final

import typer

from peewit.service.cli.lazy_group import LazyGroup, Member

_MEMBERS: Final = {
    "create": Member("graph_settings", "Create an empty graph."),
    "set": Member(
        "graph_settings", "Change settings of a graph; they hold from the next block on."
    ),
    "list": Member("graph_list", "List all graphs."),
    "show": Member(
        "graph_settings", "Show one graph: settings, what came in, what was kept, what waits."
    ),
    "delete": Member(
        "graph_list",
        "Delete a graph with its labels and predictions; its files go after a time of grace.",
    ),
    "export": Member("graph_export", "Write the sparsified edges of a snapshot: src, dst, weight."),
    "filter-features": Member(
        "filter_features",
        "Write the features of all nodes, smoothed along the edges, for classifiers of your own.",
    ),
    "knn": Member("knn", "Make edges between nodes whose features are near, and ingest them."),
}


class _GraphCommands(LazyGroup):
    """Only ``list`` and ``delete`` start fast: the others load what they work with."""

    members = _MEMBERS


app = typer.Typer(
    cls=_GraphCommands, no_args_is_help=True, add_completion=False, rich_markup_mode=None
)


@app.callback()
def _graph() -> None:
    """Graphs and their settings."""
