"""Class shares that are given: as text, of some classes, and what `auto` makes of them."""

import numpy as np
import pytest

from peewit.solvers.estimators import Auto as AutoEstimator
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.classes.class_balance import completed_shares
from peewit.solvers.models.classes.macro_f1 import macro_f1_decision
from peewit.solvers.models.poisson.poisson import Poisson

LABELS = Labels.from_pairs([0, 1, 2, 3, 4, 5], ["a", "a", "a", "b", "b", "c"])


def noisy_blocks(
    sizes: tuple[int, ...], *, seed: int = 0, n_alone: int = 0, inside_share: float = 0.6
) -> Graph:
    """Blocks within which so much of the edges stay, and pairs of nodes apart."""
    rng = np.random.default_rng(seed)
    block = np.repeat(np.arange(len(sizes)), sizes)
    u = rng.integers(0, block.size, 6 * block.size)
    first = np.r_[0, np.cumsum(sizes)][:-1]
    inside = first[block[u]] + rng.integers(0, np.array(sizes)[block[u]])
    v = np.where(rng.random(u.size) < inside_share, inside, rng.integers(0, block.size, u.size))
    different = u != v
    n_nodes = block.size + 2 * n_alone
    apart = block.size + 2 * np.arange(n_alone)
    ends = np.r_[u[different], apart], np.r_[v[different], apart + 1]
    return Graph.from_edges(*ends, np.ones(ends[0].size), n_nodes=n_nodes)


def even_labels(sizes: tuple[int, ...], n_each: int, *, seed: int = 0) -> Labels:
    rng, nodes = np.random.default_rng(seed), []
    for first, size in zip(np.r_[0, np.cumsum(sizes)], sizes, strict=False):
        nodes.append(first + rng.choice(size, n_each, replace=False))
    names = [f"c{k}" for k in range(len(sizes)) for _ in range(n_each)]
    return Labels.from_pairs(np.concatenate(nodes), names)


def test_classes_without_a_share_have_the_rest_as_labels_have_them() -> None:
    found = completed_shares("class_shares", {"c": 0.1}, LABELS)
    assert found == pytest.approx([0.9 * 3 / 5, 0.9 * 2 / 5, 0.1])


def test_shares_of_all_classes_are_proportions() -> None:
    found = completed_shares("class_shares", {"a": 2, "b": 1, "c": 1}, LABELS)
    assert found == pytest.approx([0.5, 0.25, 0.25])


def test_shares_of_the_labels_are_counted() -> None:
    assert completed_shares("class_shares", "labels", LABELS) == pytest.approx(LABELS.class_prior())
    assert completed_shares("class_shares", "estimated", LABELS) is None


def test_shares_that_leave_nothing_or_name_no_class_are_refused() -> None:
    with pytest.raises(ValueError, match="must leave a part of 1 to classes without a share, as"):
        completed_shares("class_shares", {"a": 0.7, "b": 0.3}, LABELS)
    with pytest.raises(ValueError, match="must name a class that is labeled, got d; labels have a"):
        completed_shares("class_shares", {"d": 0.7}, LABELS)


def test_shares_may_be_text_in_every_model_that_takes_them() -> None:
    assert Auto(class_shares="fraud=.02, a=b=.1").class_shares == {"fraud": 0.02, "a=b": 0.1}
    assert Poisson(class_balance="x=2,y=1").class_balance == {"x": 2.0, "y": 1.0}
    for text, message in (
        ("fraud=two", "must read CLASS=SHARE,... with numbers such as .02, got 'fraud=two'"),
        ("=.2", "must read CLASS=SHARE,..., each class once, got '=.2'"),
        ("a=.1,a=.2", "each class once"),
        ("a=0", "must hold finite numbers > 0, got 0"),
        ("known", "must be 'estimated' or 'labels' or shares by class"),
    ):
        with pytest.raises(ValueError, match=message):
            Auto(class_shares=text)


