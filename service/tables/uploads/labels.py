"""Labels that people send, as Python values in columns; checked a million rows at a time."""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO, Final, NamedTuple, cast

import pyarrow as pa

from peewit.service.tables.uploads.arrow_and_parquet import stored_batches
from peewit.service.tables.uploads.givers import ANNOTATOR, Giver, giver_columns, read_givers
from peewit.service.tables.uploads.limits import (
    LABEL_ROWS,
    UploadLimits,
    columns_within,
    counted,
    require_at_most,
)
from peewit.streaming.edges.bad_table import BadUpload, excerpt
from peewit.streaming.edges.blocks import MAX_NODE_BYTES
from peewit.streaming.edges.csv_tables import csv_batches
from peewit.streaming.edges.json_tables import json_rows
from peewit.streaming.edges.node_ids import (
    INTEGER,
    LIMIT,
    NodeId,
    is_integer,
    is_text,
    node_id,
)
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.table_formats import Format

LabelValue = str | int | float

MAX_COLUMN_BYTES: Final = 200
"""Most bytes of the name of a column of labels."""

MAX_LABEL_COLUMNS: Final = 100
"""Most columns of labels in one call."""

COLUMN_NAME_RULE: Final = (
    f"must be printable text of 1 to {MAX_COLUMN_BYTES} bytes without white space around it"
)

_NUMBER: Final = re.compile(
    r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|nan|inf|infinity)", re.IGNORECASE
)
_POINT: Final = re.compile(r"[.eE]")
"""Matches text of real numbers, not of whole ones."""

_MAX_UTF8_BYTES: Final = 4  # of a character


class LabelColumns(NamedTuple):
    """Names of the columns of a table of labels."""

    node: str = "node"
    label: str = "label"


