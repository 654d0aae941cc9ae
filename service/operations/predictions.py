"""Predictions: the whole table, one node, some nodes, new points."""

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Annotated, Any, Final
from urllib.parse import quote

from pydantic import ConfigDict, Field

from peewit.service.catalog import GraphRecord
from peewit.service.jobs.job import UnknownJob
from peewit.service.operations.bodies import Body as BodyModel
from peewit.service.operations.declaration import Body, Query, Table, operation
from peewit.service.operations.here import Here
from peewit.service.operations.jobs import JobId
from peewit.service.operations.sources_and_files import MAX_ID
from peewit.service.operations.tables import JsonUpload, Pieces, Rows, TableUpload
from peewit.service.operations.which import (
    OF_PREDICTIONS,
    Coverage,
    Order,
    Positive,
    SafeCsv,
    ThresholdValue,
    Which,
    provenance,
)
from peewit.service.predictions.checked_points import checked_points
from peewit.service.predictions.filtered_rows import RowFilter, rows
from peewit.service.predictions.label_sets import LabelSets, SetsNotKept
from peewit.service.predictions.prediction_files import Prediction, PredictionFile, PredictionMeta
from peewit.service.predictions.predictors import JobNotSucceeded, NotInductive, predictor_of
from peewit.service.predictions.reader import NodeNotAsked, NodeNotFound, NodeNotPredicted
from peewit.service.predictions.store import PredictionsNotFound
from peewit.service.predictions.thresholds import with_answers
from peewit.service.tables.formats import encode
from peewit.service.tables.uploads import BadUpload, json_point_batches, node_id, point_batches
from peewit.service.wire.labels import Label
from peewit.service.wire.predictions import Lookup, NodePrediction, PredictionRows
from peewit.streaming.edges.table_formats import Format
from peewit.streaming.features.checked_tables import BadFeatures

MAX_LOOKUP: Final = 10_000
"""Most nodes of one lookup; more come as a table."""

NodeIn = int | str
"""JSON readers that hold numbers as floats send 64-bit integers as strings."""


class PointEdgeIn(BodyModel):
    """An edge from a point to a node."""

    node: NodeIn
    weight: Annotated[float, Field(gt=0)] = 1.0


class PointIn(BodyModel):
    """A point: all of its numbers, or those that are not 0 and where they stand; its edges.

    Or the columns that the features were made of, by name, instead of numbers.
    """

    model_config = ConfigDict(extra="allow")

    features: list[float] | None = None
    indices: list[int] | None = None
    values: list[float] | None = None
    edges: list[PointEdgeIn] | None = None


class PointsIn(BodyModel):
    """New points, all dense or all sparse."""

    points: list[PointIn]


@operation(
    "GET /predictions",
    "read",
    raises=(*OF_PREDICTIONS, SetsNotKept),
    rows=(
        "Columns `node`, `label`, `score`, `margin`, `reachable` and `labeled`, whether "
        "the node carries a label. A typed graph also has `kind` and `id`, the two parts "
        "of `node`. Where they were asked for: `variance`, `stability` and `proven`. "
        "Unless there are many classes: `score:<class>`; where scores are probabilities "
        "they are called `probability` and `probability:<class>`. Jobs with `sets` have "
        "`p_value:<class>`, and with `coverage` also `labels` and `certain`. Headers name "
        "job, snapshot and labels_seq."
    ),
    unchanged="Nothing newer than the `ETag` in If-None-Match.",
    client="predictions",
    is_call_written=True,
)
def get_predictions(
    here: Here,
    graph: GraphRecord,
    which: Which,
    order: Order,
    positive: Positive = None,
    threshold: ThresholdValue = None,
    coverage: Coverage = None,
    safe_csv: SafeCsv = False,
) -> Rows:
    """All predictions, as a table; the freshest unless a job is named.

    With `positive` and `threshold` a node is of that class where its score is at least the
    threshold, else of the best of the others; `margin` is the distance from the threshold. In CSV
    the labels of a set are parted by bars.
    """
    job = which.find(here, graph)
    decided = "" if positive is None else f"-{quote(positive)}-{threshold}"
    decided += "" if coverage is None else f"-{coverage}"
    decided += "" if order == Order() else f"-{quote(repr(astuple(order)))}"
    decided += "-safe" if safe_csv else ""
    erased = f"-{graph.erasures_seq}" if graph.erasures_seq else ""

    def opened(chosen: Format) -> tuple[Pieces, Mapping[str, str]]:
        file = here.home.predictions.open(job)
        is_plain = not decided and threshold is None and not file.meta.answers
        if chosen is Format.ARROW and is_plain and file.has_all_nodes:
            return file.stream(), provenance_headers(file.meta)
        schema, batches = with_answers(
            file,
            order.rows(file, threshold=threshold),
            positive=positive,
            threshold=threshold,
            coverage=coverage,
        )
        pieces = encode(schema, batches, chosen, safe_csv=safe_csv)
        return pieces, provenance_headers(file.meta)

    return Rows(
        name=f"{graph.settings.name}-predictions",
        open=opened,
        tag=f"{job.id}-{job.attempt}{decided}{erased}",
    )


