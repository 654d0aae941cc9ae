"""Labels that people send, as Python values in columns; checked a million rows at a time."""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, BinaryIO, Final, NamedTuple, TypeAlias

import pyarrow as pa

from peewit.service.tables.uploads.arrow_and_parquet import stored_batches, stored_to_read
from peewit.service.tables.uploads.givers import (
    GIVER_COLUMNS,
    KEY,
    TIME,
    Giver,
    giver_columns,
    passed_over,
    read_givers,
    require_giver,
)
from peewit.service.tables.uploads.json_labels import json_label_batch, ndjson_labels, values_of
from peewit.service.tables.uploads.label_columns import PLAIN_LABELS, LabelColumns
from peewit.service.tables.uploads.label_words import (
    NO_CLASS_TEXTS,
    NODELESS,
    SEVERAL,
    LabelWords,
    as_whole,
)
from peewit.service.tables.uploads.limits import (
    LABEL_ROWS,
    UploadLimits,
    columns_within,
    counted,
    require_at_most,
)
from peewit.solvers.missing_words import MISSING_WORDS
from peewit.streaming.edges.bad_table import BadUpload, excerpt
from peewit.streaming.edges.blocks import MAX_NODE_BYTES, BadEdges
from peewit.streaming.edges.change_columns import (
    is_state_column,
    may_be_changes,
    require_no_deletes,
    rows_ended,
)
from peewit.streaming.edges.column_mapping import bare_name
from peewit.streaming.edges.columns import MAX_EXACT, whole_numbers
from peewit.streaming.edges.csv.strays import require_no_strays
from peewit.streaming.edges.csv.tables import csv_batches
from peewit.streaming.edges.json_tables import json_rows
from peewit.streaming.edges.node_ids import LIMIT, NodeId, is_integer, is_text, node_id
from peewit.streaming.edges.node_kinds import TEXT, NodeKind, kind_of, split_column
from peewit.streaming.edges.oddities import ended_notes
from peewit.streaming.edges.plain_types import plain_column
from peewit.streaming.edges.reading_options import Quote
from peewit.streaming.edges.table_formats import Format
from peewit.streaming.edges.times import read_times

LabelValue = str | int | float

_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
_WHOLE: Final = re.compile(r"(0|-?[1-9][0-9]{0,18})(\.0)?")
_NUMBER: Final = re.compile(
    r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf|infinity)", re.IGNORECASE
)

_WEIGHTS: Final = frozenset(
    {"weight", "label_weight", "sample_weight", "confidence", "certainty", "probability"}
)
"""What columns of the weight of a label are called."""
_TRUTHS: Final = {"true", "false"}
"""What truth values are as text, in any case."""

_NO_DELETES_OF_LABELS: Final = (
    "and labels are taken back by `peewit labels remove`, or DELETE over HTTP; take these rows "
    "out, or the column where it says else"
)

_UNSEEN: Final = re.compile(
    r"^[\s\ufeff\u00ad\u200b-\u200f\u202a-\u202e\u2060]+"
    r"|[\s\ufeff\u00ad\u200b-\u200f\u202a-\u202e\u2060]+$"
)

_SHOWN: Final = 5
_MAX_UTF8_BYTES: Final = 4  # of a character


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadedLabels:
    """Labels as they were sent, in columns of (n_rows,) values."""

    nodes: list[NodeId]
    labels: list[LabelValue]
    givers: list[Giver] | None = None  # None where the table does not say
    giver_rows: Mapping[Giver, int] = field(default_factory=dict)  # first row of each different one
    giver_names: Mapping[str, str] = field(default_factory=dict)  # of their columns
    left_out: Mapping[str, int] = field(default_factory=dict)  # rows of words that mean no label
    are_opinions: bool = False  # rows of one node are of several people
    told: Sequence[str] = ()  # what else is to be known

    def last_of_each(self) -> dict[str, LabelValue]:
        """The last label of each node, by the node as text, in the order of first mention."""
        return {str(node): label for node, label in zip(self.nodes, self.labels, strict=True)}


