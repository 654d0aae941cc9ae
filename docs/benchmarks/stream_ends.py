"""What the ends of the stream cost: the graph of a buffer, its snapshot, its checkpoint.

    python -m docs.benchmarks.stream_ends --records 10e6 --nodes 200e3

Every step runs in a process of its own, on the same records; its peak is what it needs beside them.
The peers of the same run: scipy for the graph, and a plain write with fsync for the checkpoint; the
last column is the CPU time over that of the peer.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.sparse.csgraph import connected_components

from peewit.solvers.graph import Graph
from peewit.streaming.snapshots.checkpoints import EMPTY, Checkpoint, CheckpointStore
from peewit.streaming.snapshots.store import SnapshotMeta, SnapshotStore
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
    """The records in chunks, as a stream leaves them."""
    columns = {item.name: getattr(records, item.name) for item in fields(Records)}
    return tuple(
        Records(**{name: column[start : start + CHUNK] for name, column in columns.items()})
        for start in range(0, records.n_records, CHUNK)
    )


def meta_of(number: int, n_nodes: int) -> SnapshotMeta:
    return SnapshotMeta(
        number=number,
        node_kind="dense",
        n_nodes=n_nodes,
        edges_seen=0,
        edges_kept=0,
        n_records=0,
        self_loops=0,
        epsilon_asked=0.7,
        epsilon_expected=0.7,
        sampling_constant=1.0,
        max_edges_bound=False,
        n_resparsifications=1,
        n_failed_embeddings=0,
        n_blocks=1,
        n_files=1,
        seed=0,
        created_at=0.0,
    )


def status_bytes(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024


def measured(step: Callable[[], object], directory: Path) -> Cost:
    used = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    resident = status_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    kept = step()
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    peak = status_bytes("VmHWM") - resident
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


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--records", type=float, default=10e6)
    parser.add_argument("--nodes", type=float, default=200e3)
    parser.add_argument("--local", type=float, default=0.95, help="share within communities")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--directory", type=Path, help="where to write; default: temporary")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the records")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def in_a_process(name: str, sizes: tuple[int, int, float], parent: Path | None) -> Cost:
    """One step in a new process."""
    with tempfile.TemporaryDirectory(dir=parent) as directory:
        options: list[Any] = ["--records", sizes[0], "--nodes", sizes[1], "--local", sizes[2]]
        options += ["--steps", name, "--directory", directory, "--child"]
        command = [sys.executable, "-m", "docs.benchmarks.stream_ends", *map(str, options)]
        run = subprocess.run(command, check=True, capture_output=True, text=True)
        shutil.rmtree(directory, ignore_errors=True)
        Path(directory).mkdir()
    return Cost(**json.loads(run.stdout))


def main() -> None:
    options = arguments()
    scale = 0.01 if options.quick else 1.0
    sizes = (int(options.records * scale), int(options.nodes * scale), options.local)
    if options.child:
        cost = run_step(options.steps[0], *sizes, options.directory)
        sys.stdout.write(json.dumps({item.name: getattr(cost, item.name) for item in fields(Cost)}))
        return
    title = f"{sizes[0]:,} records, {sizes[1]:,} nodes, {sizes[2]:.0%} within communities"
    table = Table(title=title)
    table.add_column("step", no_wrap=True)
    for heading in ("user s", "sys s", "wall s", "peak MB", "disk MB", "/ peer"):
        table.add_column(heading, justify="right")
    peers: dict[str, float] = {}
    for name in options.steps:
        cost = in_a_process(name, sizes, options.directory)
        seconds = cost.user_seconds + cost.system_seconds
        peers[name] = seconds
        table.add_row(
            STEPS[name],
            f"{cost.user_seconds:.2f}",
            f"{cost.system_seconds:.2f}",
            f"{cost.wall_seconds:.2f}",
            f"{cost.peak_bytes / 1e6:.0f}",
            f"{cost.written_bytes / 1e6:.0f}",
            f"{seconds / peers[PEERS[name]]:.2f}" if PEERS.get(name) in peers else "",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
