import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from peewit.service.demo.digits import neighbor_edges
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.classes.class_balance import class_offsets
from peewit.solvers.models.classes.class_mixing import Mixing
from peewit.solvers.models.poisson.poisson import Poisson
from peewit.solvers.models.poisson.poisson_mbo import PoissonMBO
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status
from tests.data_sets import accuracy, digits_graph, draw_per_class
from tests.reference.laplacian import dense_laplacian
from tests.reference.poisson import poisson_mbo_shares, poisson_scores, random_walk_form
from tests.strategies import problems
from tests.streaming.graphs import random_graph

MODELS = [
    Poisson(),
    PoissonMBO(),
    PoissonMBO(class_balance="labels"),
    PoissonMBO(class_balance="estimated"),
]


def solved(model: Poisson | PoissonMBO, graph: Graph, labels: Labels, **settings) -> Solution:
    solution = model.solve(model.prepare(graph), labels, **settings)
    assert solution.status is Status.CONVERGED
    return solution


def shares(scores: np.ndarray) -> np.ndarray:
    return np.bincount(scores.argmax(axis=1), minlength=scores.shape[1]) / len(scores)


@given(problems())
def test_poisson_agrees_with_the_dense_pseudo_inverse(problem) -> None:
    graph, labels = problem
    expected = poisson_scores(graph, labels)
    scores = solved(Poisson(rtol=1e-10), graph, labels).scores
    np.testing.assert_allclose(scores, expected, atol=1e-6 * max(1.0, np.abs(expected).max()))


@given(problems(connected=True))
def test_potentials_solve_the_poisson_equation_with_degree_weighted_mean_zero(problem) -> None:
    graph, labels = problem
    scores = solved(Poisson(rtol=1e-10), graph, labels).scores
    sources = np.zeros_like(scores)
    sources[labels.nodes] = labels.targets() - labels.class_prior()
    np.testing.assert_allclose(dense_laplacian(graph) @ scores, sources, atol=1e-7)
    size = max(1.0, np.abs(scores).max())
    np.testing.assert_allclose(graph.degree @ scores / graph.degree.sum(), 0, atol=1e-9 * size)
    np.testing.assert_allclose(scores.sum(axis=1), 0, atol=1e-7 * size)


def test_the_random_walk_form_is_the_same_function() -> None:
    graph = random_graph(40, 0.3, seed=3).graph()
    labels = Labels.from_pairs([0, 5, 9, 17, 30], ["a", "b", "c", "a", "b"])
    scores = solved(Poisson(rtol=1e-10), graph, labels).scores
    np.testing.assert_allclose(scores, random_walk_form(graph, labels, 2_000), atol=1e-7)


def test_a_path_by_hand() -> None:
    """Half a unit flows from the one label to the other; potentials fall by flow / weight."""
    graph = Graph.from_edges([0, 1], [1, 2], [1.0, 2.0], n_nodes=3)
    scores = solved(Poisson(rtol=1e-12), graph, Labels.from_pairs([0, 2], ["a", "b"])).scores
    by_hand = np.array([0.5, 0.0, -0.25])
    np.testing.assert_allclose(scores, np.column_stack([by_hand, -by_hand]), atol=1e-12)


@given(problems(connected=True), st.sampled_from([1e-3, 10.0, 1e4]))
def test_scaling_all_weights_scales_the_potentials_back(problem, factor: float) -> None:
    graph, labels = problem
    scaled = Graph.from_adjacency(graph.adjacency * factor)
    one = solved(Poisson(rtol=1e-10), graph, labels).scores
    other = solved(Poisson(rtol=1e-10), scaled, labels).scores
    np.testing.assert_allclose(other * factor, one, atol=1e-6 * max(1.0, np.abs(one).max()))


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@given(problem=problems())
def test_no_class_wins_in_a_component_without_its_label(model, problem) -> None:
    graph, labels = problem
    solution = solved(model, graph, labels)
    winners = solution.scores.argmax(axis=1)
    for node in np.flatnonzero(solution.reachable):
        inside = graph.component[labels.nodes] == graph.component[node]
        assert winners[node] in labels.classes[inside]