def read_labels(
    file: BinaryIO,
    table_format: Format,
    node_kind: NodeKind,
    columns: LabelColumns = PLAIN_LABELS,
    *,
    limits: UploadLimits | None = None,
    text_classes: Callable[[str], Collection[LabelValue]] | None = None,
) -> dict[str, UploadedLabels]:
    """Labels in order, by the graph's column that they are for.

    In CSV, white space around labels and lines that are empty but for separators do not count. A
    CSV column holds numbers where each is written as numbers are printed, so that 01 and 1.10 stay
    text; and always text where the graph's column has ``text_classes``. Other formats have types;
    booleans, dates and times become text. Numbers that are all whole, as 1.0, are integers. Rows
    whose label is a word for nothing, see `LabelWords`, are left out and counted. Raises
    `BadUpload` where the file cannot be read, a row breaks a rule, or two rows give a node
    different labels, and `TableTooLarge` as `edge_batches` does.
    """
    columns.require_names()
    names: list[str] = []
    if table_format is Format.NDJSON:
        batches = ndjson_labels(file, columns, names.extend)
    else:
        options = {columns.node: "node"} | ({} if columns.names else {columns.label: "label"})
        options |= {name: f"{giver}_column" for giver, name in columns.givers_named.items()}
        options |= {columns.time: "time_column"} if columns.time else {}
        batches = _batches(
            *(file, table_format, columns.needed, options, limits),
            beside=columns.beside,
            quote=columns.quote,
            see_names=names.extend,
        )
    is_csv = table_format is Format.CSV
    cells = _cells(counted(batches, limits), columns, limits, is_csv=is_csv)
    weights = [name for name in names if bare_name(name) in _WEIGHTS and name not in columns.needed]
    if weights:
        cells.told.append(f"column {weights[0]!r} is not heeded: labels count alike")
    if cells.nodes:
        wanted = *columns.givers, *([TIME] if columns.times else ())
        read = *cells.giver_names, *([TIME] if set(columns.times) & set(names) else ())
        cells.told.extend(passed_over(names, wanted=wanted, read=read, taken=columns.needed))
    return _checked_columns(cells, node_kind, columns, is_csv=is_csv, text_classes=text_classes)


def json_labels(
    rows: Sequence[object], node_kind: NodeKind, columns: LabelColumns = PLAIN_LABELS
) -> dict[str, UploadedLabels]:
    """Labels of JSON objects, as `read_labels` has them; raises `BadUpload`.

    An object holds nothing else: a misspelt ``origin`` would be passed over.
    """
    columns.require_names()
    known = {*columns.all, *columns.beside}
    for row, each in enumerate(rows):
        if isinstance(each, dict) and not each.keys() <= known | {*GIVER_COLUMNS, KEY}:
            name = next(name for name in each if name not in known | {KEY})
            rule = f"a row must have {', '.join(sorted(known))} alone"
            raise BadUpload(rule, argument=excerpt(name), row=row, value=name)
    cells = _cells([json_label_batch(rows, columns)], columns, None)
    return _checked_columns(cells, node_kind, columns)


def read_nodes(
    file: BinaryIO, table_format: Format, node_kind: NodeKind, *, node: str
) -> list[NodeId]:
    """External ids of one column of a table, in order.

    Raises `BadUpload` where the file cannot be read or a row breaks a rule.
    """
    nodes: list[Any] = []
    of_kind, node = split_column(node)
    if table_format is Format.NDJSON:
        for rows in json_rows(file):
            nodes += [row.get(node) if isinstance(row, dict) else None for row in rows]
    else:
        for batch in _batches(*(file, table_format, (node,), {node: "node"}, None), quote="double"):
            nodes += _as_nodes(_valid_column(batch, node), node).to_pylist()
    return _nodes(nodes, range(len(nodes)), node_kind, of_kind, node)


