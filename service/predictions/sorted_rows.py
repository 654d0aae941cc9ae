"""Rows of a prediction file in the order of a column.

The first few come by selection, a batch at a time; all of them by an index, and some are taken at
a time: the file is memory-mapped, and no copy of it is made.
"""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.service.predictions.prediction_files import PredictionFile
from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import BoolArray, IntArray

ROWS_PER_BATCH: Final = 1 << 16

_ASKED_FOR: Final = {"stability": "replicas=3", "variance": "variance=true"}
"""Columns that a job has only if it was asked for them."""

_ASCENDING: Final = ("node", "label", "margin", "stability")
"""Columns whose least value comes first: names in their order, and the least certain nodes."""


def sorted_rows(
    file: PredictionFile, column: str, *, n_rows: int | None = None, is_reversed: bool = False
) -> Iterator[pa.RecordBatch]:
    """Rows in the order of a column, those of equal value in the order of the file.

    By ``node``, ``label``, ``margin`` and ``stability`` the least comes first, by other columns the
    largest. Nodes that no label reaches come last, but by ``node``.

    Parameters
    ----------
    file : PredictionFile
        What is sorted.
    column : str
        Name of one of its columns.
    n_rows : int, optional
        Only so many rows, the first ones.
    is_reversed : bool
        In the opposite order; nodes without a value stay last.

    Raises
    ------
    ValueError
        There is no such column, or it holds nothing.
    """
    numbers = sorted_numbers(file, column, n_rows=n_rows, is_reversed=is_reversed)
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
    """Numbers of the rows that `sorted_rows` gives, of those alone that ``mask`` takes.

    A million rows take some 70 ms for the first fifty, and .8 s for all.
    """
    column = _named(file, column)
    _require_sortable(file, column)
    order = "ascending" if (column in _ASCENDING) != is_reversed else "descending"
    keys = [("key", order), ("row", "ascending")]
    if n_rows is None:
        found = pa.concat_tables(list(_all_keys(file, column, mask)))
        numbers = found["row"].combine_chunks().take(pc.sort_indices(found, sort_keys=keys))
    else:
        numbers = _first_rows(file, column, keys, n_rows, mask)
    result: IntArray = numbers.to_numpy()
    return result


def _named(file: PredictionFile, column: str) -> str:
    """The column; ``score`` is also what probabilities are called to those who sort by them."""
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
    """What decides the order, a batch at a time."""
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
    """Numbers of the first rows: of those kept so far and a batch, the first ones are kept."""
    kept: pa.Table | None = None
    for found in _all_keys(file, column, mask):
        both = found if kept is None else pa.concat_tables([kept, found])
        kept = both.take(pc.select_k_unstable(both, k=n_rows, sort_keys=keys))
    return pa.array([], pa.int64()) if kept is None else kept["row"].combine_chunks()


def _keys(table: pa.Table, column: str, first_row: int) -> pa.Table:
    """What decides the order of rows, null where no label reaches; and their numbers."""
    key = table[column]
    if pa.types.is_dictionary(key.type):
        key = key.cast(key.type.value_type)  # Arrow cannot select by codes
    if column not in {"node", "reachable"}:
        key = pc.if_else(table["reachable"], key, None)
    keys = pa.table({"key": key, "row": np.arange(first_row, first_row + len(table))})
    nodes = table["node"]
    return keys.filter(nodes.is_valid()) if nodes.null_count else keys
