"""Tables to and from the server: Arrow IPC streams a batch at a time, or files as they lie."""

import json
import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa

from peewit.service.client.call_steps import Body
from peewit.service.tables.formats import encode
from peewit.service.wire.labels import Label
from peewit.streaming.edges.table_formats import Format, format_of_file

ROWS_PER_BATCH: Final = 1 << 16
"""Rows that are encoded at once."""

_BYTES_PER_PIECE: Final = 1 << 20
_ROWS_PER_PIECE: Final = 1 << 12


class ArrowStream(Protocol):
    """What has the Arrow PyCapsule interface: tables of pyarrow, pandas, polars and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A capsule with a stream of batches."""
        ...


TableLike: TypeAlias = ArrowStream | pa.RecordBatch | Iterable[pa.RecordBatch] | Path | str
"""A table in memory, batches one after another, or a file in a format that its suffix names.

Files may be packed: `.csv.gz`, `.ndjson.zst`."""


class ByNode(Protocol):
    """A Series: values, and the nodes that they are of."""

    @property
    def index(self) -> Any:
        """The nodes."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """The values."""
        ...


Labels: TypeAlias = Mapping[Any, Label | Mapping[str, Label]] | ByNode | TableLike
"""Labels by node, as a mapping or a Series, or a table of them."""


def by_node(labels: Labels) -> Mapping[Any, Label | Mapping[str, Label]] | TableLike:
    """Labels of a Series as a mapping, where no node stands twice; others as they are."""
    index: Any = getattr(labels, "index", None)
    if index is None or callable(index) or getattr(labels, "ndim", 1) != 1:
        return labels  # no Series
    found: dict[Any, Label] = {}
    values: Any = labels
    for node, label in zip(index, values, strict=True):
        if node in found:
            raise ValueError(
                f"labels of a Series must name each node once, got {node!r} twice; give a table "
                "with columns node and label, and say contradictions"
            )
        found[node] = label
    return found


def table_body(table: TableLike) -> Body:
    """A table as the body of a request.

    Tables are encoded while they are sent, and files sent as they lie; nothing is copied whole.
    Readers and iterators give their batches once: a call with one of them is repeated only if it
    failed before the first batch was taken.
    """
    if isinstance(table, str | Path):
        return _file_body(Path(table))
    if hasattr(table, "__dask_graph__"):
        raise TypeError(
            "a table must be in memory, got one of dask; compute its partitions, as to_delayed() "
            "gives them, and send each with a key of its own"
        )
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if isinstance(table, pa.Table):
        return _arrow_body(lambda: table.to_reader(ROWS_PER_BATCH), is_repeatable=True)
    if hasattr(table, "__arrow_c_stream__"):
        # A data frame exports a stream each time it is asked; a reader its only one.
        can_repeat = not isinstance(table, pa.RecordBatchReader) and not isinstance(table, Iterator)
        return _arrow_body(
            lambda: pa.RecordBatchReader.from_stream(table), is_repeatable=can_repeat
        )
    if isinstance(table, Iterable) and not isinstance(table, bytes | Mapping):
        can_repeat = not isinstance(table, Iterator)
        return _arrow_body(lambda: _reader_of(table), is_repeatable=can_repeat)
    raise TypeError(
        "a table must be a path, an Arrow table, record batches, or an object with "
        f"__arrow_c_stream__ such as a data frame, got {type(table).__name__}"
    )


def labels_body(
    labels: Mapping[Any, Label | Mapping[str, Label]] | TableLike, columns: Sequence[str] = ()
) -> Body:
    """Labels as the body of a request: a mapping, of one column, as NDJSON, else a table."""
    if not isinstance(labels, Mapping):
        return table_body(labels)
    single = next((each for each in labels.values() if not isinstance(each, Mapping)), None)
    if len(columns) > 1 and single is not None:
        raise ValueError(
            f"labels must be a mapping by column for each node, of {', '.join(columns)}, got "
            f"{single!r}"
        )
    name = columns[0] if columns else "label"
    return Body(Format.NDJSON.media_type, lambda: _label_lines(labels, name))


def points_body(points: Sequence[Mapping[str, Any]] | TableLike) -> Body:
    """New points as the body of a request: a list of mappings as NDJSON, else a table."""
    if not isinstance(points, list | tuple) or not all(
        isinstance(each, Mapping) for each in points
    ):
        return table_body(points)
    return Body(Format.NDJSON.media_type, lambda: _point_lines(points))


def plain(value: Any) -> Any:
    """The Python value of a scalar of numpy; any other value as it is."""
    return value.item() if hasattr(value, "item") else value


def _present(value: Any) -> Any:
    """The Python value of a scalar, None of one that is missing to numpy or pandas."""
    value = plain(value)
    is_missing = type(value).__name__ in {"NAType", "NaTType"} or (
        isinstance(value, float) and math.isnan(value)
    )
    return None if is_missing else value


def _no_label(value: object) -> None:
    raise TypeError(f"labels and nodes must be numbers or text, got {value!r}")


def _label_lines(labels: Mapping[Any, Label | Mapping[str, Label]], name: str) -> Iterator[bytes]:
    lines: list[str] = []
    for node, label in labels.items():
        cells = label if isinstance(label, Mapping) else {name: label}
        row = {column: _present(cell) for column, cell in cells.items()} | {"node": _present(node)}
        lines.append(json.dumps(row, ensure_ascii=False, default=_no_label))
        if len(lines) == _ROWS_PER_PIECE:
            yield "\n".join([*lines, ""]).encode()
            lines.clear()
    if lines:
        yield "\n".join([*lines, ""]).encode()


def _point_lines(points: Sequence[Mapping[str, Any]]) -> Iterator[bytes]:
    for first in range(0, len(points), _ROWS_PER_PIECE):
        some = points[first : first + _ROWS_PER_PIECE]
        lines = [json.dumps(dict(each), ensure_ascii=False, default=_listed) for each in some]
        yield "\n".join([*lines, ""]).encode()


def _listed(value: Any) -> Any:
    """Arrays and scalars of numpy as JSON has them."""
    if not hasattr(value, "tolist"):
        raise TypeError(f"points must hold numbers, text, lists and mappings, got {value!r}")
    return value.tolist()


def _file_body(path: Path) -> Body:
    def pieces() -> Iterator[bytes]:
        with path.open("rb") as file:
            while piece := file.read(_BYTES_PER_PIECE):
                yield piece

    table_format, encoding = format_of_file(path.name)
    n_bytes = path.stat().st_size
    return Body(table_format.media_type, pieces, n_bytes=n_bytes, encoding=encoding)


def _arrow_body(reader: Any, *, is_repeatable: bool) -> Body:
    def pieces() -> Iterator[bytes]:
        try:
            with reader() as batches:
                yield from encode(batches.schema, batches, Format.ARROW)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise TypeError(
                f"a table must have columns, each of one type ({error}); labels of a Series need "
                "an index of nodes"
            ) from error

    return Body(Format.ARROW.media_type, pieces, is_repeatable=is_repeatable)


def _reader_of(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader:
    """A reader of batches whose columns the first one tells."""
    rest = iter(batches)
    first = next(rest, None)
    if first is None:
        raise ValueError("a table must have at least one batch, got none")
    if not isinstance(first, pa.RecordBatch):
        kind = type(first).__name__
        raise TypeError(
            f"a table must be record batches, got an iterable of {kind}; give labels as a "
            "mapping by node, or as a Series whose index has the nodes"
        )

    def all_of_them() -> Iterator[pa.RecordBatch]:
        yield first
        yield from rest

    return pa.RecordBatchReader.from_batches(first.schema, all_of_them())


class ArrowDecoder:
    """Batches out of the bytes of an Arrow IPC stream, in pieces of any size.

    A batch comes out with the piece that completes it, and no more than one incomplete batch is
    held. pyarrow's own reader asks for bytes, which a caller that must not block cannot provide.

    The ``schema`` is None until it has arrived.
    """

    def __init__(self) -> None:
        self.is_ended = False
        self._waiting = bytearray()
        self._messages = _Messages()
        self._reader: Any = None

    @property
    def schema(self) -> pa.Schema | None:
        """Columns of the batches."""
        return None if self._reader is None else self._reader.schema

    def feed(self, piece: bytes) -> Iterator[pa.RecordBatch]:
        """The batches that a piece completes; to be read to the end before the next is fed."""
        self._waiting += piece
        while (message := self._next_message()) is not None:
            kind, content = message
            self._messages.add(content)
            if kind == _SCHEMA:
                self._reader = pa.ipc.open_stream(pa.PythonFile(self._messages, mode="r"))
            elif kind == _BATCH:
                yield self._reader.read_next_batch()

    def _next_message(self) -> tuple[int, bytes] | None:
        """Kind and bytes of the next message, or None while it is not whole."""
        if self.is_ended or len(self._waiting) < _PREFIX.size:
            return None
        _, n_metadata = _PREFIX.unpack_from(self._waiting)
        if n_metadata == 0:
            self.is_ended = True
            return None
        n_head = _PREFIX.size + n_metadata
        if len(self._waiting) < n_head:
            return None
        metadata = bytes(self._waiting[_PREFIX.size : n_head])
        n_all = n_head + _field(metadata, _BODY_LENGTH, "<q")
        if len(self._waiting) < n_all:
            return None
        content = bytes(memoryview(self._waiting)[:n_all])
        del self._waiting[:n_all]
        return _field(metadata, _HEADER_TYPE, "<B"), content


# Of the flatbuffer `Message` in Arrow's format/Message.fbs: positions of fields, and values of one.
_PREFIX: Final = struct.Struct("<Ii")
_HEADER_TYPE, _BODY_LENGTH = 1, 3
_SCHEMA, _BATCH = 1, 3


def _field(metadata: bytes, position: int, form: str) -> int:
    """A number of a flatbuffer's root table; 0, its default, where it is left out."""
    (root,) = struct.unpack_from("<I", metadata)
    fields = root - struct.unpack_from("<i", metadata, root)[0]
    (n_bytes,) = struct.unpack_from("<H", metadata, fields)
    entry = 4 + 2 * position
    if entry >= n_bytes:
        return 0
    (offset,) = struct.unpack_from("<H", metadata, fields + entry)
    return int(struct.unpack_from(form, metadata, root + offset)[0]) if offset else 0


class _Messages:
    """A file of the messages that are whole; pyarrow reads exactly what the next batch needs."""

    def __init__(self) -> None:
        self.closed = False
        self._content = b""
        self._position = 0

    def add(self, content: bytes) -> None:
        """Append a message; what is read already is let go."""
        self._content = self._content[self._position :] + content
        self._position = 0

    def read(self, n_bytes: int) -> bytes:
        """The next bytes."""
        first, self._position = self._position, self._position + n_bytes
        return self._content[first : self._position]

    def readable(self) -> bool:
        """It is there to be read."""
        return True