def _remembered(
    here: Here, graph: GraphRecord, which: Which, node: str, coverage: float | None
) -> dict[str, Any] | None:
    """The prediction of a node of a table that is open."""
    its_id = node_id(node, graph.settings.node_ids, name="id")
    remembered = here.home.predictions.cached(
        graph, its_id, model=which.model, job_id=which.job, column=which.label_column
    )
    return None if remembered is None else _of_one(*remembered, coverage)


@operation(
    "GET /predictions/node",
    "read",
    raises=(*OF_PREDICTIONS, NodeNotFound, NodeNotPredicted, NodeNotAsked, BadUpload, SetsNotKept),
    client="prediction",
    is_call_written=True,
    quick=_remembered,  # changing over to a thread and back takes as long as all the rest
)
def get_prediction(
    here: Here,
    graph: GraphRecord,
    which: Which,
    node: Annotated[str, Query("External id of the node.", name="id")],
    coverage: Coverage = None,
) -> Annotated[Mapping[str, Any], NodePrediction]:
    """The prediction of one node."""
    its_id = node_id(node, graph.settings.node_ids, name="id")
    file = which.open(here, graph)
    return _of_one(file, here.home.predictions.one(graph, file, its_id), coverage)


@operation("GET /predictions/rows", "read", raises=OF_PREDICTIONS, client="prediction_rows")
def get_prediction_rows(
    here: Here,
    graph: GraphRecord,
    which: Which,
    label: Annotated[str | None, Query("Only nodes predicted so.", given_as=Label | None)] = None,
    margin_below: Annotated[
        float | None, Query("Only nodes whose two best classes are closer.", ge=0)
    ] = None,
    score_from: Annotated[float | None, Query("Only nodes whose score is no less.")] = None,
    first: Annotated[
        int, Query("Where to begin: `next_row` of the page before.", ge=0, le=MAX_ID)
    ] = 0,
    limit: Annotated[int, Query("Most entries.", ge=1, le=1000)] = 100,
) -> Annotated[Mapping[str, Any], PredictionRows]:
    """A page of predictions, all or some, in the order of the file.

    Name the `job` of the first page in the next ones: a new one may come in between.
    """
    file = which.open(here, graph)
    wanted = RowFilter.of_arguments(
        file, label=label, margin_below=margin_below, score_from=score_from
    )
    page_rows, next_row = rows(file, wanted, first=first, limit=limit)
    return {**provenance(file), "predictions": file.lookup(page_rows), "next_row": next_row}


