"""k-NN lists of rows that lie on the disk, shard by shard.

A shard is as many consecutive rows as fit `SHARD_BYTES`. Every row looks for its neighbors in one
shard after the other, and what it has found so far lies in a memory map. Memory: a shard, an index
of it, a block of rows and their candidates, whatever the number of rows.

Context: all pairs are too many for a million rows; a library must find most neighbors in a fraction
of them, and find the same ones again. Decision: faiss-cpu's inverted files (cells of k-means). It
has frequent wheels for Linux, macOS and Windows under MIT; its cells are searched exhaustively, so
that threads do not change the answer, and can be filled with one shard after the other. hnswlib,
usearch and voyager are as fast but depend on the order in which threads insert; pynndescent is
slower and takes the most memory. Consequence: one OpenMP runtime more. On macOS two of them in a
process can crash (faiss-wheels issue 73), so faiss is loaded only where an approximate search
begins, and its 65 MB are the extra ``knn``.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Final, Protocol

import numpy as np
import scipy.sparse as sp

from peewit.solvers.arrays import AnyArray, Float32Array, FloatArray, Int64Array
from peewit.solvers.features import FeatureRows
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.neighbors.neighbor_lists import (
    SPARE_CANDIDATES,
    Metric,
    NeighborLists,
    PointSearch,
    cut_lists,
    metric_rows,
    nearest,
    query_blocks,
    ranked,
)
from peewit.streaming.durable_files import publish_json, reserved_array

SHARD_BYTES: Final = 1 << 28
"""Bytes of rows that are searched together."""

EXACT_PRODUCTS: Final = 1_000_000_000_000
"""Most products of two numbers for which all pairs of rows are looked at by default."""

_SAMPLE_PRODUCTS: Final = 100_000_000_000
_SAMPLE_ROWS: Final = 1000
_LEARNED_ROWS: Final = 40  # rows for each cell, of which k-means wants 39 at least
_LEARN_STEPS: Final = 8
_CELLS_PER_ROOT: Final = 4
_CELL_SLOWNESS: Final = 4
"""A look at the rows of a cell takes so much longer than a product of matrices."""

_EQUALLY_FAR: Final = 1e-9
_POSITION: Final = "position.json"


class Searcher(Protocol):
    """Finds neighbors among the rows of one shard."""

    def hold(self, points: Any, watch: Watch) -> None:
        """Search these rows from now on."""

    def nearest(
        self, queries: Any, n_nearest: int, own: Int64Array
    ) -> tuple[Int64Array, FloatArray]:
        """Places in the shard, distances; as `peewit.solvers.neighbors.neighbor_lists.nearest`."""

    @property
    def n_looked_at(self) -> int:
        """Cost of a query, in rows compared."""


class AllPairs:
    """Looks at every row."""

    def __init__(self) -> None:
        self._search: PointSearch | None = None

    def hold(self, points: Any, watch: Watch) -> None:
        """See `Searcher.hold`."""
        del watch
        self._search = PointSearch(points)

    def nearest(
        self, queries: Any, n_nearest: int, own: Int64Array
    ) -> tuple[Int64Array, FloatArray]:
        """See `Searcher.nearest`."""
        return self._require_search().nearest(queries, n_nearest, own=own)

    @property
    def n_looked_at(self) -> int:
        """See `Searcher.n_looked_at`."""
        return int(self._require_search().points.shape[0])

    def _require_search(self) -> PointSearch:
        if self._search is None:
            raise RuntimeError("no rows are held")
        return self._search


class Cells:
    """Looks at the rows in the cells nearest to a query.

    Cells are ``n_cells`` clusters of k-means, learned from ``sample``, (n_sample, n_columns)
    float32; ``n_probes`` of them are looked at for each query. ``seed`` draws the first centers.
    """

    def __init__(self, sample: Float32Array, *, n_cells: int, n_probes: int, seed: int) -> None:
        import faiss  # noqa: PLC0415 - see above: where nobody needs it, it must not be loaded

        n_columns = sample.shape[1]
        self._n_cells = n_cells
        self._n_probes = min(n_probes, n_cells)
        self._centers = faiss.IndexFlatL2(n_columns)
        self._index = faiss.IndexIVFFlat(self._centers, n_columns, n_cells)
        self._index.cp.seed = seed % (2**31 - 1)
        self._index.cp.niter = _LEARN_STEPS
        self._index.nprobe = self._n_probes
        self._index.train(sample)
        self._points: Any = None

    def hold(self, points: Any, watch: Watch) -> None:
        """See `Searcher.hold`."""
        self._index.reset()
        self._points = points
        n_rows, n_columns = points.shape
        for place in query_blocks(n_rows, n_columns, self._n_cells):
            watch.step("filling cells", place.start, n_rows)
            self._index.add(_float32(points[place]))

    def nearest(
        self, queries: Any, n_nearest: int, own: Int64Array
    ) -> tuple[Int64Array, FloatArray]:
        """See `Searcher.nearest`."""
        n_candidates = n_nearest + 1 + SPARE_CANDIDATES
        _, candidates = self._index.search(_float32(queries), n_candidates)
        return ranked(queries, self._points, candidates, n_nearest, own=own)

    @property
    def n_looked_at(self) -> int:
        """See `Searcher.n_looked_at`."""
        in_cells = self._n_probes * self._points.shape[0] // self._n_cells
        return int(self._n_cells + _CELL_SLOWNESS * in_cells)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NeighborSearch:
    """k-NN search for all rows.

    ``rows`` are finite, and none is zero where the metric is "cosine"; they may be memory-mapped.
    """

    rows: FeatureRows
    n_neighbors: int  # below the number of rows
    metric: Metric
    n_probes: int | None  # cells looked at for each row; None to look at all rows
    seed: int  # of every random choice
    shard_bytes: int = SHARD_BYTES  # most bytes of a shard
    save_seconds: float = 30.0  # how often to save what a search that goes on needs

    def lists(self, directory: Path, inputs: dict[str, Any], watch: Watch) -> NeighborLists:
        """The lists, memory-mapped in a directory, which exists.

        A search that was killed goes on from what it saved there, where ``inputs`` is the same:
        whatever the lists depend on, as JSON values. ``watch`` is called about once a second.
        Raises `peewit.solvers.iteration_loop.RunStopped` where it says so, and OSError where the
        disk fails.
        """
        done = _position(directory, inputs)
        searcher = self._searcher(watch) if done < self._n_searches else None
        lists = [self._open_lists(directory, name, is_new=done == 0) for name in self._files]
        n_rows, saved_at = self.rows.n_rows, monotonic()
        for shard, (first, points) in enumerate(self._shards()):
            n_before = shard * n_rows
            if searcher is None or n_before + n_rows <= done:
                continue
            searcher.hold(points, watch)
            old, new = lists[(shard - 1) % len(lists)], lists[shard % len(lists)]
            for place in query_blocks(n_rows, row_length(self.rows), searcher.n_looked_at):
                if n_before + place.stop <= done:
                    continue
                watch.step("searching", n_before + place.start, self._n_searches)
                nearest = self._search_shard(place, searcher, first, points.shape[0])
                if shard:
                    nearest = _merge(old.neighbors[place], old.distances[place], *nearest)
                new.neighbors[place], new.distances[place] = nearest
                if monotonic() - saved_at >= self.save_seconds:
                    _save(directory, lists, inputs, n_before + place.stop)
                    saved_at = monotonic()
        _save(directory, lists, inputs, self._n_searches)
        return lists[(self._n_shards - 1) % len(lists)]

    def recall(self, lists: NeighborLists, watch: Watch) -> tuple[float, int]:
        """Share of the true neighbors in the lists of sampled rows, and the number of these rows.

        Of equally far neighbors any will do.
        """
        n_rows = self.rows.n_rows
        affordable = _SAMPLE_PRODUCTS // (n_rows * row_length(self.rows))
        n_sample = min(n_rows, max(_SAMPLE_ROWS // 10, min(_SAMPLE_ROWS, affordable)))
        rng = np.random.default_rng(self.seed)
        sample = np.sort(rng.choice(n_rows, n_sample, replace=False))
        queries = metric_rows(self.rows.values[sample], self.metric)
        true = np.full((n_sample, self.n_neighbors), np.inf)
        for first, points in self._shards():
            watch.step("measuring recall", first, n_rows)
            own = _places_in(sample, first, points.shape[0])
            _, distances = nearest(queries, points, self.n_neighbors, own=own)
            true = np.sort(np.concatenate([true, distances], axis=1))[:, : self.n_neighbors]
        reach = true[:, -1:] * (1 + _EQUALLY_FAR)
        return float((lists.distances[sample] <= reach).mean()), n_sample

    @property
    def _n_shards(self) -> int:
        return sum(1 for _ in self.rows.blocks(self.shard_bytes))

    @property
    def _n_searches(self) -> int:
        """Number of searches of one row in one shard."""
        return self.rows.n_rows * self._n_shards

    @property
    def _files(self) -> tuple[str, ...]:
        """Lists are written to one file and read from the other: what is there stays as it was."""
        return ("even", "odd")[: self._n_shards]

    def _shards(self) -> Iterator[tuple[int, Any]]:
        """First row of each shard, and its rows as they are measured."""
        for place, values in self.rows.blocks(self.shard_bytes):
            yield place.start, metric_rows(values, self.metric)

    def _searcher(self, watch: Watch) -> Searcher:
        if self.n_probes is None:
            return AllPairs()
        watch.step("learning cells", 0, 1)
        n_rows = self.rows.n_rows
        n_cells = max(1, min(int(_CELLS_PER_ROOT * n_rows**0.5), n_rows // _LEARNED_ROWS))
        rng = np.random.default_rng(self.seed)
        chosen = np.sort(rng.choice(n_rows, min(n_rows, _LEARNED_ROWS * n_cells), replace=False))
        sample = _float32(metric_rows(self.rows.values[chosen], self.metric))
        return Cells(sample, n_cells=n_cells, n_probes=self.n_probes, seed=self.seed)

    def _search_shard(
        self, place: slice, searcher: Searcher, first: int, n_points: int
    ) -> tuple[Int64Array, FloatArray]:
        """Neighbors of some rows in the shard that starts at row ``first``."""
        queries = metric_rows(self.rows.values[place], self.metric)
        own = _places_in(np.arange(place.start, place.stop), first, n_points)
        places, distances = searcher.nearest(queries, self.n_neighbors, own)
        return np.where(places >= 0, places + first, -1), distances

    def _open_lists(self, directory: Path, name: str, *, is_new: bool) -> NeighborLists:
        shape = (self.rows.n_rows, self.n_neighbors)
        arrays = [
            reserved_array(path, shape, dtype) if is_new else np.load(path, mmap_mode="r+")
            for path, dtype in (
                (directory / f"neighbors-{name}.npy", np.int32),
                (directory / f"distances-{name}.npy", np.float64),
            )
        ]
        return NeighborLists(neighbors=arrays[0], distances=arrays[1])


def row_length(rows: FeatureRows) -> int:
    """Numbers of a row that a product looks at: columns, or the mean of the entries if sparse."""
    if rows.is_sparse:
        return 1 + int(rows.values.nnz) // max(1, rows.n_rows)
    return rows.n_columns


def _position(directory: Path, inputs: dict[str, Any]) -> int:
    """Number of searches that the lists in a directory hold; 0 where they are of another kind."""
    try:
        position = json.loads((directory / _POSITION).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return 0
    if position["asked"] == inputs:
        return int(position["done"])
    (directory / _POSITION).unlink()
    return 0


def _save(directory: Path, lists: list[NeighborLists], inputs: dict[str, Any], done: int) -> None:
    """Keep what is done, for whoever comes after a kill or a power failure."""
    for results in lists:
        for array in (results.neighbors, results.distances):
            if isinstance(array, np.memmap):
                array.flush()
    publish_json(directory / _POSITION, {"asked": inputs, "done": done})


def _places_in(rows: Int64Array, first: int, n_points: int) -> Int64Array:
    """Places of rows in a shard, -1 for those outside."""
    places = rows - first
    return np.where((places >= 0) & (places < n_points), places, -1)


def _merge(
    ids: AnyArray, distances: AnyArray, more_ids: Int64Array, more_distances: FloatArray
) -> tuple[Int64Array, FloatArray]:
    """The nearest in two sets of lists, which have no neighbor in common."""
    return cut_lists(
        np.concatenate([ids, more_ids], axis=1),
        np.concatenate([distances, more_distances], axis=1),
        more_ids.shape[1],
    )


def _float32(points: Any) -> Float32Array:
    if sp.issparse(points):
        raise TypeError("cells hold dense rows only")
    return np.ascontiguousarray(points, dtype=np.float32)
