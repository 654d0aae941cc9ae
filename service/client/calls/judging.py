"""How far predictions can be trusted: sets, abstention, doubts, reasons, thresholds.

Written from `peewit.service.operations.judging`; `make generate` writes it anew.
"""

from peewit.service.client.call_steps import Call
from peewit.service.client.calls.common import get, read
from peewit.service.wire.evaluations import PredictionAbstention, Threshold
from peewit.service.wire.labels import Label
from peewit.service.wire.predictions import (
    DoubtfulLabels,
    NodeId,
    PredictionReasons,
    PredictionSets,
)


def sets(
    graph: str,
    coverage: float = 0.9,
    *,
    model: str | None = None,
    job: str | None = None,
    label_column: str | None = None,
) -> Call[PredictionSets]:
    """What sets of labels of some coverage promise, to whom, and how large they are.

    The job must have solved with `sets=auto`.

    Parameters
    ----------
    graph : str
        Its name.
    coverage : float, optional
        Chance that a set holds the true label, in (0, 1).
    model, job, label_column : str, optional
        Predictions of this model, job, column of labels; the latest, unnamed ones else.

    Raises
    ------
    JobNotFound
        No job has this id.
    PredictionsNotFound
        The job has no predictions, or no longer has them.
    Conflict
        The job kept no p-values to read sets from.
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
    max_error: float = 0.05,
    confidence: float = 0.9,
    *,
    model: str | None = None,
    job: str | None = None,
    label_column: str | None = None,
) -> Call[PredictionAbstention]:
    """How sure a prediction must be for few to be wrong: a score, and the curve of errors.

    The job must give probabilities and have left labels out: `sets=auto` or `cross_validate=5` with
    `auto`, `probabilities=true` with any other model.

    Parameters
    ----------
    graph : str
        Its name.
    max_error : float, optional
        Part of the answers that may be wrong, in (0, 1).
    confidence : float, optional
        Chance that no more are, at least.
    model, job, label_column : str, optional
        Predictions of this model, job, column of labels; the latest, unnamed ones else.

    Raises
    ------
    JobNotFound
        No job has this id.
    PredictionsNotFound
        The job has no predictions, or no longer has them.
    Conflict
        The job kept no scores of left-out labels.
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
    k: int = 20,
    *,
    model: str | None = None,
    job: str | None = None,
    label_column: str | None = None,
) -> Call[DoubtfulLabels]:
    """Labels that the others contradict, the most doubtful first: mistakes are among them.

    Behind is the score of what the others say minus that of the label; below 0 they agree. The job
    must have solved with `cross_validate=5`, `sets=auto`, `probabilities=true`, or
    `without_doubtful=K`, which drops some of them from the answer.

    Parameters
    ----------
    graph : str
        Its name.
    k : int, optional
        Most labels.
    model, job, label_column : str, optional
        Predictions of this model, job, column of labels; the latest, unnamed ones else.

    Raises
    ------
    JobNotFound
        No job has this id.
    PredictionsNotFound
        The job has no predictions, or no longer has them.
    Conflict
        The job kept no scores of left-out labels.
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
    k: int = 5,
    *,
    model: str | None = None,
    job: str | None = None,
    label_column: str | None = None,
) -> Call[PredictionReasons]:
    """Which labels speak for a prediction, and on which way.

    Jobs with `label_shares=true` also show what labels add to the model's own scores. The first
    question after a snapshot reads it whole; further ones take a moment.

    Parameters
    ----------
    graph : str
        Its name.
    node : NodeId
        External id of the node.
    k : int, optional
        Most labels for it, and against it.
    model, job, label_column : str, optional
        Predictions of this model, job, column of labels; the latest, unnamed ones else.

    Raises
    ------
    JobNotFound
        No job has this id.
    PredictionsNotFound
        The job has no predictions, or no longer has them.
    NodeNotFound
        The graph does not know the node. Or: The node is newer than the snapshot that the
        predictions were made from. Or: The node is of a kind that the predictions are not
        about.
    Conflict
        The job did not keep what reasons are made from.
    NotFound
        No snapshot of that number is kept.
    InvalidArgument
        What came cannot be read as the table it should be; nothing of it is taken.
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
    model: str | None = None,
    job: str | None = None,
    label_column: str | None = None,
    min_recall: float | None = None,
    min_precision: float | None = None,
    cost_fn: float | None = None,
    cost_fp: float | None = None,
    positive_share: float | None = None,
) -> Call[Threshold]:
    """A threshold on the score of a class, chosen on the labels that the job left out.

    The job must have solved with `cross_validate=5`. Exactly one goal: `min_recall`,
    `min_precision`, or costs. Where labels were not drawn at random, give `positive_share` as well.

    Parameters
    ----------
    graph : str
        Its name.
    positive : Label
        The class to decide.
    min_recall : float, optional
        Least part of the class to find, as precisely as can be; in (0, 1].
    min_precision : float, optional
        Least precision, in (0, 1]: the part of the nodes found that is of the class. Finds as
        many as it allows.
    cost_fn : float, optional
        Cost of a node of the class that is missed.
    cost_fp : float, optional
        Cost of another node taken for it; 1 when left out.
    positive_share : float, optional
        Part of all nodes that is of the class; as among those judged when left out.
    model, job, label_column : str, optional
        Predictions of this model, job, column of labels; the latest, unnamed ones else.

    Raises
    ------
    JobNotFound
        No job has this id.
    PredictionsNotFound
        The job has no predictions, or no longer has them.
    Conflict
        The job kept no scores of left-out labels.
    """
    request = get(
        "graphs",
        graph,
        "predictions",
        "threshold",
        positive=positive,
        model=model,
        job=job,
        label_column=label_column,
        min_recall=min_recall,
        min_precision=min_precision,
        cost_fn=cost_fn,
        cost_fp=cost_fp,
        positive_share=positive_share,
    )
    return (yield from read(Threshold, request))
