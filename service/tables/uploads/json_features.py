"""Features and edges of new points, from NDJSON tables and from parsed objects."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from peewit.service.tables.uploads.feature_deletes import asks_for_deletes
from peewit.streaming.edges.bad_table import BadUpload
from peewit.streaming.edges.json_tables import json_ids, texts_of
from peewit.streaming.edges.node_ids import id_type, is_integer, node_id
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.features.checked_tables import (
    COLUMNS,
    EDGES,
    NODE,
    BadFeatures,
    order_of,
    with_names,
)

_JSON_DENSE: Final = {"features": pa.list_(pa.float64())}
_LARGEST_WEIGHT: Final = float(np.finfo(np.float32).max)
_JSON_SPARSE: Final = {"indices": pa.list_(pa.int64()), "values": pa.list_(pa.float64())}


def json_features(
    chunks: Iterable[list[Any]],
    node_kind: NodeKind | None,
    node: str = NODE,
    *,
    edge_kind: NodeKind | None = None,
    names: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches of features, or of indices and values, as the first object has, and of nodes.

    Without ``node_kind`` rows have no node, and may be numbers by their ``names`` where the
    features have some. With ``edge_kind`` they may have edges to nodes of that kind.
    """
    first_row = 0
    owner = set() if node_kind is None else {node}
    kinds: dict[str, pa.DataType] | None = None
    is_named = False
    for rows in chunks:
        if kinds is None:
            is_named = node_kind is None and names is not None and is_by_name(rows[0])
            has_indices = isinstance(rows[0], dict) and "indices" in rows[0]
            kinds = _JSON_SPARSE if has_indices else _JSON_DENSE
        if is_named:
            made = _named_numbers(rows, names or (), first_row)
            yield with_edges(made, rows, edge_kind, first_row)
            first_row += len(rows)
            continue
        for number, row in enumerate(rows, first_row):
            if not isinstance(row, dict) or not row.keys() >= owner | kinds.keys():
                held = ", ".join([*owner, " and ".join(kinds)])
                rule = f"a row must be an object with {held}, as the first one"
                raise BadUpload(rule, row=number, value=row)
        batch = {
            name: _json_lists([row[name] for row in rows], name, kind, first_row)
            for name, kind in kinds.items()
        }
        if node_kind is not None:
            batch[node] = json_ids([row[node] for row in rows], node, node_kind, first_row)
            others = set().union(*rows).difference(batch)
            batch |= {
                name: texts_of([row.get(name) for row in rows])
                for name in filter(asks_for_deletes, sorted(others))
            }
        yield with_edges(pa.record_batch(batch), rows, edge_kind, first_row)
        first_row += len(rows)


def is_by_name(row: Any) -> bool:
    """Whether a point is an object with the columns of features by name."""
    return (
        isinstance(row, dict)
        and not row.keys() & set(COLUMNS[1:])
        and bool(row.keys() - {NODE, EDGES})
    )


def with_edges(
    batch: pa.RecordBatch, rows: list[dict[str, Any]], edge_kind: NodeKind | None, first_row: int
) -> pa.RecordBatch:
    """Features of some points, and their edges where one has some."""
    if edge_kind is None or all(row.get(EDGES) is None for row in rows):
        return batch
    return batch.append_column(EDGES, _json_edges(rows, edge_kind, first_row))


def _named_numbers(rows: list[Any], names: Sequence[str], first_row: int) -> pa.RecordBatch:
    """Rows that hold each column of the features as a number, and no other."""
    for number, row in enumerate(rows, first_row):
        if not isinstance(row, dict):
            raise BadUpload("a row must be an object", row=number, value=row)
        try:
            order_of([name for name in row if name not in {NODE, EDGES}], names)
        except BadFeatures as error:
            raise BadFeatures(error.reason, argument=error.argument, row=number) from error
        for name in names:
            if type(row[name]) not in {int, float}:
                rule = f"column {name!r} must hold a number in every row"
                raise BadUpload(rule, argument=name, row=number, value=row[name])
    values = np.array([[row[name] for name in names] for row in rows], np.float64)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), len(names))
    return with_names(lists, names)


def _json_edges(rows: list[dict[str, Any]], node_kind: NodeKind, first_row: int) -> pa.Array:
    """Lists of a node and a weight, by default 1; empty where a row has no edges."""
    lists = []
    for number, row in enumerate(rows, first_row):
        edges = [] if row.get(EDGES) is None else row[EDGES]
        if not isinstance(edges, list) or not all(map(_is_edge, edges)):
            rule = "'edges' must be a list of objects with node and, if you like, weight"
            raise BadUpload(rule, argument=EDGES, row=number, value=edges)
        lists.append([_json_edge(each, node_kind, number) for each in edges])
    ends = pa.struct([("node", id_type(node_kind)), ("weight", pa.float64())])
    return pa.array(lists, pa.list_(ends))


def _is_edge(value: object) -> bool:
    return isinstance(value, dict) and {"node"} <= value.keys() <= {"node", "weight"}


def _json_edge(edge: dict[str, Any], node_kind: NodeKind, row: int) -> dict[str, Any]:
    weight = edge.get("weight", 1.0)
    if type(weight) not in {int, float} or not 0 < weight <= _LARGEST_WEIGHT:
        rule = "the 'weight' of an edge must be finite and > 0"
        raise BadUpload(rule, argument=EDGES, row=row, value=weight)
    return {"node": node_id(edge["node"], node_kind, row=row), "weight": float(weight)}


def _json_lists(values: list[Any], name: str, kind: pa.DataType, first_row: int) -> pa.Array:
    """Lists of numbers of one column; nulls stay, so that `read_features` refuses them."""
    is_index = pa.types.is_integer(kind.value_type)
    usual = {int} if is_index else {int, float, type(None)}
    for row, value in enumerate(values, first_row):
        if not isinstance(value, list) or not {type(each) for each in value} <= usual:
            wanted = "64-bit integers" if is_index else "numbers"
            raise BadUpload(
                f"{name!r} must be a list of {wanted}", argument=name, row=row, value=value
            )
    if not is_index:
        values = [[None if each is None else float(each) for each in value] for value in values]
    try:
        return pa.array(values, kind)
    except (OverflowError, pa.ArrowInvalid):  # the row is found below
        for row, value in enumerate(values, first_row):
            if any(not is_integer(each) for each in value):
                rule = f"{name!r} must be a list of 64-bit integers"
                raise BadUpload(rule, argument=name, row=row, value=value) from None
        raise
