"""Predictions: whole tables, files, single nodes, new points."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import httpx
import pyarrow as pa

from peewit.service.client.call_steps import Call, Flow, Item, Request
from peewit.service.client.calls.common import get, path, read
from peewit.service.client.calls.downloads import batches_of, download, table_of
from peewit.service.client.calls.graphs import snapshots
from peewit.service.client.calls.snapshots import snapshot_edges
from peewit.service.client.errors import NotYet
from peewit.service.client.further_answers import Predictions, Refusal, Sparsifier
from peewit.service.client.tables import Labels, TableLike, by_node, labels_body, plain, points_body
from peewit.service.wire.evaluations import PredictionEvaluation
from peewit.service.wire.labels import Label
from peewit.service.wire.predictions import Lookup, NodeId, NodePrediction
from peewit.streaming.edges.reading_options import NodelessRows, Quote

_NODES_PER_REQUEST = 10_000
"""As many as the server takes in one lookup."""


def predictions(
    graph: str,
    *,
    model: str | None = None,
    job: str | None = None,
    label_column: str | None = None,
    positive: Label | None = None,
    threshold: float | None = None,
    coverage: float | None = None,
    sort: str | None = None,
    reverse: bool = False,
    top: int | None = None,
    unlabeled: bool = False,
    unproven: bool = False,
) -> Call[Predictions]:
    """All predictions in memory, with where they come from; the freshest unless a job is named.

    Parameters
    ----------
    graph : str
        Its name.
    model : str, optional
        Its latest predictions; of any model otherwise.
    job : str, optional
        Those of this job.
    label_column : str, optional
        Those of a named column of labels; of the one without a name otherwise.
    positive, threshold : optional
        A node is of this class where its score of it is at least the threshold, else of the best of
        the others; see `threshold`.
    coverage : float, optional
        Add columns ``labels`` and ``certain``; see `sets`.
    sort : str, optional
        Order of the rows, by a column; the least certain nodes first by ``margin``, the largest by
        ``score`` and ``score:CLASS``.
    reverse : bool
        The opposite.
    top : int, optional
        Only so many rows.
    unlabeled : bool
        Only nodes that carry no label.
    unproven : bool
        Only labels that are not proven to be those of all edges, of a solve with ``prove``.

    Returns
    -------
    Predictions

    Raises
    ------
    PredictionsNotFound
        Nothing has been predicted yet, or not by this model.
    """
    request = _all_of(
        graph,
        model=model,
        job=job,
        label_column=label_column,
        positive=positive,
        threshold=threshold,
        coverage=coverage,
        sort=sort,
        reverse=reverse,
        top=top,
        unlabeled=unlabeled,
        unproven=unproven,
    )
    return _predictions(*(yield from table_of(request)))


def _all_of(graph: str, **parameters: Any) -> Request:
    """What asks for all predictions; a flag that is not set is not said."""
    said = {name: None if each is False else each for name, each in parameters.items()}
    return get("graphs", graph, "predictions", **said)


def predictions_if_changed(
    graph: str,
    etag: str,
    *,
    model: str | None = None,
    job: str | None = None,
    label_column: str | None = None,
) -> Call[Predictions | None]:
    """The same, or None while they are those that had this `Predictions.etag`."""
    request = get("graphs", graph, "predictions", model=model, job=job, label_column=label_column)
    table, headers = yield from table_of(replace(request, headers={"If-None-Match": etag}))
    return None if table is None else _predictions(table, headers)


def stream_predictions(
    graph: str, *, model: str | None = None, job: str | None = None, label_column: str | None = None
) -> Flow[pa.RecordBatch]:
    """All predictions, a batch at a time; no more than one is held.

    The connection stays open until the last batch, or until the iterator is closed. What breaks off
    on the way raises `ServerUnreachable`.
    """
    return batches_of(
        get("graphs", graph, "predictions", model=model, job=job, label_column=label_column)
    )


def download_predictions(
    graph: str,
    target: Path | str,
    *,
    table_format: str | None = None,
    model: str | None = None,
    job: str | None = None,
    label_column: str | None = None,
    coverage: float | None = None,
    sort: str | None = None,
    reverse: bool = False,
    top: int | None = None,
    unlabeled: bool = False,
    unproven: bool = False,
) -> Call[Path]:
    """All predictions in a file, which appears when it is whole.

    Parameters
    ----------
    graph : str
        Its name.
    target : Path or str
        Where to write; what is there is replaced.
    table_format : {"arrow", "parquet", "csv", "ndjson"}, optional
        The suffix of the file says it when left out.
    model, job, label_column, coverage, sort, reverse, top, unlabeled, unproven : optional
        As in `predictions`.
    """
    request = _all_of(
        graph,
        model=model,
        job=job,
        label_column=label_column,
        coverage=coverage,
        sort=sort,
        reverse=reverse,
        top=top,
        unlabeled=unlabeled,
        unproven=unproven,
    )
    return (yield from download(request, target, table_format))


def prediction(
    graph: str,
    node: NodeId,
    *,
    model: str | None = None,
    job: str | None = None,
    label_column: str | None = None,
    coverage: float | None = None,
) -> Call[NodePrediction]:
    """The prediction of one node, which is named as it was asked for; with its set of a coverage.

    Raises
    ------
    NodeNotFound
        The graph does not know the node, or it is newer than the snapshot.
    PredictionsNotFound
        Nothing has been predicted yet, or not by this model.
    """
    request = get(
        "graphs",
        graph,
        "predictions",
        "node",
        id=str(node),
        model=model,
        job=job,
        label_column=label_column,
        coverage=coverage,
    )
    answer = yield from read(NodePrediction, request)
    return replace(answer, prediction=replace(answer.prediction, node=node))


def look_up(
    graph: str,
    nodes: Sequence[NodeId],
    *,
    model: str | None = None,
    job: str | None = None,
    label_column: str | None = None,
    coverage: float | None = None,
) -> Flow[Lookup]:
    """The predictions of some nodes, up to 10,000 in each answer, named as they were asked for.

    With ``coverage`` each has its set, see `sets`.

    Every answer says which job it is of: name one where a new one may come in between.
    """
    for first in range(0, len(nodes), _NODES_PER_REQUEST):
        part = [plain(node) for node in nodes[first : first + _NODES_PER_REQUEST]]
        request = Request(
            method="POST",
            path=path("graphs", graph, "predictions", verb="lookup"),
            params={"model": model, "job": job, "label_column": label_column, "coverage": coverage},
            json={"nodes": part},
            is_repeatable=True,
        )
        yield Item(_with_given_ids((yield from read(Lookup, request)), part))


def predict(job: str, points: Sequence[Mapping[str, Any]] | TableLike) -> Call[Predictions]:
    """Predictions of points that are no nodes, in their order, by the model of a job.

    Parameters
    ----------
    job : str
        Id of a job whose model worked on features.
    points : list of mappings, or TableLike
        Column ``features``, or ``indices`` and ``values``; a CSV file has a column for each number.
        Or the columns that the features were made of, by name: ``{"age": 3, "town": "Rome"}``.
        Mappings and NDJSON files may also have ``edges``, a list of mappings with ``node`` and, if
        you like, ``weight``, where the job is a solve by ``filtered-ridge``.

    Raises
    ------
    InvalidArgument
        The model predicts no new points, or none with edges; or a point breaks a rule.
    NotYet
        The job has not succeeded.
    """
    request = Request(
        method="POST",
        path=path("jobs", job, verb="predict"),
        body=points_body(points),
        is_repeatable=True,
    )
    return _predictions(*(yield from table_of(request)))


def sparsifier(graph: str, number: int | None = None) -> Call[Sparsifier]:
    """The edges of a snapshot, for networkx, scipy, PyTorch Geometric or polars.

    Where edges have kinds, the weights of a pair in all of them are summed.

    Parameters
    ----------
    graph : str
        Its name.
    number : int, optional
        Of the snapshot; the newest when left out.

    Raises
    ------
    NotYet
        The graph has no snapshot.
    """
    if number is None:
        all_snapshots = yield from snapshots(graph)
        if not all_snapshots:
            raise NotYet(Refusal(title="No snapshot yet", detail=f"{graph!r} has no snapshot yet"))
        number = all_snapshots[0].number
    table = yield from snapshot_edges(graph, number)
    if "relation" in table.schema.names:
        ends, sums = ["src", "dst"], [("weight", "sum")]
        table = table.group_by(ends, use_threads=False).aggregate(sums)
        table = table.select([*ends, "weight_sum"]).rename_columns([*ends, "weight"])
    return Sparsifier(table=table, graph=graph, snapshot=number)


def _with_given_ids(lookup: Lookup, nodes: Sequence[NodeId]) -> Lookup:
    """The same with the caller's ids: JSON has integers above 2^53 as strings."""
    named = {str(node): node for node in nodes}
    return replace(
        lookup,
        predictions=tuple(replace(each, node=named[str(each.node)]) for each in lookup.predictions),
        newer=tuple(named[str(node)] for node in lookup.newer),
        unasked=tuple(named[str(node)] for node in lookup.unasked),
        unknown=tuple(named[str(node)] for node in lookup.unknown),
    )


