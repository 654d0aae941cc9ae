"""Matched deletes: which edges of a log live, by the deletes that came since the last match.

One pass over the log marks dead rows and adds up the exact degrees and components of what lives: a
fold over its spans, by threads or dask workers, with the same bits. All of it follows from the
stream alone, never from what the sparsifier kept, so that it may choose what is sampled anew (B24).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np

from peewit.solvers.arrays import (
    BoolArray,
    FloatArray,
    Int32Array,
    Int64Array,
    UInt8Array,
    UInt64Array,
    frozen,
    frozen_all,
)
from peewit.solvers.row_ranges import Parallel
from peewit.streaming.cluster.ordered_folds import Advance, FoldExecutor, ThreadExecutor
from peewit.streaming.kernels.edge_passes import all_roots
from peewit.streaming.kernels.pair_positions import (
    add_live_degrees,
    fill_pair_positions,
    join_live_ends,
    mark_dead,
)
from peewit.streaming.log.change_log import ChangeLog
from peewit.streaming.log.live_edges import logged_blocks
from peewit.streaming.log.logged_files import BatchKey, DeadRows, LoggedBlock
from peewit.streaming.passes.edge_folds import Span, joined
from peewit.streaming.passes.log_folds import log_spans, read_span


@dataclass(frozen=True, slots=True)
class Survey:
    """What a match computes beyond the dead rows."""

    degree: bool
    component: bool


ALL: Final = Survey(degree=True, component=True)

MOST_PAIRS: Final = 1 << 23
"""Pairs, of 36 bytes each, that one scan looks for; more take more scans."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatchedDeletes:
    """What lives in a log; "killed" is what died since the match before."""

    dead: DeadRows
    dead_share: Mapping[str, float]  # by file, share of rows that are no edges (any more)
    degree: FloatArray | None  # (n_nodes,), living weight at each node, if surveyed
    killed: FloatArray  # (n_nodes,), weight that died at each node
    component: Int32Array | None  # (n_nodes,), smallest node of the living component, if surveyed
    n_live: int
    n_killed: int
    n_unmatched: int  # different pairs deleted since without an edge


def match_deletes(
    log: ChangeLog,
    digests: Sequence[str],
    *,
    n_resolved: int,
    version: int,
    n_nodes: int,
    n_edges: int,
    retracted: Collection[str] = (),
    erased: BoolArray | None = None,
    survey: Survey = ALL,
    parallel: Parallel = map,
    executor: FoldExecutor | None = None,
    on_block: Callable[[], None] = lambda: None,
) -> MatchedDeletes:
    """Match the deletes of all files but the first ``n_resolved``, which are matched already.

    New deletes are read here; the executor finds what they kill. The result does not depend on
    ``parallel`` or ``executor`` (one thread by default), but in the last bits of sums on
    ``n_edges``, about the number of edges of the log, by which spans are cut. ``digests`` are the
    committed files in order; ``version`` is that of the rows that the matched ones left dead. All
    edges of ``retracted`` files, whose deletes stay, and of ``erased``, an (n_nodes,) mask, die
    too. Each part of ``survey`` makes the pass take a few times as long. ``on_block`` is called as
    blocks are read, in any thread; what it raises ends the match.
    """
    executor = executor or ThreadExecutor(1)
    dead = log.dead(version)
    reading = logged_blocks(
        log, digests, dead, first_file=n_resolved, parallel=parallel, on_block=on_block
    )
    killed = np.zeros(n_nodes)
    n_killed = n_unmatched = 0
    for pairs in _deleted_pairs(reading):
        deletes = _Deletes(
            pairs=pairs, n_nodes=n_nodes, retracted=frozenset(retracted), erased=erased
        )
        if isinstance(executor, ThreadExecutor):
            deletes.table  # noqa: B018 - made once, before threads meet at it
        tally = executor.fold(
            _MatchFold(survey),
            log_spans(log, digests, dead, n_edges=n_edges, n_nodes=n_nodes),
            deletes,
            lambda _n_rows: on_block(),
        )
        dead = dead.joined(tally.bits)
        killed += tally.killed
        n_killed += tally.n_killed
        n_unmatched += tally.n_pairs - int(np.bitwise_count(tally.matched).sum())
        del deletes, pairs  # before the next table is filled
    n_rows, n_live = tally.n_rows, tally.n_live
    return MatchedDeletes(
        dead=dead,
        dead_share={file: 1.0 - n_live[file] / n_rows[file] for file in n_rows if n_rows[file]},
        degree=None if tally.degree is None else frozen(tally.degree),
        killed=frozen(killed),
        component=None if tally.component is None else frozen(tally.component),
        n_live=n_live.total(),
        n_killed=n_killed,
        n_unmatched=n_unmatched,
    )


_Pairs: TypeAlias = list[tuple[int, Int32Array, Int32Array]]
"""Position and ends of what blocks delete."""


