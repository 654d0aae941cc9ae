"""Opinions: what several people say of one node, beside the label that stands.

The label that stands is that of the last label event; models use it, and the history keeps the
others. Where people disagree, a rule decides which it is:

- the first label stands until more people have given another one than have given it, counted in the
  order of their answers (`standing`); the label event that follows says ``by_majority``;
- a label that somebody puts directly stands at once and decides: answers change nothing after it.

An opinion never changes. A person who answers again, or takes an answer back, withdraws the one
before; removing a label withdraws all opinions about it.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from itertools import groupby
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    delete,
    func,
    literal_column,
    select,
    update,
)

from peewit.service.catalog import lock_graph
from peewit.service.database.engine import Database
from peewit.service.database.present_labels import is_present, labels_now
from peewit.service.database.tables import label_events, opinions, reservations
from peewit.service.database.timestamps import now
from peewit.service.labels.store import label_text
from peewit.service.tables.uploads import LabelValue
from peewit.service.wire.labels import LabelOrigin
from peewit.solvers.arguments import BadArgument

_NODES_PER_QUERY: Final = 1_000
_WIDTH: Final = 2.0**64


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """What one person has said of a node; times are those of the database's clock, in UTC."""

    node: str
    number: int  # 1 for the first opinion about the node, and so on
    annotator: str | None  # None where unknown, as of an unsigned first label
    key: str | None  # name of the key that signed so; None without one
    label: LabelValue
    at: datetime
    withdrawn_at: datetime | None  # None while it counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """A node that people have labeled differently, undecided."""

    node: str
    label: LabelValue  # the one that stands
    origin: LabelOrigin
    opinions: tuple[Opinion, ...]  # those that count, in the order of answers


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelNow:
    """The label event that stands for a node."""

    node: str
    seq: int
    label: LabelValue
    origin: LabelOrigin
    annotator: str | None
    key: str | None
    at: datetime
    by_majority: bool


