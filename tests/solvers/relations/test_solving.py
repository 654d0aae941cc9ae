"""Models on relations: identities, mixtures of answers, left-out folds and warm solves."""

import numpy as np
import pytest

from peewit.solvers.assessment.cross_validation import cross_validate
from peewit.solvers.labels import Labels, RealLabels, deal_folds
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.harmonic.harmonic import HFS
from peewit.solvers.models.linear.filtered_ridge import FilteredRidge
from peewit.solvers.relations.relation_graphs import RelationGraphs
from peewit.solvers.relations.solving import RelationModel, RelationSolution
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status
from tests.solvers.relations.made import edges_of, graph_of, labels_of, made


def solved(model: Model, relations: RelationGraphs, labels: Labels) -> Solution:
    on_relations = RelationModel(model=model)
    return on_relations.solve(on_relations.prepare(relations), labels)


@pytest.mark.parametrize(
    "model", [Auto(), HFS(), FilteredRidge()], ids=lambda each: type(each).__name__
)
def test_one_relation_is_solved_as_its_graph(model: Model) -> None:
    relations, classes = made({"a": 0.8})
    labels = labels_of(classes, 6)
    own = model.solve(model.prepare(relations.graphs[0]), labels)
    found = solved(model, relations, labels)
    assert np.array_equal(found.scores, own.scores)
    assert found.stats == own.stats


@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_given_weights_are_those_of_the_graph_and_their_scale_changes_nothing(scale: float) -> None:
    relations, classes = made({"a": 0.8, "b": 0.5})
    labels = labels_of(classes, 6)
    model = RelationModel(model=Auto(), weights=(scale, 3.0 * scale))
    found = model.solve(model.prepare(relations), labels)
    graph = relations.combined((1.0, 3.0))
    own = Auto().solve(Auto().prepare(graph), labels)
    # square roots of weights are rounded, of 8 too
    np.testing.assert_allclose(found.scores, own.scores, atol=0.0 if scale == 1.0 else 1e-5)
    assert (found.scores.argmax(axis=1) == own.scores.argmax(axis=1)).all()
    assert isinstance(found, RelationSolution)
    assert found.choice.candidates == ()


def test_auto_averages_the_best_two_and_others_take_the_best() -> None:
    rng = np.random.default_rng(1)
    classes = np.arange(600) % 3
    sizes = {"large": 1_800, "small": 300}
    relations = RelationGraphs.of(
        {name: graph_of(*edges_of(classes, n, 0.7, rng), 600) for name, n in sizes.items()}
    )
    labels = labels_of(classes, 1)  # of which none can be left out
    found = solved(Auto(), relations, labels)
    assert isinstance(found, RelationSolution)
    parts = [
        Auto().solve(Auto().prepare(relations.combined(each.weights)), labels)
        for each in found.choice.used
    ]
    assert len(parts) == 2
    both = parts[0].reachable & parts[1].reachable
    np.testing.assert_allclose(found.scores[both], ((parts[0].scores + parts[1].scores) / 2)[both])
    best = solved(HFS(), relations, labels)
    own = HFS().solve(HFS().prepare(relations.combined((1.0, 1.0))), labels)
    assert np.array_equal(best.scores, own.scores)


def test_whole_models_say_how_much_each_combination_counts() -> None:
    rng = np.random.default_rng(2)
    classes = np.arange(600) % 3
    kinds = {"large": (1_800, 0.5), "small": (600, 0.6)}
    relations = RelationGraphs.of(
        {name: graph_of(*edges_of(classes, *kind, rng), 600) for name, kind in kinds.items()}
    )
    labels = labels_of(classes, 6)
    found = solved(Auto(), relations, labels)
    assert isinstance(found, RelationSolution)
    used = found.choice.used
    parts = [
        Auto().solve(Auto().prepare(relations.combined(each.weights)), labels) for each in used
    ]
    losses = []
    for part in parts:
        assert part.left_out is not None
        at_labels = part.left_out.scores[np.arange(18), labels.classes[part.left_out.places]]
        losses.append(-np.log(at_labels))
    assert len(losses) == 2
    is_first_better = losses[0].sum() < losses[1].sum()
    assert (used[0].belief > used[1].belief) == is_first_better
    both = parts[0].reachable & parts[1].reachable
    whole = sum(each.belief * part.scores for each, part in zip(used, parts, strict=True))
    np.testing.assert_allclose(found.scores[both], whole[both], atol=1e-6)


