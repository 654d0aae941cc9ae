"""Warm-up: compiles every numba kernel once, by tiny work through the real code.

Images and new machines so pay for compilation at a known moment, not in the first job of each kind;
the compiled code is cached for the user. The product's own code paths make the argument types the
same as later.
"""

import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from peewit.solvers.arrays import frozen_all
from peewit.solvers.assessment.reasons import likeliest_ways, reasons
from peewit.solvers.assessment.thinning_share import ThinnedEdges, thinning_share
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.multigrid.layout import layout
from peewit.solvers.laplacian.solver import LaplacianSolver
from peewit.solvers.memory_order import memory_order
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.catalogue import CATALOGUE
from peewit.solvers.models.linear.linear_svm import LinearSVM
from peewit.solvers.models.linear.transductive_svms import TSVM
from peewit.solvers.models.poisson.poisson import Poisson
from peewit.solvers.models.variational.simplex_machines import LapRLS
from peewit.solvers.models.variational.total_variation_machines import TVRLS
from peewit.solvers.neighbors.neighbor_graph import TieRule, edges_of
from peewit.solvers.neighbors.neighbor_lists import NeighborLists, PointSearch
from peewit.solvers.solution import Decisive
from peewit.streaming.calls.sparsify_call import sparsify
from peewit.streaming.edges.blocks import EdgeBlock
from peewit.streaming.edges.node_kinds import UNTYPED, NodeKind
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.kernels.map_cells import count_cells, most_doubtful, places_of
from peewit.streaming.log.change_log import ChangeLog
from peewit.streaming.nodes.index import open_nodes
from peewit.streaming.passes.certificate_store import CertifySettings
from peewit.streaming.passes.certify import certify
from peewit.streaming.passes.delete_matching import match_deletes
from peewit.streaming.passes.node_map import in_order
from peewit.streaming.passes.relation_counts import count_arcs_of
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.snapshots.walk_rows import walk_rows
from peewit.streaming.sparsifier.buffer_resistances import LEAST_NODES
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings, SparsifierState
from peewit.streaming.sparsifier.sparsifier import absorb, resparsify
from peewit.streaming.sparsifier.strikes import strike

_N_NODES: Final = 80
_N_IDS: Final = 2_000
_N_RING: Final = 2_500
"""More than a new node table holds, so that it grows."""

_SPARSIFIER: Final = SparsifierSettings(epsilon=0.9, expected_nodes=_N_NODES)


