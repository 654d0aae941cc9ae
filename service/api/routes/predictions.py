"""Predictions: the whole table, one node, some nodes; judged by the truth, and thresholds."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Query, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import requires
from peewit.service.api.bodies import (
    BodyTooLarge,
    BodyTypeUnknown,
    TableOrJsonBody,
    body_schema,
)
from peewit.service.api.errors import problems
from peewit.service.api.json_response import json_response
from peewit.service.api.routes.labels import uploaded_labels
from peewit.service.api.routes.query_parameters import (
    ONE_GRAPH,
    ColumnOfLabels,
    NamedColumn,
    NodeColumn,
    named,
    resource,
)
from peewit.service.api.schemas.bodies_and_problems import InvalidArgument, refusing
from peewit.service.api.schemas.labels import LabelsIn
from peewit.service.api.schemas.predictions import LookupIn
from peewit.service.api.stores import GraphHere, StoresHere
from peewit.service.api.tables import (
    ChosenFormat,
    FormatNotOffered,
    IfNoneMatch,
    not_modified,
    provenance_headers,
    table_answer,
    table_response,
)
from peewit.service.catalog import GraphNotFound, GraphRecord
from peewit.service.jobs.job import UnknownJob
from peewit.service.predictions.abstention import abstention
from peewit.service.predictions.doubtful_labels import MAX_DOUBTFUL, doubtful_labels
from peewit.service.predictions.evaluation import evaluate, evaluate_numbers
from peewit.service.predictions.label_sets import LabelSets, SetsNotKept
from peewit.service.predictions.left_out import NotCrossValidated
from peewit.service.predictions.prediction_files import Prediction, PredictionFile
from peewit.service.predictions.reader import NodeNotFound, NodeNotPredicted, PredictionReader
from peewit.service.predictions.store import PredictionsNotFound
from peewit.service.predictions.thresholds import (
    asked_threshold,
    class_threshold,
    left_out_evaluation,
    with_threshold,
)
from peewit.service.tables.column_names import label_columns
from peewit.service.tables.formats import encode
from peewit.service.tables.uploads import BadUpload, NodeId, TableTooLarge, node_id
from peewit.service.wire.evaluations import PredictionAbstention, PredictionEvaluation, Threshold
from peewit.service.wire.predictions import DoubtfulLabels, Lookup, NodePrediction, PredictionSets
from peewit.streaming.edges.table_formats import Format

router = resource("predictions", ONE_GRAPH)

Model = Annotated[str | None, Query(description="Its latest predictions; of any model otherwise.")]
JobId = Annotated[str | None, Query(alias="job", description="Those of this job.")]
Positive = Annotated[str | None, Query(description="The class that the threshold decides.")]
ThresholdValue = Annotated[
    float | None, Query(description="A node is of the class where its score is at least that.")
]
MinRecall = Annotated[
    float | None,
    Query(description="Least part of the class to find, as precisely as can be; in (0, 1]."),
]
MinPrecision = Annotated[
    float | None,
    Query(description="Least part of what is found to be of the class; find most; in (0, 1]."),
]
CostFn = Annotated[float | None, Query(description="Cost of a node of the class that is missed.")]
CostFp = Annotated[
    float | None, Query(description="Cost of another node taken for it; 1 when left out.")
]
PositiveShare = Annotated[
    float | None,
    Query(
        description="Part of all nodes that is of the class; as among those judged when left out."
    ),
]


Coverage = Annotated[
    float | None,
    Query(
        description="Add `labels`, a set of labels that holds the true one with that chance, and "
        "`certain`, whether it holds one alone; in (0, 1). The job must have solved with `sets`."
    ),
]


@router.get(
    "/predictions",
    dependencies=[requires("read", streams=True)],
    response_class=StreamingResponse,
    responses=table_answer(
        "Columns `node`, `label`, `score`, `margin`, `reachable`, `variance` if it was asked for "
        "and, unless there are many classes, `score:<class>`; `p:<class>` of jobs with `sets`, and "
        "with `coverage` also `labels` and `certain`; headers name job, snapshot and labels_seq."
    )
    | {304: {"description": "Nothing newer than the `ETag` in If-None-Match."}}
    | problems(
        GraphNotFound,
        UnknownJob,
        PredictionsNotFound,
        FormatNotOffered,
        InvalidArgument,
        SetsNotKept,
    ),
)
def get_predictions(
    graph: GraphHere,
    stores: StoresHere,
    table_format: ChosenFormat,
    model: Model = None,
    job_id: JobId = None,
    label_column: NamedColumn = None,
    positive: Positive = None,
    threshold: ThresholdValue = None,
    coverage: Coverage = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """All predictions, as a table; the freshest unless a job is named.

    With `positive` and `threshold` a node is of that class where its score is at least the
    threshold, else of the best of the others; `margin` is the distance from the threshold. In CSV
    the labels of a set are parted by bars.
    """
    job = stores.predictions.find(graph, model=model, job_id=job_id, column=label_column)
    decided = "" if positive is None else f"-{quote(positive)}-{threshold}"
    decided += "" if coverage is None else f"-{coverage}"
    erased = f"-{graph.erasures_seq}" if graph.erasures_seq else ""
    tag = f'"{job.id}-{job.attempt}-{table_format}{decided}{erased}"'
    unchanged = not_modified(tag, if_none_match)
    if unchanged is not None:
        return unchanged
    file = stores.predictions.open(job)
    with refusing():
        chosen = asked_threshold(file, positive=positive, threshold=threshold)
        sets = None if coverage is None else LabelSets.of(file, coverage)
    is_as_stored = (
        table_format is Format.ARROW and chosen is None and sets is None and file.is_whole
    )
    batches, schema = file.shown(), file.schema
    if chosen is not None:
        batches = with_threshold(file, batches, chosen)
    if sets is not None:
        batches, schema = sets.with_sets(batches), sets.schema
    return table_response(
        file.stream() if is_as_stored else encode(schema, batches, table_format),
        table_format,
        name=f"{graph.settings.name}-predictions",
        headers={"ETag": tag, **provenance_headers(file.meta)},
    )


@router.get(
    "/predictions/node",
    dependencies=[requires("read")],
    response_model=NodePrediction,
    responses=problems(
        GraphNotFound,
        UnknownJob,
        PredictionsNotFound,
        NodeNotFound,
        NodeNotPredicted,
        BadUpload,
        InvalidArgument,
        SetsNotKept,
    ),
)
async def get_prediction(
    graph: GraphHere,
    stores: StoresHere,
    node: Annotated[str, Query(alias="id", description="External id of the node.")],
    model: Model = None,
    job_id: JobId = None,
    label_column: NamedColumn = None,
    coverage: Coverage = None,
) -> Response:
    """The prediction of one node."""
    asked = node_id(node, graph.settings.node_ids, name="id")
    reader = stores.predictions
    # Changing over to a thread and back takes as long as all the rest.
    told = reader.cached(graph, asked, model=model, job_id=job_id, column=label_column)
    if told is None:
        told = await run_in_threadpool(_read_one, reader, graph, asked, model, job_id, label_column)
    file, prediction = told
    return json_response(
        {**_provenance(file), "prediction": _with_sets(file, [prediction], coverage)[0]}
    )


@router.post(
    "/predictions:lookup",
    dependencies=[requires("read")],
    response_model=Lookup,
    responses=problems(
        GraphNotFound, UnknownJob, PredictionsNotFound, BadUpload, InvalidArgument, SetsNotKept
    ),
)
def look_up_predictions(
    body: LookupIn,
    graph: GraphHere,
    stores: StoresHere,
    model: Model = None,
    job_id: JobId = None,
    label_column: NamedColumn = None,
    coverage: Coverage = None,
) -> Response:
    """The predictions of some nodes; those that have none are named."""
    asked = [
        node_id(node, graph.settings.node_ids, name="nodes", row=row)
        for row, node in enumerate(body.nodes)
    ]
    file = stores.predictions.open(
        stores.predictions.find(graph, model=model, job_id=job_id, column=label_column)
    )
    found = stores.predictions.lookup(graph, file, asked)
    return json_response(
        {
            **_provenance(file),
            "predictions": _with_sets(file, found.predictions, coverage),
            "newer": found.newer,
            "unknown": found.unknown,
        }
    )


@router.get(
    "/predictions/sets",
    dependencies=[requires("read")],
    responses=problems(
        GraphNotFound, UnknownJob, PredictionsNotFound, SetsNotKept, InvalidArgument
    ),
)
def get_sets(
    graph: GraphHere,
    stores: StoresHere,
    coverage: Annotated[float, Query(description="Chance that a set holds the true label.")],
    model: Model = None,
    job_id: JobId = None,
    label_column: NamedColumn = None,
) -> PredictionSets:
    """What sets of labels of some coverage promise, to whom, and how large they are.

    The job must have solved with `sets`.
    """
    file = stores.predictions.open(
        stores.predictions.find(graph, model=model, job_id=job_id, column=label_column)
    )
    with refusing():
        sets = LabelSets.of(file, coverage)
    return PredictionSets(**_provenance(file), sets=sets.summary())


@router.get(
    "/predictions/abstention",
    dependencies=[requires("read")],
    responses=problems(
        GraphNotFound, UnknownJob, PredictionsNotFound, NotCrossValidated, InvalidArgument
    ),
)
def get_abstention(
    graph: GraphHere,
    stores: StoresHere,
    max_error: Annotated[float, Query(description="Part of the answers that may be wrong.")],
    confidence: Annotated[float, Query(description="Chance that no more are, at least.")] = 0.9,
    model: Model = None,
    job_id: JobId = None,
    label_column: NamedColumn = None,
) -> PredictionAbstention:
    """How sure a prediction must be for few to be wrong: a score, and the curve of errors.

    The job must give probabilities and have left labels out: `sets` or `cross_validate` with
    `auto`, `probabilities` with any other model.
    """
    file = stores.predictions.open(
        stores.predictions.find(graph, model=model, job_id=job_id, column=label_column)
    )
    with refusing():
        found = abstention(file, max_error=max_error, confidence=confidence)
    return PredictionAbstention(**_provenance(file), abstention=found)


@router.get(
    "/predictions/doubtful-labels",
    dependencies=[requires("read")],
    responses=problems(
        GraphNotFound, UnknownJob, PredictionsNotFound, NotCrossValidated, InvalidArgument
    ),
)
def get_doubtful_labels(
    graph: GraphHere,
    stores: StoresHere,
    k: Annotated[int, Query(ge=1, le=MAX_DOUBTFUL, description="Most labels.")] = 20,
    model: Model = None,
    job_id: JobId = None,
    label_column: NamedColumn = None,
) -> DoubtfulLabels:
    """Labels that the others contradict, the most doubtful first: mistakes are among them.

    The job must have solved with `cross_validate`, `sets` or `probabilities`.
    """
    file = stores.predictions.open(
        stores.predictions.find(graph, model=model, job_id=job_id, column=label_column)
    )
    with refusing():
        found = doubtful_labels(file, k=k)
    return DoubtfulLabels(**_provenance(file), doubtful=found)


@router.get(
    "/predictions/threshold",
    dependencies=[requires("read")],
    responses=problems(
        GraphNotFound, UnknownJob, PredictionsNotFound, NotCrossValidated, InvalidArgument
    ),
)
def get_threshold(
    graph: GraphHere,
    stores: StoresHere,
    positive: Annotated[str, Query(description="The class to decide.")],
    model: Model = None,
    job_id: JobId = None,
    label_column: NamedColumn = None,
    min_recall: MinRecall = None,
    min_precision: MinPrecision = None,
    cost_fn: CostFn = None,
    cost_fp: CostFp = None,
    positive_share: PositiveShare = None,
) -> Threshold:
    """A threshold on the score of a class, chosen on the labels that the job left out.

    The job must have solved with `cross_validate`. Exactly one goal: `min_recall`, `min_precision`,
    or costs.
    """
    file = stores.predictions.open(
        stores.predictions.find(graph, model=model, job_id=job_id, column=label_column)
    )
    with refusing():
        chosen = class_threshold(
            file,
            positive,
            min_recall=min_recall,
            min_precision=min_precision,
            cost_fn=cost_fn,
            cost_fp=cost_fp,
            positive_share=positive_share,
        )
    return Threshold(**_provenance(file), chosen=left_out_evaluation(file, chosen))


@router.post(
    "/predictions:evaluate",
    dependencies=[requires("read")],
    openapi_extra=body_schema("True labels: columns `node` and `label`.", json=LabelsIn),
    responses=problems(
        GraphNotFound,
        UnknownJob,
        PredictionsNotFound,
        NotCrossValidated,
        InvalidArgument,
        BodyTooLarge,
        BodyTypeUnknown,
        BadUpload,
        TableTooLarge,
    ),
)
async def evaluate_predictions(
    graph: GraphHere,
    stores: StoresHere,
    body: TableOrJsonBody,
    model: Model = None,
    job_id: JobId = None,
    label_column: NamedColumn = None,
    node: NodeColumn = None,
    label: ColumnOfLabels = None,
    top_k: Annotated[
        int | None, Query(description="A class counts as found among so many; 3 by default.")
    ] = None,
    positive: Positive = None,
    threshold: ThresholdValue = None,
    min_recall: MinRecall = None,
    min_precision: MinPrecision = None,
    cost_fn: CostFn = None,
    cost_fp: CostFp = None,
    positive_share: PositiveShare = None,
) -> PredictionEvaluation:
    """Predictions judged by true labels, on the nodes that carry no label; nothing is stored.

    With `positive` also a threshold on its score: given, or chosen on labels left out as by
    `GET predictions/threshold`.
    """

    def evaluated() -> PredictionEvaluation:
        job = stores.predictions.find(graph, model=model, job_id=job_id, column=label_column)
        file = stores.predictions.open(job)
        column = file.meta.label_column
        columns = label_columns(graph.settings.columns, named(node=node, label=label))
        if column and label is None:
            columns = columns._replace(label=column)
        is_text = stores.labels.are_text(graph.id, column=column) is True
        truth = uploaded_labels(graph, stores, body, columns, csv_is_text=is_text)
        labels = stores.labels.current(graph.id, column=column, upto_seq=file.meta.labels_seq)
        with refusing():
            chosen = asked_threshold(
                file,
                positive=positive,
                threshold=threshold,
                min_recall=min_recall,
                min_precision=min_precision,
                cost_fn=cost_fn,
                cost_fp=cost_fp,
                positive_share=positive_share,
            )
            is_value = file.meta.score == "value"
            table = file.table()
            return PredictionEvaluation(
                **_provenance(file),
                of_classes=None
                if is_value
                else evaluate(table, truth, labels, top_k=top_k, threshold=chosen),
                of_numbers=evaluate_numbers(table, truth, labels) if is_value else None,
            )

    async with stores.label_tables, stores.decoding.held(body.decoding_bytes):
        return await run_in_threadpool(evaluated)


def _read_one(
    reader: PredictionReader,
    graph: GraphRecord,
    node: NodeId,
    model: str | None,
    job_id: str | None,
    column: str | None,
) -> tuple[PredictionFile, Prediction]:
    file = reader.open(reader.find(graph, model=model, job_id=job_id, column=column))
    return file, reader.one(graph, file, node)


def _with_sets(
    file: PredictionFile, predictions: Sequence[Prediction], coverage: float | None
) -> Sequence[Mapping[str, Any]]:
    """Predictions with their sets, where a coverage is asked."""
    if coverage is None:
        return predictions
    with refusing():
        sets = LabelSets.of(file, coverage)
    return [sets.of_node(each) for each in predictions]


def _provenance(file: PredictionFile) -> dict[str, Any]:
    """The fields of `Provenance`."""
    meta = file.meta
    return {
        "job": meta.job_id,
        "model": meta.model,
        "snapshot": meta.snapshot,
        "labels_seq": meta.labels_seq,
        "features_version": meta.features_version,
        "solver_status": meta.solver_status,
        "refined": bool(meta.stats.get("refined")),
        "score": meta.score,
        "label_column": meta.label_column or None,
    }
