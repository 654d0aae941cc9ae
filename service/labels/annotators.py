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
            argument, f"must have 1 to {MAX_NAME} characters that can be shown, got {text[:80]!r}"
        )
    return name


def holder_of(door: str, owner: str | None, annotator: str | None) -> str:
    """For whom nodes are reserved: the door, the key, and who of those that share it.

    Raises BadArgument as `annotator_name`.
    """
    return f"{door} {owner or ''} {'' if annotator is None else annotator_name(annotator)}"
