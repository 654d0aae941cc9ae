"""How fast are edges read, checked and mapped, beside plain pyarrow reading of the same files?

100 M edges per row-group size take some 1.1 GB in ``--dir`` and are kept there. Every measure is
repeated in turn and the least time counts; ratios are to pyarrow with two threads, of speed and of
speed per CPU second. Peak memory is that of the whole process (Linux only).
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from docs.benchmarks.frame import CONSOLE, options, show, spent
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
    measures: dict[str, list[Measure]] = {name: [] for name in runs}
    for _ in range(n_repeats):
        for name, run in runs.items():
            pa.default_memory_pool().release_unused()
            reset_peak()
            with spent() as taken:
                run()
            measures[name].append(Measure(wall=taken.wall, cpu=taken.cpu, peak_bytes=peak_bytes()))
    return {
        name: Measure(
            wall=min(each.wall for each in repeats),
            cpu=min(each.cpu for each in repeats),
            peak_bytes=max(each.peak_bytes for each in repeats),
        )
        for name, repeats in measures.items()
    }


def compare(directory: Path, *, n_edges: int, group_rows: int, n_repeats: int) -> None:
    place = directory / f"groups-of-{group_rows}"
    paths = write_files(place, n_edges=n_edges, n_files=10, group_rows=group_rows)
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
    peer = measures["pyarrow, 2 threads"]
    rows = (
        (
            *(name, n_edges / each.wall / 1e6, n_edges / each.cpu / 1e6, peer.wall / each.wall),
            *(peer.cpu / each.cpu, each.peak_bytes >> 20),
        )
        for name, each in measures.items()
    )
    columns = "|M edges/s {:.0f}|M / CPU s {:.0f}|ratio {:.2f}|CPU ratio {:.2f}|peak MiB"
    show(f"{n_edges:,} edges, row groups of {group_rows:,}", columns, rows)


def main() -> None:
    asked = options(
        __doc__,
        quick={"edges": 2_000_000, "repeats": 1},
        dir=(Path, "keeps the files; a temporary one if left out"),
        edges=100_000_000,
        group_rows=[1_000_000, 10_000_000, 65_536],
        repeats=3,
    )
    with tempfile.TemporaryDirectory() as temporary:
        directory = asked.dir or Path(temporary)
        for group_rows in asked.group_rows:
            compare(directory, n_edges=asked.edges, group_rows=group_rows, n_repeats=asked.repeats)
    resident = psutil.Process().memory_info().rss >> 20
    CONSOLE.print(f"resident memory at the end: {resident} MiB")


if __name__ == "__main__":
    main()
