"""Suffixes: a buffer from which edges leave by their time, with no log to repair it (B26).

A record of a bucket is thrown by its resistance in the edges of this bucket and of later ones, the
*suffix*: these are all there at every later time at which the record is, and edges that come only
lower a resistance. So what is left, whenever edges leave, was thrown for no less than what is due.

The price are records of old buckets that the present graph alone would not keep: buckets of equal
weight keep 1, 1/2, 1/3, ... of a sparsifier.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np

from peewit.solvers.arrays import BoolArray, Float32Array, FloatArray, Int32Array
from peewit.solvers.row_ranges import Parallel
from peewit.streaming.kernels.coins import add_degrees, lower_probabilities
from peewit.streaming.sparsifier.buffer_resistances import counted_resistances
from peewit.streaming.sparsifier.node_resistances import NodeCards
from peewit.streaming.sparsifier.runs import Runs
from peewit.streaming.sparsifier.sample_size import (
    expected_size,
    local_factor,
    sampling_constant,
)
from peewit.streaming.sparsifier.settings_and_state import (
    Records,
    SparsifierSettings,
    SparsifierState,
)
from peewit.streaming.sparsifier.sparsifier import LEANING_FACTOR, in_first_lane
from peewit.streaming.sparsifier.thinning import (
    counted_leverages,
    selected,
    spanning_forest,
    toss,
)

SUFFIX_GROWTH: Final = 2.0
"""A suffix that weighs so many times what the last one with cards did has cards of its own."""

MOST_KEPT: Final = 0.6
"""It has them, too, where a bucket would keep more than so many sparsifiers by those before."""

LEAST_SUFFIX: Final = 0.5
"""A suffix of fewer sparsifiers' records keeps them all."""


def forget(state: SparsifierState, horizon: int) -> SparsifierState:
    """State without the records of buckets before the first that lives.

    Nothing has to be repaired. The state's own horizon is for the caller to move, at the end of a
    file.

    Parameters
    ----------
    state : SparsifierState
        Counts degrees by bucket.
    horizon : int
        The first bucket that lives.
    """
    runs, known = state.runs, state.bucket_degrees
    if runs is None or known is None:
        raise ValueError("degrees must be counted by bucket to forget some, they are not")
    if not known.buckets or known.buckets[0] >= horizon:
        return state
    sizes = [chunk.n_records for chunk in state.chunks]
    stays = runs.marks(runs.buckets >= horizon, sizes)
    left = known.since(horizon)
    state = replace(
        state,
        chunks=tuple(
            chunk if marks.all() else chunk.where(marks)
            for chunk, marks in zip(state.chunks, stays, strict=True)
            if marks.any()
        ),
        runs=runs.kept(stays),
        bucket_degrees=left,
        degree=None if state.degree is None else left.total(state.n_nodes),
        n_dead=state.n_dead + sum(known.n_edges) - sum(left.n_edges),
        n_expired=state.n_expired + sum(known.n_edges) - sum(left.n_edges),
    )
    if state.cards.n_nodes and state.cards_bucket < horizon:  # they know edges that have left
        return replace(state, cards=NodeCards.empty(), surplus=None, n_leaning=0)
    return state


def resparsify_suffixes(
    state: SparsifierState,
    settings: SparsifierSettings,
    *,
    cancelled: Callable[[], bool] | None = None,
    parallel: Parallel = map,
) -> SparsifierState:
    """State whose records are thinned bucket by bucket, the newest first (B26).

    A spanning forest that prefers later buckets keeps its probabilities, so the components of what
    is left are those of the graph, whenever edges leave. Coins lean on the exact degrees of each
    suffix. Where an embedding does not converge, the one of a smaller suffix serves, and
    ``n_failed_embeddings`` counts it.

    Parameters
    ----------
    state : SparsifierState
        Counts degrees by bucket.
    settings : SparsifierSettings
        Of what is published; ``max_edges`` does not bind the buffer.
    cancelled, parallel
        As in `sparsifier.resparsify`.
    """
    suffix = _Suffix(state, replace(settings, max_edges=None), cancelled, parallel)
    for bucket, chunks in _newest_first(state):
        suffix.extend(bucket, chunks)
    return suffix.state()


