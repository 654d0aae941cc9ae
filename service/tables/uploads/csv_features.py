"""Features in CSV tables with a header line; errors name the row."""

from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from peewit.service.tables.uploads.feature_deletes import require_none_deleted
from peewit.streaming.edges.arrow_faults import named_faults
from peewit.streaming.edges.bad_table import BadUpload, excerpt
from peewit.streaming.edges.columns import empty_cells
from peewit.streaming.edges.csv.layout import layout_of
from peewit.streaming.edges.csv.tables import converted, csv_header, without_blanks
from peewit.streaming.edges.node_kinds import TEXT, NodeKind
from peewit.streaming.features.checked_tables import NODE, with_names


def csv_features(
    file: BinaryIO,
    node_kind: NodeKind | None,
    node: str = NODE,
    *,
    check: Callable[[Sequence[str]], None] = lambda _names: None,
) -> Iterator[pa.RecordBatch]:
    """Batches of the node column, unless ``node_kind`` is None, and all others as one list."""
    start = file.tell()
    has_blanks_aside = not layout_of(file, (node,), "double")[0].quotes
    file.seek(start)
    names, first_line, opened = csv_header(file, (node,), quote="double")
    check(names)
    columns = [name for name in names if name != node]
    has_node = node_kind is None or node in names
    if not has_node or len(set(names)) < len(names) or not columns:
        owner = "" if node_kind is None else f"{node}, once, and "
        raise BadUpload(
            f"the columns must be {owner}at least one of numbers, each of another name; "
            f"they are {excerpt(', '.join(names), 200)}"
        )
    options = pa.csv.ConvertOptions(
        include_columns=names if node_kind is not None else columns,
        column_types={node: pa.string()} | dict.fromkeys(columns, pa.float64()),
        null_values=[""],
        strings_can_be_null=False,
    )
    first_row = 0
    rule = "every column but that of the node must hold numbers"
    with named_faults(rule, first_line=first_line):
        for batch in opened(options):
            if node_kind is not None:
                require_none_deleted(batch, {node}, first_row)
            rows = np.column_stack(
                [batch.column(name).to_numpy(zero_copy_only=False) for name in columns]
            )
            _require_no_null(batch, columns, first_row)
            lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), len(columns))
            table = with_names(lists, columns)
            if node_kind is not None:
                nodes = batch.column(node)
                nodes = without_blanks(nodes) if has_blanks_aside else nodes
                ids = csv_ids(nodes, node_kind, node, first_row)
                table = table.append_column(node, ids)
            yield table
            first_row += batch.num_rows


def csv_ids(column: pa.Array, node_kind: NodeKind, name: str, first_row: int) -> pa.Array:
    """Ids in the type of a graph's, null where a cell that should hold a number names none."""
    if node_kind in TEXT:
        return column
    is_missing = pa.array(empty_cells(column, keeps_missing=False))
    numbers = pc.if_else(is_missing, pa.scalar(None, column.type), column)
    return converted(numbers, pa.int64(), name, first_row)


def _require_no_null(batch: pa.RecordBatch, columns: list[str], first_row: int) -> None:
    """Raise where a field is empty."""
    for name in columns:
        column = batch.column(name)
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise BadUpload(
                f"column {name!r} must hold a number",
                argument=name,
                row=first_row + row,
                value="''",
            )
