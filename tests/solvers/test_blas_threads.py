"""One thread of the BLAS inside a solve, and as many as before after it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from peewit.solvers.blas_threads import one_blas_thread
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import ProgressReport
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.solver import LaplacianSolver
from peewit.solvers.models.catalogue import CATALOGUE
from tests.contracts.test_models import communities, some_labels


def numbers_of_threads() -> set[int]:
    """Of the BLAS libraries whose number holds for the process, not for one of its threads."""
    return {
        each["num_threads"]
        for each in threadpool_info()
        if each["user_api"] == "blas" and each.get("threading_layer") != "openmp"
    }


@pytest.fixture(autouse=True)
def caller() -> Iterator[None]:
    """A caller who has given each library of the BLAS three threads."""
    assert (np.ones((2, 2)) @ np.ones(2) == 2.0).all()  # which loads one
    with threadpool_limits(3, user_api="blas"):
        assert numbers_of_threads() == {3}
        yield
        assert numbers_of_threads() == {3}


def test_nested_scopes_end_with_the_outermost() -> None:
    with one_blas_thread:
        with one_blas_thread:
            assert numbers_of_threads() == {1}
        assert numbers_of_threads() == {1}
    assert numbers_of_threads() == {3}


def test_an_error_ends_a_scope() -> None:
    @one_blas_thread
    def fail() -> None:
        assert numbers_of_threads() == {1}
        raise RuntimeError("expected")

    with pytest.raises(RuntimeError, match="expected"):
        fail()


def test_the_last_of_several_threads_puts_the_number_back() -> None:
    first_is_inside, first_may_leave, first_has_left = Event(), Event(), Event()

    def first() -> None:
        with one_blas_thread:
            first_is_inside.set()
            assert first_may_leave.wait(30)
        first_has_left.set()

    def second() -> None:
        assert first_is_inside.wait(30)
        with one_blas_thread:
            first_may_leave.set()
            assert first_has_left.wait(30)
            assert numbers_of_threads() == {1}
        assert numbers_of_threads() == {3}

    with ThreadPoolExecutor(2) as pool:
        for result in [pool.submit(first), pool.submit(second)]:
            result.result()


def test_what_the_caller_sets_meanwhile_stays() -> None:
    with ThreadPoolExecutor(1) as pool:
        with one_blas_thread:
            pool.submit(lambda: threadpool_limits(2, user_api="blas")).result()
            with one_blas_thread:
                assert numbers_of_threads() == {1}
        assert numbers_of_threads() == {2}
        with one_blas_thread:
            pool.submit(lambda: threadpool_limits(3, user_api="blas")).result()
        assert numbers_of_threads() == {3}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["auto", "filtered-ridge", "hfs", "lapsvm"])  # each `prepare`
def test_a_model_prepares_and_solves_with_one_thread(name: str) -> None:
    seen: list[set[int]] = []

    def parallel(task, numbers):
        seen.append(numbers_of_threads())
        return map(task, numbers)

    def note(_report: ProgressReport) -> None:
        seen.append(numbers_of_threads())

    graph, classes = communities()
    model = CATALOGUE[name]()
    labels = some_labels(classes)
    prepared = model.prepare(graph, parallel=parallel)
    assert numbers_of_threads() == {3}
    model.solve(prepared, labels, progress=note)
    assert numbers_of_threads() == {3}
    fold = np.arange(labels.n_labeled) % 3
    model.solve_without(prepared, labels, fold, 0, progress=note)
    assert seen
    assert all(each == {1} for each in seen)


def test_a_linear_system_is_solved_with_one_thread() -> None:
    seen: list[set[int]] = []
    graph, _ = communities()
    rhs = np.random.default_rng(0).standard_normal(graph.n_nodes)
    solver = LaplacianSolver(graph, preconditioner="jacobi")
    solver.solve(rhs, project=True, progress=lambda _: seen.append(numbers_of_threads()))
    assert seen
    assert all(each == {1} for each in seen)


def test_a_refused_solve_leaves_the_threads_alone() -> None:
    model = CATALOGUE["auto"]()
    prepared = model.prepare(Graph.from_edges([0, 1], [1, 2], [1.0, 1.0], n_nodes=3))
    with pytest.raises(ValueError, match="one class only"):
        model.solve(prepared, Labels.from_pairs([0], ["only"]))
