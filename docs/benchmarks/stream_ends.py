"""What the ends of the stream cost: the graph of a buffer, its snapshot, its checkpoint.

Every step runs in a process of its own, on the same records; its peak is what it needs beside them.
The peers of the same run: scipy for the graph, and a plain write with fsync for the checkpoint; the
last column is the CPU time over that of the peer.
"""

import os
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import psutil
from scipy.sparse.csgraph import connected_components

from docs.benchmarks.frame import alone, options, show
from docs.benchmarks.peak_memory import peak_bytes, reset_peak
from peewit.solvers.graph import Graph
from peewit.streaming.left_out import NO_ROWS
from peewit.streaming.snapshots.checkpoints import EMPTY, Checkpoint, CheckpointStore
from peewit.streaming.snapshots.provenance import SnapshotMeta
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import Records, SparsifierState
from tests.reference.adjacency import symmetric_matrix

CHUNK = 1_000_000
COMMUNITY = 1_000
STEPS = {
    "scipy": "graph by scipy (peer)",
    "graph": "Graph.from_records, float64",
    "graph32": "Graph.from_records, float32",
    "publish": "publish_records",
    "load": "load of the snapshot",
    "write": "plain write and fsync (peer)",
    "save": "checkpoint, all new",
    "resave": "checkpoint, 1 % new",
    "restore": "checkpoint restored",
}
PEERS = {"graph": "scipy", "graph32": "scipy", "save": "write", "resave": "write"}


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one step took; bytes beside those of the records, and bytes on the disk."""

    user_seconds: float
    system_seconds: float
    wall_seconds: float
    peak_bytes: int
    written_bytes: int


def random_records(n_records: int, n_nodes: int, local: float, seed: int = 0) -> Records:
    """Records between random nodes, a share of them within communities."""
    rng = np.random.default_rng(seed)
    u, v = (rng.integers(0, n_nodes, n_records, dtype=np.int32) for _ in range(2))
    near = rng.random(n_records, dtype=np.float32) < local
    v[near] = np.minimum(u[near] // COMMUNITY * COMMUNITY + v[near] % COMMUNITY, n_nodes - 1)
    return Records(
        u=u,
        v=v,
        weight=rng.random(n_records, dtype=np.float32) + np.float32(0.5),
        keep_probability=rng.random(n_records, dtype=np.float32) * np.float32(0.9)
        + np.float32(0.1),
        key=rng.integers(0, 2**32, n_records, dtype=np.uint32),
    )


def chunked(records: Records) -> tuple[Records, ...]:
    columns = {item.name: getattr(records, item.name) for item in fields(Records)}
    return tuple(
        Records(**{name: column[start : start + CHUNK] for name, column in columns.items()})
        for start in range(0, records.n_records, CHUNK)
    )


def meta_of(number: int, n_nodes: int) -> SnapshotMeta:
    none = "edges_seen", "edges_kept", "n_records", "n_failed_embeddings", "seed"
    one = "sampling_constant", "n_resparsifications", "n_blocks", "n_files"
    errors = {"epsilon_asked": 0.7, "epsilon_expected": 0.7, "max_edges_bound": False}
    known = {"number": number, "node_kind": "dense", "n_nodes": n_nodes, "created_at": 0.0}
    return SnapshotMeta(
        **dict.fromkeys(none, 0), **dict.fromkeys(one, 1), left_out=NO_ROWS, **errors, **known
    )


def measured(step: Callable[[], object], directory: Path) -> Cost:
    used = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    resident = psutil.Process().memory_info().rss
    reset_peak()
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    kept = step()
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    peak = peak_bytes() - resident
    del kept
    found = {path.stat().st_ino: path.stat().st_size for path in directory.rglob("*.*")}
    return Cost(
        user_seconds=after.ru_utime - before.ru_utime,
        system_seconds=after.ru_stime - before.ru_stime,
        wall_seconds=wall,
        peak_bytes=peak,
        written_bytes=max(sum(found.values()) - used, 0),
    )


def scipy_graph(records: Records, n_nodes: int) -> object:
    matrix = symmetric_matrix(records.u, records.v, records.conductance, n_nodes)
    return matrix, connected_components(matrix, directed=False)


def plain_write(path: Path, chunks: tuple[Records, ...]) -> None:
    with path.open("wb") as file:
        for chunk in chunks:
            for item in fields(Records):
                file.write(getattr(chunk, item.name).data)
        file.flush()
        os.fsync(file.fileno())


def run_step(name: str, n_records: int, n_nodes: int, local: float, directory: Path) -> Cost:
    """One step in this process, its kernels compiled beforehand."""
    chunks = chunked(random_records(n_records, n_nodes, local))
    few = chunked(random_records(10, n_nodes, local))
    snapshots, checkpoints = SnapshotStore(directory / "s"), CheckpointStore(directory / "c")
    grown = (*chunks, random_records(max(n_records // 100, 1), n_nodes, local, 1))

    def checkpoint(parts: tuple[Records, ...]) -> Checkpoint:
        return Checkpoint(state=SparsifierState(chunks=parts, n_nodes=n_nodes), n_nodes=n_nodes)

    match name:
        case "scipy":
            whole = random_records(n_records, n_nodes, local)
            del chunks, grown
            return measured(lambda: scipy_graph(whole, n_nodes), directory)
        case "graph" | "graph32":
            dtype = np.float32 if name == "graph32" else np.float64
            Graph.from_records(few, n_nodes=n_nodes, dtype=dtype)
            return measured(
                lambda: Graph.from_records(chunks, n_nodes=n_nodes, dtype=dtype), directory
            )
        case "publish":
            snapshots.publish_records(meta_of(1, n_nodes), few)
            snapshots.retire(keep_last=0)
            return measured(
                lambda: snapshots.publish_records(meta_of(2, n_nodes), chunks), directory
            )
        case "load":
            snapshots.publish_records(meta_of(1, n_nodes), few)
            snapshots.load(1)
            snapshots.publish_records(meta_of(2, n_nodes), chunks)
            del chunks, grown
            return measured(lambda: snapshots.load(2), directory)
        case "write":
            return measured(lambda: plain_write(directory / "x.bin", chunks), directory)
        case "save" | "resave":
            checkpoints.save(checkpoint(chunks) if name == "resave" else EMPTY)
            parts = grown if name == "resave" else chunks
            return measured(lambda: checkpoints.save(checkpoint(parts)), directory)
        case "restore":
            checkpoints.save(checkpoint(chunks))
            del chunks, grown
            return measured(lambda: CheckpointStore(directory / "c").newest(), directory)
        case _:
            raise ValueError(f"step must be one of {', '.join(STEPS)}, got {name!r}")


def main() -> None:
    asked = options(
        __doc__,
        quick={"sizes": "a hundredth"},
        records=10e6,
        nodes=200e3,
        local=(0.95, "share within communities"),
        steps=(list(STEPS), STEPS),
        directory=(Path, "where to write; default: temporary"),
    )
    scale = 0.01 if asked.quick else 1.0
    sizes = (int(asked.records * scale), int(asked.nodes * scale), asked.local)
    rows, taken = [], {}
    for name in asked.steps:
        with tempfile.TemporaryDirectory(dir=asked.directory) as directory:
            cost = alone(run_step, name, *sizes, Path(directory))
        taken[name] = cost.user_seconds + cost.system_seconds
        peer = taken.get(PEERS.get(name, ""))
        rows.append(
            (
                *(STEPS[name], cost.user_seconds, cost.system_seconds, cost.wall_seconds),
                *(cost.peak_bytes / 1e6, cost.written_bytes / 1e6),
                taken[name] / peer if peer else "",
            )
        )
    columns = "step|user s {:.2f}|sys s {:.2f}|wall s {:.2f}|peak MB {:.0f}|disk MB {:.0f}|"
    title = f"{sizes[0]:,} records, {sizes[1]:,} nodes, {sizes[2]:.0%} within communities"
    show(title, columns + "/ peer {:.2f}", rows)


if __name__ == "__main__":
    main()
