"""What every model of the catalogue promises; a new model inherits the whole suite."""

import dataclasses
import json
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from peewit.solvers.features import FeatureRows
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import ProgressReport
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.catalogue import CATALOGUE
from peewit.solvers.models.contract.model import Model, parameter_schema
from peewit.solvers.models.harmonic.harmonic_mbo import HarmonicMBO
from peewit.solvers.models.linear.filtered_ridge import FilteredRidge
from peewit.solvers.models.linear.linear_machine import LinearMachine
from peewit.solvers.models.machines.laplacian_machine import LaplacianMachine
from peewit.solvers.models.variational.variational_model import VariationalModel
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status
from tests.data_sets import labels_in

N_NODES = 90
HUGE = 10**400


@pytest.fixture(params=sorted(CATALOGUE))
def name(request) -> str:
    return request.param


@pytest.fixture
def model(name: str) -> Model:
    return CATALOGUE[name]()


def communities() -> tuple[Graph, np.ndarray]:
    """Three communities of 29 nodes joined by a few edges, then three isolated nodes."""
    rng = np.random.default_rng(0)
    classes = np.repeat([0, 1, 2], 29)
    u, v = np.triu_indices(87, 1)
    same = classes[u] == classes[v]
    kept = rng.random(u.size) < np.where(same, 0.3, 0.005)
    return Graph.from_edges(u[kept], v[kept], np.ones(kept.sum()), n_nodes=N_NODES), classes


def some_labels(classes: np.ndarray) -> Labels:
    nodes = np.concatenate([np.flatnonzero(classes == value)[:3] for value in range(3)])
    return Labels.from_pairs(nodes, [f"class {value}" for value in classes[nodes]])


def solve(model: Model, graph: Graph, labels: Labels, **settings) -> Solution:
    return model.solve(model.prepare(graph), labels, **settings)


def test_models_are_frozen_records_of_their_hyperparameters(model: Model) -> None:
    values = dataclasses.asdict(model)
    assert type(model)(**values) == model
    assert pickle.loads(pickle.dumps(model)) == model
    for name in values:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(model, name, None)


def test_schemas_describe_every_hyperparameter_with_its_default(model: Model) -> None:
    schema = json.loads(json.dumps(parameter_schema(type(model)), allow_nan=False))
    assert (schema["type"], schema["additionalProperties"]) == ("object", False)
    values = dataclasses.asdict(model)
    assert schema["properties"].keys() == values.keys()
    for name, rule in schema["properties"].items():
        assert rule["description"]
        assert rule["default"] == values[name]
        for allowed in rule.get("anyOf", [rule]):
            assert allowed["type"] in {"number", "integer", "string", "object"}
            if allowed["type"] == "string" and "pattern" not in allowed:  # text of shares
                for word in allowed["enum"]:
                    dataclasses.replace(model, **{name: word})


@pytest.mark.thinned(5)
@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -1, True, None, "nonsense", pytest.param(HUGE, id="huge")]
)
def test_what_the_schema_refuses_the_model_refuses(model: Model, value: object) -> None:
    for parameter in dataclasses.fields(model):
        with pytest.raises((ValueError, TypeError), match=parameter.name):
            type(model)(**{parameter.name: value})


def test_communities_are_found_from_a_few_labels(model: Model) -> None:
    graph, classes = communities()
    solution = solve(model, graph, some_labels(classes))
    assert solution.status is Status.CONVERGED
    assert solution.scores.shape == (N_NODES, 3)
    assert solution.scores.dtype == np.float64
    assert np.isfinite(solution.scores).all()
    assert (solution.scores[:87].argmax(axis=1) == classes).mean() > 0.9


def test_nodes_no_label_reaches_get_shares_of_the_others_or_the_prior(model: Model) -> None:
    """Those who get probabilities get predicted shares: labels say who was labeled."""
    graph, classes = communities()
    labels = some_labels(classes)
    solution = solve(model, graph, labels)
    reached = np.isin(graph.component, graph.component[labels.nodes])
    np.testing.assert_array_equal(solution.reachable, reached)
    assert not reached[87:].any()
    is_predicted = isinstance(model, Auto | HarmonicMBO)
    prior = solution.scores[reached].mean(axis=0) if is_predicted else labels.class_prior()
    np.testing.assert_allclose(solution.scores[~reached], np.tile(prior, ((~reached).sum(), 1)))


