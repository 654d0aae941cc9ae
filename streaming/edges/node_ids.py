"""External ids of nodes, as JSON, a query or a table has them."""

import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.solvers.arrays import BoolArray
from peewit.streaming.edges.bad_table import BadUpload
from peewit.streaming.edges.blocks import MAX_NODE_BYTES, BadEdges, excerpt
from peewit.streaming.edges.node_kinds import KIND, TEXT, NodeKind, kind_of
from peewit.streaming.edges.plain_types import text_bytes

NodeId = str | int

LIMIT: Final = 2**63
INTEGER: Final = re.compile(r"(0|-?[1-9][0-9]{0,18})(\.0+)?")
_END_OF_EXACT: Final = 2.0**53
_TYPED_NODE: Final = rf"\A{KIND.pattern}:."


def node_id(
    value: object, node_kind: NodeKind, *, name: str = "node", row: int | None = None
) -> NodeId:
    """An external id of a graph's kind; integers may come as text, and as whole floats.

    Raises `BadUpload` where it is no such id, which calls it ``name`` and says its ``row``.
    """
    if node_kind in TEXT:
        if not isinstance(value, str) or not is_text(value):
            raise BadUpload(
                f"{name!r} must be a string in this graph", argument=name, row=row, value=value
            )
        if not value or "\0" in value:
            rule = f"{name!r} must have at least one character, and no NUL"
            raise BadUpload(rule, argument=name, row=row, value=repr(value))
        if len(value.encode()) > MAX_NODE_BYTES:
            rule = f"{name!r} must have at most {MAX_NODE_BYTES} bytes"
            raise BadUpload(rule, argument=name, row=row, value=value)
        if node_kind == "typed" and kind_of(value) is None:
            rule = f"{name!r} must be KIND:ID in this graph, whose nodes have kinds"
            raise BadUpload(rule, argument=name, row=row, value=value)
        return value
    if isinstance(value, str) and INTEGER.fullmatch(value):
        value = int(value.partition(".")[0])
    elif isinstance(value, float) and value.is_integer() and abs(value) < _END_OF_EXACT:
        value = int(value)  # as pandas writes beside missing ones
    if is_integer(value):
        return value
    raise BadUpload(
        f"{name!r} must be a 64-bit integer in this graph", argument=name, row=row, value=value
    )


def node_array(nodes: Iterable[NodeId], node_kind: NodeKind) -> pa.Array:
    """External ids as an Arrow array for a lookup in the node index."""
    return pa.array(nodes, id_type(node_kind))


def id_type(node_kind: NodeKind) -> pa.DataType:
    """Arrow type of external ids; ids as text are cast to it."""
    return pa.large_string() if node_kind in TEXT else pa.int64()


def is_text(value: str) -> bool:
    """Whether UTF-8 can hold a string: JSON can name half of a surrogate pair, which is no text."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_integer(value: object) -> TypeGuard[int]:
    """Whether a value is a 64-bit integer; booleans are none, as in JSON."""
    return isinstance(value, int) and not isinstance(value, bool) and -LIMIT <= value < LIMIT


def in_kind(
    ids: pa.Array | pa.ChunkedArray, kind: str | pa.Array | pa.ChunkedArray
) -> pa.Array | pa.ChunkedArray:
    """Ids of a kind as nodes of a typed graph; null where there is none.

    An array has the kind of each; ids of the kind '' stay as they are.
    """
    text = ids if pa.types.is_large_string(ids.type) else ids.cast(pa.string())
    if not isinstance(kind, str):
        return pc.binary_join_element_wise(kind.cast(text.type), text, pa.scalar(":", text.type))
    if not kind:
        return text
    is_wide = pa.types.is_large_string(text.type)
    content = text.cast(pa.large_binary() if is_wide else pa.binary())
    named = pc.binary_replace_slice(content, 0, 0, f"{kind}:".encode())
    return named.view(text.type) if isinstance(named, pa.Array) else named.cast(text.type)


def named_ids(ids: pa.Array, kind: str | pa.Array, name: str, first_row: int) -> pa.Array:
    """Nodes of a column of a typed graph: its ids as text behind the kind, if the column has one.

    An array has the kind of each.

    Raises `BadEdges` where a column without a kind holds text that is no KIND:ID.
    """
    text = ids if ids.type in {pa.string(), pa.large_string()} else ids.cast(pa.string())
    if not isinstance(kind, str):
        return in_kind(text, kind)
    if kind:
        row = _first_with_kind(text, kind)
        if row is not None:
            raise BadEdges(
                f"column {name!r} must hold ids without the kind that is named before the column; "
                f"where each names its own, say {name} in place of {kind}:{name}",
                argument=name,
                row=first_row + row,
                value=repr(excerpt(text[row].as_py())),
            )
        return in_kind(text, kind)
    is_node = pc.match_substring_regex(text, _TYPED_NODE)
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


def _first_with_kind(text: pa.Array, kind: str) -> int | None:
    """First row whose text begins with the kind and a colon, in small letters or capitals."""
    ends, content = text_bytes(text)
    colon = ends[:-1] + len(kind)
    rows = np.flatnonzero(colon < ends[1:])
    rows = rows[content[colon[rows]] == ord(":")]
    has_kind = pc.starts_with(text.take(pa.array(rows)), f"{kind}:", ignore_case=True)
    place = pc.index(has_kind, value=True).as_py()
    return int(rows[place]) if place >= 0 else None


def kinds_of(nodes: pa.Array | pa.ChunkedArray) -> list[str]:
    """The kinds of some nodes of a typed graph, in the order of the alphabet."""
    return sorted(earliest_kinds(nodes))


def earliest_kinds(nodes: pa.Array | pa.ChunkedArray) -> list[str]:
    """The kinds of some nodes of a typed graph, in the order of their first ones."""
    kinds: list[str] = pc.unique(
        pc.replace_substring_regex(nodes.drop_null(), "(?s):.*", "")
    ).to_pylist()
    return kinds


def nodes_of_kinds(nodes: pa.ChunkedArray, kinds: Sequence[str]) -> BoolArray:
    """(n_nodes,) which nodes of a typed graph are of some kinds; erased ones are of none."""
    is_of = np.zeros(len(nodes), bool)
    for kind in kinds:
        starts = pc.fill_null(pc.starts_with(nodes, f"{kind}:"), fill_value=False)
        is_of |= starts.to_numpy()
    return is_of
