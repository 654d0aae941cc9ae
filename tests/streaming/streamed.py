"""Graphs that were really ingested: Parquet files, a stream over them, their raw edges."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from peewit.solvers.arrays import FloatArray, IntArray
from peewit.solvers.graph import Graph
from peewit.streaming.cluster.ordered_folds import FoldExecutor
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.nodes.index import open_nodes
from peewit.streaming.passes.raw_edge_passes import RawEdges
from peewit.streaming.passes.raw_edge_spool import Spool
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.checkpoints import CheckpointStore
from peewit.streaming.snapshots.provenance import SnapshotMeta
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings


@dataclass(frozen=True, kw_only=True, eq=False)
class RawFile:
    """Rows of one file, between the nodes 0 .. n - 1."""

    u: IntArray
    v: IntArray
    weight: FloatArray

    def write(self, path: Path, kind: NodeKind, *, row_group_size: int = 1_000) -> None:
        columns = {"src": ids_of(self.u, kind), "dst": ids_of(self.v, kind), "weight": self.weight}
        pq.write_table(pa.table(columns), path, row_group_size=row_group_size)


def ids_of(nodes: IntArray, kind: NodeKind) -> pa.Array:
    if kind == "string":
        return pa.array([f"node {node}" for node in nodes])
    return pa.array(np.asarray(nodes, np.int64) * (1 if kind == "dense" else -7))


def random_file(seed: int, *, n_nodes: int = 60, n_rows: int = 2_500) -> RawFile:
    """Rows with parallel edges in both orientations and some self-loops."""
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, n_nodes, (2, n_rows))
    weight = rng.uniform(0.5, 2.0, n_rows).astype(np.float32)
    return RawFile(u=ends[0], v=ends[1], weight=weight)


@dataclass(frozen=True, kw_only=True, eq=False)
class StreamedGraph:
    """One ingested graph."""

    paths: GraphPaths
    kind: NodeKind

    @property
    def meta(self) -> SnapshotMeta:
        """The newest snapshot's."""
        return SnapshotStore(self.paths.snapshots).list()[-1]

    def raw_edges(
        self,
        *,
        snapshot: int | None = None,
        n_threads: int = 2,
        spool: Path | None = None,
        executor: FoldExecutor | None = None,
    ) -> RawEdges:
        """The raw edges of a snapshot, not opened yet."""
        meta = self.meta if snapshot is None else SnapshotStore(self.paths.snapshots).meta(snapshot)
        nodes = open_nodes(self.paths.nodes, kind=self.kind, n_nodes=meta.n_nodes, writable=False)
        return RawEdges(
            CheckpointStore(self.paths.checkpoints).first_files(meta.n_files),
            nodes=nodes,
            node_kind=self.kind,
            n_nodes=meta.n_nodes,
            spool=Spool(self.paths.root / "spool" if spool is None else spool),
            staging=self.paths.staging,
            n_threads=n_threads,
            executor=executor,
            chunk_rows=500,
        )

    def raw_graph(self, files: Sequence[RawFile]) -> Graph:
        """The graph of all rows of some files, by the dense ids of this one."""
        u, v = (
            np.concatenate([self._dense(getattr(file, side)) for file in files])
            for side in ("u", "v")
        )
        weight = np.concatenate([np.asarray(file.weight, np.float32) for file in files])
        return Graph.from_edges(u, v, weight.astype(np.float64), n_nodes=self.meta.n_nodes)

    def _dense(self, nodes: IntArray) -> IntArray:
        index = open_nodes(
            self.paths.nodes, kind=self.kind, n_nodes=self.meta.n_nodes, writable=False
        )
        return index.lookup(ids_of(nodes, self.kind))


def streamed(
    root: Path, url: Path | str, kind: NodeKind, *, seed: int = 3, **changes: Any
) -> StreamedGraph:
    """Ingest all files of a directory or URL."""
    paths = GraphPaths(root=root)
    values = {"epsilon": 0.9, "expected_nodes": 60} | changes
    settings = StreamSettings(node_kind=kind, sparsifier=SparsifierSettings(seed=seed, **values))
    Stream(paths, settings).ingest(EdgeFiles(url).list())
    return StreamedGraph(paths=paths, kind=kind)
