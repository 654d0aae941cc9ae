"""Rows of blocks of edges as the service writes them for ingest, each with its relation if any."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from peewit.streaming.edges.blocks import RawBlock
from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.operations import OPERATIONS
from peewit.streaming.edges.relations import UNNAMED

RELATED: Final = ".relations.parquet"
"""How the name of a file ends whose rows have a column ``relation``; '' is the unnamed one."""


def columns_of_own(path: str, columns: EdgeColumns) -> EdgeColumns:
    """Columns of a file that the service has written, by its name."""
    if not path.endswith(RELATED):
        return columns
    return replace(columns, relation_column="relation", may_lack_dst=True)


def relations_of(columns: EdgeColumns) -> Sequence[str]:
    """Relations of the rows of a table, the unnamed one where each names its own; or none."""
    if columns.relation_column is not None:
        return (UNNAMED,)
    return columns.via_columns or ((columns.relation,) if columns.relation else ())


def says_relation(columns: EdgeColumns) -> bool:
    """Whether a table says the relations of its rows, be it that they have no name."""
    return columns.relation is not None or bool(relations_of(columns))


def block_rows(block: RawBlock, relations: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Rows of a checked block; of events one for each cell, null where that is empty.

    ``relations`` are those of its columns of events, or the one of all rows that name none.
    """
    taken = {"src": block.src, "dst": block.dst, "weight": block.weight}
    if block.op is not None:
        taken["op"] = pa.array(OPERATIONS).take(pa.array(block.op))
    if block.time is not None:
        taken["time"] = pa.array(block.time).cast(pa.timestamp("us"))
    if not relations:
        yield pa.record_batch(taken)
        return
    for number, name in enumerate(relations):
        taken["relation"] = pa.repeat(name, block.n_rows)
        if block.relation is not None:
            taken["relation"] = block.relation.cast(pa.string())
        if block.cells:
            taken["dst"] = block.cells[number]
        yield pa.record_batch(taken)
