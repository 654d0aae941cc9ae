"""Second opinions: answers about nodes that have a label, and decisions between them.

Context: people who label the same nodes independently show how far labels can be trusted. Decision:
an answer about a node that somebody else has labeled is kept beside that label, and
`peewit.service.labels.opinions` says which label stands. Consequence: the label that models use
changes only by that rule or by a decision, each of which is a label event like any other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy import Connection

from peewit.service.catalog import GraphRecord, lock_graph
from peewit.service.database.engine import Database
from peewit.service.jobs.auto_solve import request_auto_solve
from peewit.service.labels.event_rows import end_reservation
from peewit.service.labels.label_entry import Labeling
from peewit.service.labels.opinions import LabelNow, Opinion, OpinionStore, is_decided, standing
from peewit.service.labels.store import BadLabels, LabelReceipt, append_events, label_text
from peewit.service.tables.uploads import LabelValue, NodeId, UploadedLabels
from peewit.solvers.arguments import BadArgument
from peewit.streaming.problems import Conflict


class NoFirstOpinion(Conflict, ValueError):
    """The node has no label of somebody else to give a second opinion about."""

    title = "No first opinion"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondOpinions:
    """Takes answers, withdraws them, and decides between them."""

    database: Database
    labeling: Labeling
    store: OpinionStore

    def answer(
        self,
        graph: GraphRecord,
        given: UploadedLabels,
        *,
        annotator: str | None,
        key: str | None = None,
        column: str = "",
    ) -> LabelReceipt:
        """Store answers about nodes that other people have labeled: all of them, or none.

        Raises BadArgument without an annotator, `NoFirstOpinion` where a node has no label or only
        theirs, `BadLabels` for an invalid label or a number among text, and `GraphNotFound`.
        """
        who, names = _required(annotator), [str(node) for node in given.nodes]
        for row, label in enumerate(given.labels):
            label_text(row, label)
        with self.database.write() as connection:
            lock_graph(connection, graph.id)
            self._require_same_kind(connection, graph.id, column, names, given.labels)
            for name, label in zip(names, given.labels, strict=True):
                self._answer_one(connection, graph.id, column, name, label, who, key)
            seq = lock_graph(connection, graph.id).labels_seq
        return LabelReceipt(labels_seq=seq, accepted=len(names))

    def take_back(
        self,
        graph: GraphRecord,
        node: NodeId,
        *,
        annotator: str | None,
        key: str | None = None,
        column: str = "",
    ) -> LabelReceipt:
        """Withdraw an annotator's answer; the label that stands is that of the others.

        Raises `NoFirstOpinion` where they have no answer that counts.
        """
        who, name = _required(annotator), str(node)
        with self.database.write() as connection:
            lock_graph(connection, graph.id)
            present = self.store.label_now(connection, graph.id, name, column)
            is_gone = self.store.withdraw(connection, graph.id, name, who, column)
            if present is None or not is_gone:
                raise NoFirstOpinion(f"{who!r} must have given a second opinion of node {name!r}")
            self._apply_majority(connection, graph.id, column, present, who, key)
            seq = lock_graph(connection, graph.id).labels_seq
        return LabelReceipt(labels_seq=seq, accepted=1)

    def decide(
        self,
        graph: GraphRecord,
        node: NodeId,
        label: LabelValue,
        *,
        annotator: str | None,
        key: str | None = None,
        column: str = "",
    ) -> LabelReceipt:
        """Put the label that stands of a node with several opinions.

        Its origin is that of the label before: a random node stays one. Raises `NoFirstOpinion`
        where there are not several opinions, and `BadLabels` for an invalid label or a number among
        text.
        """
        name, text = str(node), label_text(None, label)
        with self.database.write() as connection:
            lock_graph(connection, graph.id)
            present = self.store.label_now(connection, graph.id, name, column)
            if present is None or len(self._answers(connection, graph.id, name, column)) < 2:
                raise NoFirstOpinion(
                    f"node {name!r} must have several opinions to be decided about; put a label"
                )
            self._require_same_kind(connection, graph.id, column, [name], [label])
            receipt = append_events(
                *(connection, graph.id, column, [name], [text]),
                origin=present.origin,
                annotator=annotator,
                key=key,
            )
            request_auto_solve(connection, graph.id, [column])
        return receipt

    def _require_same_kind(
        self,
        connection: Connection,
        graph_id: str,
        column: str,
        nodes: Sequence[str],
        labels: Sequence[LabelValue],
    ) -> None:
        """Refuse text where labels are numbers, and numbers where they are text."""
        are_text = self.labeling.labels.are_text(graph_id, column=column, connection=connection)
        for row, (node, label) in enumerate(zip(nodes, labels, strict=True)):
            if are_text is not None and isinstance(label, str) != are_text:
                raise BadLabels(
                    f"label of node {node!r} must be {'text' if are_text else 'a number'}, as the "
                    "others are",
                    argument="label",
                    row=row,
                    value=label,
                )

    def _answers(
        self, connection: Connection, graph_id: str, node: str, column: str
    ) -> list[Opinion]:
        history = self.store.of_node(connection, graph_id, node, column)
        return [each for each in history if each.withdrawn_at is None]

    def _answer_one(
        self,
        connection: Connection,
        graph_id: str,
        column: str,
        node: str,
        label: LabelValue,
        annotator: str,
        key: str | None,
    ) -> None:
        present = self.store.label_now(connection, graph_id, node, column)
        if present is None:
            raise NoFirstOpinion(f"node {node!r} must have a label for a second opinion of it")
        history = self.store.of_node(connection, graph_id, node, column)
        answers = [each for each in history if each.withdrawn_at is None]
        first_of = answers[0].annotator if answers else present.annotator
        if first_of == annotator:
            raise NoFirstOpinion(
                f"the label of node {node!r} must come from somebody else than "
                f"{annotator!r} to have a second opinion; put another label to change your "
                "own"
            )
        add = partial(self.store.add, connection, graph_id, node, column=column)
        end_reservation(connection, graph_id, column, node)
        if any(each.annotator == annotator and each.label == label for each in answers):
            return  # a repeated request
        number = len(history) + 1
        if not answers:
            add(
                present.label,
                number=number,
                annotator=present.annotator,
                key=present.key,
                seq=present.seq,
                first_at=present.at,
            )
            number += 1
        self.store.withdraw(connection, graph_id, node, annotator, column)
        seq = lock_graph(connection, graph_id).labels_seq
        add(label, number=number, annotator=annotator, key=key, seq=seq)
        self._apply_majority(connection, graph_id, column, present, annotator, key)

    def _apply_majority(
        self,
        connection: Connection,
        graph_id: str,
        column: str,
        present: LabelNow,
        annotator: str,
        key: str | None,
    ) -> None:
        """Append a label event where the rule names another label than the present one."""
        if is_decided(present, self.store.first_seq(connection, graph_id, present.node, column)):
            return
        answers = self._answers(connection, graph_id, present.node, column)
        stands = standing(each.label for each in answers)
        if stands is None or stands == present.label:
            return
        append_events(
            *(connection, graph_id, column, [present.node], [label_text(None, stands)]),
            origin=present.origin,
            annotator=annotator,
            key=key,
            by_majority=True,
        )
        request_auto_solve(connection, graph_id, [column])


def _required(annotator: str | None) -> str:
    if annotator is None:
        raise BadArgument(
            "annotator", "must have a name to give a second opinion; call with a key, or name one"
        )
    return annotator
