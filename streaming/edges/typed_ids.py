"""Nodes of several kinds: in a typed graph a node is a kind and an id, written KIND:ID.

Each kind has ids of its own: ``account:17`` and ``listing:17`` are two nodes.
"""

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.solvers.arrays import BoolArray
from peewit.streaming.edges.blocks import BadEdges, excerpt

KIND: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}")
"""What a kind of nodes may be called."""

_NODE: Final = re.compile(rf"({KIND.pattern}):(.+)", re.DOTALL)
_ARROW_NODE: Final = rf"\A{KIND.pattern}:."


def kind_of(node: str) -> str | None:
    """The kind of a node of a typed graph; None where the text names no kind."""
    match = _NODE.fullmatch(node)
    return None if match is None else match[1]


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


def named_ids(ids: pa.Array, kind: str, name: str, first_row: int) -> pa.Array:
    """Nodes of a column of a typed graph: its ids as text behind the kind, if the column has one.

    Raises `BadEdges` where a column without a kind holds text that is no KIND:ID.
    """
    text = ids if ids.type in {pa.string(), pa.large_string()} else ids.cast(pa.string())
    if kind:
        prefix = pa.scalar(f"{kind}:", text.type)
        return pc.binary_join_element_wise(prefix, text, pa.scalar("", text.type))
    is_node = pc.match_substring_regex(text, _ARROW_NODE)
    if not pc.all(is_node).as_py():
        row = int(np.argmin(is_node.to_numpy(zero_copy_only=False)))
        raise BadEdges(
            f"column {name!r} must hold KIND:ID in a graph whose nodes have kinds; where all are "
            f"of one kind, name it before the column: KIND:{name}",
            argument=name,
            row=first_row + row,
            value=repr(excerpt(text[row].as_py())),
        )
    return text


def kinds_of(nodes: pa.Array | pa.ChunkedArray) -> list[str]:
    """The kinds of some nodes of a typed graph, in the order of the alphabet."""
    kinds = pc.unique(pc.replace_substring_regex(nodes.drop_null(), "(?s):.*", ""))
    return sorted(kinds.to_pylist())


def nodes_of_kinds(nodes: pa.ChunkedArray, kinds: Sequence[str]) -> BoolArray:
    """(n_nodes,) which nodes of a typed graph are of some kinds; erased ones are of none."""
    is_of = np.zeros(len(nodes), bool)
    for kind in kinds:
        starts = pc.fill_null(pc.starts_with(nodes, f"{kind}:"), fill_value=False)
        is_of |= starts.to_numpy()
    return is_of
