"""Warnings of odd edges, in the words of `peewit.streaming.edges.oddities`."""

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from peewit.streaming.edges.bad_table import BadTable
from peewit.streaming.edges.change_columns import rows_ended
from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.conversion import first_rows
from peewit.streaming.edges.node_kinds import TEXT, NodeKind
from peewit.streaming.edges.oddities import (
    doubtful_ids,
    ended_notes,
    odd_columns,
    odd_first_row,
    odd_ids,
)
from peewit.streaming.edges.parts import EdgeFile

_FILES: Final = 20
"""Files of one call that are looked at."""

_ROWS: Final = 10_000
"""Looked at of each."""

_SHOWN: Final = 5


def warn_of_columns(
    table: pa.Table,
    columns: EdgeColumns,
    names: Sequence[str] | None = None,
    *,
    stacklevel: int = 4,
) -> None:
    """Warn of columns of a table that nobody reads, of these ``names`` where it has others too."""
    names = table.schema.names if names is None else names
    there = {*table.schema.names}.intersection(columns.beside(names))
    beside = {name: table.column(name) for name in names if name in there}
    _warn(odd_columns(names, columns) + ended_notes(rows_ended(beside)), stacklevel)


def warn_of_files(
    files: Sequence[EdgeFile], kind: NodeKind, max_nodes: int, *, stacklevel: int = 4
) -> None:
    """Warn of what the first rows of files on this machine tell."""
    told: list[str] = []
    for file in files[:_FILES]:
        try:
            first = (
                first_rows(file, n_rows=_ROWS, node_kind=kind, max_nodes=max_nodes)
                if Path(file.path).is_file()
                else None
            )
        except (BadTable, OSError):  # told where the file is read
            continue
        if first is not None:
            told += odd_columns(first.names, file.columns, first.passed_over)
            told += ended_notes(first.ended)
            told += filter(None, [odd_first_row(first.block.src, first.block.dst)])
    _warn(told, stacklevel)


def warn_of_ids(ids: pa.Array | None, kind: NodeKind, *, stacklevel: int = 4) -> None:
    """Warn of ids that may stand for nothing, or hardly differ from others."""
    if ids is None or not len(ids):
        return
    own = pa.chunked_array([ids])
    if kind not in TEXT:
        doubtful, told = ["-1"] if pc.any(pc.equal(own, -1)).as_py() else [], []
    else:
        all_ids = own
        if kind == "typed":
            own = pc.replace_substring_regex(own, pattern="^[^:]*:", replacement="")
        doubtful, told = doubtful_ids(all_ids, own), odd_ids(own)
    if doubtful:
        more = f" and {len(doubtful) - _SHOWN:,} others" if len(doubtful) > _SHOWN else ""
        told.insert(
            0,
            f"{', '.join(map(repr, doubtful[:_SHOWN]))}{more} became a node; where it stands for a "
            "missing value, take its rows out",
        )
    _warn(told, stacklevel)


def _warn(told: Iterable[str], stacklevel: int) -> None:
    for text in dict.fromkeys(told):
        warnings.warn(text, stacklevel=stacklevel + 1)
