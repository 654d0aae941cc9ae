"""Sets against the slow obvious count, and against how often they should hold the true class."""

import numpy as np
import pytest

from peewit.solvers.assessment.conformal import (
    ConformalPValues,
    SetKind,
    groups_of,
    guaranteed_coverage,
)
from peewit.solvers.assessment.cross_validation import cross_validate
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.catalogue import CATALOGUE
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status

N_NODES = 900


def blocks(shares: list[float], seed: int, homophily: float = 0.75) -> tuple[Graph, np.ndarray]:
    rng = np.random.default_rng(seed)
    classes = rng.choice(len(shares), N_NODES, p=shares)
    u = rng.integers(0, N_NODES, 4 * N_NODES)
    v = np.empty_like(u)
    is_inside = rng.random(u.size) < homophily
    for own in range(len(shares)):
        mine = np.flatnonzero((classes[u] == own) & is_inside)
        v[mine] = rng.choice(np.flatnonzero(classes == own), mine.size)
    v[~is_inside] = rng.integers(0, N_NODES, (~is_inside).sum())
    ones = np.ones(np.count_nonzero(u != v))
    return Graph.from_edges(u[u != v], v[u != v], ones, n_nodes=N_NODES), classes


def labels_of(counts: dict[str, int]) -> Labels:
    names = [name for name, count in counts.items() for _ in range(count)]
    return Labels.from_pairs(np.arange(len(names)), names)


@pytest.mark.parametrize(
    ("counts", "kind", "groups"),
    [
        ({"a": 20, "b": 20, "c": 20}, "auto", [0, 0, 0]),
        ({"a": 24, "b": 6}, "auto", [0, 0]),
        ({"a": 25, "b": 6}, "auto", [1, 0]),
        ({"a": 60, "b": 30, "c": 10, "d": 4}, "auto", [1, 2, 0, 0]),
        ({"a": 60, "b": 30, "c": 10, "d": 4}, "by-class", [0, 1, 2, 3]),
        ({"a": 60, "b": 30, "c": 10, "d": 4}, "marginal", [0, 0, 0, 0]),
        ({"a": 18, "b": 2}, "auto", [0, 0]),
        ({"a": 30, "b": 12, "c": 1, "d": 5}, "auto", [1, 0, 2, 0]),
        ({"a": 30, "b": 12, "c": 1, "d": 5}, "marginal", [0, 0, 0, 0]),
    ],
)
def test_rare_classes_are_compared_with_each_other(
    counts: dict[str, int], kind: SetKind, groups: list[int]
) -> None:
    assert groups_of(labels_of(counts), kind).tolist() == groups


def test_only_labels_that_may_be_left_out_make_groups() -> None:
    labels = labels_of({"a": 60, "b": 60, "c": 60})
    may_leave_out = np.ones(180, bool)
    may_leave_out[65:120] = False  # of b five are left
    assert groups_of(labels, "auto", may_leave_out).tolist() == [1, 0, 2]
    may_leave_out[60:65] = False
    assert groups_of(labels, "auto", may_leave_out).tolist() == [0, 1, 2]
    assert groups_of(labels, "marginal", may_leave_out).tolist() == [0, 0, 0]


def test_nothing_is_promised_to_classes_of_which_no_label_is_left_out() -> None:
    graph, classes = blocks([0.5, 0.5], 0)
    nodes = np.arange(80)
    labels = Labels.from_pairs(nodes, ["ab"[each] for each in classes[nodes]])
    may_leave_out = labels.classes == 0
    model = CATALOGUE["hfs"]()
    values = ConformalPValues(
        labels=labels,
        n_nodes=N_NODES,
        groups=groups_of(labels, "marginal", may_leave_out),
        score_kind=model.score_kind,
    )
    prepared = model.prepare(graph)
    options = {"n_folds": 4, "may_leave_out": may_leave_out, "on_fold": values.add}
    cross_validate(model, prepared, labels, **options)
    assert values.unpromised.tolist() == [1]
    assert values.n_compared.tolist() == [may_leave_out.sum()] * 2


def test_the_theorem_promises_less_of_few_labels() -> None:
    assert guaranteed_coverage(0.9, 1_000_000, 10) == pytest.approx(0.8, abs=1e-3)
    assert guaranteed_coverage(0.9, 100, 100) == pytest.approx(0.8)  # as the jackknife+
    promised = [guaranteed_coverage(0.9, n_labels, 5) for n_labels in (10, 100, 1_000)]
    assert promised == sorted(promised)
    assert guaranteed_coverage(0.3, 20, 5) == 0.0
    assert guaranteed_coverage(0.9, 0, 5) == 1.0  # in every set