def _batches(
    file: BinaryIO,
    table_format: Format,
    wanted: tuple[str, ...],
    options: Mapping[str, str],
    limits: UploadLimits | None,
    *,
    beside: tuple[str, ...] = (),
    quote: Quote | None = None,
    see_names: Callable[[Sequence[str]], None] = lambda _names: None,
) -> Iterator[pa.RecordBatch]:
    """Wanted columns, that of nodes first, and those beside them.

    Files whose columns are read by place have no names, and so no givers.
    """

    def check(names: Sequence[str]) -> None:
        _check_names(wanted, options, names)
        see_names(names)

    def to_read(first_rows: pa.Table) -> list[str]:
        columns = zip(first_rows.schema.names, first_rows.columns, strict=True)
        own = {*wanted, *beside}
        further = [n for n, column in columns if n not in own and may_be_changes(column, n)]
        states.extend(n for n in first_rows.schema.names if n not in own and is_state_column(n))
        return [*wanted, *further]

    states: list[str] = []

    if table_format is not Format.CSV:
        read = tuple(stored_to_read(file, table_format, to_read, limits))
        beside = (*beside, *states)
        return stored_batches(file, table_format, read, limits, check=check, beside=beside)
    beside = () if wanted[0].startswith("#") else beside
    return csv_batches(
        *(file, wanted + beside),
        check=columns_within(limits, check),
        quote=quote,
        to_read=lambda first_rows: [*to_read(first_rows), *beside, *states],
    )


class _Cells(NamedTuple):
    """Values of all rows, in columns; those of labels are one list each."""

    nodes: list[Any]
    labels: list[list[Any]]
    givers: list[Giver]  # none where the table has no such column
    giver_names: dict[str, str]  # of their columns
    times: list[Any]  # of rows, where `last` goes by them; None where one has none
    time: str  # their column
    told: list[str]


def _cells(
    batches: Iterable[pa.RecordBatch],
    columns: LabelColumns,
    limits: UploadLimits | None,
    *,
    is_csv: bool = False,
) -> _Cells:
    max_rows = None if limits is None else limits.label_rows
    empty = None if columns.names else ""
    nodes: list[Any] = []
    labels: list[list[Any]] = [[] for _ in columns.of_labels]
    givers: list[Giver] = []
    giver_names: dict[str, str] = {}
    seen: dict[Giver, Giver] = {}
    times: list[Any] = []
    time = TIME
    told: list[str] = []
    of_labels = list(zip(columns.of_labels, columns.arguments, labels, strict=True))
    for batch in batches:
        if is_csv:
            by_name = dict(zip(batch.schema.names, batch.columns, strict=True))
            pair = columns.node, columns.of_labels[0]
            require_no_strays(by_name, pair, len(nodes), way="take such lines out")
        if not nodes:
            told += ended_notes(rows_ended(_states(batch, columns)), "a label")
        for name in set(batch.schema.names).difference(columns.all, columns.beside):
            if may_be_changes(batch.column(name), name):
                column = _valid_column(batch, name)
                require_no_deletes(column, name, len(nodes), way=_NO_DELETES_OF_LABELS)
        beside = giver_columns(batch.schema, columns.beside)
        of_givers = {}
        for name, giver in columns.giver_of.items():
            if name in beside or giver in columns.givers_named:
                column = _valid_column(batch, name)
                require_giver(column, name, giver)
                of_givers[giver], giver_names[giver] = column.to_pylist(), name
        if of_times := [name for name in columns.times if name in beside]:
            time = of_times[0]
            is_said = bool(columns.time) or time != TIME
            times += _times(_valid_column(batch, time), time, len(nodes), is_said=is_said)
        if of_givers or givers:
            givers += [Giver()] * (len(nodes) - len(givers))
            givers += read_givers(of_givers, batch.num_rows, seen)
        n_cells = (len(nodes) + batch.num_rows) * len(labels)
        require_at_most(n_cells + len(seen), max_rows, LABEL_ROWS)
        for name, argument, values in of_labels:
            column = _as_labels(_valid_column(batch, name), argument, first_row=len(nodes))
            cells = values_of(column)
            values.extend([_bare(text) or empty for text in cells] if is_csv else cells)
        nodes += values_of(_as_nodes(_valid_column(batch, columns.node), columns.node))
    if times and (None in times or len(times) < len(nodes)):
        told.append(f"column {time!r} is not heeded, as some rows have no time there")
        times = []
    return _Cells(nodes, labels, givers, giver_names, times, time, told)


