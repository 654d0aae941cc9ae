"""Budget of edges: how many a graph keeps where nobody asks for a spectral error (B28).

It is computed once, when the graph is made, and stored with it: recomputed on another machine it
would make another graph.
"""

import os
from typing import Final

from peewit.streaming.container_limits import container_memory_bytes
from peewit.streaming.edges.change_rules import Deletions

EDGES_PER_GIB: Final = 2_500_000
"""Edges for each GiB of memory: twice as many records in the buffer of ingest, or a solve."""

MOST_EDGES: Final = 20_000_000
"""Most edges by default: with these the first solve of the default model takes half a minute."""

LEAST_EDGES: Final = 1_000_000

_GIB: Final = 2**30


def machine_memory_bytes() -> int:
    """Memory that this process may use: the machine's, or less where its container says so."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    container = container_memory_bytes()
    return machine if container is None else min(machine, container)


def edge_budget(memory_bytes: int | None = None, *, deletions: Deletions = "off") -> int:
    """Most edges of a graph that asks for no spectral error.

    ``memory_bytes``, by default the memory of this machine or container, is what ingest and solves
    may use. With deletions the budget is smaller, as the buffer keeps more than is published.
    """
    memory = machine_memory_bytes() if memory_bytes is None else memory_bytes
    budget = min(max(EDGES_PER_GIB * memory // _GIB, LEAST_EDGES), MOST_EDGES)
    return budget if deletions == "off" else budget // 2
