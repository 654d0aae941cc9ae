"""Columns of personalized PageRank at labeled nodes, kept from solve to solve.

P of (K1) does not change when labels do, so one more label is one more column. Columns that do not
fit the memory are computed anew; answers do not depend on it.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray, Int64Array, RealArray
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import UNWATCHED, Watch
from peewit.solvers.laplacian.walks.personalized_pagerank import PersonalizedPageRank
from peewit.solvers.models.contract.model import KEPT_BYTES
from peewit.solvers.row_ranges import Parallel

_MAX_COLUMNS: Final = 32
_BLOCK_ENTRIES: Final = 1 << 24
"""Entries of the columns that are computed at once, held in four blocks of this size."""

_CHUNK_ROWS: Final = 1 << 14

_Key = tuple[float, int]


@dataclass(slots=True, kw_only=True, eq=False)
class RecentVectors:
    """Vectors by teleport probability and node; the least recently used are dropped first."""

    kept_bytes: int  # limit, except for the last vectors returned
    _vectors: "OrderedDict[_Key, Float32Array]" = field(default_factory=OrderedDict)

    def n_known(self, nodes: Int64Array, teleport: float) -> int:
        """Of how many nodes the vectors are there."""
        return sum((teleport, node) in self._vectors for node in nodes.tolist())

    def of_nodes(
        self,
        nodes: Int64Array,
        teleport: float,
        make: Callable[[Int64Array], Iterator[Float32Array]],
    ) -> list[Float32Array]:
        """Vectors of ``nodes``; ``make`` yields the missing ones in the order of its argument."""
        keys = [(teleport, node) for node in nodes.tolist()]
        missing = [node for at, node in keys if (at, node) not in self._vectors]
        made = dict(zip(missing, make(np.array(missing, np.int64)), strict=True))
        vectors = []
        for key in keys:
            vector = self._vectors.pop(key, None)
            vectors.append(made[key[1]] if vector is None else vector)
            self._vectors[key] = vectors[-1]
        n_bytes = sum(vector.nbytes for vector in self._vectors.values())
        while self._vectors and n_bytes > self.kept_bytes:
            n_bytes -= self._vectors.popitem(last=False)[1].nbytes
        return vectors


@dataclass(slots=True, kw_only=True, eq=False)
class PageRankColumns:
    """P E_L of a graph, for any labeled nodes L and teleport probability."""

    pagerank: PersonalizedPageRank
    recent: RecentVectors  # the columns
    n_filtered: int = 0  # columns propagated so far

    @classmethod
    def of_graph(
        cls, graph: Graph, parallel: Parallel = map, kept_bytes: int = KEPT_BYTES
    ) -> "PageRankColumns":
        """The normalized matrix, and no column so far."""
        return cls(
            pagerank=PersonalizedPageRank.of_graph(graph, parallel),
            recent=RecentVectors(kept_bytes=kept_bytes),
        )

    @property
    def n_nodes(self) -> int:
        """Length of a column."""
        return self.pagerank.n_nodes

    @property
    def width(self) -> int:
        """Columns that are computed at once."""
        return max(1, min(_MAX_COLUMNS, _BLOCK_ENTRIES // max(self.n_nodes, 1)))

    @property
    def most(self) -> int:
        """Columns that may be held at once."""
        return max(self.width, self.recent.kept_bytes // max(4 * self.n_nodes, 1))

    def at(
        self, nodes: Int64Array, teleport: float, watch: Watch = UNWATCHED
    ) -> list[Float32Array]:
        """The columns of at most `most` nodes, (n_nodes,) each; raises `RunStopped`."""

        def make(missing: Int64Array) -> Iterator[Float32Array]:
            for first in range(0, missing.size, self.width):
                watch.step("columns", first, missing.size)
                chosen = missing[first : first + self.width]
                block = self.unit(chosen, teleport, watch)
                yield from np.ascontiguousarray(block.T)

        return self.recent.of_nodes(nodes, teleport, make)

    def filtered(self, block: RealArray, teleport: float, watch: Watch = UNWATCHED) -> FloatArray:
        """P @ ``block``, (n_nodes, k) float64, some columns at a time; raises `RunStopped`."""
        out = np.empty(block.shape)
        for first in range(0, block.shape[1], self.width):
            watch.step("scores", first, block.shape[1])
            part = slice(first, first + self.width)
            self.n_filtered += block[:, part].shape[1]
            out[:, part] = self.pagerank.filtered(block[:, part], teleport, watch=watch)
        return out

    def unit(self, nodes: Int64Array, teleport: float, watch: Watch = UNWATCHED) -> Float32Array:
        """(n_nodes, k) the columns of at most `width` nodes, not kept; raises `RunStopped`."""
        self.n_filtered += nodes.size
        return self.pagerank.unit_columns(nodes, teleport, watch=watch)

    def between(self, nodes: Int64Array, teleport: float, watch: Watch = UNWATCHED) -> FloatArray:
        """(n_labeled, n_labeled) entries of P between ``nodes``; raises `RunStopped`."""
        entries = np.empty((nodes.size, nodes.size))
        for first in range(0, nodes.size, self.most):
            part = slice(first, first + self.most)
            for place, column in enumerate(self.at(nodes[part], teleport, watch), first):
                entries[:, place] = column[nodes]
        return (entries + entries.T) / 2

    def products(
        self, nodes: Int64Array, others: Int64Array, teleport: float, watch: Watch = UNWATCHED
    ) -> FloatArray:
        """(n_nodes, n_others) entries of P'P between ``nodes`` and ``others``; raises `RunStopped`.

        From the columns if all may be held, else by filtering those of ``others`` twice.
        """
        union = np.union1d(nodes, others)
        entries = np.zeros((nodes.size, others.size))
        if union.size > self.most:
            for first in range(0, others.size, self.width):
                part = slice(first, first + self.width)
                once = self.unit(others[part], teleport, watch)
                entries[:, part] = self.filtered(once, teleport, watch)[nodes]
            return entries
        columns = dict(zip(union.tolist(), self.at(union, teleport, watch), strict=True))
        left = [columns[node] for node in nodes.tolist()]
        right = [columns[node] for node in others.tolist()]
        for start in range(0, self.n_nodes, _CHUNK_ROWS):
            watch.check()
            rows = slice(start, start + _CHUNK_ROWS)
            entries += stacked(left, rows) @ stacked(right, rows).T
        return entries


@dataclass(slots=True, kw_only=True, eq=False)
class KernelEntries:
    """A kernel between labeled nodes that grows with the labels."""

    nodes: Int64Array = field(default_factory=lambda: np.zeros(0, np.int64))  # increasing
    values: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))  # symmetric

    def between(self, nodes: Int64Array, columns: Callable[[Int64Array], FloatArray]) -> FloatArray:
        """Entries between ``nodes``, increasing.

        ``columns`` makes those of new nodes, (n_labeled, n_some).
        """
        is_known = np.isin(nodes, self.nodes, assume_unique=True)
        place = np.searchsorted(self.nodes, nodes[is_known])
        values = np.zeros((nodes.size, nodes.size))
        values[np.ix_(is_known, is_known)] = self.values[np.ix_(place, place)]
        fresh = np.flatnonzero(~is_known)
        if fresh.size:
            made = columns(nodes[fresh])
            made[fresh] = (made[fresh] + made[fresh].T) / 2
            values[:, fresh], values[fresh] = made, made.T
        self.nodes, self.values = nodes, values
        return values


def stacked(columns: list[Float32Array], rows: slice | Int64Array) -> Float32Array:
    """(n_columns, n_rows) some rows of columns."""
    return np.stack([column[rows] for column in columns])
