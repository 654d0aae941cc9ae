"""Values of messages as rows: JSON, CSV or Arrow, and tombstones."""

import csv
import re
from collections.abc import Sequence
from io import BytesIO, StringIO
from itertools import zip_longest
from typing import Any, Final, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from peewit.service.live_sources.contract import Access
from peewit.service.live_sources.node_columns import NodeColumns
from peewit.service.tables.arrow_survey import survey_arrow
from peewit.service.tables.uploads.labels import parse_labels
from peewit.streaming.edges.bad_table import BadTable, BadUpload
from peewit.streaming.edges.blocks import excerpt
from peewit.streaming.edges.column_mapping import EdgeColumns, obvious_ends, seen_name
from peewit.streaming.edges.columns import string_lengths
from peewit.streaming.edges.json_tables import AlikeRows, json_value
from peewit.streaming.edges.node_ids import INTEGER
from peewit.streaming.edges.table_formats import require_stream_end

MAX_DECODED_BYTES: Final = 1 << 26
MAX_COLUMNS: Final = 1 << 10
"""Most columns of an Arrow value."""

_CONTENT_TYPES: Final = {
    "application/json": "json",
    "text/csv": "csv",
    "application/vnd.apache.arrow.stream": "arrow",
}
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_OF_JSON: Final = re.compile(r'[{\[]\s*"')
"""How an object or array begins, behind whatever mark."""

_CONTINUATION: Final = b"\xff\xff\xff\xff"
"""Start of an Arrow IPC stream, which no text has."""


