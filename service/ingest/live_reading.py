"""Reading of live sources during ingest: into the stores of edges, labels and features."""

from peewit.service.catalog import Catalog
from peewit.service.database.engine import Database
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.graphs.live_features import FeatureIntake
from peewit.service.inbox.live_reader import LiveReader
from peewit.service.inbox.manifest import Manifest
from peewit.service.labels.live_labels import LabelIntake
from peewit.service.labels.store import LabelStore
from peewit.service.settings import Settings


def live_reader(
    database: Database, settings: Settings, *, chunk_rows: int | None = None
) -> LiveReader:
    """A reader of live sources of every content; ``chunk_rows`` as of `LiveReader`."""
    manifest = Manifest(database)
    nodes = KnownNodes(settings.graphs_directory, manifest)
    return LiveReader(
        manifest,
        Catalog(database),
        settings,
        intakes={
            "labels": LabelIntake(LabelStore(database), nodes),
            "features": FeatureIntake(manifest.features, nodes, settings),
        },
        chunk_rows=chunk_rows,
    )
