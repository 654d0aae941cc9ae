"""Systems of a full graph, solved by products alone, against dense inverses of that graph."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import UNWATCHED, ProgressReport
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.unsparsified_system import (
    FullDegrees,
    FullSolution,
    FullSystem,
    OtherComponents,
    solve_full,
)
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.auto.columns_of_all_edges import ColumnsOfAllEdges
from peewit.solvers.models.auto.density_arm import Densities
from peewit.solvers.models.auto.poisson_arm import Potentials
from peewit.solvers.models.auto.preparation import AllEdges
from peewit.solvers.models.contract.refinable_model import FullGraph, Refinable, refine
from peewit.solvers.models.harmonic.harmonic import HFS, StableHFS
from peewit.solvers.models.left_out.label_groups import LabelGroups
from peewit.solvers.models.poisson.poisson import Poisson
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status
from tests.reference.harmonic import hfs_scores, stable_hfs_scores
from tests.reference.laplacian import dense_laplacian, shifted_inverse
from tests.strategies import labelings

RTOL = 1e-11


def dense_graph(n_nodes: int = 120, n_components: int = 3, seed: int = 0) -> Graph:
    """Equal random components with parallel edges."""
    rng = np.random.default_rng(seed)
    size = n_nodes // n_components
    ends = rng.integers(0, size, (2, 12 * n_nodes))
    part = rng.integers(0, n_components, ends.shape[1]) * size
    path = np.flatnonzero(np.arange(n_nodes - 1) % size != size - 1)
    u, v = np.append(ends[0] + part, path), np.append(ends[1] + part, path + 1)
    return Graph.from_edges(u, v, rng.uniform(0.5, 2.0, u.size), n_nodes=n_nodes)


def thinned(graph: Graph, share: float, seed: int = 1) -> Graph:
    """A part of the edges with the weight of all, and what keeps the components together."""
    u, v, weight = graph.edges()
    rng = np.random.default_rng(seed)
    kept = rng.random(u.size) < share
    forest = _forest(u, v, graph.n_nodes)
    probability = np.where(forest, 1.0, share)
    kept |= forest
    return Graph.from_edges(
        u[kept], v[kept], weight[kept] / probability[kept], n_nodes=graph.n_nodes
    )


def _forest(u: np.ndarray, v: np.ndarray, n_nodes: int) -> np.ndarray:
    """Which edges a spanning forest takes, one after another."""
    root = np.arange(n_nodes)
    taken = np.zeros(u.size, dtype=bool)
    for edge, (first, second) in enumerate(zip(u, v, strict=True)):
        if root[first] != root[second]:
            root[root == root[second]] = root[first]
            taken[edge] = True
    return taken


def system_of(sparsifier: Graph, rhs: FloatArray, **changes) -> FullSystem:
    values = {
        "sparsifier": sparsifier,
        "scale": 1.0,
        "shift": np.zeros(sparsifier.n_nodes),
        "zero_mean": False,
        "rhs": rhs,
        "start": np.zeros((sparsifier.n_nodes, 0)),
        "rtol": RTOL,
    }
    return FullSystem(**values | changes)


def solved(full: Graph, system: FullSystem, **changes) -> FullSolution:
    """Solve, and check the count of passes."""
    n_products = 0

    def product(block: FloatArray) -> FloatArray:
        nonlocal n_products
        n_products += 1
        return full.laplacian_product(block)

    found = solve_full(system, product, **{"max_passes": 300} | changes)
    assert found.n_passes == n_products
    return found


@pytest.mark.parametrize("share", [0.03, 0.2, 1.0])
@pytest.mark.parametrize("zero_mean", [False, True])
@pytest.mark.parametrize("has_shift", [False, True])
def test_solutions_are_those_of_the_full_graph(
    share: float, zero_mean: bool, has_shift: bool
) -> None:
    full = dense_graph()
    rng = np.random.default_rng(2)
    shift = np.where(rng.random(full.n_nodes) < 0.1, 1.0, 0.0) * has_shift
    rhs = rng.standard_normal((full.n_nodes, 4))
    system = system_of(thinned(full, share), rhs, scale=0.3, shift=shift, zero_mean=zero_mean)
    found = solved(full, system)
    inverse = shifted_inverse(full, scale=0.3, shift=shift, zero_mean=zero_mean)
    expected = inverse @ rhs
    assert found.status is Status.CONVERGED
    assert found.residual.max() <= RTOL
    np.testing.assert_allclose(found.x, expected, atol=1e-8 * np.abs(expected).max())


@pytest.mark.slow
@settings(max_examples=8)  # three models each, to the last digits
@given(st.data())
def test_models_refined_are_the_models_of_the_full_graph(data) -> None:
    full = dense_graph(60, data.draw(st.integers(1, 3)), seed=data.draw(st.integers(0, 99)))
    sparsifier = thinned(full, data.draw(st.sampled_from([0.05, 0.3])))
    labels = data.draw(labelings(full.n_nodes))
    penalty = data.draw(st.sampled_from([1e-6, 1e-2, 1.0, 1e3]))
    models: list[tuple[Refinable, Callable[..., FloatArray], float]] = [
        (StableHFS(graph_penalty=penalty, rtol=1e-12), stable_hfs_scores, penalty),
        (HFS(graph_penalty=penalty, rtol=1e-12), hfs_scores, penalty),
        (HFS(graph_penalty=0.0, rtol=1e-12), hfs_scores, 0.0),
    ]
    for model, reference, used in models:
        found = refined(model, full, sparsifier, labels)
        expected = reference(full, labels, used)
        assert found.stats["refined"] == 1
        np.testing.assert_allclose(found.scores, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.slow
@settings(max_examples=8)
@given(st.data())
def test_poisson_refined_is_poisson_of_the_full_graph(data) -> None:
    full = dense_graph(60, data.draw(st.integers(1, 3)), seed=data.draw(st.integers(0, 99)))
    sparsifier = thinned(full, data.draw(st.sampled_from([0.05, 0.3])))
    labels = data.draw(labelings(full.n_nodes))
    for balance in ("none", "labels"):
        model = Poisson(rtol=1e-12, class_balance=balance)
        found = refined(model, full, sparsifier, labels)
        exact = model.solve(model.prepare(full), labels)
        largest = np.abs(exact.scores).max()
        # a constant that all classes of a node share decides nothing
        apart, expected = (
            scores - scores.mean(axis=1, keepdims=True) for scores in (found.scores, exact.scores)
        )
        np.testing.assert_allclose(apart, expected, atol=1e-6 * largest)
        assert found.stats["refined"] == 1
        assert found.stats.get("share_miss") == exact.stats.get("share_miss")


@pytest.mark.slow
@settings(max_examples=5)
@given(st.data())
def test_what_auto_refines_is_that_of_the_full_graph(data) -> None:
    full = dense_graph(60, data.draw(st.integers(1, 3)), seed=data.draw(st.integers(0, 99)))
    sparsifier = thinned(full, data.draw(st.sampled_from([0.05, 0.3])))
    labels = data.draw(labelings(full.n_nodes))
    model, groups = Auto(rtol=1e-10), LabelGroups.of(labels, full.n_nodes)
    passes = FullGraph(
        product=full.laplacian_product, degrees=lambda: degrees_of(full), max_passes=300
    )
    kept = model.prepare(sparsifier)
    columns = ColumnsOfAllEdges.of(
        kept, model._potentials(kept, groups, UNWATCHED), degrees_of(full), UNWATCHED
    )
    found = columns.read(
        passes.solve(replace(columns.potentials, rtol=model.rtol)),
        passes.solve(columns.densities),
        AllEdges(passes=passes, degrees=columns.degrees),
    )
    exact = model.prepare(full)
    for arm in (
        lambda prepared: (
            Potentials.of(
                prepared, groups, UNWATCHED, rtol=model.rtol, max_iter=model.max_iter
            ).scores
        ),
        lambda prepared: Densities.of(prepared, groups, UNWATCHED).scores,
    ):
        expected = arm(exact)
        size = max(float(np.abs(expected).max()), 1e-6)  # all labels may cancel each other
        np.testing.assert_allclose(arm(found), expected, atol=2e-3 * size)
    assert passes.status is Status.CONVERGED


def test_auto_refined_on_its_own_graph_stays() -> None:
    full = dense_graph(n_components=1)
    labels = Labels.from_pairs(np.arange(24), np.arange(24) % 2)
    model = Auto(rtol=1e-8)
    expected = model.solve(model.prepare(full), labels)
    found = refined(model, full, full, labels)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-3)
    assert found.stats["refined"] == 1
    assert found.stats["n_iter"] == expected.stats["n_iter"]
    assert found.stats["belief"] == expected.stats["belief"]


def test_auto_refined_is_cancelled_between_its_systems() -> None:
    full = dense_graph()
    labels = Labels.from_pairs(np.arange(24), np.arange(24) % 2)
    model = Auto()
    has_degrees = []

    def degrees() -> FullDegrees:
        has_degrees.append(True)
        return degrees_of(full)

    prepared = model.prepare(thinned(full, 0.3))
    solution = model.solve(prepared, labels)
    found = refine(
        model,
        prepared,
        labels,
        solution,
        full.laplacian_product,
        degrees,
        max_passes=300,
        cancelled=lambda: bool(has_degrees),
    )
    assert (found.status, has_degrees) == (Status.CANCELLED, [True])


def degrees_of(graph: Graph) -> FullDegrees:
    return FullDegrees(weight=graph.degree, n_edges=np.diff(graph.adjacency.indptr))


def refined(
    model: Refinable, full: Graph, sparsifier: Graph, labels: Labels, **changes
) -> Solution:
    prepared = model.prepare(sparsifier)
    solution = model.solve(prepared, labels)
    values = {"max_passes": 300} | changes
    product = full.laplacian_product
    return refine(model, prepared, labels, solution, product, lambda: degrees_of(full), **values)


def test_the_chosen_penalty_stays_and_changes_are_counted() -> None:
    full = dense_graph(n_components=1)
    sparsifier, labels = thinned(full, 0.02), Labels.from_pairs([0, 1, 50, 51], [0, 0, 1, 1])
    model = StableHFS(rtol=1e-10)
    before = model.solve(model.prepare(sparsifier), labels)
    after = refined(model, full, sparsifier, labels)
    assert after.stats["graph_penalty"] == before.stats["graph_penalty"]
    assert isinstance(after.stats["graph_penalty"], float)
    expected = stable_hfs_scores(full, labels, after.stats["graph_penalty"])
    np.testing.assert_allclose(after.scores, expected, atol=1e-6 * np.abs(expected).max())
    n_changed = np.count_nonzero(before.scores.argmax(axis=1) != expected.argmax(axis=1))
    assert after.stats["n_changed"] == n_changed > 0
    assert after.status is Status.CONVERGED


def test_a_graph_that_is_its_own_sparsifier_takes_one_step_and_one_look() -> None:
    full = dense_graph()
    labels = Labels.from_pairs([0, 1, 45, 46, 90, 91], [0, 1, 2, 0, 1, 2])
    found = refined(StableHFS(graph_penalty=1.0, rtol=1e-8), full, full, labels)
    assert found.stats["passes"] == 2


def test_dependent_columns_cost_nothing_and_zero_columns_stay_zero() -> None:
    full = dense_graph(n_components=1)
    sparsifier = thinned(full, 0.1)
    column = np.random.default_rng(0).standard_normal((full.n_nodes, 1))
    alone = solved(full, system_of(sparsifier, column))
    widths = []

    def product(block: FloatArray) -> FloatArray:
        widths.append(block.shape[1])
        return full.laplacian_product(block)

    rhs = np.hstack([column, -2 * column, 0 * column])
    found = solve_full(system_of(sparsifier, rhs), product, max_passes=300)
    assert found.n_passes == alone.n_passes
    assert max(widths[1:-1]) <= 6  # one residual, its two directions and the probes of a pass
    assert not found.x[:, 2].any()
    assert found.residual[2] == 0.0


def test_more_columns_need_no_more_passes() -> None:
    full = dense_graph(200, 1)
    sparsifier = thinned(full, 0.2)
    rhs = np.random.default_rng(0).standard_normal((full.n_nodes, 3))
    together = solved(full, system_of(sparsifier, rhs)).n_passes
    alone = [solved(full, system_of(sparsifier, rhs[:, [each]])).n_passes for each in range(3)]
    assert together <= max(alone)


def test_degrees_of_the_full_graph_help_where_a_tree_is_left() -> None:
    n_nodes = 400
    u, v = np.triu_indices(n_nodes, 1)
    full = Graph.from_edges(u, v, np.ones(u.size), n_nodes=n_nodes)
    path = np.arange(n_nodes - 1)
    tree = Graph.from_edges(path, path + 1, np.full(path.size, n_nodes / 2), n_nodes=n_nodes)
    rhs = np.random.default_rng(0).standard_normal((n_nodes, 2))
    # The path alone has a condition number of about n^2, which takes hundreds of passes.
    assert solved(full, system_of(tree, rhs)).n_passes < 20


def test_pass_limit_is_told_with_the_true_residual() -> None:
    full = dense_graph()
    rhs = np.random.default_rng(0).standard_normal((full.n_nodes, 2))
    inverse = shifted_inverse(full, scale=1.0, shift=np.zeros(full.n_nodes), zero_mean=False)
    inside = dense_laplacian(full) @ inverse @ rhs
    worst = []
    for max_passes in (2, 4, 6):
        found = solved(full, system_of(thinned(full, 0.05), rhs), max_passes=max_passes)
        assert (found.status, found.n_passes) == (Status.MAX_ITER, max_passes)
        missed = np.linalg.norm(inside - dense_laplacian(full) @ found.x, axis=0)
        np.testing.assert_allclose(found.residual, missed / np.linalg.norm(inside, axis=0))
        worst.append(found.residual.max())
    assert worst[0] > worst[1] > worst[2]


def test_a_residual_out_of_reach_stagnates() -> None:
    full = dense_graph()
    rhs = np.random.default_rng(0).standard_normal((full.n_nodes, 2))
    found = solved(full, system_of(thinned(full, 0.3), rhs, rtol=1e-30))
    assert found.status is Status.STAGNATED
    assert found.residual.max() < 1e-12


def test_other_components_are_refused() -> None:
    full, parts = dense_graph(n_components=1), dense_graph(n_components=3)
    rhs = np.zeros((full.n_nodes, 1))
    with pytest.raises(OtherComponents, match="must have the components of the full graph"):
        solved(full, system_of(parts, rhs))


@pytest.mark.parametrize("stop_after", [0, 1, 3, 10])
def test_cancelled_runs_say_so(stop_after: int) -> None:
    full = dense_graph()
    n_asked = 0

    def cancelled() -> bool:
        nonlocal n_asked
        n_asked += 1
        return n_asked > stop_after

    rhs = np.random.default_rng(0).standard_normal((full.n_nodes, 2))
    found = solved(full, system_of(thinned(full, 0.05), rhs), cancelled=cancelled)
    assert found.status is Status.CANCELLED


def test_passes_are_reported_with_the_share_of_digits() -> None:
    full = dense_graph()
    seen: list[ProgressReport] = []
    rhs = np.random.default_rng(0).standard_normal((full.n_nodes, 2))
    found = solved(full, system_of(thinned(full, 0.2), rhs), progress=seen.append)
    assert [report.n_iter for report in seen] == list(range(1, found.n_passes + 1))
    assert seen[-1].fraction == 1.0
    assert 0.0 < seen[1].fraction < 1.0


def test_too_few_passes_are_refused() -> None:
    full = dense_graph()
    with pytest.raises(ValueError, match="max_passes must be at least 2, got 1"):
        solved(full, system_of(full, np.zeros((full.n_nodes, 1))), max_passes=1)
    with pytest.raises(ValueError, match=r"rtol must lie in \(0, 1\), got 1.0"):
        solved(full, system_of(full, np.zeros((full.n_nodes, 1)), rtol=1.0))
