"""Models beside harmonic functions on weights up to sixty orders of magnitude apart.

Each answers as its twin in fractions does, or has a status that says that rounding decides.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import UNWATCHED
from peewit.solvers.labels import Labels
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.contract.spectral_embedding import spectral_embedding
from peewit.solvers.models.harmonic.eigenfunctions import EigFun
from peewit.solvers.models.harmonic.harmonic import HFS
from peewit.solvers.models.harmonic.harmonic_mbo import HarmonicMBO
from peewit.solvers.models.harmonic.nearest_neighbor import NearestNeighbor
from peewit.solvers.models.harmonic.posterior_variance import posterior_variance
from peewit.solvers.models.harmonic.simple_hfs import SimpleHFS
from peewit.solvers.models.harmonic.subsampling import SubSampling
from peewit.solvers.models.linear.linear_svm import LinearSVM
from peewit.solvers.models.linear.transductive_svms import DASVM, TSVM
from peewit.solvers.models.machines.laprlsc import LapRLSC
from peewit.solvers.models.machines.lapsvm import LapSVM
from peewit.solvers.models.machines.supervised_machines import RLSC, SVM
from peewit.solvers.models.poisson.poisson_mbo import PoissonMBO
from peewit.solvers.models.variational.cheeger_machines import CheegerRLS, CheegerSVM
from peewit.solvers.models.variational.simplex_machines import LapRLS, SimplexLapSVM
from peewit.solvers.models.variational.total_variation_machines import TVRLS, TVSVM
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status
from peewit.solvers.variation.cheeger_cut import best_threshold
from tests.reference import rational, rational_cuts, rational_dynamics, rational_machines
from tests.solvers.far_apart_graphs import Case, drawn

TIE = 1e-6  # of the largest score: what machines tell apart
SLACK = 1e-2  # of the labels: what the convex total variation tells apart
_RIDGE = 1e-4

SPREADS = (30.0, 10.0, 4.0)
"""Decades on both sides of 1, one after the other by seed."""

SEEDS = [
    pytest.param(range(9), id="few"),
    pytest.param(range(9, 60), id="many", marks=pytest.mark.slow),
]

Check = Callable[[Case, Solution], bool]


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A model, whether its answer is right, and the part of graphs it may decline."""

    model: Model
    is_right: Check
    most_declined: float = 0.6


def best_of(twin: Callable[[Case, Solution], rational.Rows], *, by_node: bool = False) -> Check:
    """Whether the class of each node is the best of the twin's, but for a tie."""

    def check(case: Case, solution: Solution) -> bool:
        exact = twin(case, solution)
        size = max(abs(value) for row in exact for value in row) or 1
        for node in np.flatnonzero(solution.reachable):
            row, won = exact[node], int(solution.scores[node].argmax())
            own = max(abs(value) for value in row) if by_node else size
            if max(row) - row[won] > Fraction(TIE) * own:
                return False
        return True

    return check


def one_of(twin: Callable[[Case], list[set[int]]]) -> Check:
    """Whether the class of each node is one that the twin leaves open."""

    def check(case: Case, solution: Solution) -> bool:
        won = solution.scores.argmax(axis=1)
        open_classes = twin(case)
        return all(won[node] in open_classes[node] for node in np.flatnonzero(solution.reachable))

    return check


def moved(twin: Callable[[Graph, Labels], list[int]]) -> Check:
    """Whether all classes are the twin's, which may say that nothing decides."""

    def check(case: Case, solution: Solution) -> bool:
        try:
            exact = twin(case.graph, case.labels)
        except rational_dynamics.Tie:
            return True
        won = solution.scores.argmax(axis=1)
        return all(won[node] == exact[node] for node in np.flatnonzero(solution.reachable))

    return check


def machine(*, is_hinge: bool, graph_penalty: float = 0.0, laplacian: str = "normalized") -> Check:
    return best_of(
        lambda case, solution: rational_machines.kernel_machine(
            case.graph,
            case.labels,
            solution.scores,
            is_hinge=is_hinge,
            graph_penalty=graph_penalty,
            laplacian=laplacian,
        )
    )


def lap_rls(case: Case, solution: Solution) -> rational.Rows:
    return rational_machines.free_squares(
        case.graph, case.labels, graph_penalty=0.1, label_weight=1.0, ridge=_RIDGE
    )


