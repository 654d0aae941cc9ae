"""Cost of exact deletions in an ingest, for graphs that have them or might."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Self

from peewit.service.catalog import GraphRecord
from peewit.service.ingest.settings_of_stream import stream_settings
from peewit.service.settings import Settings
from peewit.streaming.edges.change_rules import Deletions
from peewit.streaming.memory import least_memory

LOG_EDGE_BYTES: Final = (3, 12)
"""Bytes of an edge in the log: few if pairs repeat, and two node numbers and a weight if nothing
can be packed (docs/how-to/delete-edges.md)."""

INGEST_CPU: Final = 1.34
"""CPU of an ingest with a log, over that of one without (docs/how-to/delete-edges.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionsCost:
    """Cost of exact deletions for ``n_edges``, those in the graph and those to come."""

    are_on: bool  # fixed when the graph is made
    n_edges: int
    log_bytes_least: int  # on disk
    log_bytes_most: int
    ingest_cpu: float  # over that without deletions
    memory_bytes: int  # more than ingest takes without deletions

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
    graph: GraphRecord, settings: Settings, deletions: Deletions | None = None, *, n_more: int
) -> int:
    """Least bytes of an ingest into a graph, with its own deletions unless others are given.

    It counts the nodes that the graph has or is to be ready for and, if every edge is kept, its
    edges and ``n_more``.
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
