"""Memory limit: turned into the size of the buffer and of the blocks that are read.

What a stream needs is known beforehand: a part for the process, for each block in flight, each node
and each record. A limit that the sparsifier itself exceeds is refused. Without an epsilon the
number of records is unknown: every edge is kept until the records pass a budget, which may never
happen. Then the buffer takes the memory there is, as long as a spanning forest fits, and
`stream.absorption` refuses once more must be kept than it holds.
"""

from dataclasses import dataclass, replace

from peewit.streaming.edges.change_rules import Deletions
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.sparsifier.sample_size import expected_size
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings

HELD_BYTES = 20
"""A record."""

RECORD_BYTES = HELD_BYTES + 6
"""A record, its new probability (4), its class and its mark while it is resparsified."""

NODE_BYTES = 850
"""Sample, matrix and 32 vectors of an embedding, the card and the sums of a node."""

ROW_BYTES = 36
"""A row of a block in flight: decoded, copied, and as a record."""

DELETE_RECORD_BYTES = 20
"""A record once more, while others of its chunk are struck."""

DELETE_NODE_BYTES = 40
"""What a strike adds up for a node, and what is kept of it."""

LOG_NODE_BYTES = 50
"""Degrees, components and marks of a node once a log is resolved.

Three times as much while that lasts, but less than an embedding, which is not there then.
"""

LOG_BYTES = 320 * 2**20
"""Pairs that are looked for in a log, and blocks of it."""

INDEX_BYTES = 120
"""A node of string or int64 id in the index."""

FIXED_BYTES = 480 * 2**20
"""The process with its libraries, and batches of a snapshot."""

LEAST_ROOM = 1.04
"""With less room than this over what is kept, a stream would do nothing but resparsify."""

_BLOCK_SHARE = 0.14
_LEAST_PART_ROWS = 1 << 13
_LEAST_GROWTH = 1.1


class MemoryLimitTooSmall(ValueError):
    """The graph does not fit into the memory allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """Sizes that keep to a memory limit."""

    buffer_edges: int  # most records of the buffer
    part_rows: int  # most rows of a block


def plan_memory(
    limit_bytes: int,
    settings: SparsifierSettings,
    *,
    node_kind: NodeKind,
    n_nodes: int,
    part_rows: int,
    blocks_in_flight: int,
    deletions: Deletions = "off",
) -> MemoryPlan:
    """Buffer and block size with which a stream stays within ``limit_bytes`` of resident memory.

    They depend on the arguments alone, so that the stream stays reproducible. The size of blocks
    does not depend on the number of nodes, as the parts of a file are numbered before it is read.
    Of ``n_nodes``, the nodes known, and ``expected_nodes`` the larger counts; ``part_rows`` bounds
    a block without a limit. Raises `MemoryLimitTooSmall`, which says what would do, where the
    buffer cannot hold the sparsifier or, without an epsilon, a spanning forest.
    """
    nodes = max(n_nodes, settings.expected_nodes)
    for_blocks = int(_BLOCK_SHARE * limit_bytes)
    rows = min(part_rows, max(for_blocks // (blocks_in_flight * ROW_BYTES), _LEAST_PART_ROWS))
    if settings.epsilon is None and settings.max_edges is not None:
        settings = replace(settings, max_edges=min(settings.max_edges, nodes))
    least = int(_LEAST_GROWTH * expected_size(settings, nodes))
    needed = least_memory(
        settings,
        node_kind=node_kind,
        n_nodes=nodes,
        block_rows=rows * blocks_in_flight,
        deletions=deletions,
    )
    buffer_edges = least + (limit_bytes - needed) // _record_bytes(deletions)
    if buffer_edges < least:
        if settings.epsilon is None:
            aim, way_out = "a spanning forest", "raise it"
        else:
            aim = f"epsilon {settings.epsilon:g}"
            way_out = "raise it, raise epsilon or set max_edges"
        raise MemoryLimitTooSmall(
            f"memory_limit must be at least {needed:,} bytes ({-(-needed // 2**20)}MiB) "
            f"for {nodes:,} nodes at {aim}, got {limit_bytes:,}; {way_out}. expected_nodes "
            "counts as nodes, and is fixed once a graph exists: make a graph with fewer to "
            "take less"
        )
    return MemoryPlan(buffer_edges=buffer_edges, part_rows=rows)


def least_memory(
    settings: SparsifierSettings,
    *,
    node_kind: NodeKind,
    n_nodes: int,
    block_rows: int,
    deletions: Deletions = "off",
) -> int:
    """Least resident bytes of an ingest with so many nodes, and rows of blocks in flight."""
    node_bytes = NODE_BYTES + (0 if node_kind == "dense" else INDEX_BYTES)
    node_bytes += 0 if deletions == "off" else DELETE_NODE_BYTES + LOG_NODE_BYTES
    records = int(_LEAST_GROWTH * expected_size(settings, n_nodes)) * _record_bytes(deletions)
    fixed = FIXED_BYTES + (0 if deletions == "off" else LOG_BYTES)
    return fixed + n_nodes * node_bytes + block_rows * ROW_BYTES + records


def _record_bytes(deletions: Deletions) -> int:
    return RECORD_BYTES + (0 if deletions == "off" else DELETE_RECORD_BYTES)
