"""Features of live sources: the rows of a chunk as a set that waits for ingest.

A row replaces the row of its node; one that breaks a rule is refused alone. A row that is deleted
in a source stays in the graph, which can only erase a node with its features, and is reported as
refused.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Connection

from peewit.service.catalog import GraphRecord, lock_graph
from peewit.service.graphs.allowed_nodes import node_check, require_same_erasures
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.inbox.feature_log import FeatureLog, NewFeatureSet
from peewit.service.inbox.inbox_records import SourceRecord
from peewit.service.inbox.live_intakes import Taken
from peewit.service.inbox.live_positions import PositionMoved
from peewit.service.inbox.source_columns import source_kinds
from peewit.service.live_sources.chunk_rows import (
    ids_of,
    operation_number,
    operations_of,
    places_of,
)
from peewit.service.live_sources.contract import Refused
from peewit.service.settings import Settings
from peewit.service.tables.uploads import NodeId, id_type, node_array
from peewit.streaming.durable_files import make_durable_directory
from peewit.streaming.edges.bad_table import BadTable
from peewit.streaming.edges.operations import DELETE
from peewit.streaming.features.checked_tables import (
    DENSE_COLUMNS,
    NODE,
    SPARSE_COLUMNS,
    BadFeatures,
    FeatureBlock,
    read_features,
)
from peewit.streaming.features.feature_files import write_set
from peewit.streaming.features.store import FeaturesNotFound, FeatureStore
from peewit.streaming.graph_paths import GraphPaths


class _Shape(NamedTuple):
    """The shape of a graph's rows; ``n_columns`` matters where they are dense."""

    is_sparse: bool
    n_columns: int | None

    def fits(self, new: NewFeatureSet) -> bool:
        """Whether rows of a set may be among these."""
        same = new.is_sparse or new.n_columns == self.n_columns
        return new.is_sparse == self.is_sparse and same


