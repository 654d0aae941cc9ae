"""Resolution: which edges of a log live, told from the deletes that came since the last time.

One scan of the log marks what is dead by now, and adds up the exact degrees and components of what
lives. All of it follows from the stream alone, never from what the sparsifier kept: what is to be
sampled anew may be chosen by it (B24).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
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
)
from peewit.solvers.row_ranges import Parallel
from peewit.streaming.edges.blocks import EdgeBlock
from peewit.streaming.kernels.edge_passes import all_roots
from peewit.streaming.kernels.pair_positions import fill_pair_positions, mark_dead, survey_live
from peewit.streaming.log.change_log import NO_NODES, ChangeLog
from peewit.streaming.log.logged_files import BatchKey, DeadRows, LoggedBlock

MOST_PAIRS: Final = 1 << 23
"""Pairs that are looked for in one scan, which take 34 bytes each; more take more scans."""

_AHEAD: Final = 4
"""Blocks that are read at a time."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resolution:
    """What lives in a log.

    Attributes
    ----------
    dead : DeadRows
        Which rows do not.
    degree, killed : (n_nodes,) float64
        Weight at each node that lives, and that died since the resolution before.
    component : (n_nodes,) int32
        The smallest node of each node's component of what lives.
    n_live, n_killed : int
        Edges that live, and that died since.
    n_unmatched : int
        Different pairs that were deleted since, and of which no edge was there.
    dead_share : mapping of str to float
        Part of the rows of each file that are no edges, or no edges any more.
    """

    dead: DeadRows
    dead_share: Mapping[str, float]
    degree: FloatArray
    killed: FloatArray
    component: Int32Array
    n_live: int
    n_killed: int
    n_unmatched: int


def resolve(
    log: ChangeLog,
    digests: Sequence[str],
    *,
    n_resolved: int,
    version: int,
    n_nodes: int,
    retracted: Collection[str] = (),
    erased: BoolArray | None = None,
    parallel: Parallel = map,
    on_block: Callable[[], None] = lambda: None,
) -> Resolution:
    """Resolve the deletes of all files but the first ones, whose deletes are resolved already.

    Parameters
    ----------
    log : ChangeLog
    digests : sequence of str
        The committed files, in order.
    n_resolved : int
        How many of them are resolved.
    version : int
        Of the rows that these left dead.
    n_nodes : int
        Nodes known.
    retracted : collection of str
        Files of which all edges die, too; their deletes stay.
    erased : (n_nodes,) bool, optional
        Nodes of which all edges die.
    parallel : callable
        Runs independent tasks; the result does not depend on it.
    on_block : callable
        Called after each block that was read, several times where there are many deletes; what it
        raises ends the resolution.
    """
    known = log.dead(version)
    scan = _Scan(log, digests, known, parallel, on_block)
    tables = _tables(scan, n_resolved, n_nodes)
    dead = DeadRows(known.bits, known.generations)
    n_rows, n_left = Counter[str](), Counter[str]()
    killed, degree = np.zeros(n_nodes), np.zeros(n_nodes)
    parent = np.arange(n_nodes, dtype=np.int32)
    n_live = n_killed = n_unmatched = 0
    for table, is_last in tables:
        for position, key, block in scan.blocks():
            is_dead = dead.mask(key, block)
            is_delete = ~block.adds
            if erased is not None:
                n_killed += _kill(block, erased[block.u] | erased[block.v], is_dead, killed)
            if key[0] in retracted:
                n_killed += _kill(block, np.ones(block.u.size, bool), is_dead, killed)
            elif position < table.last:
                n_killed += table.mark(block, position, is_dead, killed)
            if is_last:
                n_alive = survey_live(block.u, block.v, block.weight, is_dead, degree, parent)
                n_live += n_alive
                n_rows[key[0]] += block.u.size
                n_left[key[0]] += n_alive
            is_dead &= ~is_delete
            if is_dead.any():
                dead.bits[key] = np.packbits(is_dead)
        n_unmatched += table.n_unmatched
        del table  # before the next one is filled
    component = np.empty(n_nodes, np.int32)
    all_roots(parent, component)
    return Resolution(
        dead=dead,
        dead_share={each: 1.0 - n_left[each] / n_rows[each] for each in n_rows if n_rows[each]},
        degree=frozen(degree),
        killed=frozen(killed),
        component=frozen(component),
        n_live=n_live,
        n_killed=n_killed,
        n_unmatched=n_unmatched,
    )


def live_blocks(
    log: ChangeLog,
    digests: Sequence[str],
    dead: DeadRows,
    *,
    at: BoolArray | None = None,
    parallel: Parallel = map,
    on_block: Callable[[], None] = lambda: None,
) -> Iterator[tuple[str, EdgeBlock]]:
    """Digest and edges of each block that has some which live, in the order of the stream.

    Parameters
    ----------
    log, digests, parallel, on_block
        As for `resolve`.
    dead : DeadRows
        What does not live.
    at : (n_nodes,) bool, optional
        Only edges with an end at one of these nodes.
    """
    for _, key, block in _Scan(log, digests, dead, parallel, on_block).blocks():
        is_taken = ~dead.mask(key, block)
        if at is not None:
            is_taken &= at[block.u] | at[block.v]
        if is_taken.any():
            yield key[0], block.edges(is_taken)


