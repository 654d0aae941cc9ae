"""Parquet files of graphs that hardly resemble each other, as large as wanted.

Communities mix well and are many times denser than their sparsifier; accounts in rings, nearest
neighbors and roads hold together by few edges, and a social graph by its hubs. Run as a program it
writes one of them: ``python -m docs.benchmarks.edge_families rings DIR``.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy.spatial import cKDTree

from docs.benchmarks.communities import ROW_GROUP_ROWS, Communities
from peewit.solvers.arrays import Int64Array
from peewit.streaming.edges.node_kinds import NodeKind

Ends = tuple[Int64Array, Int64Array]

RING = 20
FAR_SHARE = 0.02
NEIGHBORS = 8
DIMENSIONS = 3
OPEN_SHARE = 0.65
TAIL = 2.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One kind of graph.

    Attributes
    ----------
    ends : callable
        Both ends of every edge, from the numbers of nodes and edges and a generator; self-loops and
        parallel edges as chance has them.
    edges_per_node : float
        Edges that it has by default.
    has_names : bool
        Whether nodes are strings.
    """

    ends: Callable[[int, int, np.random.Generator], Ends]
    edges_per_node: float
    has_names: bool = False


def rings(n_nodes: int, n_edges: int, rng: np.random.Generator) -> Ends:
    """Accounts that pay each other in rings of twenty, and rarely anybody."""
    u = rng.integers(0, n_nodes, n_edges)
    v = np.minimum(u // RING * RING + rng.integers(0, RING, n_edges), n_nodes - 1)
    far = rng.random(n_edges) < FAR_SHARE
    v[far] = rng.integers(0, n_nodes, np.count_nonzero(far))
    return u, v


def neighbors(n_nodes: int, n_edges: int, rng: np.random.Generator) -> Ends:
    """Lists of the nearest neighbors of points in a cube, mutual ones from both sides."""
    points = rng.random((n_nodes, DIMENSIONS))
    k = max(1, n_edges // n_nodes)
    near = cKDTree(points).query(points, k + 1, workers=-1)[1][:, 1:]
    return np.repeat(np.arange(n_nodes), k), near.ravel()


def road(
    n_nodes: int,
    n_edges: int,
    rng: np.random.Generator,
) -> Ends:
    """A square grid, of whose streets two thirds are open: 1.3 edges a node."""
    side = int(np.sqrt(n_nodes))
    node = np.arange(side * side).reshape(side, side)
    u = np.concatenate([node[:, :-1].ravel(), node[:-1].ravel()])
    v = np.concatenate([node[:, 1:].ravel(), node[1:].ravel()])
    is_open = rng.random(u.size) < OPEN_SHARE
    return u[is_open], v[is_open]


def social(n_nodes: int, n_edges: int, rng: np.random.Generator) -> Ends:
    """Hubs: degrees fall as a power law, and ends meet by them alone."""
    expected = np.minimum(rng.pareto(TAIL - 1, n_nodes) + 1, np.sqrt(n_nodes))
    upto = np.cumsum(expected)
    u, v = (np.searchsorted(upto, rng.random(n_edges) * upto[-1]) for _ in range(2))
    return u, v


FAMILIES = {
    "rings": Family(ends=rings, edges_per_node=7.6, has_names=True),
    "neighbors": Family(ends=neighbors, edges_per_node=NEIGHBORS),
    "road": Family(ends=road, edges_per_node=2 * OPEN_SHARE),
    "social": Family(ends=social, edges_per_node=8.0),
}
"""Those beside `Communities`."""


def write(
    name: str, directory: Path, *, n_nodes: int, n_edges: int | None = None, seed: int = 0
) -> NodeKind:
    """Write a family's files unless they are there.

    Returns
    -------
    NodeKind
        Of its node ids.
    """
    if name == "communities":
        edges = n_edges or 500 * n_nodes
        Communities(n_nodes=n_nodes, n_edges=edges, seed=seed).write(directory)
        return "dense"
    family = FAMILIES[name]
    kind: NodeKind = "string" if family.has_names else "dense"
    path = directory / "edges.parquet"
    if path.exists():
        return kind
    directory.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    u, v = family.ends(n_nodes, n_edges or int(family.edges_per_node * n_nodes), rng)
    order, names = rng.permutation(u.size), pa.array(rng.permutation(n_nodes).astype(np.int32))
    if family.has_names:
        padded = pc.utf8_lpad(names.cast(pa.string()), 8, "0")
        names = pc.binary_join_element_wise("account-", padded, "")
    unfinished = path.with_suffix(".tmp")
    schema = pa.schema([("src", names.type), ("dst", names.type)])
    with pq.ParquetWriter(unfinished, schema, compression="snappy") as writer:
        for start in range(0, u.size, ROW_GROUP_ROWS):
            rows = order[start : start + ROW_GROUP_ROWS]
            columns = [names.take(pa.array(ends[rows])) for ends in (u, v)]
            writer.write_table(pa.table(columns, schema=schema))
    unfinished.replace(path)
    return kind


def main() -> None:
    """Write one graph."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family", choices=["communities", *FAMILIES])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    write(
        options.family,
        options.directory,
        n_nodes=options.nodes,
        n_edges=options.edges,
        seed=options.seed,
    )


if __name__ == "__main__":
    main()