@operation(
    "POST /predictions:lookup",
    "read",
    raises=(*OF_PREDICTIONS, BadUpload, SetsNotKept),
    client="look_up",
    is_call_written=True,
)
def look_up_predictions(
    here: Here,
    graph: GraphRecord,
    which: Which,
    nodes: Annotated[list[NodeIn], Body("Nodes to look up.", min_length=1, max_length=MAX_LOOKUP)],
    coverage: Coverage = None,
) -> Annotated[Mapping[str, Any], Lookup]:
    """The predictions of some nodes; those that have none are named."""
    ids = [
        node_id(node, graph.settings.node_ids, name="nodes", row=row)
        for row, node in enumerate(nodes)
    ]
    file = which.open(here, graph)
    lookup = here.home.predictions.lookup(graph, file, ids)
    return {
        **provenance(file),
        "predictions": _with_sets(file, lookup.predictions, coverage),
        "newer": lookup.newer,
        "unasked": lookup.unasked,
        "unknown": lookup.unknown,
    }


@operation(
    "POST /jobs/{job_id}:predict",
    "read",
    raises=(UnknownJob, PredictionsNotFound, JobNotSucceeded, NotInductive, BadFeatures),
    rows="A row for each point, in order: `label`, `score`, `margin` and, unless there are many "
    "classes, `score:<class>`; headers name job, snapshot, labels_seq and features_version.",
    client="predict",
)
def predict_points(
    here: Here,
    job_id: JobId,
    points: Annotated[
        TableUpload | JsonUpload,
        Table(
            "Column `features`, lists of as many numbers as the model was trained on, or `indices` "
            "and `values`, one list of each; in CSV a column for each number. Or the columns that "
            "the features were made of, by name, of any kind. A column `node` is "
            "ignored. In JSON and NDJSON also `edges` to nodes, for a job of `filtered-ridge`.",
            json=PointsIn,
        ),
    ],
) -> Rows:
    """Predict points that are no nodes of the graph; the model must have worked on features."""
    home = here.home
    job = home.jobs.get(job_id)
    predictor = predictor_of(home.predictions.store, job)
    graph = home.catalog.get_by_id(job.graph_id)
    node_kind = graph.settings.node_ids
    encoding = home.features.encoding(graph, predictor.meta.features_version)
    names = home.features.names(graph, predictor.meta.features_version)
    if isinstance(points, TableUpload):
        batches = point_batches(
            points.file,
            points.table_format,
            node_kind,
            encoding=encoding,
            names=names,
            limits=points.limits,
        )
    else:
        rows = points.rows("points", '{"features": [...]}')
        batches = json_point_batches(rows, node_kind, encoding=encoding, names=names)
    checked = checked_points(
        batches,
        n_columns=predictor.n_columns,
        model=predictor.meta.model,
        names=names,
        neighbors=predictor.neighbors(graph, home.nodes),
    )
    return Rows(
        name=f"job-{job_id}-points",
        open=lambda chosen: (
            encode(predictor.schema, predictor.batches(checked), chosen),
            provenance_headers(predictor.meta),
        ),
    )


def _of_one(file: PredictionFile, prediction: Prediction, coverage: float | None) -> dict[str, Any]:
    return {**provenance(file), "prediction": _with_sets(file, [prediction], coverage)[0]}


def _with_sets(
    file: PredictionFile, predictions: Sequence[Prediction], coverage: float | None
) -> Sequence[Mapping[str, Any]]:
    """Predictions with their sets, where a coverage is asked."""
    if coverage is None:
        return predictions
    sets = LabelSets.of(file, coverage)
    return [sets.of_node(each) for each in predictions]


def provenance_headers(meta: PredictionMeta) -> dict[str, str]:
    """Where a table of predictions comes from."""
    aims = {} if meta.objective is None else {"Peewit-Objective": meta.objective}
    return {
        **aims,
        "Peewit-Job": meta.job_id,
        "Peewit-Model": meta.model,
        "Peewit-Snapshot": str(meta.snapshot),
        "Peewit-Labels-Seq": str(meta.labels_seq),
        "Peewit-Features-Version": str(meta.features_version),
        "Peewit-Solver-Status": meta.solver_status,
    }
