"""How fast are edges read, checked and mapped, beside plain pyarrow reading of the same files?

Run ``python -m docs.benchmarks.reading`` (100 M edges per row-group size take some 1.1 GB in
``--dir`` and are kept there) or ``--quick``. Every measure is repeated in turn and the least time
counts; ratios are to pyarrow with two threads, of speed and of speed per CPU second, which tells
more on a machine that others use as well. Peak memory is that of the whole process (Linux only).
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from docs.benchmarks.peak_memory import peak_bytes, reset_peak
from peewit.streaming.edges.parts import StagedFile
from peewit.streaming.edges.reader import read_parts
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.edges.staging import Staging, stage
from peewit.streaming.nodes.index import DenseNodes

COLUMNS = ["src", "dst", "weight"]
N_NODES = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Least seconds of several runs, and most resident memory during them."""

    wall: float
    cpu: float
    peak_bytes: int


def write_files(directory: Path, *, n_edges: int, n_files: int, group_rows: int) -> list[Path]:
    """Write random edges of ``N_NODES`` nodes unless they are there; the paths in order."""
    directory.mkdir(parents=True, exist_ok=True)
    n_rows = n_edges // n_files
    paths = []
    for number in range(n_files):
        path = directory / f"{number:03}-{n_rows}.parquet"
        paths.append(path)
        if path.exists():
            continue
        rng = np.random.default_rng(number)
        table = pa.table(
            {
                "src": rng.integers(0, N_NODES, n_rows, dtype=np.int32),
                "dst": rng.integers(0, N_NODES, n_rows, dtype=np.int32),
                "weight": 1 - rng.random(n_rows, dtype=np.float32),
            }
        )
        unfinished = path.with_suffix(".tmp")
        pq.write_table(table, unfinished, row_group_size=group_rows, compression="snappy")
        unfinished.rename(path)
    return paths


def read_plainly(paths: Sequence[Path], n_threads: int) -> int:
    """Rows of all files, row groups read by ``n_threads`` threads and dropped."""
    groups = [
        (path, group)
        for path in paths
        for group in range(pq.ParquetFile(path).metadata.num_row_groups)
    ]

    def read(group: tuple[Path, int]) -> int:
        with pq.ParquetFile(group[0], pre_buffer=False) as file:
            table = file.read_row_group(group[1], columns=COLUMNS, use_threads=False)
        return int(table.num_rows)

    with ThreadPoolExecutor(n_threads) as pool:
        return sum(pool.map(read, groups))


def stage_all(paths: Sequence[Path], staging: Path) -> list[StagedFile]:
    """Digests and footers of all files."""
    return [stage(file, staging) for path in paths for file in EdgeFiles(path).list()]


def stage_ahead(paths: Sequence[Path], staging: Path) -> Iterator[StagedFile]:
    """Staged files, each while the one before it is read."""
    files = [file for path in paths for file in EdgeFiles(path).list()]
    with Staging(staging) as ahead:
        for file, following in zip(files, [*files[1:], None], strict=True):
            yield ahead.take(file, following)


def read_and_check(files: Iterable[StagedFile], n_threads: int, *, is_mapped: bool) -> int:
    """Rows of all files as checked blocks, mapped if asked for; they are dropped."""
    nodes = DenseNodes()
    n_rows = 0
    for file in files:
        parts = [(file, part) for part in file.parts]
        reading = read_parts(parts, node_kind="dense", max_nodes=10**8, n_threads=n_threads)
        for block in reading:
            n_rows += nodes.map_block(block).n_rows if is_mapped else block.n_rows
    return n_rows


def measure(runs: dict[str, Callable[[], object]], n_repeats: int) -> dict[str, Measure]:
    """Run everything in turn, several times over."""
    measures: dict[str, list[Measure]] = {name: [] for name in runs}
    for _ in range(n_repeats):
        for name, run in runs.items():
            pa.default_memory_pool().release_unused()
            reset_peak()
            wall, cpu = time.perf_counter(), time.process_time()
            run()
            seconds = time.perf_counter() - wall, time.process_time() - cpu
            measures[name].append(Measure(wall=seconds[0], cpu=seconds[1], peak_bytes=peak_bytes()))
    return {
        name: Measure(
            wall=min(each.wall for each in repeats),
            cpu=min(each.cpu for each in repeats),
            peak_bytes=max(each.peak_bytes for each in repeats),
        )
        for name, repeats in measures.items()
    }


def compare(directory: Path, *, n_edges: int, group_rows: int, n_repeats: int) -> Table:
    """Table of one row-group size."""
    n_files = 10
    paths = write_files(
        directory / f"groups-of-{group_rows}",
        n_edges=n_edges,
        n_files=n_files,
        group_rows=group_rows,
    )
    staging = directory / "staging"
    staged = stage_all(paths, staging)
    read_and_check(staged[:1], 2, is_mapped=True)  # loads the kernels
    measures = measure(
        {
            "pyarrow, 1 thread": lambda: read_plainly(paths, 1),
            "pyarrow, 2 threads": lambda: read_plainly(paths, 2),
            "digests": lambda: stage_all(paths, staging),
            "read + check": lambda: read_and_check(staged, 2, is_mapped=False),
            "read + check + map": lambda: read_and_check(staged, 2, is_mapped=True),
            "all": lambda: read_and_check(stage_ahead(paths, staging), 2, is_mapped=True),
        },
        n_repeats,
    )
    table = Table(title=f"{n_edges:,} edges, row groups of {group_rows:,}")
    for heading in ("", "M edges/s", "M / CPU s", "ratio", "CPU ratio", "peak MiB"):
        table.add_column(heading, justify="left" if not heading else "right")
    peer = measures["pyarrow, 2 threads"]
    for name, each in measures.items():
        table.add_row(
            name,
            f"{n_edges / each.wall / 1e6:.0f}",
            f"{n_edges / each.cpu / 1e6:.0f}",
            f"{peer.wall / each.wall:.2f}",
            f"{peer.cpu / each.cpu:.2f}",
            f"{each.peak_bytes >> 20}",
        )
    return table


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, help="keeps the files; a temporary one if left out")
    parser.add_argument("--edges", type=int, default=100_000_000)
    parser.add_argument(
        "--group-rows", type=int, nargs="+", default=[1_000_000, 10_000_000, 65_536]
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="2 M edges, once")
    arguments = parser.parse_args()
    n_edges = 2_000_000 if arguments.quick else arguments.edges
    console = Console()
    with tempfile.TemporaryDirectory() as temporary:
        directory = arguments.dir or Path(temporary)
        for group_rows in arguments.group_rows:
            console.print(
                compare(
                    directory,
                    n_edges=n_edges,
                    group_rows=group_rows,
                    n_repeats=1 if arguments.quick else arguments.repeats,
                )
            )
    resident = psutil.Process().memory_info().rss >> 20
    console.print(f"resident memory at the end: {resident} MiB")


if __name__ == "__main__":
    main()
