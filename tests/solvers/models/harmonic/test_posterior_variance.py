import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import ProgressReport
from peewit.solvers.labels import Labels, RealLabels
from peewit.solvers.models.harmonic.harmonic import HFS, StableHFS
from peewit.solvers.models.harmonic.posterior_variance import (
    RELATIVE_ERROR,
    GaussianField,
    Uncertainty,
    posterior_variance,
)
from peewit.solvers.status import Status
from tests.reference.uncertainty import variance_by_conditioning, variance_by_inversion
from tests.strategies import problems
from tests.streaming.graphs import random_graph

PENALTIES = st.sampled_from([0.0, 1e-4, 0.1, 10.0])


def variance(graph: Graph, labels: Labels | RealLabels, penalty: float, **asked) -> np.ndarray:
    found = posterior_variance(graph, labels, graph_penalty=penalty, **asked)
    assert found.status is Status.CONVERGED
    return found.variance


def path(n_nodes: int, weight: float = 1.0) -> Graph:
    node = np.arange(n_nodes - 1)
    return Graph.from_edges(node, node + 1, np.full(n_nodes - 1, weight), n_nodes=n_nodes)


@settings(max_examples=25)
@given(problems(), PENALTIES)
def test_variances_are_those_of_the_dense_inverse(problem, penalty: float) -> None:
    graph, labels = problem
    exact = variance_by_inversion(graph, labels, penalty * labels.n_labeled)
    found = variance(graph, labels, penalty)
    np.testing.assert_array_equal(np.isinf(found), np.isinf(exact))
    reached = np.isfinite(exact)
    # six standard deviations, and the solves
    np.testing.assert_allclose(found[reached], exact[reached], rtol=6 * RELATIVE_ERROR + 0.03)


@given(problems(connected=True), st.sampled_from([1e-3, 0.1, 10.0]))
def test_the_dense_inverse_is_gaussian_process_regression(problem, kappa: float) -> None:
    graph, labels = problem
    np.testing.assert_allclose(
        variance_by_inversion(graph, labels, kappa),
        variance_by_conditioning(graph, labels, kappa),
        rtol=1e-6,
    )


@pytest.mark.parametrize("penalty", [0.0, 1e-3, 1.0])
def test_estimates_scatter_as_little_as_they_say(penalty: float) -> None:
    graph = random_graph(150, 0.05, seed=3).graph()
    labels = Labels.from_pairs(np.arange(0, 150, 30), [0, 1, 0, 1, 0])
    exact = variance_by_inversion(graph, labels, penalty * 5)
    free = np.setdiff1d(np.flatnonzero(np.isfinite(exact)), labels.nodes)
    for asked in (0.3, 0.1):
        found = posterior_variance(graph, labels, graph_penalty=penalty, relative_error=asked)
        assert found.relative_error <= asked
        assert found.n_probes >= 2 / asked**2
        scatter = np.std(found.variance[free] / exact[free] - 1)
        assert scatter <= 1.3 * found.relative_error + 0.01


def test_on_a_path_the_variance_is_the_distance_to_the_label_and_its_noise() -> None:
    labels = RealLabels.from_pairs([0], [3.0])
    distance = np.arange(8) / 2.0
    hard = variance(path(8, weight=2.0), labels, 0.0, relative_error=0.03)
    np.testing.assert_allclose(hard, distance, rtol=0.15)
    soft = variance(path(8, weight=2.0), labels, 0.25, relative_error=0.03)
    np.testing.assert_allclose(soft, distance + 0.25, rtol=0.15)


def test_labels_are_certain_where_they_are_kept_and_noisy_where_not() -> None:
    graph = random_graph(60, 0.1, seed=0).graph()
    labels = Labels.from_pairs([0, 20, 40], [0, 1, 1])
    np.testing.assert_array_equal(variance(graph, labels, 0.0)[labels.nodes], 0.0)
    soft = variance(graph, labels, 0.1)
    assert (soft[labels.nodes] < 3 * 0.1 * 1.1).all()
    assert soft[labels.nodes].max() < np.delete(soft, labels.nodes).min()


def test_scaling_all_weights_scales_the_variance() -> None:
    edges = random_graph(60, 0.1, seed=0)
    labels = Labels.from_pairs([0, 20, 40], [0, 1, 1])
    heavy = Graph.from_edges(edges.u, edges.v, 1000 * edges.weight, n_nodes=60)
    one = variance(edges.graph(), labels, 0.1)
    np.testing.assert_allclose(variance(heavy, labels, 0.1 / 1000), one / 1000, rtol=1e-2)


def test_targets_do_not_enter_and_equal_seeds_give_equal_bits() -> None:
    graph = random_graph(60, 0.1, seed=0).graph()
    one = variance(graph, Labels.from_pairs([0, 20], [0, 1]), 0.1)
    np.testing.assert_array_equal(one, variance(graph, RealLabels.from_pairs([0, 20], [9, 2]), 0.1))
    assert (one != variance(graph, Labels.from_pairs([0, 20], [0, 1]), 0.1, seed=99)).any()


def test_what_is_asked_wrongly_is_refused() -> None:
    labels = RealLabels.from_pairs([0], [3.0])
    with pytest.raises(ValueError, match="graph_penalty must be finite and >= 0, got -1"):
        posterior_variance(path(3), labels, graph_penalty=-1)
    with pytest.raises(ValueError, match=r"relative_error must lie in \(0, 1\), got 1"):
        posterior_variance(path(3), labels, graph_penalty=1, relative_error=1)


def test_progress_is_told_and_a_cancelled_estimate_says_so() -> None:
    reports: list[ProgressReport] = []
    labels = RealLabels.from_pairs([0], [3.0])
    variance(path(30), labels, 1.0, progress=reports.append)
    assert [report.n_iter for report in reports] == [1, 2, 3, 4]
    assert reports[-1].fraction == 1.0
    stopped: Uncertainty = posterior_variance(
        path(30), labels, graph_penalty=1.0, cancelled=lambda: True
    )
    assert stopped.status is Status.CANCELLED


@pytest.mark.parametrize("model", [HFS(), StableHFS(), HFS(graph_penalty=0)])
def test_models_of_the_field_tell_their_penalty(model) -> None:
    assert isinstance(model, GaussianField)
    graph = random_graph(60, 0.1, seed=0).graph()
    solution = model.solve(model.prepare(graph), Labels.from_pairs([0, 20, 40], [0, 1, 1]))
    assert float(solution.stats["graph_penalty"]) >= 0
