"""Answers of the tools: small records, described for a model, made of those of the client."""

from collections.abc import Iterable
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field

from peewit.service.client import Graph, GraphDetails, Job, Prediction, Suggestions
from peewit.service.wire.labels import LabelColumn, LabelOrigin
from peewit.service.wire.predictions import (
    LabelReason,
    PredictionReasons,
    PredictionRows,
    Provenance,
)
from peewit.service.wire.solve_lines import solve_lines, warning_text

_BEST: Final = 5
"""Classes whose scores are told."""

NodeName = int | str
LabelValue = int | str | float


class Answer(BaseModel):
    """Base of answers, which never change."""

    model_config = ConfigDict(frozen=True)


class GraphLine(Answer):
    """A graph in a list."""

    name: str
    n_nodes: int
    n_edges: int = Field(description="Rows of edges that came, before any were sampled.")
    snapshot: int | None = Field(description="Number of the newest; null before the first edges.")
    labels_seq: int = Field(description="Grows by 1 with each label that is put or taken back.")

    @classmethod
    def of(cls, graph: Graph) -> Self:
        """The line of a graph."""
        return cls(
            name=graph.name,
            n_nodes=graph.nodes,
            n_edges=graph.edges_seen,
            snapshot=graph.snapshot,
            labels_seq=graph.labels_seq,
        )


class GraphLines(Answer):
    """The graphs."""

    graphs: list[GraphLine]
    n_graphs: int = Field(description="All there are; the list is cut where it is shorter.")


class ColumnLine(Answer):
    """A column of labels."""

    name: str | None = Field(description="For label_column; null for the one without a name.")
    n_labeled: int = Field(description="Nodes that have a label.")
    n_labels: int = Field(description="Different labels.")

    @classmethod
    def of(cls, column: LabelColumn) -> Self:
        """The line of a column."""
        return cls(name=column.name or None, n_labeled=column.n_labeled, n_labels=column.n_labels)


class ClassShare(Answer):
    """A class of the last solve."""

    label: LabelValue
    predicted: float = Field(description="Part of the nodes predicted so, 0 to 1.")
    labeled: float = Field(description="Part of the labels, 0 to 1.")


class Accuracy(Answer):
    """What is known of how right predictions are, by labels left out of the solve."""

    accuracy: float | None = Field(description="0 to 1; null unless the solve cross-validated.")
    rmse: float | None = Field(
        description=("Root mean square error where labels are real numbers, in their unit.")
    )
    n_left_out: int | None = Field(description="Labels that were judged by.")
    calibration_error: float | None = Field(
        description=("Calibration error of probabilities, 0 to 1; 0 is best.")
    )


class JobState(Answer):
    """A job."""

    job: str
    kind: str
    model: str | None
    label_column: str | None
    status: str = Field(description="queued, running, succeeded, failed or cancelled.")
    phase: str | None
    progress: float | None = Field(description="How far the phase is, 0 to 1.")
    error: str | None
    snapshot: int | None
    labels_seq: int | None = Field(description="The last label that it knows.")
    n_nodes: int | None
    n_labels: int | None = Field(description="Labels that it learned from.")
    seconds: float | None = Field(description="From start to end.")
    said: list[str] = Field(description="What is to be known first of the answer of a solve.")
    warning: str | None = Field(description="What makes the answer doubtful.")
    accuracy: Accuracy | None
    classes: list[ClassShare] = Field(description="The 20 largest.")
    n_classes: int | None

    @classmethod
    def of(cls, job: Job) -> Self:
        """The state of a job."""
        result: dict[str, Any] = job.result or {}
        is_over = job.started_at is not None and job.finished_at is not None
        shares, column = (
            result.get("class_shares") or [],
            job.parameters.get("label_column") or None,
        )
        return cls(
            job=job.id,
            kind=job.kind,
            model=job.model,
            label_column=column,
            status=job.status,
            phase=job.phase,
            progress=job.progress,
            error=job.error,
            snapshot=job.snapshot,
            labels_seq=job.labels_seq,
            n_nodes=result.get("n_nodes"),
            n_labels=result.get("n_labels"),
            seconds=(job.finished_at - job.started_at).total_seconds()  # type: ignore[operator]
            if is_over
            else None,
            said=solve_lines(result, label_column=column or "", door="mcp"),
            warning=warning_text(result, label_column=column or "", door="mcp"),
            accuracy=_accuracy(result.get("stats") or {}),
            classes=[
                ClassShare(label=each["label"], predicted=each["predicted"], labeled=each["labels"])
                for each in sorted(shares, key=lambda each: -float(each["predicted"]))[:20]
            ],
            n_classes=result.get("n_classes"),
        )


def _accuracy(stats: dict[str, Any]) -> Accuracy | None:
    folds, truth = stats.get("cross_validation") or {}, stats.get("calibration") or {}
    if not folds and not truth:
        return None
    return Accuracy(
        accuracy=folds.get("accuracy"),
        rmse=folds.get("rmse"),
        n_left_out=folds.get("n_left_out", truth.get("n_left_out")),
        calibration_error=truth.get("expected_calibration_error"),
    )


