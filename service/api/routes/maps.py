"""Maps: where the nodes of a graph lie, and tiles of what is predicted there."""

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Path, Query, Response

from peewit.service.api.auth import requires
from peewit.service.api.errors import problems
from peewit.service.api.routes.predictions import JobId
from peewit.service.api.routes.query_parameters import ONE_GRAPH, NamedColumn, resource
from peewit.service.api.schemas.bodies_and_problems import refusing
from peewit.service.api.served_home import GraphHere, HomeHere, ServedHome
from peewit.service.api.tables import IfNoneMatch, not_modified
from peewit.service.catalog import GraphNotFound, GraphRecord
from peewit.service.jobs.job import UnknownJob
from peewit.service.operations.answers import answer_of
from peewit.service.predictions.colored_maps import MapNotFound
from peewit.service.predictions.map_tiles import (
    CELLS_PER_SIDE,
    MEDIA_TYPE,
    TilePlace,
    tile_bytes,
)
from peewit.service.predictions.store import PredictionsNotFound
from peewit.service.problems import InvalidArgument
from peewit.service.wire.maps import Map, MapClass
from peewit.streaming.passes.node_map import LAST_ZOOM, TILE_POINTS

router = resource("maps", f"{ONE_GRAPH}/map")

_PROBLEMS = problems(GraphNotFound, MapNotFound, UnknownJob, PredictionsNotFound, InvalidArgument)
_TILE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": " ".join((tile_bytes.__doc__ or "").split()),
        "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
    },
    304: {"description": "Nothing newer than the `ETag` in If-None-Match."},
}

MinDoubt = Annotated[
    float,
    Query(ge=0, le=1, description="Leave out nodes of less doubt, which is 1 minus the margin."),
]


@router.get("", dependencies=[requires("read")], responses=_PROBLEMS)
def get_map(
    graph: GraphHere,
    home: HomeHere,
    job_id: JobId = None,
    label_column: NamedColumn = None,
) -> Map:
    """The map of a graph, which a job of kind map makes and the next one replaces.

    With the freshest predictions of the label column, or those of a job.
    """
    return map_answer(graph, home, job_id=job_id, column=label_column)


@router.get(
    "/tiles/{z}/{x}/{y}",
    dependencies=[requires("read")],
    response_class=Response,
    responses=_TILE | _PROBLEMS,
)
def get_map_tile(
    z: Annotated[int, Path(ge=0, le=LAST_ZOOM, description="Zoom: 2^z tiles a side.")],
    x: Annotated[int, Path(ge=0, lt=1 << LAST_ZOOM, description="Column, from the left.")],
    y: Annotated[int, Path(ge=0, lt=1 << LAST_ZOOM, description="Line, from above.")],
    graph: GraphHere,
    home: HomeHere,
    job_id: JobId = None,
    label_column: NamedColumn = None,
    min_doubt: MinDoubt = 0.0,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """One square of the map in compact form: its nodes, or how many are where and of what class."""
    with refusing():
        place = TilePlace(zoom=z, column=x, line=y, min_doubt=min_doubt)
    colored = home.maps.open(graph, job_id=job_id, column=label_column)
    tag = f'"{colored.tag}-{z}-{x}-{y}-{min_doubt}"'
    unchanged = not_modified(tag, if_none_match)
    if unchanged is not None:
        return unchanged
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    return Response(tile_bytes(colored, place), media_type=MEDIA_TYPE, headers=headers)


def map_answer(
    graph: GraphRecord, home: ServedHome, *, job_id: str | None = None, column: str | None = None
) -> Map:
    """What people see of the map of a graph; raises as `Maps.open`."""
    colored = home.maps.open(graph, job_id=job_id, column=column)
    meta = None if colored.file is None else colored.file.meta
    predicted = colored.colors.class_sizes
    sizes = (*predicted, *(0 for _ in colored.class_names[len(predicted) :]))
    classes = zip(colored.class_names, sizes, strict=True)
    return answer_of(
        Map,
        colored.map.meta,
        newest_snapshot=graph.progress.snapshot,
        made_at=datetime.fromtimestamp(colored.map.meta.made_at, UTC),
        tile_points=TILE_POINTS,
        cells_per_side=CELLS_PER_SIDE,
        predicts=colored.colors.kind,
        classes=tuple(MapClass(label=label, n_nodes=size) for label, size in classes),
        job=None if meta is None else meta.job_id,
        model=None if meta is None else meta.model,
        predicted_snapshot=None if meta is None else meta.snapshot,
        predicted_labels_seq=None if meta is None else meta.labels_seq,
        label_column=(column if meta is None else meta.label_column) or None,
        labels_seq=colored.labels_seq,
        n_labeled=int(colored.labeled.size),
        tag=colored.tag,
    )
