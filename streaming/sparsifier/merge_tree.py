"""Two sparsifiers of disjoint edge sets into one, and trees of these (section B.4).

Pure functions; who computes the parts, and where, is the caller's business.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, overload

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray, Int32Array, frozen
from peewit.solvers.row_ranges import Parallel
from peewit.streaming.edges.time_units import NEVER
from peewit.streaming.left_out import NO_ROWS
from peewit.streaming.sparsifier.degrees import is_whole, known_degree, sum_degrees
from peewit.streaming.sparsifier.node_resistances import NodeCards
from peewit.streaming.sparsifier.settings_and_state import (
    Records,
    SparsifierSettings,
    SparsifierState,
)
from peewit.streaming.sparsifier.sparsifier import is_full, resparsify

_T = TypeVar("_T")
_Weights = TypeVar("_Weights", Float32Array, FloatArray)


def _add(*numbers: Any) -> Any:
    return sum(numbers)


_COUNTERS: Final = (
    (
        (
            *("n_rows_seen", "n_blocks", "n_resparsifications", "n_failed_embeddings"),
            *("n_kept_last", "n_deletes", "n_removals", "n_struck", "n_dead", "n_unmatched"),
            *("n_repairs", "n_rebuilds", "n_unresolved", "n_unrepaired", "n_expired", "n_late"),
            "log_version",
        ),
        _add,
        0,
    ),
    (("n_nodes", "n_erased"), max, 0),
    (("watermark", "horizon", "latest"), max, NEVER),
    (("constant", "smallest_constant"), min, math.inf),
)
"""Counters of a state, how those of disjoint edge sets combine, and of no edges at all."""


def merge(
    a: SparsifierState,
    b: SparsifierState,
    settings: SparsifierSettings,
    *,
    cancelled: Callable[[], bool] | None = None,
    parallel: Parallel = map,
) -> SparsifierState:
    """Sparsifier of the union of two disjoint edge sets, resparsified when over the buffer cap.

    Seeds are equal and numbers of blocks differ: a record is known by seed, block and row, and one
    that stands for all of its pair by the pair and the last block of its share. The records of
    ``a`` come first.

    Notes
    -----
    Embedding: a part's resistances are never below those of the union (B5), so those of either part
    may score what arrives next, and edges between components of its graph are kept for certain. It
    is taken, whole, from the part whose embedded graph weighs more, since more weight means lower
    resistances; of two equal ones, from ``a``. The surplus is that of the same part; that of the
    other one, which counts by other cards, stays as it is. Degrees add up, and the next
    resparsification leans on them (B22).

    Coins: a record's coin in a round is a hash of (seed, round, record). The round after a merge is
    the sum of the rounds of the parts, hence later than any round that one of their records has
    met: from leaf to root no record meets a coin twice. Rounds of different leaves may share a
    number, as the records of one round do: the record tells their coins apart.
    """
    embedded = b if b.cards.total_degree > a.cards.total_degree else a
    merged = replace(
        embedded,
        **_combined([a, b])
        | {
            name: max(getattr(a, name), getattr(b, name))
            for name in ("n_blocks", "n_kept_last", "log_version", "n_resolved_files")
        },
        chunks=(*a.chunks, *b.chunks),
        degree=_merged_degree(a, b),
        runs=None if a.runs is None or b.runs is None else a.runs.joined(b.runs),
        struck_variance=_sum(a.struck_variance, b.struck_variance),
        lost=_sum(a.lost, b.lost),
        peak=_sum(a.peak, b.peak),
        torn=_concatenate(a.torn, b.torn),
        n_leaning=0 if _is_uneven(a) or _is_uneven(b) else embedded.n_leaning,
        n_struck_since_cards=a.n_struck_since_cards + b.n_struck_since_cards,
    )
    if is_full(merged, settings):
        return resparsify(merged, settings, cancelled=cancelled, parallel=parallel)
    return merged


def united(states: Collection[SparsifierState]) -> SparsifierState:
    """Buffers and counters of several relations together, without what belongs to the nodes.

    A single one stays as it is. Numbers of blocks and versions of logs add up, so that they grow
    whichever of them does.
    """
    if len(states) == 1:
        return next(iter(states))
    chunks = _Chained(tuple(state.chunks for state in states))
    return SparsifierState(**_combined(states) | {"chunks": chunks})


@dataclass(frozen=True, slots=True)
class _Chained(Sequence[Records]):
    """Chunks of several buffers one after the other; each is made when it is read."""

    buffers: tuple[Sequence[Records], ...]

    def __len__(self) -> int:
        return sum(map(len, self.buffers))

    @overload
    def __getitem__(self, index: int) -> Records: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Records]: ...
    def __getitem__(self, index: int | slice) -> Records | Sequence[Records]:
        if isinstance(index, slice):
            return [self[place] for place in range(len(self))[index]]
        place = range(len(self))[index]
        for buffer in self.buffers:
            if place < len(buffer):
                return buffer[place]
            place -= len(buffer)
        raise IndexError(index)


def _combined(states: Collection[SparsifierState]) -> dict[str, Any]:
    """Counters and bounds of disjoint edge sets together."""
    combined: dict[str, Any] = {"left_out": sum((state.left_out for state in states), NO_ROWS)}
    for names, combine, start in _COUNTERS:
        for name in names:
            combined[name] = combine(start, *(getattr(state, name) for state in states))
    return combined


def leaf(state: SparsifierState, *, first_block: int) -> SparsifierState:
    """State without records that scores as ``state`` does, to be merged with it in the end.

    Its embedding may score the leaf's edges, as what it has seen will be part of the union. No two
    leaves may share a block, which ``first_block`` numbers.
    """
    fresh = SparsifierState()
    return replace(
        state,
        chunks=(),
        surplus=None,
        degree=frozen(np.zeros(0)) if state.cards.n_nodes else None,
        runs=None,
        struck_variance=None,
        lost=None,
        peak=None,
        torn=None,
        n_deletes=0,
        n_removals=0,
        n_struck=0,
        n_struck_since_cards=0,
        n_unresolved=0,
        n_dead=0,
        n_unmatched=0,
        n_repairs=0,
        n_rebuilds=0,
        n_expired=0,
        n_late=0,
        n_unrepaired=0,
        n_blocks=first_block,
        n_rows_seen=0,
        left_out=NO_ROWS,
        n_resparsifications=0,
        smallest_constant=fresh.smallest_constant,
        n_failed_embeddings=0,
    )


def _sum(a: _Weights | None, b: _Weights | None) -> _Weights | None:
    if a is None or b is None:
        return a if b is None else b
    total = np.zeros(max(a.size, b.size), a.dtype)
    total[: a.size] = a
    total[: b.size] += b
    return frozen(total)


def _concatenate(a: Int32Array | None, b: Int32Array | None) -> Int32Array | None:
    if a is None or b is None:
        return a if b is None else b
    return frozen(np.concatenate([a, b], axis=1))


def _is_uneven(part: SparsifierState) -> bool:
    """Whether records of a part, whose embedding may be elsewhere, were thrown each by itself."""
    return bool(part.chunks) and part.degree is not None and part.n_leaning == 0


def _merged_degree(a: SparsifierState, b: SparsifierState) -> FloatArray | None:
    if a.degree is None and b.degree is None and is_whole(a) and is_whole(b):
        return None  # the records tell it
    return sum_degrees(known_degree(a), known_degree(b))


def without_embedding(state: SparsifierState) -> SparsifierState:
    """State without its embedding, so that it keeps all next edges; less to send if known."""
    return replace(state, cards=NodeCards.empty(), surplus=None)


def fold_tree(items: Sequence[_T], combine: Callable[[_T, _T], _T]) -> _T:
    """All items combined in a balanced tree: neighbors in pairs, then the pairs, and so on.

    The shape depends on the number of items alone, at least 1; ``combine`` takes the earlier item
    first.
    """
    if not items:
        raise ValueError("items must hold at least one, got none")
    level = list(items)
    while len(level) > 1:
        pairs = [combine(level[at], level[at + 1]) for at in range(0, len(level) - 1, 2)]
        level = pairs if len(level) % 2 == 0 else [*pairs, level[-1]]
    return level[0]
