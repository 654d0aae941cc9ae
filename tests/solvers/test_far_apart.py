"""Weights up to sixty orders of magnitude apart: the class of exact fractions, or a status."""

from fractions import Fraction

import numpy as np
import pytest

from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.catalogue import CATALOGUE
from peewit.solvers.models.harmonic.harmonic import HFS, StableHFS
from peewit.solvers.models.harmonic.harmonic_mbo import HarmonicMBO
from peewit.solvers.models.poisson.poisson import Poisson
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status
from tests.reference import rational
from tests.solvers.far_apart_graphs import Case, drawn

TIE = 1e-9  # of the largest score of a node: classes nearer to each other are not told apart
MISS = 1e-6  # of the range of the labels, for numbers

_HARD, _SOFT, _AUTO = 0.0, None, "auto"
LINEAR = [
    pytest.param(HFS, _HARD, id="hard"),
    pytest.param(HFS, _SOFT, id="soft"),
    pytest.param(HFS, _AUTO, id="auto"),
    pytest.param(StableHFS, _SOFT, id="stable"),
    pytest.param(StableHFS, _AUTO, id="stable-auto"),
]

SEEDS = [
    pytest.param(range(30), id="few"),
    pytest.param(range(30, 300), id="many", marks=pytest.mark.slow),
]


def harmonic(kind: type[HFS] | type[StableHFS], penalty: object, case: Case) -> HFS | StableHFS:
    used = case.penalty if penalty is None else penalty
    return HFS(graph_penalty=used, class_mass="none") if kind is HFS else kind(graph_penalty=used)


def exact_harmonic(model: HFS | StableHFS, case: Case, solution: Solution, labels) -> rational.Rows:
    twin = rational.stable_hfs if isinstance(model, StableHFS) else rational.hfs
    return twin(case.graph, labels, float(solution.stats["graph_penalty"]))


def worst_gap(solution: Solution, exact: rational.Rows) -> float:
    """How much the class that wins has less than the right one, relative to the node's scores."""
    gaps = [0.0]
    for row, own, is_reached in zip(exact, solution.scores, solution.reachable, strict=True):
        size = max(abs(value) for value in row)
        if is_reached and size > 0:
            gaps.append(float((max(row) - row[own.argmax()]) / size))
    return max(gaps)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize(("kind", "penalty"), LINEAR)
def test_classes_are_those_of_fractions_or_a_status_says_so(kind, penalty, seeds) -> None:
    n_reported = 0
    for seed in seeds:
        case = drawn(seed)
        model = harmonic(kind, penalty, case)
        solution = model.solve(model.prepare(case.graph), case.labels)
        assert np.isfinite(solution.scores).all()
        if solution.status is Status.CONVERGED:
            exact = exact_harmonic(model, case, solution, case.labels)
            assert worst_gap(solution, exact) <= TIE, seed
        else:
            n_reported += 1
    assert n_reported <= (0 if kind is HFS else 0.25 * len(seeds))


@pytest.mark.thinned(3)
@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize(("kind", "penalty"), LINEAR)
def test_numbers_are_those_of_fractions_or_a_status_says_so(kind, penalty, seeds) -> None:
    for seed in seeds:
        case = drawn(seed)
        model = harmonic(kind, penalty, case)
        solution = model.solve(model.prepare(case.graph), case.numbers)
        if solution.status is Status.CONVERGED:
            exact = exact_harmonic(model, case, solution, case.numbers)
            pairs = zip(exact, solution.scores[:, 0], strict=True)
            miss = max(abs(float(Fraction(float(own)) - row[0])) for row, own in pairs)
            assert miss <= MISS * np.ptp(case.numbers.targets()), seed


@pytest.mark.parametrize("seeds", SEEDS)
def test_poisson_classes_are_those_of_fractions_or_a_status_says_so(seeds) -> None:
    n_reported = 0
    for seed in seeds:
        case = drawn(seed)
        solution = Poisson().solve(Poisson().prepare(case.graph), case.labels)
        assert np.isfinite(solution.scores).all()
        if solution.status is Status.CONVERGED:
            assert worst_gap(solution, rational.poisson(case.graph, case.labels)) <= TIE, seed
        else:
            n_reported += 1
    # nodes at exactly 0 are in no class, and no float says that they are
    assert n_reported <= 0.3 * len(seeds)


@pytest.mark.slow
@pytest.mark.parametrize("decades", [2.5, 4.0, 8.0])
def test_weights_less_far_apart_are_right_as_well(decades: float) -> None:
    for seed in range(20):
        case = drawn(seed, decades)
        for model in (HFS(graph_penalty=0.0), HFS(class_mass="none"), StableHFS()):
            solution = model.solve(model.prepare(case.graph), case.labels)
            assert solution.status in {Status.CONVERGED, Status.ILL_CONDITIONED}
            if solution.status is Status.CONVERGED:
                exact = exact_harmonic(model, case, solution, case.labels)
                assert worst_gap(solution, exact) <= TIE, seed


