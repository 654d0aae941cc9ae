"""k-NN jobs: their parameters, how a child runs them, and how their edges come in.

Edges come in as a file of the manifest, pending until ingest takes it, which replaces that of an
earlier job. It is listed in the transaction that ends the job, so that exactly the jobs that
succeed give a file.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic, time
from typing import Any, ClassVar, Final

from peewit.service.catalog import GraphRecord
from peewit.service.home import Home
from peewit.service.inbox.inbox_records import REPLACED, FileRecord, ListedFile
from peewit.service.inbox.manifest import Manifest
from peewit.service.jobs.job import Job, JobSpec, JobStatus, LeaseLost, UnknownJob
from peewit.service.tasks.job_kind import GraphKind, Options, TaskContext, capture_inputs
from peewit.service.tasks.newest_snapshot import newest_snapshot
from peewit.service.tasks.progress import Reporter
from peewit.service.tasks.tasks_and_messages import Done, Task, TaskStopped
from peewit.solvers.iteration_loop import RunStopped, Watch
from peewit.streaming.durable_files import fsync_directory, remove_abandoned
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.features.store import FeatureStore
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.neighbors.knn import KnnPlace, KnnSettings, make_knn
from peewit.streaming.nodes.index import open_nodes
from peewit.streaming.problems import Conflict

_SUFFIX: Final = ".parquet"
_USUAL: Final = KnnSettings()


class ConnectedBefore(Conflict, ValueError):
    """The graph has edges made from features already, which cannot leave it."""

    title = "Edges from features already"


class NoFeatures(Conflict, ValueError):
    """The graph has no features yet, which the job would work on."""

    title = "No features yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnnTask(Task):
    """Make edges from the features that were captured when the attempt began."""

    kind: ClassVar[str] = "knn"

    node_kind: NodeKind
    features_version: int
    n_nodes: int
    seed: int
    parameters: Mapping[str, Any]


class KnnKind(GraphKind[KnnTask, KnnSettings]):
    """A job that makes edges from features."""

    name = "knn"
    options = Options(
        doc="Which graph of nearest neighbors to make",
        settings=KnnSettings,
        docs={
            "k": f"Neighbors of each node; {_USUAL.k} by default.",
            "weights": (
                "How weights follow from distances d. self-tuned: exp(-4 d^2 / "
                "d_k^2), heat: exp(-d^2 / (2 width^2)), binary: 1. Default: "
                f"{_USUAL.weights}."
            ),
            "symmetrize": "Weight of an edge by those of both directions, of which one may be 0; "
            f"the {_USUAL.symmetrize} by default.",
            "metric": f"Distance of two nodes; {_USUAL.metric} by default.",
            "width": "Width of heat weights; the mean length of the edges when left out.",
            "method": (
                f"How to search. auto is exact where that is quick. Default: {_USUAL.method}."
            ),
            "n_probes": "Cells that the approximate method looks at; "
            f"{_USUAL.n_probes} by default.",
        },
    )

    def admit(self, spec: JobSpec, graph: GraphRecord, home: Home) -> None:
        """See `require_connectable`; not checked for a job with a key, which may be sent again."""
        if spec.idempotency_key is None:
            require_connectable(home.manifest, graph, home.directory(graph.id))

    def capture(self, job: Job, graph: GraphRecord, home: Home) -> KnnTask:
        """Task for the present features."""
        self.read(job.parameters)
        directory = home.directory(job.graph_id)
        require_connectable(home.manifest, graph, directory)
        snapshot, seed = newest_snapshot(graph), graph.settings.seed
        if seed is None:
            raise ValueError(f"graph {graph.settings.name} has no seed yet; ingest edges first")
        capture_inputs(home, job, graph, snapshot)
        return KnnTask(
            job_id=job.id,
            attempt=job.attempt,
            graph_id=job.graph_id,
            graph_directory=directory,
            node_kind=graph.settings.node_ids,
            features_version=graph.features_version,
            n_nodes=graph.progress.n_nodes,
            seed=seed,
            parameters=job.parameters,
        )

    def run(self, task: KnnTask, context: TaskContext) -> Done | TaskStopped:
        """`Done` once the file of edges is on the disk, or `TaskStopped`.

        Raises ValueError if the features make no such graph or a parameter is wrong, and OSError,
        MemoryError or LookupError if files cannot be read or written.
        """
        settings = self.read(task.parameters)
        paths = GraphPaths(root=task.graph_directory)
        began = monotonic()
        try:
            summary = make_knn(
                FeatureStore(paths.features).load(task.features_version, task.n_nodes),
                open_nodes(paths.nodes, kind=task.node_kind, n_nodes=task.n_nodes, writable=False),
                settings,
                _place(task, paths),
                features_version=task.features_version,
                seed=task.seed,
                watch=Watch(progress=Reporter(context.report), cancelled=context.cancelled),
            )
        except RunStopped:
            return TaskStopped()
        return Done(
            result={
                **asdict(summary),
                "k": settings.k,
                "features_version": task.features_version,
                "seconds": round(monotonic() - began, 3),
            }
        )

    def publish(self, job: Job, result: Mapping[str, Any], home: Home) -> Job:
        """The job, its edges in the manifest if it succeeded; otherwise their file is removed."""
        path = edges_file(GraphPaths(root=home.directory(job.graph_id)), job.id, job.attempt)
        queue, manifest = home.jobs, home.manifest
        graph = home.catalog.get_by_id(job.graph_id)
        (file,) = EdgeFiles(path).list()
        listed = ListedFile(path=file.path, version=file.version, size=file.size)
        try:
            with home.database.write() as connection:
                ended = queue.finish(job.id, job.attempt, result, connection)
                if ended.status is JobStatus.SUCCEEDED:
                    _require_replaceable(
                        manifest.files_in(job.graph_id, path.parent, connection), graph
                    )
                    manifest.add_file(job.graph_id, listed, connection)
        except ConnectedBefore as error:
            path.unlink(missing_ok=True)
            return queue.fail(job.id, job.attempt, str(error))
        except LeaseLost:
            # a commit may succeed and its answer be lost: the manifest has the file then
            known = manifest.files_in(job.graph_id, path.parent)
            if listed.path not in {each.path for each in known}:
                path.unlink(missing_ok=True)
            raise
        if ended.status is not JobStatus.SUCCEEDED:
            path.unlink(missing_ok=True)
        return ended

    def sweep(self, graph_id: str, home: Home) -> None:
        """Remove neighbor lists of finished jobs, and edges that nobody will read.

        These are edges of failed or cancelled jobs, or replaced ones. An interrupted attempt leaves
        its lists to the next, until the job is over.
        """
        paths = GraphPaths(root=home.directory(graph_id))

        def has_given_way(path: Path) -> bool:
            listed = home.manifest.retractions.of_path(graph_id, str(path))
            return bool(listed) and all(file.reason == REPLACED for file in listed)

        for left in [*paths.knn_work.glob("*-*"), *paths.knn.glob(f"*-*{_SUFFIX}")]:
            try:
                status = home.jobs.get(left.name.split("-")[-2]).status  # of unfinished ones too
            except UnknownJob:
                status = JobStatus.SUCCEEDED
            if left.parent == paths.knn_work:
                if status.is_final:
                    shutil.rmtree(left, ignore_errors=True)
            elif status in {JobStatus.CANCELLED, JobStatus.FAILED} or has_given_way(left):
                left.unlink(missing_ok=True)


def require_features(graph: GraphRecord) -> None:
    """Raise `NoFeatures` unless the graph has some."""
    if not graph.features_version:
        raise NoFeatures(
            f"graph {graph.settings.name} has no features yet; put them, or let ingest take those "
            "that wait"
        )


def require_connectable(manifest: Manifest, graph: GraphRecord, directory: Path) -> None:
    """Raise `NoFeatures` without features, `ConnectedBefore` with edges that cannot be replaced.

    The latter are a file of edges made from features, in the graph or pending.
    """
    require_features(graph)
    window = graph.settings.window
    if window is not None and window.by == "time":
        raise ConnectedBefore(
            f"graph {graph.settings.name} has a window by time, and edges that are made from "
            "features have none; make another graph, without a window or by arrival"
        )
    _require_replaceable(manifest.files_in(graph.id, GraphPaths(root=directory).knn), graph)


def _require_replaceable(before: Sequence[FileRecord], graph: GraphRecord) -> None:
    """Raise `ConnectedBefore` where edges made from features cannot be retracted."""
    for file in before:
        if graph.settings.deletions == "off":
            reason = "its deletions are off"
        elif graph.settings.parallel == "replace" or file.retractable == "inserts_only":
            reason = "they took the place of others, as edges of one pair do there"
        else:
            continue
        raise ConnectedBefore(
            f"graph {graph.settings.name} has edges from knn already "
            f"({Path(file.path).name}, {file.status}), which cannot be replaced: {reason}; "
            "make another graph with --deletions exact and parallel edges that sum. There "
            "knn can be run again"
        )


def edges_file(paths: GraphPaths, job_id: str, attempt: int) -> Path:
    """Path of an attempt's edges."""
    return paths.knn / f"{job_id}-{attempt}{_SUFFIX}"


def _place(task: KnnTask, paths: GraphPaths) -> KnnPlace:
    """Directories for this attempt; it takes over what an earlier one left."""
    paths.knn.mkdir(exist_ok=True)
    work = paths.knn_work / f"{task.job_id}-{task.attempt}"
    if not work.exists():
        paths.knn_work.mkdir(parents=True, exist_ok=True)
        fsync_directory(paths.root)
        for earlier in sorted(paths.knn_work.glob(f"{task.job_id}-*")):
            if not work.exists():
                earlier.rename(work)  # a process that still writes there loses its lists
    remove_abandoned(paths.knn_work, keep=work, now=time())
    for earlier in paths.knn.glob(f"{task.job_id}-*{_SUFFIX}"):
        earlier.unlink()  # its attempt died before it was listed
    output = edges_file(paths, task.job_id, task.attempt)
    return KnnPlace(output=output, work=work, node_kind=task.node_kind)
