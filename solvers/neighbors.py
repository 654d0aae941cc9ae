"""Lists of nearest neighbors, and the weights of the graph that they make.

The list of a row holds its k nearest other rows, nearest first. The row itself never stands in it,
a duplicate (distance 0) does. Of equal distances the smaller id comes first; of more than a
thousand rows that are equally far, those that the library finds. An edge joins two rows when either
is in the other's list. Lists come from scikit-learn's brute force, whose distances lose digits to
cancellation, and are ranked by differences of the rows.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np
import scipy.sparse as sp

from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import (
    BoolArray,
    Float32Array,
    FloatArray,
    Int64Array,
    IntArray,
    RealArray,
)
from peewit.solvers.graph import Graph
from peewit.solvers.kernels.neighbors import mark_mutual
from peewit.solvers.merging import WeightedEdges

Metric = Literal["euclidean", "cosine"]
"""Distance of two rows: of the rows as they are, or of the rows scaled to length 1.

The latter orders neighbors as the angle does; its square is 2 - 2 cos."""

WeightName = Literal["self-tuned", "heat", "binary"]
"""exp(-4 d^2 / d_k(i)^2), d_k(i) the distance of the row's k-th neighbor; exp(-d^2 / (2 width^2));
or 1."""

Symmetrization = Literal["mean", "max"]
"""The weight of an edge from those of its two ties, one of which may be 0: mean or larger one."""

LEAST_WEIGHT: Final = float(np.finfo(np.float32).tiny)
"""Weights are > 0: a heat weight that would underflow is this, the least normal float32."""

SPARE_CANDIDATES: Final = 8
"""Rows that are measured beyond those asked for, as the library's order is only nearly right."""

_MORE_CANDIDATES: Final = 8
_MOST_CANDIDATES: Final = 1000
_EQUALLY_FAR: Final = 1e-9

_ROUNDING: Final = 4 * float(np.finfo(np.float32).eps)
_LEAST_SQUARE: Final = 1e-20
_MOST_SQUARE: Final = 1e30
_BLOCK_PRODUCTS: Final = 10_000_000_000
_ENTRIES: Final = 1 << 22
_BLOCK_ENTRIES: Final = 1 << 24
_TIES: Final = 1 << 18


