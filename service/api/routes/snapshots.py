"""Snapshots: the sparsifier itself, for download."""

from typing import Annotated

from fastapi import Path, Response
from fastapi.responses import StreamingResponse

from peewit.service.api.auth import requires
from peewit.service.api.errors import problems
from peewit.service.api.routes.query_parameters import MAX_ID, ONE_GRAPH, resource
from peewit.service.api.served_home import GraphHere, HomeHere
from peewit.service.api.tables import (
    ChosenFormat,
    FormatNotOffered,
    IfNoneMatch,
    not_modified,
    table_answer,
    table_response,
)
from peewit.service.catalog import GraphNotFound
from peewit.service.graphs.export import snapshot_edges
from peewit.service.tables.formats import encode
from peewit.streaming.snapshots.store import SnapshotNotFound

router = resource("snapshots", f"{ONE_GRAPH}/snapshots")


@router.get(
    "/{number}/edges",
    dependencies=[requires("read", streams=True)],
    response_class=StreamingResponse,
    responses=table_answer("Columns `src`, `dst`, `weight`; each edge once.")
    | {304: {"description": "The `ETag` in If-None-Match is that of these edges."}}
    | problems(GraphNotFound, SnapshotNotFound, FormatNotOffered),
)
def get_snapshot_edges(
    number: Annotated[int, Path(ge=1, le=MAX_ID)],
    graph: GraphHere,
    home: HomeHere,
    table_format: ChosenFormat,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """The edges of a snapshot, with the ids that they came with."""
    erased = f"-{graph.erasures_seq}" if graph.erasures_seq else ""
    tag = f'"{graph.id}-{number}-{table_format}{erased}"'
    unchanged = not_modified(tag, if_none_match)
    if unchanged is not None:
        return unchanged
    edges = snapshot_edges(graph, home.settings.graphs_directory, home.nodes, number)
    return table_response(
        encode(edges.schema, edges.batches(), table_format),
        table_format,
        name=f"{graph.settings.name}-snapshot-{number}",
        headers={"Peewit-Snapshot": str(number), "ETag": tag},
    )
