"""The stores of one home, each made when first asked for.

A command that only lists graphs loads no more than the catalog; a server asks for all of them.
"""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from peewit.service.catalog import Catalog, GraphRecord
    from peewit.service.database.engine import Database
    from peewit.service.database.read_cache import Recent
    from peewit.service.graphs.forgetting import Forgetting
    from peewit.service.graphs.known_nodes import KnownNodes
    from peewit.service.inbox.feature_sets import FeatureSets
    from peewit.service.inbox.manifest import Manifest
    from peewit.service.inbox.pushes import PushStore
    from peewit.service.jobs.queue import JobQueue
    from peewit.service.key_store import KeyStore
    from peewit.service.labels.label_entry import Labeling
    from peewit.service.labels.opinions import OpinionStore
    from peewit.service.labels.reservations import Reservations
    from peewit.service.labels.second_opinions import SecondOpinions
    from peewit.service.labels.store import LabelStore
    from peewit.service.predictions.colored_maps import Maps
    from peewit.service.predictions.questions import Questions
    from peewit.service.predictions.reader import PredictionReader
    from peewit.service.predictions.store import PredictionStore
    from peewit.service.predictions.suggestions import Suggester
    from peewit.service.settings import Settings
    from peewit.streaming.features.feature_files import SetShape
    from peewit.streaming.graph_paths import GraphPaths
    from peewit.streaming.snapshots.store import SnapshotStore


