from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import UNWATCHED, ProgressReport, Watch
from peewit.solvers.labels import Labels
from peewit.solvers.models.classes.centering import CenteredLabels
from peewit.solvers.models.harmonic import harmonic_mbo
from peewit.solvers.models.harmonic.harmonic import HFS
from peewit.solvers.models.harmonic.harmonic_mbo import HarmonicMBO, WalkStart
from peewit.solvers.models.poisson.poisson import Poisson
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status
from tests.data_sets import accuracy, digits_graph, draw_per_class
from tests.reference import class_mass as reference
from tests.reference.harmonic import hfs_scores
from tests.strategies import problems
from tests.streaming.graphs import blocks_with_hubs


def solved(model: HarmonicMBO, graph: Graph, labels: Labels) -> Solution:
    solution = model.solve(model.prepare(graph), labels)
    assert solution.status is Status.CONVERGED
    return solution


def first_contrasts(graph: Graph, labels: Labels) -> np.ndarray:
    """Of soft HFS that holds labels as firmly as the edges of the median label do."""
    degree = graph.degree[labels.nodes]
    typical = float(np.median(degree[degree > 0])) if degree.any() else 1.0
    penalty = 1.0 / (typical * labels.n_labeled)
    return reference.contrasts(hfs_scores(graph, labels, penalty), labels, graph)


@given(problems(connected=True), st.integers(1, 6))
def test_the_first_round_is_a_walk_from_the_contrasts_or_is_undone(problem, length: int) -> None:
    graph, labels = problem
    ordered = np.sort(first_contrasts(graph, labels), axis=1)
    assume((ordered[:, -1] - ordered[:, -2]).min() > 1e-6)
    first = first_contrasts(graph, labels).argmax(axis=1)
    first[labels.nodes] = labels.classes
    model = HarmonicMBO(n_rounds=1, walk_length=length, min_kept=0.0, rtol=1e-10)
    solution = solved(model, graph, labels)
    shares = reference.one_round(graph, labels, first, length)
    is_better = shares.max(axis=1) > shares[np.arange(graph.n_nodes), first] + 1e-5
    then = np.where(is_better, shares.argmax(axis=1), first)
    gain = reference.evidence(graph, then) - reference.evidence(graph, first)
    assume(abs(gain + 1e-5) > 1e-6)
    assert solution.stats["n_undone"] == (gain < -1e-5)
    if gain < -1e-5:
        one_hot, one_step = (reference.one_round(graph, labels, first, n) for n in (0, 1))
        shares = (2 * one_hot + one_step) / 3
        np.testing.assert_array_equal(solution.scores.argmax(axis=1), first)
    np.testing.assert_allclose(solution.scores, shares, atol=1e-5)


@given(problems())
def test_scores_are_distributions_that_keep_the_labels(problem) -> None:
    graph, labels = problem
    solution = solved(HarmonicMBO(), graph, labels)
    np.testing.assert_allclose(solution.scores.sum(axis=1), 1.0)
    assert solution.scores.min() >= 0
    np.testing.assert_array_equal(solution.scores[labels.nodes], labels.targets())


@pytest.mark.slow
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
    first = first_contrasts(graph, labels)
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
    assert careful.stats["n_steps"] == 2  # and one more to judge what it made
    assert patient.stats["n_steps"] > 2


def test_no_class_takes_all_where_walks_forget_at_once() -> None:
    """Every round makes the largest class larger here; contrasts alone are right more often."""
    graph, classes = blocks_with_hubs(6, 300, inside=0.25, seed=0)
    nodes = draw_per_class(classes, 5, seed=0)
    labels = Labels.from_pairs(nodes, classes[nodes])
    solution = solved(HarmonicMBO(), graph, labels)
    sizes = np.bincount(solution.scores.argmax(axis=1), minlength=6)
    assert sizes.max() < 2 * 300
    first = first_contrasts(graph, labels)
    ours, theirs = (accuracy(each, classes, nodes) for each in (solution.scores, first))
    assert ours > theirs