@dataclass(slots=True)
class _First:
    """The cards of the smallest suffix, by which arriving edges are scored."""

    bucket: int
    cards: NodeCards
    surplus: Float32Array | None = None


class _Suffix:
    """What is kept of the last buckets, to which the one before them is added."""

    def __init__(
        self,
        state: SparsifierState,
        settings: SparsifierSettings,
        cancelled: Callable[[], bool] | None,
        parallel: Parallel,
    ) -> None:
        self._before, self._settings = state, settings
        self._cancelled, self._parallel = cancelled, parallel
        n_nodes = state.n_nodes
        self._constant = sampling_constant(settings, n_nodes)
        self._copies = settings.oversampling * self._constant
        self._factor = local_factor(settings, n_nodes)
        self._size = expected_size(settings, n_nodes)
        self._parent: Int32Array = np.arange(n_nodes, dtype=np.int32)
        self._degree: FloatArray = np.zeros(n_nodes)
        self._arrived: FloatArray = np.zeros(n_nodes)
        self._chunks: list[Records] = []
        self._on_forest: list[BoolArray] = []
        self._counts: list[tuple[int, int]] = []
        self._cards: NodeCards | None = None
        self._first: _First | None = None
        self._n_failed = 0

    def extend(self, bucket: int, chunks: list[Records]) -> None:
        """Add a bucket, which lies before those that are here."""
        known = self._before.bucket_degrees
        if known is None:
            raise ValueError("degrees must be counted by bucket, they are not")
        on_forest = spanning_forest(chunks, n_nodes=self._before.n_nodes, parent=self._parent)
        for chunk in chunks:
            add_degrees(*chunk.columns[:4], self._degree)
        self._arrived += known.of(bucket, self._arrived.size)
        lowered = self._lowered(bucket, chunks, on_forest)
        if self._cards is not None:
            over = (self._degree - self._arrived).astype(np.float32)  # (B22), of the suffix
            _, surplus = toss(
                chunks,
                lowered,
                self._cards,
                self._settings,
                copies=self._copies,
                coin_stream=2 * self._before.n_resparsifications + 1,
                surplus=over,
                parallel=self._parallel,
            )
            if self._first is not None and self._first.bucket == bucket:
                self._first.surplus = surplus
            for chunk, after in zip(chunks, lowered, strict=True):
                _move_degrees(chunk, after, self._degree)
        kept = [selected(*each) for each in zip(chunks, lowered, strict=True)]
        forest = [marked[after > 0.0] for marked, after in zip(on_forest, lowered, strict=True)]
        self._chunks.append(Records.concatenate(kept))
        self._on_forest.append(np.concatenate(forest))
        self._counts.append((bucket, self._chunks[-1].n_records))

    def state(self) -> SparsifierState:
        """The state of all buckets."""
        before, first = self._before, self._first
        n_kept = sum(chunk.n_records for chunk in self._chunks)
        has_dropped = n_kept < before.n_records
        surplus = None
        if first is not None and first.surplus is not None:
            surplus = in_first_lane(first.surplus)
        return replace(
            before,
            chunks=tuple(chunk for chunk in self._chunks if chunk.n_records),
            runs=Runs.of(
                [""] * len(self._counts),
                [count for _, count in self._counts],
                [bucket for bucket, _ in self._counts],
            ),
            cards=NodeCards.empty() if first is None else first.cards,
            cards_bucket=before.cards_bucket if first is None else first.bucket,
            surplus=surplus,
            degree=None
            if before.bucket_degrees is None
            else before.bucket_degrees.total(before.n_nodes),
            lost=None,
            n_resparsifications=before.n_resparsifications + 1,
            n_struck_since_cards=0,
            n_kept_last=n_kept,
            n_leaning=0 if surplus is None else int(LEANING_FACTOR * n_kept),
            n_failed_embeddings=before.n_failed_embeddings + self._n_failed,
            smallest_constant=min(before.smallest_constant, self._constant)
            if has_dropped
            else before.smallest_constant,
        )

    def _lowered(
        self, bucket: int, chunks: Sequence[Records], on_forest: Sequence[BoolArray]
    ) -> list[Float32Array]:
        """Probabilities by the cards of this suffix, or of a smaller one that does as well."""
        n_records = sum(chunk.n_records for chunk in (*self._chunks, *chunks))
        total = float(self._degree.sum())
        is_due = n_records > LEAST_SUFFIX * self._size
        if self._cards is not None:
            is_due = total > SUFFIX_GROWTH * self._cards.total_degree
            if not is_due:
                lowered, n_expected = self._scored(self._cards, chunks, on_forest)
                if n_expected <= MOST_KEPT * self._size:
                    return lowered
                is_due = True
        if is_due and (made := self._made(chunks, on_forest)) is not None:
            self._cards = made
            if self._first is None:
                self._first = _First(bucket, made)
        if self._cards is None:
            return [chunk.keep_probability.copy() for chunk in chunks]
        return self._scored(self._cards, chunks, on_forest)[0]

    def _made(self, chunks: Sequence[Records], on_forest: Sequence[BoolArray]) -> NodeCards | None:
        """Cards of the whole suffix; None where they do not converge."""
        made = counted_resistances(
            [*self._chunks, *chunks],
            [*self._on_forest, *on_forest],
            NodeCards.empty() if self._cards is None else self._cards,
            self._degree,
            self._settings,
            self._constant,
            self._factor,
            was_struck=self._before.n_struck_since_cards > 0,
            cancelled=self._cancelled,
            parallel=self._parallel,
        )
        self._n_failed += made is None
        return made

    def _scored(
        self, cards: NodeCards, chunks: Sequence[Records], on_forest: Sequence[BoolArray]
    ) -> tuple[list[Float32Array], float]:
        """Probabilities by some cards, and how many records are to be expected."""

        def lower(number: int) -> tuple[Float32Array, float]:
            chunk = chunks[number]
            scores = counted_leverages(
                chunk, cards=cards, settings=self._settings, factor=self._factor
            )
            n_expected = lower_probabilities(
                chunk.keep_probability, scores, on_forest[number], self._copies, scores
            )
            return scores, n_expected

        found = list(self._parallel(lower, range(len(chunks))))
        return [lowered for lowered, _ in found], sum(n_expected for _, n_expected in found)