def _states(batch: pa.RecordBatch, columns: LabelColumns) -> dict[str, pa.Array]:
    """Columns that may say that a row does not hold any more."""
    own = {*columns.needed, *columns.beside}
    names = [name for name in batch.schema.names if name not in own and is_state_column(name)]
    return {name: batch.column(name) for name in names}


def _times(column: pa.Array, name: str, first_row: int, *, is_said: bool) -> list[int | None]:
    """Times of rows in microseconds; none of a column that nobody named and that holds no times."""
    try:
        times: list[int | None] = read_times(column, name, None, first_row).tolist()
    except BadEdges as error:
        if is_said:
            raise BadUpload(
                error.reason, argument="time_column", row=error.row, value=error.value
            ) from error
        times = [None] * len(column)
    return times


def _checked_columns(
    cells: _Cells,
    node_kind: NodeKind,
    columns: LabelColumns,
    *,
    is_csv: bool = False,
    text_classes: Callable[[str], Collection[LabelValue]] | None = None,
) -> dict[str, UploadedLabels]:
    """Checked labels of the rows that say something, by the graph's column."""
    checked = {}
    of_labels = zip(columns.of_graph, columns.arguments, cells.labels, strict=True)
    for of_graph, name, values in of_labels:
        nodes, labels = cells.nodes, values
        rows: Sequence[int] = range(len(nodes))
        if columns.names:
            rows = [row for row, label in enumerate(labels) if label is not None]
        elif is_csv:
            rows = [row for row, each in enumerate(zip(nodes, labels, strict=True)) if any(each)]
        n_rows = len(rows)
        if columns.missing_ids == "leave-out":
            rows = [row for row in rows if not _is_missing(nodes[row])]
        n_nodeless = n_rows - len(rows)
        if len(rows) < len(nodes):
            nodes, labels = [nodes[row] for row in rows], [labels[row] for row in rows]
        classes = text_classes(of_graph) if is_csv and text_classes is not None else ()
        is_number = is_csv and not classes
        nodes, labels, rows, left_out = _said(nodes, labels, rows, name, columns.words, is_number)
        if n_nodeless:
            left_out[NODELESS] = n_nodeless
        if classes:
            labels = list(as_whole(labels, classes))
        _check_labels(labels, rows, name)
        nodes = _nodes(nodes, rows, node_kind, columns.of_kind or "", columns.node)
        are_opinions = columns.contradictions == "opinions" and len(set(nodes)) < len(nodes)
        has_again = len(set(nodes)) < len(nodes) and not are_opinions
        if has_again and (several := _several_labels(nodes, labels, rows)):
            if columns.contradictions == "refuse":
                raise _contradiction(several, name)
            times = [cells.times[row] for row in rows] if cells.times else None
            stay = _without(several, nodes, last=columns.contradictions == "last", times=times)
            left_out[SEVERAL] = len(nodes) - len(stay)
            if times:
                cells.told.append(
                    f"the label of the latest {cells.time!r} holds where a node has several"
                )
            nodes, labels = [nodes[place] for place in stay], [labels[place] for place in stay]
            rows = [rows[place] for place in stay]
        checked[of_graph] = replace(
            _with_givers(nodes, labels, rows, cells.givers, left_out),
            giver_names=cells.giver_names,
            are_opinions=are_opinions,
            told=tuple(dict.fromkeys(cells.told)),
        )
    return checked


