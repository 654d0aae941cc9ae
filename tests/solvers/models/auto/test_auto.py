"""Auto: what is left out of its arms beside refits, and answers where a single arm is wrong."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from peewit.solvers.assessment.plausibility import ComparedShares, answer_warnings
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import UNWATCHED
from peewit.solvers.labels import Labels, deal_folds
from peewit.solvers.models.auto.auto import Auto, _standardized_degrees
from peewit.solvers.models.auto.density_arm import Densities
from peewit.solvers.models.auto.poisson_arm import Potentials
from peewit.solvers.models.auto.preparation import PreparedAuto, tolerance
from peewit.solvers.models.auto.stacked_arm import is_better
from peewit.solvers.models.auto.walk_arm import BY_FAR, CLEARLY, walk_shares
from peewit.solvers.models.left_out import label_groups
from peewit.solvers.models.left_out.label_groups import GroupColumns, LabelGroups
from peewit.solvers.models.poisson.poisson import Poisson
from peewit.solvers.status import Status
from tests.data_sets import accuracy, digits_graph, draw_per_class, labeled_graph


def blocks(
    sizes: list[int], homophily: float, *, mean_degree: float = 10.0, seed: int = 0
) -> tuple[Graph, np.ndarray]:
    """Blocks with hubs: so much of every node's weight lies within its class."""
    rng = np.random.default_rng(seed)
    classes = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    pull = np.minimum(rng.pareto(1.5, classes.size) + 1.0, np.sqrt(classes.size))
    n_edges = int(classes.size * mean_degree / 2)
    u = rng.choice(classes.size, n_edges, p=pull / pull.sum())
    v = rng.choice(classes.size, n_edges, p=pull / pull.sum())
    for own in range(len(sizes)):
        inside = np.flatnonzero(classes == own)
        asks = np.flatnonzero((classes[u] == own) & (rng.random(n_edges) < homophily))
        v[asks] = rng.choice(inside, asks.size, p=pull[inside] / pull[inside].sum())
    different = u != v
    ones = np.ones(np.count_nonzero(different))
    return Graph.from_edges(u[different], v[different], ones, n_nodes=classes.size), classes


