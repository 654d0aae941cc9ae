"""Coins of arriving edges, all scored by the cards of the last resparsification (B13), no solve.

Coins lean while the buffer holds little more than the last resparsification kept: the next one has
little room to even out what they leave. After that coins are independent, at half the cost, and the
next resparsification leans on the exact degrees of the stream (B22).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from peewit.solvers.arrays import (
    AnyArray,
    BoolArray,
    Float32Array,
    FloatArray,
    UInt8Array,
    frozen,
    frozen_all,
)
from peewit.solvers.row_ranges import Parallel
from peewit.streaming.edges.blocks import EdgeBlock
from peewit.streaming.kernels.coins import sample_independent, sample_leaning, take_arrivals
from peewit.streaming.left_out import NO_ROWS, LeftOut
from peewit.streaming.sparsifier.sample_size import present_constant
from peewit.streaming.sparsifier.settings_and_state import (
    Records,
    SparsifierSettings,
    SparsifierState,
)

ARRIVAL_LANES = 4
"""Lanes of coins, each with surpluses of its own: as many threads can throw them, and degrees stray
in proportion."""

MOST_DAMAGE = 0.3
"""A node that lost this share of its weight since the cards keeps all edges until the next ones:
its resistances may be so much larger than they say."""

_FINEST_SHIFT = 19
"""Least bits of a float32 that its class leaves out: four of the mantissa stay."""

_N_CLASSES = 256


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arrivals:
    """Records kept of a group of arriving blocks.

    Attributes
    ----------
    surplus : (ARRIVAL_LANES, n_embedded) float32 or None
        `SparsifierState.surplus` after them; None where coins did not lean.
    degree : (n_reached,) float64 or None
        Weight that arrived at each node, up to the last one reached; None where every edge is kept
        for want of cards.
    """

    records: list[Records]  # one entry for each block
    buckets: list[int]  # one for each block
    surplus: Float32Array | None
    degree: FloatArray | None
    n_edges: int  # rows of the blocks
    left_out: LeftOut  # of these
    n_thrown: int  # edges whose coins were thrown

    @property
    def n_kept(self) -> int:
        """Records that stay."""
        return sum(records.n_records for records in self.records)

    @property
    def was_tossed(self) -> bool:
        """Whether any edge was kept, or not kept, by chance."""
        return self.n_kept < self.n_thrown or any(
            bool(np.any(records.keep_probability < 1.0)) for records in self.records
        )


def score(
    state: SparsifierState,
    settings: SparsifierSettings,
    blocks: Iterable[EdgeBlock],
    *,
    parallel: Parallel = map,
) -> Arrivals:
    """Records kept of a group of arriving blocks, all scored by the cards of ``state`` (B13).

    Block n is thrown in lane ``n % ARRIVAL_LANES``, after the blocks before it in that lane; the
    first one has the number ``state.n_blocks``. As many blocks as there are lanes are held at a
    time. The result does not depend on ``parallel``.
    """
    lanes = _Lanes(state, settings)
    records: list[Records] = []
    buckets: list[int] = []
    n_edges = n_thrown = 0
    left_out = NO_ROWS
    remaining = iter(blocks)
    while together := list(islice(remaining, ARRIVAL_LANES)):
        lanes.reach(together)
        first = state.n_blocks + len(records)

        def task(offset: int, together: list[EdgeBlock] = together, first: int = first) -> Records:
            return lanes.throw(together[offset], first + offset)

        records += parallel(task, range(len(together)))
        buckets += [block.bucket for block in together]
        n_edges += sum(block.n_rows for block in together)
        left_out = sum((block.left_out for block in together), left_out)
        n_thrown += sum(block.u.size for block in together)
    return Arrivals(
        records=records,
        buckets=buckets,
        surplus=lanes.surplus,
        degree=lanes.degree,
        n_edges=n_edges,
        left_out=left_out,
        n_thrown=n_thrown,
    )


def copies_by_class(copies: Float32Array) -> tuple[UInt8Array, Float32Array]:
    """Class of every node, and (256,) float32 upper bounds of ``copies`` in each class.

    A class is the exponent of a number and the first bits of its mantissa, counted from the lowest
    one: a sixteenth of an octave or less where numbers span 15 octaves, else so much more. The last
    class is infinite.
    """
    is_finite = np.isfinite(copies)
    bits = copies.view(np.uint32)
    low, high = (0, 0) if not is_finite.any() else (bits[is_finite].min(), bits[is_finite].max())
    shift = _FINEST_SHIFT
    while (high >> shift) - (low >> shift) > _N_CLASSES - 2:
        shift += 1
    first = low >> shift
    classes = np.where(is_finite, (bits >> shift) - first, _N_CLASSES - 1).astype(np.uint8)
    infinite = np.float32(np.inf).view(np.uint32) >> shift
    above = np.minimum(np.arange(1, _N_CLASSES + 1) + int(first), int(infinite)) << shift
    bounds = above.astype(np.uint32).view(np.float32)
    bounds[-1] = np.inf
    return classes, bounds


def _damaged_nodes(state: SparsifierState) -> BoolArray:
    """Mask of the nodes that lost so much to deletes that the cards say little of them."""
    lost = np.zeros(0) if state.lost is None else state.lost[: state.cards.n_nodes]
    left = np.zeros(lost.size)
    if state.degree is not None:
        known = state.degree[: lost.size]
        left[: known.size] = np.maximum(known, 0.0)
    return np.asarray(lost > MOST_DAMAGE * (lost + left))


def _leans(state: SparsifierState, settings: SparsifierSettings) -> bool:
    """Whether coins lean; without degrees nothing else tells what earlier coins left."""
    if settings.coins == "independent" or state.cards.n_nodes == 0:
        return False
    return state.degree is None or state.n_records <= state.n_leaning


class _Lanes:
    """Node tables of the kernels, and what each lane of coins adds to them."""

    def __init__(self, state: SparsifierState, settings: SparsifierSettings) -> None:
        self._cards = cards = state.cards
        self._seed = np.uint64(settings.seed)
        self._constant = settings.oversampling * present_constant(state, settings)
        self._takes_all = cards.n_nodes == 0 and state.degree is None
        copies = np.float32(self._constant) * cards.local_resistance
        copies[copies == 0.0] = np.inf
        copies[: len(damaged := _damaged_nodes(state))][damaged] = np.inf
        self._nodes: FloatArray | None = None
        self._degree: FloatArray = np.zeros((ARRIVAL_LANES, 0))
        if _leans(state, settings):
            self._nodes = np.zeros((ARRIVAL_LANES, cards.n_nodes, 2))
            columns = self._nodes.view(np.float32)
            if state.surplus is not None:
                columns[:, :, 2] = state.surplus
            columns[:, :, 3] = copies
        else:
            self._classes, self._class_copies = copies_by_class(copies)

    @property
    def degree(self) -> FloatArray | None:
        """(n_reached,) float64 weight that arrived; None where it is not counted."""
        if self._takes_all:
            return None
        lanes = self._degree if self._nodes is None else self._nodes[:, :, 0]
        return np.asarray(lanes.sum(axis=0))

    @property
    def surplus(self) -> Float32Array | None:
        """(ARRIVAL_LANES, n_embedded) float32, None where coins do not lean."""
        if self._nodes is None:
            return None
        surplus = self._nodes.view(np.float32)[:, : self._cards.n_nodes, 2]
        return frozen(np.ascontiguousarray(surplus))

    def reach(self, blocks: list[EdgeBlock]) -> None:
        """Make room for the nodes of some blocks; nodes without a card keep every edge."""
        if self._takes_all:
            return
        n_nodes = 1 + max(
            int(ends.max(initial=-1)) for block in blocks for ends in (block.u, block.v)
        )
        if self._nodes is None:
            self._degree = _longer(self._degree, n_nodes, axis=1)
            self._classes = _longer(self._classes, n_nodes, filling=_N_CLASSES - 1)
        elif n_nodes > self._nodes.shape[1]:
            n_before = self._nodes.shape[1]
            self._nodes = _longer(self._nodes, n_nodes, axis=1)
            self._nodes.view(np.float32)[:, n_before:, 3] = np.inf

    def throw(self, block: EdgeBlock, number: int) -> Records:
        """Records kept of block ``number``."""
        records = Records.uninitialized(block.u.size)
        edges = frozen_all(block.u, block.v, block.weight)
        with np.errstate(over="ignore"):  # the hash counts modulo 2^64
            last: tuple[Any, ...] = self._seed, np.uint64(2 * number), *records.columns
            known = self._node_tables(number % ARRIVAL_LANES)
            if self._takes_all:
                n_kept = take_arrivals(*edges, *last)
            elif self._nodes is None:
                n_kept = sample_independent(*edges, *known, *last)
            else:
                n_kept = sample_leaning(*edges, *known, *last)
        return records if n_kept == records.n_records else records.part(0, n_kept).copy()

    def _node_tables(self, lane: int) -> tuple[Any, ...]:
        """What the kernels score by: node tables, those of a lane, and cards."""
        cards = self._cards
        if self._nodes is None:
            tables: tuple[Any, ...] = self._classes, self._class_copies, self._degree[lane]
        else:
            tables = self._nodes[lane], self._nodes[lane].view(np.float32)
        card_array, card_ints = frozen_all(cards.array, cards.views[2])
        scales = cards.squared_scale, cards.is_local, self._constant
        return *tables, card_array, card_ints, *scales


def _longer(array: AnyArray, length: int, *, axis: int = 0, filling: int = 0) -> AnyArray:
    """The array, one axis padded to a length where it is shorter."""
    missing = length - array.shape[axis]
    if missing <= 0:
        return array
    widths = [(0, missing if number == axis else 0) for number in range(array.ndim)]
    return np.pad(array, widths, constant_values=filling)
