"""NDJSON tables, a chunk of lines at a time, and objects that were read already."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import NoneType
from typing import Any, BinaryIO, Final, Protocol

import orjson
import pyarrow as pa

from peewit.solvers.missing_words import MISSING_WORDS
from peewit.streaming.edges.bad_table import BadUpload
from peewit.streaming.edges.change_columns import (
    LOOKED_AT,
    UnreadColumns,
    may_be_changes,
    require_no_deletes,
)
from peewit.streaming.edges.column_mapping import NO_COLUMN, PLAIN, EdgeColumns, bare_name
from peewit.streaming.edges.node_ids import is_integer, node_id
from peewit.streaming.edges.node_kinds import TEXT, NodeKind
from peewit.streaming.edges.operations import DELETE, INSERT, OPERATIONS, operations_named
from peewit.streaming.edges.table_formats import BYTES_PER_BATCH, ROWS_PER_BATCH

MAX_LINE_BYTES: Final = 1 << 24
"""Longest line of NDJSON; as values it takes many times as much."""


_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_NAME: Final = re.compile(rb'"[ \t\r\n]*:')


@dataclass(frozen=True, slots=True)
class DamagedLine:
    """A line that cannot be read, and why."""

    text: str
    reason: str


def json_value(content: bytes) -> Any:
    """What JSON says; raises `orjson.JSONDecodeError`, also where a name of an object stands twice.

    Readers of JSON take the last of them, and pass the others over.
    """
    value = orjson.loads(content)
    n_names = len(_NAME.findall(content))  # at least
    if n_names > _n_members([value], is_deep=False) and n_names > _n_members([value], is_deep=True):
        try:
            json.loads(content, object_pairs_hook=_names_once, parse_int=str, parse_float=str)
        except RecursionError:
            raise orjson.JSONDecodeError("it is nested too deeply", "", 0) from None
    return value


def _n_members(values: list[Any], *, is_deep: bool) -> int:
    """Members of objects, and of those in them where it ``is_deep``."""
    if not is_deep:
        return sum(len(each) for each in values if isinstance(each, dict))
    n_members, waiting = 0, list(values)
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            n_members += len(each)
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
    return n_members


def _names_once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in members]
    if len(set(names)) < len(names):
        name = next(each for each in names if names.count(each) > 1)
        raise orjson.JSONDecodeError(f"{name!r} stands twice", "", 0)
    return dict(members)


def json_rows(file: BinaryIO, *, keeps_damaged: bool = False) -> Iterator[list[Any]]:
    """The values of some lines at a time; blank lines are not counted.

    A line that is no JSON is an error, or comes as a `DamagedLine`.
    """
    first_row = n_bytes = 0
    chunk: list[bytes] = []
    while line := file.readline(MAX_LINE_BYTES + 1):
        if not (first_row or chunk):
            line = line.removeprefix(_BYTE_ORDER_MARK)
            if line.lstrip()[:1] == b"[":
                rule = (
                    "it must hold one JSON object a line, not an array: `jq -c '.[]'` writes them"
                )
                raise BadUpload(rule, row=0, value=line[:200].decode(errors="replace"))
        if len(line) > MAX_LINE_BYTES:
            row = first_row + len(chunk)
            raise BadUpload(f"a line must have at most {MAX_LINE_BYTES} bytes", row=row)
        if not line.strip():
            continue
        chunk.append(line)
        n_bytes += len(line)
        if len(chunk) == ROWS_PER_BATCH or n_bytes >= BYTES_PER_BATCH:
            yield _json_values(chunk, first_row, keeps_damaged=keeps_damaged)
            first_row += len(chunk)
            chunk, n_bytes = [], 0
    if chunk:
        yield _json_values(chunk, first_row, keeps_damaged=keeps_damaged)


def _json_values(lines: list[bytes], first_row: int, *, keeps_damaged: bool) -> list[Any]:
    with suppress(orjson.JSONDecodeError):  # which line it is, is found below
        content = b",".join(lines)
        values: list[Any] = orjson.loads(b"[%b]" % content)
        n_names = len(_NAME.findall(content))
        if len(values) == len(lines) and n_names == _n_members(values, is_deep=False):
            return values
    values = []
    for row, line in enumerate(lines, first_row):
        try:
            values.append(json_value(line))
        except orjson.JSONDecodeError as error:
            text = line.decode(errors="replace").strip()
            rule = f"every line must be one JSON object ({error.msg})"
            if not keeps_damaged:
                raise BadUpload(rule, row=row, value=text) from None
            values.append(DamagedLine(text, rule))
    return values


class AlikeRows:
    """Which of the weight and the operation rows of a table have: all of them, or none.

    What writers of JSON leave out where it is null would be taken for 1 and for an insert.
    """

    def __init__(self, columns: EdgeColumns) -> None:
        self._columns = columns
        named = {columns.weight: columns.needs_weight, columns.op: columns.needs_op}
        self._may_lack = {name for name in (columns.weight, columns.op) if name is not None}
        self.needed = {name for name, is_needed in named.items() if is_needed and name}
        self._n_rows = 0

    def look(self, rows: list[Any]) -> None:
        """Look at the next rows; raises BadUpload where all before them lack what some have."""
        held = {name for row in rows if isinstance(row, dict) for name in self._may_lack & set(row)}
        if self._n_rows and (late := held - self.needed):
            raise BadUpload(
                f"column {min(late)!r} must stand in every row or in none; it is there from about "
                f"row {self._n_rows} on: {self._way_out(min(late))}",
                argument=min(late),
            )
        self.needed |= held
        self._n_rows += len(rows)

    def require(self, rows: list[Any], first_row: int) -> None:
        """Raise BadUpload with the first row that lacks what it needs; deletes need no weight."""
        for name in self.needed:
            for number, row in enumerate(rows, first_row):
                if name in row or (name == self._columns.weight and self._is_delete(row)):
                    continue
                raise BadUpload(
                    f"column {name!r} must stand in every row, as it does in others or is named: "
                    f"{self._way_out(name)}",
                    argument=name,
                    row=number,
                    value="null",
                )

    def _way_out(self, name: str) -> str:
        usual = "1" if name == self._columns.weight else f'"{OPERATIONS[INSERT]}"'
        return f"write {usual} where a row without it means that"

    def _is_delete(self, row: dict[str, Any]) -> bool:
        op = self._columns.op
        known = {} if op is None else operations_named(op)
        return known.get(str(row.get(str(op))).strip().lower()) == DELETE


def json_edges(
    file: BinaryIO,
    node_kind: NodeKind,
    columns: EdgeColumns = PLAIN,
    *,
    see_rows: Callable[[list[Any]], None] = lambda _rows: None,
) -> Iterator[pa.RecordBatch]:
    """Batches of objects: two ends and, where it is not 1, a weight; see `csv.tables.csv_edges`.

    ``see_rows`` is called with the rows of a batch.
    """
    first_row, alike = 0, AlikeRows(columns)
    for rows in json_rows(file):
        see_rows(rows)
        alike.look(rows)
        yield json_batch(rows, node_kind, columns, first_row=first_row, alike=alike)
        first_row += len(rows)


def names_of(rows: Sequence[Any]) -> list[str]:
    """Names of the members of all objects, in order."""
    return list(dict.fromkeys(name for row in rows if isinstance(row, dict) for name in row))


def json_batch(
    rows: list[Any],
    node_kind: NodeKind,
    columns: EdgeColumns,
    *,
    first_row: int,
    alike: AlikeRows | None = None,
    unread: UnreadColumns | None = None,
) -> pa.RecordBatch:
    """Objects as columns of edges; BadUpload or BadEdges with the first row that does not fit.

    What rows that are ``alike`` need stands in every one. ``unread`` is of rows elsewhere, too.
    """
    usual_names = {bare_name(name) for name in columns if name != NO_COLUMN}
    names: set[str] = set().union(*(row for row in rows if isinstance(row, dict)))
    misnamed = {name for name in names - set(columns) if bare_name(name) in usual_names}
    optional = set(columns.via_columns)
    of_text = [*filter(None, (columns.relation_column, *columns.kind_columns))]
    must_have = {*columns.nodes, *of_text} - optional
    renamed = [
        (usual, name)
        for usual, name in columns.by_argument
        if usual != name and name not in optional
    ]
    for number, row in enumerate(rows, first_row):
        if isinstance(row, DamagedLine):
            raise BadUpload(row.reason, row=number, value=row.text)
        if not isinstance(row, dict):
            rule = "a row must be an object, on a line of its own"
            raise BadUpload(rule, row=number, value=row)
        has_usual = any(usual in row and name not in row for usual, name in renamed)
        is_misnamed = bool(misnamed) and not misnamed.isdisjoint(row)
        if has_usual or is_misnamed or not must_have.issubset(row):
            columns.check([*row, *optional.difference(row)], row=number)
    if alike is not None:
        alike.require(rows, first_row)
    batch = {
        name: json_ids([row[name] for row in rows], name, node_kind, first_row)
        for name in columns.nodes
        if name not in optional
    }
    for name in columns.via_columns:
        ids = [_without_word(row.get(name), columns) for row in rows]
        batch[name] = json_ids(ids, name, node_kind, first_row)
    for name in of_text:
        batch[name] = _json_text([row[name] for row in rows], name, first_row)
    if columns.needs_weight or any(columns.weight in row for row in rows):
        usual = None if alike is not None and columns.weight in alike.needed else 1.0
        weights = [row.get(columns.weight, usual) for row in rows]
        batch[columns.weight] = _json_weights(weights, columns.weight, first_row)
    if columns.op is not None and (columns.needs_op or any(columns.op in row for row in rows)):
        operations = [row.get(columns.op, OPERATIONS[INSERT]) for row in rows]
        batch[columns.op] = _json_text(operations, columns.op, first_row)
    require_no_json_deletes(rows, columns, first_row, unread)
    if columns.time is not None:
        times = [row.get(columns.time) for row in rows]
        batch[columns.time] = _json_times(times, columns.time, first_row)
    return pa.record_batch(batch)


class WatchedColumns(Protocol):
    """Which columns of rows are read, and which may ask for deletes beside them."""

    @property
    def op(self) -> str | None:
        """Column of operations, which some rows may lack."""

    def beside(self, names: Sequence[str], /) -> list[str]:
        """Columns that are not read, and may ask for deletes."""

    def way_of_deletes(self, name: str, /) -> str | None:
        """How deletes in such a column are carried out."""


def unread_texts(rows: Sequence[dict[str, Any]], columns: WatchedColumns) -> dict[str, pa.Array]:
    """Columns of rows that nobody reads, as text; null where rows say an operation."""
    op = columns.op
    return {
        name: texts_of([None if op in row else row.get(name) for row in rows])
        for name in columns.beside([each for each in names_of(rows) if each != op])
    }


def require_no_json_deletes(
    rows: Sequence[dict[str, Any]],
    columns: WatchedColumns,
    first_row: int,
    unread: UnreadColumns | None,
) -> None:
    """Raise `BadEdges` with the first row that asks for a delete in a column that nobody reads.

    A row that says its operation does not. ``unread`` is of rows elsewhere, too.
    """
    op = columns.op
    for name in columns.beside([each for each in names_of(rows) if each != op]):
        if may_be_changes(texts_of([row.get(name) for row in rows[:LOOKED_AT]]), name):
            cells = texts_of([None if op in row else row.get(name) for row in rows])
            known = () if unread is None else unread.of(name)
            way = columns.way_of_deletes(name)
            require_no_deletes(cells, name, first_row, way=way, known=known)


def texts_of(cells: list[Any]) -> pa.Array:
    """Members of objects as text, those that are objects or lists as null."""
    texts = [None if isinstance(cell, NoneType | dict | list) else str(cell) for cell in cells]
    return pa.array(texts, pa.string())


def _without_word(value: Any, columns: EdgeColumns) -> Any:
    """A cell of events; None where it is empty, or a word that means that."""
    is_word = isinstance(value, str) and value.lower() in MISSING_WORDS
    return None if value == "" or (is_word and columns.missing_ids == "refuse") else value


def json_ids(values: list[Any], name: str, node_kind: NodeKind, first_row: int) -> pa.Array:
    """Ids of one column; nulls stay, for `read_columns` to refuse."""
    usual, arrow_type = (str, pa.string()) if node_kind in TEXT else (int, pa.int64())
    if node_kind == "typed":  # ids of one kind may be numbers; what is a node is looked at later
        values = [str(value) if is_integer(value) else value for value in values]
        node_kind = "string"
    if {type(value) for value in values} <= {usual, type(None)}:
        with suppress(OverflowError, pa.ArrowInvalid):  # too large for 64 bits: named below
            return pa.array(values, arrow_type)
    checked = [
        None if value is None else node_id(value, node_kind, name=name, row=row)
        for row, value in enumerate(values, first_row)
    ]
    return pa.array(checked, arrow_type)


def _json_text(values: list[Any], name: str, first_row: int) -> pa.Array:
    values = [str(each) if isinstance(each, int) else each for each in values]  # also true
    for row, value in enumerate(values, first_row):
        if not isinstance(value, str):
            raise BadUpload(
                f"column {name!r} must hold strings", argument=name, row=row, value=value
            )
    return pa.array(values, pa.string())


def _json_times(values: list[Any], name: str, first_row: int) -> pa.Array:
    for row, value in enumerate(values, first_row):
        if value is not None and type(value) not in {str, int, float}:
            raise BadUpload(
                f"column {name!r} must hold text or numbers", argument=name, row=row, value=value
            )
    # as text, which no number is too large for
    return pa.array([None if moment is None else str(moment) for moment in values], pa.string())


_WAYS_OF_WEIGHTS: Final[dict[type, str]] = {
    bool: "; write 1 and 0 for truth values",
    str: "; write numbers without quotes",
}


def _json_weights(values: list[Any], name: str, first_row: int) -> pa.Array:
    if not {type(value) for value in values} <= {float, int, type(None)}:
        for row, value in enumerate(values, first_row):
            if value is not None and type(value) not in {float, int}:
                rule = f"column {name!r} must hold numbers{_WAYS_OF_WEIGHTS.get(type(value), '')}"
                raise BadUpload(rule, argument=name, row=row, value=repr(value))
    return pa.array([None if value is None else float(value) for value in values], pa.float64())
