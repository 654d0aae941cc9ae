"""Jobs of kind ``knn``: what they may be asked, how a child runs them, how their edges come in.

The edges go the way of all edges: a file of the manifest, pending until ingest takes it. It is
listed in the transaction that ends the job, so that a job that succeeded has given its file, and
one that was cancelled or changed hands has not.
"""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from time import monotonic, time
from typing import Any, Final

from peewit.service.catalog import GraphRecord
from peewit.service.database.engine import Database
from peewit.service.inbox.manifest import Manifest
from peewit.service.inbox.records import ListedFile
from peewit.service.jobs.job import Job, JobQueue, JobStatus, LeaseLost, UnknownJob
from peewit.service.jobs.queue import DatabaseJobQueue
from peewit.service.tasks.certify import Reporter
from peewit.service.tasks.messages import Advanced, Connected, KnnTask, Stopped
from peewit.solvers.iterate import Stopped as IterationStopped
from peewit.solvers.iterate import Watch
from peewit.streaming.durable import fsync_directory, remove_abandoned
from peewit.streaming.edges.sources import ParquetEdges
from peewit.streaming.features.store import FeatureStore
from peewit.streaming.neighbors.knn import KnnPlace, KnnSettings, make_knn
from peewit.streaming.nodes.index import open_nodes
from peewit.streaming.snapshots.store import GraphPaths

_SUFFIX: Final = ".parquet"


class ConnectedBefore(ValueError):
    """The graph has edges made from features already; edges cannot be taken out of a graph."""


class NoFeatures(ValueError):
    """The graph has no features yet, of which to make edges."""


def validate_knn(parameters: Mapping[str, Any]) -> KnnSettings:
    """Which graph of nearest neighbors to make.

    Parameters
    ----------
    parameters : mapping
        JSON values: the fields of `KnnSettings`; those left out take their defaults.

    Raises
    ------
    ValueError
        No such parameter, or a value that breaks its rule.
    """
    known = [field.name for field in fields(KnnSettings)]
    unknown = sorted(parameters.keys() - set(known))
    if unknown:
        raise ValueError(f"knn has no parameter {unknown[0]!r}; it has {', '.join(sorted(known))}")
    return KnnSettings(**parameters)


def require_connectable(manifest: Manifest, graph: GraphRecord, directory: Path) -> None:
    """Raise unless the graph has features and no edges made from features.

    Raises
    ------
    NoFeatures
        There are none.
    ConnectedBefore
        A file of such edges is in the graph, or waits.
    """
    name = graph.settings.name
    if not graph.features_version:
        raise NoFeatures(
            f"graph {name} has no features yet; put them, or let ingest take those that wait"
        )
    before = manifest.files_in(graph.id, GraphPaths(root=directory).knn)
    if before:
        raise ConnectedBefore(
            f"graph {name} has edges from knn already ({Path(before[0].path).name}, "
            f"{before[0].status}) and edges cannot be deleted; make another graph for other "
            "features or another k"
        )


def knn_task(
    task: KnnTask,
    *,
    report: Callable[[Advanced], None],
    cancelled: Callable[[], bool],
) -> Connected | Stopped:
    """`Connected` once the file of edges is on the disk, or `Stopped`.

    Raises
    ------
    ValueError
        The features make no such graph, or a parameter is wrong.
    OSError, MemoryError, LookupError
        Files that could not be read or written.
    """
    settings = validate_knn(task.parameters)
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
            watch=Watch(progress=Reporter(report), cancelled=cancelled),
        )
    except IterationStopped:
        return Stopped()
    return Connected(
        path=_output(task, paths),
        result={
            **asdict(summary),
            "k": settings.k,
            "features_version": task.features_version,
            "seconds": round(monotonic() - began, 3),
        },
    )


def finish_knn(database: Database, queue: DatabaseJobQueue, job: Job, answer: Connected) -> Job:
    """The job with its edges in the manifest, or without either; a file that nobody names goes.

    Raises
    ------
    LeaseLost
        The attempt is no longer the current one.
    """
    path, manifest = answer.path, Manifest(database)
    (file,) = ParquetEdges(path).list()
    listed = ListedFile(path=file.path, version=file.version, size=file.size)
    try:
        with database.write() as connection:
            ended = queue.finish(job.id, job.attempt, answer.result, connection)
            if ended.status is JobStatus.SUCCEEDED:
                if manifest.files_in(job.graph_id, path.parent, connection):
                    raise ConnectedBefore("another job has made edges from features meanwhile")
                manifest.add_file(job.graph_id, listed, connection)
    except ConnectedBefore as error:
        path.unlink(missing_ok=True)
        return queue.fail(job.id, job.attempt, str(error))
    except LeaseLost:
        # a commit may succeed and its answer be lost: the manifest has the file then
        if listed.path not in {each.path for each in manifest.files_in(job.graph_id, path.parent)}:
            path.unlink(missing_ok=True)
        raise
    if ended.status is not JobStatus.SUCCEEDED:
        path.unlink(missing_ok=True)
    return ended


def sweep_knn(queue: JobQueue, directory: Path) -> None:
    """Remove what jobs that are over have left of lists, and of edges that came to nothing.

    An attempt that was interrupted leaves lists to the next, until the job is over.

    Parameters
    ----------
    queue : JobQueue
        Knows the jobs.
    directory : Path
        Of the graph.
    """
    paths = GraphPaths(root=directory)
    for left in [*paths.knn_work.glob("*-*"), *paths.knn.glob(f"*-*{_SUFFIX}")]:
        try:
            status = queue.get(left.name.split("-")[-2]).status  # also of unfinished files
        except UnknownJob:
            status = JobStatus.SUCCEEDED
        if left.parent == paths.knn_work:
            if status.is_final:
                shutil.rmtree(left, ignore_errors=True)
        elif status in {JobStatus.CANCELLED, JobStatus.FAILED}:
            left.unlink(missing_ok=True)


def _output(task: KnnTask, paths: GraphPaths) -> Path:
    return paths.knn / f"{task.job_id}-{task.attempt}{_SUFFIX}"


def _place(task: KnnTask, paths: GraphPaths) -> KnnPlace:
    """Directories for this attempt; what an earlier one has left becomes its own."""
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
    return KnnPlace(output=_output(task, paths), work=work, node_kind=task.node_kind)
