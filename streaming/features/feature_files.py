"""Files of features: Parquet read in threads by blocks, and the file in which a set waits.

Small row groups are read whole, several together in threads; one that is too large for that is
decoded a piece at a time. A fixed number of blocks is in flight, never a whole file.
"""

from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from peewit.solvers.arrays import Int64Array
from peewit.solvers.doubtful_columns import DoubtfulColumns, UnlikeScales
from peewit.streaming.durable_files import naming, publish_file
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.parts import content_faults, open_parquet
from peewit.streaming.edges.reader import read_ahead
from peewit.streaming.features.checked_tables import (
    COLUMNS,
    DENSE_COLUMNS,
    ENCODING,
    NODE,
    SPARSE_COLUMNS,
    BadFeatures,
    FeatureBlock,
    as_bad_features,
    bad_number,
    dense_values,
    encoding_of,
    is_sparse_schema,
    names_of,
    read_features,
    sparse_values,
    with_names,
)
from peewit.streaming.features.encoding import Encoding, cleared

BLOCK_BYTES: Final = 1 << 24
"""Bytes of rows that are read together, as far as a footer tells them."""

_MAX_ROWS: Final = 1 << 16
_FLOAT_BYTES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SetShape:
    """Size of a set of features; sparse rows have one more column than the largest index.

    ``note`` tells of columns that describe no node; ``names`` are those of the columns, if any.
    """

    n_rows: int
    n_columns: int
    is_sparse: bool
    names: tuple[str, ...] | None = None
    note: str | None = None
    encoding: str | None = None  # how they were made from columns of any kind, as JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Row groups that are read together, or one that is decoded ``batch_rows`` at a time.

    ``first_row`` is that of the set.
    """

    path: Path
    groups: tuple[int, ...]
    first_row: int
    batch_rows: int | None


def read_blocks(
    paths: Sequence[Path],
    *,
    node_kind: NodeKind,
    max_nodes: int,
    n_threads: int = 1,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[FeatureBlock]:
    """Blocks of the rows of some Parquet files, together one set, in order, checked.

    A block has about ``block_bytes``; ``n_threads`` blocks are read together, and up to twice as
    many are in memory. Raises `BadFeatures` where a file is damaged or breaks the data contract,
    OSError where it cannot be read, which is no fault of its content.
    """
    n_columns: int | None = None
    for first_row, table in read_tables(
        paths, columns=None, n_threads=n_threads, block_bytes=block_bytes
    ):
        block = read_features(
            table,
            node_kind=node_kind,
            max_nodes=max_nodes,
            first_row=first_row,
            n_columns=n_columns,
        )
        if not block.is_sparse:
            n_columns = block.values.shape[1]
        yield block


def read_tables(
    paths: Sequence[Path],
    *,
    columns: Sequence[str] | None,
    n_threads: int = 1,
    block_bytes: int = BLOCK_BYTES,
) -> Generator[tuple[int, pa.Table], None, None]:
    """Tables of some columns (None: of all that features have) and the first row of each.

    Raises as `read_blocks`; no table is without rows.
    """
    if n_threads < 1:
        raise ValueError(f"n_threads must be at least 1, got {n_threads}")
    pieces = _pieces(paths, columns, block_bytes)
    for is_large, together in groupby(pieces, lambda piece: piece.batch_rows is not None):
        if is_large:
            for piece in together:
                yield from _decode(piece, columns)
        else:
            tasks = (partial(_read_groups, piece, columns) for piece in together)
            yield from read_ahead(tasks, n_threads, thread_name="read-features")


def n_rows_of(paths: Sequence[Path]) -> int:
    """Rows of some Parquet files, by their footers; raises as `read_blocks`."""
    n_rows = 0
    for path in paths:
        with _content_of(path), open_parquet(str(path)) as parquet:
            n_rows += parquet.metadata.num_rows
    return n_rows


def write_set(
    path: Path, blocks: Iterable[FeatureBlock], *, own_labels: Sequence[str] = ()
) -> SetShape:
    """Publish blocks as the Arrow file of a waiting set; its directory must exist.

    All blocks have their columns in the order of the first; ``own_labels`` are what labels of the
    graph are called. Writing Parquet instead takes ten times as long. Raises `BadFeatures` where
    there is no row, some rows are sparse and others not, or sparse rows hold no entry at all.
    """
    shape = SetShape(n_rows=0, n_columns=0, is_sparse=False)
    n_left_out = 0
    doubtful: DoubtfulColumns | None = None
    scales: UnlikeScales | None = None

    def write(temporary: Path) -> None:
        nonlocal shape, n_left_out, doubtful, scales
        with naming(temporary), ExitStack() as stack:
            writer = None
            for block in blocks:
                n_left_out += block.n_left_out
                if not block.n_rows:
                    continue
                shape = _add_shape(shape, block)
                doubtful = doubtful or DoubtfulColumns(_names_of(block))
                if not block.is_sparse:
                    doubtful.look(block.values)
                    if block.names is not None and block.encoding is None:
                        scales = scales or UnlikeScales(block.names)
                        scales.look(block.values)
                table = _table_of(block)
                if writer is None:
                    sink = stack.enter_context(pa.OSFile(str(temporary), "wb"))
                    writer = stack.enter_context(pa.ipc.new_file(sink, table.schema))
                n_rows = max(1, BLOCK_BYTES * block.n_rows // max(table.nbytes, 1))
                writer.write_table(table, max_chunksize=n_rows)
        if not shape.n_rows:
            raise BadFeatures("a set of features must hold at least one row, got none")
        if not shape.n_columns:
            raise BadFeatures("sparse features must hold at least one entry, got none")

    publish_file(path, write)
    rows = "1 row that names" if n_left_out == 1 else f"{n_left_out:,} rows that name"
    notes: list[str | None] = [f"left out {rows} no node" if n_left_out else None]
    sources: dict[str, str] = {}
    if shape.encoding is not None:
        encoding = Encoding.from_json(shape.encoding)
        notes.append(encoding.note())
        sources = {name: each.name for each in encoding.columns for name in each.features}
    if doubtful is not None:
        notes.append(doubtful.note(own_labels, sources))
    if scales is not None:
        notes.append(scales.note())
    return replace(shape, note="; ".join(filter(None, notes)) or None)


def set_names(path: Path) -> tuple[tuple[str, ...] | None, str | None]:
    """Names of the columns of a file of `write_set`, and how they were encoded, if they were."""
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        return names_of(reader), encoding_of(reader.schema)


def set_owners(path: Path) -> Iterator[tuple[pa.Array, Int64Array | None]]:
    """External ids of a file of `write_set` and, of sparse rows, how many entries each has."""
    with pa.memory_map(str(path)) as source:  # so that rows are not read
        reader = pa.ipc.open_file(source)
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            lengths = None
            if "indices" in batch.schema.names:
                lengths = pc.list_value_length(batch.column("indices")).to_numpy()
            yield batch.column(NODE), lengths


def set_values(path: Path) -> Iterator[Any]:
    """Rows of a file of `write_set`, some at a time: arrays or scipy.sparse.csr_array."""
    with pa.OSFile(str(path), "rb") as source:
        reader = pa.ipc.open_file(source)
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            if "features" in batch.schema.names:
                rows = batch.column("features")
                yield rows.flatten().to_numpy().reshape(len(rows), rows.type.list_size)
            else:
                yield sparse_values(batch)


def without_words(
    schema: pa.Schema, tables: Sequence[pa.Table], words: Collection[str], *, has_lost_rows: bool
) -> tuple[pa.Schema, Sequence[pa.Table]] | None:
    """Rows of a file of `write_set` without the erased words; None where they have none.

    Those are some words, and those that no row has; see `Encoding.without`.
    """
    text = encoding_of(schema)
    if text is None:
        return None
    encoding = Encoding.from_json(text)
    if not (has_lost_rows or encoding.may_name(words)):
        return None
    blocks = [_block_of(table) for table in tables]
    encoding = encoding.without(words, (block.values for block in blocks))
    if not blocks or encoding.to_json() == text:
        return None
    left = [
        _table_of(
            replace(
                block,
                values=cleared(block.values, encoding.is_erased),
                names=block.names and encoding.names,
                encoding=encoding.to_json(),
            )
        )
        for block in blocks
    ]
    return left[0].schema, left


def _block_of(table: pa.Table) -> FeatureBlock:
    """Rows of a file of `write_set`."""
    is_sparse = is_sparse_schema(table.schema.names)
    return FeatureBlock(
        nodes=table.column(NODE).combine_chunks(),
        values=sparse_values(table) if is_sparse else dense_values(table),
        names=names_of(table),
    )


@dataclass(frozen=True, slots=True)
class ParquetFeatures:
    """Rows of features in Parquet files, in their order, read anew each time; made by `open`.

    Feature models read it as they read `peewit.solvers.features.FeatureRows`, block by block, so
    that the rows need not fit in memory.
    """

    _paths: tuple[Path, ...]
    _n_threads: int
    n_rows: int
    n_columns: int
    is_sparse: bool

    @classmethod
    def open(
        cls,
        paths: str | Path | Sequence[str | Path],
        *,
        n_columns: int | None = None,
        n_threads: int = 1,
    ) -> "ParquetFeatures":
        """Features of some files, with a column ``features``, or ``indices`` and ``values``.

        ``paths`` are local files; the rows of the first come first, and a column ``node`` is
        ignored. Sparse rows without ``n_columns`` are read once to find the largest index.
        ``n_threads`` blocks are read together. Raises `BadFeatures` where a file is no Parquet file
        of features, or there is no row.
        """
        listed = (paths,) if isinstance(paths, str | Path) else paths
        files = tuple(Path(path) for path in listed)
        n_rows = n_rows_of(files)
        if not n_rows:
            raise BadFeatures("features must have at least one row, got none", argument="features")
        with _content_of(files[0]), open_parquet(str(files[0])) as parquet:
            is_sparse = is_sparse_schema(parquet.schema_arrow.names)
        rows = cls(files, n_threads, n_rows, n_columns or 0, is_sparse)
        if n_columns is None:
            widths = (block.shape[1] for _, block in rows.blocks())
            n_columns = max(widths) if is_sparse else next(widths)
            rows = cls(files, n_threads, n_rows, n_columns, is_sparse)
        return rows

    @property
    def n_values(self) -> int:
        """Numbers stored, by the footers of the files, which count an empty row as one."""
        if not self.is_sparse:
            return self.n_rows * self.n_columns
        return sum(_n_entries(path) for path in self._paths)

    def blocks(self, n_bytes: int = BLOCK_BYTES) -> Iterator[tuple[slice, Any]]:
        """All rows in order, some at a time: their places, and the rows as float32.

        Raises BadFeatures where a row breaks a rule of the data contract.
        """
        columns = SPARSE_COLUMNS if self.is_sparse else DENSE_COLUMNS
        n_columns = self.n_columns or None
        for first_row, table in read_tables(
            self._paths, columns=columns, n_threads=self._n_threads, block_bytes=n_bytes
        ):
            if self.is_sparse:
                values = sparse_values(table, first_row=first_row)
                if n_columns is not None:
                    values = _widen(values, n_columns, first_row)
            else:
                values = dense_values(table, first_row=first_row, n_columns=n_columns)
                n_columns = values.shape[1]
            yield slice(first_row, first_row + table.num_rows), values


def _widen(rows: Any, n_columns: int, first_row: int) -> Any:
    if rows.shape[1] > n_columns:
        entry = int(np.argmax(rows.indices >= n_columns))
        rule = f"lie in [0, {n_columns - 1}]"
        raise bad_number("indices", rule, rows.indices[entry], entry, rows.indptr, first_row)
    rows.resize((rows.shape[0], n_columns))
    return rows


@contextmanager
def _content_of(path: Path) -> Iterator[None]:
    """Raise BadFeatures for faults of a file's content; those of the disk pass."""
    with as_bad_features(), content_faults(f"{path.name} is not a readable Parquet file"):
        yield


