"""Neighbor graph: rows tied to their nearest neighbors, with weights by distance.

An edge joins two rows when either is in the other's list.
"""

import math
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np

from peewit.solvers.arguments import BadArgument, require_one_of
from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array, IntArray, RealArray
from peewit.solvers.edge_merging import WeightedEdges
from peewit.solvers.graph import Graph
from peewit.solvers.kernels.mutual_neighbors import mark_mutual
from peewit.solvers.neighbors.neighbor_lists import (
    Metric,
    NeighborLists,
    last_finite,
    neighbor_lists,
)

WeightName = Literal["self-tuned", "heat", "binary"]
"""exp(-4 d^2 / d_k(i)^2), d_k(i) the distance of the row's k-th neighbor; exp(-d^2 / (2 width^2));
or 1."""

Symmetrization = Literal["mean", "max"]
"""Weight of an edge from the weights of its two ties, one of which may be 0: their mean or the
larger."""

LEAST_WEIGHT: Final = float(np.finfo(np.float32).tiny)
"""Weights are > 0: a heat weight that would underflow becomes this, the least normal float32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TieRule:
    """How lists of neighbors become weights of edges.

    Raises ValueError for an unknown name, a width that is not positive, or a width without use.
    """

    weights: WeightName = "self-tuned"
    symmetrize: Symmetrization = "mean"
    width: float | None = None  # of "heat"; None: mean length of all edges, zeros left out

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

    ``rows`` are finite, (n_rows, n_columns), and more than ``n_neighbors``; see `TieRule` and
    `Metric` for the rest. ValueError if an argument breaks its rule, or with "cosine" a row is
    zero.

    Notes
    -----
    Every pair of rows is measured. Memory beyond rows and graph: the lists.

    References
    ----------
    Self-tuned: Calder, Cook, Thorpe and Slepcev, ICML 2020, section 4 (there a point counts as its
    own first neighbor; here it does not count). Heat: Melacci and Belkin, JMLR 2011, section 4.
    """
    rule = TieRule(weights=weights, symmetrize=symmetrize, width=width)
    blocks = list(neighbor_lists(rows, n_neighbors, metric=metric))
    lists = NeighborLists(
        neighbors=np.concatenate([block for _, block, _ in blocks]),
        distances=np.concatenate([block for _, _, block in blocks]),
    )
    rule = with_width(rule, lists)
    edges = [edges_of(lists, place, rule) for place in lists.blocks()]
    return Graph.from_records(edges, n_nodes=lists.n_rows)


def tie_weights(distances: RealArray, rule: TieRule, farthest: RealArray) -> FloatArray:
    """Weights of ties of these lengths, (n, n_neighbors); 0 where a length is inf.

    ``farthest``, (n, 1) or (n, n_neighbors), is the distance of the last neighbor in the list of
    the tie. ``rule`` must have its width if it needs one.
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
    """The edges from the lists of some rows; mutual ties belong to the smaller row.

    All places of `NeighborLists.blocks` together give every edge once. ``rule`` must have its width
    if it needs one; see `with_width`.
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
    """The rule with a width from the lists, if it needs one and has none."""
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
        farthest_back[is_short] = last_finite(lists.distances[neighbors[is_short]])
        return cls(
            rows=rows,
            neighbors=neighbors,
            distances=distances,
            farthest=last_finite(distances)[:, None],
            farthest_back=farthest_back,
            is_mutual=is_mutual,
            is_first=exists & ((rows < neighbors) | ~is_mutual),
        )
