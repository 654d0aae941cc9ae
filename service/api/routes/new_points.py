"""New points through the model of a job."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends
from fastapi.responses import StreamingResponse

from peewit.service.api.auth import requires
from peewit.service.api.bodies import (
    BodyTooLarge,
    BodyTypeUnknown,
    JsonUpload,
    TableOrJsonBody,
    TableUpload,
    body_schema,
)
from peewit.service.api.errors import problems
from peewit.service.api.routes.query_parameters import resource
from peewit.service.api.schemas.predictions import PointsIn
from peewit.service.api.served_home import HomeHere
from peewit.service.api.tables import (
    ChosenFormat,
    FormatNotOffered,
    provenance_headers,
    table_answer,
    table_response,
)
from peewit.service.jobs.job import UnknownJob
from peewit.service.predictions.checked_points import checked_points
from peewit.service.predictions.predictors import JobNotSucceeded, NotInductive, predictor_of
from peewit.service.predictions.store import PredictionsNotFound
from peewit.service.tables.formats import encode
from peewit.service.tables.uploads import (
    BadUpload,
    TableTooLarge,
    json_point_batches,
    point_batches,
)
from peewit.streaming.features.checked_tables import BadFeatures

router = resource("predictions", "/v1")


async def _held(body: TableOrJsonBody, home: HomeHere) -> AsyncIterator[TableUpload | JsonUpload]:
    async with home.decoding.held(body.decoding_bytes):
        yield body


HeldBody = Annotated[TableUpload | JsonUpload, Depends(_held)]
"""A body whose points stay in memory until the answer is sent."""


@router.post(
    "/jobs/{job_id}:predict",
    dependencies=[requires("read", streams=True)],
    response_class=StreamingResponse,
    openapi_extra=body_schema(
        "Column `features`, lists of as many numbers as the model was trained on, or `indices` and "
        "`values`, one list of each; in CSV a column for each number. A column `node` is ignored. "
        "In JSON and NDJSON also `edges` to nodes, for a job of `filtered-ridge`.",
        json=PointsIn,
    ),
    responses=table_answer(
        "A row for each point, in order: `label`, `score`, `margin` and, unless there are many "
        "classes, `score:<class>`; headers name job, snapshot, labels_seq and features_version."
    )
    | problems(
        UnknownJob,
        PredictionsNotFound,
        JobNotSucceeded,
        NotInductive,
        BodyTooLarge,
        BodyTypeUnknown,
        BadFeatures,
        BadUpload,
        TableTooLarge,
        FormatNotOffered,
    ),
)
def predict_points(
    job_id: str, home: HomeHere, body: HeldBody, table_format: ChosenFormat
) -> StreamingResponse:
    """Predict points that are no nodes of the graph; the model must have worked on features."""
    job = home.jobs.get(job_id)
    predictor = predictor_of(home.predictions.store, job)
    graph = home.catalog.get_by_id(job.graph_id)
    node_kind, limits = graph.settings.node_ids, home.upload_limits
    if isinstance(body, TableUpload):
        batches = point_batches(body.file, body.table_format, node_kind, limits=limits)
    else:
        batches = json_point_batches(body.rows("points", '{"features": [...]}'), node_kind)
    points = checked_points(
        batches,
        n_columns=predictor.n_columns,
        model=predictor.meta.model,
        neighbors=predictor.neighbors(graph, home.nodes),
    )
    return table_response(
        encode(predictor.schema, predictor.batches(points), table_format),
        table_format,
        name=f"job-{job_id}-points",
        headers=provenance_headers(predictor.meta),
    )
