"""Settings of a stream: blocks, groups, threads, memory, checkpoints."""

import math
from dataclasses import dataclass, replace
from typing import get_args

from peewit.streaming.edges.change_rules import Deletions, Parallel
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
"""Threads that read, at most, where memory is limited: its plan must not depend on threads."""

GROUP_SHARE = 1 / 16
"""Where memory or edges are limited, the buffer grows by at most this part of what it may hold
before it is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """Settings of one graph's stream.

    Attributes
    ----------
    node_kind : {"string", "int64", "dense"}
        Kind of the node ids.
    max_nodes : int
        More nodes than this are refused.
    sparsifier : SparsifierSettings
        Which edges stay.
    group_blocks : int
        Most blocks scored against one embedding; part of what a result depends on, unlike
        ``n_threads``.
    n_threads : int
        Threads that read and score.
    scheduler : str or None
        Address of a dask.distributed scheduler whose workers sparsify shares of the parts; None
        does it in threads.
    wave_shares : int
        Shares that go to the cluster together; like ``group_blocks`` part of what a result there
        depends on, unlike the number of workers.
    memory_limit : int or None
        Most bytes of resident memory of this process; decides how large buffer and blocks may be.
    max_part_rows : int
        Most rows of a block, whatever the size of the sparsifier.
    deletions : {"off", "exact"}
        Whether rows may delete edges, and files be retracted; "exact" keeps a log of all edges and
        repairs the sparsifier by it before a snapshot.
    parallel : {"sum", "replace"}
        What a further edge of a pair does; ``replace`` needs deletions.
    window : Window or None
        Which edges live, by their time; None keeps all. Edges leave by the log, so that it needs
        exact deletions.
    checkpoint_seconds : float
        A checkpoint is written when the last one is older than this.
    snapshot_edges, snapshot_seconds : int or float or None
        A snapshot is published at the next file boundary once so many edges or seconds have passed
        since the last; None waits for the end of the files given.
    """

    node_kind: NodeKind
    max_nodes: int = 100_000_000
    sparsifier: SparsifierSettings
    group_blocks: int = 16
    n_threads: int = 2
    scheduler: str | None = None
    wave_shares: int = 8
    memory_limit: int | None = None
    max_part_rows: int = PART_ROWS
    deletions: Deletions = "off"
    parallel: Parallel = "sum"
    window: Window | None = None
    checkpoint_seconds: float = 30.0
    snapshot_edges: int | None = None
    snapshot_seconds: float | None = None

    def __post_init__(self) -> None:
        """Refuse values outside their range."""
        for name in ("group_blocks", "n_threads", "wave_shares"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name, known in (("deletions", Deletions), ("parallel", Parallel)):
            if getattr(self, name) not in get_args(known):
                raise ValueError(
                    f"{name} must be one of {get_args(known)}, got {getattr(self, name)!r}"
                )
        if self.parallel == "replace" and self.deletions == "off":
            raise ValueError("parallel must be 'sum' where deletions are off, got 'replace'")
        if self.window is not None:
            self.window.require_deletions(self.deletions)

    def within_memory(self, n_nodes: int) -> "StreamSettings":
        """Settings whose buffer and blocks keep to ``memory_limit`` with so many nodes.

        Raises
        ------
        MemoryLimitTooSmall
            The sparsifier does not fit.
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
        """What decides which edges stay in the buffer: more than is published, where they leave."""
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
