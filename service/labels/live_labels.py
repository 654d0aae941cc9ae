"""Labels of live sources: rows of a chunk become label events, in the position's transaction.

A row that breaks a rule is refused alone. The last row of a node in a chunk counts; a row that
changes nothing makes no event, so that only changes start ``auto_solve``. Labels of unknown nodes
are kept for the nodes to come.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
from sqlalchemy import Connection

from peewit.service.catalog import GraphRecord
from peewit.service.graphs.allowed_nodes import node_check, require_same_erasures
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.inbox.inbox_records import SourceRecord
from peewit.service.inbox.live_intakes import Taken
from peewit.service.inbox.source_columns import source_kinds
from peewit.service.jobs.auto_solve import request_auto_solve
from peewit.service.labels.store import LabelStore, label_text
from peewit.service.live_sources.chunk_rows import (
    ids_of,
    labels_of,
    operation_number,
    operations_of,
    places_of,
)
from peewit.service.live_sources.contract import Refused
from peewit.service.live_sources.node_columns import KEEP_WORD
from peewit.service.tables.uploads import BadUpload, NodeId, id_type
from peewit.service.tables.uploads.label_words import LabelWords
from peewit.service.tables.uploads.labels import is_whole, require_label
from peewit.streaming.edges.bad_table import BadTable
from peewit.streaming.edges.operations import DELETE


class _Row(NamedTuple):
    """A checked row; the label is a JSON scalar, or None to remove it."""

    node: str
    label: str | None
    place: str


class LabelIntake:
    """Stores and removes the labels of chunks."""

    most_rows: ClassVar[int] = 1 << 17

    def __init__(self, labels: LabelStore, nodes: KnownNodes) -> None:
        self._labels = labels
        self._nodes = nodes

    def has_room(self, _source: SourceRecord, /) -> bool:
        """True: labels never wait."""
        return True

    def take(
        self, source: SourceRecord, graph: GraphRecord, table: pa.Table, /, *, label: str
    ) -> Taken:
        """The checked rows of a chunk, ready to be stored."""
        places, kind = places_of(table, label), id_type(graph.settings.node_ids)
        words = LabelWords(keep_word=tuple((source.columns or {}).get(KEEP_WORD, "").split(",")))
        check = node_check(graph, self._nodes)
        (of_kind,) = source_kinds(graph.settings, source)
        rows, refused = _checked(table, places, ids_of(table, kind, of_kind), check, words)

        def store(connection: Connection) -> Sequence[Refused]:
            require_same_erasures(connection, graph)
            return self._store(connection, graph.id, source.label_column or "", rows)

        return Taken(store=store, refused=refused)

    def _store(
        self, connection: Connection, graph_id: str, column: str, rows: Sequence[_Row]
    ) -> Sequence[Refused]:
        stored, refused = self._of_one_kind(connection, graph_id, column, rows)
        last = {row.node: row.label for row in stored}
        receipt = self._labels.change(
            graph_id, last, column=column, origin="imported", connection=connection
        )
        if receipt.accepted:
            request_auto_solve(connection, graph_id, [column])
        return refused

    def _of_one_kind(
        self, connection: Connection, graph_id: str, column: str, rows: Sequence[_Row]
    ) -> tuple[Sequence[_Row], Sequence[Refused]]:
        """Rows that keep all labels of a column text or all numbers, and the refused others."""
        kinds = [row.label.startswith('"') for row in rows if row.label is not None]
        of_graph = self._labels.are_text(graph_id, column=column, connection=connection)
        if not kinds or set(kinds) == {of_graph}:
            return rows, ()
        is_text = kinds[0] if of_graph is None else of_graph
        if len(set(kinds)) == 1 and (
            of_graph is None
            or self._labels.unlike(
                graph_id,
                connection,
                column=column,
                is_text=kinds[0],
                besides=frozenset(row.node for row in rows),
            )
            is None  # the chunk replaces all of them
        ):
            return rows, ()
        owner = f"column {column!r}" if column else "a graph"
        wanted = "text" if is_text else "a number"
        rule = f"must be {wanted}, as the labels of {owner} are all text or all numbers"
        fitting, refused = [], []
        for row in rows:
            if row.label is None or row.label.startswith('"') == is_text:
                fitting.append(row)
            else:
                reason = f"label of node {row.node!r} {rule}, got {row.label}"
                refused.append(Refused(place=row.place, reason=reason))
        return fitting, refused


def _checked(
    table: pa.Table,
    places: Sequence[str],
    nodes: Sequence[Any],
    check: Callable[[object], NodeId],
    words: LabelWords,
) -> tuple[list[_Row], list[Refused]]:
    """Rows of a chunk that obey the rules, and the refused others with their places."""
    columns = nodes, labels_of(table), operations_of(table), places
    texts: dict[tuple[type, Any], str] = {}
    rows: list[_Row] = []
    refused: list[Refused] = []
    for node, label, op, place in zip(*columns, strict=True):
        try:
            name = str(check(node))
            is_delete = operation_number(op) == DELETE
            text = None if is_delete else _text(label, texts, words)
        except BadTable as error:
            refused.append(Refused(place=place, reason=str(error)))
        else:
            rows.append(_Row(name, text, place))
    return rows, refused


def _text(label: Any, known: dict[tuple[type, Any], str], words: LabelWords) -> str | None:
    """A label as stored; equal labels are checked once."""
    if label is None:
        return None
    if isinstance(label, float) and is_whole(label):
        label = int(label)
    if not isinstance(label, str | int | float):
        raise BadUpload("'label' must be text or a number", argument="label", value=label)
    key = type(label), label
    if key not in known:
        if words.mean_nothing(str(label)):
            raise BadUpload(
                "'label' must not be a word that means no label; say keep_word among the columns "
                "of the source to take it for one",
                argument="label",
                value=label,
            )
        require_label(label, None, "label")
        known[key] = label_text(None, label)
    return known[key]
