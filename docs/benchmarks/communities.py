"""Parquet files of a graph of communities, as large as wanted, the same for every machine.

Node ids are shuffled, so that a community is not a range of memory.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from peewit.solvers.arrays import Int32Array, IntArray

ROW_GROUP_ROWS = 1 << 20
FILE_ROWS = 10 * ROW_GROUP_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class Communities:
    """A random multigraph of equal communities, parallel edges and loops as chance has it.

    ``cross_share`` is that of the edges whose ends are drawn from all nodes.
    """

    n_nodes: int
    n_edges: int
    community_nodes: int = 1_000
    cross_share: float = 0.05
    seed: int = 0

    def classes(self, n_classes: int) -> IntArray:
        """(n_nodes,) class of every node: that of its community."""
        names = np.random.default_rng(self.seed).permutation(self.n_nodes)
        classes = np.empty(self.n_nodes, np.int64)
        classes[names] = np.arange(self.n_nodes) // self.community_nodes % n_classes
        return classes

    def blocks(self) -> Iterator[pa.Table]:
        """Edges in blocks of one row group: int32 ``src``, ``dst`` and float32 ``weight``."""
        names = np.random.default_rng(self.seed).permutation(self.n_nodes).astype(np.int32)
        for number, start in enumerate(range(0, self.n_edges, ROW_GROUP_ROWS)):
            yield self._block(number, min(ROW_GROUP_ROWS, self.n_edges - start), names)

    def _block(self, number: int, n_rows: int, names: Int32Array) -> pa.Table:
        rng = np.random.default_rng((self.seed, number))
        src = rng.integers(0, self.n_nodes, n_rows, dtype=np.int32)
        within = rng.integers(0, self.community_nodes, n_rows, dtype=np.int32)
        dst = src - src % self.community_nodes + within
        dst = np.minimum(dst, self.n_nodes - 1)
        n_cross = rng.binomial(n_rows, self.cross_share)
        dst[:n_cross] = rng.integers(0, self.n_nodes, n_cross, dtype=np.int32)
        weight = rng.random(n_rows, dtype=np.float32) + np.float32(0.5)
        order = rng.permutation(n_rows) if n_cross else slice(None)
        columns = {"src": names[src[order]], "dst": names[dst[order]], "weight": weight}
        return pa.table(columns)

    def write(self, directory: Path) -> list[Path]:
        """Files of ten row groups each; those that are there already are kept."""
        directory.mkdir(parents=True, exist_ok=True)
        names = np.random.default_rng(self.seed).permutation(self.n_nodes).astype(np.int32)
        starts = range(0, self.n_edges, FILE_ROWS)

        def write_file(number: int) -> Path:
            path = directory / f"edges-{number:05d}.parquet"
            rows = min(FILE_ROWS, self.n_edges - starts[number])
            if not path.exists():
                self._write_file(path, number, rows, names)
            return path

        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            return list(pool.map(write_file, range(len(starts))))

    def _write_file(self, path: Path, number: int, n_rows: int, names: Int32Array) -> None:
        unfinished = path.with_suffix(".tmp")
        first_block = number * (FILE_ROWS // ROW_GROUP_ROWS)
        writer: pq.ParquetWriter | None = None
        for offset, start in enumerate(range(0, n_rows, ROW_GROUP_ROWS)):
            block = self._block(first_block + offset, min(ROW_GROUP_ROWS, n_rows - start), names)
            if writer is None:
                # random ids gain nothing from a dictionary
                writer = pq.ParquetWriter(
                    unfinished, block.schema, compression="snappy", use_dictionary=False
                )
            writer.write_table(block)
        if writer is not None:
            writer.close()
        unfinished.replace(path)
