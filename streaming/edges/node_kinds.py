"""Kinds of node ids; apart from `blocks`, as commands that only name them load no arrays."""

from typing import Literal, get_args

NodeKind = Literal["string", "int64", "dense"]
"""What a node id is: any string, any 64-bit integer, or a number in [0, max_nodes)."""

NODE_KINDS: tuple[NodeKind, ...] = get_args(NodeKind)