def compacted(
    log: ChangeLog,
    digests: Collection[str],
    dead: DeadRows,
    *,
    generation: int,
    on_block: Callable[[], None] = lambda: None,
) -> DeadRows:
    """Write some files anew without their dead rows and deletes; what is dead then.

    Blocks keep their numbers, if they hold nothing, so that positions stay what they were.

    Parameters
    ----------
    log : ChangeLog
    digests : collection of str
        Files whose deletes are resolved.
    dead : DeadRows
        What does not live.
    generation : int
        What to call them: the version that they are written for.
    on_block : callable
        Called after each block.
    """
    bits, generations = dict(dead.bits), dict(dead.generations)
    for digest in sorted(digests):
        file = log.file(digest, dead)
        with log.writing(digest, replaces=False, generation=generation) as writer:
            for number in range(file.n_batches):
                block = file.block(number)
                is_dead = dead.mask((digest, number), block)
                writer.append(block.edges(~is_dead), NO_NODES, NO_NODES)
                bits.pop((digest, number), None)
                on_block()
        generations[digest] = generation
    return DeadRows(bits, generations)


_Read: TypeAlias = tuple[BatchKey, Callable[[], LoggedBlock]]


@dataclass(frozen=True, slots=True, eq=False)
class _Scan:
    log: ChangeLog
    digests: Sequence[str]
    dead: DeadRows
    parallel: Parallel
    on_block: Callable[[], None]

    def blocks(self, *, first_file: int = 0) -> Iterator[tuple[int, BatchKey, LoggedBlock]]:
        """Position in the whole log, key and content of every block from some file on."""
        files = [self.log.file(digest, self.dead) for digest in self.digests]
        position = sum(file.n_batches for file in files[:first_file])
        reads: Iterator[_Read] = (
            ((file.digest, number), partial(file.block, number))
            for file in files[first_file:]
            for number in range(file.n_batches)
        )
        while together := list(islice(reads, _AHEAD)):

            def read(place: int, together: Sequence[_Read] = together) -> LoggedBlock:
                return together[place][1]()

            blocks = self.parallel(read, range(len(together)))
            for (key, _), block in zip(together, blocks, strict=True):
                yield position, key, block
                position += 1
                self.on_block()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Table:
    """Pairs that are deleted, and the last position that deletes each of them."""

    pairs: UInt64Array
    positions: Int64Array
    is_touched: UInt8Array
    is_matched: UInt8Array
    n_pairs: int
    last: int

    @classmethod
    def of(
        cls, deletes: Sequence[tuple[int, Int32Array, Int32Array]], n_rows: int, n_nodes: int
    ) -> "_Table":
        size = 1 << (2 * max(n_rows, 1) - 1).bit_length()
        pairs, positions = np.zeros(size, np.uint64), np.zeros(size, np.int64)
        is_touched = np.zeros(n_nodes, np.uint8)
        n_pairs = 0
        with np.errstate(over="ignore"):  # hashes count modulo 2^64
            for position, u, v in deletes:
                n_pairs += fill_pair_positions(u, v, position, pairs, positions, is_touched)
        return cls(
            pairs=pairs,
            positions=positions,
            is_touched=is_touched,
            is_matched=np.zeros(size, np.uint8),
            n_pairs=n_pairs,
            last=deletes[-1][0] if deletes else 0,
        )

    @property
    def n_unmatched(self) -> int:
        return self.n_pairs - int(np.count_nonzero(self.is_matched))

    def mark(
        self, block: LoggedBlock, position: int, is_dead: BoolArray, killed: FloatArray
    ) -> int:
        with np.errstate(over="ignore"):  # as above
            n_killed = mark_dead(
                block.u,
                block.v,
                block.weight,
                position,
                self.pairs,
                self.positions,
                self.is_touched,
                self.is_matched,
                is_dead,
                killed,
            )
        return int(n_killed)


def _tables(scan: _Scan, n_resolved: int, n_nodes: int) -> Iterator[tuple[_Table, bool]]:
    """The deletes of all files but the first ones, in tables of bounded size, at least one.

    Beside each whether it is the last.
    """
    waiting: list[tuple[int, Int32Array, Int32Array]] = []
    n_rows = 0
    for position, _, block in scan.blocks(first_file=n_resolved):
        u, v = block.deleted
        if not u.size:
            continue
        if n_rows and n_rows + u.size > MOST_PAIRS:
            yield _Table.of(waiting, n_rows, n_nodes), False
            waiting, n_rows = [], 0
        waiting.append((position, u, v))
        n_rows += u.size
    yield _Table.of(waiting, n_rows, n_nodes), True


def _kill(block: LoggedBlock, is_hit: BoolArray, is_dead: BoolArray, killed: FloatArray) -> int:
    """Have rows die that are hit; returns how many lived."""
    is_killed = is_hit & ~is_dead
    for ends in (block.u, block.v):
        np.add.at(killed, ends[is_killed], block.weight[is_killed])
    is_dead |= is_hit
    return int(np.count_nonzero(is_killed))
