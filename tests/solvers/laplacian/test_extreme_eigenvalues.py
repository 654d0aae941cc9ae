"""Block Lanczos with bounds: Ritz values inside, outer bounds outside as often as they say."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betaincinv

from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.laplacian.extreme_eigenvalues import (
    Krylov,
    advance_krylov,
    spectrum_ends,
    start_krylov,
)
from peewit.solvers.laplacian.iterative_refinement import RefinedSolution, RefinedSolver
from tests.reference.pencil import pencil_spectrum
from tests.strategies import EdgeList, edge_lists


@dataclass(frozen=True)
class Euclidean:
    """H with L_H = I, so that L_G may be any diagonal matrix; solves may be off by ``noise``."""

    n_nodes: int
    noise: float = 0.0

    @property
    def dimension(self) -> int:
        return self.n_nodes

    def product(self, block: FloatArray) -> FloatArray:
        return block.copy()

    def project(self, block: FloatArray) -> None:
        """Every vector is in the space."""

    def solve(self, rhs: FloatArray) -> RefinedSolution:
        wrong = np.random.default_rng(len(rhs)).standard_normal(rhs.shape)
        wrong *= self.noise / np.linalg.norm(wrong, axis=0)
        x = rhs + wrong
        return RefinedSolution(x=x, product=x.copy(), error=np.full(rhs.shape[1], self.noise))

    def sample(self, n_vectors: int, seed: int) -> RefinedSolution:
        x = np.random.default_rng(seed).standard_normal((self.n_nodes, n_vectors))
        return RefinedSolution(x=x, product=x.copy(), error=np.zeros(n_vectors))


def run(
    spectrum: FloatArray, *, n_vectors: int, n_steps: int, seed: int = 0, noise: float = 0.0
) -> tuple[Krylov, list[FloatArray]]:
    """Lanczos on a diagonal matrix."""
    metric = Euclidean(len(spectrum), noise)
    krylov, first = start_krylov(metric, n_vectors=n_vectors, seed=seed)
    basis = [first]
    for _ in range(n_steps):
        if krylov.is_exhausted:
            break
        krylov, following = advance_krylov(krylov, metric, basis, spectrum[:, None] * basis[-1])
        basis.append(following)
    return krylov, basis


def semicircle(n_nodes: int, radius: float = 0.5) -> FloatArray:
    """The spectrum of a good sparsifier: a dense bulk with soft edges."""
    return 1 + radius * (2 * betaincinv(1.5, 1.5, (np.arange(n_nodes) + 0.5) / n_nodes) - 1)


SPECTRA = {
    "semicircle": semicircle(150),
    "outliers": np.concatenate([semicircle(147, 0.2), [0.05, 3.0, 3.01]]),
    "two values": np.repeat([0.5, 2.0], [149, 1]),
    "geometric": np.geomspace(1e-3, 1e3, 150),
    "clusters": np.repeat([0.3, 0.9, 1.0, 1.4], [1, 40, 107, 2]),
}


@pytest.mark.parametrize("n_vectors", [1, 3, 8])
@pytest.mark.parametrize("name", SPECTRA)
def test_basis_is_orthonormal_and_projects_to_the_matrix_it_names(
    name: str, n_vectors: int
) -> None:
    krylov, basis = run(SPECTRA[name], n_vectors=n_vectors, n_steps=12)
    whole = np.concatenate(basis, axis=1)
    assert np.allclose(whole.T @ whole, np.eye(whole.shape[1]), atol=1e-11)
    inside = whole[:, : len(krylov.projected)]
    scale = SPECTRA[name].max()
    expected = inside.T @ (SPECTRA[name][:, None] * inside)
    assert np.allclose(krylov.projected, expected, atol=1e-12 * scale)
    residual = SPECTRA[name][:, None] * inside - inside @ krylov.projected
    width = krylov.widths[-2]
    assert np.allclose(residual[:, :-width], 0.0, atol=1e-9 * scale)
    assert np.allclose(residual[:, -width:], basis[-1] @ krylov.coupling, atol=1e-9 * scale)


@pytest.mark.slow
@pytest.mark.thinned(2)
@pytest.mark.parametrize("n_vectors", [1, 2, 4])
@pytest.mark.parametrize("name", SPECTRA)
def test_outer_bounds_cover_as_often_as_they_promise(name: str, n_vectors: int) -> None:
    """At every step: 99 % of starts, give or take what chance allows in 200."""
    spectrum = SPECTRA[name]
    n_starts, steps = 200, (1, 3, 6)
    misses = dict.fromkeys(steps, 0)
    for seed in range(n_starts):
        metric = Euclidean(len(spectrum))
        krylov, first = start_krylov(metric, n_vectors=n_vectors, seed=seed)
        basis = [first]
        for step in range(1, max(steps) + 1):
            if krylov.is_exhausted:
                break
            krylov, following = advance_krylov(krylov, metric, basis, spectrum[:, None] * basis[-1])
            basis.append(following)
            if step in steps:
                low, high = spectrum_ends(krylov)
                slack = 1e-9 * spectrum.max()
                assert spectrum.min() <= low.ritz + slack
                assert high.ritz <= spectrum.max() + slack
                covers = (
                    low.outer <= spectrum.min() + slack and high.outer >= spectrum.max() - slack
                )
                misses[step] += not covers
    assert all(count <= 7 for count in misses.values()), misses


@pytest.mark.slow
def test_promise_is_kept_with_nothing_to_spare_where_one_eigenvalue_stands_apart() -> None:
    """Then (1) is an equality: one start in 200 misses the end."""
    spectrum = np.repeat([1.0, 0.0], [1, 39])
    n_starts = 2_000
    n_misses = 0
    for seed in range(n_starts):
        krylov, _ = run(spectrum, n_vectors=1, n_steps=1, seed=seed)
        n_misses += spectrum_ends(krylov)[1].outer < 1.0 - 1e-9
    assert 1 <= n_misses <= 22  # 10 expected, standard deviation 3.2


@pytest.mark.slow
def test_bounds_close_in_with_every_step_and_every_vector() -> None:
    spectrum = semicircle(20_000)
    widths = []
    for n_vectors in (1, 4):
        ends = [
            spectrum_ends(run(spectrum, n_vectors=n_vectors, n_steps=n_steps)[0])
            for n_steps in (6, 12, 24)
        ]
        widths.append([high.outer - high.ritz for _, high in ends])
        assert widths[-1] == sorted(widths[-1], reverse=True)
    assert all(four < one for one, four in zip(*widths, strict=True))
    assert widths[1][-1] < 0.02


@pytest.mark.slow
def test_errors_of_the_solves_widen_the_bounds_and_leave_the_ritz_values_inside() -> None:
    spectrum = semicircle(2_000)
    n_misses = 0
    for seed in range(100):
        exact = spectrum_ends(run(spectrum, n_vectors=2, n_steps=10, seed=seed)[0])
        krylov, _ = run(spectrum, n_vectors=2, n_steps=10, seed=seed, noise=1e-3)
        low, high = spectrum_ends(krylov)
        assert spectrum.min() <= low.ritz <= high.ritz <= spectrum.max()
        assert high.outer > exact[1].outer
        n_misses += low.outer > spectrum.min() or high.outer < spectrum.max()
    assert n_misses <= 4


@pytest.mark.parametrize("n_vectors", [1, 4, 7, 20])
def test_exhausted_space_gives_the_spectrum_itself(n_vectors: int) -> None:
    spectrum = np.array([0.25, 0.5, 1.0, 1.0, 1.5, 2.0, 4.0])
    krylov, _ = run(spectrum, n_vectors=n_vectors, n_steps=30)
    assert krylov.is_exhausted
    low, high = spectrum_ends(krylov)
    for end, value in ((low, 0.25), (high, 4.0)):
        assert (end.ritz, end.outer) == pytest.approx((value, value), abs=1e-8)
        assert end.residual < 1e-8


@given(edge_lists(min_nodes=2, max_nodes=14), st.data())
def test_ends_of_a_pencil_of_graphs_enclose_its_spectrum(
    edges: EdgeList, data: st.DataObject
) -> None:
    """H has the edges of G with other weights, so the same components."""
    factor = np.array(
        data.draw(st.lists(st.floats(0.2, 5.0), min_size=len(edges.u), max_size=len(edges.u)))
    )
    graph = edges.graph()
    sparsifier = Graph.from_edges(edges.u, edges.v, edges.weight * factor, n_nodes=edges.n_nodes)
    metric = RefinedSolver(sparsifier)
    if metric.dimension == 0:
        return
    krylov, first = start_krylov(metric, n_vectors=2, seed=data.draw(st.integers(0, 1000)))
    basis = [first]
    while not krylov.is_exhausted and krylov.n_steps < 20:
        product = graph.laplacian_product(basis[-1])
        krylov, following = advance_krylov(krylov, metric, basis, product)
        basis.append(following)
    spectrum = pencil_spectrum(sparsifier, graph)
    low, high = spectrum_ends(krylov, probability=1 - 1e-6)
    slack = 1e-7 * spectrum.max()
    assert low.outer - slack <= spectrum.min() <= low.ritz + slack
    assert high.ritz - slack <= spectrum.max() <= high.outer + slack


def test_basis_of_a_long_run_on_a_graph_stays_orthonormal() -> None:
    """One vector, as many steps as there are dimensions: nothing may grow in the null space."""
    rng = np.random.default_rng(0)
    u, v = np.triu_indices(60, 1)
    graph = Graph.from_edges(u, v, rng.uniform(0.5, 2.0, len(u)), n_nodes=60)
    sparsifier = Graph.from_edges(u, v, rng.uniform(0.5, 2.0, len(u)), n_nodes=60)
    metric = RefinedSolver(sparsifier)
    krylov, first = start_krylov(metric, n_vectors=1, seed=0)
    basis = [first]
    while not krylov.is_exhausted:
        product = graph.laplacian_product(basis[-1])
        krylov, following = advance_krylov(krylov, metric, basis, product)
        basis.append(following)
    whole = np.concatenate(basis, axis=1)
    assert whole.shape[1] >= 40
    gram = whole.T @ sparsifier.laplacian_product(whole)
    assert np.allclose(gram, np.eye(whole.shape[1]), atol=1e-9)
    assert np.abs(whole.sum(axis=0)).max() < 1e-9


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="n_vectors must be at least 1, got 0"):
        start_krylov(Euclidean(3), n_vectors=0, seed=0)
    krylov, _ = run(np.ones(5), n_vectors=1, n_steps=0)
    with pytest.raises(ValueError, match="at least one step long, got none"):
        spectrum_ends(krylov)
    with pytest.raises(ValueError, match=r"probability must lie in \(0, 1\), got 1.0"):
        spectrum_ends(krylov, probability=1.0)
