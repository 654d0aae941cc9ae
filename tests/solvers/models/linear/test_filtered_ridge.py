import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

import peewit
from peewit.solvers.features import FeatureRows
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import UNWATCHED, ProgressReport
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.walks.personalized_pagerank import PersonalizedPageRank, n_steps
from peewit.solvers.models.linear import filtered_ridge
from peewit.solvers.models.linear.filtered_features import (
    Arm,
    FilteredFeatures,
    FunctionsByRelation,
)
from peewit.solvers.models.linear.filtered_ridge import FilteredRidge
from peewit.solvers.models.linear.kernel_ridge import class_folds, class_targets, fitted_ridge
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status
from peewit.streaming.features.feature_files import ParquetFeatures
from tests.data_sets import accuracy, draw_per_class, labeled_graph
from tests.reference.filtered_ridge import DenseRidge, pagerank, targets_of, unit_rows

N_NODES = 150


def weighted_graph(n_isolated: int = 3) -> tuple[Graph, np.ndarray]:
    """Three communities with weights over four decades, and some nodes without edges."""
    rng = np.random.default_rng(0)
    classes = np.arange(N_NODES) % 3
    u, v = rng.integers(0, N_NODES - n_isolated, (2, 1500))
    kept = (u != v) & (rng.random(u.size) < np.where(classes[u] == classes[v], 0.8, 0.1))
    weight = rng.lognormal(0.0, 2.0, int(kept.sum()))
    return Graph.from_edges(u[kept], v[kept], weight, n_nodes=N_NODES), classes


def words(classes: np.ndarray, *, n_columns: int = 40, seed: int = 1) -> sp.csr_array:
    """Each node has some words, more of those of its class; none has no word."""
    rng = np.random.default_rng(seed)
    chance = np.where(np.arange(n_columns) % 3 == classes[:, None], 0.2, 0.08)
    rows = (rng.random((classes.size, n_columns)) < chance).astype(np.float64)
    rows[np.arange(classes.size), rng.integers(0, n_columns, classes.size)] = 2.0
    return sp.csr_array(rows)


def some_labels(classes: np.ndarray, per_class: int = 6) -> Labels:
    nodes = draw_per_class(classes, per_class, seed=0)[:-2]  # uneven classes
    return Labels.from_pairs(nodes, classes[nodes])


def solved(model: FilteredRidge, graph: Graph, features, labels: Labels, **settings) -> Solution:
    return model.solve(model.prepare(graph, features, **settings), labels)


