"""What the arms of `auto` share of a graph, and the columns that they keep of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from peewit.solvers.arrays import Float32Array, FloatArray, Int64Array, RealArray
from peewit.solvers.features import Rows
from peewit.solvers.graph import Graph
from peewit.solvers.laplacian.unsparsified_system import FullDegrees, FullSolution, FullSystem
from peewit.solvers.laplacian.walks.neighbor_means import MeansByPasses
from peewit.solvers.laplacian.walks.personalized_pagerank import PersonalizedPageRank
from peewit.solvers.models.auto.harmonic_cache import HarmonicCache
from peewit.solvers.models.auto.walk_cache import WalkCache
from peewit.solvers.models.contract.graph_model import PreparedGraph
from peewit.solvers.models.contract.refinable_model import FullGraph
from peewit.solvers.models.left_out.label_groups import GroupColumns
from peewit.solvers.models.linear.filtered_features import FilteredFeatures

LARGEST: Final = 1e30
"""Limit in float32 on a potential, in units of 1 / (mean degree), and on a density."""

_LARGE: Final = 1 << 13
_LARGE_RTOL: Final = 1e-3
_COARSER: Final = 10.0

_BLOCK_ENTRIES: Final = 40 << 20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodePoints:
    """Rows of numbers of all nodes; the points of rows are made where they are needed."""

    rows: Float32Array  # (n_nodes, n_columns)
    of_rows: Callable[[Float32Array], Float32Array] = np.asarray


class HarmonicOfAllEdges(NamedTuple):
    """Harmonic functions of groups of labels, and what is read from them."""

    system: FullSystem
    solution: FullSolution
    cache: HarmonicCache


@dataclass(slots=True, kw_only=True, eq=False)
class AllEdges:
    """All edges, where the prepared graph keeps only some: arms then are those of all."""

    passes: FullGraph
    degrees: FullDegrees
    walks: bool = True  # False: walks and harmonic functions stay on the edges kept: passes spent
    # the arm of walks and its stats, once made: later columns do not begin walks anew
    walked: tuple[Any, dict[str, str]] | None = None
    harmonic: HarmonicOfAllEdges | None = None  # once made

    @property
    def means(self) -> MeansByPasses | None:
        """What walks step by; raises `PassesSpent` where too many were made."""
        if not self.walks:
            return None
        return MeansByPasses(product=self.passes.times_within, degree=self.degrees.weight)


@dataclass(slots=True, kw_only=True, eq=False)
class PreparedAuto:
    """What the arms share of a graph."""

    base: PreparedGraph  # of Poisson learning and of the walks
    pagerank: PersonalizedPageRank  # of the density
    potential_columns: GroupColumns  # columns of the last labels
    density_columns: GroupColumns  # columns of the last labels
    max_kept_bytes: int  # what takes more is not kept for the next labels
    features: FilteredFeatures | None = None  # of filtered ridge, where nodes have features
    walk_cache: WalkCache | None = None  # of the last labels whose walks began anew
    harmonic_cache: HarmonicCache | None = None  # of the last labels
    points: dict[str, NodePoints] | None = None  # of the arms that need no labels to be made
    has_full_points: bool = False  # whether these are of all edges, as passes over them make
    all_edges: AllEdges | None = None  # where columns are those of all edges

    @property
    def graph(self) -> Graph:
        """The graph itself."""
        return self.base.graph

    @property
    def degree(self) -> FloatArray:
        """(n_nodes,) degrees, of all edges if these are at hand."""
        return self.graph.degree if self.all_edges is None else self.all_edges.degrees.weight

    @property
    def rows(self) -> Rows | None:
        """The features as given."""
        return None if self.features is None else self.features.rows

    @property
    def width(self) -> int:
        """Columns that are solved for at once."""
        return width_of(self.graph.n_nodes)


def tolerance(rtol: float, n_nodes: int) -> float:
    """The relative residual asked of potentials where ``rtol`` is asked of a model.

    On large graphs more: at .001 hardly a node changes its class. At .01 on graphs that mix weakly
    a quarter of what potentials tell is lost beside the spikes at labels.
    """
    return rtol if n_nodes < _LARGE else max(rtol, min(_COARSER * rtol, _LARGE_RTOL))


def width_of(n_nodes: int) -> int:
    """Columns that are solved for at once."""
    return max(1, _BLOCK_ENTRIES // max(n_nodes, 1))


def indicators(members: list[Int64Array], n_nodes: int, dtype: npt.DTypeLike) -> RealArray:
    """(n_nodes, n_groups) 1 at the nodes of each group."""
    block: RealArray = np.zeros((n_nodes, len(members)), dtype)
    for place, nodes in enumerate(members):
        block[nodes, place] = 1.0
    return block


def without_mean(rows: RealArray) -> RealArray:
    """Each row minus its mean; by a product, as numpy is slow with sums of short rows."""
    share = np.full((rows.shape[1], 1), 1.0 / rows.shape[1], rows.dtype)
    return np.asarray(rows - rows @ share)
