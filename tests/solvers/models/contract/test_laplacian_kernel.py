"""Answers in kernel form are those of the linear system, and say how exact they are."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.solver import LaplacianSolver
from peewit.solvers.models.contract import laplacian_kernel
from peewit.solvers.models.contract.graph_model import PreparedGraph
from peewit.solvers.models.contract.laplacian_kernel import LabeledKernel
from peewit.solvers.models.harmonic.harmonic import HFS, StableHFS
from peewit.solvers.models.harmonic.leave_one_out import choose_penalty
from peewit.solvers.models.poisson.poisson import Poisson
from peewit.solvers.status import Status
from tests.data_sets import digits_graph, draw_per_class
from tests.reference.laplacian import dense_laplacian, pseudo_inverse
from tests.strategies import problems


def kernel_of(graph: Graph, **settings) -> LabeledKernel:
    return LabeledKernel(solver=LaplacianSolver(graph), **settings)


def column(kernel: LabeledKernel, node: int) -> np.ndarray:
    return kernel.rows[kernel.slots[np.searchsorted(kernel.nodes, node)]]


def digits(per_class: int, seed: int = 0) -> tuple[Graph, Labels, np.ndarray]:
    graph, truth = digits_graph()
    nodes = draw_per_class(truth, per_class, seed=seed)
    return graph, Labels.from_pairs(nodes, truth[nodes]), truth


def with_random_labels(labels: Labels, truth: np.ndarray, n_more: int, seed: int) -> Labels:
    unlabeled = np.setdiff1d(np.arange(truth.size), labels.nodes)
    nodes = np.union1d(labels.nodes, np.random.default_rng(seed).choice(unlabeled, n_more, False))
    return Labels.from_pairs(nodes, truth[nodes])


@given(problem=problems(max_nodes=15))
def test_columns_are_those_of_the_pseudo_inverse(problem) -> None:
    graph, labels = problem
    kernel = kernel_of(graph, rtol=1e-10)
    entries, status = kernel.between(labels.nodes, None, None)
    inverse = pseudo_inverse(dense_laplacian(graph))
    scale = np.abs(inverse).max()
    assert status is Status.CONVERGED
    for node in labels.nodes:
        np.testing.assert_allclose(column(kernel, node), inverse[:, node], atol=1e-6 * scale)
    np.testing.assert_allclose(
        entries, inverse[np.ix_(labels.nodes, labels.nodes)], atol=1e-6 * scale
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "graph_penalty"),
    [(HFS, 0.0), (HFS, 1e-3), (HFS, 1.0), (StableHFS, 1e-3), (StableHFS, 1.0)],
)
def test_the_kernel_form_is_the_solution_of_the_system(model, graph_penalty) -> None:
    graph, labels, _ = digits(3)
    chosen = model(graph_penalty=graph_penalty, rtol=1e-9)
    direct = PreparedGraph(graph=graph, kernel=kernel_of(graph, column_bytes=0))
    by_system = chosen.solve(direct, labels)
    known = PreparedGraph(graph=graph, kernel=kernel_of(graph, rtol=1e-11))
    known.kernel.between(labels.nodes, None, None)
    by_kernel = chosen.solve(known, labels)
    assert by_system.stats["preconditioner"] != "kernel"
    assert by_kernel.stats["preconditioner"] == "kernel"
    assert by_kernel.stats["n_iter"] == 0
    assert by_kernel.stats["residual"] <= 1e-9
    np.testing.assert_allclose(by_kernel.scores, by_system.scores, atol=1e-6)


@given(problem=problems(max_nodes=15), kappa=st.sampled_from([1e-3, 0.5, 20.0]))
def test_the_residual_is_no_larger_than_is_said(problem, kappa) -> None:
    graph, labels = problem
    kernel = kernel_of(graph, rtol=1e-3)
    kernel.between(labels.nodes, None, None)
    targets = labels.targets() - labels.targets().mean(axis=0)
    made = kernel.harmonic(labels.nodes, targets, kappa, zero_mean=False)
    assert made is not None
    laplacian = dense_laplacian(graph)
    right = np.zeros_like(made.values)
    right[labels.nodes] = targets
    on_labels = np.zeros(graph.n_nodes)
    on_labels[labels.nodes] = 1.0
    missed = right - (kappa * laplacian + np.diag(on_labels)) @ made.values
    bound = kappa * made.residual + made.off_labels
    assert (np.linalg.norm(missed, axis=0) <= bound * (1 + 1e-9) + 1e-9).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [StableHFS(), StableHFS(graph_penalty=0.3), HFS(), HFS(graph_penalty=0)]
)
def test_changed_labels_give_what_a_fresh_fit_gives(model) -> None:
    graph, labels, truth = digits(5)
    rng = np.random.default_rng(1)
    prepared = model.prepare(graph)
    solution = model.solve(prepared, labels)
    forms = set()
    for _ in range(8):
        nodes = np.union1d(labels.nodes[1:], rng.choice(graph.n_nodes, 2, replace=False))
        labels = Labels.from_pairs(nodes, truth[nodes])
        solution = model.solve(prepared, labels, start=solution)
        fresh = model.solve(model.prepare(graph), labels)
        forms.add(solution.stats["preconditioner"] == "kernel")
        spread = np.abs(fresh.scores).max()
        np.testing.assert_allclose(solution.scores, fresh.scores, atol=1e-5 * spread)
        np.testing.assert_allclose(
            np.linalg.norm(solution.scores - fresh.scores),
            0.0,
            atol=3e-6 * np.linalg.norm(fresh.scores),
        )
    assert True in forms  # the kernel form came into use


@pytest.mark.slow
def test_columns_beyond_the_budget_are_not_kept() -> None:
    graph, labels, _ = digits(2)
    kernel = kernel_of(graph, column_bytes=8 * graph.n_nodes * (labels.n_labeled - 1))
    entries, _ = kernel.between(labels.nodes, None, None)
    assert kernel.slots is None
    assert kernel.harmonic(labels.nodes, labels.targets(), 1.0, zero_mean=True) is None
    whole, _ = kernel_of(graph).between(labels.nodes, None, None)
    np.testing.assert_allclose(entries, whole, atol=1e-3 * np.abs(whole).max())


@given(problem=problems(max_nodes=15))
def test_entries_from_rough_columns_are_those_of_the_pseudo_inverse(problem) -> None:
    graph, labels = problem
    kernel = kernel_of(graph, column_bytes=6 * graph.n_nodes * labels.n_labeled)
    entries, status = kernel.between(labels.nodes, None, None)
    expected = pseudo_inverse(dense_laplacian(graph))[np.ix_(labels.nodes, labels.nodes)]
    assert status is Status.CONVERGED
    assert kernel.rows.size == 0
    np.testing.assert_array_equal(entries, entries.T)
    largest = np.abs(expected).max()
    atol = max(2e-3 * largest, 1e-12)  # rounding leaves 1e-32 of a node by itself, whose entry is 0
    np.testing.assert_allclose(entries, expected, atol=atol)


@pytest.mark.slow
def test_the_correction_makes_the_error_of_second_order(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, labels, _ = digits(10)
    n_bytes = graph.n_nodes * labels.n_labeled
    exact, _ = kernel_of(graph, rtol=1e-10).between(labels.nodes, None, None)

    def error(column_bytes: int) -> float:
        kernel = kernel_of(graph, column_bytes=column_bytes)
        entries, _ = kernel.between(labels.nodes, None, None)
        return float(np.abs(entries - exact).max() / np.abs(exact).max())

    corrected = error(6 * n_bytes)
    assert corrected < 2e-3
    monkeypatch.setattr(laplacian_kernel, "ENTRIES_RTOL", laplacian_kernel.CORRECTED_RTOL)
    assert error(2 * n_bytes) > 3 * corrected


@pytest.mark.slow
def test_rough_columns_choose_the_penalty_that_exact_ones_do() -> None:
    graph, _, truth = digits(2)
    for seed in range(3):
        nodes = draw_per_class(truth, 20, seed=seed)
        labels = Labels.from_pairs(nodes, truth[nodes])
        n_bytes = graph.n_nodes * labels.n_labeled
        rough, exact = (
            choose_penalty(kernel_of(graph, column_bytes=each), labels, zero_mean=True)
            for each in (6 * n_bytes, 8 * n_bytes)
        )
        assert rough.graph_penalty == exact.graph_penalty


def test_a_cancelled_solve_keeps_what_was_known() -> None:
    graph, labels, _ = digits(2)
    kernel = kernel_of(graph)
    kernel.between(labels.nodes[:5], None, None)
    _, status = kernel.between(labels.nodes, None, lambda: True)
    assert status is Status.CANCELLED
    np.testing.assert_array_equal(kernel.nodes, labels.nodes[:5])
    assert kernel.n_missing(labels.nodes) == labels.n_labeled - 5


@pytest.mark.slow
def test_columns_survive_labels_that_come_and_go() -> None:
    graph, labels, _ = digits(4)
    rng = np.random.default_rng(0)
    kernel = kernel_of(graph, column_bytes=8 * graph.n_nodes * 30)
    for size in (5, 12, 30, 8, 29, 30, 3, 40, 6):
        nodes = np.sort(rng.choice(labels.nodes, size, replace=False))
        entries, status = kernel.between(nodes, None, None)
        assert status is Status.CONVERGED
        fresh = kernel_of(graph, rtol=1e-10)
        expected, _ = fresh.between(nodes, None, None)
        np.testing.assert_allclose(entries, expected, atol=1e-2 * np.abs(expected).max())
        assert (kernel.slots is None) == (size > 30)
        assert len(kernel.rows) <= 30
        if size <= 30:
            for node in nodes:
                np.testing.assert_allclose(
                    column(kernel, node), column(fresh, node), atol=1e-5 * np.abs(expected).max()
                )


@pytest.mark.slow
def test_one_more_label_beyond_the_sample_costs_few_columns() -> None:
    graph, labels, truth = digits(30)
    model = StableHFS()
    prepared = model.prepare(graph)
    model.solve(prepared, labels)
    rng = np.random.default_rng(2)
    costs = []
    for _ in range(6):
        known = set(prepared.kernel.nodes.tolist())
        nodes = np.union1d(labels.nodes, rng.choice(graph.n_nodes, 1))
        labels = Labels.from_pairs(nodes, truth[nodes])
        model.solve(prepared, labels)
        costs.append(len(set(prepared.kernel.nodes.tolist()) - known))
    assert np.mean(costs) < 8


@pytest.mark.slow
@pytest.mark.parametrize("graph_penalty", [1e9, 1e12])
def test_a_huge_penalty_leaves_the_constant_right(graph_penalty: float) -> None:
    graph, labels, _ = digits(2)
    scores = HFS(graph_penalty=graph_penalty).solve(HFS().prepare(graph), labels).scores
    np.testing.assert_allclose(scores[labels.nodes].mean(axis=0), labels.class_prior(), atol=1e-12)


def test_an_infinite_penalty_is_named() -> None:
    graph, labels, _ = digits(2)
    with pytest.raises(ValueError, match="graph_penalty times the number of labels"):
        HFS(graph_penalty=1e308).solve(HFS().prepare(graph), labels)


@pytest.mark.slow
@pytest.mark.parametrize("model", [HFS(graph_penalty=0), StableHFS(graph_penalty=0.3), Poisson()])
def test_work_done_ahead_leaves_a_warm_solve_nothing_but_the_new_label(model) -> None:
    graph, labels, truth = digits(5)
    prepared = model.prepare(graph)
    first = model.solve(prepared, labels)
    assert not model.work_ahead(prepared, cancelled=lambda: False)  # nobody has changed a label
    more = with_random_labels(labels, truth, 2, seed=1)
    second = model.solve(prepared, more, start=first)
    assert second.stats["preconditioner"] != "kernel"
    n_rounds = 0
    while model.work_ahead(prepared, cancelled=lambda: False):
        n_rounds += 1
    assert n_rounds > 1
    np.testing.assert_array_equal(prepared.kernel.nodes, more.nodes)
    most = with_random_labels(more, truth, 1, seed=2)
    third = model.solve(prepared, most, start=second)
    fresh = replace(model, rtol=1e-9).solve(model.prepare(graph), most)
    assert third.stats["preconditioner"] == "kernel"
    np.testing.assert_allclose(third.scores, fresh.scores, atol=1e-5 * np.abs(fresh.scores).max())


@pytest.mark.slow
def test_work_ahead_that_is_cut_short_leaves_what_was_known() -> None:
    graph, labels, truth = digits(5)
    model = StableHFS(graph_penalty=0.3)
    prepared = model.prepare(graph)
    first = model.solve(prepared, labels)
    model.solve(prepared, with_random_labels(labels, truth, 2, seed=1), start=first)
    assert model.work_ahead(prepared, cancelled=lambda: False)
    known = prepared.kernel.nodes
    assert 0 < known.size < labels.n_labeled
    assert not model.work_ahead(prepared, cancelled=lambda: True)
    np.testing.assert_array_equal(prepared.kernel.nodes, known)


@pytest.mark.slow
def test_nothing_is_done_ahead_that_may_not_be_kept() -> None:
    graph, labels, truth = digits(5)
    model = StableHFS(graph_penalty=0.3)
    prepared = model.prepare(graph, kept_bytes=8 * graph.n_nodes * labels.n_labeled)
    first = model.solve(prepared, labels)
    model.solve(prepared, with_random_labels(labels, truth, 2, seed=1), start=first)
    assert not model.work_ahead(prepared, cancelled=lambda: False)
    assert prepared.kernel.nodes.size == 0
