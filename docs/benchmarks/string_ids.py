"""How fast do string ids become dense ones, from Parquet through the node index?

Peers in the same run: plain pyarrow reading of the same file, and for the mapping alone a Python
dict and pyarrow's ``dictionary_encode`` of a whole column. Endpoints are twice the edges. The first
pass adds the nodes, the second one maps edges between nodes that are all known. M is millions of
endpoints. Ratios are to the first row.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from docs.benchmarks.edge_families import write_edges
from docs.benchmarks.frame import CONSOLE, options, show, spent
from docs.benchmarks.reading import read_plainly
from peewit.streaming.edges.reader import read_parts
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.edges.staging import stage
from peewit.streaming.nodes.index import NodeIndex

GROUP_ROWS = 1 << 20
COLUMNS = "|M / s {:.1f}|M / CPU s {:.1f}|ratio {:.2f}|CPU ratio {:.2f}"


def write_file(path: Path, *, n_nodes: int, n_edges: int) -> None:
    """Write random edges between nodes named like ``user-00001234``, unless they are there."""
    if path.exists():
        return
    rng = np.random.default_rng(7)
    names = pc.binary_join_element_wise(
        "user-", pc.utf8_lpad(pa.array(np.arange(n_nodes)).cast(pa.string()), 8, "0"), ""
    )
    u, v = rng.integers(0, n_nodes, (2, n_edges))
    write_edges(path, names, u, v, 1 - rng.random(n_edges, dtype=np.float32))


class Report(list[tuple[Any, ...]]):
    """Rows of a table: endpoints per second and CPU second, and ratios to the first row."""

    @contextmanager
    def measured(self, name: str, n_endpoints: int) -> Iterator[None]:
        with spent() as taken:
            yield
        rates = n_endpoints / taken.wall / 1e6, n_endpoints / taken.cpu / 1e6
        first = self[0][1:3] if self else rates
        self.append((name, *rates, *np.divide(rates, first)))


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


def measure(directory: Path, *, n_nodes: int, n_edges: int) -> None:
    """Show both comparisons, and a line about opening the index again."""
    path = directory / f"strings-{n_nodes}-{n_edges}.parquet"
    write_file(path, n_nodes=n_nodes, n_edges=n_edges)
    whole = Report()
    with whole.measured("pyarrow, 2 threads", 2 * n_edges):
        read_plainly([path], 2)
    with tempfile.TemporaryDirectory() as temporary:
        staging, nodes = Path(temporary), Path(temporary) / "nodes"
        index = NodeIndex.open(nodes, kind="string")
        index.map(pa.array(["user-00000000"]), pa.array(["user-00000000"]))  # loads the kernels
        for name in ("digest, read, check, map: new ids", "the same again: known ids"):
            with whole.measured(name, 2 * n_edges):
                map_file(path, index, staging)
        with spent() as published:
            index.publish()
        with spent() as opened:
            n_opened = NodeIndex.open(nodes, kind="string").n_nodes
        line = (
            f"index of {n_opened:,} ids published in {published.wall:.2f} s ({published.cpu:.2f} "
            f"CPU seconds), opened in {opened.wall:.2f} s ({opened.cpu:.2f}); memory with both "
            f"{psutil.Process().memory_info().rss >> 20} MiB"
        )
        del index
        with pq.ParquetFile(path) as file:
            n_groups = min(file.num_row_groups, max(1, n_nodes // GROUP_ROWS))
            blocks = [file.read_row_group(group) for group in range(n_groups)]
        n_endpoints = 2 * sum(len(block) for block in blocks)
        alone, counts = Report(), []
        for name, run in (
            ("dict of Python", map_by_dict),
            ("dictionary_encode of pyarrow", map_by_arrow),
            ("node index", partial(map_by_index, directory=Path(temporary) / "alone")),
        ):
            with alone.measured(name, n_endpoints):
                counts.append(run(blocks))
    if len(set(counts)) > 1:
        raise RuntimeError(f"all must find as many ids, got {counts}")
    show(f"from Parquet: {n_nodes:,} string ids, {n_edges:,} edges", COLUMNS, whole)
    show(f"mapping alone: {n_endpoints:,} endpoints in memory", COLUMNS, alone)
    CONSOLE.print(line)


def main() -> None:
    asked = options(
        __doc__,
        quick={"nodes": 100_000, "edges": 1_000_000},
        dir=(Path, "keeps the file; a temporary one if left out"),
        nodes=5_000_000,
        edges=20_000_000,
    )
    with tempfile.TemporaryDirectory() as temporary:
        directory = asked.dir or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        measure(directory, n_nodes=asked.nodes, n_edges=asked.edges)


if __name__ == "__main__":
    main()
