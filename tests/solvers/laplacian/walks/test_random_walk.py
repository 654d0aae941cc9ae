"""The walk on a graph: its spectrum from few steps, and how often it returns."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given

from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import iterate
from peewit.solvers.laplacian.effective_resistance import ResistanceSystem
from peewit.solvers.laplacian.shifted_laplacian import ShiftedLaplacian
from peewit.solvers.laplacian.spectral_bounds import SpectralBounds, bounds_of_ritz_values
from peewit.solvers.laplacian.walks.random_walk import RandomWalk, WalkLanczos
from peewit.solvers.row_ranges import Parallel
from peewit.solvers.status import Status
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
    return bounds_by(walk_on(graph, ridge=ridge), seed=seed, **settings)


def bounds_by(walk: RandomWalk, *, seed: int, max_iter: int = 500, **settings) -> SpectralBounds:
    return bounds_of_ritz_values(
        RUN(WalkLanczos(walk=walk, seed=seed, **settings), max_iter=max_iter)
    )


def spectrum_of(graph: Graph, *, ridge: float = 0.0) -> np.ndarray:
    """Eigenvalues of 1 - N without the null space and the isolated nodes, from dense matrices."""
    touched = graph.degree + ridge > 0
    root = 1 / np.sqrt((graph.degree + ridge)[touched])
    matrix = (dense_laplacian(graph) + ridge * np.eye(graph.n_nodes))[np.ix_(touched, touched)]
    values = np.linalg.eigvalsh(root[:, None] * matrix * root)
    n_null = 0 if ridge else np.unique(graph.component[touched]).size
    return values[n_null:]


@pytest.mark.slow
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
@example(Graph.from_edges(np.array([0]), np.array([5]), np.array([1.79432823]), n_nodes=6))
def test_bounds_hold_for_every_small_graph(graph: Graph) -> None:
    if graph.n_edges:
        bounds, spectrum = bounds_of(graph), spectrum_of(graph)
        assert bounds.status is Status.CONVERGED
        assert bounds.lowest <= spectrum[0] * (1 + 1e-4)
        assert bounds.highest >= spectrum[-1] * (1 - 1e-4)


@pytest.mark.slow
def test_hardly_a_seed_overlooks_a_weak_cut() -> None:
    """Its direction is one part in 400 of a random vector, and of some much less."""
    graph = two_communities(400, 0.3, 3, seed=0).graph()
    walk, spectrum = walk_on(graph), spectrum_of(graph)
    assert spectrum[0] < 1e-3 * spectrum[1]
    for seed in range(200):
        bounds = bounds_by(walk, seed=seed)
        assert bounds.lowest < spectrum[0]


def test_well_connected_graphs_need_a_dozen_steps() -> None:
    assert bounds_of(random_graph(1000, 0.05, seed=0).graph()).n_iter <= 12


def test_a_spectrum_below_the_limit_is_noticed_early() -> None:
    graph = two_communities(1000, 0.2, 1, seed=0).graph()
    bounds = bounds_of(graph, give_up_below=0.01)
    assert bounds.status is Status.STAGNATED
    assert bounds.n_iter <= 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_nodes", "weight"),
    [(5, 0.1), (10, 1e-6), (12, 1e-6), (20, 1e-6), (30, 1e-5), (50, 1e-4), (150, 1e-4)],
)
def test_a_cut_too_weak_for_float32_is_never_taken_for_a_gap(n_nodes: int, weight: float) -> None:
    u, v = np.triu_indices(n_nodes, 1)
    heads, tails = (
        np.concatenate([u, u + n_nodes, [0]]),
        np.concatenate([v, v + n_nodes, [n_nodes]]),
    )
    weights = np.concatenate([np.ones(2 * u.size), [weight]])
    graph = Graph.from_edges(heads, tails, weights, n_nodes=2 * n_nodes)
    gap = spectrum_of(graph)[0]
    assert gap < 0.015
    keys = np.arange(heads.size, dtype=np.uint64)
    for seed in range(20):
        bounds = bounds_of(graph, seed=seed, give_up_below=0.015)
        assert bounds.status is Status.STAGNATED
        system = ResistanceSystem(heads, tails, weights, keys, n_nodes=2 * n_nodes, seed=seed)
        assert system.spectral_gap() == 0.0
        assert system.embedding(n_probes=4).status is Status.CONVERGED


@pytest.mark.slow
def test_a_single_slow_direction_is_not_overlooked() -> None:
    """An edge of weight W in a 6-regular graph: a gap far below the rest, in one place."""
    rng = np.random.default_rng(0)
    n_nodes, n_missed = 600, 0
    ring = np.concatenate([rng.permutation(n_nodes) for _ in range(3)]).reshape(3, -1)
    u, v = ring.ravel(), np.roll(ring, 1, axis=1).ravel()
    for weight in (15.0, 20.0, 30.0):
        weights = np.concatenate([np.ones(u.size), [weight]])
        graph = Graph.from_edges(
            np.concatenate([u, [0]]), np.concatenate([v, [300]]), weights, n_nodes=n_nodes
        )
        spectrum, walk = spectrum_of(graph), walk_on(graph)
        for seed in range(100):
            bounds = bounds_by(walk, seed=seed)
            n_missed += bounds.lowest > spectrum[0] or bounds.highest < spectrum[-1]
    assert n_missed == 0


@pytest.mark.parametrize("scale", [1e-39, 1e-30, 1e30, 1e37])
def test_weights_at_the_ends_of_float32_end_in_a_status(scale: float) -> None:
    edges = random_graph(40, 0.9, seed=0)
    graph = Graph.from_edges(edges.u, edges.v, np.full(edges.u.size, scale), n_nodes=41)
    with np.errstate(all="ignore"):
        bounds = bounds_of(graph)
    spectrum = spectrum_of(random_graph(40, 0.9, seed=0).graph())
    if bounds.status is Status.CONVERGED:
        assert bounds.lowest <= spectrum[0] * 1.01
    else:
        assert scale == 1e37  # degrees are beyond float32
        assert bounds.status is Status.STAGNATED


def test_hubs_with_many_leaves_return_as_often_as_they_do() -> None:
    n_hubs, n_leaves, weight = 4, 5_000, 500.0
    hubs = np.triu_indices(n_hubs, 1)
    leaves = np.arange(n_hubs, n_hubs * (1 + n_leaves))
    u = np.concatenate([hubs[0], leaves % n_hubs])
    v = np.concatenate([hubs[1], leaves])
    weights = np.concatenate([np.full(hubs[0].size, weight), np.ones(leaves.size)])
    graph = Graph.from_edges(u, v, weights, n_nodes=n_hubs * (1 + n_leaves))
    degree, away = graph.degree[0], (n_hubs - 1) * weight
    # between hubs: to a leaf and back, which takes two steps, or to another hub
    leaf, among = (degree - away) / degree, weight / degree * (1 - np.eye(n_hubs))
    walk = walk_on(graph)
    found = [walk.returns(2, last_factor=1.0, seed=seed)[0] for seed in range(40)]
    second = leaf * np.eye(n_hubs) + among @ among
    third = leaf * among + among @ second
    fourth = leaf * second + among @ third
    exact = 1 + second[0, 0] + third[0, 0] + fourth[0, 0]
    assert np.mean(found) == pytest.approx(exact, rel=0.1)


def test_a_graph_without_edges_has_bounds() -> None:
    bounds = bounds_of(Graph.from_edges([], [], [], n_nodes=3))
    assert bounds.status is Status.CONVERGED
    assert 0 < bounds.lowest < bounds.highest


def test_too_few_steps_are_a_status() -> None:
    graph = two_communities(300, 0.3, 1, seed=0).graph()
    bounds = bounds_by(walk_on(graph), seed=0, max_iter=3)
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
        assert bounds_by(alone, seed=1, max_iter=50) == bounds_by(together, seed=1, max_iter=50)
        returns = [walk.returns(2, last_factor=1.0, seed=1) for walk in (alone, together)]
    assert np.array_equal(*returns)
