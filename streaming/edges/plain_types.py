"""Plain types: the one gate that turns the types of Arrow into the few that tables are read in.

Dictionaries, runs, views and extensions become what they stand for. What is none of text, bytes,
numbers, truth values, moments or lists is refused by whoever reads the column, by name.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.solvers.arrays import IntArray, UInt8Array

PERIOD: Final = "pandas.period"
"""An extension whose numbers count months or days: no values that anybody means."""

_WIDE: Final = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type whose values a column of some type stands for."""
    while True:
        if isinstance(kind, pa.BaseExtensionType) and kind.extension_name != PERIOD:
            kind = kind.storage_type
        elif pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
            kind = kind.value_type
        else:
            return _WIDE.get(kind, kind)


def is_text(kind: pa.DataType) -> bool:
    """Whether values of a type are text."""
    return plain_type(kind) in {pa.string(), pa.large_string()}


def plain_column(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The column itself where its type is plain, else its values in the plain type."""
    if plain_type(column.type) == column.type:
        return column
    if isinstance(column, pa.ChunkedArray):
        chunks = [plain_column(chunk) for chunk in column.chunks]
        return pa.chunked_array(chunks, plain_type(column.type))
    if isinstance(column.type, pa.BaseExtensionType):
        return plain_column(column.storage)
    if pa.types.is_dictionary(column.type):
        values = plain_column(column.dictionary)
        return values.take(column.indices)
    if pa.types.is_run_end_encoded(column.type):
        return plain_column(pc.run_end_decode(column))
    return column.cast(_WIDE[column.type])


def text_bytes(column: pa.Array) -> tuple[IntArray, UInt8Array]:
    """(n_rows + 1,) where each text of a plain column begins and ends, and the bytes of all."""
    if not len(column):
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    _, offsets, data = column.buffers()
    wide = pa.types.is_large_string(column.type)
    ends = np.frombuffer(offsets, dtype=np.int64 if wide else np.int32)
    ends = ends[column.offset : column.offset + len(column) + 1]
    content = np.frombuffer(data if data is not None else b"", np.uint8)[ends[0] : ends[-1]]
    return ends - ends[0], content
