"""Stores that the routes work on, of one home, and the graph that a path names."""

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Annotated, Final, Self, TypeVar

from fastapi import Depends, Path, Request
from prometheus_client import CollectorRegistry
from starlette.concurrency import run_in_threadpool

from peewit.service.api.decoding_budget import DecodingBudget
from peewit.service.api.key_store import KeyStore
from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.database.engine import Database
from peewit.service.database.read_cache import Recent
from peewit.service.graphs.forgetting import Forgetting
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.service.inbox.feature_sets import FeatureSets
from peewit.service.inbox.manifest import Manifest
from peewit.service.inbox.pushes import PushStore
from peewit.service.jobs.queue import JobQueue
from peewit.service.labels.label_entry import Labeling
from peewit.service.labels.opinions import OpinionStore
from peewit.service.labels.reservations import Reservations
from peewit.service.labels.second_opinions import SecondOpinions
from peewit.service.labels.store import LabelStore
from peewit.service.metrics.store_metrics import store_registry
from peewit.service.predictions.colored_maps import Maps
from peewit.service.predictions.questions import Questions
from peewit.service.predictions.reader import PredictionReader
from peewit.service.predictions.suggestions import Suggester
from peewit.service.settings import Settings
from peewit.service.tables.uploads import UploadLimits
from peewit.service.tasks.kind_list import KINDS
from peewit.service.tasks.stores import JobStores
from peewit.streaming.graph_paths import GraphPaths

_Value = TypeVar("_Value")


_LABEL_TABLES: Final = 2
"""Tables of labels that one process decodes and stores at a time; others wait on the disk.

A million labels take some 300 MB as Python values, and threads enough for 40 of them are there.
"""

_SUGGESTIONS: Final = 2
"""Answers with suggestions that one process makes at a time; each takes a processor a while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """Everything behind the API; each field is the store of that name.

    ``decoding`` is to be held while a body is decoded, ``label_tables`` also while a table of
    labels is in memory, ``suggestions`` while some are chosen.
    """

    settings: Settings
    upload_limits: UploadLimits
    database: Database
    catalog: Catalog
    manifest: Manifest
    pushes: PushStore
    features: FeatureSets
    labels: LabelStore
    labeling: Labeling
    opinions: OpinionStore
    second_opinions: SecondOpinions
    reservations: Reservations
    questions: Questions
    jobs: JobQueue
    job_stores: JobStores
    predictions: PredictionReader
    suggester: Suggester
    maps: Maps
    nodes: KnownNodes
    forgetting: Forgetting
    keys: KeyStore
    metrics: CollectorRegistry
    recent: Recent
    decoding: DecodingBudget
    label_tables: asyncio.Semaphore
    suggestions: asyncio.Semaphore

    @classmethod
    def create(cls, settings: Settings, database: Database) -> Self:
        """The stores in one database and one home."""
        job_stores = JobStores.create(database, settings)
        manifest, labels, jobs = job_stores.manifest, job_stores.labels, job_stores.queue
        nodes = KnownNodes(settings.graphs_directory, manifest)
        recent = Recent(database)
        predictions = PredictionReader(
            store=job_stores.predictions, jobs=jobs, nodes=nodes, recent=recent
        )
        labeling = Labeling(database=database, labels=labels, nodes=nodes)
        opinions, reservations = OpinionStore(database), Reservations(database)
        return cls(
            settings=settings,
            upload_limits=UploadLimits(
                rows=settings.max_body_rows,
                label_rows=settings.max_label_rows,
                columns=settings.max_columns,
                decoded_bytes=settings.max_decoded_bytes,
                batch_bytes=settings.max_body_bytes,
            ),
            database=database,
            catalog=Catalog(database, memory_bytes=settings.graph_memory_bytes),
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
            labeling=labeling,
            opinions=opinions,
            second_opinions=SecondOpinions(database=database, labeling=labeling, store=opinions),
            reservations=reservations,
            questions=Questions(
                labels=labels,
                opinions=opinions,
                reservations=reservations,
                nodes=nodes,
                seconds=settings.reserve_seconds,
                share=settings.second_opinions,
            ),
            jobs=jobs,
            job_stores=job_stores,
            predictions=predictions,
            suggester=Suggester(
                labels=labels,
                predictions=predictions,
                graphs_directory=settings.graphs_directory,
            ),
            maps=Maps(predictions, labels, nodes, settings.graphs_directory),
            nodes=nodes,
            forgetting=Forgetting(
                log=manifest.erasures,
                nodes=nodes,
                home=settings.home,
                within_seconds=settings.erase_within,
            ),
            keys=KeyStore(database),
            metrics=store_registry(database, settings, KINDS),
            recent=recent,
            decoding=DecodingBudget(settings.max_decoding_bytes),
            label_tables=asyncio.Semaphore(_LABEL_TABLES),
            suggestions=asyncio.Semaphore(_SUGGESTIONS),
        )

    async def recently(self, key: Hashable, load: Callable[[], _Value]) -> _Value:
        """`Recent.get` for coroutines, in a thread if it may have to wait for the database."""
        if self.recent.is_cached(key):
            return self.recent.get(key, load)
        return await run_in_threadpool(self.recent.get, key, load)

    def paths(self, graph: GraphRecord) -> GraphPaths:
        """The files of a graph."""
        return GraphPaths(root=self.settings.graphs_directory / graph.id)

    def close(self) -> None:
        """Close the connections."""
        self.recent.close()
        self.database.close()


async def _stores(request: Request) -> Stores:
    """A coroutine, like all that needs no thread: to change over to one takes 50 microseconds."""
    stores: Stores = request.app.state.stores
    return stores


StoresHere = Annotated[Stores, Depends(_stores)]
"""The stores of the application."""


NameOfGraph = Annotated[str, Path(description="Name of the graph.")]


async def _graph(graph: NameOfGraph, stores: StoresHere) -> GraphRecord:
    return await stores.recently(("graph", graph), lambda: stores.catalog.get(graph))


GraphHere = Annotated[GraphRecord, Depends(_graph)]
"""The graph that the path names."""
