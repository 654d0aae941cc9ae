"""Operations: what a row of a table of changes does to the edges before it.

A row without an operation adds an edge. Names, in any case, are those of change feeds: of Debezium
(c, r, u, d) and of Delta tables (insert, delete, update_preimage, update_postimage).
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.solvers.arrays import UInt8Array
from peewit.streaming.edges.blocks import BadEdges, excerpt
from peewit.streaming.edges.plain_types import plain_column

DELETIONS_OFF: Final = (
    "rows must insert in a graph whose deletions are off; offer the file to one that was created "
    "with --deletions exact"
)
"""Rule broken by rows that delete or set."""

INSERT: Final = 0
"""Adds an edge; weights of parallel edges add up."""

DELETE: Final = 1
"""Removes all edges of the pair that came before; of a pair without edges nothing."""

SET: Final = 2
"""Removes all edges of the pair that came before, and adds one."""

OPERATIONS: Final = ("insert", "delete", "set")
"""Names of the operations by their numbers."""

OPERATION_NUMBERS: Final = {
    **dict.fromkeys(("insert", "i", "c", "r", "+i", "1"), INSERT),
    **dict.fromkeys(("delete", "d", "update_preimage", "update_before", "-d", "-u"), DELETE),
    **dict.fromkeys(("deleted", "del", "remove", "removed", "tombstone", "-1"), DELETE),
    **dict.fromkeys(("set", "u", "update_postimage", "update_after", "+u"), SET),
}
"""Operations by their names, in small letters."""

FLAGS: Final = ("deleted", "removed", "tombstone")
"""Ends of names of columns that say whether a row is deleted."""

_FLAG_WORDS: Final = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), DELETE),
    **dict.fromkeys(("false", "f", "no", "n", "0"), INSERT),
}
_NUMBERED: Final = {"1": DELETE, "2": INSERT, "3": DELETE, "4": SET}


def operations_named(column: str) -> dict[str, int]:
    """Operations by what stands for them in a column of some name: words, flags or numbers."""
    if any(flag in column.lower() for flag in FLAGS):
        return OPERATION_NUMBERS | _FLAG_WORDS
    return _NUMBERED if column.lower() == "__$operation" else OPERATION_NUMBERS


def read_operations(
    column: pa.Array | pa.ChunkedArray, name: str, first_row: int
) -> UInt8Array | None:
    """(n_rows,) uint8 operations by number; None where every row inserts.

    Raises `BadEdges` where the column holds no words, or one that is no operation.
    """
    text = words_of(column)
    if text is None:
        raise BadEdges(
            f"column {name!r} must hold strings, got type {excerpt(column.type)}", argument="op"
        )
    known = operations_named(name)
    place = pc.index_in(text, value_set=pa.array(list(known))).fill_null(len(known)).to_numpy()
    numbers = np.array([*known.values(), 255], np.uint8)[place]
    if numbers.max(initial=INSERT) > SET:
        row = int(np.argmax(numbers > SET))
        raise BadEdges(
            f"column {name!r} must hold operations: {', '.join(known)}",
            argument="op",
            row=first_row + row,
            value=repr(excerpt(text[row].as_py())),
        )
    return numbers if numbers.any() else None


def words_of(column: pa.Array | pa.ChunkedArray) -> pa.Array | None:
    """Text, truth values or numbers as words in small letters; None of other types."""
    column = plain_column(column)
    kind = column.type
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not (is_number or is_bytes or is_text or pa.types.is_boolean(kind)):
        return None
    try:
        text = pc.utf8_lower(pc.utf8_trim_whitespace(column.cast(pa.string())))
    except pa.ArrowInvalid:  # bytes that are no text
        return None
    return text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text


def without_deleted_weights(
    weight: pa.Array | pa.ChunkedArray, op: UInt8Array
) -> pa.Array | pa.ChunkedArray:
    """The weights, 1 in rows that delete: what stands there means nothing, and may be missing."""
    if pa.types.is_null(weight.type):
        weight = weight.cast(pa.float64())
    try:
        one = pa.scalar("1").cast(weight.type)
    except pa.ArrowException:  # no type of weights, which is told where they are checked
        return weight
    return pc.if_else(pa.array(op == DELETE), one, weight)