@pytest.mark.slow
@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param((1, 5, 17), id="few"),
        pytest.param(range(40), id="many", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("name", CATALOGUE)
def test_no_model_ends_with_an_error_or_without_numbers(name: str, seeds) -> None:
    for seed in seeds:
        case = drawn(seed)
        model = CATALOGUE[name]()
        solution = model.solve(model.prepare(case.graph), case.labels)
        assert np.isfinite(solution.scores).all(), seed


def test_two_nodes_that_no_penalty_can_tell_apart() -> None:
    """All nodes labeled and kappa lost beside the kernel: LAPACK finds that singular."""
    graph = Graph.from_edges([0], [1], [1e-25], n_nodes=2)
    labels = Labels.from_pairs(np.array([0, 1]), [0, 1])
    for model in (HFS(graph_penalty=1e-5), StableHFS(graph_penalty=1e-5)):
        solution = model.solve(model.prepare(graph), labels)
        assert solution.status is Status.CONVERGED
        np.testing.assert_array_equal(solution.scores.argmax(axis=1), [0, 1])


def long_path(decades: float, seed: int) -> tuple[Graph, Labels]:
    """Too many nodes to be eliminated."""
    rng = np.random.default_rng(seed)
    n_nodes = 700
    nodes = np.arange(n_nodes - 1)
    weight = 10.0 ** rng.uniform(-decades, decades, nodes.size)
    graph = Graph.from_edges(nodes, nodes + 1, weight, n_nodes=n_nodes)
    return graph, Labels.from_pairs(rng.choice(n_nodes, 12, replace=False), np.arange(12) % 3)


def path_winners(graph: Graph, labels: Labels) -> list[set[int]]:
    """Classes of a path by hard HFS: of the end with less resistance, in fractions."""
    u, _, weight = graph.edges()
    away = [Fraction(0)]
    for each in weight[np.argsort(u)].tolist():
        away.append(away[-1] + 1 / Fraction(each))
    winners: list[set[int]] = []
    for node in range(graph.n_nodes):
        left = labels.nodes[labels.nodes <= node]
        right = labels.nodes[labels.nodes >= node]
        if left.size and right.size and left[-1] != right[0]:
            share = (away[node] - away[left[-1]]) / (away[right[0]] - away[left[-1]])
            is_tie = abs(share - Fraction(1, 2)) < Fraction(1, 10**6)
            ends = (left[-1], right[0]) if is_tie else (left[-1] if share < 0.5 else right[0],)
        else:
            ends = (left[-1] if left.size else right[0],)
        winners.append({int(labels.classes[labels.nodes == end][0]) for end in ends})
    return winners


@pytest.mark.slow
@pytest.mark.parametrize("decades", [4.0, 8.0, 30.0])
def test_a_path_too_long_to_eliminate_is_right_or_said_to_be_ill_conditioned(decades) -> None:
    for seed in range(3):
        graph, labels = long_path(decades, seed)
        model = HFS(graph_penalty=0.0)
        solution = model.solve(model.prepare(graph), labels)
        if solution.status is Status.CONVERGED:
            pairs = zip(solution.scores.argmax(axis=1), path_winners(graph, labels), strict=True)
            assert all(own in right for own, right in pairs)


@pytest.mark.parametrize("model", [HFS(), StableHFS(), Poisson(), HarmonicMBO()])
def test_graphs_too_large_to_eliminate_end_with_a_status(model) -> None:
    """Multigrid's coarsest matrix was singular to LAPACK."""
    graph, labels = long_path(30.0, 0)
    solution = model.solve(model.prepare(graph), labels)
    assert solution.status in {Status.STAGNATED, Status.ILL_CONDITIONED}
    assert np.isfinite(solution.scores).all()


def test_light_edges_beside_heavy_ones_do_not_count() -> None:
    nodes = np.arange(9)
    heavy = Graph.from_edges(nodes, nodes + 1, np.ones(9), n_nodes=10)
    assert heavy.weight_spread == 1.0
    beside = Graph.from_edges([*nodes, 0], [*(nodes + 1), 5], [*np.ones(9), 1e-20], n_nodes=10)
    assert beside.weight_spread == 1.0
    bridge = Graph.from_edges(nodes, nodes + 1, [1.0] * 4 + [3e-9] + [1.0] * 4, n_nodes=10)
    assert bridge.weight_spread == 1e8
