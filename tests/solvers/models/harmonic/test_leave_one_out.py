import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import ProgressReport, Watch
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.solver import LaplacianSolver
from peewit.solvers.models.contract.laplacian_kernel import LabeledKernel
from peewit.solvers.models.harmonic.leave_one_out import (
    MAX_KERNEL_NODES,
    UNITS_PER_DECADE,
    choose_penalty,
    left_out_targets,
    stratified_sample,
)
from peewit.solvers.status import Status
from tests.data_sets import digits_graph, draw_per_class
from tests.reference.harmonic import hfs_scores, stable_hfs_scores
from tests.reference.laplacian import dense_laplacian, pseudo_inverse
from tests.strategies import problems


def kernel_of(graph: Graph, rtol: float = 1e-9) -> LabeledKernel:
    return LabeledKernel(solver=LaplacianSolver(graph), rtol=rtol)


def without(labels: Labels, left_out: int) -> Labels:
    """The other labels; classes keep their columns, even an empty one."""
    keep = np.arange(labels.n_labeled) != left_out
    rest = object.__new__(Labels)
    object.__setattr__(rest, "nodes", labels.nodes[keep])
    object.__setattr__(rest, "classes", labels.classes[keep])
    object.__setattr__(rest, "class_names", labels.class_names)
    return rest


@pytest.mark.parametrize("zero_mean", [True, False])
@given(problem=problems(max_nodes=15), graph_penalty=st.sampled_from([1e-3, 0.1, 3.0]))
def test_closed_form_equals_fitting_without_each_label(zero_mean, problem, graph_penalty) -> None:
    graph, labels = problem
    inverse = pseudo_inverse(dense_laplacian(graph))
    nodes = labels.nodes
    predicted = left_out_targets(
        inverse[np.ix_(nodes, nodes)],
        graph.component[nodes],
        labels.targets(),
        graph_penalty * (labels.n_labeled - 1),
        zero_mean=zero_mean,
    )
    for row, node in enumerate(nodes):
        rest = without(labels, row)
        if zero_mean:
            scores = stable_hfs_scores(graph, rest, graph_penalty)
            is_reached = graph.component[node] in graph.component[rest.nodes]
            expected = scores[node] + (rest.class_prior() if is_reached else 0.0)
        else:
            expected = hfs_scores(graph, rest, graph_penalty)[node]
        np.testing.assert_allclose(predicted[row], expected, atol=1e-5)


@given(problems(max_nodes=15))
def test_kernel_entries_are_those_of_the_pseudo_inverse(problem) -> None:
    graph, labels = problem
    inverse = pseudo_inverse(dense_laplacian(graph))
    kernel = kernel_of(graph)
    half = labels.nodes[::2]
    for nodes in (half, labels.nodes, labels.nodes[1:]):  # grows, then shrinks
        entries, status = kernel.between(nodes, None, None)
        assert status is Status.CONVERGED
        scale = max(1.0, np.abs(inverse).max())
        np.testing.assert_allclose(entries, inverse[np.ix_(nodes, nodes)], atol=1e-6 * scale)


@pytest.mark.slow
def test_nodes_whose_entries_are_known_cost_no_solve() -> None:
    graph, _ = digits_graph()
    kernel = kernel_of(graph, rtol=1e-4)
    kernel.between(np.arange(0, 100, 2), None, None)
    steps: list[ProgressReport] = []
    kernel.between(np.arange(0, 90, 2), steps.append, None)
    assert not steps
    kernel.between(np.append(np.arange(0, 90, 2), 91), steps.append, None)
    assert {step.phase for step in steps} == {"kernel"}


@pytest.mark.slow
def test_scaling_all_weights_scales_the_penalty_and_nothing_else() -> None:
    graph, classes = digits_graph()
    nodes = draw_per_class(classes, 3, seed=0)
    labels = Labels.from_pairs(nodes, classes[nodes])
    u, v, weight = graph.edges()
    heavy = Graph.from_edges(u, v, 1000 * weight, n_nodes=graph.n_nodes)
    one = choose_penalty(kernel_of(graph, 1e-6), labels, zero_mean=True)
    other = choose_penalty(kernel_of(heavy, 1e-6), labels, zero_mean=True)
    assert other.graph_penalty == pytest.approx(one.graph_penalty / 1000, rel=1e-4)
    assert other.accuracy == one.accuracy


