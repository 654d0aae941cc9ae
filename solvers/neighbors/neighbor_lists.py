"""Lists of nearest neighbors.

The list of a row holds its k nearest other rows, nearest first: never the row itself, but its
duplicates (distance 0). Of equal distances the smaller id comes first; of more than a thousand
equally far rows, those that the library finds. Candidates come from scikit-learn's brute force,
whose distances lose digits to cancellation, and are ranked by differences of the rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np
import scipy.sparse as sp

from peewit.solvers.arguments import BadArgument, require_one_of
from peewit.solvers.arrays import Float32Array, FloatArray, Int64Array, IntArray, RealArray

Metric = Literal["euclidean", "cosine"]
"""Distance of two rows, as they are or scaled to length 1.

The latter orders neighbors as the angle does; its square is 2 - 2 cos.
"""

SPARE_CANDIDATES: Final = 8
"""Rows measured beyond the requested ones, as the library's order is only nearly right."""

_MORE_CANDIDATES: Final = 8
_MOST_CANDIDATES: Final = 1000
_EQUALLY_FAR: Final = 1e-9

_ROUNDING: Final = 4 * float(np.finfo(np.float32).eps)
_LEAST_SQUARE: Final = 1e-20
_MOST_SQUARE: Final = 1e30
_LEAST_ENTRY: Final = 1e-150
_BLOCK_PRODUCTS: Final = 10_000_000_000
_ENTRIES: Final = 1 << 22
_BLOCK_ENTRIES: Final = 1 << 24
_TIES: Final = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NeighborLists:
    """Lists of all rows; the arrays may be memory maps."""

    neighbors: IntArray  # (n_rows, n_neighbors) nearest first; -1 at the end for missing ones
    distances: RealArray  # (n_rows, n_neighbors) increasing; inf where the neighbor is -1

    @property
    def n_rows(self) -> int:
        """Number of lists."""
        return int(self.neighbors.shape[0])

    def blocks(self) -> Iterator[slice]:
        """Slices of consecutive lists whose ties are processed together."""
        step = max(1, _TIES // self.neighbors.shape[1])
        for start in range(0, self.n_rows, step):
            yield slice(start, min(start + step, self.n_rows))


def neighbor_lists(
    rows: Any, n_neighbors: int, *, metric: Metric = "euclidean"
) -> Iterator[tuple[slice, Int64Array, FloatArray]]:
    """Lists of all rows, some rows at a time: their slice, neighbors and distances.

    Arguments and errors are those of `neighbor_graph`.
    """
    search = PointSearch(metric_rows(rows, metric))
    points = search.points
    n_rows = points.shape[0]
    require_neighbors(n_neighbors, n_rows)
    for place in query_blocks(n_rows, points.shape[1], n_rows):
        own = np.arange(place.start, place.stop)
        yield place, *search.nearest(points[place], n_neighbors, own=own)


def nearest(
    queries: Any, points: Any, n_nearest: int, *, own: Int64Array | None = None
) -> tuple[Int64Array, FloatArray]:
    """The nearest of ``points`` to each query: `PointSearch.nearest`, once."""
    return PointSearch(points).nearest(queries, n_nearest, own=own)


class PointSearch:
    """Exhaustive search: every point is compared with every query.

    Dense points are searched in float32 first, at twice the speed; queries whose answer its
    rounding could change are searched again by scikit-learn in float64. ``points`` are as
    `metric_rows` gives them.
    """

    def __init__(self, points: Any) -> None:
        largest = float(max(points.max(), -points.min())) if 0 not in points.shape else 0.0
        if 0.0 < largest < _LEAST_ENTRY:
            rule = "must have distances whose squares a float can hold; scale them up"
            raise BadArgument("features", f"{rule}, got at most {largest}")
        self.points = points
        self._index: Any = None
        self._rounded = None if sp.issparse(points) else _Rounded.of(points)

    def nearest(
        self, queries: Any, n_nearest: int, *, own: Int64Array | None = None
    ) -> tuple[Int64Array, FloatArray]:
        """The nearest points to each query, and their distances.

        Raises ValueError if a distance is too large for a float.

        Parameters
        ----------
        queries : (n_queries, n_columns)
            Dense or CSR, as the points are.
        own : (n_queries,) int64, optional
            For each query a point to leave out: the query itself. -1 for none.

        Returns
        -------
        ids : (n_queries, n_nearest) int64
            Nearest first, of equal distances the smaller id; -1 where there are no more points.
        distances : (n_queries, n_nearest) float64
            inf where the id is -1.
        """
        n_queries, n_points = queries.shape[0], self.points.shape[0]
        ids = np.empty((n_queries, n_nearest), np.int64)
        distances = np.empty((n_queries, n_nearest))
        n_candidates = min(n_nearest + (own is not None) + SPARE_CANDIDATES, n_points)
        open_rows = np.arange(n_queries)
        rounded = self._rounded if n_candidates < n_points else None
        while open_rows.size:
            some = queries if open_rows.size == n_queries else queries[open_rows]
            if rounded is not None:
                candidates, least_beyond = rounded.candidates(some, n_candidates)
            else:
                candidates = self._among_all(some, n_candidates)
            among = _measure(some, self.points, candidates, None if own is None else own[open_rows])
            lists = cut_lists(*among, n_nearest)
            ids[open_rows], distances[open_rows] = lists
            if n_candidates == n_points or n_candidates > _MOST_CANDIDATES:
                break
            if rounded is not None:
                open_rows = open_rows[least_beyond <= lists[1][:, -1] * (1 + _EQUALLY_FAR)]
                rounded = None
                continue
            # More rows may be as far as the last one: search again, until one is farther.
            farthest = last_finite(among[1])
            open_rows = open_rows[farthest <= lists[1][:, -1] * (1 + _EQUALLY_FAR)]
            n_candidates = min(n_candidates * _MORE_CANDIDATES, n_points)
        return ids, distances

    def _among_all(self, queries: Any, n_candidates: int) -> Int64Array:
        """Candidates by scikit-learn's brute force."""
        from sklearn import config_context  # noqa: PLC0415 - slow, see peewit.solvers.neighbors.distances
        from sklearn.neighbors import NearestNeighbors  # noqa: PLC0415 - slow, see peewit.solvers.neighbors.distances

        with config_context(assume_finite=True):
            if self._index is None:
                self._index = NearestNeighbors(algorithm="brute").fit(self.points)
            ids: Int64Array = self._index.kneighbors(queries, n_candidates, return_distance=False)
        return ids


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Rounded:
    """Dense points in float32 about their mean, for a first search."""

    center: RealArray  # (n_columns,)
    values: Float32Array  # (n_points, n_columns)
    half_squares: Float32Array  # (n_points,) half of the squared lengths of ``values``
    longest: float  # greatest length of a point

    @classmethod
    def of(cls, points: RealArray) -> "_Rounded | None":
        """The points rounded; None if float32 cannot hold their squares."""
        with np.errstate(over="ignore", invalid="ignore"):
            center = points.mean(axis=0, dtype=np.float64).astype(points.dtype)
            values = (points - center).astype(np.float32)
            half = np.einsum("ij,ij->i", values, values) * np.float32(0.5)
        largest = float(half.max(initial=0.0))
        if not _LEAST_SQUARE < largest < _MOST_SQUARE:
            return None
        return cls(
            center=center, values=values, half_squares=half, longest=float(np.sqrt(2 * largest))
        )

    def candidates(self, queries: RealArray, n_candidates: int) -> tuple[Int64Array, FloatArray]:
        """Points that are nearest up to rounding, and a lower bound on all other distances."""
        ids = np.empty((queries.shape[0], n_candidates), np.int64)
        beyond = np.empty(queries.shape[0])
        own = (queries - self.center).astype(np.float32)
        step = max(1, _BLOCK_ENTRIES // self.values.shape[0])
        for start in range(0, own.shape[0], step):
            place = slice(start, start + step)
            block = self.half_squares - own[place] @ self.values.T
            chosen = np.argpartition(block, n_candidates - 1, axis=1)[:, :n_candidates]
            ids[place] = chosen
            beyond[place] = np.take_along_axis(block, chosen, axis=1).max(axis=1)
        half = 0.5 * np.einsum("ij,ij->i", own, own, dtype=np.float64)
        length = np.sqrt(2 * half)
        # n products of a sum in float32, each rounded once; and the rounding of the rows
        error = _ROUNDING * np.sqrt(own.shape[1]) * (length + self.longest) ** 2
        return ids, np.sqrt(2 * np.maximum(0.0, beyond + half - error))


def ranked(
    queries: Any,
    points: Any,
    candidates: Int64Array,
    n_nearest: int,
    *,
    own: Int64Array | None = None,
) -> tuple[Int64Array, FloatArray]:
    """The nearest of ``candidates`` to each query, as `nearest` gives them.

    Candidates, (n_queries, n_candidates), are distinct points for each query; -1 for none.
    """
    return cut_lists(*_measure(queries, points, candidates, own), n_nearest)


def _measure(
    queries: Any, points: Any, candidates: Int64Array, own: Int64Array | None
) -> tuple[Int64Array, FloatArray]:
    """Candidates and their distances; -1 and inf for those left out."""
    squared = _squared_distances(queries, points, candidates)
    counts = candidates >= 0
    if own is not None:
        counts &= candidates != own[:, None]
    if not np.isfinite(squared[counts]).all():
        raise BadArgument("features", "must have distances that a float can hold; scale them down")
    return np.where(counts, candidates, -1), np.where(counts, np.sqrt(squared), np.inf)


def cut_lists(
    ids: Int64Array, distances: FloatArray, n_nearest: int
) -> tuple[Int64Array, FloatArray]:
    """The first ``n_nearest`` of each row by distance, then id; padded with -1 and inf."""
    order = np.lexsort((ids, distances), axis=-1)[:, :n_nearest]
    missing = ((0, 0), (0, n_nearest - order.shape[1]))
    return (
        np.pad(np.take_along_axis(ids, order, axis=1), missing, constant_values=-1),
        np.pad(np.take_along_axis(distances, order, axis=1), missing, constant_values=np.inf),
    )


def query_blocks(n_queries: int, n_columns: int, n_points: int) -> Iterator[slice]:
    """Slices of queries, each of which takes about a second to compare with all points."""
    step = max(64, _BLOCK_PRODUCTS // max(1, n_columns * n_points))
    step = min(step, max(64, _ENTRIES // max(1, n_columns)))
    for start in range(0, n_queries, step):
        yield slice(start, min(start + step, n_queries))


def metric_rows(rows: Any, metric: Metric) -> Any:
    """Rows whose Euclidean distance is the metric: C-contiguous floats, or CSR.

    Raises ValueError for an unknown metric, or with "cosine" for a row of zeros.
    """
    require_one_of("metric", metric, get_args(Metric))
    if sp.issparse(rows):
        points = sp.csr_array(rows)
        if points.dtype not in (np.float32, np.float64):
            points = points.astype(np.float64)
    else:
        is_float = getattr(rows, "dtype", None) in (np.float32, np.float64)
        points = np.ascontiguousarray(rows, dtype=None if is_float else np.float64)
    return points if metric == "euclidean" else _unit_rows(points)


def _unit_rows(points: Any) -> Any:
    """The rows scaled to length 1, by their largest entry first, so that no square overflows."""
    for measure in (largest_entries, _lengths):
        size = measure(points)
        if not size.all():
            raise ValueError(
                "metric 'cosine' needs rows that are not zero, got zeros in row "
                f"{np.argmin(size)}; drop the row, or take metric 'euclidean'"
            )
        if sp.issparse(points):
            points = points.copy()
            points.data /= np.repeat(size, np.diff(points.indptr))
        else:
            points = points / size[:, None]
    return points


def largest_entries(points: Any) -> RealArray:
    """(n_rows,) largest absolute entry of each row, dense or sparse."""
    is_sparse = sp.issparse(points)
    largest = abs(points).max(axis=1).todense() if is_sparse else np.abs(points).max(axis=1)
    return np.asarray(largest).ravel()


def _lengths(points: Any) -> RealArray:
    squares = points.power(2) if sp.issparse(points) else np.square(points)
    lengths: RealArray = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
    return lengths


def last_finite(distances: RealArray) -> RealArray:
    """The largest finite distance of each list, 0 for an empty one."""
    largest: RealArray = np.where(np.isfinite(distances), distances, 0).max(axis=-1)
    return largest


def _squared_distances(queries: Any, points: Any, ids: Int64Array) -> FloatArray:
    """(n_queries, n_candidates) squares of the distances, of float64 differences."""
    squared = np.empty(ids.shape)
    step = max(1, _ENTRIES // max(1, ids.shape[1] * points.shape[1]))
    if sp.issparse(points):
        step = max(1, _ENTRIES // max(1, ids.shape[1] * (1 + points.nnz // points.shape[0])))
    with np.errstate(over="ignore"):
        for start in range(0, ids.shape[0], step):
            block, some = queries[start : start + step], ids[start : start + step]
            if sp.issparse(points):
                repeated = block[np.repeat(np.arange(block.shape[0]), some.shape[1])]
                difference = (repeated - points[some.ravel()]).astype(np.float64)
                sums = np.asarray(difference.power(2).sum(axis=1)).reshape(some.shape)
            else:
                apart = block[:, None, :].astype(np.float64) - points[some]
                sums = np.einsum("ijk,ijk->ij", apart, apart)
            squared[start : start + step] = sums
    return squared


def require_neighbors(n_neighbors: int, n_rows: int) -> None:
    """Raise ValueError unless every row can have so many neighbors."""
    if n_neighbors < 1:
        raise BadArgument("n_neighbors", f"must be at least 1, got {n_neighbors}")
    if n_neighbors >= n_rows:
        raise BadArgument(
            "n_neighbors",
            f"must be below the number of samples, got {n_neighbors} neighbors "
            f"for {n_rows} samples",
        )
