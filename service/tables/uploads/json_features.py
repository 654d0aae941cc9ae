"""Features and edges of new points, from NDJSON tables and from parsed objects."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from peewit.streaming.edges.bad_table import BadUpload
from peewit.streaming.edges.json_tables import json_ids
from peewit.streaming.edges.node_ids import id_type, is_integer, node_id
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.features.checked_tables import EDGES, NODE

_JSON_DENSE: Final = {"features": pa.list_(pa.float64())}
_LARGEST_WEIGHT: Final = float(np.finfo(np.float32).max)
_JSON_SPARSE: Final = {"indices": pa.list_(pa.int64()), "values": pa.list_(pa.float64())}


def json_features(
    chunks: Iterable[list[Any]],
    node_kind: NodeKind | None,
    node: str = NODE,
    *,
    edge_kind: NodeKind | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches of features, or of indices and values, as the first object has, and of nodes.

    Without ``node_kind`` rows have no node. With ``edge_kind`` they may have edges to nodes of that
    kind.
    """
    first_row = 0
    owner = set() if node_kind is None else {node}
    kinds: dict[str, pa.DataType] | None = None
    for rows in chunks:
        if kinds is None:
            has_indices = isinstance(rows[0], dict) and "indices" in rows[0]
            kinds = _JSON_SPARSE if has_indices else _JSON_DENSE
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
        if edge_kind is not None and any(row.get(EDGES) is not None for row in rows):
            batch[EDGES] = _json_edges(rows, edge_kind, first_row)
        yield pa.record_batch(batch)
        first_row += len(rows)


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