def test_isolated_labeled_nodes_keep_their_class_and_leave_the_rest_alone() -> None:
    graph = Graph.from_edges([0, 1], [1, 2], [1.0, 2.0], n_nodes=5)
    labels = Labels.from_pairs([0, 2, 3], ["a", "b", "c"])
    for model in MODELS:
        solution = solved(model, graph, labels)
        assert solution.scores[[0, 2, 3]].argmax(axis=1).tolist() == [0, 1, 2]
        assert solution.reachable.tolist() == [True, True, True, True, False]
    scores = solved(Poisson(rtol=1e-12), graph, labels).scores
    np.testing.assert_allclose(scores[:3, 0], [0.5, 0.0, -0.25], atol=1e-12)


@pytest.mark.parametrize("n_outer", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_mbo_agrees_with_all_its_rounds(n_outer: int, seed: int) -> None:
    graph = random_graph(60, 0.15, seed=seed).graph()
    assert graph.n_components == 1
    labels = Labels.from_pairs([0, 5, 9, 17], ["a", "b", "b", "b"])
    expected = poisson_mbo_shares(graph, labels, n_outer, 6)
    model = PoissonMBO(n_outer=n_outer, n_inner=6, n_splits=0, class_balance="labels", rtol=1e-12)
    scores = solved(model, graph, labels).scores
    offsets = scores - expected
    np.testing.assert_allclose(offsets, np.broadcast_to(offsets[0], offsets.shape), atol=1e-5)


def blocks(sizes: list[int], degree: float, across: float, seed: int) -> tuple[Graph, np.ndarray]:
    """Degree-corrected blocks: nodes draw edges by Pareto weights, in their block or anywhere."""
    rng = np.random.default_rng(seed)
    classes = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    weight = np.minimum(rng.pareto(1.5, classes.size) + 1.0, classes.size**0.5)
    ends = []
    for members in [*(np.flatnonzero(classes == k) for k in range(len(sizes))), None]:
        nodes = np.arange(classes.size) if members is None else members
        chance = weight[nodes] / weight[nodes].sum()
        n_edges = int(nodes.size * (across if members is None else degree) / 2)
        ends.append(rng.choice(nodes, (2, n_edges), p=chance))
    u, v = np.concatenate(ends, axis=1)
    apart = u != v
    u, v = u[apart], v[apart]
    return Graph.from_edges(u, v, np.ones(u.size), n_nodes=classes.size), classes


def with_one_label_each(classes: np.ndarray, seed: int) -> Labels:
    nodes = draw_per_class(classes, 1, seed=seed)
    return Labels.from_pairs(nodes, classes[nodes])


@pytest.mark.parametrize("small", [60, 300, 600])
def test_known_sizes_find_a_small_class_among_hubs(small: int) -> None:
    graph, classes = blocks([small, 3_000 - small], 10.0, 4.0, seed=0)
    sizes = {"0": small, "1": 3_000 - small}
    labels = with_one_label_each(classes, seed=1)
    solution = solved(PoissonMBO(class_balance=sizes), graph, labels)
    found = solution.scores.argmax(axis=1)
    assert (found[classes == 0] == 0).mean() > 0.85
    assert (found == classes).mean() > 0.97
    assert solution.stats["share_miss"] < 0.02
    assert not solution.warnings


@pytest.mark.parametrize("small", [30, 300, 1_500])
def test_estimated_sizes_are_those_of_the_blocks(small: int) -> None:
    graph, classes = blocks([small, 3_000 - small], 10.0, 4.0, seed=0)
    labels = with_one_label_each(classes, seed=2)
    found = solved(PoissonMBO(class_balance="estimated"), graph, labels).scores.argmax(axis=1)
    assert shares(np.eye(2)[found])[0] == pytest.approx(small / 3_000, abs=0.02)
    assert (found == classes).mean() > 0.96


def test_estimated_sizes_save_a_class_that_free_cuts_lose() -> None:
    graph, classes = blocks([300, 2_700], 6.0, 6.0, seed=0)
    labels = with_one_label_each(classes, seed=1)
    free, estimated = (
        solved(PoissonMBO(class_balance=sizes), graph, labels).scores.argmax(axis=1)
        for sizes in ("none", "estimated")
    )
    assert (free == 0).mean() < 0.02
    assert (estimated[classes == 0] == 0).mean() > 0.7
    assert (estimated == classes).mean() > 0.9


@pytest.mark.slow
def test_pairs_that_start_across_their_border_are_split_anew() -> None:
    images, classes = load_digits(return_X_y=True)
    graph = Graph.from_edges(*neighbor_edges(images, 10), n_nodes=len(images))
    sizes = {str(k): int((classes == k).sum()) for k in range(10)}
    found = {0: [], 8: []}
    for seed in range(4):
        labels = with_one_label_each(classes, seed)
        for n_splits, rows in found.items():
            model = PoissonMBO(class_balance=sizes, n_splits=n_splits)
            solution = solved(model, graph, labels)
            rows.append((solution.stats["assortativity"], solution.stats["n_splits"]))
    whole, split = np.array(found[0]), np.array(found[8])
    changed = split[:, 1] > 0
    assert changed.any()
    assert (split[changed, 0] > whole[changed, 0]).all()
    np.testing.assert_array_equal(split[~changed, 0], whole[~changed, 0])


def test_sizes_that_equal_nodes_cannot_meet_are_warned_of() -> None:
    leaves = np.arange(2, 102)
    graph = Graph.from_edges(
        np.r_[0, np.zeros(100, int)], np.r_[1, leaves], np.ones(101), n_nodes=102
    )
    labels = Labels.from_pairs([0, 1], ["hub", "leaf"])
    for model in (Poisson, PoissonMBO):
        solution = solved(model(class_balance={"hub": 1, "leaf": 1, "none": 1}), graph, labels)
        unknown, missed = solution.warnings
        assert "'none', which no label has" in unknown
        assert f"missed by {solution.stats['share_miss']:.2f}" in missed


def test_mixing_is_newmans_assortativity_and_the_normalized_cut() -> None:
    graph = random_graph(30, 0.3, seed=1).graph()
    classes = np.arange(30) % 3
    mixing = Mixing.of(graph, classes, np.ones(30, bool), 3)
    matrix = graph.adjacency.toarray()
    joined = np.array(
        [[matrix[classes == k][:, classes == other].sum() for other in range(3)] for k in range(3)]
    )
    np.testing.assert_allclose(mixing.weight, joined)
    shares = joined.sum(axis=1) / joined.sum()
    within = np.trace(joined) / joined.sum()
    chance = (shares**2).sum()
    assert mixing.assortativity == pytest.approx((within - chance) / (1 - chance))
    cut = (joined.sum(axis=1) - np.diag(joined)) / joined.sum(axis=1)
    assert mixing.retention == pytest.approx(3 - cut.sum())


@pytest.mark.slow
def test_a_start_saves_steps() -> None:
    graph, classes = digits_graph()
    nodes = draw_per_class(classes, 3, seed=0)
    model = Poisson()
    prepared = model.prepare(graph)
    first = model.solve(prepared, Labels.from_pairs(nodes[:-1], classes[nodes[:-1]]))
    labels = Labels.from_pairs(nodes, classes[nodes])
    cold, warm = model.solve(prepared, labels), model.solve(prepared, labels, start=first)
    again = model.solve(prepared, labels, start=warm)
    assert again.stats["n_iter"] == 0 < warm.stats["n_iter"]
    np.testing.assert_allclose(warm.scores, cold.scores, atol=1e-4 * np.abs(cold.scores).max())


@pytest.mark.slow
def test_one_label_per_class_is_enough_on_digits() -> None:
    graph, classes = digits_graph()
    found = {model: [] for model in MODELS[:2]}
    for seed in range(2):
        nodes = draw_per_class(classes, 1, seed=seed)
        labels = Labels.from_pairs(nodes, classes[nodes])
        for model, values in found.items():
            scores = solved(model, graph, labels).scores
            values.append(accuracy(scores, classes, nodes))
    assert all(np.mean(values) > 0.75 for values in found.values())


def test_a_class_with_most_of_the_labels_does_not_take_most_of_the_nodes() -> None:
    graph, classes = digits_graph()
    many, few = (draw_per_class(classes, number, seed=0) for number in (20, 1))
    nodes = np.union1d(many[classes[many] == 3], few)
    labels = Labels.from_pairs(nodes, classes[nodes])
    assert labels.class_prior()[3] > 0.6
    assert shares(solved(Poisson(), graph, labels).scores)[3] < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("model", [Poisson(class_balance="labels"), MODELS[2]])
def test_class_sizes_follow_the_labels_where_asked(model) -> None:
    graph, classes = digits_graph()
    nodes = draw_per_class(classes, 4, seed=2)
    labels = Labels.from_pairs(nodes, classes[nodes])
    free = type(model)()
    asked = labels.class_prior()
    balanced = np.abs(shares(solved(model, graph, labels).scores) - asked).max()
    assert balanced <= 2e-3
    assert np.abs(shares(solved(free, graph, labels).scores) - asked).max() > 3 * balanced


@pytest.mark.slow
@pytest.mark.parametrize("model_class", [Poisson, PoissonMBO])
def test_class_sizes_that_are_known_are_met_or_what_misses_is_told(model_class) -> None:
    graph, classes = digits_graph()
    nodes = draw_per_class(classes, 4, seed=2)
    labels = Labels.from_pairs(nodes, classes[nodes])
    sizes = {str(name): 3.0 + name % 3 for name in range(10)} | {"never labeled": 7.0}
    asked = np.array([sizes[str(name)] for name in range(10)])
    asked /= asked.sum()
    model = model_class(class_balance=sizes)
    solution = solved(model, graph, labels)
    miss = np.abs(shares(solution.scores) - asked).max()
    assert miss < 0.8 * np.abs(shares(solved(model_class(), graph, labels).scores) - asked).max()
    assert solution.stats["share_miss"] == pytest.approx(miss)
    doubled = model_class(class_balance={name: 2 * size for name, size in sizes.items()})
    np.testing.assert_array_equal(
        solved(doubled, graph, labels).scores, solved(model, graph, labels).scores
    )


def test_a_class_without_a_share_is_named() -> None:
    graph, classes = digits_graph()
    nodes = draw_per_class(classes, 1, seed=0)
    labels = Labels.from_pairs(nodes, classes[nodes])
    sizes = {str(name): 1.0 for name in range(9)}
    with pytest.raises(
        ValueError, match="class_balance must name every class that is labeled, got no share for 9"
    ):
        solved(Poisson(class_balance=sizes), graph, labels)


@given(st.integers(2, 6), st.integers(0, 1_000))
def test_class_offsets_reach_the_shares(n_classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((5_000, n_classes))
    scores -= scores.mean(axis=1, keepdims=True)  # for two classes no weights change an arg max
    asked = rng.dirichlet(np.full(n_classes, 5.0))
    offsets = class_offsets(scores, asked, asked)
    assert np.abs(shares(scores + offsets) - asked).max() <= 1.5e-3


@given(st.integers(2, 6), st.integers(0, 1_000))
def test_offsets_are_multipliers_of_the_bounds(n_classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((5_000, n_classes))
    middle = rng.dirichlet(np.full(n_classes, 5.0))
    lower, upper = 0.7 * middle, 1.3 * middle
    offsets = class_offsets(scores, lower, upper)
    won = shares(scores + offsets)
    assert (won >= lower - 1.5e-3).all()
    assert (won <= upper + 1.5e-3).all()
    np.testing.assert_allclose(won[offsets > 0], lower[offsets > 0], atol=1.5e-3)
    np.testing.assert_allclose(won[offsets < 0], upper[offsets < 0], atol=1.5e-3)


def test_what_did_not_converge_says_so() -> None:
    graph, classes = digits_graph()
    nodes = draw_per_class(classes, 1, seed=0)
    labels = Labels.from_pairs(nodes, classes[nodes])
    for model in (Poisson(max_iter=1), PoissonMBO(max_iter=1, n_outer=1)):
        assert model.solve(model.prepare(graph), labels).status is Status.MAX_ITER
