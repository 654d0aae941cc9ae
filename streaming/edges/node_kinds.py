"""Kinds of node ids; apart from `blocks`, as commands that only name them load no arrays."""

from typing import Final, Literal, get_args

NodeKind = Literal["string", "int64", "dense", "typed"]
"""What a node id is: any string, any 64-bit integer, a number in [0, max_nodes), or KIND:ID."""

NODE_KINDS: tuple[NodeKind, ...] = get_args(NodeKind)

TEXT: Final = ("string", "typed")
"""Kinds of ids that are text."""

UNTYPED: Final[tuple[NodeKind, ...]] = ("string", "int64", "dense")
"""Those of graphs whose nodes are all of one kind."""
