"""Labels that are put and taken back."""

from collections.abc import Mapping, Sequence
from typing import Literal

from peewit.service.client.call_steps import Call, Request
from peewit.service.client.calls.common import path, read
from peewit.service.client.tables import Labels, by_node, labels_body
from peewit.service.wire.labels import LabelOrigin, LabelReceipt
from peewit.service.wire.predictions import NodeId
from peewit.streaming.edges.reading_options import Contradictions, NodelessRows, Quote

_NODES_PER_REQUEST = 200
"""They stand in the address, whose length servers bound."""


def put_labels(
    graph: str,
    labels: Labels,
    *,
    unknown: Literal["refuse", "keep"] = "refuse",
    node: str | None = None,
    label: str | None = None,
    label_columns: Sequence[str] = (),
    origin: LabelOrigin | None = None,
    annotator: str | None = None,
    no_label: str | Sequence[str] | None = None,
    keep_word: str | Sequence[str] | None = None,
    missing_ids: NodelessRows | None = None,
    contradictions: Contradictions | None = None,
    time_column: str | None = None,
    origin_column: str | None = None,
    annotator_column: str | None = None,
    quote: Quote | None = None,
) -> Call[LabelReceipt]:
    """Put labels; the latest of a node holds, and all are durable before this returns.

    Parameters
    ----------
    graph : str
        Its name.
    labels : mapping, Series or TableLike
        Label by node, as a mapping or a Series whose index has the nodes; or a table or file with
        a column of nodes and one of labels. Of several ``label_columns`` labels by column, by node.
    unknown : {"refuse", "keep"}
        What becomes of labels of nodes that the graph does not know: all labels of the call are
        refused, or theirs take effect when the node arrives.
    node, label : str, optional
        What the columns of a table are called; as the graph says when left out, else ``node`` and
        ``label``.
    label_columns : sequence of str
        Names of the columns of labels to put, each a column of the table; those of all are stored,
        or none. Cells without a value say nothing.
    origin : {"given", "random", "suggested", "imported"}, optional
        Where the labels come from: nodes were chosen by somebody, drawn at random, or suggested, in
        which case answers are not judged by them; or the labels came in a file. When left out, a
        mapping is given, and of a table each row's ``origin`` counts, or else it is imported.
    annotator : str, optional
        Who has given them; when left out each row's ``annotator`` of a table, or else the name of
        the key.
    no_label, keep_word : str or sequence of str, optional
        Further words that mean no label, '' for a missing one; and such words that are labels.
    missing_ids : {"refuse", "leave-out"}
        What becomes of rows that name no node: the table is refused, or they are left out and
        counted.
    contradictions : {"refuse", "last", "leave-out", "opinions"}
        What becomes of a node with different labels in the table: it is refused, the last row
        holds, or the node is left out, or its rows are opinions of
        several people.
    time_column, origin_column, annotator_column : str, optional
        Columns of the time, by which the last row is the latest, of the origin and of the annotator
        of each row; as the graph says when left out, else ``time``, ``origin`` and ``annotator``,
        and none where they are ''.
    quote : {"double", "none"}, optional
        Whether a double quote before a field of CSV quotes it; looked at when left out.

    Returns
    -------
    LabelReceipt

    Raises
    ------
    UnknownNodes
        Some nodes are unknown, and ``unknown`` is ``refuse``.
    InvalidArgument
        A row breaks a rule.
    """
    labels = by_node(labels)
    if isinstance(labels, Mapping):
        node, label = "node", None if label_columns else "label"
        origin = origin or "given"  # it travels as a table
    request = Request(
        method="PUT",
        path=path("graphs", graph, "labels"),
        params={
            "unknown": unknown,
            "node": node,
            "label": label,
            "label_column": list(label_columns) or None,
            "origin": origin,
            "annotator": annotator,
            "no_label": no_label,
            "keep_word": keep_word,
            "missing_ids": missing_ids,
            "contradictions": contradictions,
            "time_column": time_column,
            "origin_column": origin_column,
            "annotator_column": annotator_column,
            "quote": quote,
        },
        body=labels_body(labels, label_columns),
        is_repeatable=True,
    )
    return (yield from read(LabelReceipt, request))


def delete_labels(
    graph: str, nodes: Sequence[NodeId], *, label_column: str | None = None
) -> Call[int]:
    """Take labels back, of a named column or of the one without a name; how many nodes had one.

    Nodes go in several requests where they are many: those before one that fails stay taken back.
    """
    n_taken = 0
    for first in range(0, len(nodes), _NODES_PER_REQUEST):
        request = Request(
            method="DELETE",
            path=path("graphs", graph, "labels"),
            params={
                "node": [str(node) for node in nodes[first : first + _NODES_PER_REQUEST]],
                "label_column": label_column,
            },
            is_repeatable=True,
        )
        n_taken += (yield from read(LabelReceipt, request)).accepted
    return n_taken
