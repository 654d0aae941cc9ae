import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peewit.solvers.assessment.cross_validation import CrossValidation, cross_validate
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels, RealLabels, can_be_left_out, deal_folds
from peewit.solvers.models.catalogue import CATALOGUE
from peewit.solvers.models.harmonic.harmonic import HFS
from peewit.solvers.status import Status
from tests.streaming.graphs import random_graph

CLASSES = st.lists(st.sampled_from("aabc"), min_size=4, max_size=40)


def two_cliques() -> Graph:
    u, v = np.triu_indices(10, 1)
    return Graph.from_edges(
        np.concatenate([u, u + 10, [0]]), np.concatenate([v, v + 10, [10]]), np.ones(91), n_nodes=22
    )


def run(model, graph: Graph, labels: Labels | RealLabels, n_folds: int, **asked) -> CrossValidation:
    prepared = model.prepare(graph)
    return cross_validate(model, prepared, labels, n_folds=n_folds, **asked)


@given(CLASSES, st.integers(2, 6), st.integers(0, 9))
def test_folds_are_even_and_hold_no_class_whole(names, n_folds: int, seed: int) -> None:
    labels = Labels.from_pairs(np.arange(len(names)), names)
    counts = np.bincount(labels.classes)
    n_usable = counts[counts > 1].sum()
    if n_folds > n_usable:
        with pytest.raises(ValueError, match=f"left out, {n_usable} "):
            deal_folds(labels, n_folds, seed)
        return
    fold, always_kept = deal_folds(labels, n_folds, seed)
    assert set(always_kept) == {name for name in set(names) if names.count(name) == 1}
    assert (fold == -1).sum() == len(always_kept)
    sizes = np.bincount(fold[fold >= 0], minlength=n_folds)
    assert sizes.max() - sizes.min() <= 1
    for code in range(labels.n_classes):
        own = fold[labels.classes == code]
        shares = np.bincount(own[own >= 0], minlength=n_folds)
        assert shares.max() - shares.min() <= 1
        assert shares.max() < max(2, own.size)


@given(CLASSES, st.data())
def test_only_labels_that_may_be_are_left_out(names, data: st.DataObject) -> None:
    labels = Labels.from_pairs(np.arange(len(names)), names)
    may = np.array(data.draw(st.lists(st.booleans(), min_size=len(names), max_size=len(names))))
    usable = can_be_left_out(labels, may)
    assert not usable[~may].any()
    assert usable.sum() == sum(names.count(name) > 1 for name in np.array(names)[may])
    if usable.sum() < 2:
        return
    fold, always_kept = deal_folds(labels, 2, 0, may)
    assert ((fold >= 0) == usable).all()
    assert set(always_kept) == set(names) - set(np.array(names)[usable])
    for number in range(2):
        labels.subset(np.flatnonzero(fold != number))  # no class loses its last label


class Remembering(HFS):
    """A model that keeps the nodes whose labels it was given."""

    def solve(self, prepared, labels, **options):
        seen.append(set(labels.nodes.tolist()))
        return super().solve(prepared, labels, **options)


seen: list[set[int]] = []


@pytest.mark.parametrize("is_real", [False, True])
def test_labels_that_may_not_be_left_out_train_every_fold(is_real: bool) -> None:
    seen.clear()
    nodes = np.arange(20)
    values = (nodes >= 10).astype(float)
    labels = (
        RealLabels.from_pairs(nodes, values)
        if is_real
        else Labels.from_pairs(nodes, values.astype(int).tolist())
    )
    may = nodes % 4 == 0
    found = run(Remembering(), two_cliques(), labels, 3, may_leave_out=may)
    assert found.n_left_out == may.sum() == 5
    assert (found.fold[~may] == -1).all()
    assert len(seen) == 3
    assert all(set(nodes[~may].tolist()) <= each for each in seen)
    assert set.intersection(*seen) == set(nodes[~may].tolist())
    if found.scores is not None:
        assert np.isnan(found.scores[~may]).all()
        assert np.isfinite(found.scores[may]).all()


def test_numbers_are_dealt_by_size() -> None:
    values = np.random.default_rng(0).permutation(40).astype(float)
    fold, kept = deal_folds(RealLabels.from_pairs(np.arange(40), values), 4, seed=0)
    assert kept == ()
    for number in range(4):
        assert (np.diff(np.sort(values[fold == number])) == 4).all()


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_every_model_finds_the_labels_of_two_cliques(name: str) -> None:
    labels = Labels.from_pairs([1, 2, 3, 4, 11, 12, 13, 14], ["x"] * 4 + ["y"] * 4)
    found = run(CATALOGUE[name](), two_cliques(), labels, 4)
    assert (found.figure, found.mean, found.folds) == ("accuracy", 1.0, (1.0,) * 4)
    assert (found.n_left_out, found.n_unreachable, found.always_kept) == (8, 0, ())
    assert found.status is Status.CONVERGED


