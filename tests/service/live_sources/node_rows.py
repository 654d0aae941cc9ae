"""Rows of nodes for tests: labels and features, sent and read back."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from peewit.service.live_sources.chunk_rows import (
    ids_of,
    labels_of,
    operation_number,
    operations_of,
)
from peewit.service.live_sources.contract import Chunk
from peewit.streaming.edges.operations import DELETE

NodeHolds = Literal["labels", "features"]

NODE_VALUES: Final[Mapping[NodeHolds, Sequence[Mapping[str, Any]]]] = {
    "labels": [{"label": "west"}, {"label": "east"}, {"label": "south"}],
    "features": [{"features": [1.0, 2.0]}, {"features": [3.0, 4.0]}, {"features": [5.0, 6.0]}],
}
"""Of each kind of rows three."""


def labels(*rows: tuple[Any, Any] | tuple[Any, Any, str]) -> pa.Table:
    """Rows of (node, label) or (node, label, op), of any types."""
    full = [(*row, "set")[:3] for row in rows]
    texts = [[None if each is None else json.dumps(each) for each in row[:2]] for row in full]
    return pa.table(
        {
            "node": pa.array([node for node, _ in texts], pa.json_()),
            "label": pa.array([label for _, label in texts], pa.json_()),
            "op": [row[2] for row in full],
        }
    )


def sent_nodes(
    holds: NodeHolds, values: Mapping[str, int | None], ops: Sequence[str] | None = None
) -> pa.Table:
    """A row for each node with a value of `NODE_VALUES`, and what the rows do."""
    (name,) = NODE_VALUES[holds][0]
    cells = [
        None if value is None else NODE_VALUES[holds][value][name] for value in values.values()
    ]
    table = pa.table({"node": list(values), name: cells})
    return table if ops is None else table.append_column("op", [ops])


def put_nodes(url: str, holds: NodeHolds, values: Mapping[str, int | None]) -> None:
    """Update the nodes that a Delta table has, insert the others; the table is made if need be."""
    rows = sent_nodes(holds, values)
    if not (Path(url) / "_delta_log").exists():
        write_deltalake(url, rows, configuration={"delta.enableChangeDataFeed": "true"})
        return
    task = DeltaTable(url).merge(
        rows, "told.node = mine.node", source_alias="told", target_alias="mine"
    )
    task.when_matched_update_all().when_not_matched_insert_all().execute()


def nodes_after(holds: NodeHolds, chunks: Iterable[Chunk]) -> dict[str, int]:
    """The nodes that rows leave, each with the number of its value."""
    (name,) = NODE_VALUES[holds][0]
    known = [each[name] for each in NODE_VALUES[holds]]
    found: dict[str, int] = {}
    for chunk in chunks:
        table = chunk.table
        if table is None:
            continue
        values = labels_of(table) if holds == "labels" else _features(table)
        nodes = ids_of(table, pa.large_string())
        for node, value, op in zip(nodes, values, operations_of(table), strict=True):
            if operation_number(op) == DELETE or value is None:
                found.pop(node, None)
            else:
                found[node] = known.index(value)
    return found


def _features(table: pa.Table) -> list[Any]:
    if "features" not in table.column_names:
        return [None] * table.num_rows
    return list(table.column("features").to_pylist())
