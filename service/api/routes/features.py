"""Routes of features: upload of tables, sparse matrices, status, and the smoothed ones."""

from functools import partial
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import Caller, CallerHere, requires
from peewit.service.api.bodies import (
    BodyTooLarge,
    BodyTypeUnknown,
    TableBody,
    TableUpload,
    body_schema,
)
from peewit.service.api.errors import problems
from peewit.service.api.long_poll import WaitSeconds, wait_until
from peewit.service.api.routes.query_parameters import ONE_GRAPH, NodeColumn, resource
from peewit.service.api.served_home import GraphHere, HomeHere, ServedHome
from peewit.service.api.tables import (
    ChosenFormat,
    FormatNotOffered,
    IfNoneMatch,
    not_modified,
    table_answer,
    table_response,
)
from peewit.service.catalog import GraphNotFound, GraphRecord
from peewit.service.inbox.feature_log import FeatureSetNotFound, FeatureSetRecord, SetMode
from peewit.service.inbox.feature_tables import table_blocks
from peewit.service.inbox.inbox_records import BacklogFull
from peewit.service.jobs.job import UnknownJob
from peewit.service.operations.features import feature_set_of, features_of
from peewit.service.tables.formats import encode
from peewit.service.tables.uploads import BadUpload, TableTooLarge
from peewit.service.tasks.filter import files_of
from peewit.service.wire.features import Features, FeatureSet
from peewit.streaming.edges.table_formats import Format
from peewit.streaming.features.checked_tables import NODE, BadFeatures
from peewit.streaming.features.store import FeaturesNotFound

router = resource("features", f"{ONE_GRAPH}/features")


def _room(graph: GraphHere, home: HomeHere) -> None:
    home.features.require_room(graph.id)


_TAKES: dict[str, Any] = {
    "dependencies": [requires("ingest"), Depends(_room)],
    "openapi_extra": body_schema(
        "Column `node` and either `features`, lists of equal length, or `indices` and `values`, "
        "one list of each; in CSV `node` and a column for each number."
    ),
    "responses": {
        HTTPStatus.OK: {"description": "The features are in the graph."},
        HTTPStatus.ACCEPTED: {"model": FeatureSet, "description": "The features are on disk."},
    }
    | problems(
        GraphNotFound,
        BodyTooLarge,
        BodyTypeUnknown,
        BadFeatures,
        BadUpload,
        TableTooLarge,
        BacklogFull,
    ),
}


@router.put("", **_TAKES)
async def put_features(
    request: Request,
    response: Response,
    graph: GraphHere,
    home: HomeHere,
    caller: CallerHere,
    body: TableBody,
    wait: WaitSeconds = 0,
    node: NodeColumn = None,
) -> FeatureSet:
    """Replace the features of all nodes; nodes that the graph does not know are created.

    The rows are checked, then written to disk and flushed: from the answer on they cannot be lost.
    202 while they wait, 200 once they are in the graph, for which `wait` can wait.
    """
    return await _take_set(request, response, home, caller, graph, body, wait, node, mode="replace")


@router.post("", **_TAKES)
async def add_features(
    request: Request,
    response: Response,
    graph: GraphHere,
    home: HomeHere,
    caller: CallerHere,
    body: TableBody,
    wait: WaitSeconds = 0,
    node: NodeColumn = None,
) -> FeatureSet:
    """Add rows, or overwrite those of the same nodes; the others stay. Answers as PUT does."""
    return await _take_set(request, response, home, caller, graph, body, wait, node, mode="add")


@router.get("", dependencies=[requires("read")], responses=problems(GraphNotFound))
def get_features(graph: GraphHere, home: HomeHere) -> Features:
    """The present version of the features, how many nodes have none, and what waits."""
    return features_of(home.features.status(graph))


@router.get(
    "/filtered",
    dependencies=[requires("read", streams=True)],
    response_class=StreamingResponse,
    responses=table_answer(
        "Columns `node` and `features`, a list of each; in CSV and NDJSON `f0`, `f1`, ... for its "
        "numbers. Headers name job, snapshot and features_version."
    )
    | {304: {"description": "The `ETag` in If-None-Match is that of these features."}}
    | problems(GraphNotFound, UnknownJob, FeaturesNotFound, FormatNotOffered),
)
def get_filtered_features(
    graph: GraphHere,
    home: HomeHere,
    table_format: ChosenFormat,
    job_id: Annotated[
        str | None, Query(alias="job", description="Those of this job; of the last otherwise.")
    ] = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Features of all nodes, smoothed along the edges by a job of kind `filter`."""
    files = files_of(home)
    job = files.find(graph, job_id)
    tag = f'"{job.id}-{table_format}"'
    unchanged = not_modified(tag, if_none_match)
    if unchanged is not None:
        return unchanged
    found = files.read(graph, job, home.nodes)
    is_flat = table_format in (Format.CSV, Format.NDJSON)
    return table_response(
        encode(found.schema(is_flat=is_flat), found.batches(is_flat=is_flat), table_format),
        table_format,
        name=f"{graph.settings.name}-filtered-features",
        headers={
            "Peewit-Job": job.id,
            "Peewit-Snapshot": str(found.snapshot),
            "Peewit-Features-Version": str(found.features_version),
            "ETag": tag,
        },
    )


@router.get(
    "/sets/{set_id}",
    dependencies=[requires("read", "ingest")],
    responses=problems(GraphNotFound, FeatureSetNotFound),
)
async def get_feature_set(
    request: Request,
    set_id: str,
    graph: GraphHere,
    home: HomeHere,
    caller: CallerHere,
    wait: WaitSeconds = 0,
) -> FeatureSet:
    """One set and what became of it; `wait` can wait until it is pending no more.

    A key that must not read sees its own.
    """
    look = partial(home.manifest.features.get, graph.id, set_id, owner=caller.only)
    return feature_set_of(await wait_until(request, look, seconds=wait))


async def _take_set(
    request: Request,
    response: Response,
    home: ServedHome,
    caller: Caller,
    graph: GraphRecord,
    body: TableUpload,
    wait: float,
    node: str | None,
    *,
    mode: SetMode,
) -> FeatureSet:
    def add() -> FeatureSetRecord:
        blocks = table_blocks(
            graph,
            body.file,
            body.table_format,
            node=node or graph.settings.columns.get(NODE, NODE),
            limits=home.upload_limits,
        )
        return home.features.add(graph, blocks, mode=mode, owner=caller.name)

    async with home.decoding.held(body.decoding_bytes):
        taken = await run_in_threadpool(add)
    if wait:
        look = partial(home.manifest.features.get, graph.id, taken.id)
        taken = await wait_until(request, look, seconds=wait)
    if taken.status == "refused":
        raise BadFeatures(
            taken.reason or "the set was refused",
            argument=taken.argument,
            row=taken.row,
            value=taken.value,
        )
    response.status_code = HTTPStatus.ACCEPTED if taken.status == "pending" else HTTPStatus.OK
    response.headers["Location"] = f"/v1/graphs/{graph.settings.name}/features/sets/{taken.id}"
    return feature_set_of(taken)
