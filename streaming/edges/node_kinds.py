"""Types of node ids and kinds of nodes; apart, as commands that name them load no arrays.

In a typed graph a node is a kind and an id, written KIND:ID. Each kind has ids of its own:
``account:17`` and ``listing:17`` are two nodes.
"""

import re
from typing import Final, Literal, get_args

from peewit.solvers.relations.kind_names import KIND_NAME, NODE_OF_KIND

NodeKind = Literal["string", "int64", "dense", "typed"]
"""What a node id is: any string, any 64-bit integer, a number in [0, max_nodes), or KIND:ID."""

NODE_KINDS: tuple[NodeKind, ...] = get_args(NodeKind)

TEXT: Final = ("string", "typed")
"""Kinds of ids that are text."""

UNTYPED: Final[tuple[NodeKind, ...]] = ("string", "int64", "dense")
"""Those of graphs whose nodes are all of one kind."""

KIND: Final = re.compile(KIND_NAME)
"""What a kind of nodes may be called."""

_NODE: Final = re.compile(NODE_OF_KIND)


def kind_of(node: str) -> str | None:
    """The kind of a node of a typed graph; None where the text names no kind."""
    match = _NODE.fullmatch(node)
    return None if match is None else match["kind"]


def split_column(name: str) -> tuple[str, str]:
    """The kind of a column's nodes and its name, of KIND:COLUMN; the kind is '' in others.

    A name that has a colon of its own gets one before it: ``:person:ID``.
    """
    kind, colon, column = name.partition(":")
    if colon and column and KIND.fullmatch(kind):
        return kind, column
    return "", column if colon and not kind and ":" in column else name


def named_column(kind: str, column: str) -> str:
    """A column's name, and the kind of its nodes unless it is '', as `split_column` reads them."""
    if kind:
        return f"{kind}:{column}"
    return column if split_column(column) == ("", column) else f":{column}"
