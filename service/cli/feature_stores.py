"""The features of graphs, for commands that need them: their files load pyarrow and more."""

from peewit.service.cli.session import Session
from peewit.service.inbox.feature_sets import FeatureSets


def feature_sets(session: Session) -> FeatureSets:
    """The features of the graphs."""
    settings = session.settings
    return FeatureSets(
        session.manifest.features,
        settings.graphs_directory,
        max_backlog_bytes=settings.max_backlog_bytes,
    )
