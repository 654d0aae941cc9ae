"""A graph that jobs can solve: catalog row, snapshot, node index and labels, made by the stores."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from sqlalchemy import update

from peewit.service.catalog import Catalog, GraphProgress
from peewit.service.database.engine import Database
from peewit.service.database.tables import graphs
from peewit.service.graph_settings import GraphSettings
from peewit.service.labels.store import LabelStore
from peewit.service.settings import Settings
from peewit.service.tasks.warm_graphs import WarmGraphs
from peewit.solvers.arrays import Float32Array, FloatArray, IntArray
from peewit.solvers.graph import Graph
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.features.store import FeatureStore, NewRows
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.left_out import NO_ROWS
from peewit.streaming.nodes.index import open_nodes
from peewit.streaming.snapshots.provenance import SnapshotMeta
from peewit.streaming.snapshots.store import SnapshotStore
from tests.streaming.graphs import merged_edges

TIGHT = {"graph_penalty": 1.0, "rtol": 1e-14}
"""Parameters of a long solve: the residual cannot fall so far."""

LONG_SIDE, LONG_CLASSES = 120, 40
"""A grid and classes whose solve with `TIGHT` takes a second or more."""

ENDLESS_SIDE, ENDLESS_CLASSES = 300, 80
"""A grid and classes whose solve with `TIGHT` takes longer than any test waits."""


def graphs_within(memory_bytes: int, resident_bytes: int = 0) -> WarmGraphs:
    """Warm graphs of a process whose memory is said, whatever that of the tests is."""
    return WarmGraphs(memory_bytes=memory_bytes, resident_bytes=lambda: resident_bytes)


def two_communities(n_nodes: int = 60, seed: int = 0) -> tuple[IntArray, IntArray]:
    """Edges (u, v) of two connected halves joined by one edge; few edges within each half."""
    rng = np.random.default_rng(seed)
    half = n_nodes // 2
    ring = np.arange(half)
    u, v = (
        [ring, ring + half, np.array([0])],
        [(ring + 1) % half, (ring + 1) % half + half, np.array([half])],
    )
    for first in (0, half):
        u.append(rng.integers(0, half, 3 * half) + first)
        v.append(rng.integers(0, half, 3 * half) + first)
    return np.concatenate(u), np.concatenate(v)


def grid(side: int) -> tuple[IntArray, IntArray]:
    """Edges of a square grid: hard for simple iterations, since its diameter is large."""
    node = np.arange(side * side).reshape(side, side)
    u = np.concatenate([node[:, :-1].ravel(), node[:-1].ravel()])
    v = np.concatenate([node[:, 1:].ravel(), node[1:].ravel()])
    return u, v


def spread_labels(n_nodes: int, n_classes: int) -> dict[str, str | int]:
    """Two labels of each class, far apart."""
    nodes = np.linspace(0, n_nodes - 1, 2 * n_classes).astype(np.int64)
    return {f"n{node}": int(index % n_classes) for index, node in enumerate(nodes)}


def external_ids(nodes: IntArray, kind: NodeKind) -> pa.Array:
    """Ids in the outer world: ``n7`` for strings, 107 for integers, 7 for dense ids."""
    if kind == "string":
        return pa.array([f"n{node}" for node in nodes], pa.large_string())
    return pa.array(np.asarray(nodes, np.int64) + (100 if kind == "int64" else 0))


def publish_snapshot(
    directory: Path,
    number: int,
    u: IntArray,
    v: IntArray,
    weight: FloatArray | None = None,
    *,
    kind: NodeKind = "string",
) -> SnapshotMeta:
    """Publish the graph of some edges as ingest would, ids in the order of appearance."""
    paths = GraphPaths(root=directory)
    nodes = open_nodes(paths.nodes, kind=kind, writable=True)
    dense_u, dense_v = nodes.map(external_ids(u, kind), external_ids(v, kind))
    n_nodes = nodes.publish()
    weight = np.ones(len(u)) if weight is None else weight
    graph = Graph.from_edges(dense_u, dense_v, weight, n_nodes=n_nodes)
    meta = SnapshotMeta(
        number=number,
        node_kind=kind,
        n_nodes=n_nodes,
        edges_seen=len(u),
        edges_kept=graph.n_edges,
        n_records=graph.n_edges,
        left_out=NO_ROWS,
        epsilon_asked=0.7,
        epsilon_expected=0.5,
        sampling_constant=None,
        max_edges_bound=False,
        n_resparsifications=0,
        n_failed_embeddings=0,
        n_blocks=1,
        n_files=1,
        seed=0,
        created_at=0.0,
    )
    SnapshotStore(paths.snapshots).publish_records(meta, [merged_edges(graph)])
    return meta


def parity_features(n_nodes: int, seed: int = 0) -> Float32Array:
    """Points of even and of odd nodes, in two clouds apart."""
    points = np.random.default_rng(seed).normal(size=(n_nodes, 3)).astype(np.float32)
    points[:, 0] += np.where(np.arange(n_nodes) % 2 == 0, 6, -6)
    return points


def publish_features(
    directory: Path, version: int, values: Float32Array, *, nodes: IntArray | None = None
) -> None:
    """Publish features as ingest would, of the first nodes unless others are named."""
    owners = np.arange(len(values)) if nodes is None else np.asarray(nodes, np.int64)
    rows = NewRows(nodes=owners, n_columns=values.shape[1], blocks=[values])
    FeatureStore(GraphPaths(root=directory).features).publish(version, rows, created_at=0.0)


@dataclass(frozen=True, kw_only=True)
class Solvable:
    """One graph of a home directory."""

    database: Database
    settings: Settings
    graph_id: str

    @classmethod
    def create(cls, database: Database, settings: Settings, name: str) -> "Solvable":
        """An empty graph."""
        graph_id = Catalog(database).create(GraphSettings(name=name)).id
        return cls(database=database, settings=settings, graph_id=graph_id)

    @property
    def directory(self) -> Path:
        """Of the graph."""
        return self.settings.graphs_directory / self.graph_id

    def publish(self, number: int, u: IntArray, v: IntArray) -> None:
        """Publish a snapshot and tell the catalog."""
        meta = publish_snapshot(self.directory, number, u, v)
        progress = GraphProgress(n_nodes=meta.n_nodes, snapshot=number)
        Catalog(self.database).record_progress(self.graph_id, progress)

    def features(self, version: int, values: Float32Array, **options: IntArray) -> None:
        """Publish features and tell the catalog."""
        publish_features(self.directory, version, values, **options)
        self.tell_features(version)

    def tell_features(self, version: int) -> None:
        """Tell the catalog of features that are published."""
        row = update(graphs).where(graphs.c.id == self.graph_id)
        with self.database.write() as connection:
            connection.execute(row.values(features_version=version))

    def label(self, labels: dict[str, str | int]) -> int:
        """Put labels; the number of the last."""
        store = LabelStore(self.database)
        return store.put(self.graph_id, list(labels), list(labels.values())).labels_seq
