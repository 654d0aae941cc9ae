"""Edges in memory as a table: matrices, graphs, arrays, lists, tables of other libraries."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from peewit.solvers.graph import Graph
from peewit.solvers.late_modules import LateModule
from peewit.streaming.edges.change_columns import is_change_column
from peewit.streaming.edges.column_mapping import PLAIN, EdgeColumns
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.parts import StagedFile, open_parquet
from peewit.streaming.edges.plain_types import plain_type

sp = LateModule("scipy.sparse")

_NOT_CONVERTED: Final = re.compile(r"failed for column (.*) with type (\w+)")

_NO_OTHERS: Final = (
    "text in Unicode or integers below 2^63, all of one kind; write greater ones as text"
)

_PLACES: Final = ("src", "dst", "weight")
"""Columns of what has places in their stead."""

_CONNECTIVITIES: Final = "connectivities"
"""Where scanpy leaves the graph of neighbors, in ``obsp``."""

Edges: TypeAlias = Any
"""What ``sparsify`` takes: path or URL, table, pairs, arrays, sparse adjacency, or a graph."""


def matrix_of_anndata(data: Any, weight: str) -> tuple[Any, pa.Array]:
    """The matrix of ``obsp`` that ``weight`` names, "connectivities" by default, and its names.

    Raises ValueError where there is none, or observations share a name.
    """
    key = _CONNECTIVITIES if weight == PLAIN.weight else weight
    if key not in data.obsp:
        known = ", ".join(sorted(data.obsp)) or "none"
        raise ValueError(
            f"obsp of the AnnData must have {key!r}, got {known}; scanpy.pp.neighbors makes it, "
            "and weight='...' names another one"
        )
    names = pa.array([str(name) for name in data.obs_names], pa.large_string())
    if len(names.unique()) < len(names):
        raise ValueError(
            "obs_names of the AnnData must differ, got one twice; obs_names_make_unique() mends it"
        )
    return data.obsp[key], names


def edge_table(edges: Edges, weight: str = "weight") -> tuple[pa.Table, int | None]:
    """Edges in memory as a table, and the number of nodes where the edges give it.

    ``weight`` is the attribute of edges of networkx.
    """
    if sp.issparse(edges):
        if edges.dtype.kind == "c":
            raise TypeError(f"weights of a matrix must be real numbers, got type {edges.dtype}")
        matrix = sp.csr_array(edges.astype(np.float64))  # duplicates sum
        matrix.sort_indices()
        Graph.from_adjacency(matrix)  # refuses what is no adjacency
        upper = sp.triu(matrix, format="coo")
        table = pa.table({"src": upper.row, "dst": upper.col, "weight": upper.data})
        return table, matrix.shape[0]
    if isinstance(edges, Graph):
        u, v, weights = edges.edges()
        return pa.table({"src": u, "dst": v, "weight": weights}), edges.n_nodes
    if isinstance(edges, tuple):
        if len(edges) not in (2, 3):
            raise ValueError(f"edges must be (u, v) or (u, v, weight), got {len(edges)} arrays")
        if any(isinstance(column, np.ma.MaskedArray) for column in edges):
            raise TypeError("arrays of edges must be plain, not masked; take masked rows out")
        arrays = map(np.asarray, edges)
        columns = {name: _column(name, each) for name, each in zip(_PLACES, arrays, strict=False)}
        lengths = [len(column) for column in columns.values()]
        if len(set(lengths)) > 1:
            raise ValueError(f"u, v and weight must be equally long, got {lengths}")
        return pa.table(columns), None
    if hasattr(edges, "is_multigraph"):  # networkx
        return _table_of_networkx(edges, weight), None
    if isinstance(edges, list):
        return _table_of_rows(edges), None
    if hasattr(edges, "__arrow_c_stream__") or isinstance(edges, pa.RecordBatch):
        try:
            return pa.table(edges), None
        except OverflowError as error:
            raise ValueError(f"columns of a table must hold {_NO_OTHERS}") from error
        except pa.ArrowException as error:
            rule = "columns of a table must hold values of one type, all text or all numbers"
            column = _NOT_CONVERTED.search(str(error))
            which = "" if column is None else f"; column {column[1]!r} of type {column[2]} does not"
            raise TypeError(f"{rule}{which}") from error
    if isinstance(edges, Mapping):
        raise TypeError(
            "edges must be of one kind, got a mapping; `sparsify_relations` takes those of several"
        )
    raise TypeError(
        "edges must be a path or URL, a table, a list of tuples, a tuple of arrays, a "
        f"sparse matrix or a graph, got {type(edges).__name__}"
    )


def _table_of_networkx(graph: Any, weight: str) -> pa.Table:
    """Edges of a graph of networkx, with empty columns of attributes that nobody reads.

    Those without a weight count 1, unless it is called alike in all.
    """
    names = {name for *_, data in graph.edges(data=True) for name in data if isinstance(name, str)}
    if weight in names:
        return _table_of_rows(list(graph.edges(data=weight, default=1.0)))
    others = sorted(name for name in names - {"src", "dst"} if not is_change_column(name))
    EdgeColumns(weight=weight).check(["src", "dst", *others])
    table = _table_of_rows(list(graph.edges()))
    for name in others:
        table = table.append_column(name, pa.nulls(table.num_rows))
    return table


def _table_of_rows(rows: Sequence[Any]) -> pa.Table:
    """Rows (u, v) or (u, v, weight) as a table; ids must be all strings or all integers."""
    if not rows:
        return pa.table({"src": pa.array([], pa.string()), "dst": pa.array([], pa.string())})
    widths = {len(row) if isinstance(row, tuple) else 0 for row in rows}
    if widths not in ({2}, {3}):
        raise ValueError("edges must be tuples, all (u, v) or all (u, v, weight)")
    columns = dict(zip(_PLACES, zip(*rows, strict=True), strict=False))
    kinds = {type(node) for name in ("src", "dst") for node in columns[name]}
    are_integers = all(issubclass(kind, int | np.integer) for kind in kinds) and bool not in kinds
    if kinds != {str} and not are_integers:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise TypeError(f"ids of nodes must be all strings or all integers, got {names}")
    return pa.table({name: _column(name, values) for name, values in columns.items()})


def _column(name: str, values: Any) -> pa.Array:
    """Ends or weights as Arrow has them."""
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        if name == "weight":
            rule = "must hold numbers of one type; make floats of all"
        else:
            rule = f"must hold {_NO_OTHERS}"
        raise ValueError(f"column {name!r} {rule} ({error})") from error


def columns_in_memory(edges: Edges, columns: EdgeColumns) -> EdgeColumns:
    """Names of the columns of `edge_table`: those given of a table, else the usual ones."""
    if hasattr(edges, "__arrow_c_stream__") or isinstance(edges, pa.RecordBatch):
        return columns
    return replace(
        PLAIN,
        src_kind=columns.src_kind,
        dst_kind=columns.dst_kind,
        missing_ids=columns.missing_ids,
        relation=columns.relation,
    )


def node_kind_of(schema: pa.Schema, columns: EdgeColumns) -> NodeKind:
    """Kinds and ids where columns name kinds, else integers or strings, as the sources are.

    A missing column is reported later.
    """
    if any(columns.kinds):
        return "typed"
    if columns.src not in schema.names:
        return "string"
    kind = plain_type(schema.field(schema.names.index(columns.src)).type)
    is_whole = pa.types.is_decimal(kind) or pa.types.is_floating(kind)  # where ids are: checked
    return "int64" if is_whole or pa.types.is_integer(kind) else "string"


def node_kind_of_file(staged: StagedFile) -> NodeKind:
    """What ids of a file are, as `node_kind_of` says."""
    with open_parquet(staged.local_path) as parquet:
        return node_kind_of(parquet.schema_arrow, staged.columns)
