"""Tiles of maps: what is predicted where."""

from gzip import compress
from typing import Annotated, Any

from fastapi import Path, Query, Request, Response

from peewit.service.api.auth import requires
from peewit.service.api.errors import problems
from peewit.service.api.routes.query_parameters import resource
from peewit.service.api.schemas.bodies_and_problems import refusing
from peewit.service.api.served_home import GraphHere, HomeHere
from peewit.service.api.tables import IfNoneMatch, not_modified
from peewit.service.catalog import GraphNotFound
from peewit.service.jobs.job import UnknownJob
from peewit.service.operations.declaration import doc_of
from peewit.service.operations.which import Which
from peewit.service.predictions.colored_maps import MapNotFound
from peewit.service.predictions.map_tiles import MEDIA_TYPE, TilePlace, tile_bytes
from peewit.service.predictions.store import PredictionsNotFound
from peewit.service.problems import InvalidArgument
from peewit.streaming.passes.node_map import LAST_ZOOM

router = resource("maps", "/v1/graphs/{graph}/map")

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
    request: Request,
    job_id: Annotated[str | None, Query(alias="job", description="Those of this job.")] = None,
    label_column: Annotated[
        str | None, Query(min_length=1, description=doc_of(Which, "label_column"))
    ] = None,
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
    headers = {"ETag": tag, "Cache-Control": "private, no-cache", "Vary": "Accept-Encoding"}
    content = tile_bytes(colored, place)
    if "gzip" in request.headers.get("accept-encoding", ""):
        content, headers["Content-Encoding"] = compress(content, 1), "gzip"
    return Response(content, media_type=MEDIA_TYPE, headers=headers)
