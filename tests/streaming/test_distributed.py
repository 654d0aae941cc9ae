"""Ingest on a dask cluster of real processes: reproducible, accurate as threads, hard to kill."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import LocalCluster

from streaming.events import Committed, IngestEvent, Quarantined
from streaming.nodes import open_nodes
from streaming.pipeline import Stream, StreamSettings
from streaming.records import SparsifierSettings
from streaming.snapshots import GraphPaths, SnapshotStore
from streaming.sources import EdgeFile, ParquetEdges

N_NODES = 150
ROW_GROUP = 8_192
KINDS = ["dense", "int64", "string"]


@contextmanager
def cluster_of(n_workers: int) -> Iterator[LocalCluster]:
    with LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=True,
        dashboard_address="127.0.0.1:0",
        host="127.0.0.1",
        memory_limit=None,
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def two_workers() -> Iterator[str]:
    with cluster_of(2) as cluster:
        yield cluster.scheduler_address


@dataclass(kw_only=True)
class Recorder:
    """Collects events."""

    events: list[IngestEvent] = field(default_factory=list)

    def __call__(self, event: IngestEvent) -> None:
        self.events.append(event)

    def committed(self) -> list[str]:
        found = [event.files for event in self.events if isinstance(event, Committed)]
        return [Path(file.path).name for files in found for file in files]

    def quarantined(self) -> list[Quarantined]:
        return [event for event in self.events if isinstance(event, Quarantined)]


def settings(kind: str, scheduler: str | None, **changes: object) -> StreamSettings:
    values: dict[str, object] = {
        "node_kind": kind,
        "sparsifier": SparsifierSettings(epsilon=0.9, seed=7, expected_nodes=N_NODES),
        "group_blocks": 2,
        "wave_shares": 4,
        "checkpoint_seconds": 0.0,
        "scheduler": scheduler,
    }
    return StreamSettings(**(values | changes))  # type: ignore[arg-type]


def write_edges(
    path: Path, seed: int, kind: str, *, n_rows: int = 10 * ROW_GROUP, **changes: float
) -> None:
    rng = np.random.default_rng(seed)
    sides = [rng.integers(0, N_NODES, n_rows) + 30 * (seed % 3) for _ in range(2)]
    weight = rng.uniform(0.5, 2.0, n_rows)
    for row, value in changes.items():
        weight[int(row.removeprefix("row_"))] = value
    ids = {
        "dense": pa.array,
        "int64": lambda side: pa.array(1_000_003 * (side - 75)),
        "string": lambda side: pa.array([f"node {number}" for number in side]),
    }[kind]
    table = pa.table({"src": ids(sides[0]), "dst": ids(sides[1]), "weight": weight})
    pq.write_table(table, path, row_group_size=ROW_GROUP)


def make_data(directory: Path, kind: str) -> list[EdgeFile]:
    directory.mkdir()
    for seed in range(3):
        write_edges(directory / f"{seed}.parquet", seed, kind)
    return ParquetEdges(directory).list()


def ingest(
    root: Path, files: list[EdgeFile], stream_settings: StreamSettings, recorder: Recorder
) -> GraphPaths:
    paths = GraphPaths(root=root)
    Stream(paths, stream_settings, on_event=recorder).ingest(files)
    return paths


def published(paths: GraphPaths) -> tuple[list[object], list[tuple[int, int, float]]]:
    """External ids in the order of their numbers, and the edges of the latest snapshot."""
    store = SnapshotStore(paths.snapshots)
    number = store.latest()
    assert number is not None
    meta = store.meta(number)
    nodes = open_nodes(
        paths.nodes, kind=meta.node_kind, n_nodes=meta.n_nodes, max_nodes=10**6, writable=False
    )
    table = store.edges(number)
    columns = (table[name].to_pylist() for name in ("u", "v", "weight"))
    return nodes.external_ids().to_pylist(), list(zip(*columns, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_one_worker_and_two_give_the_same_snapshot(
    tmp_path: Path, kind: str, two_workers: str
) -> None:
    files = make_data(tmp_path / "data", kind)
    recorder = Recorder()
    there = ingest(tmp_path / "two", files, settings(kind, two_workers), recorder)
    assert recorder.committed() == ["0.parquet", "1.parquet", "2.parquet"]
    with cluster_of(1) as cluster:
        alone = settings(kind, cluster.scheduler_address)
        other = ingest(tmp_path / "one", files, alone, Recorder())
    assert published(there) == published(other)
    meta = SnapshotStore(there.snapshots).list()[-1]
    assert meta.edges_seen == 3 * 10 * ROW_GROUP
    assert meta.edges_kept < 0.8 * 210 * 209 / 2
    # numbered by first appearance, as without a cluster
    here = ingest(tmp_path / "threads", files, settings(kind, None), Recorder())
    assert published(there)[0] == published(here)[0]
    assert SnapshotStore(here.snapshots).list()[-1].self_loops == meta.self_loops > 0
