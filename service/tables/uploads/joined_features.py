"""Tables that describe the same nodes, joined by these into one table of features.

Rows are parted by a hash of their node, on the disk once they are many; then each part is joined in
memory.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeAlias
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.service.tables.uploads.limits import UploadLimits, counted
from peewit.service.tables.uploads.raw_features import LISTS, columns_of_nodes
from peewit.solvers.arrays import AnyArray
from peewit.streaming.edges.columns import checked_ids
from peewit.streaming.edges.node_kinds import TEXT, NodeKind, split_column
from peewit.streaming.edges.reading_options import NodelessRows
from peewit.streaming.edges.table_formats import format_of_file, unpacked
from peewit.streaming.features.checked_tables import NODE, BadFeatures, naming_file

Types: TypeAlias = dict[str, pa.DataType]

_HELD_BYTES: Final = 1 << 26
"""Bytes of rows that are held in memory before they are parted on the disk."""

_PARTS: Final = 256
_BATCH_BYTES: Final = 1 << 24
_KEY: Final = "\0node"
_LONGEST_NAME: Final = 100
_NO_WORD: Final = re.compile(r"[^\w-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTable:
    """A table with one row for each of some nodes."""

    path: Path
    node: str  # its column of nodes, with their kind before it if they have one


def joined_names(tables: Sequence[tuple[str, Sequence[str]]]) -> list[dict[str, str]]:
    """What columns of files are called in their join: as they are, those of equal names by file.

    ``tables`` are names of files and of their columns without those of nodes.
    """
    counts = Counter(name for _, names in tables for name in names)
    stems = [_NO_WORD.sub("_", file.split(".")[0]) for file, _ in tables]
    files = [
        stem if stems.count(stem) == 1 else f"{stem}{place}" for place, stem in enumerate(stems, 1)
    ]
    return [
        {
            name: name if counts[name] == 1 and name not in {NODE, *LISTS} else f"{file}.{name}"
            for name in names
        }
        for file, (_, names) in zip(files, tables, strict=True)
    ]


def joined_file(files: Sequence[str]) -> str:
    """The name of the file of a join."""
    stems = "+".join(_NO_WORD.sub("_", each.split(".")[0]) for each in files)
    return f"{stems[:_LONGEST_NAME]}.arrow"


def join_tables(
    tables: Sequence[NodeTable],
    target: Path,
    *,
    node_kind: NodeKind,
    max_nodes: int,
    missing_ids: NodelessRows = "refuse",
    limits: UploadLimits | None = None,
) -> int:
    """Write an Arrow stream with a row for each node of some tables, null where one lacks the node.

    Its columns are `NODE` and those of the tables by `joined_names`. Returns how many rows were
    left out as they name no node. Memory is that of the 256th part of all rows, or of 64 MiB.
    Raises BadTable, with the name of the file, where one cannot be read, a node stands twice in it,
    or it has lists of features.
    """
    with TemporaryDirectory(dir=target.parent) as directory, ExitStack() as stack:
        parts = _Parts(
            Path(directory), [pa.string() if node_kind in TEXT else pa.int64()] * len(tables)
        )
        n_left_out = 0
        for place, table in enumerate(tables):
            with naming_file(table.path.name):
                for batch, n_nodeless in _batches(table, node_kind, max_nodes, missing_ids, limits):
                    parts.add(place, batch)
                    n_left_out += n_nodeless
        files = [table.path.name for table in tables]
        names = joined_names(list(zip(files, parts.names, strict=True)))
        writer: pa.RecordBatchStreamWriter | None = None
        for of_tables in parts.parted():
            for table, rows in zip(tables, of_tables, strict=True):
                with naming_file(table.path.name):
                    _require_distinct(table, rows)
            part = _joined(of_tables, names)
            if writer is None:
                sink = stack.enter_context(pa.OSFile(str(target), "wb"))
                writer = stack.enter_context(pa.ipc.new_stream(sink, part.schema))
            n_rows = max(1, _BATCH_BYTES * part.num_rows // max(part.nbytes, 1))
            writer.write_table(part, max_chunksize=n_rows)
    return n_left_out


def _batches(
    table: NodeTable,
    node_kind: NodeKind,
    max_nodes: int,
    missing_ids: NodelessRows,
    limits: UploadLimits | None,
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Columns as they stand, beside checked ids in `_KEY`, and how many rows name no node."""
    table_format, compression = format_of_file(table.path.name)
    of_kind, node = split_column(table.node)
    first_row = 0
    with unpacked(table.path, compression) as file:
        batches = columns_of_nodes(file, table_format, node_kind, node, limits, unwanted=None)
        for batch in counted(batches, limits):
            columns = dict(zip(batch.schema.names, batch.columns, strict=True))
            ids, are_named = checked_ids(
                columns.pop(node),
                name=node,
                node_kind=node_kind,
                max_nodes=max_nodes,
                first_row=first_row,
                of_kind=of_kind,
                missing_ids=missing_ids,
            )
            for name in columns.keys() & set(LISTS):
                if pa.types.is_nested(columns[name].type):
                    rule = "must not hold lists in a table that is joined"
                    raise BadFeatures(
                        f"column {name!r} {rule}; give each number a column", argument=name
                    )
            first_row += batch.num_rows
            if len(ids) < len(are_named):
                columns = {name: each.filter(pa.array(are_named)) for name, each in columns.items()}
            yield pa.record_batch({_KEY: ids, **columns}), len(are_named) - len(ids)


