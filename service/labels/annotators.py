"""Annotators: names of the people who label, from their keys or from themselves."""

from typing import Final

from peewit.solvers.arguments import BadArgument

MAX_NAME: Final = 100


def annotator_name(text: str, *, argument: str = "annotator") -> str:
    """The name without surrounding white space.

    Raises BadArgument where it is empty, longer than `MAX_NAME`, or not printable.
    """
    name = text.strip()
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise BadArgument(
            argument,
            f"must have 1 to {MAX_NAME} characters that can be shown, got {text[:80]!r}",
        )
    return name
