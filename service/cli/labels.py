"""`peewit labels`: the labels that people give, and what they think of each other's."""

from typing import Final

import typer

from peewit.service.cli.lazy_group import LazyGroup, Member

_MEMBERS: Final = {
    "put": Member("label_tables", "Put labels; the latest of a node wins."),
    "columns": Member(
        "label_tables", "List the columns in which labels were given, and how many nodes have one."
    ),
    "list": Member(
        "label_tables",
        "List labeled nodes, their labels, where these come from and who gave them, by their ids.",
    ),
    "doubtful": Member(
        "label_tables",
        "List labels by how much the others contradict them: mistakes are among the first.",
    ),
    "remove": Member("label_tables", "Take the labels of some nodes back."),
    "export": Member(
        "label_tables", "Write the present label of every labeled node, ready to be put again."
    ),
    "agreement": Member(
        "opinions",
        "Say how far people agree about the same nodes: percent, kappa of pairs, alpha of all.",
    ),
    "disagreements": Member(
        "opinions",
        "List nodes that people have labeled differently, and which label stands meanwhile.",
    ),
    "decide": Member(
        "opinions", "Put the label that is to stand of a node about which people disagree."
    ),
    "rename-annotator": Member(
        "opinions", "Give a person another name in the labels, history and opinions of a graph."
    ),
}


class _LabelCommands(LazyGroup):
    """Putting labels starts fast; agreement loads what predicts."""

    members = _MEMBERS


app = typer.Typer(
    cls=_LabelCommands, no_args_is_help=True, add_completion=False, rich_markup_mode=None
)


@app.callback()
def _labels() -> None:
    """Labels of nodes."""
