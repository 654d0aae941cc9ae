"""Parquet files of graphs that hardly resemble each other, as large as wanted.

Communities mix well and are many times denser than their sparsifier; accounts in rings, nearest
neighbors and roads hold together by few edges, and a social graph by its hubs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy.spatial import cKDTree

from docs.benchmarks.communities import ROW_GROUP_ROWS, Communities
from peewit.solvers.arrays import AnyArray, Int64Array
from peewit.streaming.edges.node_kinds import NodeKind

Made = tuple[Int64Array, Int64Array, Int64Array]

N_CLASSES = 5
COMMUNITY = 1_000
CROSS_SHARE = 0.05
RING = 20
CHEATS = 0.1
FAR_SHARE = 0.02
NEIGHBORS = 8
DIMENSIONS = 3
OPEN_SHARE = 0.65
TAIL = 2.3
OWN_SHARE = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One kind of graph.

    ``make`` gives both ends of every edge and the class of every node, from the numbers of nodes
    and edges and a generator; self-loops and parallel edges as chance has them.
    """

    make: Callable[[int, int, np.random.Generator], Made]
    edges_per_node: float
    has_names: bool = False


def communities(n_nodes: int, n_edges: int, rng: np.random.Generator) -> Made:
    """Equal communities of a thousand that share an edge in twenty with any other; five classes."""
    u, v = _within(COMMUNITY, CROSS_SHARE, n_nodes, n_edges, rng)
    return u, v, np.arange(n_nodes) // COMMUNITY % N_CLASSES


def rings(n_nodes: int, n_edges: int, rng: np.random.Generator) -> Made:
    """Accounts that pay each other in rings of twenty, rarely anybody; one ring in ten cheats."""
    u, v = _within(RING, FAR_SHARE, n_nodes, n_edges, rng)
    cheats = rng.random(n_nodes // RING + 1) < CHEATS
    return u, v, cheats[np.arange(n_nodes) // RING].astype(np.int64)


def _within(
    size: int, far_share: float, n_nodes: int, n_edges: int, rng: np.random.Generator
) -> tuple[Int64Array, Int64Array]:
    """Both ends of edges within groups of so many nodes, but for those that join any two."""
    u = rng.integers(0, n_nodes, n_edges)
    v = np.minimum(u // size * size + rng.integers(0, size, n_edges), n_nodes - 1)
    far = rng.random(n_edges) < far_share
    v[far] = rng.integers(0, n_nodes, np.count_nonzero(far))
    return u, v


def neighbors(n_nodes: int, n_edges: int, rng: np.random.Generator) -> Made:
    """Lists of nearest neighbors of points in a cube, mutual ones from both sides; five slabs."""
    points = rng.random((n_nodes, DIMENSIONS))
    k = max(1, n_edges // n_nodes)
    near = cKDTree(points).query(points, k + 1, workers=-1)[1][:, 1:]
    return np.repeat(np.arange(n_nodes), k), near.ravel(), (N_CLASSES * points[:, 0]).astype(int)


def road(n_nodes: int, n_edges: int, rng: np.random.Generator) -> Made:
    """A square grid, of whose streets two thirds are open: 1.3 edges a node; five bands."""
    del n_edges  # a road network has as many as it has
    side = int(np.sqrt(n_nodes))
    node = np.arange(side * side).reshape(side, side)
    u = np.concatenate([node[:, :-1].ravel(), node[:-1].ravel()])
    v = np.concatenate([node[:, 1:].ravel(), node[1:].ravel()])
    is_open = rng.random(u.size) < OPEN_SHARE
    return u[is_open], v[is_open], np.arange(n_nodes) * N_CLASSES // n_nodes


def social(n_nodes: int, n_edges: int, rng: np.random.Generator) -> Made:
    """Hubs: degrees fall as a power law; three edges in four stay within one of five classes."""
    expected = np.minimum(rng.pareto(TAIL - 1, n_nodes) + 1, np.sqrt(n_nodes))
    classes = np.arange(n_nodes) * N_CLASSES // n_nodes
    upto = np.concatenate([[0.0], np.cumsum(expected)])
    bounds = upto[np.searchsorted(classes, np.arange(N_CLASSES + 1))]
    u = np.searchsorted(upto, rng.random(n_edges) * upto[-1], side="right") - 1
    own = classes[u]
    is_own = rng.random(n_edges) < OWN_SHARE
    low = np.where(is_own, bounds[own], 0.0)
    high = np.where(is_own, bounds[own + 1], upto[-1])
    v = np.searchsorted(upto, low + rng.random(n_edges) * (high - low), side="right") - 1
    return u, np.minimum(v, n_nodes - 1), classes


FAMILIES = {
    "communities": Family(make=communities, edges_per_node=10.0),
    "rings": Family(make=rings, edges_per_node=7.6, has_names=True),
    "neighbors": Family(make=neighbors, edges_per_node=NEIGHBORS),
    "road": Family(make=road, edges_per_node=2 * OPEN_SHARE),
    "social": Family(make=social, edges_per_node=8.0),
}
"""`Communities` writes more of its kind than fit in memory."""


def made(name: str, n_nodes: int, n_edges: int | None = None, seed: int = 0) -> Made:
    """Both ends of every edge and the class of every node, nodes and edges in random order."""
    family = FAMILIES[name]
    rng = np.random.default_rng(seed)
    u, v, classes = family.make(n_nodes, n_edges or int(family.edges_per_node * n_nodes), rng)
    order, number = rng.permutation(u.size), rng.permutation(n_nodes)
    known = np.empty_like(classes)
    known[number] = classes
    return number[u[order]], number[v[order]], known


def write(
    name: str, directory: Path, *, n_nodes: int, n_edges: int | None = None, seed: int = 0
) -> NodeKind:
    """Write a family's files unless they are there; the kind of its node ids."""
    if name == "communities":
        edges = n_edges or 500 * n_nodes
        Communities(n_nodes=n_nodes, n_edges=edges, seed=seed).write(directory)
        return "dense"
    family = FAMILIES[name]
    kind: NodeKind = "string" if family.has_names else "dense"
    path = directory / "edges.parquet"
    if path.exists():
        return kind
    u, v, _ = made(name, n_nodes, n_edges, seed)
    number = np.arange(n_nodes, dtype=np.int32)
    write_edges(path, node_names(number) if family.has_names else pa.array(number), u, v)
    return kind


def node_names(number: AnyArray) -> pa.Array:
    padded = pc.utf8_lpad(pa.array(number).cast(pa.string()), 8, "0")
    return pc.binary_join_element_wise("account-", padded, "")


def write_edges(
    path: Path, ids: pa.Array, u: Int64Array, v: Int64Array, weight: AnyArray | None = None
) -> None:
    """Write one Parquet file of edges between the nodes of these ids."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".tmp")
    schema = {"src": ids.type, "dst": ids.type} | ({} if weight is None else {"weight": "float"})
    with pq.ParquetWriter(unfinished, pa.schema(schema), compression="snappy") as writer:
        for start in range(0, u.size, ROW_GROUP_ROWS):
            rows = slice(start, start + ROW_GROUP_ROWS)
            columns = [ids.take(pa.array(ends[rows])) for ends in (u, v)]
            columns += [] if weight is None else [pa.array(weight[rows])]
            writer.write_table(pa.table(columns, schema=writer.schema))
    unfinished.replace(path)
