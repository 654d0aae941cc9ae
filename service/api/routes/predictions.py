"""Predictions: the whole table, one node, or some nodes."""

from typing import Annotated, Any

from fastapi import Query, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import requires
from peewit.service.api.errors import problems
from peewit.service.api.json_response import json_response
from peewit.service.api.routes.query_parameters import ONE_GRAPH, resource
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
from peewit.service.predictions.prediction_files import Prediction, PredictionFile
from peewit.service.predictions.reader import NodeNotFound, NodeNotPredicted, PredictionReader
from peewit.service.predictions.store import PredictionsNotFound
from peewit.service.tables.formats import encode
from peewit.service.tables.uploads import BadUpload, NodeId, node_id
from peewit.service.wire.predictions import Lookup, NodePrediction
from peewit.streaming.edges.table_formats import Format

router = resource("predictions", ONE_GRAPH)

Model = Annotated[str | None, Query(description="Its latest predictions; of any model otherwise.")]
JobId = Annotated[str | None, Query(alias="job", description="Those of this job.")]


@router.get(
    "/predictions",
    dependencies=[requires("read", streams=True)],
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
    if_none_match: IfNoneMatch = None,
) -> Response:
    """All predictions, as a table; the freshest unless a job is named."""
    job = stores.predictions.find(graph, model=model, job_id=job_id)
    tag = f'"{job.id}-{job.attempt}-{table_format}"'
    unchanged = not_modified(tag, if_none_match)
    if unchanged is not None:
        return unchanged
    file = stores.predictions.open(job)
    is_as_stored = table_format is Format.ARROW
    return table_response(
        file.stream() if is_as_stored else encode(file.schema, file.batches(), table_format),
        table_format,
        name=f"{graph.settings.name}-predictions",
        headers={"ETag": tag, **provenance_headers(file.meta)},
    )


@router.get(
    "/predictions/node",
    dependencies=[requires("read")],
    response_model=NodePrediction,
    responses=problems(
        GraphNotFound, UnknownJob, PredictionsNotFound, NodeNotFound, NodeNotPredicted, BadUpload
    ),
)
async def get_prediction(
    graph: GraphHere,
    stores: StoresHere,
    node: Annotated[str, Query(alias="id", description="External id of the node.")],
    model: Model = None,
    job_id: JobId = None,
) -> Response:
    """The prediction of one node."""
    asked = node_id(node, graph.settings.node_ids, name="id")
    reader = stores.predictions
    # Changing over to a thread and back takes as long as all the rest.
    told = reader.cached(graph, asked, model=model, job_id=job_id)
    if told is None:
        told = await run_in_threadpool(_read_one, reader, graph, asked, model, job_id)
    file, prediction = told
    return json_response({**_provenance(file), "prediction": prediction})


@router.post(
    "/predictions:lookup",
    dependencies=[requires("read")],
    response_model=Lookup,
    responses=problems(GraphNotFound, UnknownJob, PredictionsNotFound, BadUpload),
)
def look_up_predictions(
    body: LookupIn,
    graph: GraphHere,
    stores: StoresHere,
    model: Model = None,
    job_id: JobId = None,
) -> Response:
    """The predictions of some nodes; those that have none are named."""
    asked = [
        node_id(node, graph.settings.node_ids, name="nodes", row=row)
        for row, node in enumerate(body.nodes)
    ]
    file = stores.predictions.open(stores.predictions.find(graph, model=model, job_id=job_id))
    found = stores.predictions.lookup(graph, file, asked)
    return json_response(
        {
            **_provenance(file),
            "predictions": found.predictions,
            "newer": found.newer,
            "unknown": found.unknown,
        }
    )


def _read_one(
    reader: PredictionReader,
    graph: GraphRecord,
    node: NodeId,
    model: str | None,
    job_id: str | None,
) -> tuple[PredictionFile, Prediction]:
    file = reader.open(reader.find(graph, model=model, job_id=job_id))
    return file, reader.one(graph, file, node)


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
    }
