"""Layouts: neighbors near, strangers and components apart, the same for every number of threads."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from peewit.solvers.arrays import Float32Array, IntArray
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import RunStopped, Watch
from peewit.solvers.kernels.layout import place_in_rings
from peewit.solvers.laplacian.multigrid.layout import layout
from tests.service.solvable import grid


def graph_of(u: IntArray, v: IntArray, n_nodes: int) -> Graph:
    return Graph.from_edges(u, v, np.ones(len(u)), n_nodes=n_nodes)


def ring(n_nodes: int) -> Graph:
    node = np.arange(n_nodes)
    return graph_of(node, (node + 1) % n_nodes, n_nodes)


def blocks(n_blocks: int, size: int, seed: int = 0) -> tuple[Graph, IntArray]:
    """Random graphs side by side, a ring of edges between them; and the block of each node."""
    rng = np.random.default_rng(seed)
    first = size * np.repeat(np.arange(n_blocks), 5 * size)
    u, v = (first + rng.integers(0, size, first.size) for _ in range(2))
    bridge = size * np.arange(n_blocks)
    u, v = np.concatenate([u, bridge]), np.concatenate([v, np.roll(bridge, 1)])
    return graph_of(u, v, n_blocks * size), np.repeat(np.arange(n_blocks), size)


def lengths(points: Float32Array, u: IntArray, v: IntArray) -> np.ndarray:
    return np.hypot(*(points[u].astype(np.float64) - points[v]).T)


def neighbors_and_strangers(graph: Graph, points: Float32Array) -> tuple[float, float]:
    u, v, _ = graph.edges()
    rng = np.random.default_rng(1)
    pairs = rng.integers(0, graph.n_nodes, (2, 2000))
    return float(np.median(lengths(points, u, v))), float(np.median(lengths(points, *pairs)))


@pytest.mark.parametrize(
    "graph",
    [ring(500), blocks(8, 100)[0], graph_of(*grid(40), 1600), ring(5000)],
    ids=["ring", "blocks", "grid", "long ring"],
)
def test_neighbors_are_nearer_than_strangers(graph: Graph) -> None:
    near, far = neighbors_and_strangers(graph, layout(graph, seed=0))
    assert near < 0.2 * far


def test_blocks_lie_apart() -> None:
    graph, block = blocks(8, 100)
    points = layout(graph, seed=0)
    center = np.array([points[block == each].mean(axis=0) for each in range(8)])
    nearest = np.hypot(*(points[:, None] - center).transpose(2, 0, 1)).argmin(axis=1)
    assert (nearest == block).mean() > 0.9


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bits_whatever_the_threads() -> None:
    graph, _ = blocks(120, 100)  # several ranges of rows
    first = layout(graph, seed=3)
    with ThreadPoolExecutor(3) as pool:
        assert np.array_equal(layout(graph, seed=3, parallel=pool.map), first)
    assert not np.array_equal(layout(graph, seed=4), first)


def test_components_do_not_touch() -> None:
    sizes = [300, 40, 40, 7, 2, 2, 1, 1, 1]
    starts = np.cumsum([0, *sizes[:-1]])
    node = [start + np.arange(size) for start, size in zip(starts, sizes, strict=True)]
    u = np.concatenate([each[:-1] for each in node])
    graph = graph_of(u, u + 1, sum(sizes))
    points = layout(graph, seed=0).astype(np.float64)
    discs = []
    for each in node:
        middle = points[each].mean(axis=0)
        discs.append((middle, np.hypot(*(points[each] - middle).T).max()))
    for place, (middle, radius) in enumerate(discs):
        for other, further in discs[:place]:
            assert np.hypot(*(middle - other)) > radius + further
    assert discs[0][1] > discs[1][1] > discs[3][1] > discs[8][1] == 0


def test_discs_in_rings_never_overlap() -> None:
    radius = np.sort(np.random.default_rng(0).pareto(1.5, 400) + 0.1)[::-1].copy()
    centers = np.full((400, 2), np.nan)
    place_in_rings(radius, centers)
    apart = np.hypot(*(centers[:, None] - centers).transpose(2, 0, 1))
    np.fill_diagonal(apart, np.inf)
    assert (apart >= (radius[:, None] + radius) * (1 - 1e-9)).all()


@pytest.mark.parametrize(
    "graph",
    [
        graph_of(np.zeros(0, int), np.zeros(0, int), 0),
        graph_of(np.zeros(0, int), np.zeros(0, int), 1),
        graph_of(np.zeros(0, int), np.zeros(0, int), 1000),
        graph_of(np.array([0]), np.array([1]), 2),
        graph_of(np.zeros(3000, int), np.arange(1, 3001), 3001),
        Graph.from_edges([0, 1, 2], [1, 2, 3], [1e-200, 1.0, 1e200], n_nodes=5),
        Graph.from_edges(np.arange(2000), np.arange(1, 2001), np.full(2000, 1e-300), n_nodes=2001),
    ],
    ids=["nothing", "one", "no edges", "a pair", "a hub", "weights far apart", "tiny weights"],
)
def test_every_graph_has_points_in_the_square(graph: Graph) -> None:
    points = layout(graph, seed=0)
    assert points.shape == (graph.n_nodes, 2)
    assert points.dtype == np.float32
    assert ((points >= 0) & (points < 1)).all()
    assert len(np.unique(points, axis=0)) >= 0.9 * graph.n_nodes


def test_it_tells_how_far_it_is_and_stops_when_asked() -> None:
    told: list[float] = []
    layout(ring(50), seed=0, watch=Watch(progress=lambda each: told.append(each.fraction)))
    assert told[0] == 0
    assert told == sorted(told)
    assert told[-1] > 0.9
    with pytest.raises(RunStopped):
        layout(ring(50), seed=0, watch=Watch(cancelled=lambda: len(told) > 0))