def test_without_a_label_to_leave_out_the_penalty_is_the_kernels_size() -> None:
    graph = Graph.from_edges([0, 1, 2], [1, 2, 3], [1.0, 1.0, 1.0], n_nodes=4)
    choice = choose_penalty(kernel_of(graph), Labels.from_pairs([0, 3], [0, 1]), zero_mean=True)
    inverse = pseudo_inverse(dense_laplacian(graph))
    assert choice.n_used == 0
    assert np.isnan(choice.accuracy)
    size = (inverse[0, 0] + inverse[3, 3]) / 2
    assert choice.graph_penalty == pytest.approx(size / 2, rel=10 ** (0.5 / UNITS_PER_DECADE) - 1)
    steps = UNITS_PER_DECADE * np.log10(2 * choice.graph_penalty * graph.degree.mean())
    assert steps == pytest.approx(round(steps))


def test_one_more_label_leaves_kappa_as_it_is() -> None:
    rng = np.random.default_rng(3)
    u, v = rng.integers(0, 300, (2, 2_000))
    graph = Graph.from_edges(u[u != v], v[u != v], np.ones((u != v).sum()), n_nodes=300)
    nodes = rng.choice(300, 40, replace=False)
    kappas = []
    for n_labeled in range(20, 40):
        labels = Labels.from_pairs(nodes[:n_labeled], nodes[:n_labeled] % 2)
        choice = choose_penalty(kernel_of(graph), labels, zero_mean=True)
        kappas.append(choice.graph_penalty * n_labeled)
    changes = np.abs(np.diff(np.log10(kappas)))
    np.testing.assert_allclose(
        UNITS_PER_DECADE * changes, np.round(UNITS_PER_DECADE * changes), atol=1e-9
    )
    assert np.count_nonzero(changes < 1e-12) >= changes.size / 2


def test_labels_on_isolated_nodes_alone_do_not_matter_to_the_choice() -> None:
    graph = Graph.from_edges([], [], [], n_nodes=5)
    choice = choose_penalty(kernel_of(graph), Labels.from_pairs([0, 3], [0, 1]), zero_mean=True)
    assert choice.status is Status.CONVERGED
    assert choice.graph_penalty > 0


def test_large_label_sets_are_sampled_by_class() -> None:
    n_labeled = 4 * MAX_KERNEL_NODES
    classes = np.where(np.arange(n_labeled) % 10 == 0, "rare", "common")
    labels = Labels.from_pairs(np.arange(n_labeled), classes)
    sample = stratified_sample(labels, MAX_KERNEL_NODES)
    assert sample.size == MAX_KERNEL_NODES
    assert (np.diff(sample) > 0).all()
    share = np.mean([labels.class_names[labels.classes[row]] == "rare" for row in sample])
    assert share == pytest.approx(0.1)
    np.testing.assert_array_equal(stratified_sample(labels, n_labeled), np.arange(n_labeled))


@pytest.mark.slow
def test_a_sample_of_labels_carries_its_choice_to_all() -> None:
    graph, classes = digits_graph()
    labels = Labels.from_pairs(np.arange(1000), classes[:1000])
    choice = choose_penalty(kernel_of(graph, 1e-3), labels, zero_mean=True)
    assert choice.n_used == MAX_KERNEL_NODES
    assert choice.accuracy > 0.95


def test_a_cancelled_choice_says_so() -> None:
    graph, classes = digits_graph()
    labels = Labels.from_pairs(np.arange(30), classes[:30])
    kernel = kernel_of(graph)
    choice = choose_penalty(kernel, labels, zero_mean=True, watch=Watch(cancelled=lambda: True))
    assert choice.status is Status.CANCELLED
    assert choice.n_used == 0
    assert kernel.nodes.size == 0
