"""A home with its stores open, and graphs of random edges in it."""

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from peewit.service.catalog import Catalog
from peewit.service.database.engine import open_database
from peewit.service.graph_settings import GraphSettings
from peewit.service.inbox.manifest import Manifest
from peewit.service.inbox.pushes import PushStore
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.jobs.queue import JobQueue
from peewit.service.labels.store import LabelStore
from peewit.service.settings import Settings
from peewit.service.tables.column_names import edge_columns
from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.table_formats import Format
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.snapshots.store import SnapshotStore
from tests.fresh_databases import fresh


class Place:
    """A home and its database, open."""

    def __init__(self, home: Path, url: str | None = None) -> None:
        self.settings = Settings(
            home=home, database_url=url, threads=1, checkpoint_seconds=0.0, settle_seconds=0.0
        )
        self.database = open_database(fresh(self.settings.database))
        self.catalog = Catalog(self.database)
        self.manifest = Manifest(self.database)
        self.queue = JobQueue(self.database)
        self.labels = LabelStore(self.database)

    def push(self, name: str, table: pa.Table, columns: EdgeColumns | None = None) -> None:
        store = PushStore(
            manifest=self.manifest,
            graphs_directory=self.settings.graphs_directory,
            max_backlog_bytes=10**9,
            max_total_backlog_bytes=10**9,
        )
        body = io.BytesIO()
        pq.write_table(table, body)
        body.seek(0)
        graph = self.catalog.get(name)
        columns = columns or edge_columns(graph.settings.columns_of_edges)
        digest = str(hash(body))
        store.add(graph, body, Format.PARQUET, body_digest=digest, columns=columns)

    def ingest(self, name: str = "g") -> None:
        Ingestor(self.database, self.settings).ingest_graph(self.catalog.get(name).id)

    def paths(self, name: str = "g") -> GraphPaths:
        return GraphPaths(root=self.settings.graphs_directory / self.catalog.get(name).id)

    def edges(self, name: str = "g") -> pa.Table:
        number = self.catalog.get(name).progress.snapshot
        assert number is not None
        return SnapshotStore(self.paths(name).snapshots).edges(number)


def random_edges(seed: int, n_rows: int = 4_000, n_nodes: int = 60) -> pa.Table:
    rng = np.random.default_rng(seed)
    src, dst = (
        pa.array([f"n{node}" for node in rng.integers(0, n_nodes, n_rows)]) for _ in range(2)
    )
    weight = pa.array(rng.uniform(0.5, 2.0, n_rows).astype(np.float32))
    return pa.table({"src": src, "dst": dst, "weight": weight})


def create(place: Place, **options: object) -> None:
    asked = {"name": "g", "epsilon": 0.9, "max_edges": 500, "expected_nodes": 60, "seed": 3}
    place.catalog.create(GraphSettings(**{**asked, **options}))  # type: ignore[arg-type]
