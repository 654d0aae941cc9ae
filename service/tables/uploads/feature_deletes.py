"""Columns by which a table of features says that a row is a delete, which no set carries out."""

from collections.abc import Collection
from typing import Final

import pyarrow as pa

from peewit.streaming.edges.change_columns import is_change_column, is_sign, require_no_deletes
from peewit.streaming.edges.columns import check_valid

_WAY: Final = (
    "and features are taken back by replacing their set; take these rows out, or rename the column "
    "where it describes nodes"
)


def asks_for_deletes(name: str) -> bool:
    """Whether a column is called as those that say so; a sign describes."""
    return is_change_column(name) and not is_sign(name)


def require_none_deleted(batch: pa.RecordBatch, own: Collection[str], first_row: int) -> None:
    """Raise `BadEdges` with the first row that asks for a delete, in a column besides ``own``."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name not in own and asks_for_deletes(name):
            check_valid(column, name, first_row)
            require_no_deletes(column, name, first_row, way=_WAY)