class Home:
    """One database and one directory, and every store in them by its name.

    Stores hold no state but caches: two homes on the same database see the same rows.
    """

    def __init__(self, database: "Database", settings: "Settings") -> None:
        self.database = database
        self.settings = settings

    @classmethod
    def open(cls, settings: "Settings | None" = None) -> Self:
        """The home that settings name, those of the environment by default; to be closed."""
        from peewit.service.database.engine import open_database
        from peewit.service.settings import Settings

        settings = settings or Settings()
        return cls(open_database(settings.database), settings)

    def close(self) -> None:
        """Close the connections."""
        if "recent" in vars(self):
            self.recent.close()
        self.database.close()

    # ------------------------------------------------------------------------- graphs and edges
    def graph(self, name: str) -> "GraphRecord":
        """The graph of a name; raises `GraphNotFound`."""
        return self.catalog.get(name)

    def directory(self, graph_id: str) -> Path:
        """Where a graph keeps its files."""
        return self.settings.graphs_directory / graph_id

    def paths(self, graph: "GraphRecord") -> "GraphPaths":
        """The files of a graph, by what they hold."""
        from peewit.streaming.graph_paths import GraphPaths

        return GraphPaths(root=self.directory(graph.id))

    def snapshots(self, graph: "GraphRecord") -> "SnapshotStore":
        """The snapshots of a graph."""
        from peewit.streaming.snapshots.store import SnapshotStore

        return SnapshotStore(self.paths(graph).snapshots)

    @cached_property
    def catalog(self) -> "Catalog":
        """The graphs."""
        from peewit.service.catalog import Catalog

        return Catalog(self.database, memory_bytes=self.settings.graph_memory_bytes)

    @cached_property
    def manifest(self) -> "Manifest":
        """Sources, files, and what waits for ingest."""
        from peewit.service.inbox.manifest import Manifest

        return Manifest(self.database)

    @cached_property
    def pushes(self) -> "PushStore":
        """Edges that came in requests."""
        from peewit.service.inbox.pushes import PushStore

        return PushStore(
            manifest=self.manifest,
            graphs_directory=self.settings.graphs_directory,
            max_backlog_bytes=self.settings.max_backlog_bytes,
            max_total_backlog_bytes=self.settings.max_total_backlog_bytes,
        )

    @cached_property
    def features(self) -> "FeatureSets":
        """Features of nodes, as they were given."""
        from peewit.service.graphs.table_notes import owners_note
        from peewit.service.inbox.feature_sets import FeatureSets
        from peewit.service.labels.feature_leaks import leaks_note

        def doubts(graph: "GraphRecord", path: Path, shape: "SetShape") -> str | None:
            notes = (
                leaks_note(self.labels, graph, path, shape),
                owners_note(graph, self.nodes, path),
            )
            return "; ".join(filter(None, notes)) or None

        return FeatureSets(
            self.manifest.feature_log,
            self.settings.graphs_directory,
            max_backlog_bytes=self.settings.max_backlog_bytes,
            doubts=doubts,
        )

    @cached_property
    def nodes(self) -> "KnownNodes":
        """Which nodes a graph has."""
        from peewit.service.graphs.known_nodes import KnownNodes

        return KnownNodes(self.settings.graphs_directory, self.manifest)

    @cached_property
    def forgetting(self) -> "Forgetting":
        """How nodes are erased."""
        from peewit.service.graphs.forgetting import Forgetting

        return Forgetting(
            log=self.manifest.erasures,
            nodes=self.nodes,
            home=self.settings.home,
            within_seconds=self.settings.erase_within,
        )

    # --------------------------------------------------------------------------------- labels
    @cached_property
    def labels(self) -> "LabelStore":
        """Labels that stand."""
        from peewit.service.labels.store import LabelStore

        return LabelStore(self.database)

    @cached_property
    def labeling(self) -> "Labeling":
        """How labels come in and go."""
        from peewit.service.labels.label_entry import Labeling

        return Labeling(database=self.database, labels=self.labels, nodes=self.nodes)

    @cached_property
    def opinions(self) -> "OpinionStore":
        """What each annotator says."""
        from peewit.service.labels.opinions import OpinionStore

        return OpinionStore(self.database)

    @cached_property
    def second_opinions(self) -> "SecondOpinions":
        """Where opinions of a second annotator go."""
        from peewit.service.labels.second_opinions import SecondOpinions

        return SecondOpinions(database=self.database, labeling=self.labeling, store=self.opinions)

    @cached_property
    def reservations(self) -> "Reservations":
        """Nodes that somebody is labeling."""
        from peewit.service.labels.reservations import Reservations

        return Reservations(self.database)

    @cached_property
    def questions(self) -> "Questions":
        """Who is asked about which node."""
        from peewit.service.predictions.questions import Questions

        return Questions(
            labels=self.labels,
            opinions=self.opinions,
            reservations=self.reservations,
            nodes=self.nodes,
            seconds=self.settings.reserve_seconds,
            share=self.settings.second_opinions,
        )

    # -------------------------------------------------------------------- jobs and predictions
    @cached_property
    def jobs(self) -> "JobQueue":
        """The queue."""
        from peewit.service.jobs.queue import JobQueue

        return JobQueue(self.database)

    @cached_property
    def prediction_files(self) -> "PredictionStore":
        """Files that solves have left."""
        from peewit.service.predictions.store import PredictionStore

        return PredictionStore(self.database, self.settings.graphs_directory)

    @cached_property
    def recent(self) -> "Recent":
        """Rows that were read a moment ago."""
        from peewit.service.database.read_cache import Recent

        return Recent(self.database)

    @cached_property
    def predictions(self) -> "PredictionReader":
        """What those files say, without erased nodes."""
        from peewit.service.predictions.reader import PredictionReader

        return PredictionReader(
            store=self.prediction_files, jobs=self.jobs, nodes=self.nodes, recent=self.recent
        )

    @cached_property
    def suggester(self) -> "Suggester":
        """Which nodes to label next."""
        from peewit.service.predictions.suggestions import Suggester

        return Suggester(
            labels=self.labels,
            predictions=self.predictions,
            graphs_directory=self.settings.graphs_directory,
        )

    @cached_property
    def maps(self) -> "Maps":
        """Drawings of graphs."""
        from peewit.service.predictions.colored_maps import Maps

        return Maps(self.predictions, self.labels, self.nodes, self.settings.graphs_directory)

    @cached_property
    def keys(self) -> "KeyStore":
        """Keys of the HTTP API."""
        from peewit.service.key_store import KeyStore

        return KeyStore(self.database)
