"""Proofs of labels against exact fractions on all edges, and their parts (P1 to P4)."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import RunStopped, Watch
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.iterative_refinement import RefinedSolver
from peewit.solvers.laplacian.unsparsified_system import FullDegrees
from peewit.solvers.models.classes.class_mass import contrast_reading, mass_reading
from peewit.solvers.models.contract.provable_model import Proof, Provable, prove
from peewit.solvers.models.harmonic.harmonic import HFS, StableHFS
from peewit.solvers.models.poisson.poisson import Poisson
from peewit.solvers.proof.bounded_system import BoundedSystem
from peewit.solvers.proof.readings import Misses, shares_of_components
from peewit.solvers.proof.spectral_ends import EXACT, EndsByPasses, SpectralEnds
from peewit.solvers.solution import Solution
from tests.reference import class_mass, rational
from tests.reference.laplacian import dense_laplacian

RTOL = 1e-11


class Case(NamedTuple):
    full: Graph
    kept: Graph
    labels: Labels
    penalty: float
    max_passes: int
    knows_ends: bool


def drawn_case(seed: int) -> Case:
    """One to three components, hubs, weights over up to twelve decades, a forest always kept."""
    rng = np.random.default_rng(seed)
    decades = float(rng.choice([0.0, 2.0, 4.0, 12.0]))
    n_parts = int(rng.integers(1, 4))
    sizes = rng.integers(5, 12, n_parts)
    share = rng.uniform(0.2, 0.9)
    u, v, start = [], [], 0
    labeled: list[int] = []
    for size in sizes:
        i, j = np.triu_indices(size, 1)
        is_edge = (rng.random(i.size) < share) | (j == i + 1) | (i == 0)  # a path, and a hub
        u.append(i[is_edge] + start)
        v.append(j[is_edge] + start)
        labeled += (start + rng.choice(size, int(rng.integers(2, 5)), replace=False)).tolist()
        start += int(size)
    left, right = np.concatenate(u), np.concatenate(v)
    weight = 10.0 ** rng.uniform(-decades / 2, decades / 2, left.size)
    chance = np.where(right == left + 1, 1.0, rng.uniform(0.2, 0.9, left.size))
    stays = rng.random(left.size) < chance
    names = np.sort(np.array(labeled))
    return Case(
        full=Graph.from_edges(left, right, weight, n_nodes=start),
        kept=Graph.from_edges(left[stays], right[stays], (weight / chance)[stays], n_nodes=start),
        labels=Labels.from_pairs(names, np.append([0, 1], rng.integers(0, 3, names.size - 2))),
        penalty=10.0 ** rng.uniform(-4, 1),
        max_passes=int(rng.choice([3, 4, 6, 12])),
        knows_ends=bool(rng.random() < 0.5),
    )


def true_ends(full: Graph, kept: Graph) -> tuple[float, float]:
    """Extreme eigenvalues of L_H^+ L_G on the range of both."""
    values, vectors = np.linalg.eigh(dense_laplacian(kept))
    used = values > 1e-12 * values.max()
    root = vectors[:, used] / np.sqrt(values[used])
    ends = np.linalg.eigvalsh(root.T @ dense_laplacian(full) @ root)
    return float(ends[0]), float(ends[-1])


def proof_of(
    model: Provable, case: Case, *, most_unproven: float = 0.0, **how: Any
) -> tuple[Solution, Proof]:
    prepared = model.prepare(case.kept)
    known = None
    if case.knows_ends:
        low, high = true_ends(case.full, case.kept)
        known = SpectralEnds(low=low * (1 - 1e-6), high=high * (1 + 1e-6), failure=0.0)
    return prove(
        model,
        prepared,
        case.labels,
        model.solve(prepared, case.labels),
        case.full.laplacian_product,
        lambda: FullDegrees(case.full.degree, np.diff(case.full.adjacency.indptr)),
        most_unproven=most_unproven,
        **{"max_passes": case.max_passes, "known_ends": known} | how,
    )


def sum_of(left: rational.Rows, right: rational.Rows, factor: Fraction) -> rational.Rows:
    return [
        [a + factor * b for a, b in zip(row, other, strict=True)]
        for row, other in zip(left, right, strict=True)
    ]


def winners(rows: rational.Rows) -> np.ndarray:
    return np.array([max(range(len(row)), key=row.__getitem__) for row in rows])


def exact_contrasts(case: Case, penalty: float) -> np.ndarray:
    values = np.array(rational.hfs(case.full, case.labels, penalty), dtype=float)
    return class_mass.contrasts(values, case.labels, case.full).argmax(axis=1)


def exact_masses(case: Case, penalty: float) -> np.ndarray:
    values = np.array(rational.hfs(case.full, case.labels, penalty), dtype=float)
    return class_mass.normalized_masses(values, case.labels, case.full).argmax(axis=1)


MODELS: dict[str, tuple[Callable[[float], Provable], Callable[[Case], np.ndarray]]] = {
    "stable-hfs": (
        lambda penalty: StableHFS(graph_penalty=penalty, rtol=RTOL),
        lambda case: winners(rational.stable_hfs(case.full, case.labels, case.penalty)),
    ),
    "hfs soft": (
        lambda penalty: HFS(graph_penalty=penalty, rtol=RTOL),
        lambda case: winners(rational.hfs(case.full, case.labels, case.penalty)),
    ),
    "hfs hard": (
        lambda _penalty: HFS(graph_penalty=0.0, rtol=RTOL),
        lambda case: winners(rational.hfs(case.full, case.labels, 0.0)),
    ),
    "hfs contrasts": (
        lambda penalty: HFS(graph_penalty=penalty, class_mass="contrasts", rtol=RTOL),
        lambda case: exact_contrasts(case, case.penalty),
    ),
    "hfs hard contrasts": (
        lambda _penalty: HFS(graph_penalty=0.0, class_mass="contrasts", rtol=RTOL),
        lambda case: exact_contrasts(case, 0.0),
    ),
    "hfs masses": (
        lambda penalty: HFS(graph_penalty=penalty, class_mass="labels", rtol=RTOL),
        lambda case: exact_masses(case, case.penalty),
    ),
    "poisson": (
        lambda _penalty: Poisson(rtol=RTOL),
        lambda case: winners(rational.poisson(case.full, case.labels)),
    ),
}


def n_wrong(name: str, seed: int) -> tuple[int, int]:
    """Wrong and all proofs of one case, by fractions."""
    make, exact = MODELS[name]
    case = drawn_case(seed)
    solution, proof = proof_of(make(case.penalty), case)
    assert proof.n_proven == np.count_nonzero(proof.is_proven) <= proof.n_reached
    assert not proof.is_proven[~solution.reachable].any()
    differs = exact(case) != solution.classes()
    return int(np.count_nonzero(differs & proof.is_proven)), proof.n_proven


@pytest.mark.parametrize("name", MODELS)
def test_no_label_is_proven_that_exact_fractions_contradict(name: str) -> None:
    found = [n_wrong(name, seed) for seed in range(3)]
    assert sum(wrong for wrong, _ in found) == 0
    assert sum(proven for _, proven in found) > 0


@pytest.mark.nightly
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("first", range(1_000, 2_500, 50))
def test_no_label_is_proven_wrongly_in_many_draws(name: str, first: int) -> None:
    assert sum(n_wrong(name, seed)[0] for seed in range(first, first + 50)) == 0


@pytest.mark.parametrize("name", MODELS)
def test_passes_enough_prove_every_label(name: str) -> None:
    case = next(
        case
        for case in map(drawn_case, range(100))
        if case.full.weight_spread == 1.0 and case.kept.n_edges < 0.8 * case.full.n_edges
    )
    solution, proof = proof_of(MODELS[name][0](case.penalty), case, max_passes=40)
    leads = np.partition(solution.scores, -2, axis=1)
    is_tied = leads[:, -1] - leads[:, -2] <= 1e-9 * np.abs(leads[:, -1])
    assert (proof.is_proven | is_tied).all()
    again, twin = proof_of(MODELS[name][0](case.penalty), case, max_passes=40)
    assert np.array_equal(again.scores, solution.scores)
    assert np.array_equal(twin.is_proven, proof.is_proven)


def test_the_passes_end_once_few_labels_are_unproven_and_a_limit_is_a_result() -> None:
    case = drawn_case(12)._replace(knows_ends=True)
    model = StableHFS(graph_penalty=1e-2, rtol=RTOL)
    shares = [proof_of(model, case, max_passes=most)[1].share for most in (3, 5, 8)]
    assert shares[0] < shares[-1]
    solution, proof = proof_of(model, case, most_unproven=0.5, max_passes=40)
    assert proof.share >= 0.5
    assert proof.n_passes < 40
    assert solution.status.value == "converged"


def test_ends_that_the_passes_find_hold_the_truth() -> None:
    for seed in range(5):
        case = drawn_case(seed)._replace(knows_ends=False, max_passes=5)
        proof = proof_of(Poisson(rtol=RTOL), case)[1]
        full, kept = (
            rational.laplacian(graph, np.arange(graph.n_nodes), Fraction(1))
            for graph in (case.full, case.kept)
        )
        assert rational.is_semidefinite(sum_of(full, kept, -Fraction(proof.ends.low)))
        if np.isfinite(proof.ends.high):
            assert rational.is_semidefinite(sum_of(kept, full, -1 / Fraction(proof.ends.high)))
        assert proof.found_ends is not None


def test_nothing_is_proven_while_nothing_is_known_of_the_ends() -> None:
    case = drawn_case(3)
    unknown = SpectralEnds(low=0.0, high=np.inf, failure=0.005)
    proof = proof_of(HFS(graph_penalty=0.0, rtol=RTOL), case, known_ends=unknown)[1]
    assert proof.n_proven == 0
    assert proof.failure == pytest.approx(0.0075)


def test_the_error_of_the_corrected_columns_is_within_its_bound() -> None:
    """P1 to P3 by dense algebra: energies, and every entry of every column and pair."""
    case = drawn_case(1)
    labels, kappa = case.labels, 0.3
    model = HFS(graph_penalty=kappa / labels.n_labeled, rtol=RTOL)
    prepared = model.prepare(case.kept)
    solution = model.solve(prepared, labels)
    on_labels = np.zeros(case.full.n_nodes)
    on_labels[labels.nodes] = 1.0
    full = kappa * dense_laplacian(case.full) + np.diag(on_labels)
    kept = kappa * dense_laplacian(case.kept) + np.diag(on_labels)
    low, high = true_ends(case.full, case.kept)
    ends = SpectralEnds(low=low, high=high, failure=0.0)
    system = model.full_system(prepared, labels, solution)
    bounds = BoundedSystem(
        system=system,
        passes=EndsByPasses(product=case.full.laplacian_product, known=ends, graph=case.kept),
        degrees=FullDegrees(case.full.degree, np.diff(case.full.adjacency.indptr)),
    )
    rng = np.random.default_rng(0)
    x = np.linalg.solve(kept, system.rhs) + 0.01 * rng.standard_normal(system.rhs.shape)
    residual = system.rhs - full @ x
    bounded = bounds.exactly(x, residual)
    answer = np.linalg.solve(kept, residual)
    truth = np.linalg.solve(full, system.rhs)
    energy = np.sqrt((residual * answer).sum(axis=0))
    error = truth - x
    own = np.sqrt((error * (full @ error)).sum(axis=0))
    widened = ends.of_shifted()
    assert (energy / np.sqrt(widened.high) <= own * (1 + 1e-9)).all()  # P1
    assert (own <= energy / np.sqrt(widened.low) * (1 + 1e-9)).all()
    assert bounded.columns == pytest.approx(x + widened.step * answer, abs=1e-5)
    left = truth - bounded.columns
    assert (
        np.sqrt((left * (kept @ left)).sum(axis=0)) <= widened.miss * energy * (1 + 1e-6) + 1e-5
    ).all()  # P2
    deviation = np.sqrt(np.diag(np.linalg.inv(kept)))
    assert (bounds.deviations() >= deviation * (1 - 1e-6)).all()
    pairs = bounded.pairs(np.ones((1, labels.n_classes)))[0]
    for k in range(labels.n_classes):  # P3
        for j in range(k):
            pair = residual[:, k] - residual[:, j]
            size = np.sqrt(pair @ np.linalg.solve(kept, pair))
            moved = np.abs(left[:, k] - left[:, j])
            assert (moved <= widened.miss * deviation * size * (1 + 1e-6) + 1e-5).all()
            weights = np.eye(labels.n_classes)[:, [k]] - np.eye(labels.n_classes)[:, [j]]
            assert pairs[k, j] == pytest.approx(bounded.radius(weights)[0])
            assert pairs[k, j] >= widened.miss * size


@pytest.mark.parametrize("zero_mean", [False, True])
def test_refined_solves_of_shifted_systems_have_the_energy_they_tell(zero_mean: bool) -> None:
    graph = drawn_case(1).full
    shift = np.zeros(graph.n_nodes)
    shift[:2] = 1.0
    kappa = 0.7
    solver = RefinedSolver(graph, scale=kappa, shift=shift, zero_mean=zero_mean)
    dense = kappa * dense_laplacian(graph) + np.diag(shift)
    if zero_mean or graph.n_components > 1:
        mean = (
            np.equal.outer(graph.component, graph.component)
            / graph.component_sizes()[graph.component]
        )
        if not zero_mean:
            mean[graph.component == graph.component[0]] = 0.0
        projection = np.eye(graph.n_nodes) - mean
        dense = projection @ dense @ projection
    rhs = np.random.default_rng(0).standard_normal((graph.n_nodes, 3))
    solver.project(rhs)
    solved = solver.solve(rhs)
    exact = np.linalg.pinv(dense, rcond=1e-13, hermitian=True) @ rhs
    missed = solved.x - exact
    assert (np.sqrt((missed * (dense @ missed)).sum(axis=0)) <= solved.error + 1e-9).all()
    assert solver.product(solved.x) == pytest.approx(dense @ solved.x, abs=1e-9)
    assert solver.dimension == np.linalg.matrix_rank(dense, tol=1e-9)


def test_vectors_of_a_shifted_system_have_its_inverse_as_covariance() -> None:
    graph = Graph.from_edges([0, 1, 2], [1, 2, 3], np.array([1.0, 2.0, 0.5]), n_nodes=4)
    shift = np.array([1.0, 0.0, 0.0, 0.5])
    drawn = RefinedSolver(graph, scale=2.0, shift=shift).sample(128, seed=1).x
    dense = 2.0 * dense_laplacian(graph) + np.diag(shift)
    white = np.linalg.cholesky(dense).T @ drawn
    assert white @ white.T / drawn.shape[1] == pytest.approx(np.eye(4), abs=0.3)


@pytest.mark.parametrize("kind", ["contrasts", "masses"])
def test_readings_hold_the_scores_of_all_functions_within_their_misses(kind: str) -> None:
    rng = np.random.default_rng(3)
    case = drawn_case(5)
    graph, labels = case.full, case.labels
    middle = HFS(graph_penalty=0.1).solve(HFS().prepare(graph), labels)
    weights = (
        shares_of_components(graph.degree, graph.component)
        if kind == "contrasts"
        else np.ones(graph.n_nodes)
    )

    def by_component(columns: FloatArray) -> FloatArray:
        sums = np.zeros((graph.n_components, columns.shape[1]))
        np.add.at(sums, graph.component, weights[:, None] * columns)
        return sums

    for size in (1e-6, 1e-3, 3e-2):
        change = size * rng.uniform(-1.0, 1.0, middle.scores.shape)
        change -= change.mean(axis=1, keepdims=True)
        change[middle.scores == 0] = 0.0
        moved = middle.scores + change
        misses = Misses(
            mean=np.abs(by_component(change)), norm=np.sqrt(by_component(np.square(change)))
        )
        if kind == "contrasts":
            reading = contrast_reading(middle.scores, misses, labels, graph)
            exact = class_mass.contrasts(moved, labels, graph)
        else:
            reading = mass_reading(middle.scores, misses, labels, graph, None)
            none = Misses(*np.zeros((2, *misses.mean.shape)))
            factors = mass_reading(moved, none, labels, graph, None)
            exact = factors.slope[graph.component] * moved
        own = graph.component
        off = moved - reading.middle[own]
        scores = reading.slope[own] * off + reading.level[own]
        slack = np.abs(off) * reading.slope_slack[own] + reading.level_slack[own]
        may_win = reading.may_win[own]
        assert (np.abs(exact - scores) <= slack + 1e-9)[may_win].all()
        assert np.isfinite(slack[may_win]).mean() > 0.5


def test_a_whole_graph_proves_what_the_solver_can_tell() -> None:
    case = drawn_case(12)
    whole = case._replace(kept=case.full)
    proof = proof_of(HFS(graph_penalty=0.1, rtol=1e-6), whole, known_ends=EXACT)[1]
    assert proof.share > 0.9
    assert proof.failure == pytest.approx(0.0025)


def test_bad_arguments_are_refused_and_a_stop_is_heard() -> None:
    case = drawn_case(0)
    with pytest.raises(ValueError, match="max_passes must be at least 3, got 2"):
        proof_of(StableHFS(graph_penalty=1.0), case, max_passes=2)
    with pytest.raises(ValueError, match="class_balance must be left out"):
        proof_of(Poisson(class_balance="labels"), case)
    with pytest.raises(RunStopped):
        proof_of(StableHFS(graph_penalty=1.0), case, watch=Watch(cancelled=lambda: True))
