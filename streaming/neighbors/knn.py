"""k-NN graph of a graph's features, as a Parquet file of ordinary edges.

Neighbor lists come first, on the disk; from them the edges, block by block. Whoever ingests the
file need not know where it comes from. Memory: that of `neighbor_search`, and the external ids of
the nodes.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from peewit.solvers.arguments import BadArgument, require_one_of
from peewit.solvers.arrays import INT32_MAX, IntArray
from peewit.solvers.edge_merging import WeightedEdges
from peewit.solvers.extras import how_to_install
from peewit.solvers.features import FeatureRows
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.neighbors.neighbor_graph import (
    LEAST_WEIGHT,
    Symmetrization,
    TieRule,
    WeightName,
    edges_of,
    with_width,
)
from peewit.solvers.neighbors.neighbor_lists import Metric, NeighborLists, largest_entries
from peewit.streaming.durable_files import publish_file
from peewit.streaming.edges.node_kinds import TEXT, NodeKind
from peewit.streaming.neighbors.neighbor_search import EXACT_PRODUCTS, NeighborSearch, row_length
from peewit.streaming.nodes.index import Nodes

Method = Literal["auto", "exact", "approximate"]
"""How neighbors are searched: among all rows, in the cells nearest to a row, or whichever their
number asks for."""

ROWS_PER_GROUP: Final = 1 << 18
"""Least edges of a row group but the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnnSettings:
    """Settings of a k-NN graph.

    Method "auto" is exact for sparse features, and where that takes a minute or two at most. Raises
    ``BadArgument`` where a value breaks its rule.
    """

    k: int = 10  # neighbors of each node; fewer than the nodes with features
    weights: WeightName = "self-tuned"  # of a tie by its length
    symmetrize: Symmetrization = "mean"  # of the weights of two ties; a missing one counts 0
    metric: Metric = "euclidean"
    width: float | None = None  # of heat weights; None for the mean length of the edges
    method: Method = "auto"
    n_probes: int = 32  # cells of the approximate method: more find more, and take longer

    def __post_init__(self) -> None:
        for name in ("k", "n_probes"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise BadArgument(name, f"must be an integer, got {value!r}")
            if value < 1:
                raise BadArgument(name, f"must be at least 1, got {value}")
            if value > INT32_MAX:
                raise BadArgument(name, f"must be at most {INT32_MAX}, got {value}")
        for name, names in (("metric", Metric), ("method", Method)):
            require_one_of(name, getattr(self, name), get_args(names))
        width = self.width
        if width is not None and (isinstance(width, bool) or not isinstance(width, int | float)):
            raise BadArgument("width", f"must be a number, got {width!r}")
        self.rule()

    def rule(self) -> TieRule:
        """How the lists become weights."""
        return TieRule(weights=self.weights, symmetrize=self.symmetrize, width=self.width)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnnSummary:
    """Counts of the edges made."""

    n_edges: int  # of the file, each once
    n_nodes: int
    n_without_features: int  # hence without edges
    method: Method  # how neighbors were searched
    recall: float  # share of the true neighbors that were found; 1 by the exact method
    recall_rows: int  # that it was measured on; 0 where it is known
    n_short: int  # nodes for which fewer than k neighbors were found
    n_least: int  # edges whose weight would have been 0 and is the least there is
    width: float | None  # of heat weights


@dataclass(frozen=True, slots=True, kw_only=True)
class KnnPlace:
    """Paths of one run, and the kind of ids that it writes.

    The directory of ``output`` exists. ``work`` holds the lists and is removed once the file is
    there; what a killed run left in it is used by one that asks for the same.
    """

    output: Path  # the Parquet file
    work: Path
    node_kind: NodeKind  # of the external ids


def make_knn(
    rows: FeatureRows,
    nodes: Nodes,
    settings: KnnSettings,
    place: KnnPlace,
    *,
    features_version: int,
    seed: int,
    watch: Watch,
) -> KnnSummary:
    """Counts of the edges of the k-NN graph, which are written to ``place``.

    ``rows`` are finite and may be memory-mapped; lists of another ``features_version`` are not
    used. ``seed`` draws the approximate search and the rows that its recall is measured on.
    ``watch`` is called about once a second.

    After `RunStopped` there is no file, and the lists so far are in ``place.work``.
    """
    method = _method(rows, settings)
    _require_rows(rows, nodes, settings, watch)
    search = NeighborSearch(
        rows=rows,
        n_neighbors=settings.k,
        metric=settings.metric,
        n_probes=settings.n_probes if method == "approximate" else None,
        seed=seed,
    )
    inputs: dict[str, Any] = {
        "k": settings.k,
        "metric": settings.metric,
        "n_probes": search.n_probes,
        "seed": seed,
        "features_version": features_version,
        "n_rows": rows.n_rows,
        "shard_bytes": search.shard_bytes,
    }
    place.work.mkdir(parents=True, exist_ok=True)
    lists = search.lists(place.work, inputs, watch)
    recall, recall_rows = (1.0, 0) if method == "exact" else search.recall(lists, watch)
    watch.step("writing edges", 0, rows.n_rows)
    rule = with_width(settings.rule(), lists)
    n_edges, n_least = _write(lists, rule, rows, nodes, place, watch)
    n_short = int(np.count_nonzero(lists.neighbors[:, -1] < 0))
    del lists  # unmapped before its files go
    shutil.rmtree(place.work)
    return KnnSummary(
        n_edges=n_edges,
        n_nodes=nodes.n_nodes,
        n_without_features=nodes.n_nodes - rows.n_rows,
        method=method,
        recall=recall,
        recall_rows=recall_rows,
        n_short=n_short,
        n_least=n_least,
        width=rule.width,
    )


def _method(rows: FeatureRows, settings: KnnSettings) -> Method:
    """How to search, now that the rows are known."""
    if settings.method == "approximate" and rows.is_sparse:
        raise ValueError("method 'approximate' needs dense features, got sparse ones; take 'exact'")
    if settings.method == "exact" or rows.is_sparse:
        return "exact"
    if settings.method == "auto" and rows.n_rows**2 * row_length(rows) <= EXACT_PRODUCTS:
        return "exact"
    if find_spec("faiss") is None:
        raise ValueError(
            f"method {settings.method!r} needs faiss for these rows; "
            f"{how_to_install('knn')}. Or take 'exact', which takes longer"
        )
    return "approximate"


def _require_rows(rows: FeatureRows, nodes: Nodes, settings: KnnSettings, watch: Watch) -> None:
    """Raise ValueError where the rows make no graph."""
    if settings.k >= rows.n_rows:
        raise BadArgument(
            "k",
            f"must be below the number of nodes with features, got {settings.k} for "
            f"{rows.n_rows} nodes",
        )
    first, differs = rows.values[:1], False
    for place, values in rows.blocks():
        watch.step("looking at features", place.start, rows.n_rows)
        if settings.metric == "cosine":
            sizes = largest_entries(values)
            if not sizes.all():
                node = _external(rows, nodes, np.array([place.start + int(np.argmin(sizes))]))
                raise ValueError(
                    "metric 'cosine' needs features that are not zero, got zeros for node "
                    f"{node[0].as_py()!r}; take metric 'euclidean'"
                )
        if not differs:
            unequal = values != first[np.zeros(values.shape[0], np.int64)]
            differs = bool(unequal.nnz if rows.is_sparse else unequal.any())
    if not differs:
        raise BadArgument("features", "must differ between nodes, got equal ones for all of them")


def _write(
    lists: NeighborLists,
    rule: TieRule,
    rows: FeatureRows,
    nodes: Nodes,
    place: KnnPlace,
    watch: Watch,
) -> tuple[int, int]:
    """How many edges were written, and how many of the least weight."""
    id_type = pa.large_string() if place.node_kind in TEXT else pa.int64()
    schema = pa.schema([("src", id_type), ("dst", id_type), ("weight", pa.float32())])
    n_edges = n_least = 0

    def write(path: Path) -> None:
        nonlocal n_edges, n_least
        with pq.ParquetWriter(path, schema) as writer:
            for edges in _row_groups(lists, rule, watch):
                weight = edges.weight.astype(np.float32)
                columns = [
                    _external(rows, nodes, edges.u).cast(id_type),
                    _external(rows, nodes, edges.v).cast(id_type),
                    pa.array(weight),
                ]
                writer.write_table(pa.table(columns, schema=schema), row_group_size=edges.u.size)
                n_edges += edges.u.size
                n_least += int(np.count_nonzero(weight <= LEAST_WEIGHT))

    publish_file(place.output, write)
    return n_edges, n_least


def _row_groups(lists: NeighborLists, rule: TieRule, watch: Watch) -> Iterator[WeightedEdges]:
    """All edges, enough at a time for a row group."""
    waiting: list[WeightedEdges] = []
    for place in lists.blocks():
        watch.step("writing edges", place.start, lists.n_rows)
        waiting.append(edges_of(lists, place, rule))
        if sum(edges.u.size for edges in waiting) >= ROWS_PER_GROUP:
            yield _concatenate(waiting)
            waiting = []
    if waiting:
        yield _concatenate(waiting)


def _concatenate(edges: list[WeightedEdges]) -> WeightedEdges:
    return WeightedEdges(
        u=np.concatenate([part.u for part in edges]),
        v=np.concatenate([part.v for part in edges]),
        weight=np.concatenate([part.weight for part in edges]),
    )


def _external(rows: FeatureRows, nodes: Nodes, numbers: IntArray) -> pa.ChunkedArray:
    """External ids of the nodes of some rows."""
    owners = numbers if rows.nodes is None else rows.nodes[numbers]
    return nodes.external_ids().take(pa.array(owners))