def test_leaving_one_out_is_solving_without_it() -> None:
    graph = random_graph(40, 0.1, seed=2).graph()
    model = HFS(graph_penalty=0.1)
    values = np.linspace(-1, 4, 8) ** 2
    labels = RealLabels.from_pairs(np.arange(0, 40, 5), values)
    squares = []
    for row in range(8):
        rest = labels.subset(np.delete(np.arange(8), row))
        scores = model.solve(model.prepare(graph), rest).scores
        squares.append((scores[labels.nodes[row], 0] - values[row]) ** 2)
    start = model.solve(model.prepare(graph), labels)
    for first in (None, start):
        found = run(model, graph, labels, 8, start=first)
        assert found.figure == "rmse"
        assert found.mean == pytest.approx(np.sqrt(np.mean(squares)), rel=1e-4)
        np.testing.assert_allclose(np.sort(found.folds), np.sort(np.sqrt(squares)), rtol=1e-3)


def test_a_class_with_one_label_keeps_it_and_is_named() -> None:
    labels = Labels.from_pairs([1, 2, 3, 11, 12, 13, 15], ["x"] * 3 + ["y"] * 3 + ["rare"])
    found = run(HFS(), two_cliques(), labels, 3)
    assert found.always_kept == ("rare",)
    assert found.n_left_out == 6


def test_a_label_that_no_other_reaches_is_wrong() -> None:
    labels = Labels.from_pairs([1, 2, 11, 12, 20], ["x", "x", "y", "y", "x"])
    found = run(HFS(graph_penalty=0), two_cliques(), labels, 5)
    assert found.n_unreachable == 1
    assert found.mean == 0.8


def test_labels_at_random_are_not_predicted() -> None:
    graph = random_graph(200, 0.05, seed=0).graph()
    rng = np.random.default_rng(0)
    nodes = rng.choice(200, 100, replace=False)
    found = run(HFS(), graph, Labels.from_pairs(nodes, rng.integers(0, 2, 100)), 5)
    assert 0.3 < found.mean < 0.7
    assert np.mean(found.folds) == pytest.approx(found.mean)


@pytest.mark.parametrize("n_folds", [1, 0, -3])
def test_fewer_than_two_folds_are_refused(n_folds: int) -> None:
    labels = RealLabels.from_pairs([0, 1, 2], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="must be at least 2"):
        run(HFS(), two_cliques(), labels, n_folds)


def test_a_cancelled_fold_ends_it() -> None:
    labels = RealLabels.from_pairs([0, 1, 2], [1.0, 2.0, 3.0])
    found = run(HFS(graph_penalty=1.0), two_cliques(), labels, 3, cancelled=lambda: True)
    assert found.status is Status.CANCELLED
    assert (found.folds, found.n_left_out) == ((), 0)


def test_a_fold_that_falls_short_is_told() -> None:
    graph = random_graph(200, 0.02, seed=0).graph()
    labels = RealLabels.from_pairs([0, 50, 100], [1.0, 2.0, 3.0])
    model = HFS(graph_penalty=1.0, max_iter=1, rtol=1e-9)
    assert run(model, graph, labels, 3).status is Status.MAX_ITER


def test_scores_left_out_are_those_of_solves_without_the_label() -> None:
    graph = two_cliques()
    labels = Labels.from_pairs([1, 2, 3, 11, 12, 13, 20], ["x"] * 3 + ["y"] * 3 + ["odd"])
    found = run(HFS(graph_penalty=0.1), graph, labels, 6)
    assert found.scores is not None
    for row in range(6):
        rest = labels.subset(np.delete(np.arange(7), row))
        scores = HFS(graph_penalty=0.1).solve(HFS().prepare(graph), rest).scores
        assert found.scores[row] == pytest.approx(scores[labels.nodes[row]], abs=1e-5)
    assert np.isnan(found.scores[6]).all()  # the only one of its class


def test_class_scores_left_out_are_on_the_scale_of_the_answer() -> None:
    graph = two_cliques()
    labels = Labels.from_pairs([1, 2, 3, 11, 12, 13], ["x"] * 3 + ["y"] * 3)
    model = CATALOGUE["poisson"]()
    answer = model.solve(model.prepare(graph), labels)
    found = run(model, graph, labels, 3, start=answer)
    bare = run(model, graph, labels, 3)
    assert found.scores is not None
    assert bare.scores is not None
    fold, _ = deal_folds(labels, 3, 0)
    for number in range(3):
        rest = model.solve(model.prepare(graph), labels.subset(np.flatnonzero(fold != number)))
        factor = np.sqrt(np.square(answer.scores).mean() / np.square(rest.scores).mean())
        rows = fold == number
        assert found.scores[rows] == pytest.approx(factor * bare.scores[rows], rel=1e-3)
        assert factor != pytest.approx(1.0, rel=0.01)


def test_labels_left_out_alone_in_their_component_have_no_score() -> None:
    labels = Labels.from_pairs([1, 2, 21, 11, 12], ["x", "x", "x", "y", "y"])  # 21 is isolated
    found = run(HFS(graph_penalty=0.1), two_cliques(), labels, 5)
    assert found.scores is not None
    assert np.isneginf(found.scores[labels.nodes == 21]).all()
    assert np.isfinite(found.scores[labels.nodes != 21]).all()


def test_numbers_have_no_scores() -> None:
    labels = RealLabels.from_pairs([1, 2, 11, 12], [0.0, 1.0, 2.0, 3.0])
    assert run(HFS(graph_penalty=0.1), two_cliques(), labels, 2).scores is None
