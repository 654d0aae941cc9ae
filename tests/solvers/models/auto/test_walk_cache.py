"""Labels that change one after another: what is kept of the solve before, and what that costs."""

from dataclasses import replace

import numpy as np
import pytest

from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import UNWATCHED, RunStopped, Watch
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.auto.density_arm import Densities
from peewit.solvers.models.auto.poisson_arm import Potentials
from peewit.solvers.models.auto.walk_cache import WalkCache
from peewit.solvers.models.classes.centering import CenteredLabels
from peewit.solvers.models.harmonic.harmonic_mbo import HarmonicMBO, WalkStart
from peewit.solvers.models.harmonic.threshold_dynamics import Walk
from peewit.solvers.models.left_out.label_groups import GroupColumns, LabelGroups, Starts
from tests.data_sets import accuracy
from tests.solvers.models.auto.test_auto import blocks, labels_at, rings


def grown(n_nodes: int, n_labels: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes at random, and the same with one more."""
    nodes = np.random.default_rng(seed).permutation(n_nodes)[: n_labels + 1]
    return np.sort(nodes[:-1]), np.sort(nodes)


def cached_walks(graph: Graph, labels: Labels, *, n_steps: int = 3) -> WalkCache:
    """Of walks that ended as they began."""
    groups = LabelGroups.of(labels, graph.n_nodes)
    first = np.arange(graph.n_nodes, dtype=np.uint8) % labels.n_classes
    task = CenteredLabels.of(labels, graph.component)
    return WalkCache.of(
        groups,
        "poisson",
        WalkStart(task=task, labels=labels, first=first),
        Walk(classes=first, n_steps=n_steps),
        np.tile([0.25, 0.75], (groups.left_out_nodes.size, 1)),
        np.tile([0.6, 0.4], (graph.n_nodes, 1)),
    )


@pytest.mark.parametrize("seed", range(8))
def test_a_label_more_is_another_column_for_one_group(seed: int) -> None:
    classes = np.random.default_rng(seed).integers(0, 3, 5_000)
    before, after = (
        set(LabelGroups.of(labels_at(nodes, classes), 5_000).keys())
        for nodes in grown(5_000, 400, seed=seed)
    )
    assert len(after - before) == len(before - after) == 1


def test_no_fold_holds_a_class_however_a_hash_deals_it() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        classes = np.repeat(np.arange(4), [40, 6, 3, 2])
        labels = Labels.from_pairs(rng.choice(100_000, classes.size, replace=False), classes)
        groups = LabelGroups.of(labels, 100_000)
        assert not groups.is_single
        assert groups.n_folds > 1
        for fold in range(groups.n_folds):
            assert np.unique(groups.without(fold).classes).size == 4


def test_columns_start_from_the_sums_of_those_of_their_nodes() -> None:
    columns, told = GroupColumns(kept_bytes=1 << 20), []

    def make(members: list[np.ndarray], starts: Starts | None) -> np.ndarray:
        told.append(starts)
        block = np.zeros((len(members), 40), np.float32)
        for row, nodes in zip(block, members, strict=True):
            row[nodes] = 1.0
        return block

    nodes = np.arange(30)
    few = Labels.from_pairs(nodes[:29], nodes[:29] % 2)
    assert LabelGroups.of(few, 40).is_single
    columns.of(LabelGroups.of(few, 40), make)
    assert told == [None]
    with_more = Labels.from_pairs(np.arange(31), np.arange(31) % 2)
    groups = LabelGroups.of(with_more, 40)
    assert not groups.is_single
    found = columns.of(groups, make)
    starts = told[1]
    np.testing.assert_array_equal(found.sum(axis=0), np.arange(40) < 31)
    np.testing.assert_array_equal(starts.columns.sum(axis=0), np.arange(40) < 29)
    np.testing.assert_array_equal(np.sort(np.concatenate(starts.changed)), [29, 30])


@pytest.mark.parametrize("n_labels", [12, 90])
@pytest.mark.parametrize("moved", [False, True])
def test_columns_of_changed_labels_are_those_of_a_first_solve(n_labels: int, moved: bool) -> None:
    graph, classes = blocks([250, 150, 100], 0.8)
    first, more = grown(500, n_labels, seed=1)
    model = Auto(rtol=1e-6)
    kept = model.prepare(graph)
    model.solve(kept, labels_at(first, classes))
    labels = labels_at(more, classes)
    if moved:
        codes = labels.classes.copy()
        codes[4] = (codes[4] + 1) % 3
        labels = Labels.from_pairs(more, codes)
    groups = LabelGroups.of(labels, graph.n_nodes)
    found, expected = (
        (
            Potentials.of(prepared, groups, UNWATCHED, rtol=1e-6, max_iter=1_000).columns,
            Densities.of(prepared, groups, UNWATCHED).columns,
        )
        for prepared in (kept, model.prepare(graph))
    )
    for one, other, atol in zip(found, expected, (1e-4, 2e-3), strict=True):
        np.testing.assert_allclose(one, other, atol=atol * float(np.abs(other).max()))


@pytest.mark.parametrize("homophily", [0.95, 0.5])
def test_a_repeated_walk_is_the_last_one_that_was_kept(homophily: float) -> None:
    """Where rounds help, and where none is kept."""
    graph, classes = blocks([300, 200], homophily)
    labels = labels_at(grown(500, 40, seed=2)[0], classes)
    prepared = HarmonicMBO().prepare(graph)
    task = CenteredLabels.of(labels, graph.component)
    first = (classes ^ (np.random.default_rng(0).random(500) < 0.2)).astype(np.uint8)
    start = WalkStart(task=task, labels=labels, first=first)
    outcome, (shares,) = HarmonicMBO().walked(prepared, [start], UNWATCHED)
    (state,) = outcome.state.parts
    assert (state.best_walk.n_steps > 0) == (homophily > 0.5)
    _, order = prepared.near_in_memory()
    began = np.empty_like(first)
    began[order] = state.best_walk.classes
    walk = replace(state.best_walk, classes=began)
    found = HarmonicMBO().repeated(prepared, labels, walk, UNWATCHED)
    np.testing.assert_allclose(found, shares, atol=1e-6)
    with pytest.raises(RunStopped):
        HarmonicMBO().repeated(
            prepared, labels, replace(walk, n_steps=5), Watch(cancelled=lambda: True)
        )


def test_the_same_labels_have_the_same_answer() -> None:
    graph, classes = rings(60, 20, 0.3)
    model, labels = Auto(), labels_at(grown(1_200, 120, seed=3)[0], classes)
    prepared = model.prepare(graph)
    first, again = model.solve(prepared, labels), model.solve(prepared, labels)
    assert (first.stats["walks"], again.stats["walks"]) == ("anew", "repeated")
    np.testing.assert_allclose(again.scores, first.scores, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["blocks", "rings"])
def test_labels_one_after_another_answer_as_a_first_solve_does(kind: str) -> None:
    graph, classes = (
        blocks([900, 600, 300], 0.85) if kind == "blocks" else rings(90, 20, 0.3, seed=1)
    )
    model, n_labels = Auto(), 240
    nodes = np.random.default_rng(4).permutation(classes.size)
    prepared = model.prepare(graph)
    model.solve(prepared, labels_at(np.sort(nodes[:n_labels]), classes))
    for n_more in range(1, 13):
        labels = labels_at(np.sort(nodes[: n_labels + n_more]), classes)
        found = model.solve(prepared, labels)
        assert found.stats["walks"] == "repeated"
        if n_more % 4 == 0:
            expected = model.solve(model.prepare(graph), labels)
            assert (found.scores.argmax(axis=1) == expected.scores.argmax(axis=1)).mean() > 0.98
            right = accuracy(expected.scores, classes, labels.nodes)
            assert abs(accuracy(found.scores, classes, labels.nodes) - right) < 0.01
    labels = labels_at(np.sort(nodes[: n_labels + 13]), classes)
    found, expected = model.solve(prepared, labels), model.solve(model.prepare(graph), labels)
    assert found.stats["walks"] == "anew"
    np.testing.assert_allclose(found.scores, expected.scores, atol=0.02)


def test_walks_begin_anew_for_other_classes_and_many_changes() -> None:
    graph, _ = blocks([60, 40], 0.8)
    nodes, codes = np.arange(80), np.arange(80) % 2
    cache = cached_walks(graph, Labels.from_pairs(nodes, codes))

    def serves(nodes: np.ndarray, names: np.ndarray) -> bool:
        return cache.serve(LabelGroups.of(Labels.from_pairs(nodes, names), graph.n_nodes))

    assert serves(nodes, codes)
    assert serves(np.arange(84), np.arange(84) % 2)  # a twentieth more
    assert not serves(np.arange(85), np.arange(85) % 2)
    assert serves(nodes[:76], codes[:76])
    assert serves(nodes, np.where(nodes < 4, 1 - codes, codes))  # each counts once
    assert not serves(nodes, np.where(nodes < 5, 1 - codes, codes))
    assert not serves(nodes, codes + 1)


def test_walks_begin_anew_where_a_label_can_be_left_out_at_last() -> None:
    graph, _ = blocks([60, 40], 0.8)
    codes = np.zeros(41, np.int64)
    codes[39:] = 1
    cache = cached_walks(graph, Labels.from_pairs(np.arange(40), codes[:40]))
    groups = LabelGroups.of(Labels.from_pairs(np.arange(41), codes), graph.n_nodes)
    assert not cache.serve(groups)


def test_kept_walks_start_from_first_classes_where_these_are_others() -> None:
    """Beside the powers of the matrix of a walk that labels stop."""
    graph, _ = blocks([60, 40], 0.8)
    labels = Labels.from_pairs(np.arange(30), np.arange(30) % 2)
    cache = cached_walks(graph, labels)
    cache = replace(cache, walk=Walk(classes=1 - cache.first, n_steps=3))
    first = cache.first.copy()
    first[50:60] = 1 - first[50:60]
    more = Labels.from_pairs(np.arange(31), np.arange(31) % 2)
    task = CenteredLabels.of(more, graph.component)
    start = WalkStart(task=task, labels=more, first=first)
    found = cache.repeated(HarmonicMBO().prepare(graph), start, UNWATCHED)
    began = 1 - cache.first
    began[50:60] = first[50:60]
    absent = task.lacks[task.component, began]
    began[absent] = first[absent]
    began[more.nodes] = more.classes
    adjacency = graph.adjacency.toarray()
    alone = adjacency.sum(axis=1) == 0
    adjacency[alone, alone] = 1.0
    step = adjacency / adjacency.sum(axis=1, keepdims=True)
    step[more.nodes] = np.eye(graph.n_nodes)[more.nodes]
    shares = np.linalg.matrix_power(step, 3) @ np.eye(2)[began]
    asked = task.reachable  # nobody asks for the others
    np.testing.assert_allclose(found[asked], shares[asked], atol=1e-6)
    groups = LabelGroups.of(more, graph.n_nodes)
    left_out = cache.left_out_of(groups)
    np.testing.assert_array_equal(left_out[:30], cache.left_out[:30])
    np.testing.assert_allclose(left_out[30], [0.6, 0.4], atol=1 / 255)
    asked = np.flatnonzero(groups.stand_in_fold >= 0)
    assert asked.size == graph.n_nodes - 31
    np.testing.assert_array_equal(left_out[31:][asked], cache.left_out[30:][asked])


def test_walks_begin_anew_where_asked() -> None:
    graph, classes = blocks([400, 300], 0.8)
    first, more = grown(700, 80, seed=2)
    labels = labels_at(more, classes)
    model = Auto(walks="anew")
    kept = model.prepare(graph)
    model.solve(kept, labels_at(first, classes))
    found = model.solve(kept, labels)
    assert found.stats["walks"] == "anew"
    expected = model.solve(model.prepare(graph), labels)
    np.testing.assert_allclose(found.scores, expected.scores, atol=1e-3)
    assert Auto().solve(kept, labels).stats["walks"] == "repeated"
