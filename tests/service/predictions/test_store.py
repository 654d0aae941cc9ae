"""Predictions of jobs: which are found, and which of them stay."""

import errno
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import update

from peewit.service.catalog import Catalog
from peewit.service.database.engine import Database, open_database
from peewit.service.database.tables import jobs
from peewit.service.database.timestamps import now
from peewit.service.graph_settings import GraphSettings
from peewit.service.jobs.job import Job, JobSpec
from peewit.service.jobs.queue import JobQueue
from peewit.service.predictions.kept_labels import KeptLabels, write_labels
from peewit.service.predictions.left_out import write_left_out
from peewit.service.predictions.prediction_files import (
    PredictionFile,
    densities_path,
    given_path,
    labels_path,
    left_out_path,
    predictor_path,
    shares_path,
    write_array,
)
from peewit.service.predictions.store import KEEP_PER_MODEL, PredictionsNotFound, PredictionStore
from peewit.solvers.labels import Labels
from peewit.streaming.durable_files import TEMPORARY_PREFIX
from tests.service.predictions.test_prediction_files import META, written


class Store:
    """A queue, a store and a graph, with a way to publish predictions."""

    def __init__(self, database: Database, directory: Path) -> None:
        self.database = database
        self.queue = JobQueue(database)
        self.predictions = PredictionStore(database, directory)
        self.graph_id = Catalog(database).create(GraphSettings(name="g")).id

    def start(self, model: str = "hfs", *, snapshot: int = 1, labels_seq: int = 1) -> Job:
        spec = JobSpec(graph_id=self.graph_id, model=model, parameters={})
        job = self.queue.claim("w", ("fast",), job_id=self.queue.submit(spec).id)
        assert job is not None
        self.queue.capture(
            job.id, job.attempt, snapshot=snapshot, labels_seq=labels_seq, features_version=0
        )
        return job

    def write(self, job: Job) -> Path:
        meta = replace(META, job_id=job.id, attempt=job.attempt)
        return written(self.predictions.directory(self.graph_id), meta).path

    def publish(self, model: str = "hfs", *, snapshot: int = 1, labels_seq: int = 1) -> Job:
        job = self.start(model, snapshot=snapshot, labels_seq=labels_seq)
        return self.queue.finish(job.id, job.attempt, {"file": self.write(job).name})

    def files(self) -> set[str]:
        return {path.name for path in self.predictions.directory(self.graph_id).iterdir()}

    def finished_long_ago(self, *old: Job) -> None:
        with self.database.write() as connection:
            connection.execute(
                update(jobs)
                .where(jobs.c.id.in_([job.id for job in old]))
                .values(finished_at=now(-3600.0))
            )


@pytest.fixture
def store(database_url: str, tmp_path: Path) -> Iterator[Store]:
    database = open_database(database_url)
    yield Store(database, tmp_path / "graphs")
    database.close()


def file_of(job: Job) -> str:
    assert job.result is not None
    name: str = job.result["file"]
    return name


def test_a_job_leads_to_its_predictions(store: Store) -> None:
    job = store.publish()
    assert store.predictions.read(job).meta.job_id == job.id


def test_a_job_that_has_not_succeeded_has_no_predictions(store: Store) -> None:
    with pytest.raises(PredictionsNotFound, match="has no predictions: it is running"):
        store.predictions.read(store.start())


def test_the_latest_predictions_are_those_that_know_most(store: Store) -> None:
    assert store.predictions.latest(store.graph_id) is None
    fresh = store.publish(snapshot=2, labels_seq=9)
    store.publish(snapshot=2, labels_seq=8)  # began earlier, ended later
    store.publish(snapshot=1, labels_seq=9)
    latest = store.predictions.latest(store.graph_id)
    assert latest is not None
    assert latest.id == fresh.id


def test_the_latest_predictions_can_be_those_of_one_model(store: Store) -> None:
    old = store.publish("hfs")
    store.publish("stable-hfs", snapshot=2)
    latest = store.predictions.latest(store.graph_id, "hfs")
    assert latest is not None
    assert latest.id == old.id
    assert store.predictions.latest(store.graph_id, "poisson") is None