def test_known_shares_reweigh_nodes_labels_left_out_and_nodes_apart() -> None:
    sizes = (190, 10)
    graph, labels = noisy_blocks(sizes, n_alone=3), even_labels(sizes, 6)
    plain, given = Auto(), Auto(class_shares={"c1": 0.05})
    prepared = plain.prepare(graph)
    before, after = plain.solve(prepared, labels), given.solve(prepared, labels)
    assert after.class_shares == pytest.approx([0.95, 0.05])
    # labels are even, so that fits believe even shares
    expected = before.scores * [0.95, 0.05]
    expected /= expected.sum(axis=1, keepdims=True)
    reached = after.reachable
    np.testing.assert_allclose(after.scores[reached], expected[reached], atol=1e-9)
    np.testing.assert_allclose(after.scores[~reached], np.tile([0.95, 0.05], (6, 1)))
    assert before.left_out is not None
    assert after.left_out is not None
    odds = after.left_out.scores / before.left_out.scores
    np.testing.assert_allclose(odds[:, 1] / odds[:, 0], 0.05 / 0.95)
    assert (before.stats["class_shares"], after.stats["class_shares"]) == ("of labels", "known")


def test_shares_of_the_labels_are_counted_and_not_estimated() -> None:
    sizes = (300, 60)
    graph, labels = noisy_blocks(sizes), even_labels(sizes, 30)
    estimated = Auto().solve(Auto().prepare(graph), labels)
    counted = Auto(class_shares="labels").solve(Auto().prepare(graph), labels)
    assert estimated.stats["class_shares"] == "estimated"
    assert counted.stats["class_shares"] == "counted"
    assert any("class_shares=labels takes" in each for each in counted.warnings)
    assert estimated.scores[:, 1].mean() < counted.scores[:, 1].mean() - 0.03


def test_a_class_that_no_label_has_is_told() -> None:
    sizes = (60, 60)
    found = Auto(class_shares={"c0": 0.5, "other": 0.2}).solve(
        Auto().prepare(noisy_blocks(sizes)), even_labels(sizes, 4)
    )
    assert any("class_shares names 'other', which no label has" in each for each in found.warnings)


def test_the_objective_changes_labels_and_no_probability() -> None:
    sizes = (260, 40)
    graph, labels = noisy_blocks(sizes, inside_share=0.3), even_labels(sizes, 5)
    shares = {"c1": 40 / 300}
    prepared = Auto().prepare(graph)
    plain = Auto(class_shares=shares).solve(prepared, labels)
    aimed = Auto(class_shares=shares, objective="macro-f1").solve(prepared, labels)
    np.testing.assert_array_equal(plain.scores, aimed.scores)
    assert plain.decision is None
    assert aimed.decision is not None
    assert (plain.classes() != aimed.classes()).any()
    rule = macro_f1_decision(aimed, labels)
    np.testing.assert_array_equal(rule.weight, aimed.decision.weight)


@pytest.mark.parametrize("objective", ["accuracy", "macro-f1"])
def test_every_method_of_the_estimator_agrees_on_labels(objective: str) -> None:
    rng = np.random.default_rng(0)
    points = np.r_[rng.normal(0.0, 1.0, (120, 2)), rng.normal(1.7, 1.0, (20, 2))]
    y = np.full(140, -1)
    y[:5], y[120:125] = 0, 1
    fitted = AutoEstimator(
        objective=objective, class_shares={1: 1 / 7}, affinity="knn", n_neighbors=8
    ).fit(points, y)
    predicted = fitted.predict(nodes=range(140))
    np.testing.assert_array_equal(predicted, fitted.transduction_)
    table = fitted.predictions().to_arrow()
    assert table["label"].to_pylist() == predicted.tolist()
    assert min(table["margin"].to_pylist()) >= 0.0
    own = fitted.predict_proba(nodes=range(140))[np.arange(140), predicted]
    np.testing.assert_allclose(table["probability"].to_numpy(), own)
    largest = fitted.label_distributions_.argmax(axis=1)
    assert (predicted == largest).all() == (objective == "accuracy")
    assert fitted.predict(points[:3] + 1e-9).shape == (3,)
