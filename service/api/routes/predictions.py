"""Predictions: the whole table, one node, or some nodes."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Header, Query, Response
from fastapi.responses import StreamingResponse

from service.api.auth import requires
from service.api.errors import problems
from service.api.routes.common import ONE_GRAPH, resource
from service.api.schemas.predictions import LookupIn, LookupOut, NodePrediction, Provenance
from service.api.stores import GraphHere, StoresHere
from service.api.tables import (
    ChosenFormat,
    FormatNotOffered,
    provenance_headers,
    table_answer,
    table_response,
)
from service.catalog import GraphNotFound
from service.formats import Format, encode
from service.jobs import Job, UnknownJob
from service.predictions import PredictionFile, PredictionsNotFound
from service.reading import NodeNotFound, NodeNotPredicted
from service.uploads import BadUpload, node_id

router = resource("predictions", ONE_GRAPH)

Model = Annotated[str | None, Query(description="Its latest predictions; of any model otherwise.")]
JobId = Annotated[str | None, Query(alias="job", description="Those of this job.")]


@router.get(
    "/predictions",
    dependencies=[requires("read")],
    response_class=StreamingResponse,
    responses=table_answer(
        "Columns `node`, `label`, `score`, `margin`, `reachable`, `variance` if it was asked for "
        "and, unless there are many classes, `score:<class>`; headers name job, snapshot and "
        "labels_seq."
    )
    | {304: {"description": "Nothing newer than the `ETag` in If-None-Match."}}
    | problems(GraphNotFound, UnknownJob, PredictionsNotFound, FormatNotOffered),
)
def get_predictions(
    graph: GraphHere,
    stores: StoresHere,
    table_format: ChosenFormat,
    model: Model = None,
    job_id: JobId = None,
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """All predictions, as a table; the freshest unless a job is named."""
    job = stores.predictions.find(graph, model=model, job_id=job_id)
    tag = _entity_tag(job, table_format)
    if if_none_match is not None and tag in {each.strip() for each in if_none_match.split(",")}:
        return Response(
            status_code=HTTPStatus.NOT_MODIFIED, headers={"ETag": tag, "Vary": "Accept"}
        )
    file = stores.predictions.open(job)
    return table_response(
        encode(file.schema, file.batches(), table_format),
        table_format,
        name=f"{graph.settings.name}-predictions",
        headers={"ETag": tag, **provenance_headers(file.meta)},
    )


@router.get(
    "/predictions/node",
    dependencies=[requires("read")],
    responses=problems(
        GraphNotFound, UnknownJob, PredictionsNotFound, NodeNotFound, NodeNotPredicted, BadUpload
    ),
)
def get_prediction(
    graph: GraphHere,
    stores: StoresHere,
    node: Annotated[str, Query(alias="id", description="External id of the node.")],
    model: Model = None,
    job_id: JobId = None,
) -> NodePrediction:
    """The prediction of one node."""
    asked = node_id(node, graph.settings.node_ids, name="id")
    file = stores.predictions.open(stores.predictions.find(graph, model=model, job_id=job_id))
    return NodePrediction.of(_provenance(file), stores.predictions.one(graph, file, asked))


@router.post(
    "/predictions:lookup",
    dependencies=[requires("read")],
    responses=problems(GraphNotFound, UnknownJob, PredictionsNotFound, BadUpload),
)
def look_up_predictions(
    body: LookupIn,
    graph: GraphHere,
    stores: StoresHere,
    model: Model = None,
    job_id: JobId = None,
) -> LookupOut:
    """The predictions of some nodes; those that have none are named."""
    asked = [
        node_id(node, graph.settings.node_ids, name="nodes", row=row)
        for row, node in enumerate(body.nodes)
    ]
    file = stores.predictions.open(stores.predictions.find(graph, model=model, job_id=job_id))
    return LookupOut.of(_provenance(file), stores.predictions.lookup(graph, file, asked))


def _entity_tag(job: Job, table_format: Format) -> str:
    return f'"{job.id}-{job.attempt}-{table_format}"'


def _provenance(file: PredictionFile) -> Provenance:
    meta = file.meta
    return Provenance(
        job=meta.job_id,
        model=meta.model,
        snapshot=meta.snapshot,
        labels_seq=meta.labels_seq,
        features_version=meta.features_version,
        solver_status=meta.solver_status,
        refined=bool(meta.stats.get("refined")),
        score=meta.score,
    )
