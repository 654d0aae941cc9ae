"""Predictions judged by true labels, which a body brings."""

from functools import partial
from typing import Annotated

from fastapi import Query
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import CallerHere, requires
from peewit.service.api.bodies import (
    BodyTooLarge,
    BodyTypeUnknown,
    TableOrJsonBody,
    body_schema,
)
from peewit.service.api.errors import problems
from peewit.service.api.operation_routes import here_of
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
    resource,
)
from peewit.service.api.schemas.bodies_and_problems import refusing
from peewit.service.api.schemas.labels import LabelsIn
from peewit.service.api.served_home import GraphHere, HomeHere
from peewit.service.catalog import GraphNotFound
from peewit.service.jobs.job import UnknownJob
from peewit.service.operations.declaration import doc_of
from peewit.service.operations.judging import Goal, evaluation_of
from peewit.service.operations.which import Which
from peewit.service.predictions.left_out import NotCrossValidated
from peewit.service.predictions.store import PredictionsNotFound
from peewit.service.problems import InvalidArgument
from peewit.service.tables.uploads import BadUpload, TableTooLarge
from peewit.service.wire.evaluations import PredictionEvaluation

router = resource("predictions", ONE_GRAPH)


MinRecall = Annotated[float | None, Query(description=doc_of(Goal, "min_recall"))]
MinPrecision = Annotated[float | None, Query(description=doc_of(Goal, "min_precision"))]
CostFn = Annotated[float | None, Query(description=doc_of(Goal, "cost_fn"))]
CostFp = Annotated[float | None, Query(description=doc_of(Goal, "cost_fp"))]
PositiveShare = Annotated[float | None, Query(description=doc_of(Goal, "positive_share"))]


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
    caller: CallerHere,
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
        goal = Goal(
            min_recall=min_recall,
            min_precision=min_precision,
            cost_fn=cost_fn,
            cost_fp=cost_fp,
            positive_share=positive_share,
        )
        with refusing():
            return evaluation_of(
                here_of(home, caller),
                graph,
                Which(model=model, job=job_id, label_column=label_column),
                goal,
                partial(uploaded_labels, graph, home, body),
                node=node,
                label=label,
                top_k=top_k,
                positive=positive,
                threshold=threshold,
            )

    async with home.label_tables, home.decoding.held(body.decoding_bytes):
        return await run_in_threadpool(evaluated)