class Message(NamedTuple):
    """One message of a topic; without a value it is a tombstone."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    content_type: str | None = None  # of its header
    milliseconds: int | None = None  # when written, since 1970; None where unknown

    @property
    def place(self) -> str:
        """Topic, partition and offset, for people."""
        return f"{self.topic} partition {self.partition} offset {self.offset}"


def ids_of(message: Message, access: Access) -> set[str]:
    """Nodes that a message names, as text, even if it is refused; empty if unreadable."""
    try:
        rows = rows_of(message, access, looks_only=True)
    except BadTable:
        return set()
    columns = access.columns
    of_rows = columns.kind_columns if isinstance(columns, EdgeColumns) else ()
    named = list(zip_longest(columns.nodes, columns.kinds, of_rows))
    return {
        f"{kind}:{row[name]}" if kind else str(row[name])
        for row in rows
        for name, of_kind, column in named
        if name in row
        for kind in [row.get(column) if column else of_kind]
    }


def rows_of(message: Message, access: Access, *, looks_only: bool = False) -> list[dict[str, Any]]:
    """Rows of a message by column name; their values are not checked.

    Raises `peewit.streaming.edges.bad_table.BadTable` where it has no readable row, or deletes and
    the graph accepts no deletes, unless ``looks_only``.
    """
    if message.value is None:
        return [_tombstone(message.key, access, looks_only=looks_only)]
    value = bytes(message.value).removeprefix(_BYTE_ORDER_MARK)
    if not value.strip():
        raise BadUpload(
            "the value must be a row; an empty one is neither a row nor a tombstone, whose value "
            "is null (`kcat -Z` writes it)",
            value="''",
        )
    said = _said(message)
    match said or _format(value):
        case "json":
            rows = _json_rows(value)
            if isinstance(access.columns, EdgeColumns) and not looks_only:
                alike = AlikeRows(access.columns)
                alike.look(rows)
                alike.require(rows, 0)
            return rows
        case "csv":
            rows = _csv_rows(value, access, is_said=said is not None)
        case _:
            rows = _arrow_rows(value, access)
    if not rows:  # a header alone, which may have lost its rows
        raise BadUpload("the value must hold at least one row; JSON may be an empty array")
    return rows


def _said(message: Message) -> str | None:
    """Format by the header."""
    if message.content_type is None:
        return None
    return _CONTENT_TYPES.get(message.content_type.partition(";")[0].strip().lower())


def _format(value: bytes) -> str:
    """Format by how a value begins."""
    begin = value[:64].lstrip()
    if begin.startswith((b"{", b"[", b'"{', b'"[', b'"\\"')):
        return "json"
    return "arrow" if begin.startswith(_CONTINUATION) else "csv"


def _tombstone(key: bytes | None, access: Access, *, looks_only: bool) -> dict[str, Any]:
    """The row that deletes the pair of a key, or removes what is said of its node."""
    columns = access.columns
    if columns.op is None and not looks_only:
        raise BadUpload(
            "a message without a value deletes its pair, and the graph takes no deletes: make one "
            "by `peewit graph create NAME --deletions exact`"
        )
    names = columns.nodes
    if isinstance(columns, EdgeColumns):
        names = *names, *filter(None, columns.kind_columns)
    text = _text(bytes(key or b"").removeprefix(_BYTE_ORDER_MARK), "the key")
    if _format(text.encode()) == "json":
        values = _json_key(text, names)
    elif len(names) == 1 and not text.startswith('"'):
        values = [text] if text else []
    else:
        fields = _fields(text)
        values = list(fields[0]) if len(fields) == 1 else []
    if len(values) != len(names):
        what = "node that is meant" if len(names) == 1 else "pair that is deleted"
        raise BadUpload(
            f"the key must name the {what}, as {','.join(names)} or as JSON", value=text
        )
    return {**dict(zip(names, values, strict=True)), str(columns.op): "delete"}


def _json_key(text: str, names: Sequence[str]) -> list[Any]:
    """Nodes of a key: an object by the names of columns, or an array in their order."""
    try:
        said = _loaded(text.encode())
    except orjson.JSONDecodeError:
        return []
    if isinstance(said, dict):
        return [said[name] for name in names if name in said]
    return [each for each in said if isinstance(each, str | int)] if isinstance(said, list) else []


def _loaded(content: bytes) -> Any:
    """What JSON says, also where it was written as a JSON string once or twice more."""
    said = json_value(content)
    for _ in range(2):
        said = json_value(said.encode()) if isinstance(said, str) else said
    return said


def _json_rows(value: bytes) -> list[dict[str, Any]]:
    """Rows of JSON, however often it was written as a JSON string."""
    try:
        said = _loaded(value)
    except orjson.JSONDecodeError as error:
        rule = f"the value must be JSON ({error.msg})"
        raise BadUpload(rule, value=excerpt(value.decode(errors="replace"))) from None
    rows = said if isinstance(said, list) else [said]
    for row in rows:
        if not isinstance(row, dict):
            rule = "the value must be a JSON object, or an array of objects"
            raise BadUpload(rule, value=excerpt(row))
    return rows


def _csv_rows(value: bytes, access: Access, *, is_said: bool) -> list[dict[str, Any]]:
    """Rows of lines in the order of columns, or by a header."""
    columns = access.columns
    if isinstance(columns, NodeColumns) and columns.holds == "features":
        raise BadUpload("features must come as JSON or as an Arrow stream")
    text = _text(value, "the value")
    lines = _fields(text)
    names = list(columns)
    by_place = names[0].startswith("#")
    header = [seen_name(name) for name in lines[0]]
    has_header = set(names[:2]) <= set(header)
    if not (is_said or has_header or _is_plain(text, lines, by_place=by_place)):
        raise BadUpload(
            "the value must be JSON, plain CSV or an Arrow stream. Begin the CSV with a line "
            "of names, or send the message with the header Content-Type: text/csv",
            value=excerpt(text),
        )
    if by_place and lines:
        names = [f"#{number}" for number in range(1, 1 + len(lines[0]))]
    elif has_header:
        names, lines = header, lines[1:]
        _require_once(names, columns)
    rows = []
    for fields in lines:
        if has_header and [seen_name(field) for field in fields] == header:
            raise BadUpload(
                "a row must not name the columns again, as in files that were joined",
                value=excerpt(",".join(fields)),
            )
        if not 2 <= len(fields) <= len(names):
            raise BadUpload(
                f"a line of CSV must have the fields {','.join(names)}, two at least",
                value=excerpt(",".join(fields)),
            )
        row: dict[str, Any] = dict(zip(names, fields, strict=False))
        for argument, name in columns.by_argument:
            if name not in row:
                continue
            if argument == "weight":
                row[name] = _number(row[name], name)
            elif argument == "label":
                (row[name],) = parse_labels([row[name].strip()])
            elif argument in {"op", "time"} and not row[name]:
                del row[name]
        rows.append(row)
    return rows


def _require_once(header: Sequence[str], columns: EdgeColumns | NodeColumns) -> None:
    """Refuse a header that names a column twice that is read."""
    for name in columns:
        if (count := header.count(name)) > 1:
            raise BadUpload(f"column {name!r} must stand once, the value has it {count} times")


def _is_plain(text: str, lines: Sequence[Sequence[str]], *, by_place: bool) -> bool:
    """Whether text without a header is CSV for sure: no log line, other separator, other header.

    Columns that are read ``by_place`` need no header.
    """
    is_cut_else = '"' not in text and any(mark in text for mark in " \t;|{}=<>")
    is_cut_else |= _OF_JSON.search(text) is not None
    are_numbers = [any(map(INTEGER.fullmatch, line)) for line in lines]
    is_headed = len(lines) > 1 and not are_numbers[0] and all(are_numbers[1:])
    return not (is_cut_else or is_headed) and (by_place or obvious_ends(lines[0]) is None)


def _arrow_rows(value: bytes, access: Access) -> list[dict[str, Any]]:
    """Rows of an Arrow IPC stream, which is surveyed before it is decompressed."""
    columns = access.columns
    try:
        survey = survey_arrow(BytesIO(value), max_columns=MAX_COLUMNS)
        if survey.n_columns > MAX_COLUMNS:
            rule = f"the value must have at most {MAX_COLUMNS} columns"
            raise BadUpload(rule, value=survey.n_columns)
        _require_decodable(survey.decoded_bytes)
        content = BytesIO(value)
        table = pa.ipc.open_stream(content).read_all()
        require_stream_end(content.read(1))
        table.validate(full=True)
        table = table.select(_to_read(table, columns))
        for place, field in enumerate(table.schema):
            column = table.column(place)
            if _shares_text(field.type):
                _require_decodable(sum(int(string_lengths(chunk).sum()) for chunk in column.chunks))
            if field.name in columns.nodes:
                table = table.set_column(place, field.name, _whole_numbers(column))
            elif pa.types.is_decimal(field.type):
                is_label = isinstance(columns, NodeColumns) and not field.type.scale
                number = pa.int64() if is_label else pa.float64()
                table = table.set_column(place, field.name, column.cast(number))
            if pa.types.is_timestamp(field.type) or pa.types.is_date(field.type):
                moments = column.cast(pa.timestamp("us"), safe=False)
                text = pc.strftime(moments, "%Y-%m-%dT%H:%M:%S")
                table = table.set_column(place, field.name, text)
        rows: list[dict[str, Any]] = table.to_pylist()
    except BadTable:
        raise
    except (pa.ArrowException, LookupError, OSError, OverflowError, TypeError, ValueError) as error:
        raise BadUpload(f"the value must be a whole Arrow IPC stream ({excerpt(error)})") from None
    return rows


def _to_read(table: pa.Table, columns: EdgeColumns | NodeColumns) -> list[str]:
    """Columns of a table that are read, and others that are small or may tell of rows."""
    names = table.column_names
    states = columns.states(names)
    small = [
        name
        for name in columns.beside(names)
        if name in states or pa.types.is_primitive(table.schema.field(name).type)
    ]
    return list(dict.fromkeys((*columns.to_read(table), *small)))


def _whole_numbers(ids: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decimals that are whole as integers; other ids as they are."""
    if not pa.types.is_decimal(ids.type):
        return ids
    try:
        return ids.cast(pa.int64())
    except pa.ArrowInvalid:  # refused later, as it was sent
        return ids


