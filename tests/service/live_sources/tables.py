"""Delta tables of edges for tests: made, changed, and read as a dictionary."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from peewit.service.live_sources.contract import Access, Chunk, Position
from peewit.service.live_sources.delta import DeltaSource
from peewit.streaming.edges.column_mapping import PLAIN, EdgeColumns
from tests.service.live_sources.feeding import Edges

Row = tuple[str, str, float]


def make_table(
    directory: Path, rows: Sequence[Row], *, feed: bool = True, by: Sequence[str] = ()
) -> str:
    """The address of a new table, with its change data feed or without."""
    configuration: dict[str, str | None] = {"delta.enableChangeDataFeed": str(feed).lower()}
    write_deltalake(
        str(directory), edges(rows), configuration=configuration, partition_by=list(by) or None
    )
    return str(directory)


def edges(rows: Sequence[Row]) -> pa.Table:
    """Rows as a table."""
    src, dst, weight = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {
            "src": pa.array(src, pa.string()),
            "dst": pa.array(dst, pa.string()),
            "weight": pa.array(weight, pa.float64()),
        }
    )


def append(url: str, rows: Sequence[Row]) -> None:
    write_deltalake(url, edges(rows), mode="append")


def merge(url: str, rows: Sequence[Row]) -> None:
    """Update the pairs that are there, insert the others."""
    same = "told.src = mine.src AND told.dst = mine.dst"
    task = DeltaTable(url).merge(edges(rows), same, source_alias="told", target_alias="mine")
    task.when_matched_update_all().when_not_matched_insert_all().execute()


def table_edges(url: str) -> Edges:
    """The table at its last version; its pairs stand once, the smaller end first."""
    rows = DeltaTable(url).to_pyarrow_table().to_pylist()
    found = {(row["src"], row["dst"]): row["weight"] for row in rows}
    assert len(found) == len(rows)
    return found


def pairs(n_nodes: int) -> list[tuple[str, str]]:
    """All pairs of some nodes, the smaller end first."""
    names = [f"n{number:03}" for number in range(n_nodes)]
    return [(u, v) for place, u in enumerate(names) for v in names[place + 1 :]]


def change(url: str, rng: np.random.Generator, n_nodes: int) -> None:
    """One random change by another writer: an append, update, delete, merge or compaction."""
    present = sorted(table_edges(url))
    all_pairs = pairs(n_nodes)
    weight = float(rng.integers(1, 100)) / 4  # exact in 32 bits
    some = [all_pairs[place] for place in rng.choice(len(all_pairs), 6, replace=False)]
    name = f"n{rng.integers(n_nodes):03}"
    match int(rng.integers(5)):
        case 0:
            if new := [(u, v, weight) for u, v in some if (u, v) not in set(present)]:
                append(url, new)
        case 1:
            DeltaTable(url).update(predicate=f"src = '{name}'", updates={"weight": str(weight)})
        case 2:
            DeltaTable(url).delete(f"dst = '{name}'")
        case 3:
            merge(url, [(u, v, weight) for u, v in some])
        case _:
            DeltaTable(url).optimize.compact()


def opened(url: str, *, takes_changes: bool = True, columns: EdgeColumns = PLAIN) -> DeltaSource:
    return DeltaSource.open(Access(url=url, columns=columns, takes_changes=takes_changes))


def chunks(
    source: DeltaSource, position: Position | None = None, *, most_rows: int = 1_000
) -> Iterator[Chunk]:
    return source.read(position, most_rows=most_rows, should_stop=lambda: False)


def rows_of(found: Sequence[Chunk]) -> list[tuple[str, str, float, str]]:
    """Rows of (src, dst, weight, op) of some chunks."""
    tables = [chunk.table for chunk in found if chunk.table is not None]
    return [
        (row["src"], row["dst"], row["weight"], row.get("op", "insert"))
        for table in tables
        for row in table.to_pylist()
    ]
