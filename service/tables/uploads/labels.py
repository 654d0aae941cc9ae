"""Labels that people send: columns of Python values, a million rows at a time."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, cast

import pyarrow as pa

from peewit.service.tables.formats import Format
from peewit.service.tables.uploads.arrow_and_parquet import stored_batches
from peewit.service.tables.uploads.csv_tables import csv_batches
from peewit.service.tables.uploads.faults import BadUpload, excerpt
from peewit.service.tables.uploads.json_tables import json_rows
from peewit.service.tables.uploads.limits import LABEL_ROWS, UploadLimits, counted, require_at_most
from peewit.service.tables.uploads.node_ids import (
    INTEGER,
    LIMIT,
    NodeId,
    is_integer,
    is_text,
    node_id,
)
from peewit.streaming.edges.blocks import MAX_NODE_BYTES, NodeKind

LABEL_COLUMNS: Final = ("node", "label")

LabelValue = str | int | float

_NUMBER: Final = re.compile(
    r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|nan|inf|infinity)", re.IGNORECASE
)
_POINT: Final = re.compile(r"[.eE]")
"""What a real number has in its text and a whole one has not."""

_MAX_UTF8_BYTES: Final = 4  # of a character


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedLabels:
    """Labels as they were sent, in columns.

    Attributes
    ----------
    nodes : list of str or int
        (n_rows,) external ids.
    labels : list of str, int or float
        (n_rows,) label of each.
    """

    nodes: list[NodeId]
    labels: list[LabelValue]

    def last_of_each(self) -> dict[str, LabelValue]:
        """The last label of each node, by the node as text, in the order of first naming."""
        return {str(node): label for node, label in zip(self.nodes, self.labels, strict=True)}


def read_labels(
    file: BinaryIO,
    table_format: Format,
    node_kind: NodeKind,
    *,
    limits: UploadLimits | None = None,
) -> UploadedLabels:
    """Labels in order.

    A column of CSV holds whole numbers when every value of it is one; real numbers when every
    value is a number and one of them has a point or an exponent; else strings. The other formats
    say themselves what a value is.

    Raises
    ------
    BadUpload
        The file cannot be read, or a row breaks a rule.
    TableTooLarge
        As of `edge_batches`.
    """
    max_rows = None if limits is None else limits.label_rows
    if table_format is Format.NDJSON:
        rows: list[Any] = []
        for chunk in json_rows(file):
            rows += chunk
            require_at_most(len(rows), max_rows, LABEL_ROWS)
        return json_labels(rows, node_kind)
    if table_format is Format.CSV:
        batches = csv_batches(file, LABEL_COLUMNS, limits, check=_check_names)
    else:
        batches = stored_batches(file, table_format, LABEL_COLUMNS, limits, check=_check_names)
    nodes: list[Any] = []
    labels: list[Any] = []
    for batch in counted(batches, limits):
        require_at_most(len(nodes) + batch.num_rows, max_rows, LABEL_ROWS)
        nodes += _label_column(batch, "node").to_pylist()
        labels += _label_column(batch, "label").to_pylist()
    if table_format is Format.CSV:
        labels = _parse_labels(labels)
    return _check_labels(nodes, labels, node_kind)


def json_labels(rows: Sequence[object], node_kind: NodeKind) -> UploadedLabels:
    """Labels of JSON objects, in order; raises `BadUpload` with the row that breaks a rule."""
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            rule = "a row must be an object with node and label"
            raise BadUpload(rule, row=number, value=row)
        for name in LABEL_COLUMNS:
            if name not in row:
                raise BadUpload(f"{name!r} is missing", argument=name, row=number)
    objects = cast("Sequence[dict[str, Any]]", rows)
    nodes, labels = ([row[name] for row in objects] for name in LABEL_COLUMNS)
    return _check_labels(nodes, labels, node_kind)


def _check_labels(nodes: list[Any], labels: list[Any], node_kind: NodeKind) -> UploadedLabels:
    """Columns of a million rows at the cost of a few looks at all of it, where nothing is wrong."""
    seen = set()
    for row, label in enumerate(labels):
        key = type(label), label if label.__hash__ is not None else None
        if key not in seen:
            _require_label(label, row)
            seen.add(key)
    if not _are_plain(nodes, node_kind):
        nodes = [node_id(node, node_kind, row=row) for row, node in enumerate(nodes)]
    return UploadedLabels(nodes=nodes, labels=labels)


def _require_label(label: object, row: int) -> None:
    if label is None:
        raise BadUpload(
            "'label' must not be null (DELETE takes a label back)", argument="label", row=row
        )
    if isinstance(label, float):
        if not math.isfinite(label):
            raise BadUpload(
                "'label' must be a finite number", argument="label", row=row, value=label
            )
    elif not is_integer(label) and not (isinstance(label, str) and label):
        raise BadUpload(
            "'label' must be a 64-bit integer, a real number or a string with a character",
            argument="label",
            row=row,
            value=label,
        )


def _are_plain(nodes: list[Any], node_kind: NodeKind) -> bool:
    """Whether all are ids as they stand; where not, they have to be looked at one by one."""
    if not nodes:
        return True
    if node_kind != "string":
        return {type(node) for node in nodes} == {int} and all(
            -LIMIT <= end < LIMIT for end in (min(nodes), max(nodes))
        )
    if {type(node) for node in nodes} != {str}:
        return False
    longest = max(map(len, nodes))
    return longest * _MAX_UTF8_BYTES <= MAX_NODE_BYTES and is_text("".join(nodes))


def _parse_labels(labels: list[str]) -> list[Any]:
    """Labels of a CSV column, all in the type that fits all of them."""
    if all(INTEGER.fullmatch(label) for label in labels):
        return [int(label) for label in labels]
    is_real = any(_POINT.search(label) for label in labels)
    if is_real and all(_NUMBER.fullmatch(label) for label in labels):
        return [float(label) for label in labels]
    return labels


def _check_names(names: Sequence[str]) -> None:
    for column in LABEL_COLUMNS:
        count = names.count(column)
        if count > 1:
            raise BadUpload(
                f"column {column!r} must stand once, the file has it {count} times", argument=column
            )
        if count == 0:
            held = ", ".join(excerpt(name) for name in names) or "no columns"
            raise BadUpload(f"column {column!r} is missing; the file has {held}", argument=column)


def _label_column(batch: pa.RecordBatch, name: str) -> pa.Array:
    column = batch.column(name)
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise BadUpload(
            f"column {name!r} must be valid Arrow data ({excerpt(error)})", argument=name
        ) from error
    return column
