"""Names of relations: the rule that they keep, and how many a graph has at most."""

import re
from typing import Final

from peewit.solvers.arguments import BadArgument

MOST_RELATIONS: Final = 64
"""Most relations of a graph."""

_MARKS: Final = r"\x00-\x1f\x7f-\x9f\ud800-\udfff,="
_NAME: Final = re.compile(rf"(?!\s)[^{_MARKS}]{{1,64}}(?<!\s)")

NAME_RULE: Final = (
    "must have 1 to 64 characters, no comma, = or control character, and no blank at either end"
)
"""Of the name of a relation, as weights are written card=3,message=0."""


def is_relation_name(name: str) -> bool:
    """Whether a relation may have that name."""
    return _NAME.fullmatch(name) is not None


def check_relation_name(name: str, *, argument: str = "relation") -> str:
    """The name; raises BadArgument where no relation may have it."""
    if not is_relation_name(name):
        raise BadArgument(argument, f"{NAME_RULE}, got {name!r}")
    return name
