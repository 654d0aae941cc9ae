"""Files of edges of snapshots: sorted and merged, in batches read and written one by one."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from peewit.solvers.arrays import AnyArray, BoolArray
from peewit.solvers.edge_merging import EdgeChunk, merged_ranges
from peewit.streaming.durable_files import fsync_file, naming, publish_file
from peewit.streaming.snapshots.provenance import RelationMeta
from peewit.streaming.snapshots.variances import VARIANCES, write_variances

EDGES = "edges.arrow"
"""The file of a graph in its directory."""

_BATCH_ROWS = 1 << 18
_FLUSHED_BATCHES = 16  # 64 MiB
_SCHEMA = pa.schema([("u", pa.int32()), ("v", pa.int32()), ("weight", pa.float64())])

_Edges = tuple[AnyArray, AnyArray, AnyArray]


@dataclass(frozen=True, slots=True)
class StoredEdges:
    """The batches of a file of edges, read anew each time; never more than one in memory."""

    path: Path

    def __iter__(self) -> Iterator[_Edges]:
        with pa.OSFile(str(self.path), "rb") as source:
            reader = pa.ipc.open_file(source)
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                u, v, weight = (column.to_numpy() for column in batch.columns)
                yield u, v, weight


@dataclass(frozen=True, slots=True)
class _Weighed:
    """Some edges of a relation as records: an EdgeChunk.

    ``weight / keep_probability`` is the conductance, of which ``1 - keep_probability`` is the
    relative variance.
    """

    u: AnyArray
    v: AnyArray
    weight: AnyArray
    keep_probability: AnyArray


@dataclass(frozen=True, slots=True)
class WeighedRecords:
    """Edges of relations, each in a directory and with a weight, read anew each time."""

    relations: Sequence[tuple[Path, float]]

    def __iter__(self) -> Iterator[_Weighed]:
        for directory, factor in self.relations:
            variances = None
            if (path := directory / VARIANCES).exists():
                variances = np.load(path, mmap_mode="r", allow_pickle=False)
            first = 0
            for u, v, weight in StoredEdges(directory / EDGES):
                probability = np.ones(u.size)
                if variances is not None:
                    probability -= variances[first : first + u.size]
                first += u.size
                yield _Weighed(u, v, factor * weight * probability, probability)


def weights_of_pairs(path: Path, pairs: Sequence[tuple[int, int]]) -> dict[int, float]:
    """Weights of those pairs that a sorted file of edges has, by their places; batch by batch."""
    wanted = sorted((*sorted(pair), place) for place, pair in enumerate(pairs))
    found: dict[int, float] = {}
    for batch in map_table(path).to_batches():
        u, v, weight = (column.to_numpy() for column in batch.columns)
        for near, far, place in wanted:
            if u.size and u[0] <= near <= u[-1]:
                first, last = np.searchsorted(u, [near, near + 1])
                at = first + int(np.searchsorted(v[first:last], far))
                if at < last and v[at] == far:
                    found[place] = float(weight[at])
    return found


def write_graph(
    directory: Path,
    chunks: Iterable[EdgeChunk],
    *,
    n_nodes: int,
    is_whole: bool,
    on_flushed: Callable[[], None] = lambda: None,
) -> int:
    """Write merged edges, and their variances where coins were thrown; returns their number."""
    slices = (
        part
        for merged in merged_ranges(chunks, n_nodes=n_nodes)
        for part in _edge_slices(merged.u, merged.v, merged.weight)
    )
    n_edges = _write_edges(directory / EDGES, slices, on_flushed)
    if not is_whole:
        weight = map_table(directory / EDGES)["weight"]
        write_variances(directory, chunks, weight, n_nodes=n_nodes)
    return n_edges


def measured(path: Path, relation: RelationMeta, n_nodes: int) -> RelationMeta:
    """Provenance of a relation with the numbers of its edges and nodes, and its volume."""
    is_reached, n_edges, weights = np.zeros(n_nodes, bool), 0, 0.0
    for u, v, weight in StoredEdges(path):
        is_reached[u] = is_reached[v] = True
        n_edges += u.size
        weights += float(weight.sum())
    n_reached = int(np.count_nonzero(is_reached))
    return replace(relation, edges_kept=n_edges, n_nodes=n_reached, volume=2.0 * weights)


def without_nodes(path: Path, is_erased: BoolArray) -> int:
    """Take the edges of nodes out of a file; returns how many are left."""

    def edges() -> Iterator[_Edges]:
        for u, v, weight in StoredEdges(path):
            stays = ~(is_erased[u] | is_erased[v])
            yield u[stays], v[stays], weight[stays]

    n_before = sum(u.size for u, _, _ in StoredEdges(path))
    n_edges = sum(u.size for u, _, _ in edges())
    if n_edges < n_before:

        def write(written: Path) -> None:
            _write_edges(written, edges(), lambda: None)

        publish_file(path, write)
    return n_edges


def map_table(path: Path) -> pa.Table:
    """All edges of a file, memory-mapped."""
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def _edge_slices(u: AnyArray, v: AnyArray, weight: AnyArray) -> Iterator[_Edges]:
    """The edges in slices of the length of a batch."""
    for start in range(0, u.size, _BATCH_ROWS):
        rows = slice(start, start + _BATCH_ROWS)
        yield u[rows], v[rows], weight[rows]


def _write_edges(path: Path, slices: Iterable[_Edges], on_flushed: Callable[[], None]) -> int:
    """Write edges as one batch for each slice, flushed now and then; returns their number."""
    n_edges = 0
    with naming(path), pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, _SCHEMA) as writer:
        for number, (u, v, weight) in enumerate(slices, start=1):
            columns = [u.astype(np.int32, copy=False), v.astype(np.int32, copy=False), weight]
            writer.write_batch(pa.record_batch(columns, schema=_SCHEMA))
            n_edges += u.size
            if number % _FLUSHED_BATCHES == 0:
                fsync_file(path)
                on_flushed()
    return n_edges
