"""Settings of a stream: blocks, groups, threads, memory, checkpoints."""

import math
from dataclasses import dataclass, replace
from typing import get_args

from peewit.streaming.edges.change_rules import Deletions, ParallelEdges
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.parts import PART_ROWS
from peewit.streaming.edges.windows import Window
from peewit.streaming.memory import plan_memory
from peewit.streaming.sparsifier.arrivals import ARRIVAL_LANES
from peewit.streaming.sparsifier.sample_size import ROOM, expected_size
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings, SparsifierState
from peewit.streaming.sparsifier.sparsifier import buffer_cap

SMALLEST_PART_ROWS = 1 << 13

LIMITED_READERS = 2
"""Most threads that read where memory is limited: its plan must not depend on threads."""

GROUP_SHARE = 1 / 16
"""Share of its limit by which the buffer grows before it is looked at, where one is set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """Settings of one graph's stream.

    Results depend on ``group_blocks`` and, on a cluster, ``wave_shares``; not on the number of
    threads or workers. ``memory_limit`` decides how large buffer and blocks may be. With exact
    deletions rows may delete edges and files be retracted: a log keeps all edges, and the
    sparsifier is repaired by it before a snapshot. ``replace`` and windows need that, as edges
    leave by the log. A snapshot is published at the next file boundary once ``snapshot_edges`` or
    ``snapshot_seconds`` have passed since the last; where both are None, at the end of the files
    given.
    """

    node_kind: NodeKind
    max_nodes: int = 100_000_000  # more are refused
    sparsifier: SparsifierSettings
    group_blocks: int = 16  # most blocks scored against one embedding
    n_threads: int = 2  # that read and score
    scheduler: str | None = None  # of dask.distributed; its workers sparsify shares of parts
    wave_shares: int = 8  # shares that go to the cluster together
    memory_limit: int | None = None  # bytes of resident memory of this process
    max_part_rows: int = PART_ROWS  # most rows of a block, whatever the size of the sparsifier
    deletions: Deletions = "off"
    parallel_edges: ParallelEdges = "sum"  # what a further edge of a pair does
    window: Window | None = None  # which edges live, by their time; None keeps all
    checkpoint_seconds: float = 30.0  # age of the last checkpoint at which the next is written
    snapshot_edges: int | None = None
    snapshot_seconds: float | None = None

    def __post_init__(self) -> None:
        """Refuse values outside their range."""
        for name in ("group_blocks", "n_threads", "wave_shares"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name, known in (("deletions", Deletions), ("parallel_edges", ParallelEdges)):
            if getattr(self, name) not in get_args(known):
                raise ValueError(
                    f"{name} must be one of {get_args(known)}, got {getattr(self, name)!r}"
                )
        if self.parallel_edges == "replace" and self.deletions == "off":
            raise ValueError("parallel_edges must be 'sum' where deletions are off, got 'replace'")
        if self.window is not None:
            self.window.require_deletions(self.deletions)

    def within_memory(self, n_nodes: int) -> "StreamSettings":
        """Settings whose buffer and blocks keep to ``memory_limit`` with so many nodes.

        Raises `MemoryLimitTooSmall` where the sparsifier does not fit.
        """
        if self.memory_limit is None:
            return self
        plan = plan_memory(
            self.memory_limit,
            self.keeping,
            node_kind=self.node_kind,
            n_nodes=n_nodes,
            part_rows=self.part_rows,
            blocks_in_flight=2 * LIMITED_READERS + 1 + ARRIVAL_LANES,
            deletions=self.deletions,
        )
        return replace(
            self,
            sparsifier=replace(self.sparsifier, buffer_edges=plan.buffer_edges),
            max_part_rows=plan.part_rows,
        )

    @property
    def keeping(self) -> SparsifierSettings:
        """Settings of the buffer, which keeps more edges than are published where edges leave."""
        return self.sparsifier if self.window is None else self.sparsifier.with_room(ROOM)

    @property
    def n_readers(self) -> int:
        """Threads that read."""
        return self.n_threads if self.memory_limit is None else min(self.n_threads, LIMITED_READERS)

    @property
    def part_rows(self) -> int:
        """Most rows of a block: many, since slices of a row group are slow to read.

        The nearest power of two, as the sizes of row groups mostly are, unless memory allows less.
        """
        wanted = max(self._group_rows / ARRIVAL_LANES, SMALLEST_PART_ROWS)
        return min(1 << round(math.log2(wanted)), self.max_part_rows)

    @property
    def blocks_per_group(self) -> int:
        """Blocks of a group, which holds about two sparsifiers' edges (section B.3)."""
        rows, cap = self._group_rows, self.sparsifier.buffer_edges
        if self.sparsifier.epsilon is None:  # it is full at so many records, or before
            budget = math.ceil(buffer_cap(SparsifierState(), self.keeping))
            cap = budget if cap is None else min(cap, budget)
        if cap is not None:
            rows = min(rows, GROUP_SHARE * cap)
        return min(max(math.ceil(rows / self.part_rows), ARRIVAL_LANES), self.group_blocks)

    @property
    def _group_rows(self) -> float:
        return 2.0 * expected_size(self.sparsifier, self.sparsifier.expected_nodes)
