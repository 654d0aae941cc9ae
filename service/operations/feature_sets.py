"""Features of the nodes, and the sets that they came in."""

from typing import Annotated, Any, Final

from peewit.service.catalog import GraphRecord
from peewit.service.inbox.feature_log import FeatureSetNotFound, SetMode
from peewit.service.inbox.feature_tables import table_blocks
from peewit.service.inbox.inbox_records import BacklogFull
from peewit.service.inbox.typed_graphs import kinds_named, typed_graph
from peewit.service.jobs.job import UnknownJob
from peewit.service.operations.declaration import Path, Query, Table, operation
from peewit.service.operations.features import feature_set_of, features_of
from peewit.service.operations.here import Here
from peewit.service.operations.tables import Pieces, Rows, TableUpload
from peewit.service.tables.column_names import column_wishes
from peewit.service.tables.formats import encode
from peewit.service.tasks.filter import files_of
from peewit.service.wire.features import Features, FeatureSet
from peewit.streaming.edges.reading_options import NodelessRows
from peewit.streaming.edges.table_formats import Format
from peewit.streaming.features.checked_tables import NODE, BadFeatures
from peewit.streaming.features.encoding import ColumnWishes
from peewit.streaming.features.store import FeaturesNotFound

FeatureRows = Annotated[
    TableUpload,
    Table(
        "Column `node` and either `features`, lists of equal length, or `indices` and `values`, "
        "one list of each; in CSV `node` and a column for each number."
    ),
]
NodeColumn = Annotated[str | None, Query("Column of the node; the graph's otherwise.")]
TextColumns = Annotated[
    str | None,
    Query("Columns of texts, with commas between: their words become features, by a hash."),
]
UnwantedColumns = Annotated[
    str | None,
    Query("Columns that become no features, with commas between, as one that holds the label."),
]
NodelessFeatures = Annotated[
    NodelessRows, Query("Rows that name no node: refuse the table, or leave them out and say so.")
]


@operation("GET /features", "read", client="features")
def get_features(here: Here, graph: GraphRecord) -> Features:
    """The present version of the features, how many nodes have none, and what waits."""
    return features_of(here.home.features.status(graph))


@operation(
    "GET /features/sets/{set_id}",
    "read",
    "ingest",
    raises=(FeatureSetNotFound,),
    client="feature_set",
    refused=BadFeatures,
)
def get_feature_set(here: Here, graph: GraphRecord, set_id: Annotated[str, Path()]) -> FeatureSet:
    """One set and what became of it; `wait` can wait until it is pending no more.

    A key that must not read sees its own.
    """
    return feature_set_of(here.home.manifest.feature_log.get(graph.id, set_id, owner=here.only))


_TAKES: Final[dict[str, Any]] = {
    "raises": (BadFeatures, BacklogFull),
    "location": "/graphs/{graph}/features/sets/{answer.id}",
    "follow": get_feature_set,
    "refused": BadFeatures,
    "room": "features",
}


@operation("PUT /features", "ingest", **_TAKES)
def put_features(
    here: Here,
    graph: GraphRecord,
    rows: FeatureRows,
    node: NodeColumn = None,
    text: TextColumns = None,
    without: UnwantedColumns = None,
    missing_ids: NodelessFeatures = "refuse",
) -> FeatureSet:
    """Replace the features of all nodes; nodes that the graph does not know are created.

    The rows are checked, then written to disk and flushed: from the answer on they cannot be lost.
    202 while they wait, 200 once they are in the graph, for which `wait` can wait.
    """
    return _taken(here, graph, rows, node, column_wishes(text, without, missing_ids), "replace")


@operation("POST /features", "ingest", **_TAKES)
def add_features(
    here: Here,
    graph: GraphRecord,
    rows: FeatureRows,
    node: NodeColumn = None,
    text: TextColumns = None,
    without: UnwantedColumns = None,
    missing_ids: NodelessFeatures = "refuse",
) -> FeatureSet:
    """Add rows, or overwrite those of the same nodes; the others stay. Answers as PUT does."""
    return _taken(here, graph, rows, node, column_wishes(text, without, missing_ids), "add")


@operation(
    "GET /features/filtered",
    "read",
    raises=(UnknownJob, FeaturesNotFound),
    client="filtered_features",
    rows="Columns `node` and `features`, a list of each; in CSV and NDJSON `f0`, `f1`, ... for its "
    "numbers. Headers name job, snapshot and features_version.",
    unchanged="The `ETag` in If-None-Match is that of these features.",
)
def get_filtered_features(
    here: Here,
    graph: GraphRecord,
    job: Annotated[str | None, Query("Those of this job, else those of the last.")] = None,
) -> Rows:
    """Features of all nodes, smoothed along the edges by a job of kind `filter`."""
    files = files_of(here.home)
    made_by = files.find(graph, job)

    def opened(chosen: Format) -> tuple[Pieces, dict[str, str]]:
        features = files.read(graph, made_by, here.home.nodes)
        is_flat = chosen in (Format.CSV, Format.NDJSON)
        schema, batches = features.schema(is_flat=is_flat), features.batches(is_flat=is_flat)
        return encode(schema, batches, chosen), {
            "Peewit-Job": made_by.id,
            "Peewit-Snapshot": str(features.snapshot),
            "Peewit-Features-Version": str(features.features_version),
        }

    return Rows(name=f"{graph.settings.name}-filtered-features", open=opened, tag=made_by.id)


def _taken(
    here: Here,
    graph: GraphRecord,
    rows: TableUpload,
    node: str | None,
    wishes: ColumnWishes,
    mode: SetMode,
) -> FeatureSet:
    column = node or graph.settings.columns.get(NODE, NODE)
    graph = typed_graph(here.home.database, graph, kinds_named({NODE: column}))
    blocks = table_blocks(
        graph,
        rows.file,
        rows.table_format,
        node=column,
        encoding=here.home.features.encoding(graph) if mode == "add" else None,
        wishes=wishes,
        limits=rows.limits,
    )
    return feature_set_of(here.home.features.add(graph, blocks, mode=mode, owner=here.owner))
