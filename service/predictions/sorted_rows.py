"""Sorted rows of a prediction file.

The first few rows come by selection, a batch at a time; all rows by an index. Rows are then taken
in pieces from the memory-mapped file, which is never copied.
"""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.service.predictions.prediction_files import LABELED, PROVEN, PredictionFile
from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import BoolArray, IntArray

ROWS_PER_BATCH: Final = 1 << 16

_ASKED_FOR: Final = {"stability": "replicas=3", "variance": "variance=true", PROVEN: "prove=.01"}
"""Columns that only some jobs write, and the option that asks for each."""

_ASCENDING: Final = ("node", "label", "margin", "stability", PROVEN)
"""Columns sorted from the least value: names, and the least certain nodes."""

_OF_FEW_VALUES: Final = ("stability", PROVEN)
"""Columns in which most nodes are equal."""


def sorted_rows(
    file: PredictionFile,
    column: str,
    *,
    n_rows: int | None = None,
    is_reversed: bool = False,
    mask: Callable[[pa.RecordBatch], BoolArray] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Rows sorted by a column, those that ``mask`` keeps; equal ones in the order of the file.

    Of nodes that are equally proven or stable the more doubtful come first, by their margin.

    ``node``, ``label``, ``margin``, ``stability`` and ``proven`` ascend, other columns descend, or
    the reverse if ``is_reversed``. Nodes that no label reaches come last, except when sorted by
    ``node``. Raises ValueError for a column that is missing or empty.
    """
    numbers = sorted_numbers(file, column, n_rows=n_rows, is_reversed=is_reversed, mask=mask)
    pieces = np.split(numbers, range(ROWS_PER_BATCH, len(numbers), ROWS_PER_BATCH))
    return (batch for piece in pieces for batch in file.take(piece).to_batches())


def sorted_numbers(
    file: PredictionFile,
    column: str,
    *,
    n_rows: int | None = None,
    is_reversed: bool = False,
    mask: Callable[[pa.RecordBatch], BoolArray] | None = None,
) -> IntArray:
    """Numbers of the rows of `sorted_rows`, only of those that ``mask`` keeps.

    Of a million rows, the first fifty take some 70 ms, all take 0.8 s.
    """
    column = _full_name(file, column)
    _require_sortable(file, column)
    order = "ascending" if (column in _ASCENDING) != is_reversed else "descending"
    keys = [("key", order), ("tie", "ascending"), ("row", "ascending")]
    if n_rows is None:
        table = pa.concat_tables(list(_all_keys(file, column, mask)))
        numbers = table["row"].combine_chunks().take(pc.sort_indices(table, sort_keys=keys))
    else:
        numbers = _first_rows(file, column, keys, n_rows, mask)
    result: IntArray = numbers.to_numpy()
    return result


def _full_name(file: PredictionFile, column: str) -> str:
    """The column; ``score`` stands for ``probability``, too."""
    name, colon, of_class = column.partition(":")
    return f"{file.score_column}{colon}{of_class}" if name == "score" else column


def _require_sortable(file: PredictionFile, column: str) -> None:
    if column in _ASKED_FOR and column not in file.schema.names:
        option = _ASKED_FOR[column]
        raise BadArgument("sort", f"{column!r} needs a job with {option}; solve again with it")
    if column not in file.schema.names:
        raise BadArgument("sort", f"must be one of {', '.join(file.schema.names)}, got {column!r}")
    if column == "margin" and file.meta.score == "value":
        raise BadArgument("sort", "must be another column than 'margin': numbers have no margins")


def _all_keys(
    file: PredictionFile, column: str, mask: Callable[[pa.RecordBatch], BoolArray] | None
) -> Iterator[pa.Table]:
    """Sort keys and row numbers, a batch at a time."""
    n_seen = 0
    for batch in file.batches():
        keys = _keys(pa.Table.from_batches([batch]), column, n_seen)
        if mask is not None:
            wanted = np.flatnonzero(mask(batch)) + n_seen
            keys = keys.filter(pc.is_in(keys["row"], value_set=pa.array(wanted)))
        n_seen += batch.num_rows
        yield keys


def _first_rows(
    file: PredictionFile,
    column: str,
    keys: list[tuple[str, str]],
    n_rows: int,
    mask: Callable[[pa.RecordBatch], BoolArray] | None,
) -> pa.Array:
    """Numbers of the first rows, by selecting again after each batch."""
    first: pa.Table | None = None
    for keys_of_batch in _all_keys(file, column, mask):
        both = keys_of_batch if first is None else pa.concat_tables([first, keys_of_batch])
        first = both.take(pc.select_k_unstable(both, k=n_rows, sort_keys=keys))
    return pa.array([], pa.int64()) if first is None else first["row"].combine_chunks()


def _keys(table: pa.Table, column: str, first_row: int) -> pa.Table:
    """Sort keys, null where no label reaches, and row numbers."""
    key = table[column]
    if pa.types.is_dictionary(key.type):
        key = key.cast(key.type.value_type)  # select_k takes no dictionaries
    if column not in {"node", "reachable", LABELED}:
        key = pc.if_else(table["reachable"], key, None)
    nothing = pa.nulls(len(table), pa.float32())
    tie = table["margin"] if column in _OF_FEW_VALUES else nothing
    keys = pa.table({"key": key, "tie": tie, "row": np.arange(first_row, first_row + len(table))})
    nodes = table["node"]
    return keys.filter(nodes.is_valid()) if nodes.null_count else keys