class FeatureIntake:
    """Writes chunks of features as sets of their graph."""

    most_rows: ClassVar[int] = 1 << 16

    def __init__(self, log: FeatureLog, nodes: KnownNodes, settings: Settings) -> None:
        self._log = log
        self._nodes = nodes
        self._settings = settings

    def has_room(self, source: SourceRecord) -> bool:
        """Whether less than the limit of the graph's features waits for ingest."""
        return self._log.waiting_bytes(source.graph_id) < self._settings.max_backlog_bytes

    def take(
        self, source: SourceRecord, graph: GraphRecord, table: pa.Table, /, *, label: str
    ) -> Taken:
        """The rows on disk, checked."""
        places, refused = places_of(table, label), dict[int, str]()
        (of_kind,) = source_kinds(graph.settings, source)
        last = self._last_rows(table, graph, of_kind, refused)
        shape = self._shape(graph.id, graph.features_version) or _shape_of(table)
        columns = SPARSE_COLUMNS if shape.is_sparse else DENSE_COLUMNS
        blocks: list[FeatureBlock] = []
        if set(columns) <= set(table.column_names):
            blocks += _blocks(table.select(columns), last, graph, shape, refused)
        else:
            kinds = "sparse, as indices and values" if shape.is_sparse else "dense, as features"
            refused |= dict.fromkeys(last.values(), f"a row must be {kinds}, as those there are")
        new = None
        try:
            new = self._write(source, graph, blocks) if blocks else None
        except BadFeatures as error:  # as of sparse rows without any entry
            refused |= dict.fromkeys(last.values(), error.reason)

        def store(connection: Connection) -> Sequence[Refused]:
            require_same_erasures(connection, graph)
            if new is not None:
                self._require_same_shape(connection, graph.id, new)
                self._log.add(graph.id, new, max_waiting_bytes=None, connection=connection)
            return ()

        return Taken(
            store=store,
            refused=[Refused(place=places[row], reason=refused[row]) for row in sorted(refused)],
            path=None if new is None else Path(new.path),
        )

    def _write(
        self, source: SourceRecord, graph: GraphRecord, blocks: Sequence[FeatureBlock]
    ) -> NewFeatureSet:
        """A set on disk, whose file is swept unless a row names it."""
        directory = GraphPaths(root=self._settings.graphs_directory / graph.id).feature_sets
        make_durable_directory(directory)
        path = directory / f"{uuid4().hex}.arrow"
        written = write_set(path, blocks)
        return NewFeatureSet(
            mode="add",
            path=str(path),
            n_rows=written.n_rows,
            n_columns=written.n_columns,
            is_sparse=written.is_sparse,
            n_bytes=path.stat().st_size,
            source_id=source.id,
        )

    def _last_rows(
        self, table: pa.Table, graph: GraphRecord, of_kind: str, refused: dict[int, str]
    ) -> dict[NodeId, int]:
        """The last row of each node, of those that keep the rules of nodes and set something."""
        check = node_check(graph, self._nodes)
        last: dict[NodeId, int] = {}
        deleting: dict[NodeId, int] = {}
        ids = ids_of(table, id_type(graph.settings.node_ids), of_kind)
        for row, (node, op) in enumerate(zip(ids, operations_of(table), strict=True)):
            try:
                checked, is_delete = check(node), operation_number(op) == DELETE
            except BadTable as error:
                refused[row] = str(error)
                continue
            last.pop(checked, None)
            deleting.pop(checked, None)
            (deleting if is_delete else last)[checked] = row
        for node, row in deleting.items():
            refused[row] = f"features of node {node!r} stay: they are replaced, not taken back"
        return last

    def _require_same_shape(
        self, connection: Connection, graph_id: str, new: NewFeatureSet
    ) -> None:
        """Raise PositionMoved where somebody else's rows came first and have another shape."""
        version = lock_graph(connection, graph_id).features_version
        shape = self._shape(graph_id, version, connection=connection)
        if shape is not None and not shape.fits(new):
            raise PositionMoved(f"rows of features of graph {graph_id} have another shape by now")

    def _shape(
        self, graph_id: str, version: int, *, connection: Connection | None = None
    ) -> _Shape | None:
        """Shape of the rows that wait for the graph, or are in it; None where there are none."""
        for waiting in reversed(self._log.waiting(graph_id, connection=connection)):
            return _Shape(waiting.is_sparse, waiting.n_columns)
        paths = GraphPaths(root=self._settings.graphs_directory / graph_id)
        try:
            present = FeatureStore(paths.features).meta(version)
        except FeaturesNotFound:
            return None
        return _Shape(present.is_sparse, present.n_columns)


def _shape_of(table: pa.Table) -> _Shape:
    """Shape of the first row of a chunk with features, where the graph has none."""
    dense, sparse = _first_row(table, "features"), _first_row(table, "indices")
    if sparse < dense:
        return _Shape(is_sparse=True, n_columns=None)
    first = table.column("features")[dense].as_py() if dense < table.num_rows else None
    return _Shape(is_sparse=False, n_columns=len(first) if isinstance(first, list) else None)


def _first_row(table: pa.Table, name: str) -> int:
    """The first row that has a value in a column; behind the last one where none has."""
    if name not in table.column_names:
        return int(table.num_rows)
    place = pc.index(table.column(name).is_valid(), True).as_py()
    return int(table.num_rows if place < 0 else place)


def _blocks(
    table: pa.Table,
    last: dict[NodeId, int],
    graph: GraphRecord,
    shape: _Shape,
    refused: dict[int, str],
) -> Iterator[FeatureBlock]:
    """Rows that keep the data contract; the others, found by bisection, are refused."""
    rows = list(last.values())
    table = table.take(pa.array(rows, pa.int64()))
    table = table.append_column(NODE, node_array(last, graph.settings.node_ids))

    def checked(start: int, stop: int) -> Iterator[FeatureBlock]:
        try:
            yield read_features(
                table.slice(start, stop - start),
                node_kind=graph.settings.node_ids,
                max_nodes=graph.settings.max_nodes,
                n_columns=shape.n_columns,
            )
        except BadTable as error:
            if stop - start == 1:
                received = "" if error.value is None else f", got {error.value}"
                refused[rows[start]] = f"{error.reason}{received}"
                return
            middle = (start + stop) // 2
            yield from checked(start, middle)
            yield from checked(middle, stop)

    if rows:
        yield from checked(0, len(rows))
