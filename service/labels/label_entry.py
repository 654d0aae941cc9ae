"""Entry of labels: checked against the nodes of the graph, stored together with the re-solve.

REST and the command line both use it, so that they refuse the same labels.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, BinaryIO, Final, Literal

import numpy as np
import orjson
import pyarrow as pa
from sqlalchemy import Connection, func, select

from peewit.service.catalog import GraphRecord, lock_graph
from peewit.service.database.engine import Database
from peewit.service.database.tables import label_events
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.jobs.auto_solve import request_auto_solve
from peewit.service.labels.opinions import Answers, OpinionStore
from peewit.service.labels.opinions_of_rows import rows_of_nodes
from peewit.service.labels.row_givers import RowGivers, row_givers
from peewit.service.labels.store import (
    MAX_LISTED,
    BadLabels,
    CurrentLabels,
    LabelReceipt,
    LabelStore,
    append_events,
    label_text,
)
from peewit.service.tables.formats import encode, json_integer
from peewit.service.tables.uploads import (
    LabelColumns,
    LabelValue,
    NodeId,
    UploadedLabels,
    UploadLimits,
    id_type,
    node_array,
    read_labels,
)
from peewit.service.tables.uploads.givers import Giver
from peewit.service.tables.uploads.label_columns import PLAIN_LABELS
from peewit.service.tables.uploads.label_words import label_note
from peewit.service.wire.labels import LabelOrigin
from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import BoolArray
from peewit.solvers.missing_words import MISSING_WORDS
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.table_formats import Format
from peewit.streaming.problems import Unprocessable

UnknownNodesRule = Literal["refuse", "keep"]
"""Whether a label of an unknown node refuses the batch, or is kept for the node to come."""

_ROWS_PER_BATCH: Final = 1 << 16


class LabeledMeanwhile(Exception):
    """Somebody else has labeled the node, or removed its label, since it was shown."""


class LabelsRefused(Unprocessable, BadArgument):
    """The graph does not know the nodes that ``receipt`` names; nothing was stored."""

    title = "Unknown nodes"

    def __init__(self, receipt: LabelReceipt) -> None:
        super().__init__(
            "node",
            f"must be known to the graph, got {receipt.n_refused} unknown, the first "
            f"{receipt.refused[0]!r}; bring their edges first, or put the labels with unknown=keep",
        )
        self.receipt = receipt

    @property
    def problem_members(self) -> dict[str, Any]:
        """What errors of the API and of commands hold besides the text."""
        return asdict(self.receipt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Labeling:
    """Stores and removes labels."""

    database: Database
    labels: LabelStore
    nodes: KnownNodes

    def read(
        self,
        graph: GraphRecord,
        file: BinaryIO,
        table_format: Format,
        columns: LabelColumns,
        *,
        limits: UploadLimits | None = None,
    ) -> dict[str, UploadedLabels]:
        """Labels of a table, as `read_labels`: those of CSV are text where the graph's are."""

        def text_classes(column: str) -> Collection[LabelValue]:
            if self.labels.are_text(graph.id, column=column) is not True:
                return ()
            return self.labels.class_counts(graph.id, column=column)

        return read_labels(
            *(file, table_format, graph.settings.node_ids, columns),
            limits=limits,
            text_classes=text_classes,
        )

    def put(
        self,
        graph: GraphRecord,
        given: Mapping[str, UploadedLabels],
        *,
        unknown: UnknownNodesRule = "refuse",
        origin: LabelOrigin = "given",
        annotator: str | None = None,
        key: str | None = None,
        after_seq: int | None = None,
    ) -> LabelReceipt:
        """Store labels and request the graph's ``auto_solve``, in one transaction.

        All labels of all columns are stored or none. ``origin`` holds for rows that do not say one.
        `LabeledMeanwhile` tells that one of the nodes has a later event than ``after_seq``, the
        last one that the giver has seen.
        """
        givers = {
            name: row_givers(rows, origin=origin, annotator=annotator)
            for name, rows in given.items()
        }
        are_known: dict[str, BoolArray] = {}
        # before the transaction: building the table of a large index takes seconds
        if unknown == "refuse":
            for name, rows in given.items():
                ids = node_array(rows.nodes, graph.settings.node_ids)
                are_known[name] = self.nodes.knows(graph, ids)
        else:
            for rows in given.values():
                self._require_no_words(graph, rows.nodes)
        with self.database.write() as connection:
            lock_graph(connection, graph.id)  # before present labels are read
            for name, rows in given.items():
                nodes = [str(node) for node in rows.nodes]
                if after_seq is not None:
                    _require_none_after(connection, graph.id, name, nodes, after_seq)
                self._require_one_kind(connection, graph.id, name, nodes, rows.labels)
            refusing = [name for name, known in are_known.items() if not np.all(known)]
            receipts = {}
            for name in refusing or given:
                is_split = given[name].are_opinions and not refusing
                put = self._put_opinions if is_split else self._put_labels
                receipts[name] = put(
                    *(connection, graph.id, name, given[name], givers[name]),
                    is_known=are_known.get(name),
                    key=key,
                )
            if accepting := [name for name, each in receipts.items() if each.accepted]:
                request_auto_solve(connection, graph.id, accepting)
        left_out = sum((Counter(rows.left_out) for rows in given.values()), Counter[str]())
        notes = list(dict.fromkeys(text for rows in given.values() for text in rows.told))
        notes += [self._note(graph.id, name, rows.labels) or "" for name, rows in given.items()]
        receipt = replace(
            joined_receipt(list(receipts.values())),
            left_out=dict(left_out),
            note="; ".join(filter(None, notes)) or None,
        )
        if receipt.n_refused:
            raise LabelsRefused(receipt)
        return receipt

    def _require_no_words(self, graph: GraphRecord, nodes: Sequence[NodeId]) -> None:
        """Refuse ids that are words for a missing value, of nodes that no edge has brought."""
        is_typed = graph.settings.node_ids == "typed"
        words = [
            node
            for node in nodes
            if isinstance(node, str)
            and (node.partition(":")[2] if is_typed else node).lower() in MISSING_WORDS
        ]
        is_known = self.nodes.knows(graph, node_array(words, graph.settings.node_ids))
        unknown = [node for node, known in zip(words, is_known, strict=True) if not known]
        if unknown:
            raise BadLabels(
                f"node must not be a word for a missing value, and {len(unknown):,} of the rows "
                "have one that is no node of the graph; take them out",
                argument="node",
                row=None,
                value=unknown[0],
            )

    def _note(self, graph_id: str, column: str, labels: Sequence[LabelValue]) -> str | None:
        """What is odd of the classes of a table, among themselves and beside those of the graph."""
        if len(labels) < 2 or not any(isinstance(name, str) for name in set(labels)):
            return None
        return label_note(labels, self.labels.class_counts(graph_id, column=column))

    def _put_labels(
        self,
        connection: Connection,
        graph_id: str,
        column: str,
        rows: UploadedLabels,
        givers: RowGivers,
        *,
        is_known: BoolArray | None,
        key: str | None,
    ) -> LabelReceipt:
        return self.labels.put(
            graph_id,
            [str(node) for node in rows.nodes],
            rows.labels,
            column=column,
            origin=givers.origin,
            annotator=givers.annotator,
            key=key,
            is_known=is_known,
            connection=connection,
        )

    def _put_opinions(
        self,
        connection: Connection,
        graph_id: str,
        column: str,
        rows: UploadedLabels,
        givers: RowGivers,
        *,
        is_known: BoolArray | None,  # all are, or nobody asked
        key: str | None,
    ) -> LabelReceipt:
        """Labels of the first row of each node, and opinions where there are several.

        Earlier opinions about these nodes are withdrawn; `rows_of_nodes` says who has given which.
        """
        del is_known
        names = [str(node) for node in rows.nodes]
        cells = [Giver()] * len(names) if rows.givers is None else rows.givers
        annotators = [
            givers.of(row)[1] if cell.annotator else None for row, cell in enumerate(cells)
        ]
        rows_by_node = rows_of_nodes(names, annotators)
        first_rows = [next(iter(of_node.items())) for of_node in rows_by_node.values()]
        labels = [rows.labels[row] for _, row in first_rows]
        origins = [givers.of(row)[0] for _, row in first_rows]
        receipt = self.labels.put(
            graph_id,
            list(rows_by_node),
            labels,
            column=column,
            origin=origins,
            annotator=[name or givers.of(row)[1] for name, row in first_rows],
            key=key,
            connection=connection,
        )
        first_seq = receipt.labels_seq - len(rows_by_node) + 1
        answers = {
            node: Answers(
                seq=seq, of_people={name: rows.labels[row] for name, row in of_node.items()}
            )
            for seq, (node, of_node) in enumerate(rows_by_node.items(), first_seq)
            if len(of_node) > 1
        }
        store = OpinionStore(self.database)
        store.replace(connection, graph_id, column, answers, seq=receipt.labels_seq, key=key)
        moved = {
            node: (label_text(None, each.standing), origin)
            for node, origin in zip(rows_by_node, origins, strict=True)
            if (each := answers.get(node)) and each.standing != next(iter(each.of_people.values()))
        }
        last = append_events(
            *(connection, graph_id, column, list(moved), [label for label, _ in moved.values()]),
            origin=[origin for _, origin in moved.values()],
            by_majority=True,
        )
        n_taken = sum(map(len, rows_by_node.values()))
        return replace(receipt, labels_seq=last.labels_seq, accepted=n_taken)

    def _require_one_kind(
        self,
        connection: Connection,
        graph_id: str,
        column: str,
        nodes: Sequence[str],
        labels: Sequence[LabelValue],
    ) -> None:
        """Refuse labels that would leave a column partly text and partly numbers."""
        are_text = [isinstance(label, str) for label in labels]
        of_graph = self.labels.are_text(graph_id, column=column, connection=connection)
        if len(set(are_text)) == 2:
            is_text = are_text[0] if of_graph is None else of_graph
            row, other_row = are_text.index(not is_text), are_text.index(is_text)
            other, its_label = nodes[other_row], labels[other_row]
        elif not labels or of_graph in {None, are_text[0]}:
            return
        else:
            row, is_text = 0, not are_text[0]
            unlike = self.labels.unlike(
                graph_id, connection, column=column, is_text=are_text[0], besides=frozenset(nodes)
            )
            if unlike is None:  # the batch replaces all of them
                return
            other, its_label = unlike
        owner = f"column {column!r}" if column else "a graph"
        raise BadLabels(
            f"label of node {nodes[row]!r} must be {'text' if is_text else 'a number'}: the labels "
            f"of {owner} are all text or all numbers, and node {other!r} has {its_label!r}",
            argument="label",
            row=row,
            value=labels[row],
        )

    def delete(
        self,
        graph: GraphRecord,
        nodes: Sequence[NodeId],
        *,
        column: str = "",
        annotator: str | None = None,
        key: str | None = None,
    ) -> LabelReceipt:
        """Remove labels of a column and request ``auto_solve``, in one transaction."""
        with self.database.write() as connection:
            receipt = self.labels.delete(
                graph.id,
                [str(node) for node in nodes],
                column=column,
                annotator=annotator,
                key=key,
                connection=connection,
            )
            if receipt.accepted:
                request_auto_solve(connection, graph.id, [column])
        return receipt


