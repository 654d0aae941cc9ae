"""Tables of edges in place of graphs, which streaming reads: solvers know nothing of it.

Whoever puts the two together, `peewit` itself, says by `read_by` who reads them.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

Reader = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Graphs over the same nodes, with the names of these, of tables of edges."""

_READERS: Final[list[Reader]] = []

_OF_EDGES: Final = 3
"""Columns of a table of edges that could be a matrix of as many nodes: src, dst and weight."""


def read_by(reader: Reader) -> None:
    """Say who reads tables of edges from now on."""
    _READERS[:] = [reader]


def graphs_of_tables(tables: Mapping[str, Any]) -> Mapping[str, Any]:
    """A graph of each table of edges; raises ValueError where the edge contract is broken."""
    return _READERS[0](tables)


def column_names(source: Any) -> list[Any] | None:
    """Names of the columns of a frame or table; None of anything else."""
    names = getattr(source, "column_names", getattr(source, "columns", None))
    return None if names is None or callable(names) else list(names)


def is_edge_table(source: Any) -> bool:
    """Whether it is a table with columns ``src`` and ``dst``, and no adjacency matrix."""
    columns = column_names(source)
    if columns is None or not {"src", "dst"} <= set(columns):
        return False
    return len(columns) <= _OF_EDGES or len(source) != len(columns)
