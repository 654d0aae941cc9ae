"""Live edges of a log: read block by block, or written anew without what is dead."""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Final, TypeAlias

from peewit.solvers.arrays import BoolArray
from peewit.solvers.row_ranges import Parallel
from peewit.streaming.edges.blocks import EdgeBlock
from peewit.streaming.log.change_log import NO_NODES, ChangeLog
from peewit.streaming.log.logged_files import BatchKey, DeadRows, LoggedBlock

_AHEAD: Final = 4
"""Blocks that are read at a time."""

_Read: TypeAlias = tuple[BatchKey, Callable[[], LoggedBlock]]


def logged_blocks(
    log: ChangeLog,
    digests: Sequence[str],
    dead: DeadRows,
    *,
    first_file: int = 0,
    parallel: Parallel = map,
    on_block: Callable[[], None] = lambda: None,
) -> Iterator[tuple[int, BatchKey, LoggedBlock]]:
    """Position in the whole log, key and content of every block from some file on.

    ``digests`` are the committed files, in order; ``dead`` tells the generation of each.
    ``on_block`` is called after each block that was read; what it raises ends the scan. The result
    does not depend on ``parallel``.
    """
    files = [log.file(digest, dead) for digest in digests]
    position = sum(file.n_batches for file in files[:first_file])
    reads: Iterator[_Read] = (
        ((file.digest, number), partial(file.block, number))
        for file in files[first_file:]
        for number in range(file.n_batches)
    )
    while together := list(islice(reads, _AHEAD)):

        def read(place: int, together: Sequence[_Read] = together) -> LoggedBlock:
            return together[place][1]()

        blocks = parallel(read, range(len(together)))
        for (key, _), block in zip(together, blocks, strict=True):
            yield position, key, block
            position += 1
            on_block()


def live_blocks(
    log: ChangeLog,
    digests: Sequence[str],
    dead: DeadRows,
    *,
    at: BoolArray | None = None,
    parallel: Parallel = map,
    on_block: Callable[[], None] = lambda: None,
) -> Iterator[tuple[str, EdgeBlock]]:
    """Digest and live edges of each block that has any, in the order of the stream.

    ``at``, (n_nodes,) bool, asks only for edges with an end at one of these nodes. The rest is as
    for `logged_blocks`.
    """
    reading = logged_blocks(log, digests, dead, parallel=parallel, on_block=on_block)
    for _, key, block in reading:
        if edges := live_edges(block, dead.mask(key, block), at):
            yield key[0], edges


def live_edges(
    block: LoggedBlock, is_dead: BoolArray, at: BoolArray | None = None
) -> EdgeBlock | None:
    """Live edges of a block, at marked nodes where some are given; None where there are none."""
    is_taken = ~is_dead
    if at is not None:
        is_taken &= at[block.u] | at[block.v]
    return block.edges(is_taken) if is_taken.any() else None


def compacted(
    log: ChangeLog,
    digests: Collection[str],
    dead: DeadRows,
    *,
    generation: int,
    parallel: Parallel = map,
    on_block: Callable[[], None] = lambda: None,
) -> DeadRows:
    """Dead rows that are left once some files are written anew without theirs, and without deletes.

    Deletes of the files must be resolved. Blocks keep their numbers, even where they hold nothing,
    so that positions stay what they were. ``generation`` is the version that the files are written
    for. ``on_block`` is called after each block, in any thread.
    """
    files = [log.file(digest, dead) for digest in sorted(digests)]

    def write(place: int) -> None:
        file = files[place]
        with log.writing(
            file.digest, replaces=False, has_buckets=file.has_buckets, generation=generation
        ) as writer:
            for number in range(file.n_batches):
                block = file.block(number)
                is_dead = dead.mask((file.digest, number), block)
                writer.append(block.edges(~is_dead), NO_NODES, NO_NODES)
                on_block()

    for _ in parallel(write, range(len(files))):
        pass
    bits = {key: rows for key, rows in dead.bits.items() if key[0] not in digests}
    generations = {**dead.generations, **dict.fromkeys(digests, generation)}
    return DeadRows(bits, generations, horizon=dead.horizon)