def _predictions(table: pa.Table, headers: httpx.Headers) -> Predictions:
    return Predictions(
        table=table,
        job=headers["peewit-job"],
        model=headers["peewit-model"],
        snapshot=int(headers["peewit-snapshot"]),
        labels_seq=int(headers["peewit-labels-seq"]),
        features_version=int(headers["peewit-features-version"]),
        solver_status=headers["peewit-solver-status"],
        etag=headers.get("etag"),
    )


def evaluate(
    graph: str,
    truth: Labels,
    *,
    model: str | None = None,
    job: str | None = None,
    label_column: str | None = None,
    node: str | None = None,
    label: str | None = None,
    top_k: int | None = None,
    positive: Label | None = None,
    threshold: float | None = None,
    min_recall: float | None = None,
    min_precision: float | None = None,
    cost_fn: float | None = None,
    cost_fp: float | None = None,
    positive_share: float | None = None,
    no_label: str | Sequence[str] | None = None,
    keep_word: str | Sequence[str] | None = None,
    missing_ids: NodelessRows | None = None,
    contradictions: Literal["refuse", "last", "leave-out"] | None = None,
    quote: Quote | None = None,
) -> Call[PredictionEvaluation]:
    """Predictions judged by true labels, on the nodes that carry no label; nothing is stored.

    Parameters
    ----------
    graph : str
        Its name.
    truth : mapping, Series or TableLike
        True label by node, as a mapping or a Series whose index has the nodes; or a table or file
        with a column of nodes and one of labels.
    model, job, label_column : str, optional
        As in `predictions`.
    node, label : str, optional
        What the columns of a table are called, as in `put_labels`.
    top_k : int, optional
        A class counts as found among so many of the largest scores; 3 when left out.
    positive, threshold : optional
        Also judge this class where its score is at least the threshold.
    min_recall, min_precision, cost_fn, cost_fp, positive_share : float, optional
        Instead of a threshold, what to choose it for, as in `threshold`; costs and share may stand
        beside a threshold, too.
    no_label, keep_word : str or sequence of str, optional
        Further words that mean no label, '' for a missing one; and such words that are labels.
    missing_ids : {"refuse", "leave-out"}
        What becomes of rows that name no node: the table is refused, or they are left out and
        counted.
    contradictions : {"refuse", "last", "leave-out"}
        What becomes of a node with different labels in the table: it is refused, the last row
        holds, or the node is left out.
    quote : {"double", "none"}, optional
        Whether a double quote before a field of CSV quotes it; looked at when left out.

    Raises
    ------
    PredictionsNotFound
        Nothing has been predicted yet, or not by this model.
    InvalidArgument
        A row or an argument breaks a rule.
    Conflict
        A threshold is to be chosen, and the job did not cross-validate.
    """
    truth = by_node(truth)
    if isinstance(truth, Mapping):
        node, label = "node", "label"
    request = Request(
        method="POST",
        path=path("graphs", graph, "predictions", verb="evaluate"),
        params={
            "model": model,
            "job": job,
            "label_column": label_column,
            "node": node,
            "label": label,
            "top_k": top_k,
            "positive": positive,
            "threshold": threshold,
            "min_recall": min_recall,
            "min_precision": min_precision,
            "cost_fn": cost_fn,
            "cost_fp": cost_fp,
            "positive_share": positive_share,
            "no_label": no_label,
            "keep_word": keep_word,
            "missing_ids": missing_ids,
            "contradictions": contradictions,
            "quote": quote,
        },
        body=labels_body(truth),
        is_repeatable=True,
    )
    return (yield from read(PredictionEvaluation, request))
