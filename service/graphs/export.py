"""Export of a snapshot's edges with external ids, a batch at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from peewit.service.catalog import GraphRecord
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.snapshots.store import SnapshotNotFound, SnapshotStore

ROWS_PER_BATCH: Final = 1 << 17


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SnapshotEdges:
    """Edges of a snapshot, ready to be written.

    The schema is ``src``, ``dst`` (string or int64) and ``weight`` (float64); where edges name
    relations also ``relation``, and a pair has a row in each that joins it.
    """

    number: int  # of the snapshot
    n_edges: int
    schema: pa.Schema
    _edges: Sequence[tuple[str | None, pa.Table]]  # by relation; None where no edge names one
    _names: pa.ChunkedArray

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All edges, each once, relation after relation, sorted by dense ids."""
        for relation, table in self._edges:
            for batch in table.to_batches(ROWS_PER_BATCH):
                columns = [
                    self._names.take(batch["u"]).combine_chunks(),
                    self._names.take(batch["v"]).combine_chunks(),
                    batch["weight"],
                ]
                if relation is not None:
                    columns.append(pa.repeat(relation, batch.num_rows))
                edges = pa.record_batch(columns, schema=self.schema)
                if self._names.null_count:  # of erased nodes, as long as the snapshot has them
                    shown = pc.and_(edges["src"].is_valid(), edges["dst"].is_valid())
                    edges = edges.filter(shown)
                yield edges


def snapshot_edges(
    graph: GraphRecord, graphs_directory: Path, nodes: KnownNodes, number: int | None = None
) -> SnapshotEdges:
    """The edges of a snapshot, the newest by default; raises `SnapshotNotFound`."""
    store = SnapshotStore(GraphPaths(root=graphs_directory / graph.id).snapshots)
    number = store.latest() if number is None else number
    if number is None:
        raise SnapshotNotFound(
            f"{graph.settings.name} has no snapshot yet; bring edges with `peewit ingest`"
        )
    relations = store.edges_of_relations(number)
    edges: Sequence[tuple[str | None, pa.Table]] = [*relations.items()]
    edges = edges or [(None, store.edges(number))]
    names = nodes.external_ids(graph, store.meta(number).n_nodes)
    schema = pa.schema([("src", names.type), ("dst", names.type), ("weight", pa.float64())])
    if relations:
        schema = schema.append(pa.field("relation", pa.string()))
    n_edges = sum(each.num_rows for _, each in edges)
    return SnapshotEdges(number=number, n_edges=n_edges, schema=schema, _edges=edges, _names=names)
