"""Labels as a history: each label and each removal is a numbered event that never changes.

The label of a node is that of its last event. A job works on all events up to a number, so a
prediction can name its labels for ever. Nodes are external ids as text. A node has at most one
label in each column, the unnamed one or a named one; events of all columns of a graph share one
numbering.
"""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from numbers import Integral, Real
from typing import Any, Final

import pyarrow as pa
from sqlalchemy import ColumnElement, Connection, Row, Select, func, select, update

from peewit.service.catalog import find_graph, lock_graph
from peewit.service.database.engine import Database
from peewit.service.database.present_labels import (
    column_names,
    count_to_two,
    is_present,
    labels_now,
)
from peewit.service.database.tables import graphs, label_events
from peewit.service.labels.event_rows import (
    give_back_labeled,
    insert_events,
    mark_superseded,
    withdraw_opinions,
)
from peewit.service.tables.uploads import LabelValue
from peewit.service.wire.labels import LabelOrigin
from peewit.solvers.arrays import BoolArray
from peewit.streaming.edges.bad_table import BadTable
from peewit.streaming.edges.blocks import MAX_NODE_BYTES
from peewit.streaming.problems import NotFound

MAX_LABEL_BYTES: Final = 1000
"""A label names a class; longer text is a mistake."""

MAX_LISTED: Final = 1000
"""Most refused nodes that a receipt lists."""

_INT64: Final = 2**63
_SHOWN: Final = ("node", "label", "origin", "annotator", "key", "seq")


class BadLabels(BadTable):
    """A node or label breaks a rule; nothing of the batch is stored."""

    title = "Labels break the contract"

    def __init__(self, reason: str, *, argument: str, row: int | None, value: object) -> None:
        shown = repr(value) if len(repr(value)) <= 80 else repr(value)[:79] + "…"
        super().__init__(reason, argument=argument, row=row, value=shown)


class LabelColumnNotFound(NotFound, ValueError):
    """No label was ever given in the column."""

    title = "Label column not found"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelReceipt:
    """What became of a batch."""

    labels_seq: int  # last label event of the graph, after this batch
    accepted: int  # events stored
    refused: tuple[str, ...] = ()  # first unknown nodes; with any, nothing is stored
    n_refused: int = 0  # all unknown nodes
    left_out: Mapping[str, int] = field(default_factory=dict)  # rows of words that mean no label
    note: str | None = None  # what may have gone wrong


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CurrentLabels:
    """The labels of a graph as of event ``labels_seq``, in the order of their events."""

    nodes: pa.LargeStringArray  # (n_labeled,) external ids
    labels: list[LabelValue]  # (n_labeled,) as they were given
    origins: pa.StringArray  # (n_labeled,) each a `LabelOrigin`
    annotators: pa.StringArray  # (n_labeled,) null where unknown
    keys: pa.StringArray  # (n_labeled,) names of the keys that gave them, null without one
    labels_seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelEvent:
    """One event of the history of labels."""

    seq: int
    node: str
    label: LabelValue | None  # as it was given; None for a removal
    at: datetime  # by the database's clock, in UTC
    origin: LabelOrigin
    annotator: str | None  # who gave or removed it; None where unknown
    key: str | None  # name of the key that signed so; None without one
    by_majority: bool  # set by `opinions.standing`, upon this annotator's answer


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelColumn:
    """A column of labels of a graph."""

    name: str  # empty for the unnamed one
    n_labeled: int
    n_labels: int  # different ones


