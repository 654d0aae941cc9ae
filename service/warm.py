"""Compiling every numba kernel once, by doing tiny work through the real code.

Compiled code is kept in NUMBA_CACHE_DIR, so that images, the demo and new machines pay for it at a
known moment instead of in the first job. The code paths are the product's own: the types that
kernels are compiled for here are those they meet later.
"""

import tempfile
import time
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from solvers.graph import Graph
from solvers.labels import Labels
from solvers.laplacian.solver import LaplacianSolver
from solvers.models import CATALOGUE
from streaming.blocks import NODE_KINDS, NodeKind
from streaming.certificate import CertifySettings, certify
from streaming.nodes import open_nodes
from streaming.pipeline import Stream, StreamSettings
from streaming.records import SparsifierSettings
from streaming.snapshots import GraphPaths, SnapshotStore
from streaming.sources import ParquetEdges

_N_NODES: Final = 80
_N_IDS: Final = 2_000
"""More than a new node table holds, so that it grows."""


def warm() -> float:
    """Compile, or load from the cache, whatever ingest and solving need; the seconds it took."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lapwing-warm-") as directory:
        for kind in NODE_KINDS:
            graph = _streamed(Path(directory) / kind, kind)
            _index_grown_and_cut(Path(directory) / f"{kind}-index", kind)
    _solved(graph)
    return time.monotonic() - started


def _streamed(root: Path, kind: NodeKind) -> Graph:
    """Ingest a complete graph in two files: the second is scored by an embedding and thinned."""
    root.mkdir()
    u, v = np.triu_indices(_N_NODES, k=1)
    for name in ("a", "b"):
        edges = {"src": _ids(u, kind), "dst": _ids(v, kind), "weight": _weights(len(u), name)}
        pq.write_table(pa.table(edges), root / f"{name}.parquet")
    paths = GraphPaths(root=root / "graph")
    sparsifier = SparsifierSettings(epsilon=0.9, expected_nodes=_N_NODES)
    settings = StreamSettings(node_kind=kind, sparsifier=sparsifier, n_threads=1)
    for file in ParquetEdges(root).list():
        Stream(paths, settings).ingest([file])
    store = SnapshotStore(paths.snapshots)
    certify(paths, store.numbers()[-1], CertifySettings(gap=0.5))
    return store.load(store.numbers()[-1]).graph


def _index_grown_and_cut(directory: Path, kind: NodeKind) -> None:
    """Map more ids than the table holds at first, take some back, and look some up as a reader."""
    numbers = np.arange(_N_IDS)
    writer = open_nodes(directory, kind=kind)
    writer.map(_ids(numbers, kind), _ids(numbers[::-1], kind))
    writer.publish()
    writer.truncate(_N_IDS // 2)
    reader = open_nodes(directory, kind=kind, n_nodes=_N_IDS // 2, writable=False)
    reader.lookup(_ids(numbers, kind))
    reader.external_ids(0, _N_IDS // 2)


def _solved(graph: Graph) -> None:
    """Every model, and the Laplacian with both preconditioners in both precisions."""
    labels = Labels.from_pairs(np.array([0, 1, 2]), [0, 1, 1])
    for model_class in CATALOGUE.values():
        model = model_class()
        prepared = model.prepare(graph)
        start = model.solve(prepared, labels)
        model.solve(prepared, labels, start=start)
    right = np.linspace(-1.0, 1.0, graph.n_nodes)
    for preconditioner in ("jacobi", "approx-chol"):
        for dtype in (np.float64, np.float32):
            for shift in (None, np.ones(graph.n_nodes)):
                solver = LaplacianSolver(
                    graph, shift=shift, rtol=1e-3, preconditioner=preconditioner, dtype=dtype
                )
                solver.solve(right - right.mean())


def _ids(numbers: np.ndarray, kind: NodeKind) -> pa.Array:
    if kind == "string":
        return pa.array([f"n{number}" for number in numbers.tolist()])
    return pa.array(numbers, pa.int64())


def _weights(n_edges: int, name: str) -> np.ndarray:
    """Differ between the two files, so that their contents do."""
    return np.random.default_rng(ord(name)).uniform(0.5, 1.0, n_edges).astype(np.float32)
