"""Folds over the log of a graph: its living edges, thrown anew or handed over.

The spans are those of edge passes (`edge_folds`), over every block of the log, dead or not, so that
a block has the same position wherever it is read. Dead rows travel with a span, an eighth of a byte
for each row of blocks that have some: workers must not look for them on the disk, where a version
is written again after a crash and may differ.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from peewit.solvers.arrays import BoolArray
from peewit.solvers.row_ranges import Parallel
from peewit.streaming.cluster.ordered_folds import GROUP, Advance, FoldExecutor
from peewit.streaming.edges.blocks import EdgeBlock
from peewit.streaming.log.change_log import ChangeLog
from peewit.streaming.log.live_edges import live_edges
from peewit.streaming.log.logged_files import BatchKey, DeadRows, LiveFile, LoggedBlock
from peewit.streaming.passes.edge_folds import OpenedFile, Span, cut_spans
from peewit.streaming.sparsifier.merge_tree import leaf, merge, without_embedding
from peewit.streaming.sparsifier.repair import thrown
from peewit.streaming.sparsifier.runs import EMPTY_RUNS
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings, SparsifierState

LiveBlocks: TypeAlias = list[tuple[str, EdgeBlock]]
"""Digests of files, and edges of their blocks."""


def by_batches(files: Sequence[LiveFile], n_edges: int) -> list[tuple[OpenedFile, int]]:
    """Files of a log with ``n_edges`` edges together, each with its share by number of batches."""
    n_batches = max(sum(file.n_batches for file in files), 1)
    return [(file, n_edges * file.n_batches // n_batches) for file in files]


def log_spans(
    log: ChangeLog, digests: Sequence[str], dead: DeadRows, *, n_edges: int, n_nodes: int
) -> list[Span]:
    """Spans of some files of a log, which hold about ``n_edges`` edges."""
    files = [dead.without(log.file(digest, dead)) for digest in digests]
    return cut_spans(by_batches(files, n_edges), n_nodes)


def read_span(
    span: Span, advance: Advance
) -> Iterator[tuple[int, BatchKey, LoggedBlock, BoolArray]]:
    """Position, key and content of every block of a span of a log, and its mask of dead rows."""
    for chunk in span.chunks:
        if not isinstance(chunk.file, LiveFile):
            raise TypeError(f"spans must be of a log, got {type(chunk.file).__name__}")
        file = chunk.file.file
        key, block = (file.digest, chunk.number), file.block(chunk.number)
        yield chunk.position, key, block, chunk.file.dead.mask(key, block)
        advance(chunk.n_rows)


def live_at(
    executor: FoldExecutor, spans: Sequence[Span], at: BoolArray, on_block: Callable[[], None]
) -> Iterator[tuple[str, EdgeBlock]]:
    """Edges that live at marked nodes: what `live_blocks` yields, found by an executor.

    A few spans are searched at a time, so that no more than they hold is in memory.
    """
    for first in range(0, len(spans), GROUP):
        some = spans[first : first + GROUP]
        yield from executor.fold(_LiveEdgesFold(), some, at, lambda _n_rows: on_block())


def rebuilt(
    executor: FoldExecutor,
    spans: Sequence[Span],
    state: SparsifierState,
    settings: SparsifierSettings,
    *,
    group_blocks: int,
    on_block: Callable[[], None],
    cancelled: Callable[[], bool] | None = None,
    parallel: Parallel = map,
) -> SparsifierState:
    """State into which all living edges were thrown, each span scored by the cards of ``state``.

    ``state`` comes without records and ``spans`` from `log_spans`; other arguments are as for
    `repair`. The executor sparsifies spans and merges them in order; the result does not depend on
    it. ``on_block`` is called in any thread as blocks are read; what it raises ends the work.
    """
    runs = None if state.runs is None else EMPTY_RUNS
    start = replace(leaf(state, first_block=state.n_blocks), runs=runs)
    fold = _SparsifierFold(settings=settings, group_blocks=group_blocks)
    root = executor.fold(fold, spans, start, lambda _n_rows: on_block())
    state = merge(state, root, settings, cancelled=cancelled, parallel=parallel)
    return replace(state, n_leaning=0)  # what each span leaves uneven adds up


@dataclass(frozen=True, slots=True)
class _LiveEdgesFold:
    """Fold of the edges that live at marked nodes."""

    def partial(self, item: Span, shared: BoolArray, advance: Advance) -> LiveBlocks:
        blocks = (
            (key[0], live_edges(block, is_dead, shared))
            for _, key, block, is_dead in read_span(item, advance)
        )
        return [(digest, edges) for digest, edges in blocks if edges is not None]

    def merge(self, a: LiveBlocks, b: LiveBlocks) -> LiveBlocks:
        return a + b


@dataclass(frozen=True, slots=True, kw_only=True)
class _SparsifierFold:
    """Fold of the sparsifiers of living edges, as shares of a wave are (`dask_ingest`)."""

    settings: SparsifierSettings
    group_blocks: int

    def partial(self, item: Span, shared: SparsifierState, advance: Advance) -> SparsifierState:
        """Sparsifier of a span, whose blocks are numbered by their positions in the log."""
        first = item.chunks[0].position if item.chunks else 0
        blocks = (
            (key[0], live_edges(block, is_dead))
            for _, key, block, is_dead in read_span(item, advance)
        )
        state = thrown(
            replace(shared, n_blocks=shared.n_blocks + first),
            self.settings,
            ((digest, edges) for digest, edges in blocks if edges is not None),
            group_blocks=self.group_blocks,
        )
        return without_embedding(state) if state.cards is shared.cards else state

    def merge(self, a: SparsifierState, b: SparsifierState) -> SparsifierState:
        return merge(a, b, self.settings)