def lap_svm(case: Case, solution: Solution) -> bool:
    settings = {"graph_penalty": 0.1, "label_weight": 1.0, "ridge": _RIDGE}
    if case.labels.n_classes > 2:
        exact = rational_machines.hinges_on_simplex(
            case.graph, case.labels, solution.scores, **settings
        )
        return best_of(lambda *_: exact)(case, solution)
    ends = list(rational_machines.hinges(case.graph, case.labels, **settings))
    for node in np.flatnonzero(solution.reachable):  # between both ends of the intercept
        won = int(solution.scores[node].argmax())
        if all(max(end[node]) - end[node][won] > TIE for end in ends):
            return False
    return bool(ends)


def subsampled(case: Case, solution: Solution) -> rational.Rows:
    penalty = float(solution.stats["graph_penalty"])
    return rational.stable_hfs(case.graph, case.labels, penalty)


def cut_by_variation(case: Case) -> list[set[int]]:
    if case.labels.n_classes > 2 or case.graph.n_nodes > 8:
        return [set(range(case.labels.n_classes))] * case.graph.n_nodes
    return rational_cuts.total_variation_classes(
        case.graph, case.labels, penalty=2.0, label_weight=10.0, slack=SLACK
    )


def keeps_what_it_counts(case: Case, solution: Solution) -> bool:
    """Labels are kept, and the energy is that of the classes."""
    classes = solution.scores.argmax(axis=1)
    weight = rational_cuts.degrees(case.graph)
    least = min((each for each in weight if each), default=Fraction(1))
    weight = [
        (each or least) if is_reached else Fraction(0)
        for each, is_reached in zip(weight, solution.reachable, strict=True)
    ]
    energy = rational_cuts.cheeger_energy(
        case.graph, classes.tolist(), case.labels.n_classes, weight
    )
    if energy is None or (classes[case.labels.nodes] != case.labels.classes).any():
        return False
    joined = [each for each in rational_cuts.degrees(case.graph) if each]
    unit = sum(joined) / len(joined) if joined else Fraction(1)
    n_reached = int(np.count_nonzero(solution.reachable))
    exact = float(energy * sum(weight) / (n_reached * unit))
    return bool(np.isclose(float(solution.stats["energy"]), exact, rtol=1e-9, atol=0.0))


def any_answer(case: Case, solution: Solution) -> bool:
    """What no twin is for: points are judged by themselves, and the start by its status."""
    return True


JUDGED = {
    "harmonic-mbo": Judged(
        model=HarmonicMBO(), is_right=moved(rational_dynamics.harmonic_mbo), most_declined=0.2
    ),
    "poisson-mbo": Judged(
        model=PoissonMBO(), is_right=moved(rational_dynamics.poisson_mbo), most_declined=0.35
    ),
    "rlsc": Judged(model=RLSC(), is_right=machine(is_hinge=False)),
    "svm": Judged(model=SVM(), is_right=machine(is_hinge=True)),
    "laprlsc": Judged(
        model=LapRLSC(graph_penalty=1.0), is_right=machine(is_hinge=False, graph_penalty=1.0)
    ),
    "lapsvm": Judged(
        model=LapSVM(graph_penalty=1.0), is_right=machine(is_hinge=True, graph_penalty=1.0)
    ),
    "lapsvm-pcg": Judged(
        model=LapSVM(method="pcg", graph_penalty=1.0),
        is_right=machine(is_hinge=True, graph_penalty=1.0),
    ),
    "lapsvm-combinatorial": Judged(
        model=LapSVM(laplacian="combinatorial", graph_penalty=1.0),
        is_right=machine(is_hinge=True, graph_penalty=1.0, laplacian="combinatorial"),
    ),
    "lap-rls": Judged(model=LapRLS(), is_right=best_of(lap_rls, by_node=True), most_declined=0.0),
    "lap-svm": Judged(model=SimplexLapSVM(), is_right=lap_svm, most_declined=0.05),
    "nearest-neighbor": Judged(
        model=NearestNeighbor(),
        is_right=one_of(lambda case: rational_cuts.nearest_classes(case.graph, case.labels, 1e-9)),
        most_declined=0.0,
    ),
    "subsampling": Judged(
        model=SubSampling(), is_right=best_of(subsampled, by_node=True), most_declined=0.25
    ),
    "tv-rls-convex": Judged(
        model=TVRLS(normalization="none"), is_right=one_of(cut_by_variation), most_declined=0.9
    ),
    "cheeger-rls": Judged(model=CheegerRLS(), is_right=keeps_what_it_counts),
    "cheeger-svm": Judged(model=CheegerSVM(), is_right=keeps_what_it_counts),
    "tv-rls": Judged(model=TVRLS(), is_right=any_answer),
    "tv-svm": Judged(model=TVSVM(), is_right=any_answer),
    "da-svm": Judged(model=DASVM(), is_right=any_answer),
    "eigfun": Judged(model=EigFun(), is_right=any_answer),
    "linear-svm": Judged(model=LinearSVM(), is_right=any_answer),
    "simple-hfs": Judged(model=SimpleHFS(), is_right=any_answer),
    "tsvm": Judged(model=TSVM(), is_right=any_answer),
}