def test_a_node_that_one_combination_reaches_is_predicted_by_it() -> None:
    rng = np.random.default_rng(1)
    classes = np.arange(300) % 3
    u, v = edges_of(classes, 900, 0.9, rng)
    inner = (u < 270) & (v < 270)
    graphs = {
        "most": graph_of(u[inner], v[inner], 300),
        "all": graph_of(*edges_of(classes, 900, 0.6, rng), 300),
    }
    relations = RelationGraphs.of(graphs)
    labels = Labels.from_pairs(np.arange(60), classes[:60])
    for choice in (found := solved(Auto(), relations, labels)).choice.used:
        graph = relations.combined(choice.weights)
        own = Auto().solve(Auto().prepare(graph), labels)
        assert found.reachable[own.reachable].all()
    np.testing.assert_allclose(found.scores.sum(axis=1), 1.0)


def test_left_out_labels_have_no_say_in_the_weights() -> None:
    relations, classes = made({"a": 0.8, "b": 0.4})
    labels = labels_of(classes, 8)
    fold, _ = deal_folds(labels, 4, 0)
    model = RelationModel(model=HFS())
    prepared = model.prepare(relations)
    without = model.solve_without(prepared, labels, fold, 2)
    fresh = solved(HFS(), relations, labels.subset(np.flatnonzero(fold != 2)))
    assert isinstance(without, RelationSolution)
    assert isinstance(fresh, RelationSolution)
    assert without.choice.candidates == fresh.choice.candidates
    np.testing.assert_allclose(without.scores, fresh.scores, atol=1e-4)
    judged = cross_validate(
        RelationModel(model=Auto()), model.prepare(relations), labels, n_folds=4
    )
    assert judged.mean > 0.6


def test_a_warm_solve_is_near_that_from_scratch() -> None:
    relations, classes = made({"a": 0.7, "b": 0.5, "c": 0.5}, n_nodes=900)
    labels = labels_of(classes, 7)
    model = RelationModel(model=Auto())
    prepared = model.prepare(relations)
    before = model.solve(prepared, labels)
    node = int(np.setdiff1d(np.arange(900), labels.nodes)[0])
    nodes = np.append(labels.nodes, node)
    more = Labels.from_pairs(nodes, classes[nodes])
    warm, fresh = model.solve(prepared, more), solved(Auto(), relations, more)
    assert isinstance(warm, RelationSolution)
    assert isinstance(before, RelationSolution)
    assert warm.choice is before.choice
    np.testing.assert_allclose(warm.scores.sum(axis=1), 1.0)
    assert (warm.scores.argmax(axis=1) == fresh.scores.argmax(axis=1)).mean() > 0.9
    anew = RelationModel(model=Auto(walks="anew"))
    at_hand = anew.prepare(relations)
    anew.solve(at_hand, labels)
    apart = solved(Auto(walks="anew"), relations, more)
    assert (anew.solve(at_hand, more).scores.argmax(axis=1) == apart.scores.argmax(axis=1)).all()


def test_numbers_are_predicted_on_relations_as_they_come() -> None:
    relations, classes = made({"a": 0.8, "b": 0.5})
    labels = RealLabels.from_pairs(np.arange(60), classes[:60].astype(float))
    model = RelationModel(model=HFS())
    found = model.solve(model.prepare(relations), labels)
    graph = relations.combined((1.0, 1.0))
    assert np.array_equal(found.scores, HFS().solve(HFS().prepare(graph), labels).scores)


def test_a_cancelled_choice_is_told_as_a_cancelled_solve() -> None:
    relations, classes = made({"a": 0.8, "b": 0.5})
    model = RelationModel(model=Auto())
    labels = labels_of(classes, 5)
    found = model.solve(model.prepare(relations), labels, cancelled=lambda: True)
    assert found.status is Status.CANCELLED
    assert found.scores.shape == (600, 3)


def test_columns_of_nearly_the_same_labels_choose_and_answer_for_themselves() -> None:
    relations, _ = made({"a": 0.8, "b": 0.5})
    nodes = np.sort(np.random.default_rng(0).choice(600, 60, replace=False))
    columns = []
    for shift in (0, 1):
        flags = np.where(np.arange(60) % 20 == shift, 1, 0)
        columns.append(Labels.from_pairs(nodes, flags))
    model = RelationModel(model=Auto())
    together = model.solve_many(model.prepare(relations), columns)
    for labels, found in zip(columns, together, strict=True):
        alone = solved(Auto(), relations, labels)
        assert isinstance(found, RelationSolution)
        assert isinstance(alone, RelationSolution)
        assert found.choice.labels is labels
        assert found.choice.candidates[0].loss == alone.choice.candidates[0].loss
