"""Proofs of streams with windows, hubs and heavy tails, and of passes on dask workers."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.service.predictions.prediction_files import PROVEN, PredictionFile
from peewit.service.tasks.warm_graphs import WarmGraphs
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.contract.provable_model import Provable
from peewit.solvers.models.harmonic.harmonic import HFS, StableHFS
from peewit.solvers.models.poisson.poisson import Poisson
from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.edges.windows import Window
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings
from tests.service.tasks.solving.test_prove import PENALTY, PROVE, few_probes, solver, table_of
from tests.service.tasks.solving.test_thinning import N_NODES, graph, solved, task
from tests.streaming.clusters import cluster_of, kill_one_that_works
from tests.streaming.streamed import StreamedGraph

__all__ = ["few_probes", "graph", "solver"]  # fixtures

RTOL = 1e-11


def rows_of(kind: str, n_rows: int = 12_000) -> pa.Table:
    """Three blocks that some edges tell apart: with a hub, one edge between two, or heavy tails."""
    rng = np.random.default_rng(4)
    u, v = rng.integers(0, N_NODES, (2, n_rows))
    v = np.where(rng.random(n_rows) < 0.4, v // 3 * 3 + u % 3, v)
    weight = np.ones(n_rows)
    if kind == "hub":
        u[::4], weight[::4] = 0, 1e-2
    if kind == "cut":  # the blocks of rest 0 and 1, but for the last edge
        v = np.where((u % 3 == 0) ^ (v % 3 == 0), v // 3 * 3 + u % 3, v)
        u[-1], v[-1] = 0, 1
    if kind == "tails":
        weight = rng.pareto(1.0, n_rows) + 1e-3
    v = np.where(u == v, (v + 3) % N_NODES, v)
    return pa.table({"src": u, "dst": v, "weight": weight.astype(np.float32)})


def streamed_rows(root: Path, table: pa.Table, columns: EdgeColumns, **settings: Any) -> Any:
    """The graph of a table whose rows come in four files, a snapshot after each."""
    (root / "data").mkdir()
    paths = GraphPaths(root=root / "g")
    sparsifier = SparsifierSettings(epsilon=None, seed=1, max_edges=1_500)
    for part in range(4):
        n_rows = -(-table.num_rows // 4)
        pq.write_table(table.slice(part * n_rows, n_rows), root / "data" / f"{part}.parquet")
        stream = Stream(paths, StreamSettings(node_kind="dense", sparsifier=sparsifier, **settings))
        stream.ingest(EdgeFiles(root / "data", columns=columns).list())
    return StreamedGraph(paths=paths, kind="dense")


def require_proven(
    solver: WarmGraphs, graph: StreamedGraph, model: str, living: pa.Table
) -> dict[str, Any]:
    """Labels are proven as asked, and those that are proven are those of the living rows."""
    newest = SnapshotStore(graph.paths.snapshots).latest()
    parameters = {"prove": 0.05} if model == "poisson" else PROVE | {"prove": 0.05}
    asked = task(graph, model, snapshot=newest, parameters=parameters)
    result = solved(solver, asked)
    assert result["proof"]["is_enough"]
    u, v, weight = (living[name].to_numpy() for name in ("src", "dst", "weight"))
    full = Graph.from_edges(u, v, weight.astype(np.float64), n_nodes=N_NODES)
    nodes = asked.nodes.cast(pa.int64()).to_numpy()
    twins: dict[str, Provable] = {
        "hfs": HFS(graph_penalty=PENALTY, rtol=RTOL),
        "stable-hfs": StableHFS(graph_penalty=PENALTY, rtol=RTOL),
        "poisson": Poisson(rtol=RTOL),
    }
    twin = twins[model]
    if reading := result["proof"]["as_chosen"].get("class_mass"):
        twin = replace(twin, class_mass=reading)  # type: ignore[call-arg]
    exact = twin.solve(twin.prepare(full), Labels.from_pairs(nodes, nodes % 3)).classes()
    file = PredictionFile(graph.paths.predictions / result["file"])
    table = file.table()
    is_proven = np.array(table[PROVEN].to_pylist(), bool)
    labels = np.array([int(label[1:]) for label in table["label"].to_pylist()])
    order = table["node"].cast(pa.int64()).to_numpy()
    assert (labels[is_proven] == exact[order][is_proven]).all()
    return dict(result["proof"])


@pytest.mark.slow
@pytest.mark.parametrize("model", ["stable-hfs", "hfs", "poisson"])
@pytest.mark.parametrize("kind", ["hub", "cut", "tails"])
def test_labels_of_adversarial_streams_are_proven(
    tmp_path: Path, solver: WarmGraphs, kind: str, model: str
) -> None:
    table = rows_of(kind)
    graph = streamed_rows(tmp_path, table, EdgeColumns(weight="weight"))
    assert require_proven(solver, graph, model, table)["n_edges"] == table.num_rows


@pytest.mark.slow
@pytest.mark.parametrize("model", ["stable-hfs", "poisson"])
def test_labels_are_proven_of_the_edges_in_the_window(
    tmp_path: Path, solver: WarmGraphs, model: str
) -> None:
    """Edges of before say otherwise, and have left."""
    table = rows_of("plain", 16_000)
    at = np.arange(16_000) // 4_000
    before = table["dst"].to_numpy()
    dst = np.where(at == 0, before // 3 * 3 + (table["src"].to_numpy() + 1) % 3, before)
    table = table.set_column(1, "dst", pa.array(dst)).append_column("at", pa.array(at * 1.0))
    graph = streamed_rows(
        tmp_path,
        table,
        EdgeColumns(weight="weight", time="at", time_unit="s"),
        deletions="exact",
        window=Window(length=2.0, width=1.0, allowed_ahead=1e12),
    )
    proof = require_proven(solver, graph, model, table.slice(4_000))
    assert proof["n_edges"] == 12_000


@pytest.mark.slow
@pytest.mark.usefixtures("processes")
def test_a_proof_on_dask_workers_has_the_bits_of_threads(
    graph: StreamedGraph, solver: WarmGraphs
) -> None:
    """Also where a worker is killed in one of its passes."""
    killed: list[int] = []
    first = solved(solver, task(graph, "stable-hfs", parameters=PROVE))
    certificate = graph.paths.snapshots / "00000001" / "certificate.json"
    with cluster_of(2) as cluster:
        killer = threading.Thread(target=kill_one_that_works, args=(cluster, killed))
        killer.start()
        while killer.is_alive():
            certificate.unlink()  # as at first
            asked = task(graph, "stable-hfs", parameters=PROVE, scheduler=cluster.scheduler_address)
            other = solved(solver, asked)
            assert table_of(graph, other).equals(table_of(graph, first))
            assert other["proof"] | {"seconds": 0} == first["proof"] | {"seconds": 0}
    assert killed
