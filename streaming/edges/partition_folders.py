"""Folders that stand for a column, as Hive and Spark write them: ``weight=5/part-0.parquet``.

They are not read: two files of one content would be one. What edges would lack without them is
refused.
"""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from urllib.parse import unquote

import pyarrow as pa

from peewit.streaming.edges.blocks import BadEdges, excerpt
from peewit.streaming.edges.change_columns import may_be_changes, require_no_deletes
from peewit.streaming.edges.column_mapping import EdgeColumns


def require_no_folders(path: str, columns: EdgeColumns, names: Sequence[str]) -> None:
    """Raise `BadEdges` where a folder holds what a file of some column ``names`` should.

    That is a column of edges, or one that asks for deletes.
    """
    for name, value in _folders(path):
        if name in names:
            continue
        way = (
            f"which is not read from folders, one of which is for {excerpt(value)!r}; name "
            "another column, or write this one into the files (DuckDB: read_parquet(..., "
            "hive_partitioning=true))"
        )
        for argument, used in columns.by_argument:
            if used == name:
                raise BadEdges(f"column {name!r} must stand in the file, {way}", argument=argument)
        cell = pa.array([value])
        if name in columns.beside([*names, name]) and may_be_changes(cell, name):
            way += ", or say op='' to take every row for an edge"
            require_no_deletes(cell, name, 0, way=way)


def _folders(path: str) -> Iterator[tuple[str, str]]:
    """Names and values of the folders of a path that are called NAME=VALUE."""
    for folder in PurePosixPath(path).parent.parts:
        name, mark, value = folder.partition("=")
        if name and mark:
            yield unquote(name), unquote(value)
