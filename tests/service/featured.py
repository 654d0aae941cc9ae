"""A graph whose nodes have features, and what makes edges of them, in one process."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.database.engine import Database
from peewit.service.graph_settings import GraphSettings
from peewit.service.inbox.feature_sets import FeatureSets
from peewit.service.inbox.manifest import Manifest
from peewit.service.ingest.ingestor import Ingestor
from peewit.service.jobs.job import Job, JobSpec
from peewit.service.jobs.queue import JobQueue
from peewit.service.settings import Settings
from peewit.service.worker.worker import Worker
from peewit.solvers.arrays import Float32Array
from peewit.streaming.features.checked_tables import read_features
from peewit.streaming.graph_paths import GraphPaths
from tests.service.lasting_children import lasting_child


def feature_table(values: Float32Array) -> pa.Table:
    """Rows of the nodes n0, n1, ..."""
    flat = pa.array(values.astype(np.float32).ravel())
    lists = pa.FixedSizeListArray.from_arrays(flat, values.shape[1])
    return pa.table({"node": [f"n{row}" for row in range(len(values))], "features": lists})


def clusters(n_nodes: int = 60) -> Float32Array:
    """Rows in two far clusters, one after the other."""
    rng = np.random.default_rng(0)
    centers = np.repeat([[0.0] * 4, [20.0] * 4], n_nodes // 2, axis=0)
    return (centers + rng.normal(size=centers.shape)).astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class Featured:
    """One graph of a home directory."""

    database: Database
    settings: Settings
    graph_id: str

    @classmethod
    def create(cls, database: Database, settings: Settings, **options: Any) -> "Featured":
        """An empty graph of string ids."""
        asked = GraphSettings(**{"name": "g", "seed": 1, "expected_nodes": 100} | options)
        graph_id = Catalog(database).create(asked).id
        return cls(database=database, settings=settings, graph_id=graph_id)

    @property
    def record(self) -> GraphRecord:
        """The graph at this moment."""
        return Catalog(self.database).get_by_id(self.graph_id)

    @property
    def paths(self) -> GraphPaths:
        """Its files."""
        return GraphPaths(root=self.settings.graphs_directory / self.graph_id)

    @property
    def queue(self) -> JobQueue:
        """All jobs."""
        return JobQueue(self.database)

    @property
    def manifest(self) -> Manifest:
        """All files."""
        return Manifest(self.database)

    def give(self, values: Float32Array) -> None:
        """Give n0, n1, ... these features, and bring them in."""
        sets = FeatureSets(
            Manifest(self.database).feature_log,
            self.settings.graphs_directory,
            max_backlog_bytes=self.settings.max_backlog_bytes,
        )
        block = read_features(feature_table(values), node_kind="string", max_nodes=1000)
        sets.add(self.record, [block], mode="replace")
        self.ingest()

    def ingest(self) -> None:
        """What the daemon does."""
        Ingestor(self.database, self.settings).ingest_graph(self.graph_id)

    def submit(self, **parameters: Any) -> Job:
        """A job that waits."""
        spec = JobSpec(
            graph_id=self.graph_id, kind="knn", model=None, parameters=parameters, lane="heavy"
        )
        return self.queue.submit(spec)

    def connected(self, **parameters: Any) -> Job:
        """A job after its end, run by a worker."""
        worker, job = Worker(self.database, self.settings), self.submit(**parameters)
        return worker.run_one(job.id, child=lasting_child(self.settings))

    def files(self) -> list[Path]:
        """What lies where edges and lists of neighbors go."""
        return [*self.paths.knn.glob("*"), *self.paths.knn_work.glob("*")]