def _said(
    nodes: list[Any],
    labels: list[Any],
    rows: Sequence[int],
    name: str,
    words: LabelWords,
    may_be_numbers: bool,
) -> tuple[list[Any], list[Any], Sequence[int], dict[str, int]]:
    """Rows whose label is none of the words for nothing, and how many others there are of each.

    Text of CSV is read as numbers if it ``may_be_numbers`` once these rows are gone.
    """
    left_out: dict[str, int] = {}
    for parse in (may_be_numbers, False):
        held = labels
        if parse:  # -1 is judged among numbers
            held = ["0" if label in NO_CLASS_TEXTS else label for label in labels]
        places, counts = words.left_out(held, name)
        if places:
            stay = [place for place in range(len(labels)) if place not in places]
            nodes, labels = [nodes[place] for place in stay], [labels[place] for place in stay]
            rows = [rows[place] for place in stay]
            left_out |= counts
        if not parse:
            break
        labels = parse_labels(labels)
    kinds = set(map(type, labels))
    if kinds == {str} and {label.lower() for label in set(labels)} <= _TRUTHS:
        labels = [label.lower() for label in labels]
    if float in kinds and kinds <= {float, int} and all(map(is_whole, labels)):
        _require_exact(labels, rows, name)
        labels = [int(label) for label in labels]
    return nodes, labels, rows, left_out


def _require_exact(labels: Sequence[Any], rows: Sequence[int], name: str) -> None:
    """Refuse floats that are to be integers, and may have been rounded to them."""
    for row, label in zip(rows, labels, strict=True):
        if isinstance(label, float) and abs(label) > MAX_EXACT:
            rule = f"{name!r} must be written as an integer beyond 2^53, where floats are rounded"
            raise BadUpload(rule, argument=name, row=row, value=label)


def is_whole(number: float) -> bool:
    """Whether a number is a 64-bit integer, as 1.0 is."""
    return abs(number) < LIMIT and number == int(number)


def _check_labels(labels: Sequence[Any], rows: Sequence[int], name: str) -> None:
    """Refuse what can be no label; a million valid ones take a few passes."""
    seen = set()
    for row, label in zip(rows, labels, strict=True):
        key = type(label), label if label.__hash__ is not None else None
        if key not in seen:
            require_label(label, row, name)
            seen.add(key)


def _with_givers(
    nodes: list[NodeId],
    labels: list[LabelValue],
    rows: Sequence[int],
    givers: Sequence[Giver],
    left_out: Mapping[str, int],
) -> UploadedLabels:
    """Labels of some rows of a table, with their givers, if it has any."""
    if not givers:
        return UploadedLabels(nodes=nodes, labels=labels, left_out=left_out)
    of_rows = [givers[row] for row in rows]
    first_rows: dict[Giver, int] = {}
    for row, giver in zip(rows, of_rows, strict=True):
        first_rows.setdefault(giver, row)
    return UploadedLabels(
        nodes=nodes, labels=labels, givers=of_rows, giver_rows=first_rows, left_out=left_out
    )


_Several: TypeAlias = dict[NodeId, dict[LabelValue, int]]
"""The different labels of a node, each with the first row that gives it."""


def _several_labels(
    nodes: Sequence[NodeId], labels: Sequence[LabelValue], rows: Sequence[int]
) -> _Several:
    """Nodes to which the table gives different labels."""
    of_nodes: _Several = {}
    for row, node, label in zip(rows, nodes, labels, strict=True):
        of_nodes.setdefault(node, {}).setdefault(label, row)
    return {node: of_node for node, of_node in of_nodes.items() if len(of_node) > 1}


