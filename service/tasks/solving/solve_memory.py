"""Memory of a solving process: how it is divided, from sizes alone, before and in a job.

Decision: figures follow from the graph, the model and the settings, never from what else is in
memory. Consequence: a job that does not fit is refused when it is submitted, whichever graphs are
warm.
"""

from typing import Final

from peewit.solvers.gram.memory_plan import GramTooLarge
from peewit.solvers.models.auto.point_arms import FULL_COLUMNS
from peewit.solvers.models.contract.model import Model
from peewit.streaming.passes.edge_folds import product_bytes
from peewit.streaming.snapshots.provenance import SnapshotMeta

RESERVED_BYTES: Final = 512 * 2**20
"""Of the process with its libraries (260 MiB), and blocks that are computed in passing."""

_REFINED_BYTES: Final = 144
"""Bytes of conjugate gradients for each node and column: eighteen vectors, measured."""

PROOF_COLUMNS: Final = 40
"""Columns that a proof takes beside those of classes: vectors of a pass, probes, directions."""

_PASS_BYTES: Final = 32
"""Per node and column of points: what is multiplied, the product, and both times the degrees."""

_ENTRY_BYTES: Final = 12
"""Bytes of a weight and its column number; each edge has two."""


def graph_bytes(n_nodes: int, n_edges: int, n_copies: float = Model.graph_copies[1]) -> int:
    """Bytes of a prepared graph and of the vectors of a solve on it.

    ``n_copies`` is one of `Model.graph_copies`; five are 1.1 GiB at a million nodes and 8 million
    edges.
    """
    return int(n_copies * (2 * _ENTRY_BYTES * n_edges + 4 * (n_nodes + 1)))


def refined_bytes(n_nodes: int, n_columns: int) -> int:
    """Bytes of the passes that refine so many columns; at worst two directions for each."""
    return n_nodes * n_columns * _REFINED_BYTES + product_bytes(n_nodes, 2 * n_columns)


def points_bytes(n_nodes: int) -> int:
    """Bytes of the passes over all edges that make points of nodes."""
    return n_nodes * FULL_COLUMNS * _PASS_BYTES + product_bytes(n_nodes, FULL_COLUMNS)


def kept_bytes(memory_bytes: int, model: Model, graph: SnapshotMeta) -> int:
    """Bytes that a model may keep beside a graph, of the memory of a process.

    Models of points plan all of it, since they keep nothing but a Gram matrix and its factors. The
    others get half: what they keep comes on top of their working memory.
    """
    left = memory_bytes - graph_bytes(graph.n_nodes, graph.edges_kept, model.graph_copies[1])
    return max(0, left - RESERVED_BYTES) if model.uses_features else max(0, left) // 2


def refusal(error: GramTooLarge, memory_bytes: int, graph: SnapshotMeta) -> str:
    """Message that a Gram matrix does not fit, with the setting of the memory."""
    mib, taken = 2**20, graph_bytes(graph.n_nodes, graph.edges_kept)
    return (
        f"{error}; a process that solves may use PEEWIT_CHILD_MEMORY_BYTES, "
        f"{memory_bytes / mib:,.0f} MiB here. The process itself takes "
        f"{RESERVED_BYTES / mib:,.0f} MiB of them and the graph {taken / mib:,.0f} MiB"
    )
