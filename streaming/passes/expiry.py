"""Expiry: the weights of the edges that leave a window, read from their own part of the log."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray
from peewit.solvers.row_ranges import Parallel
from peewit.streaming.kernels.pair_positions import add_live_degrees
from peewit.streaming.log.change_log import ChangeLog
from peewit.streaming.log.logged_files import DeadRows, LoggedBlock, LoggedFile

_AHEAD = 4
"""Blocks that are read at a time."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExpiredEdges:
    """Edges that leave a window."""

    degree: FloatArray  # (n_nodes,), their weight at each node
    n_edges: int


def expired_edges(
    log: ChangeLog,
    digests: Sequence[str],
    dead: DeadRows,
    *,
    horizon: int,
    n_nodes: int,
    parallel: Parallel = map,
    on_block: Callable[[], None] = lambda: None,
) -> ExpiredEdges:
    """Edges that live by ``dead`` and belong to buckets before the horizon, the first that stays.

    Only their blocks are read, so that over its life every edge is read once for this. ``dead``
    knows the horizon before, ``digests`` are the committed files in order, and the result does not
    depend on ``parallel``. An exception of ``on_block``, called after every block, ends the work.
    """
    degree = np.zeros(n_nodes)
    n_edges = 0
    leaving = _leaving(log, digests, dead, horizon)
    while together := list(islice(leaving, _AHEAD)):

        def read(
            place: int, together: list[tuple[LoggedFile, int]] = together
        ) -> tuple[LoggedBlock, BoolArray]:
            file, number = together[place]
            block = file.block(number)
            return block, dead.mask((file.digest, number), block)

        for block, is_dead in parallel(read, range(len(together))):
            add_live_degrees(block.u, block.v, block.weight, is_dead, degree)
            n_edges += is_dead.size - int(np.count_nonzero(is_dead))
            on_block()
    return ExpiredEdges(degree=degree, n_edges=n_edges)


def _leaving(
    log: ChangeLog, digests: Sequence[str], dead: DeadRows, horizon: int
) -> Iterator[tuple[LoggedFile, int]]:
    for digest in digests:
        buckets = log.buckets(digest, dead)
        leaving = np.flatnonzero((dead.horizon <= buckets) & (buckets < horizon)).tolist()
        if leaving:
            file = log.file(digest, dead)
            yield from ((file, number) for number in leaving)
