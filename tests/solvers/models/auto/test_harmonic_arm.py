"""Harmonic functions in auto: beside dense twins, for changed labels, and left out."""

from typing import Any

import numpy as np
import pytest

from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import UNWATCHED, RunStopped, Watch
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto import auto
from peewit.solvers.models.auto import harmonic_arm as auto_harmonic
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.auto.harmonic_arm import HarmonicOutcome, harmonic_arm, screening
from peewit.solvers.models.auto.poisson_arm import Potentials
from peewit.solvers.models.auto.preparation import PreparedAuto
from peewit.solvers.models.left_out.label_groups import LabelGroups
from peewit.solvers.status import Status
from tests.data_sets import accuracy
from tests.reference.harmonic import ends_at_other_folds, hfs_scores
from tests.reference.laplacian import dense_laplacian
from tests.solvers.models.auto.test_auto import blocks, labels_at


def grid(side: int, *, weights: bool = False, parts: int = 1) -> tuple[Graph, np.ndarray]:
    """Grids beside one another, of stripes of three classes."""
    place = np.arange(side * side).reshape(side, side)
    u = np.concatenate([place[:, :-1].ravel(), place[:-1].ravel()])
    v = np.concatenate([place[:, 1:].ravel(), place[1:].ravel()])
    weight = np.random.default_rng(0).uniform(0.2, 2.0, u.size) if weights else np.ones(u.size)
    shift = side * side * np.arange(parts)[:, None]
    graph = Graph.from_edges(
        (u + shift).ravel(),
        (v + shift).ravel(),
        np.tile(weight, parts),
        n_nodes=parts * side * side,
    )
    return graph, np.tile(np.arange(side * side) // side * 3 // side, parts)


def some_labels(classes: np.ndarray, n_labels: int, *, seed: int = 0) -> Labels:
    """A random sample, numbered alike for all its prefixes."""
    nodes = np.random.default_rng(seed).permutation(classes.size)[:n_labels]
    return labels_at(np.sort(nodes), classes)


def arm_of(prepared: PreparedAuto, labels: Labels, *, rtol: float = 1e-5) -> HarmonicOutcome:
    groups = LabelGroups.of(labels, prepared.graph.n_nodes)
    poisson = Potentials.of(prepared, groups, UNWATCHED, rtol=1e-6, max_iter=1_000)
    return harmonic_arm(prepared, poisson, UNWATCHED, rtol=rtol, max_iter=1_000)


@pytest.mark.slow
@pytest.mark.parametrize("n_labels", [15, 60])
@pytest.mark.parametrize("width", [30, 2])
def test_the_arm_is_the_hard_harmonic_function(
    n_labels: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, classes = grid(18, weights=True, parts=2)
    labels = some_labels(classes, n_labels)
    monkeypatch.setattr(auto_harmonic, "LEAST_SCREENING", 0.0)
    monkeypatch.setattr(PreparedAuto, "width", width)
    prepared = Auto().prepare(graph)
    groups = LabelGroups.of(labels, graph.n_nodes)
    assert groups.is_single == (n_labels < 30)
    found = arm_of(prepared, labels)
    assert found.stats["harmonic"] == "anew"
    expected = hfs_scores(graph, labels, 0.0)
    np.testing.assert_allclose(prepared.harmonic_cache.last_shares, expected, atol=1e-3)
    logs = np.log(expected + 0.05)
    logs -= logs.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(found.arm.values, logs, atol=0.02)
    fold = np.arange(n_labels) if groups.is_single else groups.fold
    left_out = ends_at_other_folds(graph, labels, fold)
    used = groups.usable
    assert used.size > 0.8 * n_labels
    np.testing.assert_allclose(prepared.harmonic_cache.left_out[used], left_out[used], atol=0.01)


@pytest.mark.slow
def test_the_loose_solve_gives_nearly_all_nodes_the_exact_class() -> None:
    graph, classes = grid(60)
    labels = some_labels(classes, 60)
    prepared = Auto().prepare(graph)
    found = arm_of(prepared, labels, rtol=1e-2)
    expected = hfs_scores(graph, labels, 0.0)
    assert (found.arm.values.argmax(axis=1) == expected.argmax(axis=1)).mean() > 0.99


@pytest.mark.parametrize("change", ["more", "another class", "fewer", "all three", "none"])
def test_functions_of_changed_labels_are_those_of_a_first_solve(change: str) -> None:
    graph, classes = grid(18, weights=True, parts=2)
    nodes = np.random.default_rng(1).permutation(classes.size)[:101]
    before = labels_at(np.sort(nodes[:100]), classes)
    prepared = Auto().prepare(graph)
    arm_of(prepared, before)
    was_left_out, shares = prepared.harmonic_cache.left_out, prepared.harmonic_cache.last_shares
    codes = classes.copy()
    if change in ("another class", "all three"):
        codes[nodes[5]] = (codes[nodes[5]] + 1) % 3
    first, last = (
        1 if change in ("fewer", "all three") else 0,
        101 if change in ("more", "all three") else 100,
    )
    labels = labels_at(np.sort(nodes[first:last]), codes)
    found = arm_of(prepared, labels)
    assert found.stats["harmonic"] == "repeated"
    expected = hfs_scores(graph, labels, 0.0)
    np.testing.assert_allclose(prepared.harmonic_cache.last_shares, expected, atol=2e-3)
    left_out = prepared.harmonic_cache.left_out_of(LabelGroups.of(labels, graph.n_nodes))
    same = np.isin(labels.nodes, before.nodes)
    own = left_out[: labels.n_labeled]
    was_left_out = was_left_out[: before.n_labeled]
    np.testing.assert_array_equal(own[same], was_left_out[np.isin(before.nodes, labels.nodes)])
    new = np.flatnonzero(~same)  # what was said of them before
    np.testing.assert_allclose(own[new], shares[labels.nodes[new]], atol=0.01)


def test_many_changes_begin_anew() -> None:
    graph, classes = grid(40)
    nodes = np.random.default_rng(1).permutation(classes.size)
    prepared = Auto().prepare(graph)
    made = [
        arm_of(prepared, labels_at(np.sort(nodes[:n_labels]), classes)).stats["harmonic"]
        for n_labels in (200, 208, 210, 219, 230)
    ]
    # nine at once are more than a cycle is amended by; 230 are too many since 219 began anew
    assert made == ["anew", "repeated", "repeated", "anew", "anew"]


@pytest.mark.parametrize("n_labels", [12, 90])
def test_screening_is_that_of_dense_potentials(n_labels: int) -> None:
    graph, classes = grid(15)
    labels = some_labels(classes, n_labels)
    prepared = Auto().prepare(graph)
    groups = LabelGroups.of(labels, graph.n_nodes)
    poisson = Potentials.of(prepared, groups, UNWATCHED, rtol=1e-6, max_iter=1_000)
    green = np.linalg.pinv(dense_laplacian(graph))
    share = graph.degree / graph.degree.sum()
    green -= share @ green  # of mean 0 by degree
    columns = np.stack([green[:, nodes].sum(axis=1) for nodes in groups.members()])
    own = columns[groups.group, labels.nodes].mean()
    expected = np.square(columns).mean(axis=1).sum() / own**2
    assert screening(poisson) == pytest.approx(expected, rel=1e-3)


def test_labels_that_do_not_hide_one_another_need_no_harmonic_function() -> None:
    graph, classes = blocks([400, 300], 0.8)
    solution = Auto().solve(Auto().prepare(graph), some_labels(classes, 40))
    assert solution.stats["harmonic"] == "left out"
    assert solution.stats["screening"] < 0.1
    assert "loo_harmonic" not in solution.stats
    assert "belief_harmonic" not in solution.stats


def test_labels_that_cannot_be_left_out_judge_no_harmonic_function() -> None:
    graph, classes = grid(40)
    labels = labels_at(np.array([20, 800, 1_500]), classes)
    found = arm_of(Auto().prepare(graph), labels)
    assert (found.arm, found.stats["harmonic"]) == (None, "left out")


def test_weights_that_lie_far_apart_have_no_harmonic_arm() -> None:
    graph, classes = grid(60)
    weight = graph.adjacency.copy()
    is_upper = np.arange(graph.n_nodes) < 1_800
    rows = np.repeat(np.arange(graph.n_nodes), np.diff(weight.indptr))
    weight.data = np.where(is_upper[rows] == is_upper[weight.indices], 1.0, 1e-12)
    prepared = Auto().prepare(Graph.from_adjacency(weight))
    assert prepared.base.kernel.solver.is_blind
    found = arm_of(prepared, some_labels(classes, 60))
    assert (found.arm, found.stats["harmonic"]) == (None, "left out")


def test_functions_that_did_not_converge_are_left_out_and_the_job_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, classes = grid(60)
    model, labels = Auto(), some_labels(classes, 60)
    prepared = model.prepare(graph)

    def hurried(*arguments: Any, rtol: float, max_iter: int) -> HarmonicOutcome:
        assert (rtol, max_iter) == (model.rtol, model.max_iter)
        return harmonic_arm(*arguments, rtol=rtol, max_iter=1)

    with monkeypatch.context() as patch:
        patch.setattr(auto, "harmonic_arm", hurried)
        solution = model.solve(prepared, labels)
    assert solution.status is Status.CONVERGED
    assert solution.stats["harmonic"] == "not converged"
    assert "loo_harmonic" not in solution.stats
    assert any("harmonic functions" in warning for warning in solution.warnings)
    assert prepared.harmonic_cache is None
    settled = model.solve(prepared, labels)
    assert (settled.stats["harmonic"], settled.warnings) == ("anew", ())


def test_a_change_that_did_not_converge_begins_anew_or_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, classes = grid(40)
    prepared = Auto().prepare(graph)
    arm_of(prepared, some_labels(classes, 100))
    calls = []

    def failing(*arguments: object) -> None:
        calls.append(arguments)

    monkeypatch.setattr(auto_harmonic, "_harmonic", failing)
    found = arm_of(prepared, some_labels(classes, 101))
    assert len(calls) == 2
    assert (found.arm, found.stats["harmonic"]) == (None, "not converged")
    assert prepared.harmonic_cache is None


def test_a_stop_is_one() -> None:
    graph, classes = grid(40)
    prepared = Auto().prepare(graph)
    groups = LabelGroups.of(some_labels(classes, 60), graph.n_nodes)
    poisson = Potentials.of(prepared, groups, UNWATCHED, rtol=1e-6, max_iter=1_000)
    with pytest.raises(RunStopped):
        harmonic_arm(prepared, poisson, Watch(cancelled=lambda: True), rtol=1e-4, max_iter=1_000)


@pytest.mark.slow
def test_on_a_grid_labels_far_from_most_nodes_are_read_by_harmonic_functions() -> None:
    """Which are right where densities reach nothing and potentials weigh every label alike."""
    graph, classes = grid(120)
    model, right = Auto(walks="anew"), []
    for seed in range(3):
        labels = some_labels(classes, 60, seed=seed)
        solution = model.solve(model.prepare(graph), labels)
        assert solution.stats["belief"] == "harmonic"
        assert solution.stats["loo_harmonic"] >= solution.stats["loo_poisson"]
        right.append(accuracy(solution.scores, classes, labels.nodes))
    assert np.mean(right) > 0.88


def test_functions_that_are_not_kept_are_made_anew() -> None:
    graph, classes = grid(40)
    model = Auto()
    prepared = model.prepare(graph, kept_bytes=1_000)
    labels = some_labels(classes, 100)
    for _ in range(2):
        assert model.solve(prepared, labels).stats["harmonic"] == "anew"
    assert prepared.harmonic_cache is None