def warm() -> float:
    """Compile, or load from the cache, all that ingest and solving need; the seconds it took."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="peewit-warm-") as directory:
        root = Path(directory)
        for kind in UNTYPED:
            graph = _stream(root / kind, kind)
            _grow_and_cut_index(root / f"{kind}-index", kind)
        _embed(root)
        _bound_clusters(root)
        _resolve_a_log(root)
    _sample_in_memory()
    _join_by_neighbors()
    _strike_edges()
    _change_a_label()
    _draw()
    _solve(graph)
    _solve_by_multigrid()
    _solve_by_elimination()
    return time.monotonic() - started


def _stream(root: Path, kind: NodeKind) -> Graph:
    """A complete graph ingested in two files: the second is scored by bounds and thinned."""
    u, v = np.triu_indices(_N_NODES, k=1)
    tables = [
        pa.table({"src": _ids(u, kind), "dst": _ids(v, kind), "weight": _weights(len(u), name)})
        for name in ("a", "b")
    ]
    paths = _ingest(root, kind, tables, _SPARSIFIER)
    store = SnapshotStore(paths.snapshots)
    certify(paths, store.numbers()[-1], CertifySettings(gap=0.5))
    count_arcs_of(paths, store.meta(store.numbers()[-1]), attempt="warm", keep_raw=True)
    _tell_reasons(store)
    graph = store.load(store.numbers()[-1]).graph
    _tell_thinning(graph)
    return graph


def _tell_reasons(store: SnapshotStore) -> None:
    """Explain a prediction, from files."""
    rows, nodes = walk_rows(store, store.numbers()[-1]), np.arange(2)
    reasons(rows, 0, nodes, nodes, n_classes=2)
    likeliest_ways(rows, 0, nodes.tolist())


def _tell_thinning(graph: Graph) -> None:
    """What other coin flips would have decided."""
    model = Poisson()
    labels = Labels.from_pairs(np.array([0, 1]), [0, 1])
    decisive = cast(Decisive, model.solve(model.prepare(graph), labels).decisive)
    u, v, weight = graph.edges()
    ends = u.astype(np.int32), v.astype(np.int32)
    edges = ThinnedEdges(*ends, weight, np.full(u.size, 0.5, np.float32))
    thinning_share(decisive, graph, lambda: [edges], seed=0)


def _embed(root: Path) -> None:
    """Ingest graphs whose resistances bounds leave open: by Cholesky, then with a ridge by Jacobi.

    The first is two communities joined by two edges: 32-bit ids, no weights, self-loops,
    independent coins and a budget that binds. The second has a leaf at every node of these.
    """
    half = _N_NODES // 2
    u, v = np.triu_indices(_N_NODES, k=1)
    joined = ((u < half) == (v < half)) | ((v - u == half) & (u < 2))
    ends = {
        name: pa.array(np.concatenate([ids[joined], [0, 1]]), pa.int32())
        for name, ids in (("src", u), ("dst", v))
    }
    budget = replace(_SPARSIFIER, coins="independent", max_edges=4 * _N_NODES)
    communities = pa.table(ends)
    _ingest(root / "communities", "dense", [communities], budget)
    inner = np.arange(_N_NODES, dtype=np.int32)
    leaves = pa.table({"src": inner, "dst": inner + np.int32(_N_NODES)})
    budget = replace(budget, expected_nodes=2 * _N_NODES, max_edges=6 * _N_NODES)
    _ingest(root / "leaves", "dense", [pa.concat_tables([communities, leaves])], budget)
    ends = {"src": _ids(u, "dense"), "dst": _ids(v, "dense"), "weight": _weights(len(u), "c")}
    _ingest(root / "ridge", "dense", [pa.table(ends)], replace(_SPARSIFIER, ridge=1.0))


def _bound_clusters(root: Path) -> None:
    """Ingest a ring of complete graphs, so that bounds come from clusters."""
    size = math.isqrt(LEAST_NODES)
    u, v = np.triu_indices(size, k=1)
    first = size * np.arange(size)[:, None]
    ends = {
        "src": _ids(np.concatenate([(first + u).ravel(), first.ravel()]), "dense"),
        "dst": _ids(np.concatenate([(first + v).ravel(), np.roll(first, 1)[:, 0]]), "dense"),
    }
    settings = replace(_SPARSIFIER, expected_nodes=size**2)
    _ingest(root / "circle", "dense", [pa.table(ends)], settings)


def _ingest(
    root: Path, kind: NodeKind, tables: Sequence[pa.Table], sparsifier: SparsifierSettings
) -> GraphPaths:
    root.mkdir()
    for number, table in enumerate(tables):
        pq.write_table(table, root / f"{number}.parquet")
    paths = GraphPaths(root=root / "graph")
    settings = StreamSettings(node_kind=kind, sparsifier=sparsifier, n_threads=1)
    for file in EdgeFiles(root).list():
        Stream(paths, settings).ingest([file])
    return paths


def _sample_in_memory() -> None:
    """Graphs of arrays in both precisions, and a sparsifier of copies."""
    u, v = np.triu_indices(_N_NODES, k=1)
    for dtype in (np.float64, np.float32):
        for ids in (np.int64, np.int32):
            weight = np.ones(u.size, dtype)
            graph = Graph.from_edges(
                u.astype(ids), v.astype(ids), weight, n_nodes=_N_NODES, dtype=dtype
            )
    sparsify(graph, epsilon=0.9, method="kelner-levin")


def _strike_edges() -> None:
    """Score edges by cards, both ways, and take deleted edges out of what is left."""
    u, v = (ends.astype(np.int32) for ends in np.triu_indices(_N_NODES, k=1))
    weight = np.ones(u.size, np.float32)
    block = EdgeBlock(u=u, v=v, weight=weight, n_rows=u.size)
    state = absorb(SparsifierState(), _SPARSIFIER, [block], n_nodes=_N_NODES)
    state = resparsify(state, _SPARSIFIER)
    for n_leaning in (0, 2 * state.n_records):
        absorb(replace(state, n_leaning=n_leaning), _SPARSIFIER, [block], n_nodes=_N_NODES)
    strike(replace(state, smallest_constant=1.0), u[:2], v[:2])


def _resolve_a_log(directory: Path) -> None:
    """Tell live edges of a log from those that a later block deletes."""
    log, nodes = ChangeLog(directory / "log"), np.arange(_N_NODES, dtype=np.int32)
    u, v = frozen_all(nodes, np.roll(nodes, 1))
    weight = np.ones(u.size, np.float32)
    block = EdgeBlock(u=u, v=v, weight=weight, n_rows=u.size)
    with log.writing("file", replaces=False) as writer:
        writer.append(block, u[:0], v[:0])
        writer.append(block, u[:2], v[:2])
    match_deletes(log, ["file"], n_resolved=0, version=0, n_nodes=_N_NODES, n_edges=2 * u.size)


def _change_a_label() -> None:
    """Solve the default model again with one label more, on a ring too long to eliminate."""
    node = np.arange(_N_RING)
    graph = Graph.from_edges(node, np.roll(node, 1), np.ones(_N_RING), n_nodes=_N_RING)
    model = Auto()
    prepared = model.prepare(graph)
    for n_labels in (60, 61):
        labeled = node[: 40 * n_labels : 40]
        model.solve(prepared, Labels.from_pairs(labeled, labeled // 40 % 2))


def _draw() -> None:
    """A ring as points, its map, and the kernels of its tiles."""
    node = np.arange(_N_NODES)
    ring = Graph.from_edges(node, np.roll(node, 1), np.ones(_N_NODES), n_nodes=_N_NODES)
    for graph in (ring, ring.with_weights(ring.adjacency.data.astype(np.float32))):
        points = layout(graph, seed=0)
    drawn = in_order(points, snapshot=1, n_edges=_N_NODES, n_components=1, made_at=0.0)
    color, doubt = np.zeros(_N_NODES, np.int16), np.zeros(_N_NODES, np.uint8)
    part, tally, count = np.ones(3), np.zeros(3, np.int64), np.zeros(4, np.uint32)
    colors, share = np.zeros(4, np.int16), np.zeros(4, np.uint8)
    first = drawn.cells(0, 0, 0, 1)
    count_cells(first, color, doubt, 0, part, tally, count, colors, share, colors, share)
    for code in (drawn.code, *frozen_all(drawn.code.copy())):
        places_of(code, np.zeros(_N_NODES, np.uint32), np.zeros(_N_NODES, np.uint32))
    most_doubtful(color, doubt, 0, np.zeros(1, np.int64))


def _join_by_neighbors() -> None:
    """Edges from lists of nearest rows: of 64-bit numbers, and of 32-bit ones as in files."""
    points = np.linspace(0.0, 1.0, _N_NODES)[:, None]
    rule = TieRule(weights="binary", symmetrize="max")
    for dtype in (np.int64, np.int32):
        ids, distances = PointSearch(points).nearest(points, 3)
        lists = NeighborLists(neighbors=ids.astype(dtype), distances=distances)
        for place in lists.blocks():
            edges_of(lists, place, rule)


def _grow_and_cut_index(directory: Path, kind: NodeKind) -> None:
    """Map more ids than the table holds at first, take some back, and look some up as a reader."""
    numbers = np.arange(_N_IDS)
    writer = open_nodes(directory, kind=kind)
    writer.map(_ids(numbers, kind), _ids(numbers[::-1], kind))
    writer.publish()
    writer.truncate(_N_IDS // 2)
    reader = open_nodes(directory, kind=kind, n_nodes=_N_IDS // 2, writable=False)
    reader.lookup(_ids(numbers, kind))
    reader.external_ids(0, _N_IDS // 2)


def _solve(graph: Graph) -> None:
    """Every model, and the Laplacian with both preconditioners in both precisions."""
    labels = Labels.from_pairs(np.array([0, 1, 2]), [0, 1, 1])
    for model_class in CATALOGUE.values():
        model = model_class()
        prepared = model.prepare(graph)
        start = model.solve(prepared, labels)
        model.solve(prepared, labels, start=start)
    memory_order(graph.adjacency)
    several = Labels.from_pairs(np.array([0, 1, 2]), [0, 1, 2])
    for model_class in (LapRLS, TVRLS):  # on the simplex
        model = model_class()
        model.solve(model.prepare(graph), several)
    _separate(graph)
    right = np.linspace(-1.0, 1.0, graph.n_nodes)
    for preconditioner in ("jacobi", "approx-chol"):
        for dtype in (np.float64, np.float32):
            for shift in (None, np.ones(graph.n_nodes)):
                solver = LaplacianSolver(
                    graph, shift=shift, rtol=1e-3, preconditioner=preconditioner, dtype=dtype
                )
                solver.solve(right - right.mean())


def _separate(graph: Graph) -> None:
    """Linear machines on sparse rows: in memory, in both precisions, and mapped as in a store."""
    rng = np.random.default_rng(0)
    points = rng.random((graph.n_nodes, 3))
    known = np.arange(graph.n_nodes // 2)
    labels = Labels.from_pairs(known, (points[known, 0] > points[known, 1]).astype(int).tolist())
    for dtype in (np.float64, np.float32):
        rows = sp.csr_array(points.astype(dtype))
        for is_mapped in (False, True):
            if is_mapped:
                for array in (rows.indptr, rows.indices, rows.data):
                    array.setflags(write=False)
            model = LinearSVM(norm_penalty=1e-4)
            model.solve(model.prepare(graph, rows), labels)
            TSVM(norm_penalty=1e-4).solve(model.prepare(graph, rows), labels)
            joined = replace(model, graph_penalty=1.0)
            joined.solve(joined.prepare(graph, rows), labels)


def _solve_by_multigrid() -> None:
    """A ring that is too long for one dense inverse, in both precisions of the cycle."""
    node = np.arange(_N_RING)
    right = np.cos(node)[:, None] * np.ones(4)
    for weight in (1.0, 1e200):
        ring = Graph.from_edges(
            node, (node + 1) % _N_RING, np.full(_N_RING, weight), n_nodes=_N_RING
        )
        solver = LaplacianSolver(ring, rtol=1e-3, preconditioner="multigrid")
        for n_columns in (1, 2, 4):
            solver.solve(right[:, :n_columns], project=True)


def _solve_by_elimination() -> None:
    """A path whose weights lie far apart."""
    path = Graph.from_edges([0, 1], [1, 2], [1.0, 1e-9], n_nodes=3)
    LaplacianSolver(path).solve(np.array([1.0, 0.0, -1.0]))


def _ids(numbers: np.ndarray, kind: NodeKind) -> pa.Array:
    if kind == "string":
        return pa.array([f"n{number}" for number in numbers.tolist()])
    return pa.array(numbers, pa.int64())


def _weights(n_edges: int, name: str) -> np.ndarray:
    """Weights that differ between the two files, so that their contents do."""
    return np.random.default_rng(ord(name)).uniform(0.5, 1.0, n_edges).astype(np.float32)
