"""Reading of live sources during ingest: into the stores of edges, labels and features."""

from peewit.service.graphs.live_features import FeatureIntake
from peewit.service.home import Home
from peewit.service.inbox.live_reader import LiveReader
from peewit.service.labels.live_labels import LabelIntake


def live_reader(home: Home, *, chunk_rows: int | None = None) -> LiveReader:
    """A reader of live sources of every content; ``chunk_rows`` as of `LiveReader`."""
    return LiveReader(
        home.manifest,
        home.catalog,
        home.settings,
        intakes={
            "labels": LabelIntake(home.labels, home.nodes),
            "features": FeatureIntake(home.manifest.feature_log, home.nodes, home.settings),
        },
        chunk_rows=chunk_rows,
    )
