"""External ids of nodes, as JSON, a query or a table has them."""

import re
from collections.abc import Iterable
from typing import Final, TypeGuard

import pyarrow as pa

from peewit.streaming.edges.bad_table import BadUpload
from peewit.streaming.edges.blocks import MAX_NODE_BYTES
from peewit.streaming.edges.node_kinds import TEXT, NodeKind
from peewit.streaming.edges.typed_ids import kind_of

NodeId = str | int

LIMIT: Final = 2**63
INTEGER: Final = re.compile(r"(0|-?[1-9][0-9]{0,18})(\.0+)?")
_MAX_EXACT: Final = 2.0**53


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
    elif isinstance(value, float) and value.is_integer() and abs(value) <= _MAX_EXACT:
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
