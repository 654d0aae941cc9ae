"""Predictions: the whole table, one node, some nodes."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Query, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import requires
from peewit.service.api.errors import problems
from peewit.service.api.json_response import json_response
from peewit.service.api.routes.query_parameters import (
    MAX_ID,
    ONE_GRAPH,
    NamedColumn,
    PageSize,
    resource,
)
from peewit.service.api.schemas.bodies_and_problems import refusing
from peewit.service.api.schemas.predictions import LookupIn
from peewit.service.api.served_home import GraphHere, HomeHere
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
from peewit.service.operations.which import provenance
from peewit.service.predictions.filtered_rows import RowFilter, rows
from peewit.service.predictions.label_sets import LabelSets, SetsNotKept
from peewit.service.predictions.prediction_files import Prediction, PredictionFile
from peewit.service.predictions.reader import NodeNotFound, NodeNotPredicted, PredictionReader
from peewit.service.predictions.store import PredictionsNotFound
from peewit.service.predictions.thresholds import (
    asked_threshold,
    with_threshold,
)
from peewit.service.problems import InvalidArgument
from peewit.service.tables.formats import encode
from peewit.service.tables.uploads import BadUpload, NodeId, node_id
from peewit.service.wire.predictions import Lookup, NodePrediction, PredictionRows
from peewit.streaming.edges.table_formats import Format

router = resource("predictions", ONE_GRAPH)

Model = Annotated[str | None, Query(description="Its latest predictions; of any model otherwise.")]
JobId = Annotated[str | None, Query(alias="job", description="Those of this job.")]
Positive = Annotated[str | None, Query(description="The class that the threshold decides.")]
ThresholdValue = Annotated[
    float | None, Query(description="A node is of the class where its score is at least that.")
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
        "Columns `node`, `label`, `score`, `margin`, `reachable`, `variance` and `stability` if "
        "they were asked for and, unless there are many classes, `score:<class>`, which are called "
        "`probability` and `probability:<class>` where they are; `p_value:<class>` of jobs with "
        "`sets`, and with `coverage` also `labels` and `certain`; headers name job, "
        "snapshot and labels_seq."
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
    home: HomeHere,
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
    job = home.predictions.find(graph, model=model, job_id=job_id, column=label_column)
    decided = "" if positive is None else f"-{quote(positive)}-{threshold}"
    decided += "" if coverage is None else f"-{coverage}"
    erased = f"-{graph.erasures_seq}" if graph.erasures_seq else ""
    tag = f'"{job.id}-{job.attempt}-{table_format}{decided}{erased}"'
    unchanged = not_modified(tag, if_none_match)
    if unchanged is not None:
        return unchanged
    file = home.predictions.open(job)
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
    home: HomeHere,
    node: Annotated[str, Query(alias="id", description="External id of the node.")],
    model: Model = None,
    job_id: JobId = None,
    label_column: NamedColumn = None,
    coverage: Coverage = None,
) -> Response:
    """The prediction of one node."""
    asked = node_id(node, graph.settings.node_ids, name="id")
    reader = home.predictions
    # Changing over to a thread and back takes as long as all the rest.
    told = reader.cached(graph, asked, model=model, job_id=job_id, column=label_column)
    if told is None:
        told = await run_in_threadpool(_read_one, reader, graph, asked, model, job_id, label_column)
    file, prediction = told
    return json_response(
        {**provenance(file), "prediction": _with_sets(file, [prediction], coverage)[0]}
    )


@router.get(
    "/predictions/rows",
    dependencies=[requires("read")],
    response_model=PredictionRows,
    responses=problems(GraphNotFound, UnknownJob, PredictionsNotFound, InvalidArgument),
)
def get_prediction_rows(
    graph: GraphHere,
    home: HomeHere,
    label: Annotated[str | None, Query(description="Only nodes predicted so.")] = None,
    margin_below: Annotated[
        float | None, Query(ge=0, description="Only nodes whose two best classes are closer.")
    ] = None,
    score_from: Annotated[
        float | None, Query(description="Only nodes whose score is no less.")
    ] = None,
    first: Annotated[
        int, Query(ge=0, le=MAX_ID, description="Where to begin: `next_row` of the page before.")
    ] = 0,
    limit: PageSize = 100,
    model: Model = None,
    job_id: JobId = None,
    label_column: NamedColumn = None,
) -> Response:
    """A page of predictions, all or some, in the order of the file.

    Name the `job` of the first page in the next ones: a new one may come in between.
    """
    job = home.predictions.find(graph, model=model, job_id=job_id, column=label_column)
    file = home.predictions.open(job)
    with refusing():
        wanted = RowFilter.of_arguments(
            file, label=label, margin_below=margin_below, score_from=score_from
        )
    found, next_row = rows(file, wanted, first=first, limit=limit)
    return json_response(
        {**provenance(file), "predictions": file.lookup(found), "next_row": next_row}
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
    home: HomeHere,
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
    file = home.predictions.open(
        home.predictions.find(graph, model=model, job_id=job_id, column=label_column)
    )
    found = home.predictions.lookup(graph, file, asked)
    return json_response(
        {
            **provenance(file),
            "predictions": _with_sets(file, found.predictions, coverage),
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
