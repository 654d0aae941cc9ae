"""Snapshots as people look at them: their edges, for download, and maps."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated

from peewit.service.catalog import GraphRecord
from peewit.service.graphs.export import snapshot_edges
from peewit.service.operations.answers import answer_of
from peewit.service.operations.declaration import Path, Query, operation
from peewit.service.operations.here import Here
from peewit.service.operations.sources_and_files import MAX_ID
from peewit.service.operations.tables import Pieces, Rows
from peewit.service.operations.which import OF_PREDICTIONS, LabelColumn
from peewit.service.predictions.colored_maps import MapNotFound
from peewit.service.predictions.map_tiles import CELLS_PER_SIDE
from peewit.service.tables.formats import encode
from peewit.service.wire.maps import Map, MapClass
from peewit.streaming.edges.table_formats import Format
from peewit.streaming.passes.node_map import LAST_ZOOM, TILE_POINTS
from peewit.streaming.snapshots.store import SnapshotNotFound


@operation(
    "GET /snapshots/{number}/edges",
    "read",
    raises=(SnapshotNotFound,),
    rows="Columns `src`, `dst`, `weight`; where edges have kinds also `relation`, with a row of a "
    "pair in each that joins it.",
    unchanged="The `ETag` in If-None-Match is that of these edges.",
    client="snapshot_edges",
)
def get_snapshot_edges(
    here: Here, graph: GraphRecord, number: Annotated[int, Path(ge=1, le=MAX_ID)]
) -> Rows:
    """The edges of a snapshot, with the ids that they came with."""

    def opened(chosen: Format) -> tuple[Pieces, Mapping[str, str]]:
        home = here.home
        edges = snapshot_edges(graph, home.settings.graphs_directory, home.nodes, number)
        headers = {"Peewit-Snapshot": str(number)}
        return encode(edges.schema, edges.batches(), chosen), headers

    erased = f"-{graph.erasures_seq}" if graph.erasures_seq else ""
    return Rows(
        name=f"{graph.settings.name}-snapshot-{number}",
        open=opened,
        tag=f"{graph.id}-{number}{erased}",
    )


@operation(
    "GET /map", "read", raises=(MapNotFound, *OF_PREDICTIONS), client="map", is_call_written=True
)
def get_map(
    here: Here,
    graph: GraphRecord,
    job: Annotated[str | None, Query("Those of this job.")] = None,
    label_column: LabelColumn = None,
) -> Map:
    """The map of a graph, which a job of kind map makes and the next one replaces.

    With the freshest predictions of the label column, or those of a job.
    """
    colored = here.home.maps.open(graph, job_id=job, column=label_column)
    meta = None if colored.file is None else colored.file.meta
    predicted = colored.colors.class_sizes
    sizes = (*predicted, *(0 for _ in colored.class_names[len(predicted) :]))
    classes = zip(colored.class_names, sizes, strict=True)
    return answer_of(
        Map,
        colored.map.meta,
        max_zoom=min(colored.map.meta.max_zoom, LAST_ZOOM),  # of maps from before finer cells
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
        label_column=(label_column if meta is None else meta.label_column) or None,
        labels_seq=colored.labels_seq,
        n_labeled=int(colored.labeled.size),
        n_contradicted=int(colored.is_contradicted.sum()),
        tag=colored.tag,
    )
