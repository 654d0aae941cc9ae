"""Memory limit: turned into the size of the buffer and of the blocks that are read.

What a stream needs is known beforehand: so much for the process, for each block in flight, for each
node and for each record. The limit is refused where the sparsifier itself would not fit. Where no
epsilon is asked that is not known before edges come: every edge is kept until the records pass a
budget, which may be far more than there ever are. So the buffer takes what memory there is, as long
as a spanning forest fits, and `stream.absorption` refuses once more must be kept than it holds.
"""

from dataclasses import dataclass, replace

from peewit.streaming.edges.change_rules import Deletions
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.sparsifier.sample_size import expected_size
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings

RECORD_BYTES = 26
"""A record (20), its new probability (4), its class and its mark while it is resparsified."""

NODE_BYTES = 850
"""Sample, matrix and 32 vectors of an embedding, the card and the sums of a node."""

ROW_BYTES = 36
"""A row of a block in flight: decoded, copied, and as a record."""

DELETE_RECORD_BYTES = 20
"""A record once more, while others of its chunk are struck."""

DELETE_NODE_BYTES = 40
"""What a strike adds up for a node, and what is kept of it."""

LOG_NODE_BYTES = 50
"""Degrees, components and marks of a node once a log is resolved. While that lasts it takes three
times as much, as spans are added up, but less than an embedding, which is not there then."""

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
    """Sizes that keep to a memory limit.

    Attributes
    ----------
    buffer_edges : int
        Most records that the buffer may hold.
    part_rows : int
        Most rows of a block.
    """

    buffer_edges: int
    part_rows: int


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
    """Buffer and block size with which a stream stays within ``limit_bytes``.

    They depend on the arguments alone, so that the stream stays reproducible; the size of blocks
    not on the number of nodes, as the parts of a file are numbered before it is read.

    Parameters
    ----------
    limit_bytes : int
        Most resident memory of the process.
    settings : SparsifierSettings
        Of the graph.
    node_kind : {"string", "int64", "dense"}
        Kind of the node ids.
    n_nodes : int
        Nodes known; ``expected_nodes`` counts where it is more.
    part_rows : int
        Most rows of a block without a limit.
    blocks_in_flight : int
        Blocks that are in memory together.
    deletions : {"off", "exact"}
        Whether edges may be deleted, by a log.

    Raises
    ------
    MemoryLimitTooSmall
        Less is left for the buffer than the sparsifier asked for needs, or, where no epsilon is
        asked, a spanning forest of it; says what would do.
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
            kept, way_out = "a spanning forest", "raise it"
        else:
            kept = f"epsilon {settings.epsilon:g}"
            way_out = "raise it, raise epsilon or set max_edges"
        raise MemoryLimitTooSmall(
            f"memory_limit must be at least {needed:,} bytes ({-(-needed // 2**20)}MiB) for "
            f"{nodes:,} nodes at {kept}, got {limit_bytes:,}; {way_out}; expected_nodes counts as "
            "nodes, and is fixed once a graph exists: one made with fewer takes less"
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