def _contradiction(several: _Several, name: str) -> BadUpload:
    """All contradictions at once: how many there are, and the first few with their rows."""
    shown = [
        f"{node!r} has " + " and ".join(f"{label!r} in row {row}" for label, row in of_node.items())
        for node, of_node in islice(several.items(), _SHOWN)
    ]
    more = f", and {len(several) - _SHOWN:,} more" if len(several) > _SHOWN else ""
    nodes = "1 node has" if len(several) == 1 else f"{len(several):,} nodes have"
    return BadUpload(
        f"a node must have one {name} in a table, and {nodes} several (rows count from 0): "
        f"{'; '.join(shown)}{more}. Say contradictions='last' to take the last row of each, "
        "'leave-out' to give such nodes no label, or 'opinions' where rows are those of "
        "several people",
        argument="node",
    )


def _without(
    several: _Several, nodes: Sequence[NodeId], *, last: bool, times: Sequence[int] | None
) -> list[int]:
    """Places of rows without contradictions; of nodes with some the last row, or none.

    Where rows have times the last is the latest, and of equally late ones that below.
    """
    places = list(range(len(nodes))) if last else []
    if times is not None:
        places.sort(key=times.__getitem__)
    last_of = {nodes[place]: place for place in places}
    return [
        place
        for place, node in enumerate(nodes)
        if node not in several or last_of.get(node) == place
    ]


def require_label(label: object, row: int | None, name: str) -> None:
    """Raise `BadUpload` unless a value can be a label."""
    leaves_out = "" if row is None else "; no_label='' leaves such rows out"
    if label is None:
        raise BadUpload(
            f"{name!r} must not be null (`peewit labels remove`, or DELETE over HTTP, takes a "
            f"label back{leaves_out})",
            argument=name,
            row=row,
        )
    if isinstance(label, float):
        if not math.isfinite(label):
            raise BadUpload(
                f"{name!r} must be a finite number", argument=name, row=row, value=label
            )
    elif not is_integer(label) and not (isinstance(label, str) and label):
        raise BadUpload(
            f"{name!r} must be a 64-bit integer, a real number or a string with a character"
            + (leaves_out if label == "" else ""),
            argument=name,
            row=row,
            value=label,
        )
    elif isinstance(label, str) and label != _bare(label):
        raise BadUpload(
            f"{name!r} must not begin or end with white space or invisible characters",
            argument=name,
            row=row,
            value=repr(label),
        )


def _nodes(
    ids: list[Any], rows: Sequence[int], node_kind: NodeKind, of_kind: str, column: str
) -> list[NodeId]:
    """Checked nodes of some rows, of ``of_kind`` in a typed graph unless each names its kind.

    So do all rows of an export, whose column's kind does not count.
    """
    if of_kind and node_kind != "typed":
        rule = f"'node' must not have a kind, {of_kind!r}, in a graph of {node_kind} nodes"
        raise BadUpload(rule, argument="node")
    if of_kind:
        texts = [str(each) if is_integer(each) else each for each in ids]
        if not _are_plain(texts, "string"):
            for row, text in zip(rows, texts, strict=True):
                node_id(text, "string", row=row)
        prefix = f"{of_kind}:"
        named = [
            place for place, text in enumerate(texts) if text.lower().startswith(prefix.lower())
        ]
        if not named:
            return [prefix + text for text in texts]
        if any(kind_of(text) is None for text in texts):
            raise BadUpload(
                "'node' must be an id without the kind that is named before its column; where each "
                f"names its own, say {column} in place of {prefix}{column}",
                argument="node",
                row=rows[named[0]],
                value=texts[named[0]],
            )
        ids = texts
    if _are_plain(ids, node_kind):
        return ids
    for row, each in zip(rows, ids, strict=True):
        if each is None or each == "":
            raise BadUpload(
                f"column {column!r} must name a node in every row; say missing_ids='leave-out' to "
                "leave such rows out",
                argument="node",
                row=row,
                value="null" if each is None else "''",
            )
    return [node_id(each, node_kind, row=row) for row, each in zip(rows, ids, strict=True)]


def _is_missing(node: object) -> bool:
    """Whether a cell names no node."""
    return node is None or (isinstance(node, str) and node.strip().lower() in {"", *MISSING_WORDS})


