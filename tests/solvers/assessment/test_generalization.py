"""The bound of Theorem 1: its parts by their identities, the whole on problems with known truth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peewit.solvers.assessment.generalization import (
    generalization_bound,
    risk_bound,
    sparsifier_distance,
    spectral_gap,
    stability,
    transduction_factor,
)
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels, RealLabels
from peewit.solvers.models.harmonic import StableHFS
from peewit.solvers.status import Status
from tests.reference.harmonic import stable_hfs_d3
from tests.reference.laplacian import dense_laplacian
from tests.strategies import edge_lists, graphs
from tests.streaming.graphs import random_graph

COUNTS = st.integers(2, 10**6)
POSITIVE = st.floats(1e-3, 1e3)


@given(COUNTS, COUNTS)
def test_the_factor_of_transduction_is_symmetric_and_grows(
    n_labeled: int, n_unlabeled: int
) -> None:
    factor = transduction_factor(n_labeled, n_unlabeled)
    assert factor == pytest.approx(transduction_factor(n_unlabeled, n_labeled))
    assert transduction_factor(n_labeled + 1, n_unlabeled) > factor
    assert transduction_factor(n_labeled, n_unlabeled + 1) > factor
    assert factor < 2 * min(n_labeled, n_unlabeled)


@given(POSITIVE, COUNTS, POSITIVE)
def test_stability_falls_with_rho_and_grows_with_the_rest(magnitude, n_labeled, rho) -> None:
    beta = stability(magnitude, n_labeled, rho)
    assert stability(magnitude, n_labeled, 1.01 * rho) < beta
    assert stability(1.01 * magnitude, n_labeled, rho) > beta
    assert stability(magnitude, n_labeled + 1, rho) > beta


@given(st.floats(0, 10), POSITIVE, POSITIVE, COUNTS, COUNTS, st.floats(0.001, 0.5))
def test_the_bound_grows_with_its_parts(risk, beta, miss, n_labeled, n_unlabeled, failure) -> None:
    bound = risk_bound(risk, beta, miss, n_labeled, n_unlabeled, failure)
    assert bound > risk + beta
    assert risk_bound(risk, 1.1 * beta, miss, n_labeled, n_unlabeled, failure) > bound
    assert risk_bound(risk, beta, 1.1 * miss, n_labeled, n_unlabeled, failure) > bound
    assert risk_bound(risk, beta, miss, n_labeled, n_unlabeled, failure / 2) > bound


def solved(graph: Graph, labels: RealLabels | Labels, penalty: float) -> np.ndarray:
    """On the scale of the targets."""
    model = StableHFS(graph_penalty=penalty, rtol=1e-9)
    solution = model.solve(model.prepare(graph), labels)
    return solution.scores + (labels.mean_target() if isinstance(labels, Labels) else 0.0)


def complete(n_nodes: int, weight: float = 1.0) -> Graph:
    """Its gap is n_nodes * weight."""
    u, v = np.triu_indices(n_nodes, 1)
    return Graph.from_edges(u, v, np.full(u.size, weight), n_nodes=n_nodes)


def test_on_a_complete_graph_the_bound_is_the_formula() -> None:
    graph, labels = complete(12), RealLabels.from_pairs([0, 3, 5], [1.0, 2.0, 4.5])
    predicted = solved(graph, labels, 0.5)
    found = generalization_bound(graph, labels, predicted, graph_penalty=0.5)
    mean = 2.5
    risk = np.mean((predicted[[0, 3, 5], 0] - [1.0, 2.0, 4.5]) ** 2)
    largest = np.abs(predicted - mean).max() + 2.0
    rho = 3 * 0.5 * 12.0
    assert (found.lambda_2, found.rho) == (pytest.approx(12), pytest.approx(rho))
    assert found.empirical_risk == pytest.approx(risk)
    for value, own in ((found.bound, rho), (found.bound_of_paper, rho - 1)):
        expected = risk_bound(risk, stability(2.0, 3, own), largest, 3, 9, 0.05)
        assert value == pytest.approx(expected)
    assert (found.probability, found.n_components) == (0.95, 1)


def test_the_bound_falls_as_the_gap_grows() -> None:
    """The answer is held fixed; only lambda_2 changes."""
    labels = RealLabels.from_pairs([0, 3, 5], [1.0, 2.0, 4.5])
    predicted = solved(complete(12), labels, 0.5)
    bounds = [
        generalization_bound(complete(12, weight), labels, predicted, graph_penalty=0.5).bound
        for weight in (0.1, 1.0, 10.0)
    ]
    assert bounds[0] > bounds[1] > bounds[2]


def test_a_small_gap_leaves_the_printed_form_vacuous_and_ours_finite() -> None:
    node = np.arange(29)
    graph = Graph.from_edges(node, node + 1, np.ones(29), n_nodes=30)
    labels = Labels.from_pairs([2, 27], ["a", "b"])
    found = generalization_bound(graph, labels, solved(graph, labels, 1.0), graph_penalty=1.0)
    assert found.rho < 1
    assert found.bound_of_paper is None
    assert found.bound is not None
    assert np.isfinite(found.bound)


def test_the_truth_is_below_the_bound() -> None:
    graph = random_graph(120, 0.3, seed=0).graph()
    rng = np.random.default_rng(0)
    truth = np.tanh(np.cumsum(rng.standard_normal(120)) / 5)
    nodes = rng.choice(120, 60, replace=False)
    labels = RealLabels.from_pairs(nodes, truth[nodes])
    predicted = solved(graph, labels, 0.1)
    found = generalization_bound(graph, labels, predicted, graph_penalty=0.1)
    free = np.setdiff1d(np.arange(120), nodes)
    assert found.bound_of_paper is not None
    assert np.mean((predicted[free, 0] - truth[free]) ** 2) < found.bound < found.bound_of_paper


def test_components_count_by_their_unlabeled_nodes_with_the_failure_shared() -> None:
    """Two equal parts, one with each class: twice the same bound, at half the failure."""
    u, v = np.triu_indices(10, 1)
    both = Graph.from_edges(
        np.concatenate([u, u + 10]), np.concatenate([v, v + 10]), np.ones(90), n_nodes=24
    )
    values = [1.0, 2.0, 3.0]
    two = RealLabels.from_pairs([0, 1, 2, 10, 11, 12, 20], [*values, *values, 2.0])
    together = generalization_bound(both, two, solved(both, two, 3 / 7), graph_penalty=3 / 7)
    one = RealLabels.from_pairs([0, 1, 2], values)
    alone = generalization_bound(
        complete(10), one, solved(complete(10), one, 1.0), graph_penalty=1.0, failure=0.025
    )
    assert together.n_components == 2  # node 20 is alone, 21 to 23 are not reached
    assert together.bound == pytest.approx(alone.bound)
    assert together.rho == pytest.approx(alone.rho)


def test_nothing_unlabeled_has_no_bound() -> None:
    labels = Labels.from_pairs([0, 1, 2], ["a", "b", "b"])
    graph = complete(3)
    found = generalization_bound(graph, labels, solved(graph, labels, 1.0), graph_penalty=1.0)
    assert (found.bound, found.bound_of_paper, found.n_components) == (None, None, 0)


@given(graphs(min_nodes=2, connected=True))
def test_the_gap_is_the_second_eigenvalue(graph: Graph) -> None:
    gap, status = spectral_gap(graph)
    assert status is Status.CONVERGED
    assert gap == pytest.approx(np.linalg.eigvalsh(dense_laplacian(graph))[1], rel=1e-6)


@pytest.mark.parametrize("n_nodes", [250, 600])
def test_the_gap_of_larger_graphs_comes_from_lanczos(n_nodes: int) -> None:
    edges = random_graph(n_nodes, 12 / n_nodes, seed=1)
    ring = np.arange(n_nodes)
    graph = Graph.from_edges(
        np.concatenate([edges.u, ring]),
        np.concatenate([edges.v, (ring + 1) % n_nodes]),
        np.concatenate([edges.weight, np.ones(n_nodes)]),
        n_nodes=n_nodes,
    )
    gap, status = spectral_gap(graph)
    assert status is Status.CONVERGED
    assert gap == pytest.approx(np.linalg.eigvalsh(dense_laplacian(graph))[1], rel=5e-3)
    assert spectral_gap(graph, cancelled=lambda: True)[1] is Status.CANCELLED


def test_a_cancelled_bound_says_so() -> None:
    graph, labels = complete(12), RealLabels.from_pairs([0, 3], [1.0, 2.0])
    found = generalization_bound(
        graph, labels, solved(graph, labels, 1.0), graph_penalty=1.0, cancelled=lambda: True
    )
    assert found.status is Status.CANCELLED
    assert found.bound is None


def test_what_is_asked_wrongly_is_refused() -> None:
    graph, labels = complete(3), RealLabels.from_pairs([0], [1.0])
    with pytest.raises(ValueError, match="graph_penalty must be finite and > 0, got 0"):
        generalization_bound(graph, labels, np.ones((3, 1)), graph_penalty=0)
    with pytest.raises(ValueError, match=r"failure must lie in \(0, 1\), got 1"):
        generalization_bound(graph, labels, np.ones((3, 1)), graph_penalty=1, failure=1)


@given(edge_lists(min_nodes=3, max_nodes=12, connected=True), st.sampled_from([0.1, 0.5, 0.9]))
def test_answers_on_a_sparsifier_differ_by_no_more_than_d8(edges, epsilon: float) -> None:
    """Every edge reweighted within 1 +- epsilon satisfies (B1); soft HFS and Stable-HFS."""
    graph = edges.graph()
    u, v, weight = graph.edges()
    rng = np.random.default_rng(edges.u.size)
    moved = weight * (1 + epsilon * rng.uniform(-1, 1, weight.size))
    other = Graph.from_edges(u, v, moved, n_nodes=graph.n_nodes)
    labeled, kappa = np.array([0, 2]), 2.0
    targets = np.array([[1.0], [-1.0]])
    inside = np.diag(np.isin(np.arange(graph.n_nodes), labeled).astype(float))
    full, sparse = kappa * dense_laplacian(graph) + inside, kappa * dense_laplacian(other) + inside
    rhs = np.zeros((graph.n_nodes, 1))
    rhs[labeled] = targets
    limit = sparsifier_distance(epsilon)
    assert limit == epsilon / (1 - epsilon)
    for on_full, on_sparse in (
        (np.linalg.solve(full, rhs), np.linalg.solve(sparse, rhs)),
        (
            stable_hfs_d3(dense_laplacian(graph), labeled, targets, kappa),
            stable_hfs_d3(dense_laplacian(other), labeled, targets, kappa),
        ),
    ):
        apart = on_sparse - on_full
        size = np.sqrt((on_full.T @ full @ on_full).item())
        assert np.sqrt((apart.T @ full @ apart).item()) <= limit * size + 1e-9
    assert sparsifier_distance(1.0) is None