@dataclass(frozen=True, slots=True, kw_only=True)
class TieRule:
    """How lists of neighbors become weights of edges.

    Attributes
    ----------
    weights : {"self-tuned", "heat", "binary"}
        Weight of the tie of a row to a neighbor, by their distance.
    symmetrize : {"mean", "max"}
        Weight of an edge by those of its ties.
    width : float, optional
        Of "heat"; None for the mean length of all edges, those of length 0 left out.

    Raises
    ------
    ValueError
        No such name, a width that is not positive, or one where none is used.
    """

    weights: WeightName = "self-tuned"
    symmetrize: Symmetrization = "mean"
    width: float | None = None

    def __post_init__(self) -> None:
        for name, names in (("weights", WeightName), ("symmetrize", Symmetrization)):
            require_one_of(name, getattr(self, name), get_args(names))
        if self.width is None:
            return
        if self.weights != "heat":
            raise BadArgument(
                "width",
                f"must be left out with {self.weights} weights, got {self.width}; it is for "
                "heat weights",
            )
        if not (self.width > 0 and math.isfinite(self.width)):
            raise BadArgument("width", f"must be finite and > 0, got {self.width}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NeighborLists:
    """Lists of all rows; the arrays may be memory maps.

    Attributes
    ----------
    neighbors : (n_rows, n_neighbors) integers
        Nearest first; -1, at the end, where a search has found fewer.
    distances : (n_rows, n_neighbors) floats
        Increasing; inf where the neighbor is -1.
    """

    neighbors: IntArray
    distances: RealArray

    @property
    def n_rows(self) -> int:
        """Number of lists."""
        return int(self.neighbors.shape[0])

    def blocks(self) -> Iterator[slice]:
        """Places of consecutive lists, whose ties can be looked at together."""
        step = max(1, _TIES // self.neighbors.shape[1])
        for start in range(0, self.n_rows, step):
            yield slice(start, min(start + step, self.n_rows))


def neighbor_graph(
    rows: Any,
    n_neighbors: int,
    *,
    weights: WeightName = "self-tuned",
    symmetrize: Symmetrization = "mean",
    width: float | None = None,
    metric: Metric = "euclidean",
) -> Graph:
    """The graph that joins every row to its nearest neighbors.

    Parameters
    ----------
    rows : (n_rows, n_columns) array or scipy sparse matrix
        Finite.
    n_neighbors : int
        Neighbors of each row, at least 1 and below ``n_rows``.
    weights, symmetrize, width
        See `TieRule`.
    metric : {"euclidean", "cosine"}
        See `Metric`.

    Raises
    ------
    ValueError
        An argument breaks its rule, or with "cosine" a row is zero.

    Notes
    -----
    Every pair of rows is looked at. Memory beyond rows and graph: the lists.

    References
    ----------
    Self-tuned: Calder, Cook, Thorpe and Slepcev, ICML 2020, section 4 (there a point counts as its
    own first neighbor; here it does not count). Heat: Melacci and Belkin, JMLR 2011, section 4.
    """
    rule = TieRule(weights=weights, symmetrize=symmetrize, width=width)
    found = list(neighbor_lists(rows, n_neighbors, metric=metric))
    lists = NeighborLists(
        neighbors=np.concatenate([block for _, block, _ in found]),
        distances=np.concatenate([block for _, _, block in found]),
    )
    rule = with_width(rule, lists)
    edges = [edges_of(lists, place, rule) for place in lists.blocks()]
    return Graph.from_records(edges, n_nodes=lists.n_rows)


def neighbor_lists(
    rows: Any, n_neighbors: int, *, metric: Metric = "euclidean"
) -> Iterator[tuple[slice, Int64Array, FloatArray]]:
    """Lists of all rows, some rows at a time: their places, neighbors and distances.

    Parameters and errors are those of `neighbor_graph`.
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
    """Points to be searched, every one of them for every query.

    Dense points are searched in float32 first, at twice the speed; queries whose answer its
    rounding could change are searched again by scikit-learn, which computes in float64.

    Parameters
    ----------
    points : (n_points, n_columns)
        As `metric_rows` gives them.
    """

    def __init__(self, points: Any) -> None:
        self.points = points
        self._index: Any = None
        self._rounded = None if sp.issparse(points) else _Rounded.of(points)

    def nearest(
        self, queries: Any, n_nearest: int, *, own: Int64Array | None = None
    ) -> tuple[Int64Array, FloatArray]:
        """The nearest points to each query, and how far they are.

        Parameters
        ----------
        queries : (n_queries, n_columns)
            Dense or CSR, as the points are.
        n_nearest : int
            How many to find, at least 1.
        own : (n_queries,) int64, optional
            For each query a point that does not count: the query itself. -1 for none.

        Returns
        -------
        ids : (n_queries, n_nearest) int64
            Nearest first, of equal distances the smaller id; -1 where there are no more points.
        distances : (n_queries, n_nearest) float64
            inf where the id is -1.

        Raises
        ------
        ValueError
            A distance is too large for a float.
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
            among = _measured(
                some, self.points, candidates, None if own is None else own[open_rows]
            )
            found = cut_lists(*among, n_nearest)
            ids[open_rows], distances[open_rows] = found
            if n_candidates == n_points or n_candidates > _MOST_CANDIDATES:
                break
            if rounded is not None:
                open_rows = open_rows[least_beyond <= found[1][:, -1] * (1 + _EQUALLY_FAR)]
                rounded = None
                continue
            # More rows may be as far as the last one: look again, until one is farther.
            farthest = _last_finite(among[1])
            open_rows = open_rows[farthest <= found[1][:, -1] * (1 + _EQUALLY_FAR)]
            n_candidates = min(n_candidates * _MORE_CANDIDATES, n_points)
        return ids, distances

    def _among_all(self, queries: Any, n_candidates: int) -> Int64Array:
        """Candidates by scikit-learn's brute force."""
        from sklearn import config_context  # noqa: PLC0415 - slow, see peewit.solvers.distances
        from sklearn.neighbors import NearestNeighbors  # noqa: PLC0415 - slow, see peewit.solvers.distances

        with config_context(assume_finite=True):
            if self._index is None:
                self._index = NearestNeighbors(algorithm="brute").fit(self.points)
            found: Int64Array = self._index.kneighbors(queries, n_candidates, return_distance=False)
        return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Rounded:
    """Dense points in float32 about their mean, for a first search.

    Attributes
    ----------
    center : (n_columns,)
    values : (n_points, n_columns) float32
    half_squares : (n_points,) float32
        Half of the squared lengths of ``values``.
    longest : float
        Length of the longest.
    """

    center: RealArray
    values: Float32Array
    half_squares: Float32Array
    longest: float

    @classmethod
    def of(cls, points: RealArray) -> "_Rounded | None":
        """The points rounded; None where float32 cannot hold their squares."""
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
        """Points that are nearest but for rounding, and a distance that no other is below."""
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
    """The nearest of some candidates to each query, as `nearest` gives them.

    Parameters
    ----------
    candidates : (n_queries, n_candidates) int64
        Distinct points for each query; -1 for none.
    queries, points, n_nearest, own
        See `nearest`.
    """
    return cut_lists(*_measured(queries, points, candidates, own), n_nearest)


def _measured(
    queries: Any, points: Any, candidates: Int64Array, own: Int64Array | None
) -> tuple[Int64Array, FloatArray]:
    """Candidates and their distances; -1 and inf for those that do not count."""
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
    """Places of queries that take about a second together when all points are looked at."""
    step = max(64, _BLOCK_PRODUCTS // max(1, n_columns * n_points))
    step = min(step, max(64, _ENTRIES // max(1, n_columns)))
    for start in range(0, n_queries, step):
        yield slice(start, min(start + step, n_queries))


def metric_rows(rows: Any, metric: Metric, *, first_row: int = 0) -> Any:
    """Rows whose Euclidean distance is the metric: C-contiguous floats, or CSR.

    Raises
    ------
    ValueError
        No such metric, or with "cosine" a row is zero; rows are counted from ``first_row``.
    """
    require_one_of("metric", metric, get_args(Metric))
    if sp.issparse(rows):
        points = sp.csr_array(rows)
        if points.dtype not in (np.float32, np.float64):
            points = points.astype(np.float64)
    else:
        is_float = getattr(rows, "dtype", None) in (np.float32, np.float64)
        points = np.ascontiguousarray(rows, dtype=None if is_float else np.float64)
    return points if metric == "euclidean" else _unit_rows(points, first_row)


def _unit_rows(points: Any, first_row: int) -> Any:
    """The rows scaled to length 1, by their largest entry first, so that no square overflows."""
    for measure in (largest_entries, _lengths):
        size = measure(points)
        if not size.all():
            zero = first_row + int(np.argmin(size))
            raise ValueError(
                f"metric 'cosine' needs rows that are not zero, got zeros in row {zero}; drop "
                "the row, or take metric 'euclidean'"
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


def tie_weights(distances: RealArray, rule: TieRule, farthest: RealArray) -> FloatArray:
    """Weights of ties of these lengths; 0 where a length is inf.

    Parameters
    ----------
    distances : (n, n_neighbors) floats
    rule : TieRule
        With its width, where it needs one.
    farthest : (n, 1) or (n, n_neighbors) floats
        Distance of the last neighbor in the list that holds the tie.
    """
    if rule.weights == "binary":
        return np.isfinite(distances).astype(np.float64)
    lengths = distances.astype(np.float64)
    scale = farthest if rule.weights == "self-tuned" else np.full_like(farthest, rule.width)
    relative = np.divide(lengths, scale, out=np.zeros_like(lengths), where=scale > 0)
    relative[np.isinf(lengths)] = np.inf
    factor = 4.0 if rule.weights == "self-tuned" else 0.5
    with np.errstate(under="ignore", over="ignore"):
        weight: FloatArray = np.exp(-factor * relative**2)
    return np.where(np.isinf(lengths), 0.0, np.maximum(weight, LEAST_WEIGHT))


def edges_of(lists: NeighborLists, place: slice, rule: TieRule) -> WeightedEdges:
    """The edges that the lists of some rows bring: those of mutual ties with the smaller row.

    All places of `NeighborLists.blocks` together give every edge once. ``rule`` must have its
    width where it needs one; see `with_width`.
    """
    ties = _Ties.of(lists, place)
    weight = tie_weights(ties.distances, rule, ties.farthest)
    back = np.where(ties.is_mutual, tie_weights(ties.distances, rule, ties.farthest_back), 0.0)
    both = (weight + back) / 2 if rule.symmetrize == "mean" else np.maximum(weight, back)
    return WeightedEdges(
        u=np.broadcast_to(ties.rows, ties.neighbors.shape)[ties.is_first],
        v=ties.neighbors[ties.is_first],
        weight=np.maximum(both[ties.is_first], LEAST_WEIGHT),
    )


def with_width(rule: TieRule, lists: NeighborLists) -> TieRule:
    """The rule with the width that its lists give it, if it needs one and has none."""
    if rule.weights != "heat" or rule.width is not None:
        return rule
    total, n_edges = 0.0, 0
    for place in lists.blocks():
        ties = _Ties.of(lists, place)
        lengths = ties.distances[ties.is_first]
        total += float(lengths.sum(dtype=np.float64))
        n_edges += int(np.count_nonzero(lengths))
    width = total / n_edges if n_edges else 1.0  # where all lengths are 0, all weights are 1
    return TieRule(weights=rule.weights, symmetrize=rule.symmetrize, width=width)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Ties:
    """The lists of some rows beside those of their neighbors.

    ``farthest`` and ``farthest_back`` are the last distances in the row's and in the neighbor's
    list; ``is_mutual`` where the neighbor lists the row; ``is_first`` once for each edge.
    """

    rows: Int64Array
    neighbors: IntArray
    distances: RealArray
    farthest: RealArray
    farthest_back: RealArray
    is_mutual: BoolArray
    is_first: BoolArray

    @classmethod
    def of(cls, lists: NeighborLists, place: slice) -> "_Ties":
        rows = np.arange(place.start, place.stop)[:, None]
        neighbors = np.asarray(lists.neighbors[place])
        distances = np.asarray(lists.distances[place])
        exists = neighbors >= 0
        is_mutual = np.empty(neighbors.shape, np.bool_)
        mark_mutual(np.asarray(lists.neighbors), place.start, is_mutual)
        farthest_back = np.asarray(lists.distances[neighbors, -1])
        is_short = np.isinf(farthest_back)
        farthest_back[is_short] = _last_finite(lists.distances[neighbors[is_short]])
        return cls(
            rows=rows,
            neighbors=neighbors,
            distances=distances,
            farthest=_last_finite(distances)[:, None],
            farthest_back=farthest_back,
            is_mutual=is_mutual,
            is_first=exists & ((rows < neighbors) | ~is_mutual),
        )


def _last_finite(distances: RealArray) -> RealArray:
    """The largest finite distance of each list, 0 for an empty one."""
    found: RealArray = np.where(np.isfinite(distances), distances, 0).max(axis=-1)
    return found


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


def require_one_of(name: str, value: str, names: tuple[str, ...]) -> None:
    """Raise ValueError unless ``value`` is one of ``names``."""
    if value not in names:
        raise BadArgument(name, f"must be one of {', '.join(names)}, got {value!r}")