@pytest.mark.thinned(3)
def test_renumbering_nodes_renumbers_scores(model: Model) -> None:
    graph, classes = communities()
    labels = some_labels(classes)
    order = np.random.default_rng(1).permutation(N_NODES)  # new node i was order[i]
    renumbered = Graph.from_adjacency(graph.adjacency[order][:, order])
    place = np.argsort(order)
    names = [labels.class_names[code] for code in labels.classes]
    one = solve(model, graph, labels).scores
    other = solve(model, renumbered, Labels.from_pairs(place[labels.nodes], names)).scores
    np.testing.assert_allclose(other, one[order], atol=1e-4)


@pytest.mark.thinned(3)
def test_renaming_classes_permutes_columns(model: Model) -> None:
    graph, classes = communities()
    labels = some_labels(classes)
    renamed = Labels.from_pairs(labels.nodes, 2 - labels.classes)
    one, other = solve(model, graph, labels).scores, solve(model, graph, renamed).scores
    np.testing.assert_allclose(one, other[:, ::-1], atol=1e-4)


def test_equal_calls_give_equal_bits(model: Model) -> None:
    graph, classes = communities()
    labels = some_labels(classes)
    one, other = solve(model, graph, labels), solve(model, graph, labels)
    np.testing.assert_array_equal(one.scores, other.scores)
    assert dict(one.stats) == dict(other.stats)


@pytest.mark.thinned(3)
def test_one_preparation_serves_many_label_sets(model: Model) -> None:
    graph, classes = communities()
    prepared = model.prepare(graph)
    first, second = some_labels(classes), labels_in(np.append(classes, [-1, -1, -1]))
    fresh = solve(model, graph, first).scores
    for labels in (second, first):
        scores = model.solve(prepared, labels).scores
    np.testing.assert_allclose(scores, fresh, atol=1e-4)