def _bare(label: str) -> str:
    """A label without white space and invisible characters around it."""
    label = label.strip()
    return label if label.isascii() else _UNSEEN.sub("", label)


def _are_plain(nodes: list[Any], node_kind: NodeKind) -> bool:
    """Whether all are valid ids as they are; if not, each must be checked."""
    if not nodes:
        return True
    if node_kind not in TEXT:
        return {type(node) for node in nodes} == {int} and all(
            -LIMIT <= end < LIMIT for end in (min(nodes), max(nodes))
        )
    if {type(node) for node in nodes} != {str}:
        return False
    longest, joined = max(map(len, nodes)), "".join(nodes)
    is_short = longest * _MAX_UTF8_BYTES <= MAX_NODE_BYTES and node_kind != "typed"
    return is_short and all(nodes) and "\0" not in joined and is_text(joined)


def parse_labels(labels: list[str]) -> list[Any]:
    """Labels of a CSV column, in the one type that fits all."""
    if not all(_NUMBER.fullmatch(label) for label in labels):
        return labels
    if all(_WHOLE.fullmatch(label) for label in labels):
        integers = [int(label.partition(".")[0]) for label in labels]
        return integers if all(map(is_integer, integers)) else labels
    numbers = [int(label) if _INTEGER.fullmatch(label) else float(label) for label in labels]
    are_printed = list(map(repr, numbers)) == labels
    return numbers if are_printed or not all(map(math.isfinite, numbers)) else labels


def _check_names(wanted: Sequence[str], options: Mapping[str, str], names: Sequence[str]) -> None:
    """Refuse missing or repeated columns; ``options`` name the option that sets each name."""
    for column in wanted:
        count = names.count(column)
        if count > 1:
            raise BadUpload(
                f"column {column!r} must stand once, the file has it {count} times; rename one",
                argument=column,
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


def _as_nodes(column: pa.Array, name: str) -> pa.Array:
    """Strings or integers, also of decimals and floats that are whole."""
    kind = column.type
    if pa.types.is_decimal(kind) or pa.types.is_floating(kind):
        return whole_numbers(column, name)
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not (is_text or pa.types.is_integer(kind) or pa.types.is_null(kind)):
        if isinstance(kind, pa.JsonType):
            return column
        rule = f"column {name!r} must hold strings or integers, got type {excerpt(kind)}"
        raise BadUpload(rule, argument=name)
    return column


def _as_labels(column: pa.Array, name: str, *, first_row: int) -> pa.Array:
    """Values of warehouse exports as labels: decimals as numbers, times and booleans as text."""
    kind = column.type
    if pa.types.is_decimal(kind):
        with suppress(pa.ArrowInvalid):  # beyond what Arrow casts: row by row
            return column.cast(pa.int64() if kind.scale == 0 else pa.float64())
        values = column.to_pylist()
        for row, value in enumerate(values, start=first_row):
            if value is not None and not -LIMIT <= value < LIMIT:
                rule = f"{name!r} must be a 64-bit integer where it is a whole decimal"
                raise BadUpload(rule, argument=name, row=row, value=value)
        number = int if kind.scale == 0 else float
        return pa.array([None if value is None else number(value) for value in values])
    is_moment = pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind)
    if pa.types.is_boolean(kind) or is_moment:
        return column.cast(pa.string())
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if is_text or is_number or pa.types.is_null(kind) or isinstance(kind, pa.JsonType):
        return column
    rule = f"column {name!r} must hold text, numbers, truth values or dates, got type {kind}"
    raise BadUpload(rule, argument=name)


def _valid_column(batch: pa.RecordBatch, name: str) -> pa.Array:
    column = batch.column(name)
    if not isinstance(column.type, pa.JsonType):
        column = plain_column(column)
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise BadUpload(
            f"column {name!r} must be valid Arrow data ({excerpt(error)})", argument=name
        ) from error
    return column