def standing(answers: Iterable[LabelValue]) -> LabelValue | None:
    """The label that stands after some answers, given in order; None without any.

    The first one stands until more people have given another one than have given it.
    """
    counts: Counter[LabelValue] = Counter()
    stands: LabelValue | None = None
    for label in answers:
        counts[label] += 1
        if stands is None or counts[label] > counts[stands]:
            stands = label
    return stands


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What several people say of a node whose label event ``seq`` has the first of it."""

    seq: int
    of_people: Mapping[str | None, LabelValue]  # in the order of answers

    @property
    def standing(self) -> LabelValue | None:
        """The label that stands after all of them."""
        return standing(self.of_people.values())


def random_part(node: str, *, seed: int, column: str = "") -> float:
    """A pseudo-random number in [0, 1) for a node, the same at every call.

    Nodes below a share are a random sample of that size of any set of nodes chosen independently.
    """
    text = json.dumps([seed, column, node], ensure_ascii=True).encode()
    digest = blake2b(text, digest_size=8, person=b"second opinions").digest()
    return int.from_bytes(digest) / _WIDTH


class OpinionStore:
    """Opinions of all graphs; writes join the caller's transaction, which locks the graph."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def label_now(
        self, connection: Connection, graph_id: str, node: str, column: str
    ) -> LabelNow | None:
        """The label that stands; None without one."""
        labels = _labels_now(connection, graph_id, [node], column)
        return labels.get(node)

    def of_node(
        self, connection: Connection, graph_id: str, node: str, column: str
    ) -> list[Opinion]:
        """The opinions about a node, withdrawn ones too, in the order of answers."""
        statement = _opinions(graph_id, column).where(opinions.c.node == node)
        return [_opinion(row) for row in connection.execute(statement)]

    def first_seq(self, connection: Connection, graph_id: str, node: str, column: str) -> int:
        """Number of the label event that holds the first opinion that counts."""
        statement = select(opinions.c.seq).where(
            *_of(graph_id, column),
            opinions.c.node == node,
            opinions.c.withdrawn_at.is_(None),
            opinions.c.is_first,
        )
        seq: int = connection.execute(statement).scalar_one()
        return seq

    def add(
        self,
        connection: Connection,
        graph_id: str,
        node: str,
        label: LabelValue,
        *,
        column: str,
        number: int,
        annotator: str | None,
        key: str | None,
        seq: int,
        first_at: datetime | None = None,
    ) -> None:
        """Store an opinion; with ``first_at``, that of label event ``seq``, given at that time."""
        row: dict[str, Any] = {
            "graph_id": graph_id,
            "column_name": column,
            "node": node,
            "number": number,
            "annotator": annotator,
            "key": key,
            "label": label_text(None, label),
            "seq": seq,
        }
        if first_at is not None:
            row |= {"is_first": True, "created_at": first_at}
        connection.execute(opinions.insert().values(**row))

    def replace(
        self,
        connection: Connection,
        graph_id: str,
        column: str,
        answers: Mapping[str, Answers],
        *,
        seq: int,
        key: str | None,
    ) -> None:
        """Store answers of several people at once, in place of those that there are.

        ``seq`` is the last label event, ``key`` the name of the key that brings them.
        """
        nodes, at = list(answers), now()
        for start in range(0, len(nodes), _NODES_PER_QUERY):
            some = nodes[start : start + _NODES_PER_QUERY]
            theirs = *_of(graph_id, column), opinions.c.node.in_(some)
            numbers = select(opinions.c.node, func.max(opinions.c.number)).where(*theirs)
            counted = connection.execute(numbers.group_by(opinions.c.node))
            last: dict[str, int] = {node: number for node, number in counted}  # noqa: C416 - typed
            counting = update(opinions).where(*theirs, opinions.c.withdrawn_at.is_(None))
            connection.execute(counting.values(withdrawn_at=at))
            rows = [
                {
                    "graph_id": graph_id,
                    "column_name": column,
                    "node": node,
                    "number": last.get(node, 0) + number,
                    "annotator": annotator,
                    "key": key,
                    "label": label_text(None, label),
                    "seq": answers[node].seq if number == 1 else seq,
                    "is_first": number == 1,
                }
                for node in some
                for number, (annotator, label) in enumerate(answers[node].of_people.items(), 1)
            ]
            if rows:
                connection.execute(opinions.insert(), rows)

    def withdraw(
        self, connection: Connection, graph_id: str, node: str, annotator: str, column: str
    ) -> bool:
        """Withdraw an annotator's opinion; whether there was one."""
        mine = opinions.c.node == node, opinions.c.annotator == annotator
        gone = (
            update(opinions)
            .where(*_of(graph_id, column), *mine)
            .where(opinions.c.withdrawn_at.is_(None), ~opinions.c.is_first)
            .values(withdrawn_at=now())
            .returning(opinions.c.number)
        )
        return connection.execute(gone).first() is not None

    def all(self, graph_id: str, *, column: str = "", withdrawn: bool = False) -> list[Opinion]:
        """All opinions of a column by node; withdrawn ones only if asked for."""
        statement = _opinions(graph_id, column)
        if not withdrawn:
            statement = statement.where(opinions.c.withdrawn_at.is_(None))
        with self._database.read() as connection:
            return [_opinion(row) for row in connection.execute(statement)]

    def last_seq(self, graph_id: str, annotator: str, *, column: str = "") -> int | None:
        """Number of label events when an annotator last gave an opinion; None before the first."""
        mine = opinions.c.annotator == annotator, ~opinions.c.is_first
        statement = select(func.max(opinions.c.seq)).where(*_of(graph_id, column), *mine)
        with self._database.read() as connection:
            return connection.execute(statement).scalar()

    def awaiting(self, graph_id: str, annotator: str, *, column: str = "") -> list[str]:
        """Nodes that others labeled by hand and this annotator has not answered, by event.

        Imported labels and labels without an annotator do not count as labeled by others.
        """
        events, mine = label_events.c, opinions.alias("mine").c
        has_answered = (
            select(mine.number)
            .where(mine.graph_id == events.graph_id, mine.column_name == events.column_name)
            .where(mine.node == events.node, mine.annotator == annotator)
            .where(mine.withdrawn_at.is_(None))
            .exists()
        )
        statement = (
            select(events.node)
            .where(events.graph_id == graph_id, events.column_name == column)
            # must match the partial index to use it
            .where(literal_column("annotator IS NOT NULL AND origin <> 'imported'"))
            .where(events.annotator != annotator, ~has_answered, is_present())
            .order_by(events.seq)
        )
        with self._database.read() as connection:
            return list(connection.execute(statement).scalars())

    def unanswered(
        self, graph_id: str, nodes: Sequence[str], annotator: str, *, column: str = ""
    ) -> list[str]:
        """Those of some nodes that somebody else labeled and this annotator has not answered."""
        nodes_left: list[str] = []
        with self._database.read() as connection:
            for start in range(0, len(nodes), _NODES_PER_QUERY):
                some = nodes[start : start + _NODES_PER_QUERY]
                labels = _labels_now(connection, graph_id, some, column)
                answered = set(
                    connection.execute(
                        select(opinions.c.node)
                        .where(*_of(graph_id, column), opinions.c.node.in_(some))
                        .where(opinions.c.annotator == annotator)
                        .where(opinions.c.withdrawn_at.is_(None))
                    ).scalars()
                )
                nodes_left += [
                    node
                    for node in some
                    if node not in answered
                    and node in labels
                    and labels[node].annotator != annotator
                ]
        return nodes_left

    def rename(self, graph_id: str, present: str, wanted: str) -> int:
        """Rename an annotator in a graph, and a key of that name in its rows; how many are theirs.

        Their reservations end, as they are held under the old name. Raises BadArgument where nobody
        has the old name, or somebody else has the new one, since two people would become one.
        """
        tables = (label_events, opinions)
        with self._database.write() as connection:
            lock_graph(connection, graph_id)
            for name, is_wanted in ((present, True), (wanted, False)):
                counts = [
                    connection.execute(
                        select(table.c.node)
                        .where(table.c.graph_id == graph_id, table.c.annotator == name)
                        .limit(1)
                    ).first()
                    for table in tables
                ]
                if any(each is not None for each in counts) != is_wanted:
                    rule = "must be that of somebody" if is_wanted else "must be nobody's yet"
                    raise BadArgument("annotator", f"{rule} in the graph, got {name!r}")
            connection.execute(delete(reservations).where(reservations.c.graph_id == graph_id))
            n_changed = 0
            for table in tables:
                mine = update(table).where(table.c.graph_id == graph_id)
                connection.execute(mine.where(table.c.key == present).values(key=wanted))
                renamed = mine.where(table.c.annotator == present).values(annotator=wanted)
                n_changed += connection.execute(renamed).rowcount
            return n_changed

    def disagreements(self, graph_id: str, *, column: str = "") -> list[Disagreement]:
        """Nodes with different answers and no decision, the last answered first."""
        differing = (
            select(opinions.c.node)
            .where(*_of(graph_id, column), opinions.c.withdrawn_at.is_(None))
            .group_by(opinions.c.node)
            .having(func.count(opinions.c.label.distinct()) > 1)
        )
        statement = _opinions(graph_id, column).where(
            opinions.c.withdrawn_at.is_(None), opinions.c.node.in_(differing)
        )
        disagreements: list[tuple[datetime, Disagreement]] = []
        with self._database.read() as connection:
            rows = [
                (_opinion(row), row.seq if row.is_first else 0)
                for row in connection.execute(statement)
            ]
            labels = _labels_now(
                connection, graph_id, list({each.node for each, _ in rows}), column
            )
            for node, group in groupby(rows, key=lambda each: each[0].node):
                of_node = list(group)
                answers = tuple(each for each, _ in of_node)
                first_seq = max(seq for _, seq in of_node)
                present = labels.get(node)
                if present is None or is_decided(present, first_seq):
                    continue
                if len({each.label for each in answers}) > 1:  # 3 and 3.0 are one number
                    disagreements.append(
                        (
                            answers[-1].at,
                            Disagreement(
                                node=node,
                                label=present.label,
                                origin=present.origin,
                                opinions=answers,
                            ),
                        )
                    )
        return [each for _, each in sorted(disagreements, key=lambda pair: pair[0], reverse=True)]