PLAIN_LABELS: Final = LabelColumns()
"""The default names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedLabels:
    """Labels as they were sent, in columns of (n_rows,) values."""

    nodes: list[NodeId]
    labels: list[LabelValue]
    givers: list[Giver] | None = None  # None where the table does not say
    giver_rows: Mapping[Giver, int] = field(default_factory=dict)  # first row of each different one

    def last_of_each(self) -> dict[str, LabelValue]:
        """The last label of each node, by the node as text, in the order of first mention."""
        return {str(node): label for node, label in zip(self.nodes, self.labels, strict=True)}


def read_labels(
    file: BinaryIO,
    table_format: Format,
    node_kind: NodeKind,
    *,
    columns: LabelColumns = PLAIN_LABELS,
    limits: UploadLimits | None = None,
    csv_is_text: bool = False,
    told: Collection[str] = (),
) -> UploadedLabels:
    """Labels in order.

    In CSV, white space around labels and lines that are empty but for separators do not count. A
    CSV column holds whole numbers when all its values are; real numbers when all its values are
    numbers and one has a point or an exponent; else strings, and always strings with
    ``csv_is_text``. Other formats have types; booleans, dates and times become text. Columns
    ``told``, of `GIVER_COLUMNS`, are read where the table has them. Raises `BadUpload` where the
    file cannot be read, a row breaks a rule, or two rows give a node different labels, and
    `TableTooLarge` as `edge_batches` does.
    """
    if table_format is Format.NDJSON:
        rows = _json_rows(file, columns[1:], limits)
        return json_labels(rows, node_kind, columns, told=told)
    options = dict(zip(columns, LabelColumns._fields, strict=True))
    nodes, (labels,), givers = _read_columns(file, table_format, columns, options, limits, told)
    if table_format is not Format.CSV:
        return _check_labels(nodes, labels, node_kind, givers=givers)
    labels = [label and label.strip() for label in labels]
    filled = [row for row, cells in enumerate(zip(nodes, labels, strict=True)) if any(cells)]
    if len(filled) < len(nodes):
        nodes, labels = [nodes[row] for row in filled], [labels[row] for row in filled]
    if not csv_is_text:
        labels = parse_labels(labels)
    return _check_labels(nodes, labels, node_kind, rows=filled, givers=givers)


def read_nodes(
    file: BinaryIO, table_format: Format, node_kind: NodeKind, *, node: str
) -> list[NodeId]:
    """External ids of one column of a table, in order.

    Raises `BadUpload` where the file cannot be read or a row breaks a rule.
    """
    if table_format is Format.NDJSON:
        rows = _json_rows(file, (), None)
        nodes: list[Any] = [row.get(node) if isinstance(row, dict) else None for row in rows]
    else:
        nodes, _, _ = _read_columns(file, table_format, (node,), {node: "node"}, None)
    return [node_id(value, node_kind, row=row) for row, value in enumerate(nodes)]


def read_label_columns(
    file: BinaryIO,
    table_format: Format,
    node_kind: NodeKind,
    *,
    node: str,
    names: Sequence[str],
    limits: UploadLimits | None = None,
    csv_is_text: Collection[str] = (),
    told: Collection[str] = (),
) -> dict[str, UploadedLabels]:
    """Labels of several columns of one table, by column name.

    Empty cells give their node no label; other values are read, and errors raised, as by
    `read_labels`. ``csv_is_text`` names the columns whose CSV values are text even where they look
    like numbers.
    """
    _check_wanted(node, names)
    if table_format is Format.NDJSON:
        rows = _json_rows(file, names, limits)
        return json_label_columns(rows, node_kind, node=node, names=names, told=told)
    wanted = node, *names
    nodes, cells, givers = _read_columns(file, table_format, wanted, {node: "node"}, limits, told)
    if table_format is not Format.CSV:
        return _filled_columns(nodes, dict(zip(names, cells, strict=True)), node_kind, givers)
    columns = {}
    for name, column in zip(names, cells, strict=True):
        stripped = [cell.strip() or None if cell else None for cell in column]
        if name not in csv_is_text:
            values = iter(parse_labels([cell for cell in stripped if cell is not None]))
            stripped = [cell if cell is None else next(values) for cell in stripped]
        columns[name] = stripped
    return _filled_columns(nodes, columns, node_kind, givers)


def json_label_columns(
    rows: Sequence[object],
    node_kind: NodeKind,
    *,
    node: str,
    names: Sequence[str],
    told: Collection[str] = (),
) -> dict[str, UploadedLabels]:
    """Labels of several members of JSON objects; null or absent members give no label."""
    _check_wanted(node, names)
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            rule = f"a row must be an object with {node} and some of {', '.join(names)}"
            raise BadUpload(rule, row=number, value=row)
        if node not in row:
            raise BadUpload(f"{node!r} is missing", argument=node, row=number)
    objects = cast("Sequence[dict[str, Any]]", rows)
    cells = {name: [row.get(name) for row in objects] for name in names}
    for name, column in cells.items():
        _require_whole_integers(column, name)
    givers = _json_givers(objects, told, besides=(node, *names))
    return _filled_columns([row[node] for row in objects], cells, node_kind, givers)


def _filled_columns(
    nodes: list[Any],
    cells: Mapping[str, list[Any]],
    node_kind: NodeKind,
    givers: list[Giver] | None,
) -> dict[str, UploadedLabels]:
    """Labels of the cells with a value, by column."""
    columns = {}
    for name, column in cells.items():
        rows = [row for row, cell in enumerate(column) if cell is not None]
        filled = [column[row] for row in rows]
        columns[name] = _check_labels(
            [nodes[row] for row in rows], filled, node_kind, rows=rows, name=name, givers=givers
        )
    return columns


def _read_columns(
    file: BinaryIO,
    table_format: Format,
    wanted: tuple[str, ...],
    options: Mapping[str, str],
    limits: UploadLimits | None,
    told: Collection[str] = (),
) -> tuple[list[Any], list[list[Any]], list[Giver] | None]:
    """Values of the first wanted column (nodes), of the others (labels), and givers.

    Files whose columns are read by place have no names, and so no givers.
    """
    max_rows = None if limits is None else limits.label_rows
    check = partial(_check_names, wanted, options)
    beside = tuple(name for name in told if name not in wanted)
    if table_format is Format.CSV:
        beside = () if wanted[0].startswith("#") else beside
        batches = csv_batches(file, wanted + beside, check=columns_within(limits, check))
    else:
        batches = stored_batches(file, table_format, wanted, limits, check=check, beside=beside)
    nodes: list[Any] = []
    labels: list[list[Any]] = [[] for _ in wanted[1:]]
    givers: list[Giver] | None = None
    seen: dict[Giver, Giver] = {}
    for batch in counted(batches, limits):
        columns = {
            name: _label_column(batch, name).to_pylist()
            for name in giver_columns(batch.schema, beside)
        }
        if columns:
            givers = [] if givers is None else givers
            givers += read_givers(columns, batch.num_rows, seen)
        n_cells = (len(nodes) + batch.num_rows) * len(labels)
        require_at_most(n_cells + len(seen), max_rows, LABEL_ROWS)
        for name, cells in zip(wanted[1:], labels, strict=True):
            column = _as_labels(_label_column(batch, name), first_row=len(nodes))
            cells.extend(column.to_pylist())
        nodes += _label_column(batch, wanted[0]).to_pylist()
    return nodes, labels, givers


def _json_rows(file: BinaryIO, names: Sequence[str], limits: UploadLimits | None) -> list[Any]:
    """Objects of a file, with booleans as text under these names, as `_as_labels` has them."""
    rows: list[Any] = []
    for chunk in json_rows(file):
        for row in chunk:
            for name in names if isinstance(row, dict) else ():
                if isinstance(row.get(name), bool):
                    row[name] = str(row[name]).lower()
        rows += chunk
        n_cells = len(rows) * len(names)
        require_at_most(n_cells, None if limits is None else limits.label_rows, LABEL_ROWS)
    return rows


def is_column_name(name: str) -> bool:
    """Whether a column of labels can have this name."""
    is_plain = bool(name) and name == name.strip() and name.isprintable()
    return is_plain and len(name.encode()) <= MAX_COLUMN_BYTES


def _check_wanted(node: str, names: Sequence[str]) -> None:
    """Refuse invalid names of label columns, too many, or the same twice."""
    if len(names) > MAX_LABEL_COLUMNS:
        raise BadUpload(
            f"label_column must name at most {MAX_LABEL_COLUMNS} columns, got {len(names)}",
            argument="label_column",
        )
    for place, name in enumerate(names):
        if not is_column_name(name):
            raise BadUpload(
                f"label_column {COLUMN_NAME_RULE}, got {excerpt(name)}",
                argument="label_column",
                value=excerpt(name),
            )
        if name == node or name in names[:place]:
            raise BadUpload(
                f"label_column must name each column once, and not that of nodes, got {name!r}",
                argument="label_column",
                value=name,
            )


def json_labels(
    rows: Sequence[object],
    node_kind: NodeKind,
    columns: LabelColumns = PLAIN_LABELS,
    *,
    told: Collection[str] = (),
) -> UploadedLabels:
    """Labels of JSON objects, in order; raises `BadUpload` with the row that breaks a rule."""
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            rule = f"a row must be an object with {columns.node} and {columns.label}"
            raise BadUpload(rule, row=number, value=row)
        for name in columns:
            if name not in row:
                raise BadUpload(f"{name!r} is missing", argument=name, row=number)
    objects = cast("Sequence[dict[str, Any]]", rows)
    nodes, labels = ([row[name] for row in objects] for name in columns)
    _require_whole_integers(labels, columns.label)
    givers = _json_givers(objects, told, besides=columns)
    return _check_labels(nodes, labels, node_kind, givers=givers)


def _json_givers(
    rows: Sequence[Mapping[str, Any]], told: Collection[str], *, besides: Collection[str]
) -> list[Giver] | None:
    """Givers of objects, some of which may say nothing of it; None where none is asked for."""
    wanted = [name for name in told if name not in besides]
    columns = {
        name: [row.get(name) for row in rows] for name in wanted if any(name in row for row in rows)
    }
    for row, cell in enumerate(columns.get(ANNOTATOR, ())):
        if cell is not None and not isinstance(cell, str) and not is_integer(cell):
            rule = f"{ANNOTATOR!r} must be text or null"
            raise BadUpload(rule, argument=ANNOTATOR, row=row, value=cell)
    return read_givers(columns, len(rows), {}) if columns else None


def _require_whole_integers(labels: Sequence[object], name: str) -> None:
    """Refuse floats that JSON made of integers that are too large."""
    for row, label in enumerate(labels):
        if isinstance(label, float) and LIMIT <= abs(label) < math.inf:
            rule = f"{name!r} must be a 64-bit integer or a number below 2^63"
            raise BadUpload(rule, argument=name, row=row, value=label)


def _check_labels(
    nodes: list[Any],
    labels: list[Any],
    node_kind: NodeKind,
    *,
    rows: Sequence[int] | None = None,
    name: str = "label",
    givers: Sequence[Giver] | None = None,
) -> UploadedLabels:
    """Checked labels; valid columns of a million rows take only a few passes.

    ``rows`` are their numbers in the table, where some rows were left out; ``givers`` are those of
    the whole table.
    """
    rows = range(len(nodes)) if rows is None else rows
    seen = set()
    for row, label in zip(rows, labels, strict=True):
        key = type(label), label if label.__hash__ is not None else None
        if key not in seen:
            require_label(label, row, name)
            seen.add(key)
    if not _are_plain(nodes, node_kind):
        nodes = [node_id(node, node_kind, row=row) for row, node in zip(rows, nodes, strict=True)]
    if len(set(nodes)) < len(nodes):
        _require_one_label_each(nodes, labels, rows, name)
    if givers is None:
        return UploadedLabels(nodes=nodes, labels=labels)
    of_rows = [givers[row] for row in rows]
    first_rows: dict[Giver, int] = {}
    for row, giver in zip(rows, of_rows, strict=True):
        first_rows.setdefault(giver, row)
    return UploadedLabels(nodes=nodes, labels=labels, givers=of_rows, giver_rows=first_rows)


def _require_one_label_each(
    nodes: Sequence[NodeId], labels: Sequence[LabelValue], rows: Sequence[int], name: str
) -> None:
    """Refuse a node with two different labels, since the table does not say which is meant."""
    firsts: dict[NodeId, tuple[int, LabelValue]] = {}
    for row, node, label in zip(rows, nodes, labels, strict=True):
        first_row, first = firsts.setdefault(node, (row, label))
        if label != first:
            raise BadUpload(
                f"a node must have one {name} in a table, and node {node!r} has {first!r} "
                f"in row {first_row}",
                argument="node",
                row=row,
                value=repr(label),
            )


def require_label(label: object, row: int | None, name: str) -> None:
    """Raise `BadUpload` unless a value can be a label."""
    if label is None:
        raise BadUpload(
            f"{name!r} must not be null (DELETE takes a label back)", argument=name, row=row
        )
    if isinstance(label, float):
        if not math.isfinite(label):
            raise BadUpload(
                f"{name!r} must be a finite number", argument=name, row=row, value=label
            )
    elif not is_integer(label) and not (isinstance(label, str) and label):
        raise BadUpload(
            f"{name!r} must be a 64-bit integer, a real number or a string with a character",
            argument=name,
            row=row,
            value=label,
        )
    elif isinstance(label, str) and label != label.strip():
        raise BadUpload(
            f"{name!r} must not begin or end with white space",
            argument=name,
            row=row,
            value=repr(label),
        )


def _are_plain(nodes: list[Any], node_kind: NodeKind) -> bool:
    """Whether all are valid ids as they are; if not, each must be checked."""
    if not nodes:
        return True
    if node_kind != "string":
        return {type(node) for node in nodes} == {int} and all(
            -LIMIT <= end < LIMIT for end in (min(nodes), max(nodes))
        )
    if {type(node) for node in nodes} != {str}:
        return False
    longest, joined = max(map(len, nodes)), "".join(nodes)
    is_short = longest * _MAX_UTF8_BYTES <= MAX_NODE_BYTES
    return is_short and all(nodes) and "\0" not in joined and is_text(joined)


def parse_labels(labels: list[str]) -> list[Any]:
    """Labels of a CSV column, in the one type that fits all."""
    if all(INTEGER.fullmatch(label) for label in labels):
        return [int(label) for label in labels]
    is_real = any(_POINT.search(label) for label in labels)
    if is_real and all(_NUMBER.fullmatch(label) for label in labels):
        return [float(label) for label in labels]
    return labels


def _check_names(wanted: Sequence[str], options: Mapping[str, str], names: Sequence[str]) -> None:
    """Refuse missing or repeated columns; ``options`` name the option that sets each name."""
    for column in wanted:
        count = names.count(column)
        if count > 1:
            raise BadUpload(
                f"column {column!r} must stand once, the file has it {count} times", argument=column
            )
        if count == 0:
            held = ", ".join(excerpt(name) for name in names) or "no columns"
            advice = (
                f"; say {options[column]}='COLUMN' with the name of the column that is meant"
                if column in options
                else ""
            )
            raise BadUpload(
                f"column {column!r} is missing; the file has {held}{advice}", argument=column
            )


def _as_labels(column: pa.Array, *, first_row: int) -> pa.Array:
    """Values of warehouse exports as labels: decimals as numbers, times and booleans as text."""
    kind = column.type
    if pa.types.is_decimal(kind):
        try:
            return column.cast(pa.int64() if kind.scale == 0 else pa.float64())
        except pa.ArrowInvalid as error:
            values = enumerate(column.to_pylist(), start=first_row)
            row, value = next(
                each for each in values if each[1] is not None and not -LIMIT <= each[1] < LIMIT
            )
            rule = "'label' must be a 64-bit integer where it is a whole decimal"
            raise BadUpload(rule, argument="label", row=row, value=value) from error
    if pa.types.is_boolean(kind) or pa.types.is_temporal(kind):
        return column.cast(pa.string())
    return column


def _label_column(batch: pa.RecordBatch, name: str) -> pa.Array:
    column = batch.column(name)
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise BadUpload(
            f"column {name!r} must be valid Arrow data ({excerpt(error)})", argument=name
        ) from error
    return column