@pytest.mark.slow
@pytest.mark.thinned(5)
@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("name", JUDGED)
def test_an_answer_is_that_of_fractions_or_a_status_says_so(name: str, seeds: range) -> None:
    judged, n_declined = JUDGED[name], 0
    for seed in seeds:
        case = drawn(seed, SPREADS[seed % len(SPREADS)])
        solution = judged.model.solve(judged.model.prepare(case.graph), case.labels)
        assert np.isfinite(solution.scores).all(), seed
        if solution.status is Status.CONVERGED:
            assert judged.is_right(case, solution), seed
        else:
            n_declined += 1
    assert n_declined <= judged.most_declined * len(seeds) + 2


@pytest.mark.parametrize("seeds", SEEDS)
def test_points_of_an_embedding_are_those_of_fractions_or_a_status_says_so(seeds: range) -> None:
    for seed in seeds:
        graph = drawn(seed, SPREADS[seed % len(SPREADS)]).graph
        points, status = spectral_embedding(graph, graph.n_nodes, UNWATCHED)
        if status is Status.CONVERGED:
            exact = rational_machines.embedded_gram(graph)
            gram = np.array([[float(value) for value in row] for row in exact])
            largest = np.abs(gram).max()
            np.testing.assert_allclose(points @ points.T, gram, atol=1e-3 * largest, rtol=0.0)


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("seeds", SEEDS)
def test_posterior_variances_are_those_of_fractions(seeds: range, penalty: float) -> None:
    """Within the noise of their probes, where the graph is not eliminated."""
    for seed in seeds:
        case = drawn(seed, SPREADS[seed % len(SPREADS)])
        found = posterior_variance(case.graph, case.labels, graph_penalty=penalty)
        assert found.status is Status.CONVERGED
        kappa = Fraction(penalty) * case.labels.n_labeled
        exact = rational.posterior_variance(case.graph, case.labels, kappa)
        for own, right in zip(found.variance.tolist(), exact, strict=True):
            if right is None or right == 0:
                assert own == (np.inf if right is None else 0.0), seed
            else:
                error = 1e-6 if found.n_probes == 0 else 0.6
                assert own == pytest.approx(float(right), rel=error, abs=0.0), seed


@pytest.mark.parametrize("seeds", SEEDS)
def test_the_least_threshold_is_that_of_fractions(seeds: range) -> None:
    """Of running sums 1e30 + 1e-5 - 1e30 is 0, and no cut at all seemed as good."""
    for seed in seeds:
        graph = drawn(seed).graph
        if graph.n_components > 1 or graph.n_nodes == 1:
            continue
        function = np.random.default_rng(seed).permutation(graph.n_nodes).astype(np.float64)
        for weight in (np.ones(graph.n_nodes), graph.degree):
            above, least = best_threshold(graph, function, weight)
            exact = rational_cuts.least_ratio_threshold(graph, function, weight)
            own = rational_cuts.cut_ratio(graph, weight, above.tolist())
            assert least == pytest.approx(float(exact), rel=1e-12)
            assert float(own / exact) == pytest.approx(1.0, rel=1e-12)


def test_masses_of_hard_hfs_are_exact_where_a_class_has_hardly_any() -> None:
    """A path whose other class reaches a node by a part in 1e40: its score has all its digits."""
    graph = Graph.from_edges([0, 1], [1, 2], [1e20, 1e-20], n_nodes=3)
    labels = Labels.from_pairs(np.array([0, 2]), [0, 1])
    model = HFS(graph_penalty=0.0)
    solution = model.solve(model.prepare(graph), labels)
    assert solution.scores[1, 1] == pytest.approx(1e-40, rel=1e-12, abs=0.0)


def test_nodes_that_only_light_edges_hold_are_counted() -> None:
    """The convex problem moves them by less than it looks at, and they stay where they started."""
    graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 4], [1.0, 1e-9, 1e-8, 1.0], n_nodes=5)
    labels = Labels.from_pairs(np.array([0, 4]), [0, 1])
    model = TVRLS(normalization="none")
    solution = model.solve(model.prepare(graph), labels)
    assert solution.status is Status.ILL_CONDITIONED
    assert solution.stats["n_uncertain"] == 1
