"""`peewit graph`: graphs, their settings and their sparsified edges."""

from typing import Final

import typer

from peewit.service.cli.lazy_group import LazyGroup

_MEMBERS: Final = {
    "create": "graphs.settings",
    "set": "graphs.settings",
    "list": "graphs.lists",
    "show": "graphs.settings",
    "relations": "graphs.lists",
    "delete": "graphs.lists",
    "export": "graphs.export",
    "filter-features": "graphs.filter_features",
    "knn": "graphs.knn",
}


class _GraphCommands(LazyGroup):
    """``list``, ``relations`` and ``delete`` start fast: others load what they work with."""

    members = _MEMBERS
    prefix = "graph "


app = typer.Typer(
    cls=_GraphCommands, no_args_is_help=True, add_completion=False, rich_markup_mode=None
)


@app.callback()
def _graph() -> None:
    """Make a graph, show it, change its settings."""