@pytest.mark.slow
@pytest.mark.thinned(3)
def test_columns_of_labels_are_solved_as_each_alone(model: Model) -> None:
    graph, classes = communities()
    first, second = some_labels(classes), labels_in(np.append(classes, [-1, -1, -1]))
    columns = [first, Labels.from_pairs(second.nodes, second.classes // 2), second]
    prepared = model.prepare(graph)
    for labels, solution in zip(columns, model.solve_many(prepared, columns), strict=True):
        np.testing.assert_allclose(solution.scores, solve(model, graph, labels).scores, atol=1e-4)
    alone = Labels.from_pairs(first.nodes, np.zeros(first.n_labeled, int))
    with pytest.raises(ValueError, match=r"column 1: .*one class only"):
        model.solve_many(prepared, [first, alone])
    cut_short = model.solve_many(prepared, columns, cancelled=lambda: True)
    assert len(cut_short) == 1


@pytest.mark.thinned(3)
def test_a_start_changes_the_work_not_the_answer(model: Model) -> None:
    graph, classes = communities()
    labels = some_labels(classes)
    prepared = model.prepare(graph)
    cold = model.solve(prepared, labels)
    warm = model.solve(prepared, labels, start=cold)
    np.testing.assert_allclose(warm.scores, cold.scores, atol=1e-4)
    two = Labels.from_pairs(labels.nodes, labels.classes // 2)
    other_shape = model.solve(prepared, two, start=cold)
    np.testing.assert_allclose(other_shape.scores, model.solve(prepared, two).scores, atol=1e-4)


def test_progress_is_told_and_names_its_phase(model: Model) -> None:
    reports: list[ProgressReport] = []
    graph, classes = communities()
    solve(model, graph, some_labels(classes), progress=reports.append)
    assert reports
    assert all(report.phase and 0 <= report.fraction <= 1 for report in reports)
    assert reports[-1].fraction == 1


def test_a_cancelled_solve_says_so_and_has_finite_scores(model: Model) -> None:
    graph, classes = communities()
    solution = solve(model, graph, some_labels(classes), cancelled=lambda: True)
    assert solution.status is Status.CANCELLED
    assert solution.scores.shape == (N_NODES, 3)
    assert np.isfinite(solution.scores).all()


def test_stats_are_plain_values(model: Model) -> None:
    graph, classes = communities()
    stats = solve(model, graph, some_labels(classes)).stats
    assert json.loads(json.dumps(dict(stats), allow_nan=False)) == dict(stats)


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("nodes", "values", "message"),
    [
        ([], [], "labels must hold at least two labeled nodes, got none"),
        ([0, 1], ["a", "a"], r"labels hold one class only \('a'\); at least two needed"),
        ([0, N_NODES], ["a", "b"], rf"labeled nodes must lie in \[0, {N_NODES}\), got node 90"),
    ],
)
def test_labels_that_pose_no_problem_are_refused(model: Model, nodes, values, message) -> None:
    graph, _ = communities()
    with pytest.raises(ValueError, match=message):
        solve(model, graph, Labels.from_pairs(nodes, values))


def test_features_are_refused_by_models_that_use_none(model: Model) -> None:
    graph, _ = communities()
    if not model.uses_features:
        with pytest.raises(ValueError, match="uses no features, got ndarray"):
            model.prepare(graph, np.ones((N_NODES, 2)))


@pytest.fixture(params=sorted(name for name, kind in CATALOGUE.items() if kind.uses_features))
def featured(request) -> Model:
    return CATALOGUE[request.param]()


def blobs() -> np.ndarray:
    """Three clouds of 29 points around the corners of a triangle, and three points at the first."""
    rng = np.random.default_rng(0)
    centers = np.repeat([[0.0, 0.0, 0.0], [6.0, 0.0, 0.0], [3.0, 5.0, 0.0]], 29, axis=0)
    return rng.normal(np.vstack([centers, np.zeros((3, 3))]), 1.0)


def test_features_are_used_and_edges_by_models_of_both_only(featured: Model) -> None:
    graph, classes = communities()
    empty = Graph.from_edges([], [], [], n_nodes=N_NODES)
    labels = some_labels(classes)
    solution = featured.solve(featured.prepare(empty, blobs()), labels)
    assert solution.status is Status.CONVERGED
    assert solution.stats["input"] == "features"
    assert solution.reachable.all()
    expected = np.append(classes, [0, 0, 0])
    assert (solution.scores.argmax(axis=1) == expected).mean() > 0.9
    other = featured.solve(featured.prepare(graph, blobs()), labels)
    uses_edges = isinstance(featured, LaplacianMachine | VariationalModel | Auto | FilteredRidge)
    assert (other.scores == solution.scores).all() != uses_edges


@pytest.mark.slow
def test_nodes_without_features_get_the_class_prior(featured: Model) -> None:
    if isinstance(featured, Auto | FilteredRidge):
        pytest.skip("their neighbors' features and labels reach them")
    graph, classes = communities()
    labels = some_labels(classes)
    known = np.setdiff1d(np.arange(N_NODES), [3, 50, N_NODES - 1])
    assert np.isin(labels.nodes, known).all()
    features = FeatureRows(values=blobs()[known], nodes=known)
    solution = featured.solve(featured.prepare(graph, features), labels)
    assert solution.stats["n_without_features"] == 3
    np.testing.assert_array_equal(np.flatnonzero(~solution.reachable), [3, 50, N_NODES - 1])
    np.testing.assert_array_equal(solution.scores[[3, 50]], [labels.class_prior()] * 2)
    places = np.searchsorted(known, labels.nodes)
    alone = featured.solve(
        featured.prepare(graph.subgraph(known), blobs()[known]),
        Labels.from_pairs(places, classes[labels.nodes]),
    )
    np.testing.assert_array_equal(solution.scores[known], alone.scores)


def test_a_class_whose_nodes_have_no_features_is_named(featured: Model) -> None:
    if isinstance(featured, Auto | FilteredRidge):
        pytest.skip("their neighbors' features stand for them")
    graph, classes = communities()
    labels = some_labels(classes)
    known = np.setdiff1d(np.arange(N_NODES), labels.nodes[labels.classes == 1])
    prepared = featured.prepare(graph, FeatureRows(values=blobs()[known], nodes=known))
    with pytest.raises(ValueError, match="class 'class 1' has no labeled node with features"):
        featured.solve(prepared, labels)


@pytest.mark.slow
def test_without_features_the_stats_say_what_stood_for_them(featured: Model) -> None:
    graph, classes = communities()
    stats = solve(featured, graph, some_labels(classes)).stats
    assert stats["input"] in {"shortest paths", "spectral embedding", "graph"}


@pytest.mark.slow
@pytest.mark.thinned(3)
def test_sparse_features_give_the_scores_of_dense_ones(featured: Model) -> None:
    graph, classes = communities()
    labels = some_labels(classes)
    rows = np.where(np.abs(blobs()) > 1.0, blobs(), 0.0)
    dense = featured.solve(featured.prepare(graph, rows), labels)
    if isinstance(featured, LinearMachine):  # whose dense rows are centred first
        featured = dataclasses.replace(featured, row_length="given")
        dense = featured.solve(featured.prepare(graph, rows), labels)
    if isinstance(featured, Auto | FilteredRidge):  # the mean of dense rows, 0 here, is taken off
        rows[:45, 2] = 1.0  # a row of zeros would have the direction of what rounding leaves
        rows[45:] = -rows[:45]
        dense = featured.solve(featured.prepare(graph, rows), labels)
    for matrix in (sp.csr_matrix(rows), sp.csr_array(rows.astype(np.float64))):
        sparse = featured.solve(featured.prepare(graph, matrix), labels)
        np.testing.assert_allclose(sparse.scores, dense.scores, atol=1e-6)


@pytest.mark.slow
def test_shifting_and_turning_features_changes_no_scores(featured: Model) -> None:
    graph, classes = communities()
    labels = some_labels(classes)
    turn, _ = np.linalg.qr(np.random.default_rng(2).standard_normal((3, 3)))
    one = featured.solve(featured.prepare(graph, blobs()), labels).scores
    other = featured.solve(featured.prepare(graph, blobs() @ turn + 2.0), labels).scores
    np.testing.assert_allclose(other, one, atol=1e-6)


def test_equal_features_everywhere_leave_finite_scores(featured: Model) -> None:
    graph, classes = communities()
    solution = featured.solve(featured.prepare(graph, np.ones((N_NODES, 2))), some_labels(classes))
    assert np.isfinite(solution.scores).all()


@pytest.mark.thinned(5)
@pytest.mark.parametrize(
    ("features", "error", "message"),
    [
        (np.ones((N_NODES - 1, 2)), ValueError, r"one row for each of the 90 nodes .*\(89, 2\)"),
        (np.ones(N_NODES), ValueError, r"at least one column, got shape \(90,\)"),
        (np.ones((N_NODES, 0)), ValueError, r"at least one column, got shape \(90, 0\)"),
        (sp.csr_array((N_NODES + 1, 2)), ValueError, r"one row for each of the 90 nodes"),
        (np.full((N_NODES, 2), "a"), TypeError, "features must be real numbers, got dtype <U1"),
        (
            np.where(np.arange(2 * N_NODES).reshape(-1, 2) == 7, np.nan, 1.0),
            ValueError,
            "features must be finite, got nan in row 3",
        ),
        (
            sp.csr_array(([1.0, -np.inf], ([2, 5], [0, 1])), shape=(N_NODES, 2)),
            ValueError,
            "features must be finite, got -inf in row 5",
        ),
    ],
)
def test_features_that_do_not_fit_are_refused(featured: Model, features, error, message) -> None:
    graph, _ = communities()
    with pytest.raises(error, match=message):
        featured.prepare(graph, features)


@pytest.mark.thinned(3)
def test_work_ahead_comes_to_an_end_and_changes_no_answer(model: Model) -> None:
    graph, classes = communities()
    labels, prepared = some_labels(classes), model.prepare(graph)
    first = model.solve(prepared, labels)
    more = labels_in(np.where(np.arange(N_NODES) % 3, -1, np.append(classes, [-1] * 3)))
    codes = Labels.from_pairs(more.nodes, [f"class {value}" for value in more.classes])
    second = model.solve(prepared, codes, start=first)
    n_rounds = 0
    while model.work_ahead(prepared, cancelled=lambda: False):
        n_rounds += 1
        assert n_rounds < N_NODES
    again = model.solve(prepared, codes)
    assert again.status is Status.CONVERGED
    np.testing.assert_allclose(again.scores, second.scores, atol=1e-4)