def _newest_first(state: SparsifierState) -> list[tuple[int, list[Records]]]:
    """Parts of the buffer by bucket, in each by arrival; they share its memory."""
    runs = state.runs
    if runs is None:
        raise ValueError("runs of the buffer must be counted, they are not")
    stops = np.cumsum([0, *(chunk.n_records for chunk in state.chunks)])
    cuts = np.unique(np.concatenate([np.cumsum([0, *runs.counts]), stops]))
    of_run = np.searchsorted(np.cumsum(runs.counts), cuts[:-1], side="right")
    of_chunk = np.searchsorted(stops, cuts[:-1], side="right") - 1
    found: dict[int, list[Records]] = {}
    for (start, stop), run, number in zip(
        pairwise(cuts.tolist()), of_run.tolist(), of_chunk.tolist(), strict=True
    ):
        first = int(stops[number])
        part = state.chunks[number].part(start - first, stop - first)
        found.setdefault(int(runs.buckets[run]), []).append(part)
    return sorted(found.items(), reverse=True)


def _move_degrees(chunk: Records, lowered: Float32Array, degree: FloatArray) -> None:
    """Have the records of a chunk count with their new probabilities, in place."""
    add_degrees(chunk.u, chunk.v, -chunk.weight, chunk.keep_probability, degree)
    kept = selected(chunk, lowered)
    add_degrees(*kept.columns[:4], degree)