class LabelStore:
    """Label events of all graphs; ``column`` is empty for the unnamed column of labels.

    With a ``connection`` writing methods join the caller's transaction, so that labels and the job
    that follows are stored together.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(
        self,
        graph_id: str,
        nodes: Sequence[str],
        labels: Sequence[LabelValue],
        *,
        column: str = "",
        origin: LabelOrigin | Sequence[LabelOrigin] = "given",
        annotator: str | Sequence[str | None] | None = None,
        key: str | None = None,
        is_known: BoolArray | None = None,
        connection: Connection | None = None,
    ) -> LabelReceipt:
        """Store a label for each node; of a node named twice the later label counts.

        ``origin`` and ``annotator`` hold for all labels or are given for each; ``key`` is the name
        of the caller's. ``is_known`` (n_nodes,) says which nodes the graph knows: unless it knows
        all, nothing is stored and the receipt lists the others. Without it every node is taken.
        Raises `GraphNotFound`; `BadLabels` unless nodes are strings of at most `MAX_NODE_BYTES`,
        and labels 64-bit integers, finite numbers or strings of 1 to `MAX_LABEL_BYTES`; ValueError
        where lengths differ.
        """
        if len(nodes) != len(labels):
            raise ValueError(
                f"nodes and labels must be equally long, got {len(nodes)} and {len(labels)}"
            )
        names = _check_nodes(nodes)
        values = _label_texts(labels)
        unknown = [] if is_known is None else _unknown(names, is_known)
        with self._database.joined(connection) as joined:
            if unknown:
                return LabelReceipt(
                    labels_seq=find_graph(joined, graph_id).labels_seq,
                    accepted=0,
                    refused=tuple(unknown[:MAX_LISTED]),
                    n_refused=len(unknown),
                )
            return append_events(
                *(joined, graph_id, column, nodes, values),
                origin=origin,
                annotator=annotator,
                key=key,
            )

    def delete(
        self,
        graph_id: str,
        nodes: Sequence[str],
        *,
        column: str = "",
        annotator: str | None = None,
        key: str | None = None,
        connection: Connection | None = None,
    ) -> LabelReceipt:
        """Remove the labels of some nodes; nodes without a label are skipped.

        Raises `GraphNotFound`, and `BadLabels` for a node longer than `MAX_NODE_BYTES`.
        """
        wanted = list(dict.fromkeys(_check_nodes(nodes).to_pylist()))
        with self._database.joined(connection) as joined:
            lock_graph(joined, graph_id)
            present = {row.node for row in labels_now(joined, graph_id, column, wanted)}
            labeled = [node for node in wanted if node in present]
            if not labeled:
                _require_column(joined, find_graph(joined, graph_id), column)
            return append_events(
                *(joined, graph_id, column, labeled, [None] * len(labeled)),
                annotator=annotator,
                key=key,
            )

    def change(
        self,
        graph_id: str,
        labels: Mapping[str, str | None],
        *,
        column: str = "",
        origin: LabelOrigin = "given",
        connection: Connection,
    ) -> LabelReceipt:
        """Put labels as of `label_text`, or remove them where None; unchanged ones are skipped.

        Raises `GraphNotFound`.
        """
        lock_graph(connection, graph_id)
        nodes = list(labels)
        rows = labels_now(connection, graph_id, column, nodes)
        present = {row.node: row.label for row in rows}
        changed = [node for node in nodes if labels[node] != present.get(node)]
        texts = [labels[each] for each in changed]
        return append_events(connection, graph_id, column, changed, texts, origin=origin)

    def columns(self, graph_id: str) -> list[str]:
        """Names of the columns that ever had labels, '' for the unnamed one."""
        with self._database.read() as connection:
            return column_names(connection, graph_id)

    def require_column(self, graph_id: str, column: str) -> None:
        """Raise `LabelColumnNotFound` for a named column that never had a label."""
        with self._database.read() as connection:
            _require_column(connection, find_graph(connection, graph_id), column)

    def described_columns(self, graph_id: str) -> list[LabelColumn]:
        """The columns that ever had labels, by name."""
        counts = {name: self.class_counts(graph_id, column=name) for name in self.columns(graph_id)}
        return [
            LabelColumn(name=name, n_labeled=sum(each.values()), n_labels=len(each))
            for name, each in counts.items()
        ]

    def current(
        self, graph_id: str, *, column: str = "", upto_seq: int | None = None
    ) -> CurrentLabels:
        """The label of every labeled node, now or as of an earlier event.

        Raises `GraphNotFound`, and `LabelColumnNotFound` for a named column that never had a label.
        """
        with self._database.read() as connection:
            graph = find_graph(connection, graph_id)
            labels_seq = graph.labels_seq
            if upto_seq is None or upto_seq >= labels_seq:
                rows = connection.execute(_present(graph_id, column)).all()
            else:
                rows = connection.execute(_as_of(graph_id, column, upto_seq)).all()
            if not rows:
                _require_column(connection, graph, column)
        values: dict[str, LabelValue] = {}
        for row in rows:
            if row.label not in values:
                values[row.label] = json.loads(row.label)
        return CurrentLabels(
            nodes=pa.array([row.node for row in rows], pa.large_string()),
            labels=[values[row.label] for row in rows],
            origins=pa.array([row.origin for row in rows], pa.string()),
            annotators=pa.array([row.annotator for row in rows], pa.string()),
            keys=pa.array([row.key for row in rows], pa.string()),
            labels_seq=labels_seq if upto_seq is None else min(upto_seq, labels_seq),
        )

    def are_text(
        self, graph_id: str, *, column: str = "", connection: Connection | None = None
    ) -> bool | None:
        """Whether the last present label is text, as then all are; None without any."""
        statement = (
            select(label_events.c.label)
            .where(*_of_column(graph_id, column), is_present())
            .order_by(label_events.c.seq.desc())
            .limit(1)
        )
        with self._database.read() if connection is None else nullcontext(connection) as joined:
            last = joined.execute(statement).scalar()
        return None if last is None else last.startswith('"')

    def typed(self, graph_id: str, text: str, *, column: str = "") -> LabelValue:
        """A typed label, in the type of the labels of the column.

        In a column without labels, text that reads as a whole number is one.
        """
        are_text = self.are_text(graph_id, column=column)
        if not are_text:
            for kind in (int,) if are_text is None else (int, float):
                try:
                    return kind(text)
                except ValueError:
                    continue
        return text

    def unlike(
        self,
        graph_id: str,
        connection: Connection,
        *,
        column: str = "",
        is_text: bool,
        besides: Collection[str],
    ) -> tuple[str, LabelValue] | None:
        """A node with a label of the other kind, number or text, and that label; else None.

        Reads the labels of all nodes; those of the nodes ``besides`` do not count.
        """
        begins_as_text = label_events.c.label.startswith('"')
        statement = _present(graph_id, column, ~begins_as_text if is_text else begins_as_text)
        for row in connection.execute(statement):
            if row.node not in besides:
                return row.node, json.loads(row.label)
        return None

    def of_nodes(
        self, graph_id: str, nodes: Sequence[str], *, column: str = ""
    ) -> dict[str, LabelValue]:
        """The labels of those of some nodes that have one, by node."""
        with self._database.read() as connection:
            rows = labels_now(connection, graph_id, column, nodes)
            return {row.node: json.loads(row.label) for row in rows}

    def page(
        self,
        graph_id: str,
        *,
        column: str = "",
        prefix: str = "",
        label: LabelValue | None = None,
        annotator: str = "",
        before_seq: int | None = None,
        limit: int = 50,
    ) -> Sequence[LabelEvent]:
        """Present labels, the last given first; filtered by start of the id, label and annotator.

        ``before_seq`` is the ``seq`` of the last entry of the page before.
        """
        rules = _page_rules(graph_id, column, prefix, annotator, before_seq)
        if label is not None:
            rules.append(label_events.c.label == label_text(0, label))
        return self._events(is_present(), *rules, limit=limit)

    def history(
        self,
        graph_id: str,
        *,
        column: str = "",
        node: str | None = None,
        prefix: str = "",
        annotator: str = "",
        before_seq: int | None = None,
        limit: int = 50,
    ) -> Sequence[LabelEvent]:
        """Label events, newest first; of one node, or filtered as in `page`."""
        rules = _page_rules(graph_id, column, prefix, annotator, before_seq)
        if node is not None:
            rules.append(label_events.c.node == node)
        return self._events(*rules, limit=limit)

    def _events(self, *rules: ColumnElement[bool], limit: int) -> Sequence[LabelEvent]:
        events = label_events.c
        statement = (
            select(
                events.seq,
                events.node,
                events.label,
                events.created_at,
                events.origin,
                events.annotator,
                events.key,
                events.by_majority,
            )
            .where(*rules)
            .order_by(events.seq.desc())
            .limit(limit)
        )
        with self._database.read() as connection:
            return [
                LabelEvent(
                    seq=row.seq,
                    node=row.node,
                    label=None if row.label is None else json.loads(row.label),
                    at=row.created_at,
                    origin=row.origin,
                    annotator=row.annotator,
                    key=row.key,
                    by_majority=row.by_majority,
                )
                for row in connection.execute(statement)
            ]

    def count_to_two(self, graph_id: str, *, column: str = "") -> int:
        """Number of different labels: 0, 1, or 2 for two or more."""
        with self._database.read() as connection:
            return count_to_two(connection, graph_id, column)

    def class_counts(self, graph_id: str, *, column: str = "") -> dict[LabelValue, int]:
        """Number of nodes of each label, most frequent first."""
        label, n_nodes = label_events.c.label, func.count().label("n_nodes")
        statement = select(label, n_nodes).where(*_of_column(graph_id, column), is_present())
        with self._database.read() as connection:
            rows = connection.execute(
                statement.group_by(label).order_by(n_nodes.desc(), label)
            ).all()
        counts: dict[LabelValue, int] = {}
        for row in rows:  # 3 and 3.0 are one number
            label = json.loads(row.label)
            counts[label] = counts.get(label, 0) + row.n_nodes
        return counts


def _require_column(connection: Connection, graph: Row[Any], column: str) -> None:
    if not column:
        return
    names = column_names(connection, graph.id)
    if column not in names:
        named = ", ".join(repr(name) for name in names if name) or "none with a name"
        raise LabelColumnNotFound(
            f"label_column must be one in which labels were given, got {column!r}; graph "
            f"{graph.name} has {named}"
        )


def _of_column(graph_id: str, column: str) -> tuple[ColumnElement[bool], ...]:
    events = label_events.c
    return events.graph_id == graph_id, events.column_name == column


def _present(graph_id: str, column: str, *rules: ColumnElement[bool]) -> Select[Any]:
    """The label events that hold now and obey some rules."""
    of_column = *_of_column(graph_id, column), is_present()
    columns = [label_events.c[name] for name in _SHOWN]
    return select(*columns).where(*of_column, *rules).order_by(label_events.c.seq)


def _as_of(graph_id: str, column: str, upto_seq: int) -> Select[Any]:
    """The last event of each node up to one, unless it is a removal.

    A window, since both planners read it in one pass over the index; joins with the maxima and "no
    later event" each took quadratic time on one of them.
    """
    events = label_events.c
    age = func.row_number().over(partition_by=events.node, order_by=events.seq.desc())
    ranked = (
        select(*(events[name] for name in _SHOWN), age.label("age"))
        .where(*_of_column(graph_id, column), events.seq <= upto_seq)
        .subquery()
        .c
    )
    return (
        select(*(ranked[name] for name in _SHOWN))
        .where(ranked.age == 1, ranked.label.is_not(None))
        .order_by(ranked.seq)
    )


def _page_rules(
    graph_id: str, column: str, prefix: str, annotator: str, before_seq: int | None
) -> list[ColumnElement[bool]]:
    events = label_events.c
    rules = [*_of_column(graph_id, column)]
    if prefix:
        rules.append(events.node.startswith(prefix, autoescape=True))
    if annotator:
        rules.append(events.annotator == annotator)
    if before_seq is not None:
        rules.append(events.seq < before_seq)
    return rules


def append_events(
    connection: Connection,
    graph_id: str,
    column: str,
    nodes: Sequence[str],
    labels: Sequence[str | None],
    *,
    origin: LabelOrigin | Sequence[LabelOrigin] = "given",
    annotator: str | Sequence[str | None] | None = None,
    key: str | None = None,
    by_majority: bool = False,
) -> LabelReceipt:
    """Number label events and store them; the lock of the graph's row orders numbers by commit.

    Ends reservations of these nodes, and withdraws opinions about removed labels.
    """
    present = lock_graph(connection, graph_id).labels_seq
    if not nodes:
        return LabelReceipt(labels_seq=present, accepted=0)
    last = connection.execute(
        update(graphs)
        .where(graphs.c.id == graph_id)
        .values(labels_seq=graphs.c.labels_seq + len(nodes))
        .returning(graphs.c.labels_seq)
    ).scalar_one()
    first = last - len(nodes) + 1
    insert_events(
        connection,
        graph_id,
        nodes,
        labels,
        first=first,
        column=column,
        origin=origin,
        annotator=annotator,
        key=key,
        by_majority=by_majority,
    )
    mark_superseded(connection, graph_id, column, nodes, first=first)
    give_back_labeled(connection, graph_id, column, first=first)
    if any(label is None for label in labels):
        withdraw_opinions(connection, graph_id, column, first=first)
    return LabelReceipt(labels_seq=last, accepted=len(nodes))


def _check_nodes(nodes: Sequence[str]) -> pa.LargeStringArray:
    for row, node in enumerate(nodes):
        if not isinstance(node, str):
            raise BadLabels("node must be a string", argument="node", row=row, value=node)
        is_short = len(node) <= MAX_NODE_BYTES and node.isascii() and "\0" not in node
        if not is_short and not _fits(node, MAX_NODE_BYTES):
            raise BadLabels(
                f"node must be Unicode text of at most {MAX_NODE_BYTES} bytes without NUL",
                argument="node",
                row=row,
                value=node,
            )
    return pa.array(nodes, pa.large_string())


def _unknown(names: pa.LargeStringArray, is_known: BoolArray) -> list[str]:
    """Each unknown node once, in the order of the batch."""
    unknown: list[str] = names.filter(pa.array(~is_known)).unique().to_pylist()
    return unknown


def _label_texts(labels: Sequence[LabelValue]) -> list[str]:
    """The labels as JSON scalars; equal labels are checked once."""
    texts: dict[tuple[type, LabelValue], str] = {}
    values = []
    for row, label in enumerate(labels):
        key = (type(label), label)  # 3 and 3.0 are equal but differ as labels
        try:
            text = texts.get(key)
        except TypeError:  # unhashable, such as a list: refused here
            text = None
        if text is None:
            text = texts[key] = label_text(row, label)
        values.append(text)
    return values


def label_text(row: int | None, label: object) -> str:
    """The label as a JSON scalar, which keeps 3, 3.0 and "3" apart; raises `BadLabels`."""
    if isinstance(label, str):
        if label and _fits(label, MAX_LABEL_BYTES):
            return json.dumps(label, ensure_ascii=False)
        raise BadLabels(
            f"label must have 1 to {MAX_LABEL_BYTES} bytes and no NUL",
            argument="label",
            row=row,
            value=label,
        )
    if not isinstance(label, bool) and isinstance(label, Integral):
        if -_INT64 <= int(label) < _INT64:
            return json.dumps(int(label))
        raise BadLabels("label must be a 64-bit integer", argument="label", row=row, value=label)
    if not isinstance(label, bool) and isinstance(label, Real):
        if math.isfinite(label):
            return json.dumps(float(label) + 0.0)  # no -0.0
        raise BadLabels("label must be a finite number", argument="label", row=row, value=label)
    raise BadLabels("label must be a string or a number", argument="label", row=row, value=label)


def _fits(text: str, max_bytes: int) -> bool:
    """Whether every database and Arrow can store the text, and it has at most so many bytes."""
    try:
        return len(text.encode()) <= max_bytes and "\0" not in text
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
