"""Features as NDJSON tables, and as objects that were read already."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from peewit.streaming.edges.bad_table import BadUpload
from peewit.streaming.edges.json_tables import json_ids
from peewit.streaming.edges.node_ids import is_integer
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.features.checked_tables import NODE

_JSON_DENSE: Final = {"features": pa.list_(pa.float64())}
_JSON_SPARSE: Final = {"indices": pa.list_(pa.int64()), "values": pa.list_(pa.float64())}


def json_features(
    chunks: Iterable[list[Any]], node_kind: NodeKind | None, node: str = NODE
) -> Iterator[pa.RecordBatch]:
    """Objects of features, or of indices and values, as the first one has, and of node.

    Where ``node_kind`` is None, node is not asked for.
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
        yield pa.record_batch(batch)
        first_row += len(rows)


def _json_lists(values: list[Any], name: str, kind: pa.DataType, first_row: int) -> pa.Array:
    """Lists of numbers of one column; nulls stay, for `read_features` to refuse."""
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
    except (OverflowError, pa.ArrowInvalid):  # found below, row by row
        for row, value in enumerate(values, first_row):
            if any(not is_integer(each) for each in value):
                rule = f"{name!r} must be a list of 64-bit integers"
                raise BadUpload(rule, argument=name, row=row, value=value) from None
        raise
