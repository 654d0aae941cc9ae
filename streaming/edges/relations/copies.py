"""Copies: checked edges as Parquet, in row groups of a fixed size and of one relation each."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from peewit.solvers.relations.relation_names import MOST_RELATIONS
from peewit.streaming.edges.blocks import RawBlock
from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.node_ids import id_type
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.operations import OPERATIONS
from peewit.streaming.edges.parts import RELATIONS_KEY, columns_of_copy
from peewit.streaming.edges.relations import UNNAMED
from peewit.streaming.edges.relations.columns import too_many_relations

ROWS_PER_GROUP: Final = 1 << 18
"""Rows of a row group of a copy."""

WAITING_BYTES: Final = 1 << 26
"""Most bytes of rows of several relations that wait for a row group of their own."""


@dataclass(slots=True)
class _Waiting:
    """Rows of one relation that are in no row group yet."""

    tables: list[pa.Table] = field(default_factory=list)
    n_rows: int = 0
    n_bytes: int = 0


class EdgeCopy:
    """Takes blocks of checked edges and writes them to a Parquet file."""

    def __init__(self, writer: pq.ParquetWriter, columns: EdgeColumns) -> None:
        self._writer = writer
        self._columns = columns
        self._waiting: dict[str, _Waiting] = {}  # in the order of first appearance
        self._of_groups: list[str] = []

    def add(self, block: RawBlock) -> None:
        """Take rows; raises `BadEdges` where they are of too many relations."""
        table = self._table(block)
        if block.relation is None:
            self._add(UNNAMED, table)
            return
        numbers, names = block.relation.indices.to_numpy(), block.relation.dictionary.to_pylist()
        order = np.argsort(numbers, kind="stable")
        ends = np.searchsorted(numbers[order], np.arange(1, len(names)))
        for name, rows in zip(names, np.split(order, ends), strict=len(names) > 0):
            # taken, as a slice would hold the memory of all rows
            self._add(name, table.take(pa.array(rows)) if len(names) > 1 else table)
        while sum(each.n_bytes for each in self._waiting.values()) > WAITING_BYTES:
            largest = max(self._waiting, key=lambda name: self._waiting[name].n_bytes)
            self._write(largest, least_rows=1)

    def end(self) -> None:
        """Write what waits, and where each relation stands."""
        for name in self._waiting:
            self._write(name, least_rows=1)
        if self._columns.relation_column is not None:
            relations = list(self._waiting)
            of_groups = [relations.index(name) for name in self._of_groups]
            said = json.dumps({"relations": relations, "of_groups": of_groups})
            self._writer.add_key_value_metadata({RELATIONS_KEY.decode(): said})

    def _table(self, block: RawBlock) -> pa.Table:
        nodes = block.src, *(block.cells or (block.dst,))
        columns = dict(zip(columns_of_copy(self._columns), nodes, strict=True))
        columns["weight"] = block.weight
        if self._columns.op is not None:
            op = np.zeros(block.n_rows, np.int8) if block.op is None else block.op
            columns["op"] = pa.DictionaryArray.from_arrays(op.astype(np.int8), OPERATIONS)
        if self._columns.time is not None:
            columns["time"] = pa.array(block.time)
        return pa.table(columns).cast(self._writer.schema)

    def _add(self, name: str, rows: pa.Table) -> None:
        waiting = self._waiting.get(name)
        if waiting is None:
            if len(self._waiting) == MOST_RELATIONS:
                raise too_many_relations(self._columns.relation_column or "")
            waiting = self._waiting[name] = _Waiting()
        waiting.tables.append(rows)
        waiting.n_rows += rows.num_rows
        waiting.n_bytes += rows.nbytes
        if waiting.n_rows >= ROWS_PER_GROUP:
            self._write(name, least_rows=ROWS_PER_GROUP)

    def _write(self, name: str, *, least_rows: int) -> None:
        """Write row groups of the fixed size, and one of the rest where that has enough rows."""
        waiting = self._waiting[name]
        rows = pa.concat_tables(waiting.tables) if waiting.tables else None
        while rows is not None and rows.num_rows >= least_rows:
            self._writer.write_table(rows.slice(0, ROWS_PER_GROUP), row_group_size=ROWS_PER_GROUP)
            self._of_groups.append(name)
            rows = rows.slice(ROWS_PER_GROUP)
        if rows is None or not rows.num_rows:
            self._waiting[name] = _Waiting()
        else:
            self._waiting[name] = _Waiting([rows], rows.num_rows, rows.nbytes)


@contextmanager
def edge_copy(path: str, columns: EdgeColumns, node_kind: NodeKind) -> Iterator[EdgeCopy]:
    """A copy that is whole once the block ends without an error."""
    ids = id_type(node_kind)
    schema = pa.schema([(name, ids) for name in columns_of_copy(columns)])
    schema = schema.append(pa.field("weight", pa.float32()))
    if columns.op is not None:
        schema = schema.append(pa.field("op", pa.dictionary(pa.int8(), pa.string())))
    if columns.time is not None:
        schema = schema.append(pa.field("time", pa.timestamp("us")))
    with pq.ParquetWriter(path, schema, compression="lz4") as writer:
        copy = EdgeCopy(writer, columns)
        yield copy
        copy.end()
