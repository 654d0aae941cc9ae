"""Decoded size of an Arrow IPC stream, from the metadata of its messages.

Nothing is decompressed here: a compressed buffer says in its first bytes how long it will be, and
the decoder allocates what stands there.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from flatbuffers import number_types
from flatbuffers.table import Table

_CONTINUES: Final = 0xFFFFFFFF
_MAX_METADATA_BYTES: Final = 16 << 20
_SCHEMA: Final = 1
_DICTIONARY_BATCH: Final = 2
_RECORD_BATCH: Final = 3
_FIELDS_OF_SCHEMA: Final = 6
_FIELDS_OF_FIELD: Final = 14
"""Where the tables of a schema and of a field say which fields they have."""

_PLAIN: Final = -1
"""Length that a compressed batch gives for a buffer that is not compressed itself."""


class UnboundedArrow(ValueError):
    """The decoded size of the stream is unknown, or the stream is damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowSurvey:
    """Rows, columns and bytes of a decoded stream.

    Attributes
    ----------
    n_columns : int
        Columns and those within them; beyond the most that there may be, they are not counted on.
    n_rows : int
        Rows of all record batches.
    decoded_bytes : int
        Bytes of all buffers once they are decompressed.
    largest_message_bytes : int
        Of the buffers of one message, which are decoded together.
    """

    n_columns: int
    n_rows: int
    decoded_bytes: int
    largest_message_bytes: int


def survey_arrow(file: BinaryIO, *, max_columns: int) -> ArrowSurvey:
    """Look at the messages of a stream in a seekable file, which is left where it stood.

    Raises
    ------
    UnboundedArrow
        The stream is damaged.
    """
    start = file.tell()
    n_columns = n_rows = decoded_bytes = largest = 0
    try:
        for message, body, body_bytes in _messages(file):
            n_columns = max(n_columns, _n_columns(message, max_columns))
            batch = _batch(message)
            if batch is None:
                continue
            is_dictionary, record = batch
            size = _decoded_bytes(file, record, body, body_bytes)
            decoded_bytes += size
            largest = max(largest, size)
            if not is_dictionary:
                n_rows += max(_number(record, 0), 0)
    except (struct.error, IndexError, TypeError) as error:
        raise UnboundedArrow(f"the metadata of a message is damaged ({error})") from error
    finally:
        file.seek(start)
    return ArrowSurvey(
        n_columns=n_columns,
        n_rows=n_rows,
        decoded_bytes=decoded_bytes,
        largest_message_bytes=largest,
    )


def _messages(file: BinaryIO) -> Iterator[tuple[Table, int, int]]:
    """The table of each message, where its body begins, and how long it is."""
    position = file.tell()
    end = file.seek(0, 2)
    while True:
        file.seek(position)
        prefix = file.read(8)
        if len(prefix) < 4:
            return
        (length,) = struct.unpack("<I", prefix[:4])
        position += 4
        if length == _CONTINUES:
            if len(prefix) < 8:
                return
            (length,) = struct.unpack("<I", prefix[4:])
            position += 4
        if length == 0:
            return
        if length > min(_MAX_METADATA_BYTES, end - position):
            raise UnboundedArrow(
                f"the metadata of a message must have at most {_MAX_METADATA_BYTES} bytes and lie "
                f"in the stream, got {length}"
            )
        file.seek(position)
        metadata = file.read(length)
        message = Table(metadata, struct.unpack_from("<I", metadata, 0)[0])
        body, body_bytes = position + length, _number(message, 3)
        if not 0 <= body_bytes <= end - body:
            raise UnboundedArrow(
                f"the body of a message must lie in the stream, got {body_bytes} bytes of "
                f"{end - body}"
            )
        yield message, body, body_bytes
        position = body + body_bytes


def _kind(message: Table) -> int:
    at = message.Offset(6)
    return int(message.Get(number_types.Uint8Flags, message.Pos + at)) if at else 0


def _header(message: Table) -> Table:
    return Table(message.Bytes, message.Indirect(message.Pos + message.Offset(8)))


def _n_columns(message: Table, most: int) -> int:
    """Fields of a schema, with those below them, counted until there are too many."""
    if _kind(message) != _SCHEMA:
        return 0
    tables = [(_header(message), _FIELDS_OF_SCHEMA)]
    n_columns = 0
    while tables:
        table, slot = tables.pop()
        at = table.Offset(slot)
        n_fields = table.VectorLen(at) if at else 0
        if n_columns + n_fields > most:
            return most + 1
        n_columns += n_fields
        for number in range(n_fields):
            field = table.Indirect(table.Vector(at) + 4 * number)
            tables.append((Table(table.Bytes, field), _FIELDS_OF_FIELD))
    return n_columns


def _batch(message: Table) -> tuple[bool, Table] | None:
    """The record batch of a message, and whether it is the content of a dictionary."""
    kind = _kind(message)
    if kind not in {_DICTIONARY_BATCH, _RECORD_BATCH}:
        return None
    header = _header(message)
    if kind == _RECORD_BATCH:
        return False, header
    return True, Table(header.Bytes, header.Indirect(header.Pos + header.Offset(6)))


def _decoded_bytes(file: BinaryIO, record: Table, body: int, body_bytes: int) -> int:
    """Bytes of the buffers of a batch; those that are not compressed are parts of the body."""
    if not record.Offset(10):
        return body_bytes
    buffers_at = record.Offset(8)
    if not buffers_at:
        return body_bytes
    first = record.Vector(buffers_at)
    total = 0
    for number in range(record.VectorLen(buffers_at)):
        offset, length = struct.unpack_from("<qq", record.Bytes, first + 16 * number)
        if length < 8:
            continue
        if not 0 <= offset <= body_bytes - length:
            raise UnboundedArrow(
                f"a buffer must lie in the body of its message, got {length} bytes at {offset} "
                f"of {body_bytes}"
            )
        file.seek(body + offset)
        (size,) = struct.unpack("<q", file.read(8))
        if size < _PLAIN:
            raise UnboundedArrow(f"a compressed buffer must tell its length, got {size}")
        total += length if size == _PLAIN else size
    return total + body_bytes


def _number(table: Table, field: int) -> int:
    """A 64-bit integer of a table; 0 where it is left out."""
    at = table.Offset(4 + 2 * field)
    return int(table.Get(number_types.Int64Flags, table.Pos + at)) if at else 0