def _deleted_pairs(reading: Iterator[tuple[int, BatchKey, LoggedBlock]]) -> Iterator[_Pairs]:
    """The deletes of some blocks, in lists of bounded size, at least one."""
    pairs: _Pairs = []
    n_pairs = 0
    for position, _, block in reading:
        u, v = block.deleted
        if not u.size:
            continue
        if n_pairs and n_pairs + u.size > MOST_PAIRS:
            yield pairs
            pairs, n_pairs = [], 0
        pairs.append((position, u, v))
        n_pairs += u.size
    yield pairs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Table:
    """Deleted pairs, and the last position that deletes each of them."""

    pairs: UInt64Array
    positions: Int64Array
    is_touched: UInt8Array
    n_pairs: int
    last: int

    @classmethod
    def of(cls, deletes: _Pairs, n_nodes: int) -> "_Table":
        n_rows = sum(u.size for _, u, _ in deletes)
        size = 1 << (2 * max(n_rows, 1) - 1).bit_length()
        pairs, positions = np.zeros(size, np.uint64), np.zeros(size, np.int64)
        is_touched = np.zeros(n_nodes, np.uint8)
        n_pairs = 0
        with np.errstate(over="ignore"):  # hashes count modulo 2^64
            for position, u, v in deletes:
                near, far = frozen_all(u, v)
                n_pairs += fill_pair_positions(near, far, position, pairs, positions, is_touched)
        return cls(
            pairs=frozen(pairs),
            positions=frozen(positions),
            is_touched=frozen(is_touched),
            n_pairs=n_pairs,
            last=deletes[-1][0] if deletes else 0,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Deletes:
    """What kills edges: pairs, files of which all die, and nodes."""

    pairs: _Pairs
    n_nodes: int
    retracted: frozenset[str]
    erased: BoolArray | None

    @cached_property
    def table(self) -> _Table:
        """The pairs as a lookup table, four times as large, so that workers make it themselves."""
        return _Table.of(self.pairs, self.n_nodes)

    def kill(
        self,
        position: int,
        digest: str,
        block: LoggedBlock,
        is_dead: BoolArray,
        is_matched: UInt8Array,
        killed: FloatArray,
    ) -> int:
        """Mark the rows of a block that die and add up their weights; returns how many lived."""
        n_killed = 0
        if self.erased is not None:
            n_killed += _kill(block, self.erased[block.u] | self.erased[block.v], is_dead, killed)
        table = self.table
        if digest in self.retracted:
            n_killed += _kill(block, np.ones(block.u.size, bool), is_dead, killed)
        elif position < table.last:
            with np.errstate(over="ignore"):  # as above
                n_killed += mark_dead(
                    block.u,
                    block.v,
                    block.weight,
                    position,
                    table.pairs,
                    table.positions,
                    table.is_touched,
                    is_matched,
                    is_dead,
                    killed,
                )
        return n_killed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Tally:
    """What lives of some spans, and what died; see `MatchedDeletes`."""

    degree: FloatArray | None
    killed: FloatArray
    component: Int32Array | None
    bits: dict[BatchKey, UInt8Array]  # dead rows of the batches of which some died, packed
    matched: UInt8Array  # places of the table that something died by, packed
    n_rows: Counter[str]  # by file
    n_live: Counter[str]  # by file
    n_killed: int
    n_pairs: int  # different pairs of the table


@dataclass(frozen=True, slots=True)
class _MatchFold:
    """Fold of what lives, and of what deletes kill."""

    survey: Survey

    def partial(self, item: Span, shared: _Deletes, advance: Advance) -> _Tally:
        n_nodes = shared.n_nodes
        killed = np.zeros(n_nodes)
        degree = np.zeros(n_nodes) if self.survey.degree else None
        component = np.arange(n_nodes, dtype=np.int32) if self.survey.component else None
        is_matched = np.zeros(shared.table.pairs.size, np.uint8)
        bits: dict[BatchKey, UInt8Array] = {}
        n_rows, n_live = Counter[str](), Counter[str]()
        n_killed = 0
        for position, key, block, is_dead in read_span(item, advance):
            n_more = shared.kill(position, key[0], block, is_dead, is_matched, killed)
            n_rows[key[0]] += block.u.size
            n_live[key[0]] += is_dead.size - int(np.count_nonzero(is_dead))
            if degree is not None:
                add_live_degrees(block.u, block.v, block.weight, is_dead, degree)
            if component is not None:
                join_live_ends(block.u, block.v, is_dead, component)
            if n_more:
                bits[key] = np.packbits(is_dead & block.adds)
                n_killed += n_more
        if component is not None:
            all_roots(component, component)
        return _Tally(
            degree=degree,
            killed=killed,
            component=component,
            bits=bits,
            matched=np.packbits(is_matched),
            n_rows=n_rows,
            n_live=n_live,
            n_killed=n_killed,
            n_pairs=shared.table.n_pairs,
        )

    def merge(self, a: _Tally, b: _Tally) -> _Tally:
        degree = component = None
        if a.degree is not None and b.degree is not None:
            degree = a.degree + b.degree
        if a.component is not None and b.component is not None:
            component, _ = joined(a.component, b.component)
        return _Tally(
            degree=degree,
            killed=a.killed + b.killed,
            component=component,
            bits={**a.bits, **b.bits},
            matched=a.matched | b.matched,
            n_rows=a.n_rows + b.n_rows,
            n_live=a.n_live + b.n_live,
            n_killed=a.n_killed + b.n_killed,
            n_pairs=a.n_pairs,
        )


def _kill(block: LoggedBlock, is_hit: BoolArray, is_dead: BoolArray, killed: FloatArray) -> int:
    """Mark hit rows as dead and add up their weights; returns how many lived."""
    is_killed = is_hit & ~is_dead
    for ends in (block.u, block.v):
        np.add.at(killed, ends[is_killed], block.weight[is_killed])
    is_dead |= is_hit
    return int(np.count_nonzero(is_killed))
