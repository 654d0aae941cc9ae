"""Deletes of edges as a table of changes, which is ingested like a push."""

from collections.abc import Iterable, Sequence
from typing import IO

import numpy as np
import pyarrow as pa

from peewit.streaming.edges.bad_table import BadUpload
from peewit.streaming.edges.column_mapping import CHANGES, EdgeColumns
from peewit.streaming.edges.csv.tables import converted
from peewit.streaming.edges.node_ids import id_type, named_ids
from peewit.streaming.edges.node_kinds import TEXT, NodeKind
from peewit.streaming.edges.operations import DELETE, OPERATIONS, read_operations


def deletes_of_pairs(src: Sequence[str], dst: Sequence[str], node_kind: NodeKind) -> pa.RecordBatch:
    """Rows that delete some pairs, ids as text; BadUpload where one is no id of the graph."""
    if len(src) != len(dst) or not src:
        raise BadUpload(
            f"src and dst must be given equally often, at least once, got {len(src)} and {len(dst)}"
        )
    kind = pa.string() if node_kind in TEXT else pa.int64()
    ends = [
        converted(pa.array(each, pa.string()), kind, name, 0)
        for name, each in (("src", src), ("dst", dst))
    ]
    return as_deletes(pa.record_batch(ends, ["src", "dst"]))


def as_deletes(batch: pa.RecordBatch, columns: EdgeColumns = CHANGES) -> pa.RecordBatch:
    """Rows that delete the pairs of some edges; their weights do not matter."""
    op = pa.repeat(OPERATIONS[DELETE], batch.num_rows)
    ends = [
        named_ids(batch.column(name), kind, name, 0) if kind else batch.column(name)
        for name, kind in zip(columns.nodes, columns.kinds, strict=True)
    ]
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


def lacking_note(names: Sequence[str], relations: Iterable[str]) -> str:
    """That rows delete from relations that a graph lacks so far; empty where none does."""
    lacking = [name for name in dict.fromkeys(relations) if name and name not in names]
    if not lacking:
        return ""
    has = ", ".join(map(relation_text, names)) or "edges of no relation alone"
    return f"the graph has no relation {', '.join(lacking)} to delete from; it has {has}"


def relation_text(name: str) -> str:
    """A relation in a message."""
    return name or "'', edges without a name"


def write_deletes(batches: Iterable[pa.RecordBatch], into: IO[bytes], node_kind: NodeKind) -> None:
    """Write rows as an Arrow stream, then seek to its start."""
    kind, n_rows = id_type(node_kind), 0
    schema = pa.schema([("src", kind), ("dst", kind), ("op", pa.string())])
    with pa.ipc.new_stream(into, schema) as writer:
        for batch in batches:
            writer.write_batch(batch.cast(schema))
            n_rows += batch.num_rows
    if not n_rows:
        raise BadUpload("there must be at least one pair to delete")
    into.seek(0)