def test_the_last_predictions_of_each_model_stay(store: Store) -> None:
    of_hfs = [store.publish("hfs", labels_seq=seq) for seq in range(KEEP_PER_MODEL + 2)]
    other = store.publish("stable-hfs")
    removed = store.predictions.clean(store.graph_id, grace_seconds=0.0)
    assert {path.name for path in removed} == {file_of(job) for job in of_hfs[:2]}
    assert store.files() == {file_of(job) for job in [*of_hfs[2:], other]}
    with pytest.raises(PredictionsNotFound, match="were removed"):
        store.predictions.read(of_hfs[0])


def test_replaced_predictions_stay_for_a_grace_time(store: Store) -> None:
    published = [store.publish(labels_seq=seq) for seq in range(KEEP_PER_MODEL + 2)]
    assert not store.predictions.clean(store.graph_id)
    store.finished_long_ago(*published[: KEEP_PER_MODEL + 1])  # the last replaced one a moment ago
    removed = store.predictions.clean(store.graph_id)
    assert [path.name for path in removed] == [file_of(published[0])]


@pytest.mark.parametrize("path_of", [predictor_path, given_path, left_out_path])
def test_what_belongs_to_predictions_goes_with_them(
    store: Store, path_of: Callable[[Path], Path]
) -> None:
    published = [store.publish(labels_seq=seq) for seq in range(KEEP_PER_MODEL + 1)]
    directory = store.predictions.directory(store.graph_id)
    beside = [path_of(directory / file_of(job)) for job in published]
    for path in beside:
        path.write_bytes(b"functions")
    orphan = path_of(directory / "ab-7.arrow")
    orphan.write_bytes(b"of predictions that were never written")
    store.predictions.clean(store.graph_id)
    assert all(path.exists() for path in [orphan, *beside])
    store.predictions.clean(store.graph_id, grace_seconds=0.0)
    assert [path.exists() for path in [orphan, *beside]] == [False, False, True, True, True]
    store.predictions.discard(store.graph_id, file_of(published[1]))
    assert not beside[1].exists()


def test_predictions_that_go_while_nodes_are_erased_are_passed_over(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced, left = (store.publish(labels_seq=seq) for seq in (1, 2))
    directory = store.predictions.directory(store.graph_id)
    predictor = predictor_path(directory / file_of(replaced))
    predictor.write_bytes(b"features")

    def opened(path: Path) -> PredictionFile:
        if path.name == file_of(replaced):
            path.unlink()
        return PredictionFile(path)

    monkeypatch.setattr("peewit.service.predictions.store.PredictionFile", opened)
    store.predictions.erase(store.graph_id, np.array([1]), before=None)
    assert not predictor.exists()
    names = PredictionFile(directory / file_of(left)).table().column("node").to_pylist()
    assert names[1] is None


def test_of_what_belongs_to_predictions_erased_nodes_take_what_nobody_can_take_apart(
    store: Store,
) -> None:
    """Predictors, which hold features, and what is damaged; labels and those left out stay."""
    whole, damaged = (store.publish(labels_seq=seq) for seq in (1, 2))
    directory = store.predictions.directory(store.graph_id)
    labels = Labels(nodes=np.array([0, 2]), classes=np.array([0, 1]), class_names=("a", "b"))
    for job in (whole, damaged):
        path = directory / file_of(job)
        write_labels(path, labels)
        write_left_out(path, labels.nodes, labels.classes, np.eye(2, dtype=np.float32))
        predictor_path(path).write_bytes(b"features")
    for path_of in (left_out_path, labels_path):
        path_of(directory / file_of(damaged)).write_bytes(b"who knows")
    store.predictions.erase(store.graph_id, np.array([1]), before=None)
    assert store.files() == {
        file_of(damaged),
        *(path_of(Path(file_of(whole))).name for path_of in (Path, left_out_path, labels_path)),
    }
    assert KeptLabels.read(directory / file_of(whole)).nodes.tolist() == [0, 2]


def with_labels(store: Store) -> Path:
    """Predictions with all that is kept of labels beside them."""
    path = store.predictions.directory(store.graph_id) / file_of(store.publish())
    labels = Labels(nodes=np.array([0, 2]), classes=np.array([0, 1]), class_names=("a", "b"))
    write_labels(path, labels)
    write_left_out(path, labels.nodes, labels.classes, np.eye(2, dtype=np.float32))
    for path_of in (densities_path, shares_path):
        write_array(path_of(path), np.ones((3, 2), np.float32))
    return path


def changed(content: bytes, mark: bytes, offset: int, byte: int) -> bytes:
    """The content with another byte so far behind the last place of a mark."""
    place = content.rindex(mark) + offset
    return content[:place] + bytes([byte]) + content[place + 1 :]


ZIP_ENTRY, ZIP_END = b"PK\x01\x02", b"PK\x05\x06"
DAMAGES: dict[str, tuple[bytes, int, int]] = {
    "name of an array": (b".npy", 0, 0),  # KeyError
    "later version": (ZIP_ENTRY, 6, 109),  # NotImplementedError
    "encrypted": (ZIP_ENTRY, 8, 1),  # RuntimeError
    "place of the entries": (ZIP_END, 19, 255),  # OSError
    "open bracket": (b"}", 0, ord(" ")),  # TokenError
    "kind of numbers": (b"<f4", 0, ord(",")),  # SyntaxError
    "no columns": (b"(3, 2)", 4, ord("0")),  # IndexError
}
_ARCHIVES, _ARRAYS = list(DAMAGES)[:4], list(DAMAGES)[4:]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # numpy's open file
@pytest.mark.parametrize(
    ("path_of", "damage"),
    [
        *((labels_path, each) for each in _ARCHIVES),
        *((left_out_path, each) for each in _ARCHIVES),
        *((shares_path, each) for each in _ARRAYS),
        (densities_path, "open bracket"),
    ],
)
def test_erased_nodes_take_what_is_damaged_in_any_way(
    store: Store, path_of: Callable[[Path], Path], damage: str
) -> None:
    path = with_labels(store)
    beside = path_of(path)
    beside.write_bytes(changed(beside.read_bytes(), *DAMAGES[damage]))
    store.predictions.erase(store.graph_id, np.array([2]), before=None)
    assert not beside.exists()
    assert path.exists()


@pytest.mark.parametrize(
    ("mark", "offset", "byte"),
    [(b'"job_id"', 1, ord("x")), (b'"job_id"', 0, ord(" ")), (b'"job_id"', 1, 255)],
)
def test_erased_nodes_take_damaged_predictions(
    store: Store, mark: bytes, offset: int, byte: int
) -> None:
    path = with_labels(store)
    path.write_bytes(changed(path.read_bytes(), mark, offset, byte))
    store.predictions.erase(store.graph_id, np.array([2]), before=None)
    assert not store.files()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EMFILE])
