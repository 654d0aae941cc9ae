"""Ingest on a dask.distributed cluster: workers sparsify shares, shares merge in a fixed tree.

- Tasks are pure functions of (file, parts, block numbers, start). A share that died with its worker
  is computed again, anywhere; one worker and ten give the same sparsifier, bit for bit.
- The shares of one *wave* start from one state and merge in one balanced tree, on the workers; the
  root is merged into the stream's state here. A wave is the unit of checkpoints. It depends on the
  parts of the file and on the state, so a stream that goes on after a kill meets the same waves.
- Shares score with the stream's last embedding. Its resistances are not below those of the union
  (B5), and a share that had to find its own would keep O(n log n) edges however short it is.
- Node ids that are not dense are numbered here, in the order of the parts, from the distinct ids
  that each share sends: by first appearance, as without a cluster. An index sharded by hash would
  number in another order; one found in a pass before would read everything twice.
- Workers need only the files (or the staging directory, for copies of remote ones), under the same
  path.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from peewit.solvers.arrays import Int32Array
from peewit.solvers.row_ranges import Parallel
from peewit.streaming.cluster.dask_folds import DaskExecutor
from peewit.streaming.cluster.sparsified_shares import (
    Share,
    ShareSettings,
    code_share,
    cut_shares,
    distinct_ids,
    first_row_of,
    merge_shares,
    sparsify_coded,
    sparsify_dense,
)
from peewit.streaming.edges.blocks import BadEdges, excerpt
from peewit.streaming.edges.parts import Part, StagedFile
from peewit.streaming.nodes.index import DenseNodes, NodeIndex, Nodes
from peewit.streaming.sparsifier.merge_tree import fold_tree, leaf, merge, without_embedding
from peewit.streaming.sparsifier.node_resistances import NodeCards
from peewit.streaming.sparsifier.runs import Runs
from peewit.streaming.sparsifier.settings_and_state import SparsifierState
from peewit.streaming.sparsifier.sparsifier import buffer_cap

if TYPE_CHECKING:
    from distributed import Future

_T = TypeVar("_T")


class Cluster(DaskExecutor):
    """Connection to a dask scheduler whose workers sparsify shares, and compute folds over the log.

    ``wave_shares`` start from one state and merge in one tree; results depend on their number.
    ``raise_if_stopped`` is called while waiting; what it raises ends the wait and drops the work.
    Raises ``ClusterError`` where the scheduler does not answer.
    """

    def __init__(
        self,
        scheduler: str,
        settings: ShareSettings,
        *,
        wave_shares: int,
        raise_if_stopped: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(scheduler)
        self._settings = settings
        self._wave_shares = wave_shares
        self._raise_if_stopped = raise_if_stopped
        self._cards: tuple[NodeCards, Future[Any]] | None = None

    def close(self) -> None:
        """Leave the cluster; tasks that nobody waits for are dropped."""
        self._cards = None
        super().close()

    def next_wave(
        self, state: SparsifierState, staged: StagedFile, *, next_part: int
    ) -> list[tuple[Part, ...]]:
        """Shares of a file to absorb next, from ``next_part`` on; none at its end.

        Shares are cut from the whole file, whatever ``next_part``. While the stream has no
        embedding a wave holds no more of them than fill its buffer once: one embedding is found
        sooner than one for each share.
        """
        share_blocks = min(
            self._settings.group_blocks, max(1, len(staged.parts) // self._wave_shares)
        )
        room = math.inf
        if state.cards.n_nodes == 0:
            room = buffer_cap(state, self._settings.sparsifier) - state.n_records
        wave: list[tuple[Part, ...]] = []
        n_rows = 0
        for share in cut_shares(staged.parts, share_blocks=share_blocks):
            rest = tuple(part for part in share if part.number >= next_part)
            if not rest:
                continue
            if len(wave) == self._wave_shares or (wave and n_rows >= room):
                break
            wave.append(rest)
            n_rows += sum(part.n_rows for part in rest)
        return wave

    def absorb_wave(
        self,
        state: SparsifierState,
        nodes: Nodes,
        staged: StagedFile,
        wave: Sequence[tuple[Part, ...]],
        *,
        cancelled: Callable[[], bool] | None = None,
        parallel: Parallel = map,
    ) -> SparsifierState:
        """State after one wave of a file; new ids are added to ``nodes``.

        Where the resparsification here was ``cancelled``, the caller must drop the result.

        `BadEdges` tells the first rule that the wave breaks, in the order of the rows.
        """
        with self.translate_faults():
            root = self._root(state, nodes, _shares(staged, wave, state.n_blocks))
        if isinstance(nodes, DenseNodes):
            nodes.refresh(root.n_nodes)
        settings = self._settings.sparsifier
        if state.runs is not None:  # a wave is of one file
            root = replace(root, runs=Runs.of([staged.digest], [root.n_records]))
        return merge(state, root, settings, cancelled=cancelled, parallel=parallel)

    def _root(
        self, state: SparsifierState, nodes: Nodes, shares: Sequence[Share]
    ) -> SparsifierState:
        """The shares' sparsifiers merged on the workers, without what is here already."""
        cards = self._cards_of(state)
        start = without_embedding(leaf(state, first_block=0))
        if isinstance(nodes, DenseNodes):
            leaves = [
                self.submit(
                    sparsify_dense,
                    share,
                    self._settings,
                    replace(start, n_blocks=share.first_block),
                    cards,
                )
                for share in shares
            ]
        else:
            leaves = self._number_shares(start, nodes, shares, cards)
        settings = self._settings.sparsifier
        root = fold_tree(leaves, lambda a, b: self.submit(merge_shares, a, b, settings))
        del leaves
        result: SparsifierState | BadEdges = self._result(root)
        return _good(result)

    def _number_shares(
        self, start: SparsifierState, nodes: NodeIndex, shares: Sequence[Share], cards: Future[Any]
    ) -> list[Future[Any]]:
        """Sparsified shares, ids numbered in order; each begins when its numbers are known."""
        coded = [self.submit(code_share, share, self._settings) for share in shares]
        distinct = [self.submit(distinct_ids, future) for future in coded]
        leaves = []
        for at, share in enumerate(shares):
            even, odd = _good(self._result(distinct[at]))
            numbers = self._number_ids(nodes, share, even, odd)
            sparsified = self.submit(
                sparsify_coded,
                coded[at],
                numbers,
                nodes.n_nodes,
                self._settings,
                replace(start, n_blocks=share.first_block),
                cards,
            )
            leaves.append(sparsified)
        return leaves

    def _number_ids(self, nodes: NodeIndex, share: Share, even: Any, odd: Any) -> Int32Array:
        try:
            u, v = nodes.map(even, odd)
        except BadEdges as error:
            # The row counts pairs of distinct ids; the reader wants the row of the file.
            at = error.row or 0
            node = even[at] if excerpt(even[at].as_py()) == error.value else odd[at]
            row = self._result(self.submit(first_row_of, share, self._settings, node))
            raise BadEdges(
                error.reason, argument=error.argument, row=row, value=error.value
            ) from error
        numbers: Int32Array = np.empty(2 * len(u), np.int32)
        numbers[0::2], numbers[1::2] = u, v
        return numbers

    def _cards_of(self, state: SparsifierState) -> Future[Any]:
        """The embedding on the cluster, sent anew when it has changed."""
        if self._cards is None or self._cards[0] is not state.cards:
            self._cards = (state.cards, self.keep(state.cards))
        return self._cards[1]

    def _result(self, future: Future[Any]) -> Any:
        return self.result(future, self._raise_if_stopped)


def _shares(staged: StagedFile, wave: Sequence[tuple[Part, ...]], first_block: int) -> list[Share]:
    """Shares that carry no more of the file than tasks need."""
    bare = staged.without_parts()
    shares = []
    for parts in wave:
        shares.append(Share(staged=bare, parts=parts, first_block=first_block))
        first_block += len(parts)
    return shares


def _good(result: _T | BadEdges) -> _T:
    if isinstance(result, BadEdges):
        raise result
    return result
