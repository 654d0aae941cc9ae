"""Folds in a fixed order: partial results merge in one tree, whoever computes them, and when.

Context: sums of floats depend on their order, answers must not depend on threads or workers.
Decision: items merge in groups of eight, each from left to right, then the groups from left to
right; the number of items alone decides the tree. Consequence: whoever holds a group may merge it,
and a process that goes through the items in order holds two sums beside those it works on, where a
binary tree would make it hold six.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from typing import Final, Protocol, TypeAlias, TypeVar

from peewit.streaming.edges.reader import read_ahead

GROUP: Final = 8
"""Items that merge first."""

MAX_ITEMS: Final = GROUP * GROUP
"""Most items of a fold."""

Advance: TypeAlias = Callable[[int], None]
"""Called with the rows that are done, 0 at a mere look; may raise, which ends the fold."""


class Item(Protocol):
    """What a partial result is computed from."""

    @property
    def n_rows(self) -> int:
        """Rows: how much work it is."""


_T = TypeVar("_T")
_ItemT = TypeVar("_ItemT", bound=Item)
_ItemT_contra = TypeVar("_ItemT_contra", bound=Item, contravariant=True)
_SharedT = TypeVar("_SharedT")
_SharedT_contra = TypeVar("_SharedT_contra", contravariant=True)
_PartialT = TypeVar("_PartialT")


class Fold(Protocol[_ItemT_contra, _SharedT_contra, _PartialT]):
    """What to compute from each item, and how partial results merge; both pure functions."""

    def partial(self, item: _ItemT_contra, shared: _SharedT_contra, advance: Advance) -> _PartialT:
        """Partial result of one item; ``shared`` is the same for all."""

    def merge(self, a: _PartialT, b: _PartialT) -> _PartialT:
        """Result of the items of both, those of ``a`` before those of ``b``."""


class FoldExecutor(Protocol):
    """Where partial results are computed."""

    def fold(
        self,
        fold: Fold[_ItemT, _SharedT, _PartialT],
        items: Sequence[_ItemT],
        shared: _SharedT,
        advance: Advance,
    ) -> _PartialT:
        """Result of 1 to ``MAX_ITEMS`` items: the same bits from every executor."""


class ThreadExecutor:
    """Computes partial results in threads of this process.

    ``n_threads`` partial results at a time are computed or wait to be merged.
    """

    def __init__(self, n_threads: int) -> None:
        self._n_threads = n_threads

    def fold(
        self,
        fold: Fold[_ItemT, _SharedT, _PartialT],
        items: Sequence[_ItemT],
        shared: _SharedT,
        advance: Advance,
    ) -> _PartialT:
        """See `FoldExecutor.fold`."""
        tasks = (partial(fold.partial, item, shared, advance) for item in items)
        n_threads = self._n_threads
        running = read_ahead(tasks, n_threads, thread_name="fold", n_pending=n_threads)
        with closing(running) as partials:
            return merge_in_order(partials, fold.merge)


def merge_in_order(partials: Iterable[_T], merge: Callable[[_T, _T], _T]) -> _T:
    """All partial results in one, merged in the fixed order as they come.

    Merging whole groups of them by themselves first gives the same.
    """
    remaining = iter(partials)
    total = _merge_all(islice(remaining, GROUP), merge)
    if total is None:
        raise ValueError("partials must hold at least one, got none")
    while (group := _merge_all(islice(remaining, GROUP), merge)) is not None:
        total = merge(total, group)
        del group  # before the next one is made
    return total


def _merge_all(partials: Iterator[_T], merge: Callable[[_T, _T], _T]) -> _T | None:
    """Some partial results from left to right, None where there are none.

    `functools.reduce` would hold what it merged last until it has merged the next.
    """
    result = next(partials, None)
    for part in partials:
        assert result is not None  # noqa: S101 - there was one before it
        result = merge(result, part)
        del part
    return result