def test_what_is_whole_stays_where_the_machine_is_at_fault(
    store: Store, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path = with_labels(store)

    def fail(*_: object) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr("peewit.service.predictions.kept_labels.write_arrays", fail)
    with pytest.raises(OSError, match="no"):
        store.predictions.erase(store.graph_id, np.array([2]), before=None)
    assert labels_path(path).exists()


def test_files_that_no_job_names_go_after_the_grace_time(store: Store) -> None:
    published = store.publish()
    running = store.write(store.start())
    fenced_job = store.start()
    fenced = store.write(fenced_job)
    store.queue.fail(fenced_job.id, fenced_job.attempt, "no")
    half_written = fenced.with_name(f"{TEMPORARY_PREFIX}1-{fenced.name}")
    half_written.write_bytes(b"half")
    assert not store.predictions.clean(store.graph_id)
    removed = store.predictions.clean(store.graph_id, grace_seconds=0.0)
    assert set(removed) == {fenced, half_written}
    assert store.files() == {file_of(published), running.name}


def test_the_file_of_a_refused_attempt_can_be_discarded(store: Store) -> None:
    path = store.write(store.start())
    store.predictions.discard(store.graph_id, path.name)
    store.predictions.discard(store.graph_id, path.name)
    assert not store.files()


def test_snapshots_of_kept_predictions_and_of_running_jobs_are_known(store: Store) -> None:
    for snapshot in range(KEEP_PER_MODEL + 1):
        store.publish(snapshot=snapshot)
    store.predictions.clean(store.graph_id, grace_seconds=0.0)
    store.publish("stable-hfs", snapshot=40)
    store.start("hfs", snapshot=7)
    assert store.predictions.kept_snapshots(store.graph_id) == {1, 2, 3, 7, 40}


def test_a_graph_without_predictions_has_nothing_to_clean(store: Store) -> None:
    assert not store.predictions.clean(store.graph_id)
    assert not store.predictions.kept_snapshots(store.graph_id)
