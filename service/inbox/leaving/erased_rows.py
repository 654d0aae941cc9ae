"""Removal of erased nodes' rows from blocks of edges and sets of features in the home."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from peewit.service.inbox.pushes import write_block
from peewit.streaming.durable_files import publish_file
from peewit.streaming.features.feature_files import without_words

_ENDS = ("src", "dst")


def without_nodes(content: bytes, names: pa.Array) -> tuple[bytes, int]:
    """An Arrow stream of edges without those of some nodes, and the number of rows left."""
    table = pa.ipc.open_stream(content).read_all()
    rest = _without(table, _ENDS, names)
    if rest.num_rows == table.num_rows:
        return content, table.num_rows
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(rest)
    return sink.getvalue().to_pybytes(), rest.num_rows


def erase_from_block(path: Path, names: pa.Array) -> int | None:
    """Rewrite a Parquet file of edges without those of some nodes; the number of rows left.

    None where there was nothing to do or the file is gone.
    """
    if not path.exists() or not any(_holds(batch, names) for batch in _block(path)):
        return None
    with pa.parquet.ParquetFile(path) as file:
        schema = file.schema_arrow
    write_block(path, (_without(batch, _ENDS, names) for batch in _block(path)), schema)
    with pa.parquet.ParquetFile(path) as file:
        return int(file.metadata.num_rows)


def erase_from_set(path: Path, names: pa.Array, *, are_typed: bool = False) -> int | None:
    """Rewrite an Arrow file of features without the rows of some nodes; returns as above.

    Of features that were made from columns of any kind their ids leave the words, too, and so do
    words that no row has any more. Ids may be KIND:ID.
    """
    if not path.exists():
        return None
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
        tables = [_without(pa.Table.from_batches([batch]), ("node",), names) for batch in batches]
        n_rows = int(sum(table.num_rows for table in tables))
        has_lost_rows = n_rows < sum(batch.num_rows for batch in batches)
        words = words_of(names, are_typed=are_typed)
        left = without_words(reader.schema, tables, words, has_lost_rows=has_lost_rows)
        if left is None and not has_lost_rows:
            return None
        schema, kept = left or (reader.schema, tables)

        def write(temporary: Path) -> None:
            with pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
                for table in kept:
                    writer.write_table(table)

        publish_file(path, write)
    return n_rows


def words_of(names: pa.Array, *, are_typed: bool) -> frozenset[str]:
    """Words of a table that are one of some nodes: ids, and where they are KIND:ID their ID."""
    ids = [str(name) for name in names.to_pylist()]
    return frozenset([*ids, *(each.partition(":")[2] for each in ids if are_typed)])


def _block(path: Path) -> Iterator[pa.Table]:
    with pa.parquet.ParquetFile(path) as file:
        for batch in file.iter_batches():
            yield pa.Table.from_batches([batch])


def _holds(table: pa.Table, names: pa.Array) -> bool:
    return bool(_without(table, _ENDS, names).num_rows < table.num_rows)


def _without(table: pa.Table, columns: tuple[str, ...], names: pa.Array) -> pa.Table:
    """Rows of a table that name none of some nodes in any of the columns."""
    for column in columns:
        ids = table.column(column)
        table = table.filter(pc.invert(pc.is_in(ids, value_set=names.cast(ids.type))))
    return table
