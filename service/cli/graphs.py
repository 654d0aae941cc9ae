"""`peewit graph`: graphs, their settings and their sparsified edges."""

from typing import Final

import typer

from peewit.service.cli.lazy_group import LazyGroup

_MEMBERS: Final = {
    "create": "graph_settings",
    "set": "graph_settings",
    "list": "graph_list",
    "show": "graph_settings",
    "delete": "graph_list",
    "export": "graph_export",
    "filter-features": "filter_features",
    "knn": "knn",
}


class _GraphCommands(LazyGroup):
    """Only ``list`` and ``delete`` start fast: the others load what they work with."""

    members = _MEMBERS
    prefix = "graph "


app = typer.Typer(
    cls=_GraphCommands, no_args_is_help=True, add_completion=False, rich_markup_mode=None
)


@app.callback()
def _graph() -> None:
    """Graphs and their settings."""