def test_p_values_count_labels_that_look_worse() -> None:
    rng = np.random.default_rng(0)
    labels = Labels.from_pairs(np.arange(12), ["a", "b", "c"] * 4)
    for kind in ("marginal", "by-class"):
        groups = groups_of(labels, kind)
        values = ConformalPValues(
            labels=labels, n_nodes=20, groups=groups, score_kind="class score"
        )
        n_worse, n_compared = np.zeros((20, 3)), np.zeros(3)
        for fold in range(3):
            left_out = np.arange(4 * fold, 4 * fold + 4)
            scores = rng.integers(0, 5, (20, 3)).astype(float)  # with ties
            reachable = rng.random(20) < 0.8
            solution = Solution(
                scores=scores, reachable=reachable, status=Status.CONVERGED, stats={}
            )
            values.add(left_out, solution)

            def behind(node: int, code: int, scores: np.ndarray = scores) -> float:
                others = [scores[node, each] for each in range(3) if each != code]
                return max(others) - scores[node, code]

            for node in range(20):
                for code in range(3):
                    for place in left_out.tolist():
                        true = labels.classes[place]
                        if not reachable[place] or groups[true] != groups[code]:
                            continue
                        is_worse = behind(place, true) >= behind(node, code)
                        n_worse[node, code] += is_worse or not reachable[node]
            for place in left_out[reachable[left_out]].tolist():
                n_compared += groups == groups[labels.classes[place]]
        np.testing.assert_array_equal(values.n_compared, n_compared)
        found = values.values(np.arange(20) != 7)
        expected = (n_worse + 1) / (n_compared + 1)
        expected[7] = 1.0
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_class_of_one_label_is_in_every_set_or_is_promised_nothing() -> None:
    graph, classes = blocks([0.5, 0.3, 0.2], seed=1)
    nodes = np.concatenate([np.flatnonzero(classes == 0)[:30], np.flatnonzero(classes == 1)[:15]])
    labels = Labels.from_pairs(
        np.append(nodes, np.flatnonzero(classes == 2)[0]), [*classes[nodes].tolist(), 2]
    )
    model = CATALOGUE["poisson"]()
    for kind, unpromised in (("auto", []), ("by-class", []), ("marginal", [2])):
        values = ConformalPValues(
            labels=labels,
            n_nodes=N_NODES,
            groups=groups_of(labels, kind),
            score_kind=model.score_kind,
        )
        cross_validate(model, model.prepare(graph), labels, n_folds=5, on_fold=values.add)
        assert values.unpromised.tolist() == unpromised
        of_single = values.values(np.ones(N_NODES, bool))[:, 2]
        assert (of_single == 1.0).all() == (not unpromised)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["auto", "poisson", "stable-hfs"])
@pytest.mark.parametrize("kind", ["marginal", "by-class"])
def test_sets_hold_the_true_class_as_often_as_asked(model: str, kind: SetKind) -> None:
    graph, classes = blocks([0.5, 0.3, 0.2], seed=1)
    chosen = CATALOGUE[model]()
    prepared = chosen.prepare(graph)
    of_all, of_rarest = [], []
    for seed in range(12):
        nodes = np.random.default_rng(seed).choice(N_NODES, 120, replace=False)
        labels = Labels.from_pairs(nodes, classes[nodes].tolist())
        values = ConformalPValues(
            labels=labels,
            n_nodes=N_NODES,
            groups=groups_of(labels, kind),
            score_kind=chosen.score_kind,
        )
        cross_validate(chosen, prepared, labels, n_folds=5, seed=seed, on_fold=values.add)
        is_in = values.values(np.ones(N_NODES, bool)) > 0.1
        others = np.setdiff1d(np.arange(N_NODES), nodes)
        is_right = is_in[others, classes[others]]
        of_all.append(is_right.mean())
        of_rarest.append(is_right[classes[others] == 2].mean())
        assert is_in[others].sum(axis=1).mean() < 2.9
    assert 0.88 < np.mean(of_all) < 0.96
    if kind == "by-class":
        assert np.mean(of_rarest) > 0.88