def _shares_text(kind: pa.DataType) -> bool:
    """Whether many rows of a type may share bytes."""
    if pa.types.is_dictionary(kind):
        return kind.value_type in (pa.string(), pa.large_string(), pa.string_view())
    return bool(kind == pa.string_view())


def _require_decodable(n_bytes: int) -> None:
    """Refuse a value that is too large once decompressed, or expanded from a dictionary."""
    if n_bytes > MAX_DECODED_BYTES:
        rule = f"the value must have at most {MAX_DECODED_BYTES} bytes once it is decoded"
        raise BadUpload(rule, value=n_bytes)


def _number(text: str, name: str) -> float | None:
    """A weight of CSV; None where the field is empty, as only deletes may have it."""
    try:
        return float(text) if text.strip() else None
    except ValueError:
        raise BadUpload(f"column {name!r} must hold numbers", value=excerpt(text)) from None


def _text(content: bytes, name: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        shown = excerpt(content.decode(errors="replace"))
        raise BadUpload(
            f"{name} must be JSON, CSV in UTF-8 or an Arrow stream", value=shown
        ) from None


def _fields(text: str) -> list[list[str]]:
    try:
        return [line for line in csv.reader(StringIO(text, newline="")) if line]
    except csv.Error as error:
        raise BadUpload(f"the text must be CSV ({error})", value=excerpt(text)) from None