def test_a_hub_among_the_labels_does_not_speak_for_its_class() -> None:
    """Two cliques of two classes; a hub of both, labeled, draws them to its class if held."""
    size = 30
    u, v = np.triu_indices(size, 1)
    hub, n_nodes = 2 * size, 2 * size + 1
    graph = Graph.from_edges(
        np.concatenate([u, u + size, np.full(2 * size, hub)]),
        np.concatenate([v, v + size, np.arange(2 * size)]),
        np.concatenate([np.full(2 * u.size, 0.05), np.ones(2 * size)]),
        n_nodes=n_nodes,
    )
    labels = Labels.from_pairs([0, 1, 2, hub, size, size + 1, size + 2], [0] * 4 + [1] * 3)
    winners = solved(HarmonicMBO(), graph, labels).scores.argmax(axis=1)
    assert (winners[:size] == 0).all()
    assert (winners[size:hub] == 1).all()


def test_rounds_at_three_lengths_move_nodes_on_digits() -> None:
    graph, classes = digits_graph()
    nodes = draw_per_class(classes, 1, seed=0)
    stats = solved(HarmonicMBO(), graph, Labels.from_pairs(nodes, classes[nodes])).stats
    assert 3 <= stats["n_rounds"] <= 9
    assert stats["n_moved"] > 0
    assert stats["n_steps"] <= 3 * (10 + 5 + 4)


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_walks_do_not_depend_on_the_unit_of_weights(factor: float) -> None:
    graph, classes = digits_graph()
    nodes = draw_per_class(classes, 1, seed=0)
    labels = Labels.from_pairs(nodes, classes[nodes])
    scaled = Graph.from_adjacency(graph.adjacency * factor)
    one, other = (solved(HarmonicMBO(), each, labels).scores for each in (graph, scaled))
    np.testing.assert_allclose(other, one, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 25, 1_000])
def test_walks_that_step_together_end_as_each_does_alone(monkeypatch, most: int) -> None:
    graph, classes = digits_graph()
    model = HarmonicMBO(rtol=1e-8)
    prepared = model.prepare(graph)
    starts = []
    for seed in range(3):
        nodes = draw_per_class(classes, 2, seed=seed)
        labels = Labels.from_pairs(nodes, classes[nodes])
        task = CenteredLabels.of(labels, graph.component)
        first = Poisson().solve(prepared, labels).scores.argmax(axis=1)
        starts.append(WalkStart(task=task, labels=labels, first=first))
    starts[1] = replace(starts[1], nodes=np.array([5, 3]))
    alone = [model.walked(prepared, [start], UNWATCHED) for start in starts]
    monkeypatch.setattr(harmonic_mbo, "_MOST_JOINED", most)
    outcome, together = model.walked(prepared, starts, UNWATCHED)
    assert outcome.status is Status.CONVERGED
    for found, (ended, (expected,)) in zip(together, alone, strict=True):
        assert ended.state.parts[0].n_rounds > 1
        np.testing.assert_allclose(found, expected, atol=1e-4)
    np.testing.assert_array_equal(together[1].shape, (2, 10))


def test_walks_together_end_when_they_are_cancelled() -> None:
    graph, classes = digits_graph()
    nodes = draw_per_class(classes, 2, seed=0)
    labels = Labels.from_pairs(nodes, classes[nodes])
    prepared = HarmonicMBO().prepare(graph)
    start = WalkStart(
        task=CenteredLabels.of(labels, graph.component), labels=labels, first=np.zeros_like(classes)
    )
    steps: list[int] = []
    watch = Watch(
        progress=lambda report: steps.append(report.n_iter), cancelled=lambda: bool(steps)
    )
    outcome, shares = HarmonicMBO().walked(prepared, [start] * 9, watch)
    assert outcome.status is Status.CANCELLED
    assert steps == [1]
    assert len(shares) == 3  # of the first batch; the others were not begun
