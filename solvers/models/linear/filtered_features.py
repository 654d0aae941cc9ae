"""Filtered features: rows smoothed along a graph, or along each of its relations, and kernels.

P of (K1) is that of the graph; along relations each has its own (K2b). Rows of H_L are made and
kept label by label, or for all nodes where features are fewer than labels.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray, Int64Array
from peewit.solvers.features import Rows
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.laplacian.adjacency_spectrum import spectral_subspace
from peewit.solvers.linear.linear_functions import LinearFunctions
from peewit.solvers.linear.unit_rows import UnitRows
from peewit.solvers.models.linear.pagerank_columns import (
    KernelEntries,
    PageRankColumns,
    RecentVectors,
)
from peewit.solvers.row_ranges import Parallel


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One of the kernels that compete."""

    name: str  # in the stats
    teleport: float  # a of its filter; 1 leaves the features as they are
    has_features: bool = True  # kernel of filtered features; else P'P, of the graph alone
    factors: tuple[float, ...] = (1.0,)
    """Of the kernels along the graph and, if there are more, along each of its relations (K2b)."""
    points: float = 0.0  # factor of the kernel of points of the graph's spectrum (K21), beside them


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FunctionsByRelation(LinearFunctions):
    """Functions of new points without edges, and what their weights are the sum of."""

    parts: FloatArray
    """(1 + n_relations, n_columns, n_functions) weights of features smoothed along the graph, and
    along each of its relations, without the constant."""