def rings(n_rings: int, size: int, share: float, *, seed: int = 0) -> tuple[Graph, np.ndarray]:
    """Small dense rings, a part of them of the second class, and a few edges to anywhere."""
    rng = np.random.default_rng(seed)
    n_nodes = n_rings * size
    u = rng.integers(0, n_nodes, 4 * n_nodes)
    v = u // size * size + rng.integers(0, size, u.size)
    far = rng.random(u.size) < 0.05
    v[far] = rng.integers(0, n_nodes, np.count_nonzero(far))
    classes = (rng.random(n_rings) < share).astype(np.int64)[np.arange(n_nodes) // size]
    different = u != v
    ones = np.ones(np.count_nonzero(different))
    return Graph.from_edges(u[different], v[different], ones, n_nodes=n_nodes), classes


def labels_at(nodes: np.ndarray, classes: np.ndarray) -> Labels:
    return Labels.from_pairs(nodes, classes[nodes])


def potentials_of(model: Auto, prepared: PreparedAuto, groups: LabelGroups) -> Potentials:
    return Potentials.of(prepared, groups, UNWATCHED, rtol=model.rtol, max_iter=model.max_iter)


def random_labels(classes: np.ndarray, n_labels: int, *, seed: int) -> Labels:
    """A random sample that knows two classes."""
    rng = np.random.default_rng(seed)
    while True:
        nodes = rng.choice(classes.size, n_labels, replace=False)
        if np.unique(classes[nodes]).size > 1:
            return labels_at(nodes, classes)


@pytest.fixture
def n_folds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Folds of many labels: all five or, as of very many on large graphs, one."""
    if request.param == 1:
        monkeypatch.setattr(label_groups, "_LARGE", 1)
        monkeypatch.setattr(label_groups, "_HELD_OUT_LABELS", 60)
        monkeypatch.setattr(label_groups, "_HELD_OUT_OF_CLASS", 1)
    return int(request.param)


FOLDS = pytest.mark.parametrize(
    ("n_labels", "n_folds"), [(12, 5), (90, 5), (90, 1)], indirect=["n_folds"]
)


@FOLDS
def test_poisson_without_labels_is_that_of_a_refit(n_labels: int, n_folds: int) -> None:
    graph, classes = blocks([150, 100, 50], 0.8)
    labels = random_labels(classes, n_labels, seed=1)
    model = Auto(rtol=1e-10)
    groups = LabelGroups.of(labels, graph.n_nodes)
    potentials = potentials_of(model, model.prepare(graph), groups)
    assert (groups.is_single, groups.n_folds) == (n_labels < 30, n_folds)
    refit = Poisson(rtol=1e-10)
    prepared = refit.prepare(graph)
    whole = refit.solve(prepared, labels)
    unit = float(graph.degree.mean())
    reached = whole.reachable
    size = unit * np.abs(whole.scores[reached]).max()
    np.testing.assert_allclose(
        potentials.scores[reached], unit * whole.scores[reached], atol=2e-5 * size
    )
    for fold in range(groups.n_folds):
        _, scores = potentials.without(fold)
        other = refit.solve(prepared, groups.without(fold))
        is_out = groups.left_out_folds == fold
        reached = groups.reached(graph.component)[is_out]
        assert (reached == other.reachable[groups.left_out_nodes[is_out]]).all()
        np.testing.assert_allclose(
            scores[other.reachable], unit * other.scores[other.reachable], atol=2e-5 * size
        )
    if groups.is_single:
        each = potentials._left_out_scores()
        for row, place in enumerate(groups.usable):
            rest = labels.subset(np.delete(np.arange(labels.n_labeled), place))
            other = refit.solve(prepared, rest)
            node = labels.nodes[place]
            if other.reachable[node]:
                np.testing.assert_allclose(each[row], unit * other.scores[node], atol=2e-5 * size)


@FOLDS
def test_density_is_the_dense_inverse_and_leaves_labels_out(n_labels: int, n_folds: int) -> None:
    graph, classes = blocks([120, 80], 0.8)
    labels = random_labels(classes, n_labels, seed=2)
    model = Auto()
    prepared = model.prepare(graph)
    groups = LabelGroups.of(labels, graph.n_nodes)
    assert groups.n_folds == n_folds
    arm = Densities.of(prepared, groups, UNWATCHED).arm()
    adjacency = graph.adjacency.toarray()
    counts = (adjacency > 0).sum(axis=1)
    loops = np.where(counts > 0, adjacency.sum(axis=1) / np.maximum(counts, 1), 1.0)
    whole = adjacency + np.diag(loops)
    degree = whole.sum(axis=1)
    smooth = whole / np.sqrt(np.outer(degree, degree))
    kernel = 0.05 * np.linalg.inv(np.eye(len(degree)) - 0.95 * smooth)
    kernel *= degree.sum() / np.sqrt(np.outer(degree, degree))

    def said(known: np.ndarray, node: int) -> np.ndarray:
        columns = [
            kernel[node, labels.nodes[known & (labels.classes == own)]].mean() for own in (0, 1)
        ]
        logs = np.log(np.array(columns) + 0.3)
        return np.asarray(logs - logs.mean())

    everything = np.ones(labels.n_labeled, bool)
    for node in range(0, graph.n_nodes, 7):
        np.testing.assert_allclose(arm.values[node], said(everything, node), atol=1e-3)
    for place in groups.usable:
        known = groups.fold != groups.fold[place]
        if groups.is_single:
            known = np.arange(labels.n_labeled) != place
        expected = said(known, int(labels.nodes[place]))
        np.testing.assert_allclose(arm.left_out[place], expected, atol=1e-3)
    for place in np.flatnonzero(groups.stand_in_fold >= 0)[::9]:
        known = everything if groups.is_single else groups.fold != groups.stand_in_fold[place]
        expected = said(known, int(groups.stand_ins[place]))
        found = arm.left_out[labels.n_labeled + place]
        np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("n_folds", [5, 1], indirect=True)
def test_walks_leave_folds_out(n_folds: int) -> None:
    graph, classes = blocks([150, 100], 0.9)
    labels = random_labels(classes, 60, seed=3)
    model, groups = Auto(), LabelGroups.of(labels, graph.n_nodes)
    assert groups.n_folds == n_folds
    prepared = model.prepare(graph)
    potentials = potentials_of(model, prepared, groups)
    arm, *_ = walk_shares(prepared, potentials, potentials, UNWATCHED)
    rows = groups.left_out_folds == 0
    assert rows[labels.n_labeled :].sum() > 20  # nodes that stand for all
    rest = LabelGroups.of(groups.without(0), graph.n_nodes)
    fewer = potentials_of(model, prepared, rest)
    alone, *_ = walk_shares(prepared, fewer, fewer, UNWATCHED)
    np.testing.assert_allclose(
        arm.left_out[rows], alone.values[groups.left_out_nodes[rows]], atol=1e-4
    )


def test_walks_start_from_densities_where_potentials_fail() -> None:
    """On a grid of many labels potentials tell little more than which region has more of them."""
    side = 80
    node = np.arange(side**2).reshape(side, side)
    u = np.concatenate([node[:, :-1].ravel(), node[:-1].ravel()])
    v = np.concatenate([node[:, 1:].ravel(), node[1:].ravel()])
    graph = Graph.from_edges(u, v, np.ones(u.size), n_nodes=node.size)
    classes = (5 * (np.arange(node.size) // side)) // side
    labels = random_labels(classes, 400, seed=0)
    model = Auto()
    prepared, groups = model.prepare(graph), LabelGroups.of(labels, graph.n_nodes)
    potentials = potentials_of(model, prepared, groups)
    densities = Densities.of(prepared, groups, UNWATCHED)
    arms = potentials.arm(), densities.arm()
    assert is_better(*arms[::-1], groups, n_errors=BY_FAR)
    assert not is_better(*arms, groups, n_errors=CLEARLY)
    assert not is_better(arms[1], arms[1], groups, n_errors=0.0)
    right = [
        accuracy(
            walk_shares(prepared, potentials, begun, UNWATCHED)[0].values, classes, labels.nodes
        )
        for begun in (potentials, densities)
    ]
    solution = model.solve(prepared, labels)
    assert solution.stats["walks_from"] == "density"
    assert right[0] + 0.02 < right[1] < accuracy(solution.scores, classes, labels.nodes) + 0.02


def test_densities_without_a_fold_are_those_of_the_other_labels() -> None:
    graph, classes = blocks([150, 100], 0.9)
    labels = random_labels(classes, 60, seed=3)
    model, groups = Auto(rtol=1e-8), LabelGroups.of(labels, graph.n_nodes)
    prepared = model.prepare(graph)
    _, found = Densities.of(prepared, groups, UNWATCHED).without(1)
    rest = LabelGroups.of(groups.without(1), graph.n_nodes)
    alone = Densities.of(model.prepare(graph), rest, UNWATCHED).scores
    np.testing.assert_allclose(found, alone, atol=1e-3)


@pytest.mark.slow
def test_few_labels_try_classes_of_even_sizes() -> None:
    graph, classes = digits_graph()
    nodes = draw_per_class(classes, 1, seed=7)
    solution = Auto().solve(Auto().prepare(graph), labels_at(nodes, classes))
    assert solution.stats["class_sizes"] == "nearly even"
    assert accuracy(solution.scores, classes, nodes) > 0.92


def test_classes_of_unequal_sizes_stay_so() -> None:
    graph, classes = blocks([900, 100], 0.95)
    for seed in range(3):
        labels = labels_at(draw_per_class(classes, 2, seed=seed), classes)
        assert Auto().solve(Auto().prepare(graph), labels).stats["class_sizes"] == "free"


def test_degrees_beyond_those_of_labels_count_as_the_nearest() -> None:
    graph, classes = blocks([400, 200], 0.8)
    rank = np.argsort(graph.degree)
    labels = labels_at(np.sort(rank[100:160]), classes)
    covariate = _standardized_degrees(graph.degree, LabelGroups.of(labels, graph.n_nodes))
    assert np.ptp(covariate) == np.ptp(covariate[labels.nodes])
    assert covariate[rank[-1]] == covariate[labels.nodes].max()


@pytest.mark.parametrize("scale", [1e-80, 1e80])
def test_the_unit_of_weights_changes_nothing(scale: float) -> None:
    graph, classes = blocks([200, 150], 0.85)
    labels = random_labels(classes, 24, seed=4)
    u, v, weight = graph.edges()
    scaled = Graph.from_edges(u, v, weight * scale, n_nodes=graph.n_nodes)
    connected = graph.degree > 0
    found, expected = (Auto().solve(Auto().prepare(each), labels) for each in (scaled, graph))
    np.testing.assert_allclose(found.scores[connected], expected.scores[connected], atol=1e-3)


def test_even_labels_of_a_graph_that_says_nothing_are_half_right_when_left_out() -> None:
    rng = np.random.default_rng(0)
    u, v = rng.integers(0, 400, (2, 4_000))
    graph = Graph.from_edges(u[u != v], v[u != v], np.ones(np.count_nonzero(u != v)), n_nodes=400)
    for seed in range(5):
        nodes = np.random.default_rng(seed).choice(400, 16, replace=False)
        labels = Labels.from_pairs(np.sort(nodes), np.arange(16) % 2)
        stats = Auto().solve(Auto().prepare(graph), labels).stats
        assert float(stats["loo_accuracy"]) > 0.2


def test_groups_of_few_labels_are_single_and_no_fold_holds_a_class() -> None:
    classes = np.repeat([0, 1, 2], [40, 2, 1])
    labels = Labels.from_pairs(np.arange(43), classes)
    groups = LabelGroups.of(labels, 43)
    assert not groups.is_single
    assert groups.fold[-1] == -1
    for fold in range(groups.n_folds):
        assert groups.without(fold).n_classes == 3
    np.testing.assert_array_equal(groups.class_sums().sum(axis=0), 1.0)


def test_large_graphs_have_fewer_columns() -> None:
    labels = Labels.from_pairs(np.arange(100), np.repeat(np.arange(10), 10))
    assert LabelGroups.of(labels, 1_000).n_groups == 50
    assert LabelGroups.of(labels, 100_000).n_groups == 20


def test_of_many_labels_of_a_large_graph_a_fifth_is_left_out() -> None:
    classes = np.repeat([0, 1, 2], [5_000, 4_700, 300])
    labels = Labels.from_pairs(np.arange(10_000), classes)
    groups = LabelGroups.of(labels, 40_000)
    assert (groups.n_folds, groups.n_groups) == (1, 6)
    left_out = np.bincount(classes[groups.usable]) / np.bincount(classes)
    np.testing.assert_allclose(left_out, 0.2, atol=0.06)
    others = groups.without(0)
    assert (others.n_labeled, others.n_classes) == (10_000 - groups.usable.size, 3)
    is_labeled = np.isin(groups.stand_ins, labels.nodes)
    np.testing.assert_array_equal(groups.stand_in_fold, np.where(is_labeled, -1, 0))
    more = LabelGroups.of(Labels.from_pairs(np.arange(10_001), [*classes, 0]), 40_000)
    assert len(set(more.keys()) - set(groups.keys())) == 1
    few = Labels.from_pairs(np.arange(10_000), np.where(classes == 2, 1, classes))
    rare = Labels.from_pairs(np.arange(10_000), np.repeat([0, 1], [9_800, 200]))
    assert LabelGroups.of(few, 40_000).n_folds == 1
    fewer = labels.subset(np.arange(9_999))
    for each, n_nodes in ((rare, 40_000), (labels, 30_000), (fewer, 40_000)):
        assert LabelGroups.of(each, n_nodes).usable.size == each.n_labeled


@pytest.mark.parametrize("n_folds", [1], indirect=True)
@pytest.mark.usefixtures("n_folds")
def test_what_a_fifth_tells_is_so_for_the_other_nodes() -> None:
    graph, classes = blocks([250, 150], 0.8)
    labels, model = random_labels(classes, 200, seed=2), Auto()
    solution = model.solve(model.prepare(graph), labels)
    assert solution.left_out is not None
    assert 20 < solution.left_out.places.size == solution.stats["loo_labels"] < 60
    truth = accuracy(solution.scores, classes, labels.nodes)
    assert solution.stats["loo_accuracy"] == pytest.approx(truth, abs=0.1)


def test_residuals_of_large_graphs_are_ten_times_as_large_up_to_a_thousandth() -> None:
    asked = {
        rtol: (tolerance(rtol, 8_191), tolerance(rtol, 8_192)) for rtol in (1e-8, 1e-4, 1e-3, 0.1)
    }
    assert asked == {
        1e-8: (1e-8, pytest.approx(1e-7)),
        1e-4: (1e-4, pytest.approx(1e-3)),
        1e-3: (1e-3, 1e-3),
        0.1: (0.1, 0.1),
    }


def test_columns_of_groups_that_stay_are_not_made_again() -> None:
    columns, asked = GroupColumns(kept_bytes=1 << 10), []

    def make(members: list[np.ndarray], starts: np.ndarray | None) -> np.ndarray:
        asked.extend(each.tolist() for each in members)
        return np.array([[each.sum()] * 4 for each in members], np.float32).reshape(-1, 4)

    few = Labels.from_pairs([1, 3, 5], ["a", "b", "a"])
    columns.of(LabelGroups.of(few, 6), make)
    more = Labels.from_pairs([1, 2, 3, 5], ["a", "b", "b", "a"])
    found = columns.of(LabelGroups.of(more, 6), make)
    assert asked == [[1], [3], [5], [2]]
    np.testing.assert_array_equal(found[:, 0], [1, 2, 3, 5])
    poor = GroupColumns(kept_bytes=8)
    poor.of(LabelGroups.of(few, 6), make)
    assert not poor.by_nodes


def test_the_rest_of_groups_has_their_columns_and_no_label_of_the_fold() -> None:
    _, classes = blocks([300, 100, 30], 0.8)
    labels = random_labels(classes, 150, seed=4)
    may_leave_out = np.arange(150) % 4 > 0
    for allowed in (np.ones(150, bool), may_leave_out):
        fold, _ = deal_folds(labels, 4, 3, allowed)
        groups = LabelGroups.of_folds(labels, fold, classes.size)
        np.testing.assert_array_equal(groups.fold[fold >= 0], fold[fold >= 0])
        for number in range(4):
            is_out = fold == number
            rest = groups.rest(is_out)
            assert set(rest.keys()) < set(groups.keys())
            np.testing.assert_array_equal(rest.labels.nodes, labels.nodes[~is_out])
            assert rest.n_folds == (3 if allowed.all() else 4)
    odd = np.zeros(labels.n_labeled, bool)
    odd[np.flatnonzero(labels.classes == 2)[1:]] = True  # a class keeps one label
    assert (groups.rest(odd).fold[groups.rest(odd).labels.classes == 2] == -1).all()


@pytest.mark.slow
@pytest.mark.parametrize("n_labels", [24, 150])
def test_folds_that_share_columns_answer_as_solves_without_them(n_labels: int) -> None:
    graph, classes = blocks([300, 200, 100], 0.8)
    labels = random_labels(classes, n_labels, seed=2)
    model = Auto(rtol=1e-8)
    shared = model.prepare(graph)
    model.solve(shared, labels)
    walks = shared.walk_cache
    fold, _ = deal_folds(labels, 5, 0)
    groups = LabelGroups.of_folds(labels, fold, graph.n_nodes)
    made: set[int] = set()
    for number in range(5):
        found = model.solve_without(shared, labels, fold, number)
        before, made = made, {id(each) for each in shared.potential_columns.by_nodes.values()}
        assert made == (before or made)  # by the first fold, for all
        assert shared.potential_columns.holds(groups)
        assert shared.walk_cache is walks  # the next solve has those of all labels again
        fresh = model._stacked(
            model.prepare(graph), groups.rest(fold == number), UNWATCHED
        ).solution
        np.testing.assert_allclose(found.scores, fresh.scores, atol=2e-3)


def test_small_folds_are_left_out_of_the_walks_too() -> None:
    graph, classes = blocks([300, 200, 100], 0.8)
    labels = random_labels(classes, 150, seed=2)
    model = Auto()
    prepared = model.prepare(graph)
    model.solve(prepared, labels)
    fold = np.full(150, -1)
    fold[:9] = np.arange(9) // 3  # so few that walks would be repeated for a solve
    found = model.solve_without(prepared, labels, fold, 0)
    assert found.stats["walks"] == "anew"


def test_two_folds_are_solved_for_each_by_itself() -> None:
    graph, classes = blocks([300, 200, 100], 0.8)
    labels = random_labels(classes, 150, seed=2)
    model = Auto()
    prepared = model.prepare(graph)
    fold, _ = deal_folds(labels, 2, 0)
    found = model.solve_without(prepared, labels, fold, 0)
    alone = model.solve(model.prepare(graph), labels.subset(np.flatnonzero(fold == 1)))
    assert found.stats["loo_labels"] == alone.stats["loo_labels"] > 0
    np.testing.assert_allclose(found.scores, alone.scores, atol=1e-3)


def test_columns_that_would_not_fit_are_not_shared() -> None:
    graph, classes = blocks([300, 200, 100], 0.8)
    labels = random_labels(classes, 150, seed=2)
    model = Auto()
    prepared = model.prepare(graph, kept_bytes=1000)
    fold, _ = deal_folds(labels, 5, 7)
    found = model.solve_without(prepared, labels, fold, 1)
    alone = model.solve(model.prepare(graph), labels.subset(np.flatnonzero(fold != 1)))
    np.testing.assert_allclose(found.scores, alone.scores, atol=1e-3)


def test_weights_too_far_apart_are_told() -> None:
    weight = np.array([1e12, 1e-12, 1e-12, 1e12])
    chain = np.arange(4)
    graph = Graph.from_edges(chain, chain + 1, weight, n_nodes=5)
    labels = Labels.from_pairs([0, 4], ["a", "b"])
    told = Poisson().solve(Poisson().prepare(graph), labels).status
    assert told is Status.ILL_CONDITIONED
    assert Auto().solve(Auto().prepare(graph), labels).status is told


@pytest.mark.slow
@pytest.mark.parametrize("n_labels", [20, 60, 200])
def test_where_the_graph_says_nothing_the_majority_answers(n_labels: int) -> None:
    rng = np.random.default_rng(0)
    graph, _ = blocks([700, 300], 0.0)
    classes = (rng.random(1_000) < 0.2).astype(np.int64)
    prepared = Auto().prepare(graph)
    losses = []
    for seed in range(5):
        labels = random_labels(classes, n_labels, seed=seed)
        right = accuracy(Auto().solve(prepared, labels).scores, classes, labels.nodes)
        losses.append((classes == 0).mean() - right)
    assert np.mean(losses) < 0.02


def test_a_graph_that_says_nothing_is_told_and_nodes_keep_an_order() -> None:
    graph, _ = blocks([350, 150], 0.0)
    classes = (np.random.default_rng(0).random(500) < 0.2).astype(np.int64)
    labels = random_labels(classes, 100, seed=1)
    solution = Auto().solve(Auto().prepare(graph), labels)
    assert solution.stats["belief_majority"] >= 0.5
    assert (solution.classes() == 0).all()
    (told,) = [each for each in solution.warnings if "say nothing about these labels" in each]
    assert "every node gets the commonest class, 0" in told
    assert np.unique(solution.scores[:, 1].astype(np.float32)).size > 400
    shares = ComparedShares.of(labels, solution)
    assert not any("collapsed" in each for each in answer_warnings(labels, graph, solution, shares))


@pytest.mark.slow
def test_rings_that_no_label_reaches_get_the_majority() -> None:
    graph, classes = rings(200, 20, 0.1)
    prepared = Auto().prepare(graph)
    for n_labels in (40, 200):
        gains = []
        for seed in range(5):
            labels = random_labels(classes, n_labels, seed=seed)
            right = accuracy(Auto().solve(prepared, labels).scores, classes, labels.nodes)
            gains.append(right - (classes == 0).mean())
        assert np.mean(gains) > -0.02
    assert np.mean(gains) > 0.01


@pytest.mark.slow
def test_one_label_in_each_of_half_the_rings_answers_for_these_rings() -> None:
    graph, classes = rings(300, 20, 0.5)
    prepared, poisson = Auto().prepare(graph), Poisson().prepare(graph)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        nodes = 20 * rng.choice(300, 150, replace=False) + rng.integers(0, 20, 150)
        labels = labels_at(np.sort(nodes), classes)
        solution = Auto().solve(prepared, labels)
        right = accuracy(solution.scores, classes, labels.nodes)
        other = accuracy(Poisson().solve(poisson, labels).scores, classes, labels.nodes)
        assert right > max(other - 0.04, 0.7)
        assert 0.4 < float(solution.stats["unjudged_share"]) < 0.6
        assert float(solution.stats["loo_accuracy"]) < right - 0.1
        assert [each for each in solution.warnings if "spread out" in each]
        shares = ComparedShares.of(labels, solution)
        told = answer_warnings(labels, graph, solution, shares)
        assert not [each for each in told if "hardly better than that" in each]


@pytest.mark.slow
@pytest.mark.parametrize(
    "sizes", [[500, 500], [900, 100], [250, 250, 250, 250]], ids=["even", "uneven", "four"]
)
def test_blocks_with_hubs_are_read_at_least_as_well_as_by_poisson(sizes: list[int]) -> None:
    graph, classes = blocks(sizes, 0.7)
    prepared, poisson = Auto().prepare(graph), Poisson().prepare(graph)
    gains = []
    for seed in range(4):
        labels = random_labels(classes, 40 * len(sizes), seed=seed)
        own = accuracy(Auto().solve(prepared, labels).scores, classes, labels.nodes)
        other = accuracy(Poisson().solve(poisson, labels).scores, classes, labels.nodes)
        gains.append(own - other)
    assert np.mean(gains) > -0.01


def test_labels_that_are_mostly_of_the_small_class_are_told_and_mended() -> None:
    graph, classes = blocks([1_800, 200], 0.9)
    rng = np.random.default_rng(1)
    of_class = [
        rng.choice(np.flatnonzero(classes == own), size) for own, size in ((0, 30), (1, 60))
    ]
    labels = labels_at(np.unique(np.concatenate(of_class)), classes)
    solution = Auto().solve(Auto().prepare(graph), labels)
    assert solution.stats["sample_p_value"] < 0.003
    assert any("no random sample" in warning for warning in solution.warnings)
    assert accuracy(solution.scores, classes, labels.nodes) > 0.95
    share = (solution.scores.argmax(axis=1) == 1).mean()
    assert 0.05 < share < 0.2


@pytest.mark.parametrize("seed", range(3))
def test_labels_are_not_blamed_for_walks_that_need_all_of_them(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Walks from half of the labels lump blocks together that those from all tell apart."""
    monkeypatch.setattr(label_groups, "_LARGE", 0)  # two folds, as graphs of many nodes have
    rng = np.random.default_rng(seed)
    classes, n_edges = np.arange(10_000) % 10, 500_000
    u, v = rng.integers(0, classes.size, (2, n_edges))
    inside = rng.random(n_edges) < 0.25
    v[inside] = 10 * rng.integers(0, 1_000, np.count_nonzero(inside)) + classes[u[inside]]
    differs = u != v
    ones = np.ones(np.count_nonzero(differs))
    graph = Graph.from_edges(u[differs], v[differs], ones, n_nodes=classes.size)
    labels = random_labels(classes, 300, seed=50 + seed)
    solution = Auto().solve(Auto().prepare(graph), labels)
    assert solution.warnings == ()
    assert (solution.scores.argmax(axis=1) == classes).mean() > 0.93


def test_stats_tell_what_was_weighed() -> None:
    graph, classes = blocks([300, 200], 0.8)
    stats = Auto().solve(Auto().prepare(graph), random_labels(classes, 50, seed=0)).stats
    beliefs = [value for name, value in stats.items() if name.startswith("belief_")]
    assert sum(float(each) for each in beliefs) == pytest.approx(1.0, abs=1e-3)
    for name in ("loo_accuracy", "loo_poisson", "loo_density", "loo_walks", "majority"):
        assert 0.0 <= float(stats[name]) <= 1.0
    assert stats["belief"] in {"walks", "poisson", "density", "majority"}


def test_one_label_of_each_class_is_enough() -> None:
    graph, classes = blocks([300, 300], 0.95)
    nodes = np.array([np.flatnonzero(classes == own)[5] for own in (0, 1)])
    solution = Auto().solve(Auto().prepare(graph), labels_at(nodes, classes))
    assert solution.status is Status.CONVERGED
    assert "loo_accuracy" not in solution.stats
    np.testing.assert_allclose(solution.scores.sum(axis=1), 1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("cora", 0.83), ("citeseer", 0.70)])
