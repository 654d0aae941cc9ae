"""Annotators: the names of people who label, as their keys or they themselves say them."""

from typing import Final

from peewit.solvers.arguments import BadArgument

MAX_NAME: Final = 100


def annotator_name(text: str, *, argument: str = "annotator") -> str:
    """A name without the white space around it.

    Raises
    ------
    BadArgument
        Nothing is left of it, it is longer than `MAX_NAME`, or holds what cannot be shown.
    """
    name = text.strip()
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise BadArgument(
            argument,
            f"must have 1 to {MAX_NAME} characters that can be shown, got {text[:80]!r}",
        )
    return name
