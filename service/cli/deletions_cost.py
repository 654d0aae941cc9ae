"""Cost of exact deletions: what they add to an ingest, in a graph that has them or might."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Self

from peewit.service.catalog import GraphRecord
from peewit.service.ingest.settings_of_stream import stream_settings
from peewit.service.settings import Settings
from peewit.streaming.edges.change_rules import Deletions
from peewit.streaming.memory import least_memory

LOG_EDGE_BYTES: Final = (3, 12)
"""Bytes that an edge takes in the log: few where pairs come again, and two numbers of nodes and a
weight where nothing can be packed (docs/how-to/delete-edges.md)."""

INGEST_CPU: Final = 1.34
"""CPU of an ingest with a log, over that of one without (docs/how-to/delete-edges.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionsCost:
    """What exact deletions add.

    Attributes
    ----------
    are_on : bool
        Whether the graph has them; they are chosen when it is made.
    n_edges : int
        Rows that are in the graph, and those that are to come.
    log_bytes_least, log_bytes_most : int
        Of the log of so many edges on disk.
    ingest_cpu : float
        CPU of ingest, in that without them.
    memory_bytes : int
        Memory of ingest, beside that without them.
    """

    are_on: bool
    n_edges: int
    log_bytes_least: int
    log_bytes_most: int
    ingest_cpu: float
    memory_bytes: int

    @classmethod
    def of(cls, graph: GraphRecord, settings: Settings, *, n_more: int = 0) -> Self:
        """The cost for a graph that ``n_more`` rows are to come to."""
        n_edges = graph.progress.edges_seen + n_more
        least, most = (n_edges * each for each in LOG_EDGE_BYTES)
        memory = partial(ingest_memory, graph, settings, n_more=n_more)
        return cls(
            are_on=graph.settings.deletions == "exact",
            n_edges=n_edges,
            log_bytes_least=least,
            log_bytes_most=most,
            ingest_cpu=INGEST_CPU,
            memory_bytes=memory("exact") - memory("off"),
        )

    def __str__(self) -> str:
        """In words."""
        least, most = (
            f"{each / 2**20:,.1f}" for each in (self.log_bytes_least, self.log_bytes_most)
        )
        return (
            f"a log of {least} to {most} MiB on disk for {self.n_edges:,} edges, {self.ingest_cpu} "
            f"of the CPU and {self.memory_bytes / 2**20:,.0f} MiB more memory of ingest"
        )


def ingest_memory(
    graph: GraphRecord,
    settings: Settings,
    deletions: Deletions | None = None,
    *,
    n_more: int,
) -> int:
    """Least bytes of an ingest into a graph, with other deletions than it has where they are given.

    It counts the nodes that it has, or those that it is to be ready for; and, where every edge is
    kept, the edges that it has and ``n_more``.
    """
    chosen = stream_settings(graph, settings)
    sparsifier = chosen.sparsifier
    if sparsifier.epsilon is None and sparsifier.max_edges is not None:
        n_edges = max(graph.progress.edges_seen + n_more, 1)
        sparsifier = replace(sparsifier, max_edges=min(sparsifier.max_edges, n_edges))
    return least_memory(
        sparsifier,
        node_kind=chosen.node_kind,
        n_nodes=max(graph.progress.n_nodes, graph.settings.expected_nodes),
        block_rows=chosen.part_rows * (2 * chosen.n_readers + 1),
        deletions=deletions or chosen.deletions,
    )
