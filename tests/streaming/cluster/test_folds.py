"""Folds of toy items: one order for threads and workers, however many, killed or stopped."""

import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from peewit.solvers.arrays import FloatArray
from peewit.streaming.cluster.cluster_error import ClusterError
from peewit.streaming.cluster.dask_folds import DaskExecutor
from peewit.streaming.cluster.ordered_folds import (
    GROUP,
    MAX_ITEMS,
    Advance,
    ThreadExecutor,
    merge_in_order,
)
from tests.streaming.clusters import cluster_of, scheduler_process

N_COLUMNS = 50


@dataclass(frozen=True)
class Seed:
    """An item."""

    seed: int
    n_rows: int = 3


@dataclass(frozen=True)
class Sum:
    """Random numbers of very different sizes, whose sums show every change of the order."""

    def partial(self, item: Seed, shared: FloatArray, advance: Advance) -> FloatArray:
        rng = np.random.default_rng(item.seed)
        numbers = rng.standard_normal(N_COLUMNS) * 10.0 ** rng.integers(-8, 8, N_COLUMNS)
        advance(item.n_rows)
        return shared * numbers

    def merge(self, a: FloatArray, b: FloatArray) -> FloatArray:
        return a + b


@dataclass(frozen=True)
class KilledOnce(Sum):
    """Kills the process that computes item 1 or the first merge, unless one has died of it."""

    marker: Path
    of_merge: bool

    def partial(self, item: Seed, shared: FloatArray, advance: Advance) -> FloatArray:
        if not self.of_merge and item.seed == 1:
            self._die()
        return super().partial(item, shared, advance)

    def merge(self, a: FloatArray, b: FloatArray) -> FloatArray:
        if self.of_merge:
            self._die()
        return super().merge(a, b)

    def _die(self) -> None:
        if not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Endless(Sum):
    """Is not done before the test is."""

    def partial(self, item: Seed, shared: FloatArray, advance: Advance) -> FloatArray:
        Event().wait(600)
        return super().partial(item, shared, advance)


@dataclass(frozen=True)
class Missing(Sum):
    """Wants a file."""

    path: str

    def partial(self, item: Seed, shared: FloatArray, advance: Advance) -> FloatArray:
        raise FileNotFoundError(2, "No such file or directory", self.path)


SHARED = np.linspace(0.1, 1.0, N_COLUMNS)


def seeds(n_items: int) -> list[Seed]:
    return [Seed(seed) for seed in range(n_items)]


def ignore(_n_rows: int) -> None:
    """Nobody counts."""


def in_groups(partials: Sequence[FloatArray]) -> FloatArray:
    """The order in plain words: eight from left to right, then those from left to right."""
    groups = [partials[at : at + 8] for at in range(0, len(partials), 8)]
    return reduce(np.add, [reduce(np.add, group) for group in groups])


def expected(n_items: int) -> FloatArray:
    return in_groups([Sum().partial(item, SHARED, ignore) for item in seeds(n_items)])


@pytest.fixture(scope="module")
def executors(processes: None) -> Iterator[list[DaskExecutor]]:
    """Of one worker, and of two."""
    with (
        cluster_of(1) as one,
        cluster_of(2) as two,
        DaskExecutor(one.scheduler_address) as of_one,
        DaskExecutor(two.scheduler_address) as of_two,
    ):
        yield [of_one, of_two]


@pytest.mark.parametrize("n_items", [1, 2, GROUP, GROUP + 1, 40, MAX_ITEMS])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_threads_merge_in_the_order_of_the_groups(n_items: int, n_threads: int) -> None:
    found = ThreadExecutor(n_threads).fold(Sum(), seeds(n_items), SHARED, ignore)
    assert np.array_equal(found, expected(n_items))


def test_the_order_shows_in_the_sums() -> None:
    partials = [Sum().partial(item, SHARED, ignore) for item in seeds(MAX_ITEMS)]
    assert not np.array_equal(reduce(np.add, partials), expected(MAX_ITEMS))


