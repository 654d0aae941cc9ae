"""Iceberg tables of edges for tests: made, changed, and read as a dictionary."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table import Table

from peewit.service.live_sources.contract import Access, Chunk, Position
from peewit.service.live_sources.iceberg import IcebergSource
from peewit.streaming.edges.column_mapping import PLAIN, EdgeColumns
from tests.service.live_sources.feeding import Edges
from tests.service.live_sources.tables import Row, edges, pairs

SCHEMA = pa.schema([("src", pa.string()), ("dst", pa.string()), ("weight", pa.float64())])


@contextmanager
def catalog_in(directory: Path) -> Iterator[SqlCatalog]:
    """A catalog whose tables lie below a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    made = SqlCatalog("test", uri=f"sqlite:///{directory}/c.db", warehouse=str(directory))
    made.create_namespace_if_not_exists("people")
    yield made
    made.close()


def make_table(catalog: SqlCatalog, rows: Sequence[Row], *, name: str = "friends") -> Table:
    """A new table, of one snapshot if there are rows."""
    table = catalog.create_table(f"people.{name}", schema=SCHEMA)
    if rows:
        table.append(edges(rows))
    return table


def merge(table: Table, rows: Sequence[Row]) -> None:
    """Update the pairs that are there, insert the others."""
    table.upsert(edges(rows), ["src", "dst"])


def compact(table: Table) -> None:
    """Write all rows into one new file, in a snapshot that says that it is no more than that."""
    rewrite(table, table.scan().to_arrow())
    path = Path(table.metadata_location)
    before, word, behind = path.read_text().rpartition('"operation":"overwrite"')
    assert word
    path.write_text(f'{before}"operation":"replace"{behind}')
    table.refresh()


def rewrite(table: Table, rows: pa.Table) -> None:
    """Have other files instead of all that are there, in one snapshot."""
    files = [task.file for task in table.scan().plan_files()]
    with table.transaction() as change, change.update_snapshot().overwrite() as snapshot:
        for file in files:
            snapshot.delete_data_file(file)
        for file in _dataframe_to_data_files(table.metadata, rows, table.io):
            snapshot.append_data_file(file)


def table_edges(table: Table) -> Edges:
    """The table at its newest snapshot; its pairs stand once, the smaller end first."""
    rows = table.scan().to_arrow().to_pylist()
    found = {(row["src"], row["dst"]): row["weight"] for row in rows}
    assert len(found) == len(rows)
    return found


def change(table: Table, rng: np.random.Generator, n_nodes: int) -> None:
    """One random change by another writer: an append, delete, merge, rewriting or compaction."""
    present = table_edges(table)
    all_pairs = pairs(n_nodes)
    weight = float(rng.integers(1, 100)) / 4  # exact in 32 bits
    some = [all_pairs[place] for place in rng.choice(len(all_pairs), 6, replace=False)]
    match int(rng.integers(5)):
        case 0:
            if new := [(u, v, weight) for u, v in some if (u, v) not in present]:
                table.append(edges(new))
        case 1:
            name = sorted(present)[rng.integers(len(present))][1]
            table.delete(EqualTo("dst", name))
        case 2:
            merge(table, [(u, v, weight) for u, v in some])
        case 3:
            kept = {pair: held for pair, held in present.items() if pair not in some}
            kept[some[0]] = weight
            rewrite(table, edges([(*pair, held) for pair, held in kept.items()]))
        case _:
            compact(table)


def opened(url: str, *, takes_changes: bool = True, columns: EdgeColumns = PLAIN) -> IcebergSource:
    return IcebergSource.open(Access(url=url, columns=columns, takes_changes=takes_changes))


def chunks(
    source: IcebergSource, position: Position | None = None, *, most_rows: int = 1_000
) -> Iterator[Chunk]:
    return source.read(position, most_rows=most_rows, should_stop=lambda: False)


def snapshots(table: Table) -> list[int]:
    """Of the table, the earliest first."""
    return [each.snapshot_id for each in table.refresh().snapshots()]