class GraphState(GraphLine):
    """A graph, its labels and its last solve."""

    node_ids: str = Field(description="string, int64 or dense.")
    n_edges_kept: int = Field(description="Edges of the sparsifier.")
    edges: str = Field(description="What is kept of the edges, in words.")
    epsilon_asked: float | None = Field(
        description="Spectral error asked for; null keeps every edge within the budget."
    )
    epsilon_expected: float | None
    epsilon_certified: float | None = Field(description="Measured, if it was.")
    n_files_waiting: int = Field(description="Files of edges that are not in the graph yet.")
    label_columns: list[ColumnLine]
    last_solve: JobState | None = Field(
        description=("The one of the column asked for; null before one.")
    )

    @classmethod
    def made(cls, graph: GraphDetails, columns: Iterable[LabelColumn], job: Job | None) -> Self:
        """The state of a graph, its columns and its last solve."""
        return cls(
            **GraphLine.of(graph).model_dump(),
            node_ids=graph.settings.node_ids,
            n_edges_kept=graph.edges_kept,
            edges=graph.edges_text,
            epsilon_asked=graph.epsilon_asked,
            epsilon_expected=graph.epsilon_expected,
            epsilon_certified=graph.epsilon_certified,
            n_files_waiting=graph.backlog.n_files,
            label_columns=[ColumnLine.of(each) for each in columns],
            last_solve=None if job is None else JobState.of(job),
        )


class Source(Answer):
    """What predictions were made from."""

    job: str
    model: str
    snapshot: int
    labels_seq: int = Field(description="The last label that they know.")
    score: str = Field(description="How to read scores: probability, class score or value.")

    @classmethod
    def of(cls, made_from: Provenance) -> Self:
        """The source of predictions."""
        return cls(**{name: getattr(made_from, name) for name in cls.model_fields})


class Row(Answer):
    """A prediction."""

    node: NodeName
    label: LabelValue | None = Field(description="Null where no label reaches the node.")
    score: float
    margin: float | None = Field(description="Winner minus runner-up; small is doubtful.")

    @classmethod
    def of(cls, prediction: Prediction) -> Self:
        """The row of a prediction."""
        return cls(**{name: getattr(prediction, name) for name in Row.model_fields})


class Rows(Answer):
    """A page of predictions."""

    made_from: Source
    predictions: list[Row]
    next_first: int | None = Field(description="For `first` of the next page; null on the last.")

    @classmethod
    def of(cls, page: PredictionRows) -> Self:
        """A page of rows."""
        return cls(
            made_from=Source.of(page),
            predictions=[Row.of(each) for each in page.predictions],
            next_first=page.next_row,
        )


class ClassScore(Answer):
    """A class of a node."""

    label: str
    score: float


class Reason(Answer):
    """A label that speaks for or against the prediction."""

    node: NodeName
    label: LabelValue
    part: float = Field(description="Part of all that speaks for this label's class, 0 to 1.")
    way: list[NodeName] | None = Field(description="Nodes on the way to it, both ends included.")
    relations: list[list[str]] | None = Field(
        description="Kinds of edges that make each step of the way, where the graph names some."
    )

    @classmethod
    def of(cls, reason: LabelReason) -> Self:
        """The reason that a label is."""
        way = None if reason.way is None else list(reason.way)
        relations = None
        if reason.relations is not None:
            relations = [list(step) for step in reason.relations]
        return cls(
            node=reason.node, label=reason.label, part=reason.part, way=way, relations=relations
        )


class Feature(Answer):
    """A feature that speaks for the prediction, or below 0 against it."""

    name: str
    value: float | None = Field(description="The node's own; null where it has none.")
    part: float = Field(description="Part of what all features add, -1 to 1.")


class Explanation(Answer):
    """The prediction of a node, and why."""

    made_from: Source
    prediction: Row
    best: list[ClassScore] = Field(description="The five best classes, where scores are kept.")
    for_it: list[Reason] = Field(description="Labels that speak for it, the weightiest first.")
    against_it: list[Reason]
    features: list[Feature] = Field(description="Those that add most, the weightiest first.")
    no_reasons: str | None = Field(description="Why there are no reasons, if there are none.")

    @classmethod
    def made(
        cls,
        made_from: Provenance,
        prediction: Prediction,
        why: PredictionReasons | None,
        refusal: str | None,
    ) -> Self:
        """The explanation of a node's prediction."""
        scores = sorted((prediction.scores or {}).items(), key=lambda each: -each[1])
        reasons = None if why is None else why.reasons
        return cls(
            made_from=Source.of(made_from),
            prediction=Row.of(prediction),
            best=[ClassScore(label=name, score=score) for name, score in scores[:_BEST]],
            for_it=[] if reasons is None else [Reason.of(each) for each in reasons.labels],
            against_it=[] if reasons is None else [Reason.of(each) for each in reasons.against],
            features=[]
            if reasons is None
            else [
                Feature(name=each.name, value=each.value, part=each.part)
                for each in reasons.features
            ],
            no_reasons=refusal,
        )


class Suggested(Answer):
    """Nodes to label next."""

    strategy: str
    origin: LabelOrigin = Field(description="What put_label notes for these nodes by itself.")
    nodes: list[NodeName] = Field(description="The most useful first; none has a label.")
    predictions: list[Row] = Field(description="Predictions of those nodes that have one.")

    @classmethod
    def of(cls, suggestions: Suggestions) -> Self:
        """The answer for suggestions."""
        return cls(
            strategy=suggestions.strategy,
            origin=suggestions.origin,
            nodes=suggestions.nodes,
            predictions=[
                Row.of(each.prediction)
                for each in suggestions.suggestions
                if each.prediction is not None
            ],
        )


class LabelPut(Answer):
    """A label that is stored."""

    node: NodeName
    label: LabelValue
    origin: LabelOrigin
    labels_seq: int = Field(description="A solve that knows the label has this number or more.")