@pytest.mark.parametrize("n_items", [1, 11, GROUP**2 - 3, MAX_ITEMS])
def test_whole_groups_may_be_merged_elsewhere(n_items: int) -> None:
    partials = [Sum().partial(item, SHARED, ignore) for item in seeds(n_items)]
    groups = [partials[at : at + GROUP] for at in range(0, n_items, GROUP)]
    merged = [merge_in_order(group, np.add) for group in groups]
    assert np.array_equal(merge_in_order(merged, np.add), expected(n_items))


def test_threads_hold_no_more_results_than_they_were_given() -> None:
    held: list[int] = []
    living = 0

    class Counted:
        def __init__(self) -> None:
            nonlocal living
            living += 1
            held.append(living)

        def __del__(self) -> None:
            nonlocal living
            living -= 1

    class Fold:
        def partial(self, item: Seed, shared: None, advance: Advance) -> Counted:
            return Counted()

        def merge(self, a: Counted, b: Counted) -> Counted:
            return Counted()

    ThreadExecutor(1).fold(Fold(), seeds(MAX_ITEMS), None, ignore)
    assert max(held) <= 4  # of all groups, of this group, the next of it, and what merges two


@pytest.mark.parametrize("n_items", [1, 7, 20, MAX_ITEMS])
def test_one_worker_and_two_give_the_bits_of_threads(
    executors: list[DaskExecutor], n_items: int
) -> None:
    for executor in executors:
        done: list[int] = []
        found = executor.fold(Sum(), seeds(n_items), SHARED, done.append)
        assert np.array_equal(found, expected(n_items))
        assert sum(done) == 3 * n_items


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("of_merge", [False, True])
@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_worker_that_dies_at_work_harms_nothing(
    tmp_path: Path, n_workers: int, of_merge: bool
) -> None:
    fold = KilledOnce(tmp_path / "marker", of_merge)
    with cluster_of(n_workers) as cluster, DaskExecutor(cluster.scheduler_address) as executor:
        found = executor.fold(fold, seeds(20), SHARED, ignore)
    assert fold.marker.exists()
    assert np.array_equal(found, expected(20))


def test_who_asks_to_stop_does_not_wait_and_may_begin_again(executors: list[DaskExecutor]) -> None:
    class Stopped(Exception):
        pass

    def stop(_n_rows: int) -> None:
        raise Stopped

    for executor in executors:
        with pytest.raises(Stopped):
            executor.fold(Sum(), seeds(MAX_ITEMS), SHARED, stop)
        assert np.array_equal(executor.fold(Sum(), seeds(9), SHARED, ignore), expected(9))


def test_a_file_that_only_this_process_sees_is_named_with_the_rule(
    executors: list[DaskExecutor], tmp_path: Path
) -> None:
    path = tmp_path / "edges.parquet"
    with pytest.raises(FileNotFoundError, match=r"edges\.parquet"):  # nobody has it
        executors[0].fold(Missing(str(path)), seeds(3), SHARED, ignore)
    path.touch()
    with pytest.raises(ClusterError, match=rf"dask workers must see {path}, which this process"):
        executors[0].fold(Missing(str(path)), seeds(3), SHARED, ignore)


@pytest.mark.usefixtures("processes")
def test_a_scheduler_that_is_gone_is_told() -> None:
    with scheduler_process() as (scheduler, address), DaskExecutor(address) as executor:
        assert np.array_equal(executor.fold(Sum(), seeds(9), SHARED, ignore), expected(9))
        scheduler.kill()
        scheduler.wait(timeout=30)
        with pytest.raises(ClusterError, match=f"the dask scheduler {address} is lost"):
            executor.fold(Sum(), seeds(9), SHARED, ignore)


@pytest.mark.usefixtures("processes")
def test_a_scheduler_that_goes_in_the_middle_is_told() -> None:
    with scheduler_process() as (scheduler, address), DaskExecutor(address) as executor:

        def kill(_n_rows: int) -> None:
            scheduler.kill()
            scheduler.wait(timeout=30)

        with pytest.raises(ClusterError, match=f"the dask scheduler {address} is lost"):
            executor.fold(Endless(), seeds(2), SHARED, kill)
