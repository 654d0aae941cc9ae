"""A cycle of the labels before serves a system with some more, as well as a new one would."""

import numpy as np
import pytest

from peewit.solvers.graph import Graph
from peewit.solvers.laplacian.multigrid.amended_multigrid import MAX_AMENDED, AmendedCycle
from peewit.solvers.laplacian.multigrid.hierarchy import Hierarchy
from peewit.solvers.laplacian.multigrid.multigrid import Multigrid
from peewit.solvers.laplacian.shifted_laplacian import ShiftedLaplacian
from peewit.solvers.laplacian.solver import LaplacianSolver
from peewit.solvers.status import Status
from tests.solvers.laplacian.multigrid.test_multigrid import clouds

N_NODES = 8_000
N_BEFORE = 40


@pytest.fixture(scope="module")
def graph() -> Graph:
    return clouds(N_NODES)


@pytest.fixture(scope="module")
def hierarchy(graph: Graph) -> Hierarchy:
    return Hierarchy.of_graph(graph)


def shift_of(n_labels: int, hold: float = 1.0) -> np.ndarray:
    """Of the first labels in a fixed order."""
    shift = np.zeros(N_NODES)
    shift[np.random.default_rng(2).permutation(N_NODES)[:n_labels]] = hold
    return shift


def solver_of(graph: Graph, hierarchy: Hierarchy, n_labels: int, **settings) -> LaplacianSolver:
    hold = settings.pop("hold", 1.0)
    settings = {"scale": 0.01, "zero_mean": True, "preconditioner": "multigrid"} | settings
    return LaplacianSolver(graph, shift=shift_of(n_labels, hold), hierarchy=hierarchy, **settings)


def random_rhs(n_columns: int = 3) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((N_NODES, n_columns))


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [{"zero_mean": True}, {"zero_mean": False}, {"zero_mean": False, "scale": 1.0, "hold": 1e10}],
)
@pytest.mark.parametrize("n_columns", [1, 5])
def test_more_labels_take_no_more_steps_than_with_a_new_cycle(
    graph: Graph, hierarchy: Hierarchy, settings, n_columns: int
) -> None:
    rhs = random_rhs(n_columns)
    if "hold" in settings:
        rhs[shift_of(N_BEFORE + MAX_AMENDED) > 0] = 0.0
    last = solver_of(graph, hierarchy, N_BEFORE, **settings)
    last.solve(rhs)
    cycle = last.cycle
    for n_labels in (N_BEFORE + 1, N_BEFORE + 4, N_BEFORE + MAX_AMENDED):
        expected = solver_of(graph, hierarchy, n_labels, **settings).solve(rhs)
        later = solver_of(graph, hierarchy, n_labels, cycle_before=last.cycle, **settings)
        found = later.solve(rhs)
        assert found.status is Status.CONVERGED
        assert found.residual.max() <= later.rtol
        assert found.n_iter <= 1.1 * expected.n_iter + 1
        np.testing.assert_allclose(found.x, expected.x, atol=1e-6 * np.abs(expected.x).max())
        assert later.cycle.cycle is cycle
        last = later


def test_amending_is_the_inverse_that_woodbury_gives(graph: Graph, hierarchy: Hierarchy) -> None:
    before, after = (
        ShiftedLaplacian.of_graph(
            hierarchy.graph, scale=1.0, shift=shift, zero_mean=False, dtype=np.float64
        )
        for shift in (shift_of(5), shift_of(5) + shift_of(8, 3.0))
    )
    amended = AmendedCycle.of(Multigrid(before, hierarchy), after)
    assert isinstance(amended, AmendedCycle)
    residual = random_rhs(2)
    out, plain = np.empty_like(residual), np.empty_like(residual)
    amended.apply(residual, out)
    # B^-1 z + E D E^T z = r, so the plain cycle gives z for r - E D E^T z
    amended.cycle.apply(residual - (after.shift - before.shift)[:, None] * out, plain)
    np.testing.assert_allclose(plain, out, atol=1e-5 * np.abs(out).max())
    left, right = residual[:, 0] @ out[:, 1], residual[:, 1] @ out[:, 0]
    assert left == pytest.approx(right, rel=1e-4, abs=1e-4 * np.abs(out).max())


def test_the_same_labels_again_need_nothing_new(graph: Graph, hierarchy: Hierarchy) -> None:
    last = solver_of(graph, hierarchy, N_BEFORE)
    last.solve(random_rhs())
    later = solver_of(graph, hierarchy, N_BEFORE, cycle_before=last.cycle)
    later.solve(random_rhs())
    assert later.cycle is last.cycle


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"n_labels": N_BEFORE + MAX_AMENDED + 1},
        {"n_labels": N_BEFORE - 1},
        {"scale": 0.02},
        {"zero_mean": False},
    ],
)
def test_a_cycle_of_another_system_is_not_used(graph: Graph, hierarchy: Hierarchy, changes) -> None:
    last = solver_of(graph, hierarchy, N_BEFORE)
    last.solve(random_rhs())
    settings = {"n_labels": N_BEFORE} | changes
    later = solver_of(graph, hierarchy, cycle_before=last.cycle, **settings)
    assert later.solve(random_rhs()).status is Status.CONVERGED
    assert isinstance(later.cycle, Multigrid)
    assert later.cycle is not last.cycle


def test_a_cycle_of_another_graph_is_not_used(graph: Graph, hierarchy: Hierarchy) -> None:
    other = clouds(N_NODES, seed=1)
    last = solver_of(graph, hierarchy, N_BEFORE)
    last.solve(random_rhs())
    later = solver_of(other, Hierarchy.of_graph(other), N_BEFORE, cycle_before=last.cycle)
    assert later.solve(random_rhs()).status is Status.CONVERGED
    assert later.cycle is not last.cycle
