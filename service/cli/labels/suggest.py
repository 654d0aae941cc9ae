"""`peewit suggest`: which nodes to label next."""

from shlex import quote

from peewit.service.cli.operation_commands import add_command
from peewit.service.cli.session import command_group, print_rows, say
from peewit.service.operations.suggestions import get_suggestions
from peewit.service.wire.predictions import Suggestions

app = command_group()


def show_suggestions(suggestions: Suggestions, *, name: str, reserve: bool, **_: object) -> None:
    """A line for each node, and how to put its label."""
    if not suggestions.suggestions:
        held = ", or is reserved for somebody else" if reserve else ""
        say(f"every node that could be suggested has a label{held}")
        return
    print_rows(
        ("node", "predicted", "margin"),
        (
            (str(each.node), None, None)
            if each.prediction is None or each.prediction.label is None
            else (str(each.node), str(each.prediction.label), each.prediction.margin)
            for each in suggestions.suggestions
        ),
    )
    say(
        f"put their labels with `peewit labels put {quote(name)} FILE --origin "
        f"{suggestions.origin}`"
    )


add_command(app, get_suggestions, "suggest", show=show_suggestions)
