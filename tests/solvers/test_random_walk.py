"""The walk on a graph: its spectrum from few steps, and how often it returns."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from hypothesis import given

from solvers.graph import Graph
from solvers.iterate import iterate
from solvers.laplacian.operator import ShiftedLaplacian
from solvers.laplacian.parallel import Parallel
from solvers.laplacian.random_walk import RandomWalk
from solvers.laplacian.spectrum import SpectralBounds
from solvers.solution import Status
from tests.reference.laplacian import dense_laplacian
from tests.strategies import graphs
from tests.streaming.graphs import heavy_tailed, random_graph, two_communities

RUN = partial(iterate, phase="test")


def walk_on(graph: Graph, *, ridge: float = 0.0, parallel: Parallel = map) -> RandomWalk:
    shift = np.full(graph.n_nodes, ridge)
    operator = ShiftedLaplacian.of_graph(
        graph, scale=1.0, shift=shift, zero_mean=False, dtype=np.float32
    )
    return RandomWalk(operator, parallel)


def bounds_of(graph: Graph, *, seed: int = 0, ridge: float = 0.0, **settings) -> SpectralBounds:
    return walk_on(graph, ridge=ridge).spectral_bounds(seed=seed, max_iter=500, run=RUN, **settings)


def spectrum_of(graph: Graph, *, ridge: float = 0.0) -> np.ndarray:
    """Eigenvalues of 1 - N without the null space and the isolated nodes, from dense matrices."""
    touched = graph.degree + ridge > 0
    root = 1 / np.sqrt((graph.degree + ridge)[touched])
    matrix = (dense_laplacian(graph) + ridge * np.eye(graph.n_nodes))[np.ix_(touched, touched)]
    values = np.linalg.eigvalsh(root[:, None] * matrix * root)
    n_null = 0 if ridge else np.unique(graph.component[touched]).size
    return values[n_null:]


@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize(
    "edges",
    [
        random_graph(300, 0.1, seed=0),
        two_communities(300, 0.3, 1, seed=0),
        heavy_tailed(300, 0.1, seed=0),
    ],
    ids=["random", "communities", "heavy-tailed"],
)
def test_bounds_hold_the_spectrum_and_little_more(edges, ridge: float) -> None:
    graph = edges.graph()
    bounds, spectrum = bounds_of(graph, ridge=ridge), spectrum_of(graph, ridge=ridge)
    assert bounds.status is Status.CONVERGED
    assert spectrum[0] / 2 < bounds.lowest < spectrum[0] * 1.05
    assert spectrum[-1] * 0.95 < bounds.highest < spectrum[-1] * 1.1


@given(graphs(max_nodes=12))
def test_bounds_hold_for_every_small_graph(graph: Graph) -> None:
    if graph.n_edges:
        bounds, spectrum = bounds_of(graph), spectrum_of(graph)
        assert bounds.status is Status.CONVERGED
        assert bounds.lowest <= spectrum[0] * (1 + 1e-4)
        assert bounds.highest >= spectrum[-1] * (1 - 1e-4)


def test_hardly_a_seed_overlooks_a_weak_cut() -> None:
    """Its direction is one part in 400 of a random vector, and of some much less."""
    graph = two_communities(400, 0.3, 3, seed=0).graph()
    walk, spectrum = walk_on(graph), spectrum_of(graph)
    assert spectrum[0] < 1e-3 * spectrum[1]
    for seed in range(200):
        bounds = walk.spectral_bounds(seed=seed, max_iter=500, run=RUN)
        assert bounds.lowest < spectrum[0]


def test_well_connected_graphs_need_a_dozen_steps() -> None:
    assert bounds_of(random_graph(1000, 0.05, seed=0).graph()).n_iter <= 12


def test_a_spectrum_below_the_limit_is_noticed_early() -> None:
    graph = two_communities(1000, 0.2, 1, seed=0).graph()
    bounds = bounds_of(graph, give_up_below=0.01)
    assert bounds.status is Status.STAGNATED
    assert bounds.n_iter <= 20


def test_a_graph_without_edges_has_bounds() -> None:
    bounds = bounds_of(Graph.from_edges([], [], [], n_nodes=3))
    assert bounds.status is Status.CONVERGED
    assert 0 < bounds.lowest < bounds.highest


def test_too_few_steps_are_a_status() -> None:
    graph = two_communities(300, 0.3, 1, seed=0).graph()
    bounds = walk_on(graph).spectral_bounds(seed=0, max_iter=3, run=RUN)
    assert bounds.status is Status.MAX_ITER


def test_returns_are_the_diagonals_of_powers() -> None:
    graph = two_communities(150, 0.2, 40, seed=0).graph()
    root = 1 / np.sqrt(graph.degree)
    step = root[:, None] * graph.adjacency.toarray() * root
    powers = [np.diag(np.linalg.matrix_power(step, k)) for k in range(7)]
    exact = sum(powers[:6]) + 5.0 * powers[6]
    walk = walk_on(graph)
    found = [walk.returns(3, last_factor=5.0, seed=seed) for seed in range(60)]
    excess = exact - 1
    # negative estimates of odd powers count as zero, so the mean is a little high
    np.testing.assert_allclose(np.mean(found, axis=0) - 1, excess, rtol=0.25)
    assert np.mean(found) - 1 == pytest.approx(excess.mean(), rel=0.1)
    assert np.std((np.array(found) - 1) / excess) < 0.4


def test_an_isolated_node_returns_never() -> None:
    graph = Graph.from_edges([0, 1, 0], [1, 2, 2], [1.0, 1.0, 1.0], n_nodes=4)
    assert walk_on(graph).returns(3, last_factor=2.0, seed=0)[3] == 1.0


def test_threads_change_nothing() -> None:
    graph = heavy_tailed(300, 0.1, seed=0).graph()
    with ThreadPoolExecutor(3) as pool:
        alone, together = walk_on(graph), walk_on(graph, parallel=pool.map)
        assert alone.spectral_bounds(seed=1, max_iter=50, run=RUN) == together.spectral_bounds(
            seed=1, max_iter=50, run=RUN
        )
        returns = [walk.returns(2, last_factor=1.0, seed=1) for walk in (alone, together)]
    assert np.array_equal(*returns)
