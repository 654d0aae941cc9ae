"""What the routes work on: the stores of one home, and the graph that a path names."""

from dataclasses import dataclass
from typing import Annotated, Self

from fastapi import Depends, Path, Request
from prometheus_client import CollectorRegistry

from service.catalog import Catalog, GraphRecord
from service.database import Database
from service.estimating import Estimator
from service.feature_sets import FeatureSets
from service.job_queue import DatabaseJobQueue
from service.jobs import JobQueue
from service.keys import KeyStore
from service.known_nodes import KnownNodes
from service.labeling import Labeling
from service.labels import LabelStore
from service.manifest import Manifest
from service.metrics import store_registry
from service.predictions import PredictionStore
from service.pushes import PushStore
from service.reading import PredictionReader
from service.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """Everything behind the API; each field is the store of that name."""

    settings: Settings
    database: Database
    catalog: Catalog
    manifest: Manifest
    pushes: PushStore
    features: FeatureSets
    labels: LabelStore
    labeling: Labeling
    jobs: JobQueue
    estimator: Estimator
    predictions: PredictionReader
    nodes: KnownNodes
    keys: KeyStore
    metrics: CollectorRegistry

    @classmethod
    def create(cls, settings: Settings, database: Database) -> Self:
        """The stores in one database and one home."""
        manifest, labels, jobs = (
            Manifest(database),
            LabelStore(database),
            DatabaseJobQueue(database),
        )
        nodes = KnownNodes(settings.graphs_directory, manifest)
        return cls(
            settings=settings,
            database=database,
            catalog=Catalog(database),
            manifest=manifest,
            pushes=PushStore(
                manifest=manifest,
                graphs_directory=settings.graphs_directory,
                max_backlog_bytes=settings.max_backlog_bytes,
                max_total_backlog_bytes=settings.max_total_backlog_bytes,
            ),
            features=FeatureSets(
                manifest.features,
                settings.graphs_directory,
                max_backlog_bytes=settings.max_backlog_bytes,
            ),
            labels=labels,
            labeling=Labeling(database=database, labels=labels, nodes=nodes),
            jobs=jobs,
            estimator=Estimator(
                jobs=jobs,
                labels=labels,
                graphs_directory=settings.graphs_directory,
                memory_bytes=settings.child_memory_bytes,
            ),
            predictions=PredictionReader(
                store=PredictionStore(database, settings.graphs_directory), jobs=jobs, nodes=nodes
            ),
            nodes=nodes,
            keys=KeyStore(database),
            metrics=store_registry(database),
        )


def _stores(request: Request) -> Stores:
    stores: Stores = request.app.state.stores
    return stores


StoresHere = Annotated[Stores, Depends(_stores)]
"""The stores of the application."""


def _graph(
    graph: Annotated[str, Path(description="Name of the graph.")], stores: StoresHere
) -> GraphRecord:
    return stores.catalog.get(graph)


GraphHere = Annotated[GraphRecord, Depends(_graph)]
"""The graph that the path names."""
