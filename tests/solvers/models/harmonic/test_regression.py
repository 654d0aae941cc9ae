"""Harmonic functions of numbers: what the papers state, and the column of a class as a number."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels, RealLabels
from peewit.solvers.laplacian.solver import LaplacianSolver
from peewit.solvers.laplacian.unsparsified_system import FullDegrees
from peewit.solvers.models.catalogue import CATALOGUE
from peewit.solvers.models.contract.laplacian_kernel import LabeledKernel
from peewit.solvers.models.contract.model import RegressionModel, check_labels
from peewit.solvers.models.contract.refinable_model import refine
from peewit.solvers.models.harmonic.harmonic import HFS, StableHFS
from peewit.solvers.models.harmonic.leave_one_out import choose_penalty
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status
from tests.reference.harmonic import hfs_scores, stable_hfs_scores
from tests.strategies import problems, real_problems
from tests.streaming.graphs import random_graph

PENALTIES = st.sampled_from([1e-6, 1e-2, 1.0, 100.0])
MODELS = [HFS(), HFS(graph_penalty=0), StableHFS()]


def solved(model: RegressionModel, graph: Graph, labels: Labels | RealLabels) -> Solution:
    solution = model.solve(model.prepare(graph), labels)
    assert solution.status is Status.CONVERGED
    return solution


def path(n_nodes: int) -> Graph:
    node = np.arange(n_nodes - 1)
    return Graph.from_edges(node, node + 1, np.ones(n_nodes - 1), n_nodes=n_nodes)


def wave_on_a_grid(side: int = 20) -> tuple[Graph, np.ndarray]:
    """A grid and a smooth number of each node."""
    node = np.arange(side * side).reshape(side, side)
    u = np.concatenate([node[:, :-1].ravel(), node[:-1].ravel()])
    v = np.concatenate([node[:, 1:].ravel(), node[1:].ravel()])
    x, y = np.divmod(np.arange(side * side), side)
    numbers = 30 + 10 * np.sin(x / 4) + y
    return Graph.from_edges(u, v, np.ones(u.size), n_nodes=side * side), numbers


@given(real_problems(), PENALTIES)
def test_soft_models_agree_with_the_dense_systems(problem, graph_penalty: float) -> None:
    graph, labels = problem
    scores = solved(HFS(graph_penalty=graph_penalty, rtol=1e-9), graph, labels).scores
    np.testing.assert_allclose(scores, hfs_scores(graph, labels, graph_penalty), atol=1e-5)
    scores = solved(StableHFS(graph_penalty=graph_penalty, rtol=1e-9), graph, labels).scores
    np.testing.assert_allclose(scores, stable_hfs_scores(graph, labels, graph_penalty), atol=1e-5)


@given(real_problems())
def test_hard_hfs_keeps_the_labels_and_stays_between_them(problem) -> None:
    graph, labels = problem
    scores = solved(HFS(graph_penalty=0, rtol=1e-9), graph, labels).scores
    np.testing.assert_allclose(scores, hfs_scores(graph, labels, 0), atol=1e-5)
    np.testing.assert_allclose(scores[labels.nodes], labels.targets(), atol=1e-9)
    assert labels.values.min() - 1e-6 <= scores.min()
    assert scores.max() <= labels.values.max() + 1e-6


@pytest.mark.parametrize("model", [HFS(graph_penalty=0.1), HFS(graph_penalty=0)])
@given(problem=problems())
def test_a_class_as_a_number_is_the_column_of_its_class(model, problem) -> None:
    graph, labels = problem
    column = RealLabels.from_pairs(labels.nodes, labels.targets()[:, 0])
    of_classes, of_numbers = solved(model, graph, labels), solved(model, graph, column)
    np.testing.assert_allclose(of_numbers.scores[:, 0], of_classes.scores[:, 0], atol=1e-5)


@pytest.mark.parametrize("model", MODELS)
def test_shifting_and_scaling_the_labels_does_the_same_to_the_answer(model) -> None:
    graph = random_graph(60, 0.1, seed=0).graph()
    nodes = np.arange(0, 60, 7)
    values = np.sin(nodes)
    one = solved(model, graph, RealLabels.from_pairs(nodes, values))
    other = solved(model, graph, RealLabels.from_pairs(nodes, 1e6 - 3 * values))
    np.testing.assert_allclose(other.scores, 1e6 - 3 * one.scores, atol=1e-3)


def test_hard_hfs_interpolates_linearly_on_a_path() -> None:
    labels = RealLabels.from_pairs([0, 9], [-1.5, 3.0])
    scores = solved(HFS(graph_penalty=0), path(10), labels).scores
    np.testing.assert_allclose(scores[:, 0], np.linspace(-1.5, 3.0, 10), atol=1e-5)


@pytest.mark.parametrize("model", MODELS)
def test_one_label_and_equal_labels_are_predicted_everywhere(model) -> None:
    for labels in (RealLabels.from_pairs([3], [7.25]), RealLabels.from_pairs([1, 4], [7.25, 7.25])):
        solution = solved(model, path(6), labels)
        np.testing.assert_allclose(solution.scores, 7.25, atol=1e-9)


@pytest.mark.parametrize("model", MODELS)
def test_nodes_that_no_label_reaches_get_the_mean(model) -> None:
    graph = Graph.from_edges([0, 1], [1, 2], [1.0, 1.0], n_nodes=5)
    solution = solved(model, graph, RealLabels.from_pairs([0, 2], [1.0, 4.0]))
    np.testing.assert_array_equal(solution.reachable, [True, True, True, False, False])
    np.testing.assert_array_equal(solution.scores[3:], 2.5)


@pytest.mark.parametrize(("model", "share"), [(HFS(), 0.2), (StableHFS(), 0.4)])
def test_an_untuned_model_beats_the_mean_by_far(model, share: float) -> None:
    """Stable-HFS holds the mean of all nodes at that of the labels, which are a sample."""
    graph, numbers = wave_on_a_grid()
    nodes = np.random.default_rng(0).choice(graph.n_nodes, 60, replace=False)
    solution = solved(model, graph, RealLabels.from_pairs(nodes, numbers[nodes]))
    missed = np.sqrt(np.mean((solution.scores[:, 0] - numbers) ** 2))
    assert missed < share * numbers.std()
    # what was left out is predicted about as well as what was never known
    assert solution.stats["loo_rmse"] == pytest.approx(missed, rel=0.6)
    assert solution.stats["loo_labels"] == 60
    assert "loo_accuracy" not in solution.stats


@pytest.mark.parametrize("zero_mean", [True, False])
def test_the_penalty_grows_with_the_noise_of_the_labels(zero_mean) -> None:
    graph, numbers = wave_on_a_grid()
    rng = np.random.default_rng(1)
    nodes = rng.choice(graph.n_nodes, 150, replace=False)
    kernel = LabeledKernel(solver=LaplacianSolver(graph), rtol=1e-4)
    penalties = []
    for noise in (0.01, 5.0):
        noisy = numbers[nodes] + noise * rng.standard_normal(nodes.size)
        choice = choose_penalty(kernel, RealLabels.from_pairs(nodes, noisy), zero_mean=zero_mean)
        assert choice.rmse > noise / 2
        penalties.append(choice.graph_penalty)
    assert penalties[1] > 3 * penalties[0]


def test_models_of_classes_refuse_numbers() -> None:
    labels = RealLabels.from_pairs([0, 1], [0.5, 1.5])
    with pytest.raises(TypeError, match="predicts classes only, got RealLabels; use one that"):
        check_labels(labels, path(3))
    for model in CATALOGUE.values():
        if not issubclass(model, RegressionModel):
            with pytest.raises(TypeError, match="predicts classes only"):
                model().solve(model().prepare(path(3)), labels)  # type: ignore[arg-type]


def test_labels_without_a_node_are_refused() -> None:
    model = HFS()
    with pytest.raises(ValueError, match="at least one labeled node, got none"):
        model.solve(model.prepare(path(3)), RealLabels.from_pairs([], []))
    with pytest.raises(ValueError, match=r"must lie in \[0, 3\), got node 3"):
        model.solve(model.prepare(path(3)), RealLabels.from_pairs([3], [1.0]))


@pytest.mark.parametrize("model", [HFS(), HFS(graph_penalty=0), StableHFS(graph_penalty=0.1)])
def test_numbers_are_carried_to_the_full_graph(model) -> None:
    edges = random_graph(60, 0.2, seed=0)
    labels = RealLabels.from_pairs([0, 20, 40], [1.0, 2.0, 4.5])
    full = edges.graph()
    u, v, weight = full.edges()
    halved = Graph.from_edges(u, v, weight * (1 + 0.5 * np.sin(np.arange(u.size))), n_nodes=60)
    exact = replace(model, rtol=1e-9)
    prepared = exact.prepare(halved)
    coarse = exact.solve(prepared, labels)
    refined = refine(
        exact,
        prepared,
        labels,
        coarse,
        full.laplacian_product,
        lambda: FullDegrees(full.degree, np.diff(full.adjacency.indptr)),
        max_passes=50,
    )
    penalty = float(coarse.stats["graph_penalty"])
    on_full = replace(exact, graph_penalty=penalty)
    expected = on_full.solve(on_full.prepare(full), labels).scores
    np.testing.assert_allclose(refined.scores, expected, atol=1e-5)
    moved = np.abs(refined.scores - coarse.scores).max()
    assert refined.stats["largest_change"] == pytest.approx(moved)
