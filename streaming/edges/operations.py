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
    **dict.fromkeys(("insert", "i", "c", "r"), INSERT),
    **dict.fromkeys(("delete", "d", "update_preimage"), DELETE),
    **dict.fromkeys(("set", "u", "update_postimage"), SET),
}
"""Operations by their names, in small letters."""


_DELETING: Final = sorted(
    {name for name, number in OPERATION_NUMBERS.items() if number == DELETE}
    | {"deleted", "del", "remove", "removed", "-d", "-u"}
)
_DELETED: Final = ("true", "t", "yes", "y", "1")


def read_operations(
    column: pa.Array | pa.ChunkedArray, name: str, first_row: int
) -> UInt8Array | None:
    """(n_rows,) uint8 operations by number; None where every row inserts.

    Raises `BadEdges` where the column holds no strings, or one that is no operation.
    """
    column = plain_column(column)
    if column.type not in (pa.string(), pa.large_string()):
        raise BadEdges(
            f"column {name!r} must hold strings, got type {excerpt(column.type)}", argument="op"
        )
    text = pc.utf8_lower(pc.cast(column, pa.string()))
    if isinstance(text, pa.ChunkedArray):
        text = text.combine_chunks()
    names = pa.array(list(OPERATION_NUMBERS), pa.string())
    place = pc.index_in(text, value_set=names).fill_null(len(OPERATION_NUMBERS)).to_numpy()
    numbers = np.array([*OPERATION_NUMBERS.values(), 255], np.uint8)[place]
    if numbers.max(initial=INSERT) > SET:
        row = int(np.argmax(numbers > SET))
        raise BadEdges(
            f"column {name!r} must hold operations: {', '.join(OPERATION_NUMBERS)}",
            argument="op",
            row=first_row + row,
            value=excerpt(text[row].as_py()),
        )
    return numbers if numbers.any() else None


def require_no_deletes(column: pa.Array | pa.ChunkedArray, name: str, first_row: int) -> None:
    """Raise `BadEdges` with the first row that asks for a delete, where nobody reads operations."""
    text = plain_column(column)
    if not (pa.types.is_boolean(text.type) or text.type in (pa.string(), pa.large_string())):
        return
    words = _DELETED if name == "__deleted" else _DELETING
    text = pc.utf8_lower(pc.utf8_trim_whitespace(pc.cast(text, pa.string())))
    is_delete = pc.is_in(text, value_set=pa.array(words))
    n_deletes = pc.sum(is_delete).as_py()
    if n_deletes:
        row = pc.index(is_delete, value=True).as_py()
        raise BadEdges(
            f"column {name!r} asks for deletes ({n_deletes} of the {len(text)} rows looked at), "
            "which this graph does not carry out; read it into a graph with deletions='exact' and "
            f"say op={name!r}, or say op='' to take every row for an edge",
            argument="op",
            row=first_row + row,
            value=repr(excerpt(text[row].as_py())),
        )


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
