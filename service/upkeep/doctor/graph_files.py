"""Checks of the files of each graph against each other and against the rows that name them."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import pyarrow as pa
from sqlalchemy import select

from peewit.service.catalog import GraphRecord
from peewit.service.database.lease_holders import holder_name
from peewit.service.database.leases import LeaseStore
from peewit.service.database.tables import jobs
from peewit.service.inbox.leaving.erasures import ErasureLog
from peewit.service.inbox.needed_files import needed_files
from peewit.service.jobs.job import LABEL_COLUMN
from peewit.service.predictions.prediction_files import predictor_path
from peewit.service.predictions.store import PredictionsNotFound, PredictionStore
from peewit.service.tables.uploads import id_type
from peewit.service.upkeep.backup import pointer_of
from peewit.service.upkeep.doctor.findings import Finding, Patient, fault, information, warning
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.log.change_log import ChangeLog
from peewit.streaming.log.logged_files import LogDamaged
from peewit.streaming.nodes.segments import CorruptSegment, list_segments, read_ids, truncate_ids
from peewit.streaming.snapshots.checkpoints import CheckpointStore, living
from peewit.streaming.snapshots.store import SnapshotNotFound, SnapshotStore

_ATTEMPTS = 5
_LEASE_SECONDS = 60.0
_DAMAGE = (OSError, ValueError, RuntimeError, KeyError, TypeError, EOFError, pa.ArrowException)


def check_checkpoints(patient: Patient) -> Iterator[Finding]:
    """Checkpoints that cannot be read; each graph has two."""
    for graph in patient.graphs():
        directory = patient.paths(graph).checkpoints
        if not directory.exists():
            if graph.progress.snapshot is not None:
                yield _fault(graph, f"{directory} is missing; restore a backup")
            continue
        store = CheckpointStore(directory)
        for which, load in (("newest", store.newest), ("clean", store.clean)):
            damage = _damage_of(patient, graph, load)
            if damage:
                text = f"the {which} checkpoint cannot be read ({damage}); restore a backup"
                yield _fault(graph, text)


def check_logs(patient: Patient) -> Iterator[Finding]:
    """Graphs with exact deletions that lack the log of a file."""
    for graph in patient.graphs():
        paths = patient.paths(graph)
        if graph.settings.deletions == "exact" and paths.checkpoints.exists():
            damage = _damage_of(patient, graph, partial(_open_log, paths))
            if damage:
                yield _fault(graph, f"the log of its edges is damaged ({damage}); restore a backup")


def check_node_index(patient: Patient) -> Iterator[Finding]:
    """Node indexes that are damaged or lack nodes of the checkpoint."""
    for graph in patient.graphs():
        paths, kind = patient.paths(graph), graph.settings.node_ids
        if kind == "dense" or not paths.checkpoints.exists():
            continue
        store = CheckpointStore(paths.checkpoints)
        damage = _damage_of(patient, graph, partial(_read_index, paths, id_type(kind)))
        if damage:
            yield _fault(graph, damage)
            continue
        n_nodes = store.n_nodes()
        n_published = max((segment.stop for segment in list_segments(paths.nodes)), default=0)
        if n_published > n_nodes:
            yield information(
                f"graph {graph.settings.name}: {n_published - n_nodes} ids beyond the "
                "checkpoint, of an ingest that goes on or was killed; the next one drops them",
                repair=partial(_truncate, patient, graph, id_type),
            )


def check_snapshots(patient: Patient) -> Iterator[Finding]:
    """Snapshots that rows name and that are missing or cannot be read."""
    store_of = PredictionStore(patient.database, patient.settings.graphs_directory)
    for graph in patient.graphs():
        store = SnapshotStore(patient.paths(graph).snapshots)
        in_use = {job.snapshot for job in store_of.kept(graph.id)} - {None}
        present = graph.progress.snapshot
        for number in sorted({*store.numbers(), *filter(None, (*in_use, present))}):
            try:
                if number == present:
                    store.load(number)
                counts = store.counts(number)
            except SnapshotNotFound as error:
                if _names(patient, graph, store_of, number):
                    text = f"{error}, though rows name it; restore a backup"
                    yield _fault(graph, text)
                elif patient.is_old(directory := store.directory(number)):
                    yield warning(
                        f"graph {graph.settings.name}: {directory} lacks a file; nothing needs it",
                        repair=partial(patient.put_aside, directory),
                    )
            except _DAMAGE as error:
                if number in store.numbers():
                    text = f"snapshot {number} cannot be read ({error}); restore a backup"
                    yield _fault(graph, text)
            else:
                for of, n_rows, n_edges in counts:
                    if n_rows != n_edges:
                        text = f"snapshot {number} must have {n_edges} edges{of}, it has {n_rows}"
                        yield _fault(graph, text)


def check_predictions(patient: Patient) -> Iterator[Finding]:
    """Latest predictions of a model and label column that are missing or cannot be opened."""
    store = PredictionStore(patient.database, patient.settings.graphs_directory)
    for graph in patient.graphs():
        solved = select(jobs.c.model, jobs.c.parameters).where(
            jobs.c.graph_id == graph.id, jobs.c.kind == "solve", jobs.c.status == "succeeded"
        )
        rows = patient.rows(solved)
        answers = sorted({(row.model, row.parameters.get(LABEL_COLUMN, "")) for row in rows})
        freshest = (store.latest(graph.id, model, column=column) for model, column in answers)
        latest = [job for job in freshest if job is not None]
        erasures = ErasureLog(patient.database).list(graph.id)
        first = max((erasure.snapshot or 0 for erasure in erasures), default=0)
        for job in {job.id: job for job in [*latest, *store.kept(graph.id)]}.values():
            try:
                file = store.read(job)
                file.table().validate()
                is_inductive = (job.result or {}).get("inductive")
                is_needed = is_inductive and file.meta.snapshot >= first  # else it was erased
                if is_needed and not predictor_path(file.path).exists():
                    text = f"the predictor of job {job.id} is missing; solve again"
                    yield _fault(graph, text)
            except PredictionsNotFound:
                column = job.parameters.get(LABEL_COLUMN, "")
                latest_now = store.latest(graph.id, job.model, column=column)
                if latest_now is not None and latest_now.id == job.id:
                    text = f"the predictions of job {job.id} are missing; solve again"
                    yield _fault(graph, text)
            except _DAMAGE as error:
                text = f"the predictions of job {job.id} cannot be read ({error}); solve again"
                yield _fault(graph, text)


def check_pushes(patient: Patient) -> Iterator[Finding]:
    """Pushed blocks and features that rows name and that are missing on the disk."""
    root = patient.settings.graphs_directory
    names = {graph.id: graph for graph in patient.graphs()}

    def missing() -> set[tuple[str, str]]:
        with patient.database.read() as connection:
            needed = list(needed_files(connection, with_raw=True))
        return {file for file in needed if not (root / file.graph_id / file.path).exists()}

    gone = missing()
    if gone:
        gone &= missing()  # a block committed meanwhile is no longer needed
    for graph_id, path in sorted(gone):
        if graph_id in names:
            text = f"{path} is missing, which rows name; restore a backup or push it again"
            yield _fault(names[graph_id], text)


def _open_log(paths: GraphPaths) -> None:
    checkpoint = CheckpointStore(paths.checkpoints).clean()
    for relation, (name, state) in enumerate(checkpoint.states.items()):
        log = ChangeLog(paths.relation_log(relation))
        dead = log.dead(state.log_version)
        digests = living(checkpoint.files, dead.horizon, name)
        n_blocks = {digest: log.file(digest, dead).n_batches for digest in digests}
        for digest, block in dead.bits:
            if block >= n_blocks.get(digest, 0):
                raise LogDamaged(
                    f"dead rows must be of its blocks, some are of {block} of {digest}"
                )


def _read_index(paths: GraphPaths, kind: pa.DataType) -> None:
    n_nodes = CheckpointStore(paths.checkpoints).n_nodes()
    read_ids(paths.nodes, kind, start=0, stop=n_nodes, verify=True)


def _damage_of(patient: Patient, graph: GraphRecord, load: Callable[[], object]) -> str:
    """Why something cannot be loaded; empty if it can, even after being replaced meanwhile."""
    paths = patient.paths(graph)
    for _ in range(_ATTEMPTS):
        before = pointer_of(paths)
        try:
            load()
        except (*_DAMAGE, CorruptSegment) as error:
            if pointer_of(paths) == before:
                return str(error) or type(error).__name__
        else:
            return ""
    return ""  # replaced all the time, so others read and write it without trouble


def _names(patient: Patient, graph: GraphRecord, store: PredictionStore, number: int) -> bool:
    """Whether rows still name a snapshot, which may have been replaced meanwhile."""
    with suppress(LookupError):
        present = next(record for record in patient.graphs() if record.id == graph.id)
        return number == present.progress.snapshot or number in store.kept_snapshots(graph.id)
    return False


def _truncate(patient: Patient, graph: GraphRecord, id_type: pa.DataType) -> str:
    """Do what the next ingest does first, unless an ingest holds the graph."""
    leases = LeaseStore(patient.database)
    lease = leases.acquire(f"ingest:{graph.id}", holder_name(), _LEASE_SECONDS)
    if lease is None:
        return "left alone: an ingest has the graph"
    try:
        paths = patient.paths(graph)
        truncate_ids(paths.nodes, id_type, CheckpointStore(paths.checkpoints).n_nodes())
    finally:
        leases.release(lease)
    return "dropped"


def _fault(graph: GraphRecord, text: str) -> Finding:
    return fault(f"graph {graph.settings.name}: {text}")
