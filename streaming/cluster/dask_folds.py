"""Folds on a dask.distributed cluster: workers compute partial results and merge them.

One result comes home, however many items there are. An item or a whole group of them is a task, and
merges have the order of `ordered_folds`. The number of items decides which worker computes what,
never what comes out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from peewit.streaming.cluster.connection import Connection
from peewit.streaming.cluster.ordered_folds import GROUP, Advance, Fold, Item, merge_in_order

if TYPE_CHECKING:
    from distributed import Future

_TASKS_PER_THREAD = 2
"""Groups are tasks where they make so many for every thread of the workers, else items are."""

_ItemT = TypeVar("_ItemT", bound=Item)
_SharedT = TypeVar("_SharedT")
_PartialT = TypeVar("_PartialT")


class DaskExecutor(Connection):
    """Computes partial results on the workers of a dask scheduler; parameters as of `Connection`.

    Items must name files by paths that workers see, too.
    """

    def fold(
        self,
        fold: Fold[_ItemT, _SharedT, _PartialT],
        items: Sequence[_ItemT],
        shared: _SharedT,
        advance: Advance,
    ) -> _PartialT:
        """See `FoldExecutor.fold`; rows count as done when their task is.

        Raises ``ClusterError`` where the scheduler or all workers are lost, workers died of a task
        again and again, or they do not see a file.
        """
        with self.translate_faults():
            threads = [
                address for address, number in sorted(self.threads().items()) for _ in range(number)
            ]
            n_groups = -(-len(items) // GROUP)
            size = GROUP if n_groups >= _TASKS_PER_THREAD * len(threads) else 1
            tasks = [items[at : at + size] for at in range(0, len(items), size)]
            sent = self.keep(shared)
            running: list[tuple[Future[Any], int]] = []
            near: dict[object, list[str]] = {}

            def begin(where: list[str], priority: int, *call: Any) -> Future[Any]:
                """Begin a task on one of some workers, or elsewhere where they are gone."""
                future = self.submit(
                    *call, workers=where or None, allow_other_workers=bool(where), priority=priority
                )
                near[future.key] = where
                return future

            def begin_tasks() -> Iterator[Future[Any]]:
                for number, task in enumerate(tasks):
                    # neighbors on one worker, and in the next fold on the same one, which may
                    # still have the files in memory; after all merges that can be done
                    where = threads[number * len(threads) // len(tasks) :][:1]
                    future = begin(where, -1 - number, _fold_here, fold, task, sent)
                    running.append((future, sum(item.n_rows for item in task)))
                    yield future

            def merge(a: Future[Any], b: Future[Any]) -> Future[Any]:
                """Merge where the later one is, and what follows it: the sum of all moves on."""
                return begin(near[b.key], 0, fold.merge, a, b)

            def look() -> None:
                """Count tasks that are done, and let go of what has been merged."""
                for entry in [entry for entry in running if entry[0].done()]:
                    running.remove(entry)
                    advance(entry[1])
                advance(0)

            root = merge_in_order(begin_tasks(), merge)
            result: _PartialT = self.result(root, look)
            look()
            return result


def _fold_here(
    fold: Fold[_ItemT, _SharedT, _PartialT], items: Sequence[_ItemT], shared: _SharedT
) -> _PartialT:
    """Partial result of some items of one group, or of one item."""
    return merge_in_order((fold.partial(item, shared, _ignore) for item in items), fold.merge)


def _ignore(_n_rows: int) -> None:
    """Nobody waits here: the client counts tasks, and drops those it wants no more."""
