"""Decoded size of an Arrow IPC stream, from the metadata of its messages.

Nothing is decompressed: a compressed buffer states its decoded length in its first bytes, and the
decoder allocates that much. Names and metadata are counted, too, since the decoder copies a shared
string each time that it is referenced.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from flatbuffers import number_types
from flatbuffers.table import Table

_CONTINUES: Final = 0xFFFFFFFF
_MAX_METADATA_BYTES: Final = 16 << 20
_MAX_ENTRIES: Final = 1 << 16
"""Most entries of metadata in a stream; four bytes repeat one, and Arrow allocates each time."""

_SCHEMA: Final = 1
_DICTIONARY_BATCH: Final = 2
_RECORD_BATCH: Final = 3
_FIELDS_OF_SCHEMA: Final = 6
_FIELDS_OF_FIELD: Final = 14
"""Slots of the tables of a schema and of a field that hold their fields."""

_ENTRIES_OF_SCHEMA: Final = 8
_ENTRIES_OF_FIELD: Final = 16
_ENTRIES_OF_MESSAGE: Final = 12
"""Slots of the tables of a schema, a field and a message that hold their metadata."""

_TIMESTAMP: Final = 10
"""Type of field with a string of its own, the time zone."""

_PLAIN: Final = -1
"""Length that marks an uncompressed buffer in a compressed batch."""


class UnboundedArrow(ValueError):
    """The decoded size of the stream is unknown, or the stream is damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowSurvey:
    """Rows, columns and bytes of a decoded stream."""

    n_columns: int  # nested ones, too; counting stops beyond the limit
    n_rows: int
    decoded_bytes: int  # of all buffers, names and metadata
    largest_message_bytes: int  # decoded; a message is decoded at once


def survey_arrow(file: BinaryIO, *, max_columns: int) -> ArrowSurvey:
    """Survey of a stream in a seekable file, whose position is restored.

    Raises `UnboundedArrow` where the stream is damaged.
    """
    start = file.tell()
    n_columns = n_rows = n_entries = decoded_bytes = largest = 0
    try:
        for message, body, body_bytes in _messages(file):
            fields = _fields(message, max_columns - n_columns)
            n_columns += len(fields)
            if n_columns > max_columns:
                break
            size = sum(_name_bytes(field) for field in fields)
            for entry in _entries(message, fields):
                n_entries += 1
                if n_entries > _MAX_ENTRIES:
                    raise UnboundedArrow(
                        f"a stream must have at most {_MAX_ENTRIES} entries of metadata"
                    )
                size += _string_bytes(entry, 4) + _string_bytes(entry, 6)
            if batch := _batch(message):
                is_dictionary, record = batch
                size += _decoded_bytes(file, record, body, body_bytes)
                if not is_dictionary:
                    n_rows += max(_number(record, 0), 0)
            decoded_bytes += size
            largest = max(largest, size)
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
    """The table of each message, the start of its body, and the length of its body."""
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


def _tables(table: Table, slot: int) -> Iterator[Table]:
    """The tables that a vector of a table refers to."""
    at = table.Offset(slot)
    for number in range(table.VectorLen(at) if at else 0):
        yield Table(table.Bytes, table.Indirect(table.Vector(at) + 4 * number))


def _fields(message: Table, most: int) -> list[Table]:
    """Fields of a schema with nested ones, until there are too many."""
    tables: list[Table] = []
    parents = [(_header(message), _FIELDS_OF_SCHEMA)] if _kind(message) == _SCHEMA else []
    while parents:
        for field in _tables(*parents.pop()):
            tables.append(field)
            if len(tables) > most:
                return tables
            parents.append((field, _FIELDS_OF_FIELD))
    return tables


def _entries(message: Table, fields: list[Table]) -> Iterator[Table]:
    """Metadata of a message, and of the schema and fields in it."""
    for _ in range(2):  # Arrow copies them with the message, and again with its batch
        yield from _tables(message, _ENTRIES_OF_MESSAGE)
    if _kind(message) == _SCHEMA:
        yield from _tables(_header(message), _ENTRIES_OF_SCHEMA)
    for field in fields:
        yield from _tables(field, _ENTRIES_OF_FIELD)


def _name_bytes(field: Table) -> int:
    """Bytes of the name of a field and of its time zone."""
    at = field.Offset(8)
    if not at or field.Get(number_types.Uint8Flags, field.Pos + at) != _TIMESTAMP:
        return _string_bytes(field, 4)
    kind = Table(field.Bytes, field.Indirect(field.Pos + field.Offset(10)))
    return _string_bytes(field, 4) + _string_bytes(kind, 6)


def _string_bytes(table: Table, slot: int) -> int:
    at = table.Offset(slot)
    return int(table.VectorLen(at)) if at else 0


def _batch(message: Table) -> tuple[bool, Table] | None:
    """The record batch of a message, and whether it belongs to a dictionary."""
    kind = _kind(message)
    if kind not in {_DICTIONARY_BATCH, _RECORD_BATCH}:
        return None
    header = _header(message)
    if kind == _RECORD_BATCH:
        return False, header
    return True, Table(header.Bytes, header.Indirect(header.Pos + header.Offset(6)))


def _decoded_bytes(file: BinaryIO, record: Table, body: int, body_bytes: int) -> int:
    """Bytes of the decoded buffers of a batch; uncompressed ones are parts of the body."""
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
    """A 64-bit integer of a table; 0 where it is absent."""
    at = table.Offset(4 + 2 * field)
    return int(table.Get(number_types.Int64Flags, table.Pos + at)) if at else 0
