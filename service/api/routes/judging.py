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
)
from peewit.service.api.routes.query_parameters import (
    ONE_GRAPH,
    ColumnOfLabels,
    NamedColumn,
    NodeColumn,
    named,
    resource,
)
from peewit.service.api.schemas.bodies_and_problems import refusing
from peewit.service.api.schemas.labels import LabelsIn
from peewit.service.api.served_home import GraphHere, HomeHere
from peewit.service.catalog import GraphNotFound
from peewit.service.jobs.job import UnknownJob
from peewit.service.operations.which import provenance
from peewit.service.predictions.evaluation import evaluate, evaluate_numbers
from peewit.service.predictions.left_out import NotCrossValidated
from peewit.service.predictions.store import PredictionsNotFound
from peewit.service.predictions.thresholds import (
    asked_threshold,
)
from peewit.service.problems import InvalidArgument
from peewit.service.tables.column_names import label_columns
from peewit.service.tables.uploads import BadUpload, TableTooLarge
from peewit.service.wire.evaluations import PredictionEvaluation

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
    home: HomeHere,
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
        job = home.predictions.find(graph, model=model, job_id=job_id, column=label_column)
        file = home.predictions.open(job)
        column = file.meta.label_column
        said = named(node=node, label=column or None if label is None else label)
        columns = label_columns(graph.settings.columns, said, into=column)
        truth = uploaded_labels(graph, home, body, columns)[column]
        labels = home.labels.current(graph.id, column=column, upto_seq=file.meta.labels_seq)
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

    async with home.label_tables, home.decoding.held(body.decoding_bytes):
        return await run_in_threadpool(evaluated)
