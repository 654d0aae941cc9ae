"""Calls about how far predictions can be trusted."""

from collections.abc import Mapping
from typing import Any

from peewit.service.client.call_steps import Call, Request
from peewit.service.client.calls.common import get, path, read
from peewit.service.client.tables import TableLike, labels_body
from peewit.service.wire.evaluations import (
    PredictionAbstention,
    PredictionEvaluation,
    Threshold,
)
from peewit.service.wire.labels import Label
from peewit.service.wire.predictions import (
    DoubtfulLabels,
    NodeId,
    PredictionReasons,
    PredictionSets,
)


def sets(
    graph: str,
    coverage: float,
    *,
    model: str | None = None,
    job: str | None = None,
    label_column: str | None = None,
) -> Call[PredictionSets]:
    """What sets of labels promise that hold the true one with some chance, and how large they are.

    Parameters
    ----------
    graph : str
        Its name.
    coverage : float
        The chance, in (0, 1).
    model, job, label_column : str, optional
        As in `predictions`.

    Raises
    ------
    Conflict
        The job did not solve with ``sets``.
    InvalidArgument
        The coverage does not lie in (0, 1).
    """
    request = get(
        "graphs",
        graph,
        "predictions",
        "sets",
        coverage=coverage,
        model=model,
        job=job,
        label_column=label_column,
    )
    return (yield from read(PredictionSets, request))


def abstention(
    graph: str,
    max_error: float,
    *,
    confidence: float = 0.9,
    model: str | None = None,
    job: str | None = None,
    label_column: str | None = None,
) -> Call[PredictionAbstention]:
    """From which score on at most so many predictions are wrong, and the curve of errors.

    Parameters
    ----------
    graph : str
        Its name.
    max_error : float
        Part of the answers that may be wrong, in (0, 1).
    confidence : float
        Chance that no more are, at least, in (0, 1).
    model, job, label_column : str, optional
        As in `predictions`.

    Raises
    ------
    Conflict
        The job left no labels out.
    InvalidArgument
        A number lies outside (0, 1), or scores are no probabilities.
    """
    request = get(
        "graphs",
        graph,
        "predictions",
        "abstention",
        max_error=max_error,
        confidence=confidence,
        model=model,
        job=job,
        label_column=label_column,
    )
    return (yield from read(PredictionAbstention, request))


def doubtful_labels(
    graph: str,
    *,
    k: int = 20,
    model: str | None = None,
    job: str | None = None,
    label_column: str | None = None,
) -> Call[DoubtfulLabels]:
    """Labels that the others contradict, the most doubtful first.

    Parameters
    ----------
    graph : str
        Its name.
    k : int
        Most labels.
    model, job, label_column : str, optional
        As in `predictions`.

    Raises
    ------
    Conflict
        The job left no labels out.
    """
    request = get(
        "graphs",
        graph,
        "predictions",
        "doubtful-labels",
        k=k,
        model=model,
        job=job,
        label_column=label_column,
    )
    return (yield from read(DoubtfulLabels, request))


def reasons(
    graph: str,
    node: NodeId,
    *,
    k: int = 5,
    model: str | None = None,
    job: str | None = None,
    label_column: str | None = None,
) -> Call[PredictionReasons]:
    """Which labels speak for what is predicted of a node, and on which way they are reached.

    Parameters
    ----------
    graph : str
        Its name.
    node : int or str
        External id.
    k : int
        Most labels for what is predicted, and most against it.
    model, job, label_column : str, optional
        As in `predictions`.

    Raises
    ------
    NotFound
        The graph has no such node, or it came after the snapshot.
    Conflict
        The job kept nothing that reasons can be told from.
    """
    request = get(
        "graphs",
        graph,
        "predictions",
        "node",
        "reasons",
        id=node,
        k=k,
        model=model,
        job=job,
        label_column=label_column,
    )
    return (yield from read(PredictionReasons, request))


def threshold(
    graph: str,
    positive: Label,
    *,
    min_recall: float | None = None,
    min_precision: float | None = None,
    cost_fn: float | None = None,
    cost_fp: float | None = None,
    positive_share: float | None = None,
    model: str | None = None,
    job: str | None = None,
    label_column: str | None = None,
) -> Call[Threshold]:
    """A threshold on the score of a class, chosen on labels that the job left out.

    Parameters
    ----------
    graph : str
        Its name.
    positive : str or int
        The class to decide.
    min_recall : float, optional
        Least part of the class to find, as precisely as can be.
    min_precision : float, optional
        Least part of the nodes found to be of the class; as many are found as can be.
    cost_fn, cost_fp : float, optional
        Costs of a node of the class that is missed, and of another one that is taken for it; 1 for
        the one left out. Their mean is then the least.
    positive_share : float, optional
        Part of all nodes that is of the class, where the labels were not drawn at random.
    model, job, label_column : str, optional
        As in `predictions`.

    Raises
    ------
    Conflict
        The job did not cross-validate.
    InvalidArgument
        There is not exactly one goal of recall, precision and cost, or it cannot be met.
    """
    request = get(
        "graphs",
        graph,
        "predictions",
        "threshold",
        positive=positive,
        min_recall=min_recall,
        min_precision=min_precision,
        cost_fn=cost_fn,
        cost_fp=cost_fp,
        positive_share=positive_share,
        model=model,
        job=job,
        label_column=label_column,
    )
    return (yield from read(Threshold, request))


def evaluate(
    graph: str,
    truth: Mapping[Any, Label] | TableLike,
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
) -> Call[PredictionEvaluation]:
    """Predictions judged by true labels, on the nodes that carry no label; nothing is stored.

    Parameters
    ----------
    graph : str
        Its name.
    truth : mapping or TableLike
        True label by node, or a table or file with a column of nodes and one of labels.
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

    Raises
    ------
    PredictionsNotFound
        Nothing has been predicted yet, or not by this model.
    InvalidArgument
        A row or an argument breaks a rule.
    Conflict
        A threshold is to be chosen, and the job did not cross-validate.
    """
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
        },
        body=labels_body(truth),
        is_repeatable=True,
    )
    return (yield from read(PredictionEvaluation, request))