class _Parts:
    """Rows of several tables, parted by their nodes; in memory while they are few."""

    def __init__(self, directory: Path, keys: Sequence[pa.DataType]) -> None:
        self._types: list[Types] = [{_KEY: key} for key in keys]
        self._directory = directory
        self._held: list[tuple[int, pa.RecordBatch]] = []
        self._n_bytes = 0
        self._are_on_disk = False

    @property
    def names(self) -> list[list[str]]:
        """Columns of each table but for that of its nodes."""
        return [[name for name in types if name != _KEY] for types in self._types]

    def add(self, place: int, batch: pa.RecordBatch) -> None:
        """Add rows of a table."""
        types = self._types[place]
        for name, kind in zip(batch.schema.names[1:], batch.schema.types[1:], strict=True):
            types[name] = _common(types.get(name, pa.null()), kind)
        self._held.append((place, batch))
        self._n_bytes += batch.nbytes
        if self._n_bytes > _HELD_BYTES:
            self._spill()

    def parted(self) -> Iterator[list[pa.Table]]:
        """Rows of each table in one part after another."""
        if not self._are_on_disk:
            yield [self._table(place, self._held_of(place)) for place in range(len(self._types))]
            return
        self._spill()
        for part in range(_PARTS):
            yield [
                self._table(place, _read(self._path(part, place)))
                for place in range(len(self._types))
            ]

    def _held_of(self, place: int) -> list[pa.Table]:
        return [pa.Table.from_batches([batch]) for each, batch in self._held if each == place]

    def _table(self, place: int, tables: Sequence[pa.Table]) -> pa.Table:
        """Rows of a table with the types that all of its rows have in common."""
        types = self._types[place].items()
        schema = pa.schema([(name, _common(kind)) for name, kind in types])
        same = [table.select(schema.names).cast(schema) for table in tables]
        return pa.concat_tables(same) if same else schema.empty_table()

    def _spill(self) -> None:
        self._are_on_disk = True
        for place in {place for place, _ in self._held}:
            table = self._table(place, self._held_of(place))
            part = _hashes(table.column(_KEY)) % _PARTS
            order = np.argsort(part, kind="stable")
            rows, starts = table.take(order), np.searchsorted(part[order], range(_PARTS + 1))
            for number in range(_PARTS):
                start, stop = int(starts[number]), int(starts[number + 1])
                if stop > start:
                    _append(self._path(number, place), rows.slice(start, stop - start))
        self._held, self._n_bytes = [], 0

    def _path(self, part: int, place: int) -> Path:
        return self._directory / f"{part}.{place}"


def _append(path: Path, rows: pa.Table) -> None:
    with path.open("ab") as file, pa.ipc.new_stream(file, rows.schema) as writer:
        writer.write_table(rows)


def _read(path: Path) -> list[pa.Table]:
    tables: list[pa.Table] = []
    if path.exists():
        with path.open("rb") as file:
            n_bytes = path.stat().st_size
            while file.tell() < n_bytes:
                tables.append(pa.ipc.open_stream(file).read_all())
    return tables


def _hashes(nodes: pa.ChunkedArray | pa.Array) -> AnyArray:
    """A number for each node, the same on every machine."""
    return np.array([crc32(str(each).encode()) for each in nodes.to_pylist()], np.int64)


def _common(*types: pa.DataType) -> pa.DataType:
    """The type of values of some types, text where these differ or there are none."""
    some = {each for each in types if not pa.types.is_null(each)}
    return some.pop() if len(some) == 1 else pa.string()


def _require_distinct(table: NodeTable, rows: pa.Table) -> None:
    nodes = rows.column(_KEY)
    if pc.count_distinct(nodes).as_py() == len(nodes):
        return
    counts = pc.value_counts(nodes)
    again = counts.field("values").filter(pc.greater(counts.field("counts"), 1))[0]
    _, node = split_column(table.node)
    rule = "must hold a node once in a table that is joined"
    way = f"got {again.as_py()!r} several times; take its other rows out"
    raise BadFeatures(f"column {node!r} {rule}, {way}", argument=node)


def _joined(tables: Sequence[pa.Table], names: Sequence[dict[str, str]]) -> pa.Table:
    """One row for each node; in the order of a hash, so that the first rows are like the others."""
    keys = [table.column(_KEY) for table in tables]
    nodes = pc.unique(
        pa.chunked_array([chunk for key in keys for chunk in key.chunks], keys[0].type)
    )
    nodes = nodes.take(np.argsort(_hashes(nodes), kind="stable"))
    columns: dict[str, pa.ChunkedArray | pa.Array] = {NODE: nodes}
    for table, own in zip(tables, names, strict=True):
        rows = pc.index_in(nodes, value_set=table.column(_KEY).combine_chunks())
        columns |= {called: table.column(name).take(rows) for name, called in own.items()}
    return pa.table(columns)
