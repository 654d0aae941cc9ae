"""How fast do string ids become dense ones, from Parquet through the node index?

Run ``python -m docs.benchmarks.string_ids`` or ``--quick``. Peers in the same run: plain pyarrow
reading of the same file, and for the mapping alone a Python dict and pyarrow's
``dictionary_encode`` of a whole column. Endpoints are twice the edges. The first pass adds the
nodes, the second one maps edges between nodes that are all known. M is millions of endpoints; on a
machine that others use as well, those per CPU second tell more. Ratios are to the first row.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from docs.benchmarks.reading import read_plainly
from peewit.streaming.edges.reader import read_parts
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.edges.staging import stage
from peewit.streaming.nodes.index import NodeIndex

GROUP_ROWS = 1 << 20


def write_file(path: Path, *, n_nodes: int, n_edges: int) -> None:
    """Write random edges between nodes named like ``user-00001234``, unless they are there."""
    if path.exists():
        return
    rng = np.random.default_rng(7)
    names = pc.binary_join_element_wise(
        "user-", pc.utf8_lpad(pa.array(np.arange(n_nodes)).cast(pa.string()), 8, "0"), ""
    )
    schema = pa.schema([("src", pa.string()), ("dst", pa.string()), ("weight", pa.float32())])
    unfinished = path.with_suffix(".tmp")
    with pq.ParquetWriter(unfinished, schema, compression="snappy") as writer:
        for start in range(0, n_edges, GROUP_ROWS):
            n_rows = min(GROUP_ROWS, n_edges - start)
            src, dst = (names.take(pa.array(rng.integers(0, n_nodes, n_rows))) for _ in range(2))
            weight = pa.array(1 - rng.random(n_rows, dtype=np.float32))
            writer.write_table(pa.table([src, dst, weight], schema=schema))
    unfinished.rename(path)


class Report:
    """Rows of the table: endpoints per second and CPU second, and ratios to the first row."""

    def __init__(self, title: str) -> None:
        self.table = Table(title=title)
        for heading in ("", "M / s", "M / CPU s", "ratio", "CPU ratio"):
            self.table.add_column(heading, justify="left" if not heading else "right")
        self._first: tuple[float, float] | None = None

    @contextmanager
    def measured(self, name: str, n_endpoints: int) -> Iterator[None]:
        """Add a row for what happens inside."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        rates = (
            n_endpoints / (time.perf_counter() - wall) / 1e6,
            n_endpoints / (time.process_time() - cpu) / 1e6,
        )
        self._first = self._first or rates
        ratios = [f"{rate / first:.2f}" for rate, first in zip(rates, self._first, strict=True)]
        self.table.add_row(name, *(f"{rate:.1f}" for rate in rates), *ratios)


def map_file(path: Path, index: NodeIndex, staging: Path) -> int:
    """Read, check and map a file with two threads; return its edges."""
    [file] = EdgeFiles(path).list()
    n_rows = 0
    with stage(file, staging) as staged:
        parts = [(staged, part) for part in staged.parts]
        for block in read_parts(parts, node_kind="string", max_nodes=10**8, n_threads=2):
            n_rows += index.map_block(block).n_rows
    return n_rows


def map_by_dict(blocks: Sequence[pa.Table]) -> int:
    """Map the ids of all rows by a Python dict, which holds them; return how many differ."""
    numbers: dict[str, int] = {}
    for block in blocks:
        for names in zip(block["src"].to_pylist(), block["dst"].to_pylist(), strict=True):
            for name in names:
                numbers.setdefault(name, len(numbers))
    return len(numbers)


def map_by_arrow(blocks: Sequence[pa.Table]) -> int:
    """Map them by one dictionary encoding of the whole; return how many differ."""
    columns = [block[name].combine_chunks() for block in blocks for name in ("src", "dst")]
    return len(pa.chunked_array(columns).dictionary_encode().combine_chunks().dictionary)


def map_by_index(blocks: Sequence[pa.Table], directory: Path) -> int:
    """Map them by a new node index; return how many differ."""
    index = NodeIndex.open(directory, kind="string")
    for block in blocks:
        index.map(block["src"].combine_chunks(), block["dst"].combine_chunks())
    return index.n_nodes


def measure(directory: Path, *, n_nodes: int, n_edges: int) -> tuple[list[Table], str]:
    """Tables of both comparisons, and a line about opening the index again."""
    path = directory / f"strings-{n_nodes}-{n_edges}.parquet"
    write_file(path, n_nodes=n_nodes, n_edges=n_edges)
    whole = Report(f"from Parquet: {n_nodes:,} string ids, {n_edges:,} edges")
    with whole.measured("pyarrow, 2 threads", 2 * n_edges):
        read_plainly([path], 2)
    with tempfile.TemporaryDirectory() as temporary:
        staging, nodes = Path(temporary), Path(temporary) / "nodes"
        index = NodeIndex.open(nodes, kind="string")
        index.map(pa.array(["user-00000000"]), pa.array(["user-00000000"]))  # loads the kernels
        for name in ("digest, read, check, map: new ids", "the same again: known ids"):
            with whole.measured(name, 2 * n_edges):
                map_file(path, index, staging)
        wall, cpu = time.perf_counter(), time.process_time()
        index.publish()
        published = time.perf_counter() - wall, time.process_time() - cpu
        wall, cpu = time.perf_counter(), time.process_time()
        n_opened = NodeIndex.open(nodes, kind="string").n_nodes
        opened = time.perf_counter() - wall, time.process_time() - cpu
        line = (
            f"index of {n_opened:,} ids published in {published[0]:.2f} s ({published[1]:.2f} CPU "
            f"seconds), opened in {opened[0]:.2f} s ({opened[1]:.2f}); memory with both "
            f"{psutil.Process().memory_info().rss >> 20} MiB"
        )
        del index
        with pq.ParquetFile(path) as file:
            n_groups = min(file.num_row_groups, max(1, n_nodes // GROUP_ROWS))
            blocks = [file.read_row_group(group) for group in range(n_groups)]
        n_endpoints = 2 * sum(len(block) for block in blocks)
        alone = Report(f"mapping alone: {n_endpoints:,} endpoints in memory")
        counts = []
        for name, run in (
            ("dict of Python", map_by_dict),
            ("dictionary_encode of pyarrow", map_by_arrow),
            ("node index", partial(map_by_index, directory=Path(temporary) / "alone")),
        ):
            with alone.measured(name, n_endpoints):
                counts.append(run(blocks))
    if len(set(counts)) > 1:
        raise RuntimeError(f"all must find as many ids, got {counts}")
    return [whole.table, alone.table], line


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, help="keeps the file; a temporary one if left out")
    parser.add_argument("--nodes", type=int, default=5_000_000)
    parser.add_argument("--edges", type=int, default=20_000_000)
    parser.add_argument("--quick", action="store_true", help="100,000 ids, 1 M edges")
    arguments = parser.parse_args()
    n_nodes = 100_000 if arguments.quick else arguments.nodes
    n_edges = 1_000_000 if arguments.quick else arguments.edges
    console = Console()
    with tempfile.TemporaryDirectory() as temporary:
        directory = arguments.dir or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        tables, line = measure(directory, n_nodes=n_nodes, n_edges=n_edges)
    for table in tables:
        console.print(table)
    console.print(line)


if __name__ == "__main__":
    main()
