"""`peewit labels`: the labels that people give, and what they think of each other's."""

from typing import Final

import typer

from peewit.service.cli.lazy_group import LazyGroup

_MEMBERS: Final = {
    "put": "label_tables",
    "columns": "label_tables",
    "list": "label_tables",
    "doubtful": "judging",
    "remove": "label_tables",
    "export": "label_tables",
    "agreement": "opinions",
    "disagreements": "opinions",
    "decide": "opinions",
    "rename-annotator": "opinions",
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
    """Labels of nodes."""
