"""`peewit labels`: the labels that people give, and what they think of each other's."""

from typing import Final

import typer

from peewit.service.cli.lazy_group import LazyGroup

_MEMBERS: Final = {
    "put": "labels.label_tables",
    "columns": "labels.label_tables",
    "list": "labels.label_tables",
    "doubtful": "solving.judging",
    "remove": "labels.label_tables",
    "export": "labels.label_tables",
    "agreement": "labels.opinions",
    "disagreements": "labels.opinions",
    "decide": "labels.opinions",
    "rename-annotator": "labels.opinions",
}


class _LabelCommands(LazyGroup):
    """Putting labels starts fast; agreement loads what predicts."""

    members = _MEMBERS
    prefix = "labels "


app = typer.Typer(
    cls=_LabelCommands, no_args_is_help=True, add_completion=False, rich_markup_mode=None
)


@app.callback()
def _labels() -> None:
    """Put labels of nodes, list them."""
