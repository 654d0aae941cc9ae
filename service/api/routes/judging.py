"""How far predictions can be trusted: sets, abstention, reasons, doubts, thresholds, evaluation."""

from typing import Annotated

from fastapi import Query
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import requires
from peewit.service.api.bodies import (
    BodyTooLarge,
    BodyTypeUnknown,
    TableOrJsonBody,
    body_schema,
)
from peewit.service.api.errors import problems
from peewit.service.api.routes.labels import uploaded_labels
from peewit.service.api.routes.predictions import (
    JobId,
    Model,
    Positive,
    ThresholdValue,
    provenance,
)
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
from peewit.service.api.stores import GraphHere, StoresHere
from peewit.service.catalog import GraphNotFound
from peewit.service.jobs.job import UnknownJob
from peewit.service.predictions.abstention import abstention
from peewit.service.predictions.doubtful_labels import MAX_DOUBTFUL, doubtful_labels
from peewit.service.predictions.evaluation import evaluate, evaluate_numbers
from peewit.service.predictions.label_sets import LabelSets, SetsNotKept
from peewit.service.predictions.left_out import NotCrossValidated
from peewit.service.predictions.reader import NodeNotFound, NodeNotPredicted
from peewit.service.predictions.reasons import MAX_REASONS, ReasonsNotKept, node_reasons
from peewit.service.predictions.store import PredictionsNotFound
from peewit.service.predictions.thresholds import (
    asked_threshold,
    class_threshold,
    left_out_evaluation,
)
from peewit.service.tables.column_names import label_columns
from peewit.service.tables.uploads import BadUpload, TableTooLarge, node_id
from peewit.service.wire.evaluations import PredictionAbstention, PredictionEvaluation, Threshold
from peewit.service.wire.predictions import DoubtfulLabels, PredictionReasons, PredictionSets
from peewit.streaming.snapshots.store import SnapshotNotFound, SnapshotStore

router = resource("predictions", ONE_GRAPH)

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
    return PredictionSets(**provenance(file), sets=sets.summary())


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
    return PredictionAbstention(**provenance(file), abstention=found)


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

    The job must have solved with `cross_validate`, `sets`, `probabilities` or `without_doubtful`,
    which drops some of them from the answer.
    """
    file = stores.predictions.open(
        stores.predictions.find(graph, model=model, job_id=job_id, column=label_column)
    )
    with refusing():
        found = doubtful_labels(file, k=k)
    return DoubtfulLabels(**provenance(file), doubtful=found)


@router.get(
    "/predictions/node/reasons",
    dependencies=[requires("read")],
    responses=problems(
        GraphNotFound,
        UnknownJob,
        PredictionsNotFound,
        NodeNotFound,
        NodeNotPredicted,
        ReasonsNotKept,
        SnapshotNotFound,
        BadUpload,
        InvalidArgument,
    ),
)
def get_reasons(
    graph: GraphHere,
    stores: StoresHere,
    node: Annotated[str, Query(alias="id", description="External id of the node.")],
    k: Annotated[int, Query(ge=1, le=MAX_REASONS, description="Most labels.")] = 5,
    model: Model = None,
    job_id: JobId = None,
    label_column: NamedColumn = None,
) -> PredictionReasons:
    """Which labels speak for what is predicted of a node, and on which way they are reached."""
    asked = node_id(node, graph.settings.node_ids, name="id")
    reader = stores.predictions
    file = reader.open(reader.find(graph, model=model, job_id=job_id, column=label_column))
    snapshots = SnapshotStore(stores.paths(graph).snapshots)
    with refusing():
        found = node_reasons(reader, snapshots, graph, file, asked, k=k)
    return PredictionReasons(**provenance(file), reasons=found)


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
    return Threshold(**provenance(file), chosen=left_out_evaluation(file, chosen))


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
                **provenance(file),
                of_classes=None
                if is_value
                else evaluate(table, truth, labels, top_k=top_k, threshold=chosen),
                of_numbers=evaluate_numbers(table, truth, labels) if is_value else None,
            )

    async with stores.label_tables, stores.decoding.held(body.decoding_bytes):
        return await run_in_threadpool(evaluated)