def test_public_splits_of_citations(peewit_data: Path, name: str, least: float) -> None:
    graph, classes = labeled_graph(peewit_data, name)
    features = sp.load_npz(peewit_data / f"{name}_features.npz").astype(np.float64)
    table = pq.read_table(peewit_data / f"{name}_labels.parquet")
    part = np.array(table["split"].to_pylist())
    nodes = table["node"].to_numpy()
    train, test = np.sort(nodes[part == "train"]), nodes[part == "test"]
    test = test[classes[test] >= 0]
    scores = Auto().solve(Auto().prepare(graph, features), labels_at(train, classes)).scores
    assert (scores[test].argmax(axis=1) == classes[test]).mean() >= least


def test_labels_that_no_edge_joins_with_others_are_judged_by_their_features() -> None:
    """Each pair of nodes is a component of its own, and features tell all."""
    rng = np.random.default_rng(0)
    n_nodes = 400
    u = np.arange(0, n_nodes, 2)
    graph = Graph.from_edges(u, u + 1, np.ones(u.size), n_nodes=n_nodes)
    classes = rng.integers(0, 2, n_nodes // 2).repeat(2)
    features = np.column_stack([classes, 1 - classes]) + 0.1 * rng.normal(size=(n_nodes, 2))
    labels = Labels.from_pairs(np.arange(0, 120, 2), classes[:120:2])
    model = Auto()
    solution = model.solve(model.prepare(graph, features), labels)
    left_out = solution.left_out
    assert left_out is not None
    assert left_out.reachable.all()
    right = left_out.scores.argmax(axis=1) == labels.classes[left_out.places]
    assert right.mean() == solution.stats["loo_accuracy"] > 0.98
    without = model.solve(model.prepare(graph), labels).left_out
    assert without is not None
    assert not without.reachable.any()
