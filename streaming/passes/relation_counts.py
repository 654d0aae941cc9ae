"""Counts of relations: what each node sends and receives, and how many partners it has.

The field calls them out- and in-strength, out- and in-degree. How many partners a node's partners
have tells who shares a device or a card with others; the edges that are kept say who they are.
Context: who writes to many and hears from few is told by no weight of edges, and the snapshot holds
part of them. Decision: a pass over the raw edges counts both ways, and one file a graph, replaced
whole, keeps that until a tenth of the edges have come or gone. Consequence: direction is kept by
the raw edges and logs alone, and whether it is heeded may change at any time.
"""

import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from time import time
from typing import Final

import numpy as np
import pyarrow as pa

from peewit.solvers.arrays import Float32Array, FloatArray, Int64Array, UInt64Array
from peewit.solvers.graph import Graph
from peewit.solvers.row_ranges import row_blocks
from peewit.streaming.durable_files import remove_abandoned
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.edge_folds import ArcSums
from peewit.streaming.passes.edge_passes import OnFraction
from peewit.streaming.passes.raw_edge_passes import snapshot_edges, spool_directory
from peewit.streaming.passes.replaced_table import ReplacedTable
from peewit.streaming.snapshots.provenance import SnapshotMeta
from peewit.streaming.snapshots.store import SnapshotStore

_FILE: Final = "counts.arrow"
_FORMAT: Final = 2
_GROWTH: Final = 0.1
"""Part of the edges that may have come or gone before they are counted anew."""

_BITS: Final = 64
_WAYS: Final = ("sent", "received", "sent_to", "heard_from", "partners", "most")


