"""Lists of neighbors and k-NN graphs in files, which are written and read block by block."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from peewit.solvers.arrays import AnyArray, FloatArray, IntArray, RealArray
from peewit.solvers.edge_merging import WeightedEdges

_ROW_GROUP = 1 << 20
_ROWS_AT_A_TIME = 250


def nearest_points(points: FloatArray, cache: Path) -> IntArray:
    """(n_points, n_points - 1) other points of each point, nearest first; kept in ``cache``."""
    n_points = len(points)
    path = cache / f"synthetic-{n_points}-order.npy"
    if not path.exists():
        unfinished = path.with_suffix(".part")
        order = np.lib.format.open_memmap(
            unfinished, "w+", dtype=np.uint16, shape=(n_points, n_points - 1)
        )
        for start in range(0, n_points, _ROWS_AT_A_TIME):
            rows = points[start : start + _ROWS_AT_A_TIME]
            squared = np.square(rows[:, None] - points[None]).sum(axis=2)
            squared[np.arange(len(rows)), np.arange(start, start + len(rows))] = -1.0
            order[start : start + len(rows)] = np.argsort(squared, axis=1)[:, 1:]
        order.flush()
        unfinished.rename(path)
    return np.load(path, mmap_mode="r")


def write_edges(
    path: Path, neighbors: AnyArray, k: int, weights: Callable[[slice], RealArray] | None = None
) -> int:
    """Write the union of the lists of ``k`` neighbors, in the order of the rows; count the edges.

    ``neighbors`` are nearest first, ``weights`` (1 without) gives those of some rows. An edge is
    written once: with the row that lists it, the smaller one where both do. Memory beyond
    ``neighbors``: n_rows^2 / 8 bytes, and one block.
    """
    n_rows = len(neighbors)
    step = max(1, _ROW_GROUP // k)
    listed = np.zeros((n_rows, (n_rows + 7) // 8), np.uint8)  # bit j of row i: i lists j
    for start in range(0, n_rows, step):
        rows = np.zeros((min(step, n_rows - start), n_rows), np.bool_)
        lists = neighbors[start : start + step, :k].astype(np.int64)
        np.put_along_axis(rows, lists, True, axis=1)
        listed[start : start + step] = np.packbits(rows, axis=1, bitorder="little")
    fields = [("src", pa.int32()), ("dst", pa.int32())]
    schema = pa.schema(fields if weights is None else [*fields, ("weight", pa.float32())])
    unfinished, n_edges = path.with_suffix(".part"), 0
    with pq.ParquetWriter(unfinished, schema, compression="lz4") as writer:
        for start in range(0, n_rows, step):
            place = slice(start, min(start + step, n_rows))
            v = neighbors[place, :k].ravel().astype(np.int32)
            u = np.repeat(np.arange(place.start, place.stop, dtype=np.int32), k)
            is_mutual = (listed[v, u >> 3] >> (u & 7).astype(np.uint8)) & 1
            once = (u < v) | (is_mutual == 0)
            columns: list[AnyArray] = [u[once], v[once]]
            if weights is not None:
                columns.append(weights(place).ravel()[once].astype(np.float32))
            writer.write_table(
                pa.table([pa.array(column) for column in columns], schema=schema),
                row_group_size=_ROW_GROUP,
            )
            n_edges += columns[0].size
    unfinished.rename(path)
    return n_edges


@dataclass(frozen=True, kw_only=True)
class EdgesOfFile:
    """The edges of such a file, in chunks, as often as asked for."""

    path: Path

    def __iter__(self) -> Iterator[WeightedEdges]:
        with pq.ParquetFile(self.path) as parquet:
            for group in range(parquet.num_row_groups):
                table = parquet.read_row_group(group)
                u, v = (table[name].to_numpy() for name in ("src", "dst"))
                has_weights = "weight" in table.column_names
                weight = table["weight"].to_numpy() if has_weights else np.ones(u.size, np.float32)
                yield WeightedEdges(u=u, v=v, weight=weight)