def _pieces(
    paths: Sequence[Path], columns: Sequence[str] | None, block_bytes: int
) -> Iterator[_Piece]:
    """Pieces of the files in order, each about ``block_bytes`` large or decoded so."""
    first_row = 0
    for path in paths:
        with _content_of(path), open_parquet(str(path)) as parquet:
            metadata, schema = parquet.metadata, parquet.schema_arrow
            is_sparse_schema(schema.names)
            for name in columns or ():
                if name not in schema.names:
                    raise BadFeatures(f"column {name!r} is missing in {path.name}", argument=name)
            sizes = [
                _group_size(metadata.row_group(k), schema) for k in range(parquet.num_row_groups)
            ]
        groups: list[int] = []
        n_bytes = n_rows = 0
        for group, (group_rows, group_bytes) in enumerate(sizes):
            is_large = group_bytes > block_bytes or group_rows > _MAX_ROWS
            if groups and (
                is_large or n_bytes + group_bytes > block_bytes or n_rows + group_rows > _MAX_ROWS
            ):
                yield _Piece(path=path, groups=tuple(groups), first_row=first_row, batch_rows=None)
                first_row += n_rows
                groups, n_bytes, n_rows = [], 0, 0
            if is_large:
                batch_rows = min(max(1, group_rows * block_bytes // max(group_bytes, 1)), _MAX_ROWS)
                yield _Piece(path=path, groups=(group,), first_row=first_row, batch_rows=batch_rows)
                first_row += group_rows
            elif group_rows:
                groups.append(group)
                n_bytes, n_rows = n_bytes + group_bytes, n_rows + group_rows
        if groups:
            yield _Piece(path=path, groups=tuple(groups), first_row=first_row, batch_rows=None)
            first_row += n_rows


def _group_size(group: Any, schema: pa.Schema) -> tuple[int, int]:
    """Rows of a row group, and its bytes; decoded ones where all rows are equally long."""
    n_bytes = max(int(group.total_byte_size), 0)
    for field in schema:
        if field.name in DENSE_COLUMNS and pa.types.is_fixed_size_list(field.type):
            n_bytes = max(n_bytes, group.num_rows * field.type.list_size * _FLOAT_BYTES)
    return int(group.num_rows), n_bytes


def _n_entries(path: Path) -> int:
    """Entries of all sparse rows of a file."""
    with _content_of(path), open_parquet(str(path)) as parquet:
        metadata = parquet.metadata
        columns = [
            place
            for place in range(metadata.num_columns)
            if metadata.schema.column(place).path.startswith("values.")
        ]
        groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
        return sum(int(group.column(place).num_values) for group in groups for place in columns)


def _projection(parquet: pq.ParquetFile, columns: Sequence[str] | None) -> list[str]:
    wanted = COLUMNS if columns is None else columns
    return [name for name in wanted if name in parquet.schema_arrow.names]


def _read_groups(piece: _Piece, columns: Sequence[str] | None) -> tuple[int, pa.Table]:
    with _content_of(piece.path), open_parquet(str(piece.path)) as parquet:
        return piece.first_row, parquet.read_row_groups(
            list(piece.groups), columns=_projection(parquet, columns), use_threads=False
        )


def _decode(piece: _Piece, columns: Sequence[str] | None) -> Iterator[tuple[int, pa.Table]]:
    """The rows of one large row group, a piece at a time."""
    first_row = piece.first_row
    with open_parquet(str(piece.path)) as parquet:
        with _content_of(piece.path):
            batches = parquet.iter_batches(
                piece.batch_rows,
                row_groups=list(piece.groups),
                columns=_projection(parquet, columns),
                use_threads=False,
            )
        while True:
            with _content_of(piece.path):
                batch = next(batches, None)
            if batch is None:
                return
            yield first_row, pa.Table.from_batches([batch])
            first_row += batch.num_rows


def _add_shape(shape: SetShape, block: FeatureBlock) -> SetShape:
    if shape.n_rows and shape.is_sparse != block.is_sparse:
        kinds = ("sparse", "dense") if shape.is_sparse else ("dense", "sparse")
        raise BadFeatures(
            f"a set of features must be dense or sparse throughout; it began {kinds[0]} and goes "
            f"on {kinds[1]}",
            row=block.first_row,
        )
    n_columns = block.values.shape[1]
    if shape.n_rows and not block.is_sparse and n_columns != shape.n_columns:
        raise BadFeatures(
            f"column 'features' must hold {shape.n_columns} numbers in every row, as the first "
            "one does",
            argument="features",
            row=block.first_row,
            value=str(n_columns),
        )
    return SetShape(
        n_rows=shape.n_rows + block.n_rows,
        n_columns=max(shape.n_columns, n_columns),
        is_sparse=block.is_sparse,
        names=block.names if not shape.n_rows else shape.names,
        encoding=block.encoding if not shape.n_rows else shape.encoding,
    )


def _names_of(block: FeatureBlock) -> Sequence[str] | None:
    """Names of the columns of a block, also of a sparse one that was encoded."""
    if block.names is None and block.encoding is not None:
        return Encoding.from_json(block.encoding).names
    return block.names


def _table_of(block: FeatureBlock) -> pa.Table:
    """Columns of a block as a set keeps them."""
    nodes = block.nodes
    if pa.types.is_string(nodes.type):
        nodes = nodes.cast(pa.large_string())
    if not block.is_sparse:
        flat = pa.array(np.ascontiguousarray(block.values).reshape(-1))
        rows = pa.FixedSizeListArray.from_arrays(flat, block.values.shape[1])
        table = pa.table({NODE: nodes, "features": rows})
        if block.names is not None:
            table = table.set_column(1, with_names(rows, block.names).schema.field(0), rows)
        return _with_encoding(table, block)
    starts = pa.array(block.values.indptr.astype(np.int32))
    indices = pa.array(block.values.indices.astype(np.int32))
    table = pa.table(
        {
            NODE: nodes,
            "indices": pa.ListArray.from_arrays(starts, indices),
            "values": pa.ListArray.from_arrays(starts, pa.array(block.values.data)),
        }
    )
    return _with_encoding(table, block)


def _with_encoding(table: pa.Table, block: FeatureBlock) -> pa.Table:
    if block.encoding is None:
        return table
    return table.replace_schema_metadata({ENCODING: block.encoding})