@pytest.mark.parametrize("teleport", [0.05, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("rtol", [1e-3, 1e-6])
def test_columns_are_those_of_the_inverse_within_the_error_asked_for(teleport, rtol) -> None:
    graph, _ = weighted_graph()
    block = np.random.default_rng(2).standard_normal((N_NODES, 5))
    expected = pagerank(graph.adjacency.toarray(), teleport) @ block
    found = PersonalizedPageRank.of_graph(graph).filtered(block, teleport, rtol=rtol)
    error = np.linalg.norm(found - expected, axis=0) / np.linalg.norm(block, axis=0)
    assert error.max() < rtol
    assert n_steps(teleport, 1e-6) <= 45


@pytest.mark.parametrize("n_columns", [40, 12])  # more than labels, and fewer
@pytest.mark.parametrize("dense", [False, True])
def test_scores_are_those_of_the_ridge_on_all_smoothed_features(dense: bool, n_columns) -> None:
    graph, classes = weighted_graph()
    labels, features = some_labels(classes), words(classes, n_columns=n_columns)
    features = features.toarray() if dense else features
    found = solved(FilteredRidge(teleport=0.2, norm_penalty=0.7), graph, features, labels)
    twin = DenseRidge(
        points=pagerank(graph.adjacency.toarray(), 0.2) @ unit_rows(features),
        nodes=labels.nodes,
        targets=targets_of(labels.classes),
        norm_penalty=0.7,
    )
    np.testing.assert_allclose(found.scores, twin.scores(), atol=2e-5)
    right = (twin.left_out(class_folds(labels)).argmax(axis=1) == labels.classes).mean()
    assert found.stats["loo_accuracy"] == pytest.approx(right)
    assert found.stats["loo_labels"] == labels.n_labeled


@pytest.mark.parametrize("together", [False, True])
def test_left_out_values_are_those_of_fits_without_the_labels(together: bool) -> None:
    graph, classes = weighted_graph()
    labels = some_labels(classes)
    fold = class_folds(labels) if together else np.full(labels.n_labeled, -1)
    points = pagerank(graph.adjacency.toarray(), 0.1) @ unit_rows(words(classes))
    rows = points[labels.nodes]
    targets = class_targets(labels)
    fit = fitted_ridge(rows @ rows.T, targets, 0.3, fold=fold, constant=0.2)
    twin = DenseRidge(
        points=points,
        nodes=labels.nodes,
        targets=targets_of(labels.classes),
        norm_penalty=0.3,
        constant=0.2,
    )
    np.testing.assert_allclose(fit.left_out, twin.left_out(fold), atol=1e-10)
    assert np.abs(fit.left_out - twin.scores()[labels.nodes]).max() > 0.01
    model = FilteredRidge(teleport=0.1)
    whole = DenseRidge(
        points=points, nodes=labels.nodes, targets=targets_of(labels.classes), norm_penalty=1.0
    )
    _, rows = model.solved_and_left_out(model.prepare(graph, words(classes)), labels)
    np.testing.assert_allclose(rows.values, whole.left_out(class_folds(labels)), atol=1e-4)


def test_few_features_take_a_column_each_whether_all_that_is_smoothed_fits_or_not() -> None:
    graph, classes = weighted_graph()
    features = words(classes, n_columns=12)
    labels = Labels.from_pairs(np.arange(60), classes[:60])
    model = FilteredRidge(teleport=0.1)
    whole = solved(model, graph, features, labels)
    tight = solved(model, graph, features, labels, kept_bytes=12_000)  # of 4 * 12 * 150 twice
    np.testing.assert_allclose(tight.scores, whole.scores, atol=1e-6)
    assert tight.stats["n_columns"] == whole.stats["n_columns"] == 12 + 3


def two_relations() -> tuple[Graph, np.ndarray]:
    """Twice the edges of `weighted_graph` and thrice as many random ones, and the classes."""
    graph, classes = weighted_graph()
    u, v = np.random.default_rng(4).integers(0, N_NODES, (2, 3 * graph.n_edges))
    random = Graph.from_edges(u, v, np.ones(u.size), n_nodes=N_NODES)
    return Graph.weighted_sum([graph, random], [2.0, 5.0]), classes


def test_features_are_smoothed_along_each_relation_as_far_as_labels_believe_it() -> None:
    graph, classes = two_relations()
    labels, features = some_labels(classes), words(classes)
    found = solved(FilteredRidge(teleport=0.2, norm_penalty=0.7), graph, features, labels)
    belief = found.stats["belief_relations"]
    assert 0.1 < belief < 0.999
    volumes = [part.weight * part.graph.degree.sum() for part in graph.parts]
    along = [
        pagerank(each.adjacency.toarray(), 0.2) @ unit_rows(features)
        for each in (graph, *(part.graph for part in graph.parts))
    ]
    shares = np.sqrt(np.array(volumes) / sum(volumes))
    pair = along[0], np.hstack([root * each for root, each in zip(shares, along[1:], strict=True)])
    points = [
        root * each / np.sqrt(np.square(each[labels.nodes]).sum() / labels.n_labeled)
        for root, each in zip(np.sqrt([1.0 - belief, belief]), pair, strict=True)
    ]
    twin = DenseRidge(
        points=np.hstack(points),
        nodes=labels.nodes,
        targets=targets_of(labels.classes),
        norm_penalty=0.7,
    )
    np.testing.assert_allclose(found.scores, twin.scores(), atol=2e-5)
    assert isinstance(found.functions, FunctionsByRelation)
    summed = found.functions.parts.sum(axis=0)
    np.testing.assert_allclose(summed, found.functions.weights[:-1], atol=1e-12)


def test_a_relation_of_random_edges_costs_little_where_features_are_smoothed_along_each() -> None:
    graph, classes = two_relations()
    labels, features = some_labels(classes), words(classes, n_columns=90)
    alone = Graph.from_adjacency(graph.adjacency)  # which knows of no relations
    model = FilteredRidge(teleport=0.1)
    apart = solved(model, graph, features, labels)
    together = solved(model, alone, features, labels)
    assert apart.stats["belief_relations"] > 0.7
    assert "belief_relations" not in together.stats
    right = [accuracy(each, classes, labels.nodes) for each in (apart.scores, together.scores)]
    assert right[0] > right[1] + 0.1


def test_rows_of_zeros_are_nodes_without_features() -> None:
    graph, classes = weighted_graph()
    labels, rows = some_labels(classes), words(classes).toarray()
    empty = np.arange(0, N_NODES, 5)
    rows[empty] = 0.0
    known = np.setdiff1d(np.arange(N_NODES), empty)
    found = solved(FilteredRidge(teleport=0.1), graph, sp.csr_array(rows), labels).scores
    unit = np.zeros_like(rows)
    away = rows[known] - rows.mean(axis=0)
    unit[known] = away / np.linalg.norm(away, axis=1, keepdims=True)
    twin = DenseRidge(
        points=pagerank(graph.adjacency.toarray(), 0.1) @ unit,
        nodes=labels.nodes,
        targets=targets_of(labels.classes),
        norm_penalty=1.0,
    )
    reached = graph.degree > 0
    np.testing.assert_allclose(found[reached], twin.scores()[reached], atol=1e-4)


@pytest.mark.parametrize("dense", [False, True])
def test_features_far_from_zero_say_what_they_say_beside_it(dense: bool) -> None:
    graph, classes = weighted_graph()
    labels, rows = some_labels(classes), words(classes).toarray()
    model, found = FilteredRidge(), []
    for away in (0.0, 1e9) if dense else (0.0, 1e4):
        given = rows + away if dense else sp.csr_array(rows + away)
        prepared = model.prepare(graph, given)
        solution = model.solve(prepared, labels)
        found.append((solution.scores, model.predict(prepared, solution, given)))
    for here, there in zip(*found, strict=True):
        np.testing.assert_allclose(here, there, atol=1e-4)


def test_features_whose_squares_are_nothing_to_a_float_are_refused() -> None:
    graph, classes = weighted_graph()
    rows = words(classes).toarray() * 1e-200
    with pytest.raises(ValueError, match=r"features must reach 1e-150, got at most .*scale them"):
        solved(FilteredRidge(), graph, rows, some_labels(classes))


@pytest.mark.parametrize("value", [0.1, 1.0 / 3.0, 1.0])
def test_features_that_are_all_alike_say_nothing(value: float) -> None:
    graph, classes = weighted_graph()
    labels = some_labels(classes)
    alike = solved(FilteredRidge(), graph, np.full((N_NODES, 30), value), labels)
    alone = solved(FilteredRidge(), graph, None, labels)
    np.testing.assert_array_equal(alike.scores.argmax(axis=1), alone.scores.argmax(axis=1))


def test_of_very_many_labels_a_part_of_each_class_is_fitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph, classes = weighted_graph()
    labels = Labels.from_pairs(np.arange(120), np.where(classes[:120] == 2, 1, classes[:120]))
    model = FilteredRidge(teleport=0.1)
    whole = solved(model, graph, words(classes), labels)
    monkeypatch.setattr(filtered_ridge, "MOST_LABELS", 45)
    part, rows = model.solved_and_left_out(model.prepare(graph, words(classes)), labels)
    told = [each for each in part.warnings if "45 of the 120 labels" in each]
    assert not whole.warnings
    assert len(told) == 1
    chosen = filtered_ridge._choose_evenly(labels, 45)
    assert np.bincount(labels.classes[chosen]).tolist() == [15, 30]
    fewer = solved(model, graph, words(classes), labels.subset(chosen))
    np.testing.assert_allclose(part.scores, fewer.scores, atol=1e-6)
    others = np.setdiff1d(np.arange(120), chosen)
    np.testing.assert_array_equal(rows.values[others], part.scores[labels.nodes[others]])


def test_folds_hold_about_one_label_of_each_class() -> None:
    classes = np.array([0] * 6 + [1] * 6 + [2] * 6 + [3])
    labels = Labels.from_pairs(np.arange(classes.size), classes)
    fold = class_folds(labels)
    assert fold[-1] == -1  # its class has no other
    for number in range(int(fold.max()) + 1):
        counts = np.bincount(classes[fold == number], minlength=4)
        assert counts.max() - counts[:3].min() <= 1
    few = Labels.from_pairs([0, 1, 2], [0, 1, 2])
    assert (class_folds(few) == -1).all()


def test_a_graph_alone_is_the_ridge_on_its_pagerank() -> None:
    graph, classes = weighted_graph()
    labels = some_labels(classes)
    found = solved(FilteredRidge(), graph, None, labels)
    twin = DenseRidge(
        points=pagerank(graph.adjacency.toarray(), 0.1),
        nodes=labels.nodes,
        targets=targets_of(labels.classes),
        norm_penalty=1.0,
        constant=0.0,
    )
    reached = np.isin(graph.component, graph.component[labels.nodes])
    np.testing.assert_array_equal(found.reachable, reached)
    np.testing.assert_allclose(found.scores[reached], twin.scores()[reached], atol=2e-5)
    assert found.stats["input"] == "graph"
    assert found.functions is None


def test_without_edges_it_is_the_ridge_on_the_features() -> None:
    _, classes = weighted_graph()
    labels, features = some_labels(classes), words(classes)
    graph = Graph.from_edges([], [], [], n_nodes=N_NODES)
    twin = DenseRidge(
        points=unit_rows(features),
        nodes=labels.nodes,
        targets=targets_of(labels.classes),
        norm_penalty=1.0,
    )
    found = solved(FilteredRidge(), graph, features, labels)
    assert found.reachable.all()
    np.testing.assert_allclose(found.scores, twin.scores(), atol=2e-5)


def test_renumbering_nodes_renumbers_scores_with_features() -> None:
    graph, classes = weighted_graph()
    labels, features = some_labels(classes), words(classes)
    order = np.random.default_rng(3).permutation(N_NODES)
    place = np.argsort(order)
    renumbered = Labels.from_pairs(place[labels.nodes], labels.classes)
    one = solved(FilteredRidge(), graph, features, labels)
    other = solved(FilteredRidge(), graph.renumbered(order), features[order], renumbered)
    np.testing.assert_allclose(other.scores, one.scores[order], atol=1e-5)
    assert other.stats["arm"] == one.stats["arm"]


def test_a_label_more_is_a_column_more() -> None:
    graph, classes = weighted_graph()
    features = words(classes)
    labels = some_labels(classes)
    fewer = labels.subset(np.arange(1, labels.n_labeled))
    model = FilteredRidge(teleport=0.2)
    prepared = model.prepare(graph, features)
    first = model.solve(prepared, fewer)
    assert first.stats["n_columns"] == fewer.n_labeled + labels.n_classes
    second = model.solve(prepared, labels)
    assert second.stats["n_columns"] == 1 + labels.n_classes
    fresh = model.solve(model.prepare(graph, features), labels)
    np.testing.assert_allclose(second.scores, fresh.scores, atol=1e-6)


def test_what_does_not_fit_the_memory_is_computed_anew() -> None:
    graph, classes = weighted_graph()
    labels, features = some_labels(classes, per_class=15), words(classes)
    for given in (features, None):
        whole = solved(FilteredRidge(), graph, given, labels)
        small = solved(FilteredRidge(), graph, given, labels, kept_bytes=1000)
        np.testing.assert_allclose(small.scores, whole.scores, atol=1e-5)
        assert small.stats["n_columns"] > whole.stats["n_columns"]


def test_few_features_are_columns_once_for_all_labels() -> None:
    graph, classes = weighted_graph()
    features, model = words(classes, n_columns=12), FilteredRidge(teleport=0.1)
    prepared = model.prepare(graph, features)
    first = model.solve(prepared, some_labels(classes))
    assert first.stats["n_columns"] == 12 + 3  # of the features, and of the classes
    more = some_labels(classes, per_class=12)
    again = model.solve(prepared, more)
    assert again.stats["n_columns"] == 3
    without_room = solved(model, graph, features, more, kept_bytes=1 << 10)
    assert without_room.stats["n_columns"] > more.n_labeled
    np.testing.assert_allclose(without_room.scores, again.scores, atol=1e-4)


@pytest.mark.parametrize("is_told_by_edges", [False, True])
def test_some_of_many_labels_judge_and_all_are_fitted(
    is_told_by_edges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, classes = weighted_graph()
    by_features = np.random.default_rng(5).permutation(classes)
    labels = some_labels(classes if is_told_by_edges else by_features, per_class=40)
    features = words(by_features, n_columns=24)
    by_all = solved(FilteredRidge(), graph, features, labels)
    monkeypatch.setattr(filtered_ridge, "MOST_JUDGED", 60)
    model = FilteredRidge()
    prepared = model.prepare(graph, features)
    by_some, rows = model.solved_and_left_out(prepared, labels)
    assert (by_some.stats["arm"] == "graph") == is_told_by_edges
    assert by_some.stats["arm"] == by_all.stats["arm"]
    fitted = model.solve(prepared, labels)
    np.testing.assert_allclose(fitted.scores, by_all.scores, atol=1e-4)
    assert rows.values.shape == (labels.n_labeled, 3)
    assert by_some.stats["loo_labels"] == labels.n_labeled
    most = 2 * 60 + 2 * 24 + 3 * 3 + (labels.n_labeled if is_told_by_edges else 0)
    assert 0 < by_some.stats["n_columns"] <= most


def test_memory_is_that_of_columns_for_labels_not_for_features() -> None:
    rng = np.random.default_rng(4)
    n_nodes, n_columns = 20_000, 2_000
    u = rng.integers(0, n_nodes, 60_000)
    v = (u + rng.integers(1, 50, u.size)) % n_nodes
    graph = Graph.from_edges(u, v, np.ones(u.size), n_nodes=n_nodes)
    features = sp.random_array(
        (n_nodes, n_columns), density=0.003, format="csr", rng=rng, dtype=np.float32
    )
    labels = Labels.from_pairs(np.arange(20), np.arange(20) % 2)
    model = FilteredRidge()
    prepared = model.prepare(graph, features)
    model.solve(prepared, labels)  # kernels are compiled
    tracemalloc.start()
    model.solve(model.prepare(graph, features), labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * n_nodes * n_columns / 5


def written(path: Path, features) -> ParquetFeatures:
    if sp.issparse(features):
        parts = [features[[row]] for row in range(features.shape[0])]
        table = {
            "indices": [part.indices.astype(np.int32) for part in parts],
            "values": [part.data.astype(np.float32) for part in parts],
        }
    else:
        table = {"features": list(features.astype(np.float32))}
    node = {"node": np.arange(features.shape[0])}
    pq.write_table(pa.table(node | table), path, row_group_size=40)
    return ParquetFeatures.open(path, n_columns=features.shape[1])


@pytest.mark.parametrize("dense", [False, True])
def test_features_out_of_core_give_the_scores_of_those_in_memory(tmp_path, dense: bool) -> None:
    graph, classes = weighted_graph()
    labels, features = some_labels(classes), words(classes)
    features = features.toarray() if dense else features
    held = solved(FilteredRidge(), graph, features, labels)
    read = solved(FilteredRidge(), graph, written(tmp_path / "rows.parquet", features), labels)
    np.testing.assert_allclose(read.scores, held.scores, atol=1e-5)


def test_features_are_read_twice_in_a_solve(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, classes = weighted_graph()
    labels = some_labels(classes)
    rows = written(tmp_path / "rows.parquet", words(classes))
    model = FilteredRidge(teleport=0.1)
    prepared = model.prepare(graph, rows)
    model.solve(prepared, labels.subset(np.arange(1, labels.n_labeled)))
    opened = []
    plain = ParquetFeatures.blocks

    def blocks(self, *given):
        opened.append(1)
        return plain(self, *given)

    monkeypatch.setattr(ParquetFeatures, "blocks", blocks)
    model.solve(prepared, labels)
    assert len(opened) == 2


def two_cliques_apart() -> Graph:
    """Nodes 0-9 without features, 10-19 and 20-29 with; 30 and 31 have neither edge nor feature."""
    u, v = np.triu_indices(10, 1)
    starts = np.array([0, 10, 20])[:, None]
    return Graph.from_edges(
        (u + starts).ravel(), (v + starts).ravel(), np.ones(3 * u.size), n_nodes=32
    )


def test_nodes_without_features_are_reached_through_the_graph() -> None:
    graph = two_cliques_apart()
    known = np.array([11, 12, 13, 14, 21, 22, 23])
    rows = np.array([[1.0, 0.1]] * 2 + [[0.1, 1.0]] * 2 + [[1.0, 0.0]] * 3)
    features = FeatureRows(values=sp.csr_array(rows), nodes=known)
    # two of a clique without features, the rest of one with; nobody in 20 .. 29 has a label
    labels = Labels.from_pairs([0, 1, 11, 12, 13, 14], ["a", "a", "b", "b", "b", "a"])
    solution = solved(FilteredRidge(teleport=0.1), graph, features, labels)
    winners = solution.scores.argmax(axis=1)
    np.testing.assert_array_equal(winners[:10], 0)  # by the labels there
    np.testing.assert_array_equal(winners[20:30], 1)  # by the features of neighbors
    np.testing.assert_array_equal(np.flatnonzero(~solution.reachable), [30, 31])
    np.testing.assert_array_equal(solution.scores[30:], [labels.class_prior()] * 2)
    assert solution.stats["n_without_features"] == 25


@pytest.mark.parametrize("dense", [False, True])
def test_a_new_point_with_the_edges_of_a_node_is_scored_as_the_node(dense: bool) -> None:
    graph, classes = weighted_graph()
    labels, features = some_labels(classes), words(classes)
    features = features.toarray() if dense else features
    model = FilteredRidge(teleport=0.2)
    prepared = model.prepare(graph, features)
    solution = model.solve(prepared, labels)
    with_edges = model.predict(prepared, solution, features, graph.adjacency)
    np.testing.assert_allclose(with_edges, solution.scores, atol=1e-5)
    alone = model.predict(prepared, solution, features)
    isolated = np.diff(graph.adjacency.indptr) == 0
    assert isolated.sum() >= 3
    np.testing.assert_allclose(alone[isolated], with_edges[isolated], atol=1e-6)
    assert np.abs(alone - with_edges).max() > 0.01


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        (np.ones((1, 3)), rf"edges must have shape \(1, {N_NODES}\), got \(1, 3\)"),
        (np.full((1, N_NODES), -1.0), "edges must be weights that are finite and >= 0"),
        (np.full((1, N_NODES), np.nan), "edges must be weights that are finite and >= 0"),
    ],
)
def test_edges_of_new_points_that_are_none_are_refused(edges, message) -> None:
    graph, classes = weighted_graph()
    model, features = FilteredRidge(), words(classes)
    prepared = model.prepare(graph, features)
    solution = model.solve(prepared, some_labels(classes))
    with pytest.raises(ValueError, match=message):
        model.predict(prepared, solution, features[[0]], edges)


def test_a_graph_alone_predicts_no_new_points() -> None:
    graph, classes = weighted_graph()
    model = FilteredRidge()
    prepared = model.prepare(graph)
    solution = model.solve(prepared, some_labels(classes))
    with pytest.raises(
        ValueError, match="new points need a model of features, got one of the graph"
    ):
        model.predict(prepared, solution, words(classes))


def random_graph(classes: np.ndarray, between: float, seed: int = 0) -> Graph:
    """Edges at random, those between classes kept with that probability."""
    rng = np.random.default_rng(seed)
    u, v = rng.integers(0, classes.size, (2, 10 * classes.size))
    kept = (u != v) & (rng.random(u.size) < np.where(classes[u] == classes[v], 1.0, between))
    return Graph.from_edges(u[kept], v[kept], np.ones(kept.sum()), n_nodes=classes.size)


@pytest.mark.parametrize("is_right", [False, True])
def test_the_guard_drops_edges_or_features_that_say_nothing(is_right: bool) -> None:
    classes = np.arange(600) % 3
    labels = some_labels(classes, per_class=60)
    shuffled = np.random.default_rng(5).permutation(classes)
    if is_right:  # the features are, the edges join other classes
        graph, features = random_graph(shuffled, 0.0), words(classes, n_columns=120)
    else:
        graph, features = random_graph(classes, 0.1), words(shuffled, n_columns=120)
    guarded = solved(FilteredRidge(), graph, features, labels)
    fixed = solved(FilteredRidge(teleport=0.1), graph, features, labels)
    assert guarded.stats["arm"] in ({"features"} if is_right else {"graph"})
    assert fixed.stats["arm"] == "filtered"
    assert guarded.stats["loo_accuracy"] > guarded.stats["loo_filtered"]
    assert accuracy(guarded.scores, classes, labels.nodes) > (
        accuracy(fixed.scores, classes, labels.nodes) + 0.02
    )


def test_points_of_the_spectrum_take_over_where_neighbors_are_opposites() -> None:
    classes = np.arange(600) % 2
    rng = np.random.default_rng(3)
    u, v = rng.integers(0, classes.size, (2, 6_000))
    kept = (u != v) & (rng.random(u.size) < np.where(classes[u] == classes[v], 0.1, 1.0))
    graph = Graph.from_edges(u[kept], v[kept], np.ones(kept.sum()), n_nodes=classes.size)
    features, labels = words(classes), some_labels(classes, per_class=20)
    model = FilteredRidge()
    prepared = model.prepare(graph, features)
    solution = model.solve(prepared, labels)
    assert solution.stats["arm"] == "points"
    assert solution.stats["loo_points"] > solution.stats["loo_filtered"] + 0.2
    alone = solved(FilteredRidge(teleport=0.1), graph, features, labels)
    better = accuracy(solution.scores, classes, labels.nodes)
    assert better > accuracy(alone.scores, classes, labels.nodes) + 0.2
    assert solution.of_features is None
    plain = FilteredRidge(teleport=0.1)
    ready = plain.prepare(graph, features)
    by_features = plain.predict(ready, plain.solve(ready, labels), features[:9])
    np.testing.assert_allclose(
        model.predict(prepared, solution, features[:9]), by_features, atol=1e-5
    )
    edges = sp.csr_array((9, graph.n_nodes))
    with pytest.raises(ValueError, match="solve with teleport"):
        model.predict(prepared, solution, features[:9], edges)
    given = np.full(classes.size, -1)
    given[labels.nodes] = labels.classes
    made = peewit.FilteredRidge(probabilities=True).fit(features, given, graph)
    assert made.stats_["arm"] == "points"
    assert made.predict(features[:9]).shape == (9,)
    with pytest.raises(ValueError, match="solve with teleport"):
        made.predict(features[:9], edges)
    with pytest.raises(ValueError, match="to predict them as nodes are"):
        made.predict_proba(features[:9])  # calibrated are the scores of nodes
    assert made.predict_proba(nodes=[0, 1]).shape == (2, 2)


def test_scores_with_points_are_those_of_the_ridge_on_both() -> None:
    graph, classes = weighted_graph()
    labels, features = some_labels(classes), words(classes)
    prepared = FilteredRidge().prepare(graph, features)
    smoothed = pagerank(graph.adjacency.toarray(), 0.1) @ unit_rows(features)
    size = np.sqrt(np.square(smoothed[labels.nodes]).sum() / labels.n_labeled)
    points = prepared.points(UNWATCHED)
    both = np.concatenate([smoothed / size, np.sqrt(0.3) * points], axis=1)
    arm = Arm(name="points", teleport=0.1, factors=(1.0 / size**2,), points=0.3)
    kernel = prepared.kernel(arm, labels.nodes, UNWATCHED)
    np.testing.assert_allclose(kernel, both[labels.nodes] @ both[labels.nodes].T, atol=1e-5)
    dual = np.random.default_rng(0).standard_normal((labels.n_labeled, 3))
    scores, weights = prepared.scores(arm, labels.nodes, dual, UNWATCHED)
    np.testing.assert_allclose(scores, both @ (both[labels.nodes].T @ dual), atol=1e-4)
    assert weights == {}


def test_the_guard_is_seldom_moved_by_chance() -> None:
    taken = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        classes = rng.permutation(np.arange(600) % 3)
        graph = random_graph(rng.permutation(classes), 0.5, seed)
        features = words(rng.permutation(classes), n_columns=60, seed=seed)
        labels = some_labels(classes, per_class=20)
        taken.append(solved(FilteredRidge(), graph, features, labels).stats["arm"])
    assert taken.count("filtered") >= 16


@pytest.mark.slow
@pytest.mark.parametrize("name", ["acm", "blogcatalog"])
def test_left_out_labels_are_predicted_as_nodes_are_by_as_many(
    peewit_data: Path, name: str
) -> None:
    graph, classes = labeled_graph(peewit_data, name)
    features = sp.load_npz(peewit_data / f"{name}_features.npz")
    model, told, found = FilteredRidge(teleport=0.1), [], []
    prepared = model.prepare(graph, features)
    for seed in range(10):
        for n_labels in (4, 3):
            nodes = draw_per_class(classes, n_labels, seed=seed)
            solution = model.solve(prepared, Labels.from_pairs(nodes, classes[nodes]))
            if n_labels == 4:
                told.append(solution.stats["loo_accuracy"])
        found.append(accuracy(solution.scores, classes, nodes))
    assert np.mean(told) == pytest.approx(np.mean(found), abs=0.1)


def test_a_solve_that_is_cancelled_leaves_the_preparation_as_it_was() -> None:
    graph, classes = weighted_graph()
    labels, features = some_labels(classes), words(classes)
    model = FilteredRidge()
    expected = solved(model, graph, features, labels)
    for n_asked in (1, 20, 60, 80):
        prepared, asked = model.prepare(graph, features), []

        def cancelled(asked=asked, n_asked=n_asked) -> bool:
            asked.append(1)
            return len(asked) > n_asked

        assert model.solve(prepared, labels, cancelled=cancelled).status is Status.CANCELLED
        again = model.solve(prepared, labels)
        np.testing.assert_allclose(again.scores, expected.scores, atol=1e-6)


def test_progress_of_columns_is_told() -> None:
    graph, classes = weighted_graph()
    reports: list[ProgressReport] = []
    model = FilteredRidge()
    prepared: FilteredFeatures = model.prepare(graph, words(classes))
    model.solve(prepared, some_labels(classes), progress=reports.append)
    assert {report.phase for report in reports} == {"columns", "scores"}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("cora", 83.0), ("citeseer", 72.0)])
def test_the_public_split_is_as_good_as_a_graph_network(peewit_data: Path, name, least) -> None:
    graph, classes = labeled_graph(peewit_data, name)
    features = sp.load_npz(peewit_data / f"{name}_features.npz")
    split = pq.read_table(peewit_data / f"{name}_labels.parquet")["split"].to_numpy()
    train, test = np.flatnonzero(split == "train"), split == "test"
    solution = solved(FilteredRidge(), graph, features, Labels.from_pairs(train, classes[train]))
    found = solution.scores[test].argmax(axis=1) == classes[test]
    assert 100 * found.mean() >= least


def test_features_lift_a_graph_of_hubs(peewit_data: Path) -> None:
    graph, classes = labeled_graph(peewit_data, "blogcatalog")
    features = sp.load_npz(peewit_data / "blogcatalog_features.npz")
    nodes = draw_per_class(classes, 20, seed=0)
    labels = Labels.from_pairs(nodes, classes[nodes])
    assert accuracy(solved(FilteredRidge(), graph, features, labels).scores, classes, nodes) > 0.78


def uneven(n_nodes: int = 3_000) -> tuple[Graph, np.ndarray, sp.csr_array]:
    """Seven in ten nodes are of one class; neighbors and words tell little."""
    rng = np.random.default_rng(3)
    classes = rng.choice(3, n_nodes, p=[0.7, 0.2, 0.1])
    u, v = rng.integers(0, n_nodes, (2, 12 * n_nodes))
    kept = (u != v) & (rng.random(u.size) < np.where(classes[u] == classes[v], 0.5, 0.2))
    graph = Graph.from_edges(u[kept], v[kept], np.ones(kept.sum()), n_nodes=n_nodes)
    return graph, classes, words(classes)


def test_as_many_labels_of_each_class_predict_the_shares_of_the_nodes() -> None:
    graph, classes, features = uneven()
    model = FilteredRidge()
    prepared = model.prepare(graph, features)
    nodes = np.sort(draw_per_class(classes, 60, seed=1))
    labels = Labels.from_pairs(nodes, classes[nodes])
    found, raw = model.solve(prepared, labels), model.solved_and_left_out(prepared, labels)[0]
    (told,) = found.warnings
    assert told.startswith("the labels are no random sample of the nodes: 0 has 33% of them")
    assert accuracy(found.scores, classes, nodes) > accuracy(raw.scores, classes, nodes) + 0.01
    gained = found.scores - raw.scores
    assert np.ptp(gained, axis=0) == pytest.approx(0.0, abs=1e-12)
    assert gained[0, 0] > gained[0, 1] > gained[0, 2]
    rows = features[:5]
    of_new = model.predict(prepared, found, rows) - model.predict(prepared, raw, rows)
    assert of_new == pytest.approx(gained[:5])
    edges = graph.adjacency[:5]
    joined = model.predict(prepared, found, rows, edges)
    assert joined - model.predict(prepared, raw, rows, edges) == pytest.approx(gained[:5])


def test_shares_of_labels_drawn_at_random_stay() -> None:
    graph, classes, features = uneven()
    prepared = FilteredRidge().prepare(graph, features)
    for seed in range(10):
        nodes = np.sort(np.random.default_rng(seed).choice(classes.size, 180, replace=False))
        found = FilteredRidge().solve(prepared, Labels.from_pairs(nodes, classes[nodes]))
        assert found.warnings == ()
        assert float(found.stats["sample_p_value"]) >= 0.003