def _require_none_after(
    connection: Connection, graph_id: str, column: str, nodes: Sequence[str], seq: int
) -> None:
    """Raise `LabeledMeanwhile` where some nodes have a label event after ``seq``."""
    last = connection.execute(
        select(func.max(label_events.c.seq)).where(
            label_events.c.graph_id == graph_id,
            label_events.c.column_name == column,
            label_events.c.node.in_(nodes),
        )
    ).scalar_one()
    if last is not None and last > seq:
        raise LabeledMeanwhile


def joined_receipt(receipts: Sequence[LabelReceipt]) -> LabelReceipt:
    """One receipt for several columns; a node refused in several columns counts once.

    Of nodes beyond the listed ones, the largest number of any column stands for all.
    """
    refused = tuple(dict.fromkeys(node for each in receipts for node in each.refused))
    return LabelReceipt(
        labels_seq=max(each.labels_seq for each in receipts),
        accepted=sum(each.accepted for each in receipts),
        refused=refused[:MAX_LISTED],
        n_refused=max(len(refused), *(each.n_refused for each in receipts)),
    )


def encode_labels(
    current: CurrentLabels,
    node_kind: NodeKind,
    table_format: Format,
    columns: LabelColumns = PLAIN_LABELS,
) -> Iterator[bytes]:
    """A table of nodes, labels, ``origin``, ``annotator`` and ``key``, ready to be put again.

    Labels are int64 where all are whole numbers, float64 where all are numbers, else strings;
    NDJSON keeps each as it was given. A node or label column of one of these names takes the place
    of that column. A key is that of whoever puts: that of a row says nothing.
    """
    nodes = current.nodes.cast(id_type(node_kind))
    if all(isinstance(label, int) for label in current.labels):
        labels = pa.array(current.labels, pa.int64())
    elif table_format is Format.NDJSON:
        return _json_lines(nodes, current, columns)
    elif all(isinstance(label, int | float) for label in current.labels):
        labels = pa.array([float(label) for label in current.labels], pa.float64())
    else:
        labels = pa.array([str(label) for label in current.labels], pa.string())
    values = {columns.node: nodes, columns.label: labels}
    values.setdefault("origin", current.origins)
    values.setdefault("annotator", current.annotators)
    values.setdefault("key", current.keys)
    table = pa.table(values)
    return encode(table.schema, table.to_batches(_ROWS_PER_BATCH), table_format)


def _json_lines(nodes: pa.Array, current: CurrentLabels, columns: LabelColumns) -> Iterator[bytes]:
    givers = (each.to_pylist() for each in (current.origins, current.annotators, current.keys))
    rows = zip(nodes.to_pylist(), current.labels, *givers, strict=True)
    for node, label, origin, annotator, key in rows:
        shown = json_integer(node) if isinstance(node, int) else node
        row = {columns.node: shown, columns.label: label}
        row.setdefault("origin", origin)
        row.setdefault("annotator", annotator)
        row.setdefault("key", key)
        yield orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
