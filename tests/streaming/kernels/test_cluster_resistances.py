"""Exact resistances inside clusters and their bounds, against exact fractions."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph
from peewit.streaming.sparsifier import cluster_resistances
from peewit.streaming.sparsifier.cluster_resistances import bounds_inside
from peewit.streaming.sparsifier.settings_and_state import Records
from tests.reference.laplacian import resistances
from tests.reference.rational import solved
from tests.reference.resistance import DenseGraph
from tests.streaming.graphs import EdgeList, random_graph, records_of, rings
from tests.uncompiled import assert_passes_uncompiled, only_compiled


def with_weights(edges: EdgeList, weight: FloatArray) -> EdgeList:
    return replace(edges, weight=weight)


def cliques(bridge: float) -> EdgeList:
    """Two complete graphs of six nodes, twice each edge, and one edge between them."""
    u, v = np.triu_indices(6, 1)
    ends = [np.concatenate([each, each + 6, each, each + 6]) for each in (u, v)]
    u, v = np.append(ends[0], 0), np.append(ends[1], 6)
    return EdgeList(u=u, v=v, weight=np.append(np.ones(u.size - 1), bridge), n_nodes=12)


def scattered(seed: int) -> EdgeList:
    """A random graph of twelve nodes, three of them alone, weights from 1e-6 to 1e6."""
    edges = random_graph(9, 0.5, seed)
    spread = 10.0 ** np.random.default_rng(seed).uniform(-6, 6, edges.n_edges)
    return replace(edges, weight=spread, n_nodes=12)


def exact_resistances(graph: EdgeList, records: Records) -> list[list[Fraction]]:
    """Of a connected graph in exact fractions; the last node is the ground."""
    n = graph.n_nodes
    matrix = [[Fraction(0)] * n for _ in range(n)]
    for u, v, weight, keep in zip(
        records.u, records.v, records.weight, records.keep_probability, strict=True
    ):
        conductance = Fraction(float(weight)) / Fraction(float(keep))
        matrix[u][v] -= conductance
        matrix[v][u] -= conductance
        matrix[u][u] += conductance
        matrix[v][v] += conductance
    unit = [[Fraction(i == j) for j in range(n - 1)] for i in range(n - 1)]
    inverse = [[*row, Fraction(0)] for row in solved([row[:-1] for row in matrix[:-1]], unit)]
    inverse.append([Fraction(0)] * n)
    return [[inverse[i][i] + inverse[j][j] - 2 * inverse[i][j] for j in range(n)] for i in range(n)]


def told_by_degrees(records: Records, n_nodes: int) -> FloatArray:
    """Of all pairs what degrees tell of their resistance (B16)."""
    ends = records.u, records.v, records.conductance
    dense = DenseGraph.of(Graph.from_edges(*ends, n_nodes=n_nodes))
    return dense.local_terms(*np.indices((n_nodes, n_nodes)))


def inverse_degrees(records: Records, n_nodes: int) -> FloatArray:
    degree = np.bincount(records.u, records.conductance, n_nodes)
    degree += np.bincount(records.v, records.conductance, n_nodes)
    return np.divide(1.0, degree, out=np.zeros(n_nodes), where=degree > 0)


CONNECTED: dict[str, Callable[[int], EdgeList]] = {
    "random": lambda seed: random_graph(12, 0.6, seed),
    "weights of any size": lambda seed: with_weights(
        random_graph(10, 0.8, seed),
        10.0 ** np.random.default_rng(seed).uniform(-6, 6, random_graph(10, 0.8, seed).n_edges),
    ),
    "cliques and a bridge": lambda _: cliques(1.0),
    "cliques and a weak bridge": lambda _: cliques(1e-6),
    "cliques and a strong bridge": lambda _: cliques(1e6),
    "two nodes": lambda _: EdgeList(
        u=np.array([0]), v=np.array([1]), weight=np.array([0.3]), n_nodes=2
    ),
}


@pytest.mark.parametrize("factor", [1.0, 0.3])
@pytest.mark.parametrize("name", CONNECTED)
def test_bounds_are_no_less_than_exact_resistances(name: str, factor: float) -> None:
    """In fractions: whatever the weights are, without any tolerance on what is not subtracted."""
    for seed in range(4):
        edges = CONNECTED[name](seed)
        records = records_of(edges)
        keep = np.random.default_rng(seed).choice([1.0, 0.5, 0.25], edges.n_edges)
        records = replace(records, keep_probability=keep.astype(np.float32))
        n_nodes = edges.n_nodes
        bounds = bounds_inside(
            [records],
            np.zeros(n_nodes, np.int32),
            inverse_degrees(records, n_nodes),
            factor,
            parallel=map,
        )
        exact = exact_resistances(edges, records)
        part = np.array([[float(each) for each in row] for row in exact])
        least = part - (1.0 - factor) * told_by_degrees(records, n_nodes)
        for i in range(n_nodes):
            for j in range(i):
                found = Fraction(float(bounds[i])) + Fraction(float(bounds[j]))
                if factor == 1.0:
                    assert found >= exact[i][j]
                assert float(found) >= least[i, j] - 1e-15 * part[i, j]
        # none can be lowered alone, but for rounding of the others to float32
        others = np.where(np.eye(n_nodes, dtype=bool), -np.inf, least - bounds)
        needed = np.maximum(others.max(axis=1), factor * inverse_degrees(records, n_nodes))
        np.testing.assert_allclose(bounds, needed, rtol=1e-6, atol=4e-7 * bounds.max())


def test_clusters_bound_the_resistances_of_the_whole_graph() -> None:
    edges = rings(12, 20, seed=0, per_node=8)
    records = records_of(edges)
    cluster = np.arange(edges.n_nodes, dtype=np.int32) // 20
    for factor in (1.0, 0.35):
        inverse = inverse_degrees(records, edges.n_nodes)
        bounds = bounds_inside([records], cluster, inverse, factor, parallel=map)
        u, v = np.divmod(np.arange(edges.n_nodes**2), edges.n_nodes)
        whole = resistances(edges.graph(), u, v).reshape(edges.n_nodes, -1)
        least = whole - (1.0 - factor) * told_by_degrees(records, edges.n_nodes)
        same = (cluster[:, None] == cluster) & ~np.eye(edges.n_nodes, dtype=bool)
        sums = bounds[:, None].astype(np.float64) + bounds
        assert (sums >= least * (1 - 1e-12))[same].all()
        inside = cluster[records.u] == cluster[records.v]
        ends = records.u[inside], records.v[inside]
        assert sums[ends].sum() < 1.25 * least[ends].sum()


def test_nodes_alone_and_loops_change_nothing() -> None:
    for seed in range(3):
        edges = scattered(seed)
        records = records_of(edges)
        component = edges.graph().component
        inverse = inverse_degrees(records, 12)
        bounds = bounds_inside([records], component, inverse, 0.5, parallel=map)
        assert np.array_equal(bounds[9:], np.zeros(3))
        looped = records_of(
            EdgeList(
                u=np.append(edges.u, [0, 11]),
                v=np.append(edges.v, [0, 11]),
                weight=np.append(edges.weight, [3.0, 1.0]),
                n_nodes=12,
            )
        )
        again = bounds_inside([looped], component, inverse, 0.5, parallel=map)
        assert np.array_equal(again, bounds)


def test_parallel_records_count_as_one_edge() -> None:
    edges = random_graph(30, 0.5, 0)
    twice = EdgeList(
        u=np.append(edges.u, edges.v),
        v=np.append(edges.v, edges.u),
        weight=np.append(0.25 * edges.weight, 0.75 * edges.weight),
        n_nodes=30,
    )
    one = np.zeros(30, np.int32)
    bounds = [
        bounds_inside([records], one, inverse_degrees(records, 30), 0.4, parallel=map)
        for records in (records_of(edges), records_of(twice))
    ]
    np.testing.assert_allclose(bounds[0], bounds[1], rtol=1e-6)


def test_bounds_depend_neither_on_chunks_nor_on_threads_nor_on_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    edges = rings(30, 10, seed=1, per_node=8)
    records, cluster = records_of(edges), np.arange(edges.n_nodes, dtype=np.int32) // 10
    inverse = inverse_degrees(records, edges.n_nodes)
    whole = bounds_inside([records], cluster, inverse, 0.4, parallel=map)
    cut = [records.part(0, 1), records.part(1, 1), records.part(1, 900)]
    cut.append(records.part(900, records.n_records))
    monkeypatch.setattr(cluster_resistances, "MOST_TOGETHER", 10)
    for numbers in (1, 4, 10**6):
        monkeypatch.setattr(cluster_resistances, "_NUMBERS_PER_NODE", numbers)
        with ThreadPoolExecutor(3) as pool:
            again = bounds_inside(cut, cluster, inverse, 0.4, parallel=pool.map)
        assert np.array_equal(again, whole)


@only_compiled
def test_the_kernels_are_right_without_compilation_too() -> None:
    assert_passes_uncompiled(__file__)