@dataclass(slots=True, kw_only=True, eq=False)
class SmoothedRows:
    """Rows of features smoothed along one graph: P X."""

    columns: PageRankColumns  # of the filter
    products: RecentVectors  # rows of H_L (K2) by teleport probability and label
    filtered: dict[float, Float32Array] = field(default_factory=dict)
    """P X, (n_nodes, n_features), by teleport probability, where features are the fewer."""

    @classmethod
    def of_graph(cls, graph: Graph, parallel: Parallel, kept_bytes: int) -> "SmoothedRows":
        """The filter of a graph, and no row so far."""
        half = kept_bytes // 2
        return cls(
            columns=PageRankColumns.of_graph(graph, parallel, half),
            products=RecentVectors(kept_bytes=half),
        )

    def inner(
        self, unit: UnitRows, nodes: Int64Array, some: Int64Array, teleport: float, watch: Watch
    ) -> FloatArray:
        """(n_labeled, n_some) inner products of smoothed rows: (K2) without its scale."""
        if not self._keeps_products(unit, nodes.size):
            return self._there_and_back(unit, nodes, some, teleport, watch)
        rows = self._rows_of(unit, nodes, teleport, watch)
        others = np.stack([rows[at] for at in np.searchsorted(nodes, some)]).astype(np.float64)
        return np.stack([others @ row for row in rows])

    def weights(
        self,
        unit: UnitRows,
        nodes: Int64Array,
        dual_coef: FloatArray,
        teleport: float,
        watch: Watch,
    ) -> FloatArray:
        """(n_features, k) weights of smoothed features, H_L' ``dual_coef``."""
        if not self._keeps_products(unit, nodes.size):
            sources = np.zeros((self.columns.n_nodes, dual_coef.shape[1]))
            sources[nodes] = dual_coef
            once = self.columns.filtered(sources, teleport, watch)
            return unit.adjoint(list(once.T), watch).T
        weights = np.zeros((unit.n_columns, dual_coef.shape[1]))
        rows = self._rows_of(unit, nodes, teleport, watch)
        for row, coef in zip(rows, dual_coef, strict=True):
            weights += np.outer(row, coef)
        return weights

    def _keeps_products(self, unit: UnitRows, n_labeled: int) -> bool:
        return 4 * n_labeled * unit.n_columns <= self.products.kept_bytes

    def _rows_of(
        self, unit: UnitRows, nodes: Int64Array, teleport: float, watch: Watch
    ) -> list[Float32Array]:
        """Rows of H_L = P' X at ``nodes``, by a column for each new one or each feature."""
        if self._keeps_all(unit, nodes, teleport):
            if teleport not in self.filtered:
                self.filtered[teleport] = self._filtered(unit, slice(None), teleport, watch)
            return list(self.filtered[teleport][nodes])

        def make(missing: Int64Array) -> Iterator[Float32Array]:
            if teleport < 1.0 and unit.n_columns < missing.size:
                yield from self._filtered(unit, missing, teleport, watch)
                return
            most = max(1, self.products.kept_bytes // (8 * unit.n_columns))
            step = min(most, self.columns.most)
            for first in range(0, missing.size, step):
                some = missing[first : first + step]
                if teleport < 1.0:
                    columns = self.columns.at(some, teleport, watch)
                    made = unit.adjoint(columns, watch)
                else:
                    made = unit.at(some)
                yield from made.astype(np.float32)

        return self.products.of_nodes(nodes, teleport, make)

    def _keeps_all(self, unit: UnitRows, nodes: Int64Array, teleport: float) -> bool:
        """Whether all of P X is there, or fits and has fewer columns than there are new labels."""
        if teleport in self.filtered or teleport == 1.0:
            return teleport in self.filtered
        n_new = nodes.size - self.products.n_known(nodes, teleport)
        n_bytes = 4 * unit.n_columns * self.columns.n_nodes
        return unit.n_columns < n_new and n_bytes <= self.products.kept_bytes // 2

    def _filtered(
        self, unit: UnitRows, nodes: Int64Array | slice, teleport: float, watch: Watch
    ) -> Float32Array:
        """(n_some, n_features) rows of P X, by a column for each feature."""
        n_rows = self.columns.n_nodes if isinstance(nodes, slice) else nodes.size
        made = np.empty((n_rows, unit.n_columns), np.float32)
        one_each = np.eye(unit.n_columns)
        for first in range(0, unit.n_columns, self.columns.width):
            part = slice(first, first + self.columns.width)
            rows = unit.values(one_each[:, part], watch)
            made[:, part] = self.columns.filtered(rows, teleport, watch)[nodes]
        return made

    def _there_and_back(
        self, unit: UnitRows, nodes: Int64Array, some: Int64Array, teleport: float, watch: Watch
    ) -> FloatArray:
        """As `inner`, by P' X X' P E_some at ``nodes``, which holds no H_L: twice the columns."""
        entries = np.empty((nodes.size, some.size))
        for first in range(0, some.size, self.columns.width):
            part = slice(first, first + self.columns.width)
            columns = list(self.columns.unit(some[part], teleport, watch).T)
            values = unit.values(unit.adjoint(columns, watch).T, watch)
            entries[:, part] = self.columns.filtered(values, teleport, watch)[nodes]
        return entries


@dataclass(slots=True, kw_only=True, eq=False)
class FilteredFeatures:
    """A graph with the features of its nodes, and the kernels between the labels so far."""

    graph: Graph
    rows: Rows | None  # as given
    smoothed: tuple[SmoothedRows, ...]  # along the graph, and each relation that it is a sum of
    shares: FloatArray  # (n_relations,) of the volume of the graph
    kernels: dict[tuple[int, float, bool], KernelEntries] = field(default_factory=dict)
    """By place in ``smoothed``, -1 for that of the graph alone, teleport probability, and whether
    they are for its judgement alone."""

    _unit: UnitRows | None = None
    _points: Float32Array | None = None

    @classmethod
    def of_graph(
        cls, graph: Graph, rows: Rows | None, parallel: Parallel, kept_bytes: int
    ) -> "FilteredFeatures":
        """The filters of a graph and, where there are features, of each relation that it sums."""
        parts = graph.parts if rows is not None else ()
        volumes = np.array([part.weight * part.graph.degree.sum() for part in parts])
        volumes = volumes if volumes.any() else np.ones(len(parts))  # of relations without edges
        graphs = (graph, *(part.graph for part in parts))
        return cls(
            graph=graph,
            rows=rows,
            smoothed=tuple(
                SmoothedRows.of_graph(each, parallel, kept_bytes // len(graphs)) for each in graphs
            ),
            shares=volumes / volumes.sum(),
        )

    @property
    def columns(self) -> PageRankColumns:
        """Of the filter along the graph."""
        return self.smoothed[0].columns

    @property
    def n_filtered(self) -> int:
        """Columns propagated so far, along whichever edges."""
        return sum(each.columns.n_filtered for each in self.smoothed)

    @property
    def unit(self) -> UnitRows:
        """The features with rows of unit length; raises ValueError if there are none."""
        if self._unit is None:
            if self.rows is None:
                raise ValueError("the nodes have no features; prepare with some")
            self._unit = UnitRows.of_rows(self.rows, self.graph.n_nodes)
        return self._unit

    def points(self, watch: Watch) -> Float32Array:
        """(n_nodes, rank) points of the graph's spectrum; raises `RunStopped`."""
        if self._points is None:
            subspace = spectral_subspace(self.graph, self.columns.pagerank, watch=watch)
            self._points = subspace.points()
        return self._points

    def kernel(
        self, arm: Arm, nodes: Int64Array, watch: Watch, *, is_judging: bool = False
    ) -> FloatArray:
        """(n_labeled, n_labeled) the kernel of an arm between ``nodes``; raises `RunStopped`."""
        teleport = arm.teleport

        def entries(place: int) -> KernelEntries:
            return self.kernels.setdefault((place, teleport, is_judging), KernelEntries())

        if not arm.has_features:
            return entries(-1).between(
                nodes, lambda some: self.columns.products(nodes, some, teleport, watch)
            )

        def along(place: int) -> FloatArray:
            each = self.smoothed[place]
            return entries(place).between(
                nodes, lambda some: each.inner(self.unit, nodes, some, teleport, watch)
            )

        kernel = _sum_of(factor * along(place) for place, factor in _used(arm))
        if arm.points:
            points = self.points(watch)[nodes].astype(np.float64)
            kernel += arm.points * (points @ points.T)
        return kernel

    def scores(
        self, arm: Arm, nodes: Int64Array, dual_coef: FloatArray, watch: Watch
    ) -> tuple[FloatArray, dict[int, FloatArray]]:
        """(K4) without its constant, (n_nodes, k), and weights of features by place in `smoothed`.

        The weights, (n_features, k) each, are times the factors of the arm. An arm with points has
        none, since new points have no place in the spectrum.
        """
        if not arm.has_features:
            sources = np.zeros((self.graph.n_nodes, dual_coef.shape[1]))
            sources[nodes] = dual_coef
            once = self.columns.filtered(sources, arm.teleport, watch)
            return self.columns.filtered(once, arm.teleport, watch), {}
        weights = {
            place: factor
            * self.smoothed[place].weights(self.unit, nodes, dual_coef, arm.teleport, watch)
            for place, factor in _used(arm)
        }
        scores = _sum_of(
            self.smoothed[place].columns.filtered(self.unit.values(own, watch), arm.teleport, watch)
            for place, own in weights.items()
        )
        if arm.points:
            points = self.points(watch)
            scores += arm.points * (points @ (points[nodes].T @ dual_coef))
            return scores, {}
        return scores, weights

    def functions(self, weights: dict[int, FloatArray], constant: FloatArray) -> LinearFunctions:
        """Functions of new points with the ``weights`` of `scores` and a (k,) constant."""
        whole = self.unit.functions(_sum_of(iter(weights.values())), constant)
        if len(self.smoothed) == 1:
            return whole
        parts = np.zeros((len(self.smoothed), *whole.weights[:-1].shape))
        for place, own in weights.items():
            parts[place] = own
        return FunctionsByRelation(weights=whole.weights, form=whole.form, parts=parts)


def _used(arm: Arm) -> list[tuple[int, float]]:
    """Places in `FilteredFeatures.smoothed` that an arm uses, and their factors."""
    return [(place, factor) for place, factor in enumerate(arm.factors) if factor]


def _sum_of(blocks: Iterator[FloatArray]) -> FloatArray:
    """Sum of blocks of equal shape, of which there is at least one."""
    total = next(blocks)
    for block in blocks:
        total = total + block
    return total