def is_decided(present: LabelNow, first_seq: int) -> bool:
    """Whether somebody has put a label directly since the first opinion."""
    return present.seq > first_seq and not present.by_majority


def _of(graph_id: str, column: str) -> tuple[ColumnElement[bool], ...]:
    return opinions.c.graph_id == graph_id, opinions.c.column_name == column


def _opinions(graph_id: str, column: str) -> Select[Any]:
    return (
        select(opinions).where(*_of(graph_id, column)).order_by(opinions.c.node, opinions.c.number)
    )


def _opinion(row: Row[Any]) -> Opinion:
    return Opinion(
        node=row.node,
        number=row.number,
        annotator=row.annotator,
        key=row.key,
        label=json.loads(row.label),
        at=row.created_at,
        withdrawn_at=row.withdrawn_at,
    )


def _labels_now(
    connection: Connection, graph_id: str, nodes: Collection[str], column: str
) -> dict[str, LabelNow]:
    """Labels of some nodes that stand now."""
    return {
        row.node: LabelNow(
            node=row.node,
            seq=row.seq,
            label=json.loads(row.label),
            origin=row.origin,
            annotator=row.annotator,
            key=row.key,
            at=row.created_at,
            by_majority=row.by_majority,
        )
        for row in labels_now(connection, graph_id, column, list(nodes))
    }
