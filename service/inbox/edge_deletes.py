"""Deletes of edges as a table of changes, which is ingested like a push."""

from collections.abc import Iterable, Sequence
from typing import IO

import numpy as np
import pyarrow as pa

from peewit.streaming.edges.bad_table import BadUpload
from peewit.streaming.edges.column_mapping import CHANGES, EdgeColumns
from peewit.streaming.edges.csv_tables import typed_edges
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.operations import DELETE, OPERATIONS, read_operations


def deletes_of_pairs(src: Sequence[str], dst: Sequence[str], node_kind: NodeKind) -> pa.RecordBatch:
    """Rows that delete some pairs, ids as text; BadUpload where one is no id of the graph."""
    if len(src) != len(dst) or not src:
        raise BadUpload(
            f"src and dst must be given equally often, at least once, got {len(src)} and {len(dst)}"
        )
    ends = pa.record_batch({"src": pa.array(src, pa.string()), "dst": pa.array(dst, pa.string())})
    return as_deletes(typed_edges(ends, node_kind, CHANGES, first_row=0))


def as_deletes(batch: pa.RecordBatch, columns: EdgeColumns = CHANGES) -> pa.RecordBatch:
    """Rows that delete the pairs of some edges; their weights do not matter."""
    op = pa.repeat(OPERATIONS[DELETE], batch.num_rows)
    ends = batch.column(columns.src), batch.column(columns.dst)
    return pa.record_batch([*ends, op], ["src", "dst", "op"])


def require_deletes(column: pa.Array, name: str, first_row: int) -> None:
    """Raise BadUpload for the first row of a feed of changes that does not delete."""
    op = read_operations(column, name, first_row)
    others = np.flatnonzero(op != DELETE) if op is not None else np.arange(min(len(column), 1))
    if others.size:
        row = int(others[0])
        raise BadUpload(
            f"column {name!r} must say delete in every row; ingest a feed of other changes",
            argument="op",
            row=first_row + row,
            value=column[row].as_py(),
        )


def write_deletes(batches: Iterable[pa.RecordBatch], into: IO[bytes]) -> None:
    """Write rows as an Arrow stream, then seek to its start."""
    remaining = (batch for batch in batches if batch.num_rows)
    first = next(remaining, None)
    if first is None:
        raise BadUpload("there must be at least one pair to delete")
    with pa.ipc.new_stream(into, first.schema) as writer:
        writer.write_batch(first)
        for batch in remaining:
            writer.write_batch(batch.cast(first.schema))
    into.seek(0)
