"""Lap-, TV- and Cheeger models: convex ones against dense and conic twins, all for invariances."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pytest

from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.catalogue import CATALOGUE
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.variational.cheeger_machines import CheegerModel, CheegerRLS, CheegerSVM
from peewit.solvers.models.variational.simplex_machines import LapRLS, SimplexLapSVM, SimplexMachine
from peewit.solvers.models.variational.total_variation_machines import (
    TVRLS,
    TVSVM,
    TotalVariationModel,
)
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status
from tests.data_sets import accuracy, draw_per_class
from tests.reference.kernel_machines import kernel_matrix, laplacian_power
from tests.reference.variation import Composite, Hinge, incidence
from tests.streaming.graphs import blocks_with_hubs

NAMES = ["cheeger-rls", "cheeger-svm", "lap-rls", "lap-svm", "tv-rls", "tv-svm"]
WIDTH = 1.0
RIDGE = 1e-4
SPACE = {"width": WIDTH, "gram": "dense", "precision": "float64"}
CONVEX = {
    "normalization": "none",
    "rtol": 1e-6,
    "proximal_rtol": 1e-8,
    "max_iter": 5_000,
    "initial": "harmonic",
}


@dataclass(frozen=True, kw_only=True)
class Clouds:
    """Overlapping clouds of points, their neighbor graph on a light path, and labels of some."""

    graph: Graph
    points: np.ndarray
    classes: np.ndarray
    labels: Labels

    @property
    def n_nodes(self) -> int:
        return self.graph.n_nodes

    @property
    def gram(self) -> np.ndarray:
        return kernel_matrix("gaussian", self.points, self.points, WIDTH)

    @property
    def laplacian(self) -> np.ndarray:
        """In units of the mean degree."""
        return laplacian_power(self.graph, "combinatorial", 1) / self.graph.degree.mean()

    @property
    def at_labels(self) -> np.ndarray:
        matrix = np.zeros((self.n_nodes, self.n_nodes))
        matrix[self.labels.nodes, self.labels.nodes] = 1.0
        return matrix

    @property
    def targets(self) -> np.ndarray:
        """(n_nodes, n_columns) 1 and -1 of two classes, else one-hot; 0 without label."""
        own = self.labels.targets()
        own = own[:, 1:] - own[:, :1] if self.labels.n_classes == 2 else own
        spread = np.zeros((self.n_nodes, own.shape[1]))
        spread[self.labels.nodes] = own
        return spread


def clouds(n_classes: int, *, size: int = 12, n_labels: int = 3, seed: int = 0) -> Clouds:
    rng = np.random.default_rng(seed)
    classes = np.repeat(np.arange(n_classes), size)
    angle = 2.0 * np.pi * classes / n_classes
    points = 1.7 * np.column_stack([np.cos(angle), np.sin(angle)])
    points = points + rng.normal(size=points.shape) * 0.9
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    nearest = np.argsort(distance, axis=1)[:, :4]
    weight = np.zeros_like(distance)
    rows = np.arange(classes.size)[:, None]
    weight[rows, nearest] = np.exp(-0.5 * distance[rows, nearest] ** 2)
    place = np.arange(classes.size - 1)
    weight[place, place + 1] += 0.02
    nodes = [
        rng.choice(np.flatnonzero(classes == value), n_labels, replace=False)
        for value in range(n_classes)
    ]
    nodes = np.sort(np.concatenate(nodes))
    graph = Graph.from_adjacency(weight + weight.T)
    assert graph.n_components == 1
    return Clouds(
        graph=graph, points=points, classes=classes, labels=Labels.from_pairs(nodes, classes[nodes])
    )


@pytest.fixture(params=NAMES)
def name(request) -> str:
    return request.param


@pytest.fixture
def model(name: str) -> Model:
    return CATALOGUE[name]()


@pytest.fixture(params=[2, 3])
def n_classes(request) -> int:
    return request.param


def solved(model: Model, given: Clouds, *, features: bool = False, **settings) -> Solution:
    prepared = model.prepare(given.graph, given.points if features else None, **settings)
    return model.solve(prepared, given.labels)


def functions_of(solution: Solution) -> np.ndarray:
    """One column of two classes, else as many as classes."""
    n_classes = solution.scores.shape[1]
    return solution.scores[:, 1:] if n_classes == 2 else solution.scores


# ----------------------------------------------------------------------------- Lap-RLS, Lap-SVM


def test_binary_lap_rls_is_the_closed_form() -> None:
    """(G2)."""
    given = clouds(2)
    eta, norm, energy = 2.0, 0.3, 0.5
    model = LapRLS(label_weight=eta, norm_penalty=norm, graph_penalty=energy, **SPACE)
    solution = solved(model, given, features=True)
    gram, one = given.gram, np.eye(given.n_nodes)
    matrix = eta * given.at_labels @ gram + norm * one + energy * given.laplacian @ gram
    expected = gram @ np.linalg.solve(matrix, eta * given.targets)
    np.testing.assert_allclose(functions_of(solution), expected, atol=1e-8)
    np.testing.assert_array_equal(solution.scores[:, 0], -solution.scores[:, 1])


def test_binary_lap_rls_without_features_is_soft_hfs() -> None:
    given = clouds(2)
    eta, energy = 2.0, 0.5
    solution = solved(LapRLS(label_weight=eta, graph_penalty=energy), given)
    matrix = eta * given.at_labels + energy * given.laplacian + RIDGE * np.eye(given.n_nodes)
    expected = np.linalg.solve(matrix, eta * given.targets)
    np.testing.assert_allclose(functions_of(solution), expected, atol=1e-5)


def penalty_of(given: Clouds, norm: float, energy: float, features: bool) -> np.ndarray:
    dense = energy * given.laplacian
    return dense + norm * np.linalg.inv(given.gram) if features else dense


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("n_labels", [1, 3])
def test_lap_rls_of_several_classes_is_a_conic_program(features, n_labels) -> None:
    """Exactly, up to the ridge of a free fit without a norm."""
    given = clouds(3, n_labels=n_labels)
    eta, norm, energy = 2.0, 0.3, 0.5
    model = LapRLS(label_weight=eta, norm_penalty="auto", graph_penalty=energy, rtol=1e-7, **SPACE)
    if features:
        model = replace(model, norm_penalty=norm)
    solution = solved(replace(model, max_iter=5_000), given, features=features)
    assert solution.status is Status.CONVERGED
    penalty = penalty_of(given, norm, energy, features)
    prior = given.labels.class_prior()
    twin = Composite(
        graph=given.graph,
        quadratic=penalty + eta * given.at_labels,
        linear=eta * given.targets + penalty @ np.tile(prior, (given.n_nodes, 1)),
        on_simplex=True,
    )
    is_bound = int(solution.stats["n_iter"]) > 1
    expected = twin.solution()[0]
    is_exact = is_bound or features
    np.testing.assert_allclose(solution.scores, expected, atol=1e-5 if is_exact else 5e-3)
    if not is_exact:
        free = replace(twin, quadratic=twin.quadratic + RIDGE * np.eye(given.n_nodes))
        free = replace(free, linear=free.linear + RIDGE * prior)
        np.testing.assert_allclose(solution.scores, free.solution()[0], atol=1e-5)
    np.testing.assert_allclose(solution.scores.sum(axis=1), 1.0, atol=1e-12)
    assert solution.scores.min() >= 0.0


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("label_weight", [0.3, 3.0])
def test_binary_lap_svm_is_a_quadratic_program(features, label_weight) -> None:
    given = clouds(2)
    norm, energy = 0.3, 0.5
    model = SimplexLapSVM(label_weight=label_weight, graph_penalty=energy, **SPACE)
    if features:
        model = replace(model, norm_penalty=norm)
    solution = solved(model, given, features=features)
    penalty = penalty_of(given, norm, energy, features)
    if not features:
        penalty = penalty + RIDGE * np.eye(given.n_nodes)
    nodes = given.labels.nodes
    twin = Composite(
        graph=given.graph,
        quadratic=penalty,
        linear=np.zeros((given.n_nodes, 1)),
        hinge=Hinge(nodes=nodes, targets=given.targets[nodes], weight=label_weight),
    )
    least = twin.value(*twin.solution())
    assert with_best_intercept(twin, functions_of(solution)) == pytest.approx(least, rel=1e-5)


def with_best_intercept(twin: Composite, sums: np.ndarray) -> float:
    """The objective of f + b, split as well as can be."""
    total = twin.quadratic.sum()
    intercept = (twin.quadratic @ sums).sum() / total if total > 1e-9 else 0.0
    return twin.value(sums - intercept, np.array([intercept]))


@pytest.mark.parametrize("features", [False, True])
def test_lap_svm_of_several_classes_is_a_conic_program(features) -> None:
    given = clouds(3)
    norm, energy, mu = 0.3, 0.5, 2.0
    model = SimplexLapSVM(label_weight=mu, graph_penalty=energy, rtol=1e-6, max_iter=3_000, **SPACE)
    if features:
        model = replace(model, norm_penalty=norm)
    solution = solved(model, given, features=features)
    assert solution.status is Status.CONVERGED
    penalty = penalty_of(given, norm, energy, features)
    prior = np.tile(given.labels.class_prior(), (given.n_nodes, 1))
    twin = Composite(
        graph=given.graph,
        quadratic=penalty,
        linear=penalty @ prior,
        hinge=shares_hinge(given, mu),
        on_simplex=True,
    )
    expected = twin.solution()[0]
    least, constant = twin.value(expected), 0.5 * np.sum(prior * (penalty @ prior))
    reached = twin.value(solution.scores)
    assert reached + constant == pytest.approx(least + constant, rel=1e-4, abs=1e-5)
    if features:
        np.testing.assert_allclose(solution.scores, expected, atol=1e-3)


def shares_hinge(given: Clouds, weight: float) -> Hinge:
    """That of 2 f - 1."""
    n_classes = given.labels.n_classes
    return Hinge(
        nodes=given.labels.nodes,
        targets=2.0 * given.labels.targets() - 1.0,
        weight=weight,
        margin=0.5,
        offset=np.full(n_classes, -0.5),
    )


# ------------------------------------------------------------------------------- TV-RLS, TV-SVM


@pytest.mark.slow
@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("energy", [0.05, 0.5])
def test_tv_rls_without_rescaling_is_a_conic_program(n_classes, features, energy) -> None:
    """(G5), and (G7) on the simplex."""
    given = clouds(n_classes, size=24 // n_classes)
    eta, norm = 2.0, 0.3
    model = TVRLS(label_weight=eta, graph_penalty=energy, **SPACE, **CONVEX)
    if features:
        model = replace(model, norm_penalty=norm)
    solution = solved(model, given, features=features)
    assert solution.status is Status.CONVERGED
    penalty = norm * np.linalg.inv(given.gram) if features else 0.0 * given.gram
    base = 0.0 if n_classes == 2 else 1.0 / n_classes
    twin = Composite(
        graph=given.graph,
        quadratic=penalty + eta * given.at_labels,
        linear=eta * given.targets + base * penalty.sum(axis=1)[:, None],
        penalty=energy / given.graph.degree.mean(),
        on_simplex=n_classes > 2,
    )
    expected = twin.solution()[0]
    found = functions_of(solution)
    constant = 0.5 * eta * np.sum(given.targets**2)
    assert twin.value(found) + constant == pytest.approx(twin.value(expected) + constant, rel=1e-5)
    if features:
        np.testing.assert_allclose(found, expected, atol=1e-3)
    labeled = given.labels.nodes
    np.testing.assert_allclose(found[labeled], expected[labeled], atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("features", [False, True])
def test_tv_svm_without_rescaling_is_a_conic_program(n_classes, features) -> None:
    given = clouds(n_classes, size=24 // n_classes)
    mu, norm, energy = 0.5, 0.3, 0.5
    model = TVSVM(label_weight=mu, graph_penalty=energy, **SPACE, **CONVEX)
    if features:
        model = replace(model, norm_penalty=norm)
    solution = solved(model, given, features=features)
    penalty = norm * np.linalg.inv(given.gram) if features else 0.0 * given.gram
    nodes = given.labels.nodes
    hinge = shares_hinge(given, mu)
    if n_classes == 2:
        hinge = Hinge(nodes=nodes, targets=given.targets[nodes], weight=mu)
    base = 0.0 if n_classes == 2 else 1.0 / n_classes
    twin = Composite(
        graph=given.graph,
        quadratic=penalty,
        linear=base * np.tile(penalty.sum(axis=1)[:, None], (1, given.targets.shape[1])),
        penalty=energy / given.graph.degree.mean(),
        hinge=hinge,
        on_simplex=n_classes > 2,
    )
    expected, intercepts = twin.solution()
    found = functions_of(solution)
    reached = twin.value(found) if n_classes > 2 else with_best_intercept(twin, found)
    constant = 0.5 * base**2 * n_classes * penalty.sum()
    least = twin.value(expected, intercepts) + constant
    assert reached + constant == pytest.approx(least, rel=1e-4)


@pytest.mark.slow
def test_without_variation_tv_rls_is_rls() -> None:
    """(I42), by the closed form (G1)."""
    given = clouds(2)
    eta, norm = 2.0, 0.3
    model = TVRLS(label_weight=eta, norm_penalty=norm, graph_penalty=0.0, **SPACE, **CONVEX)
    solution = solved(model, given, features=True)
    nodes = given.labels.nodes
    own = given.gram[np.ix_(nodes, nodes)]
    coef = np.linalg.solve(eta * own + norm * np.eye(nodes.size), eta * given.targets[nodes])
    np.testing.assert_allclose(functions_of(solution), given.gram[:, nodes] @ coef, atol=1e-4)


@pytest.mark.parametrize("kind", [TVRLS, TVSVM])
def test_rescaled_functions_have_the_size_that_is_said(kind, n_classes) -> None:
    given = clouds(n_classes)
    for normalization in ("sqrt", "as-printed"):
        solution = solved(kind(normalization=normalization, label_weight=0.5), given)
        found = functions_of(solution)
        norms = np.linalg.norm(found - found.mean(axis=0) * (n_classes == 2), axis=0)
        if normalization == "sqrt":
            size = np.sqrt(given.n_nodes / found.shape[1])
            np.testing.assert_allclose(norms, size, rtol=1e-9)
        else:
            assert (norms <= given.n_nodes * (1.0 + 1e-9)).all()


# ------------------------------------------------------------------------------------- Cheeger


def cheeger_energy(given: Clouds, classes: np.ndarray, weight: np.ndarray) -> float:
    matrix, edge_weight = incidence(given.graph)
    n_classes = given.labels.n_classes
    indicators = np.eye(n_classes)[classes]
    cuts = edge_weight @ np.abs(matrix @ indicators)
    sizes = weight @ indicators
    return float((cuts / np.minimum((n_classes - 1) * sizes, weight.sum() - sizes)).sum())


@pytest.mark.thinned(4)
@pytest.mark.parametrize("kind", [CheegerRLS, CheegerSVM])
@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("balance", ["degrees", "nodes"])
@pytest.mark.parametrize("initial", ["cut", "harmonic"])
def test_cheeger_energies_fall_and_are_those_of_the_answer(
    kind, n_classes, features, balance, initial
) -> None:
    given = clouds(n_classes, size=25, n_labels=2)
    model = kind(balance=balance, initial=initial, **SPACE)
    solution = solved(model, given, features=features)
    energies = [float(energy) for energy in str(solution.stats["energies"]).split()]
    assert (np.diff(energies) < 0.0).all()
    weight = given.graph.degree if balance == "degrees" else np.ones(given.n_nodes)
    expected = cheeger_energy(given, solution.scores.argmax(axis=1), weight / weight.mean())
    expected /= given.graph.degree.mean()
    assert solution.stats["energy"] == pytest.approx(expected)
    assert energies[-1] == pytest.approx(expected, rel=1e-5)
    nodes = given.labels.nodes
    np.testing.assert_array_equal(solution.scores[nodes], given.labels.targets())
    np.testing.assert_allclose(solution.scores.sum(axis=1), 1.0, atol=1e-9)


@pytest.mark.parametrize("features", [False, True])
def test_cheeger_svm_without_norm_is_cheeger_rls(n_classes, features) -> None:
    given = clouds(n_classes)
    one, other = (
        solved(kind(norm_penalty=0.0), given, features=features).scores
        for kind in (CheegerRLS, CheegerSVM)
    )
    np.testing.assert_array_equal(one, other)


def test_cheeger_svm_says_when_its_label_weight_is_not_used(n_classes) -> None:
    given = clouds(n_classes)
    weighed = CheegerSVM(label_weight=7.0)
    (warning,) = solved(weighed, given).warnings
    assert "label_weight=7.0 is not used" in warning
    assert solved(replace(weighed, norm_penalty=0.0), given, features=True).warnings
    assert not solved(weighed, given, features=True).warnings
    assert not solved(CheegerSVM(), given).warnings


@pytest.mark.parametrize("kind", [TVRLS, TVSVM, CheegerRLS])
def test_labels_in_clusters_of_another_name_are_told(kind) -> None:
    """Two clusters, and labels that have nothing to do with them."""
    given = clouds(2, size=30, n_labels=4)
    fitting = solved(kind(initial="cut"), given)
    assert not [text for text in fitting.warnings if "labels lie in clusters" in text]
    nodes = given.labels.nodes
    mixed = Labels.from_pairs(nodes, np.arange(nodes.size) % 2)
    told = solved(kind(initial="cut"), replace(given, labels=mixed))
    n_missed = told.stats["n_missed_labels"]
    assert int(n_missed) > 1
    assert [text for text in told.warnings if f"{n_missed} of 8 labels lie in clusters" in text]
    assert "n_missed_labels" not in solved(kind(initial="harmonic"), given).stats


@pytest.mark.parametrize("n_nodes", [20, 40])
def test_classes_that_get_no_node_are_told(n_nodes) -> None:
    """A complete graph has no clusters: to cut one off costs more than its label is worth."""
    graph = Graph.from_adjacency(1.0 - np.eye(n_nodes))
    labels = Labels.from_pairs([0, 1, 2], ["a", "a", "b"])
    model = TVRLS(initial="harmonic", normalization="none", label_weight=1.0)
    solution = model.solve(model.prepare(graph), labels)
    assert (solution.scores.argmax(axis=1) == 0).all()
    told = [text for text in solution.warnings if "labeled ones came to class 'b'" in text]
    assert len(told) == (1 if n_nodes == 40 else 0)


# ----------------------------------------------------------------------------------- invariances


@pytest.mark.thinned(4)
@pytest.mark.parametrize("features", [False, True])
def test_the_scale_of_weights_changes_nothing(model, n_classes, features) -> None:
    given = clouds(n_classes, size=25, n_labels=1)
    scaled = replace(given, graph=Graph.from_adjacency(1e3 * given.graph.adjacency))
    one, other = (solved(model, each, features=features) for each in (given, scaled))
    np.testing.assert_allclose(other.scores, one.scores, atol=1e-4)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("n_labels", [1, 6])
def test_opposite_labels_have_opposite_scores(model, features, n_labels) -> None:
    given = clouds(2, size=20, n_labels=n_labels)
    swapped = Labels.from_pairs(given.labels.nodes, 1 - given.labels.classes)
    one = solved(model, given, features=features).scores
    other = solved(model, replace(given, labels=swapped), features=features).scores
    np.testing.assert_allclose(other[:, ::-1], one, atol=1e-4)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("features", [False, True])
def test_two_runs_have_equal_bits_and_one_preparation_serves_both(
    model, n_classes, features
) -> None:
    given = clouds(n_classes)
    one, other = (solved(model, given, features=features) for _ in range(2))
    np.testing.assert_array_equal(one.scores, other.scores)
    assert dict(one.stats) == dict(other.stats)


@pytest.mark.slow
@pytest.mark.thinned(5)
def test_threads_change_no_bit(model, n_classes, monkeypatch) -> None:
    monkeypatch.setattr("peewit.solvers.row_ranges._LEAST_WORK", 1)  # many ranges of few rows
    given = clouds(n_classes, size=8, n_labels=2)
    alone = solved(model, given)
    with ThreadPoolExecutor(2) as pool:
        together = solved(model, given, parallel=pool.map)
    np.testing.assert_array_equal(together.scores, alone.scores)
    assert dict(together.stats) == dict(alone.stats)


@pytest.mark.slow
def test_graphs_of_single_precision_are_as_good(model, n_classes) -> None:
    given = clouds(n_classes)
    u, v, weight = given.graph.edges()
    single = Graph.from_edges(u, v, weight, n_nodes=given.n_nodes, dtype=np.float32)
    rounded = Graph.from_edges(u, v, weight.astype(np.float32), n_nodes=given.n_nodes)
    assert single.adjacency.dtype == np.float32
    one, other = (solved(model, replace(given, graph=graph)) for graph in (single, rounded))
    assert one.scores.dtype == np.float64
    np.testing.assert_allclose(one.scores, other.scores, atol=1e-4)


# ------------------------------------------------------------------------------------ odd inputs


@pytest.mark.parametrize("initial", ["auto", "cut", "contrasts", "harmonic", "poisson"])
def test_without_edges_labels_reach_themselves(model, n_classes, initial) -> None:
    if isinstance(model, SimplexMachine):
        assert not hasattr(model, "initial")
    else:
        model = replace(model, initial=initial)
    empty = Graph.from_edges([], [], [], n_nodes=8)
    labels = Labels.from_pairs([0, 2, 4, 5], [0, 1, n_classes - 1, 0])
    solution = model.solve(model.prepare(empty), labels)
    np.testing.assert_array_equal(solution.scores[labels.nodes].argmax(axis=1), labels.classes)
    others = np.setdiff1d(np.arange(8), labels.nodes)
    np.testing.assert_array_equal(solution.scores[others], [labels.class_prior()] * 4)
    assert not solution.reachable[others].any()
    assert solution.reachable[labels.nodes].all()


@pytest.mark.slow
def test_nodes_beyond_reach_get_the_prior_and_change_nothing(model, n_classes) -> None:
    given = clouds(n_classes)
    u, v, weight = given.graph.edges()
    n_nodes = given.n_nodes + 4
    last = given.n_nodes
    beside = Graph.from_edges(
        np.append(u, [last, last + 1]),
        np.append(v, [last + 1, last + 2]),
        np.append(weight, [given.graph.degree.mean(), given.graph.degree.mean()]),
        n_nodes=n_nodes,
    )
    solution = solved(model, replace(given, graph=beside))
    prior = given.labels.class_prior()
    np.testing.assert_array_equal(solution.scores[last:], np.tile(prior, (4, 1)))
    np.testing.assert_array_equal(solution.reachable, np.arange(n_nodes) < last)
    alone = solved(model, given)
    agree = solution.scores[:last].argmax(axis=1) == alone.scores.argmax(axis=1)
    assert agree.mean() >= 0.9


def test_a_component_of_one_class_gets_it(model) -> None:
    given = clouds(2)
    u, v, weight = given.graph.edges()
    doubled = Graph.from_edges(
        np.append(u, u + given.n_nodes),
        np.append(v, v + given.n_nodes),
        np.append(weight, weight),
        n_nodes=2 * given.n_nodes,
    )
    labels = Labels.from_pairs([*given.labels.nodes, 30, 40], [*given.labels.classes, 1, 1])
    solution = model.solve(model.prepare(doubled), labels)
    assert (solution.scores[given.n_nodes :].argmax(axis=1) == 1).all()


@pytest.mark.parametrize(
    ("kind", "setting"),
    [
        (TVRLS, {"normalization": "N"}),
        (TVRLS, {"initial": "spectral"}),
        (TVRLS, {"graph_penalty": "none"}),
        (TVRLS, {"graph_penalty": -0.1}),
        (TVSVM, {"label_weight": 0.0}),
        (TVSVM, {"pull": 0.0}),
        (TVSVM, {"proximal_rtol": 1.0}),
        (CheegerRLS, {"balance": "volume"}),
        (CheegerSVM, {"norm_penalty": "none"}),
        (CheegerSVM, {"gram": "blocked"}),
        (CheegerSVM, {"max_iter": 0}),
        (LapRLS, {"graph_penalty": 0.0}),
        (SimplexLapSVM, {"kernel": "cosine"}),
        (SimplexLapSVM, {"rtol": 0.0}),
    ],
)
def test_settings_out_of_bounds_are_named(kind: Callable[..., Model], setting: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        kind(**setting)


def test_the_start_follows_the_number_of_labels() -> None:
    few, many = clouds(2, n_labels=4), clouds(2, n_labels=5)
    for kind in (TVRLS, TVSVM, CheegerRLS, CheegerSVM):
        assert issubclass(kind, TotalVariationModel | CheegerModel)
        assert solved(kind(), few).stats["initial"] == "cut"
        later = "contrasts" if issubclass(kind, TotalVariationModel) else "harmonic"
        assert solved(kind(), many).stats["initial"] == later


@pytest.mark.parametrize("kind", [TVRLS, TVSVM])
def test_camps_with_hubs_are_told_apart_from_their_labels(kind: Callable[..., Model]) -> None:
    """The values of a harmonic function are nearly flat there, and lead to one class."""
    graph, classes = blocks_with_hubs(2, 400, inside=0.8, seed=0)
    nodes = draw_per_class(classes, 5, seed=0)
    model = kind()
    solution = model.solve(model.prepare(graph), Labels.from_pairs(nodes, classes[nodes]))
    assert accuracy(solution.scores, classes, nodes) > 0.95


# ------------------------------------------------------------------------------------- starts


@pytest.mark.parametrize("name", ["tv-rls", "tv-svm"])
def test_a_solve_that_lost_its_cut_begins_anew(name) -> None:
    """From the contrasts of some labels nearly all nodes come to one camp; from clusters none."""
    graph, classes = blocks_with_hubs(2, 600, inside=0.7, seed=0)

    def right(seed: int, initial: str, **settings) -> tuple[float, Solution]:
        nodes = draw_per_class(classes, 5, seed=seed)
        model = CATALOGUE[name](initial=initial, **settings)
        solution = model.solve(model.prepare(graph), Labels.from_pairs(nodes, classes[nodes]))
        return np.mean(solution.scores.argmax(axis=1) == classes), solution

    assert right(1, "contrasts")[0] < 0.7
    share, solution = right(1, "auto")
    assert share > 0.95
    assert (solution.stats["initial"], solution.stats["n_starts"]) == ("cut", 2)
    share, solution = right(0, "auto")
    assert share > 0.95
    assert solution.stats["initial"] == "contrasts"
    assert "n_starts" not in solution.stats
    convex = right(1, "auto", normalization="none", max_iter=30)[1]
    assert convex.stats["initial"] == "contrasts"  # every start leads to the same answer
    assert "n_starts" not in convex.stats


@pytest.mark.parametrize("name", ["tv-rls", "cheeger-rls"])
def test_left_out_labels_refuse_clusters_that_are_no_classes(name) -> None:
    """Classes are quarters of a ring; on it hang four cliques, whose borders cost least."""
    n_ring, n_clique, n_cliques = 80, 12, 4
    ring = np.arange(n_ring)
    pairs = np.argwhere(np.tri(n_clique, k=-1))
    src, dst = [ring, ring], [np.roll(ring, -1), np.roll(ring, -2)]
    for number in range(n_cliques):
        start = n_ring + number * n_clique
        src += [pairs[:, 0] + start, np.array([start])]
        dst += [pairs[:, 1] + start, np.array([number])]
    ends = np.concatenate(src), np.concatenate(dst)
    n_nodes = n_ring + n_cliques * n_clique
    graph = Graph.from_edges(*ends, np.ones(ends[0].size), n_nodes=n_nodes)
    nodes = ring[2::5]
    labels = Labels.from_pairs(nodes, nodes // (n_ring // 4))
    model = CATALOGUE[name]()
    solution = model.solve(model.prepare(graph), labels)
    assert solution.stats["initial"] == model.start_with_labels
    one = Labels.from_pairs(nodes[1::4], nodes[1::4] // (n_ring // 4))
    assert model.solve(model.prepare(graph), one).stats["initial"] == "cut"  # none is left out
