import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import ProgressReport
from peewit.solvers.labels import Labels
from peewit.solvers.models.harmonic import HFS
from peewit.solvers.models.harmonic_mbo import HarmonicMBO
from peewit.solvers.models.poisson import Poisson
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status
from tests.data_sets import accuracy, digits_graph, draw_per_class
from tests.reference import class_mass as reference
from tests.reference.harmonic import hfs_scores
from tests.strategies import problems


def solved(model: HarmonicMBO, graph: Graph, labels: Labels) -> Solution:
    solution = model.solve(model.prepare(graph), labels)
    assert solution.status is Status.CONVERGED
    return solution


@given(problems(connected=True), st.integers(1, 6))
def test_the_first_round_is_a_walk_from_the_contrasts_of_hard_hfs(problem, length: int) -> None:
    graph, labels = problem
    ordered = np.sort(reference.contrasts(hfs_scores(graph, labels, 0), labels, graph), axis=1)
    assume((ordered[:, -1] - ordered[:, -2]).min() > 1e-6)
    first = reference.contrasts(hfs_scores(graph, labels, 0), labels, graph).argmax(axis=1)
    first[labels.nodes] = labels.classes
    model = HarmonicMBO(n_rounds=1, walk_length=length, min_kept=0.0, rtol=1e-10)
    solution = solved(model, graph, labels)
    n_steps = int(solution.stats["n_steps"])
    assert n_steps <= length
    expected = reference.one_round(graph, labels, first, n_steps)
    np.testing.assert_allclose(solution.scores, expected, atol=1e-5)


@given(problems())
def test_scores_are_distributions_that_keep_the_labels(problem) -> None:
    graph, labels = problem
    solution = solved(HarmonicMBO(), graph, labels)
    np.testing.assert_allclose(solution.scores.sum(axis=1), 1.0)
    assert solution.scores.min() >= 0
    np.testing.assert_array_equal(solution.scores[labels.nodes], labels.targets())


@given(problems())
def test_no_class_wins_in_a_component_without_its_label(problem) -> None:
    graph, labels = problem
    solution = solved(HarmonicMBO(), graph, labels)
    winners = solution.scores.argmax(axis=1)
    for node in np.flatnonzero(solution.reachable):
        inside = graph.component[labels.nodes] == graph.component[node]
        assert winners[node] in labels.classes[inside]


@given(problems(), st.sampled_from([1e-3, 1e4]))
def test_scaling_all_weights_changes_nothing(problem, factor: float) -> None:
    graph, labels = problem
    scaled = Graph.from_adjacency(graph.adjacency * factor)
    first = reference.contrasts(hfs_scores(graph, labels, 0), labels, graph)
    ordered = np.sort(first[np.isin(graph.component, graph.component[labels.nodes])], axis=1)
    assume((ordered[:, -1] - ordered[:, -2]).min() > 1e-6)
    one, other = (solved(HarmonicMBO(rtol=1e-10), each, labels).scores for each in (graph, scaled))
    np.testing.assert_allclose(other, one, atol=1e-5)


def test_a_tie_changes_no_class() -> None:
    """The middle of the path sees one neighbor of each class, whatever the classes are called."""
    graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 4], np.ones(4), n_nodes=5)
    for names in (["a", "b"], ["b", "a"]):
        labels = Labels.from_pairs([0, 4], names)
        scores = solved(HarmonicMBO(walk_length=1, rtol=1e-12), graph, labels).scores
        np.testing.assert_allclose(scores[2], [0.5, 0.5], atol=1e-5)


def test_walks_end_early_where_classes_mix() -> None:
    """On a complete graph one step forgets where it began."""
    u, v = np.triu_indices(40, 1)
    graph = Graph.from_edges(u, v, np.ones(u.size), n_nodes=40)
    labels = Labels.from_pairs([0, 1, 2], [0, 1, 2])
    patient = solved(HarmonicMBO(n_rounds=1, min_kept=0.0), graph, labels)
    careful = solved(HarmonicMBO(n_rounds=1), graph, labels)
    assert careful.stats["n_steps"] == 1
    assert patient.stats["n_steps"] >= 1


def test_rounds_at_three_lengths_move_nodes_on_digits() -> None:
    graph, classes = digits_graph()
    nodes = draw_per_class(classes, 1, seed=0)
    stats = solved(HarmonicMBO(), graph, Labels.from_pairs(nodes, classes[nodes])).stats
    assert 3 <= stats["n_rounds"] <= 9
    assert stats["n_moved"] > 0
    assert stats["n_steps"] <= 3 * (10 + 5 + 4)


@pytest.mark.parametrize("per_class", [5, 20])
def test_digits_are_right_more_often_than_by_poisson_or_hfs(per_class: int) -> None:
    graph, classes = digits_graph()
    models = [HarmonicMBO(), HFS(graph_penalty=0.0), Poisson()]
    prepared = [model.prepare(graph) for model in models]
    found = np.empty((2, len(models)))
    for seed in range(2):
        nodes = draw_per_class(classes, per_class, seed=seed)
        labels = Labels.from_pairs(nodes, classes[nodes])
        for column, (model, ready) in enumerate(zip(models, prepared, strict=True)):
            scores = model.solve(ready, labels).scores
            found[seed, column] = accuracy(scores, classes, nodes)
    ours, hfs, poisson = found.mean(axis=0)
    assert ours > hfs
    assert ours > poisson


def test_a_harmonic_solve_that_did_not_converge_says_so() -> None:
    graph, classes = digits_graph()
    nodes = draw_per_class(classes, 1, seed=0)
    model = HarmonicMBO(max_iter=1)
    solution = model.solve(model.prepare(graph), Labels.from_pairs(nodes, classes[nodes]))
    assert solution.status is Status.MAX_ITER


def test_a_walk_can_be_cancelled_between_two_steps() -> None:
    graph, classes = digits_graph()
    nodes = draw_per_class(classes, 1, seed=0)
    reports: list[ProgressReport] = []
    model = HarmonicMBO()
    solution = model.solve(
        model.prepare(graph),
        Labels.from_pairs(nodes, classes[nodes]),
        progress=reports.append,
        cancelled=lambda: bool(reports) and reports[-1].phase == "walks" and reports[-1].n_iter > 2,
    )
    assert solution.status is Status.CANCELLED
    assert (solution.stats["n_rounds"], solution.stats["n_steps"]) == (0, 3)
    np.testing.assert_allclose(solution.scores.sum(axis=1), 1.0)


@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_walks_do_not_depend_on_the_unit_of_weights(factor: float) -> None:
    graph, classes = digits_graph()
    nodes = draw_per_class(classes, 1, seed=0)
    labels = Labels.from_pairs(nodes, classes[nodes])
    scaled = Graph.from_adjacency(graph.adjacency * factor)
    one, other = (solved(HarmonicMBO(), each, labels).scores for each in (graph, scaled))
    np.testing.assert_allclose(other, one, atol=1e-4)