@dataclass(frozen=True, slots=True, kw_only=True)
class CountsMeta:
    """Provenance of counts."""

    snapshot: int  # its number
    n_nodes: int
    n_changes: int  # edges that had come or gone
    n_removed_files: int  # as of `SnapshotMeta`
    n_erased: int
    relations: tuple[str, ...]
    is_two_way: tuple[bool, ...]  # whether some node is source and target, by relation

    def serves(self, meta: SnapshotMeta) -> bool:
        """Whether the counts are near enough those of a snapshot."""
        if (self.n_removed_files, self.n_erased) != (meta.n_removed_files, meta.n_erased):
            return False
        n_since = meta.edges_seen + meta.n_gone - self.n_changes
        return (
            self.relations == _names(meta)
            and self.n_nodes <= meta.n_nodes
            and 0 <= n_since <= _GROWTH * max(self.n_changes, 1)
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RelationCounts:
    """Counts of every relation, memory-mapped: (n_nodes,) each of what `_WAYS` names.

    Of a relation that is ``directed``, or where a node stands at both ends, each way counts by
    itself; of others, which join nodes with things, edges and partners do, and how many partners
    the most shared thing has.
    """

    meta: CountsMeta
    columns: dict[tuple[str, str], Float32Array]  # by relation and way

    def names(self, directed: Collection[str]) -> tuple[str, ...]:
        """Names of the columns of `rows`."""
        return tuple(
            f"{relation} {way}".strip()
            for relation, is_two_way in zip(self.meta.relations, self.meta.is_two_way, strict=True)
            for way in _names_of_ways(is_directed=relation in directed, is_two_way=is_two_way)
        )

    def rows(self, directed: Collection[str], nodes: Int64Array) -> Float32Array:
        """(n_some, n_columns) logarithms of one more than each count of some nodes.

        Those of nodes that have come since are 0.
        """
        is_known = nodes < self.meta.n_nodes
        known, columns = nodes[is_known], []
        for relation, is_two_way in zip(self.meta.relations, self.meta.is_two_way, strict=True):
            sent, received, sent_to, heard_from, partners, most = (
                self.columns[relation, way][known] for way in _WAYS
            )
            if relation in directed or is_two_way:
                columns += [sent, received, sent_to, heard_from]
            else:
                columns += [sent + received, partners, most]
        rows = np.zeros((nodes.size, len(columns)), np.float32)
        rows[is_known] = np.log1p(np.column_stack(columns))
        return rows


def _names_of_ways(*, is_directed: bool, is_two_way: bool) -> tuple[str, ...]:
    if is_directed:
        return "sent", "received", "sent to", "heard from"
    if is_two_way:
        return "out", "in", "partners out", "partners in"
    return "edges", "partners", "most partners of a partner"


class CountsStore(ReplacedTable):
    """The counts of one graph."""

    def __init__(self, paths: GraphPaths) -> None:
        super().__init__(paths.counts / _FILE, _FORMAT)

    def open(self) -> RelationCounts | None:
        """The counts; None while there are none, or none that this version can read."""
        stored = self._read()
        if stored is None:
            return None
        provenance, batch = stored
        lists = {name: tuple(provenance[name]) for name in ("relations", "is_two_way")}
        meta = CountsMeta(**provenance | lists)
        places = [(relation, way) for relation in meta.relations for way in _WAYS]
        columns = {place: batch.column(at).to_numpy() for at, place in enumerate(places)}
        return RelationCounts(meta=meta, columns=columns)

    def publish(self, counts: RelationCounts) -> None:
        """Replace the counts, whole or not at all; raises OSError."""
        columns = {str(at): pa.array(each) for at, each in enumerate(counts.columns.values())}
        self._publish(asdict(counts.meta), columns)


def count_arcs_of(
    paths: GraphPaths,
    meta: SnapshotMeta,
    *,
    attempt: str,
    keep_raw: bool,
    n_threads: int = 1,
    scheduler: str | None = None,
    on_fraction: OnFraction = lambda _fraction: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> RelationCounts:
    """Count the raw edges of a snapshot, a pass for each relation, and keep that.

    ``attempt`` names a directory of work that nobody else uses. ``on_fraction`` takes the part of
    the pass in hand. Raises as `snapshot_edges` and `EdgePasses.open`.
    """
    own = paths.counts / attempt
    own.mkdir(parents=True, exist_ok=True)
    remove_abandoned(paths.counts, keep=own, now=time())
    columns: dict[tuple[str, str], Float32Array] = {}
    try:
        with snapshot_edges(
            paths,
            meta,
            spool=spool_directory(paths, own / "spool", keep_raw=keep_raw),
            staging=own / "staging",
            n_threads=n_threads,
            scheduler=scheduler,
        ) as edges:
            edges.open(on_fraction=on_fraction, cancelled=cancelled)
            kept = SnapshotStore(paths.snapshots).load_relations(meta.number)
            for relation in _names(meta):
                sums = edges.arcs(relation, on_fraction=on_fraction, cancelled=cancelled)
                counted = zip(_WAYS, _counts(sums, kept[relation]), strict=True)
                columns |= {(relation, way): each for way, each in counted}
    finally:
        shutil.rmtree(own, ignore_errors=True)
    counts = RelationCounts(
        meta=CountsMeta(
            snapshot=meta.number,
            n_nodes=meta.n_nodes,
            n_changes=meta.edges_seen + meta.n_gone,
            n_removed_files=meta.n_removed_files,
            n_erased=meta.n_erased,
            relations=_names(meta),
            is_two_way=tuple(
                bool(((columns[each, "sent"] > 0) & (columns[each, "received"] > 0)).any())
                for each in _names(meta)
            ),
        ),
        columns=columns,
    )
    CountsStore(paths).publish(counts)
    return counts


def _names(meta: SnapshotMeta) -> tuple[str, ...]:
    return tuple(meta.log_versions)


def _counts(sums: ArcSums, kept: Graph) -> Sequence[Float32Array]:
    """(n_nodes,) each, as `_WAYS` names them."""
    sent_to, heard_from = sums.partners.T
    partners = [n_partners(each) for each in (sent_to, heard_from, sent_to | heard_from)]
    most = most_among_neighbors(kept, partners[-1])
    return [each.astype(np.float32) for each in (*sums.weight.T, *partners, most)]


def most_among_neighbors(kept: Graph, partners: FloatArray) -> FloatArray:
    """(n_nodes,) the most of ``partners`` among each node's neighbors; 0 of none."""
    adjacency = kept.adjacency
    n_neighbors, most = np.diff(adjacency.indptr), np.zeros(kept.n_nodes)
    for rows in row_blocks(kept.n_nodes):
        own = rows.start + np.flatnonzero(n_neighbors[rows])
        if own.size:
            first, last = adjacency.indptr[own[0]], adjacency.indptr[own[-1] + 1]
            values = partners[adjacency.indices[first:last]]
            most[own] = np.maximum.reduceat(values, adjacency.indptr[own] - first)
    return most


def n_partners(bits: UInt64Array) -> FloatArray:
    """(n_nodes,) whole numbers near the estimates (K20) of different partners.

    Each partner sets one of the ``bits``. 311 where all are set, of which it cannot tell more.
    """
    unset = _BITS - np.bitwise_count(bits).astype(np.float64)
    estimates: FloatArray = np.rint(_BITS * np.log(_BITS / np.maximum(unset, 0.5)))
    return estimates
