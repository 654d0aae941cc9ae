"""Prediction files: what they hold, and which of them stay."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import update

from service.catalog import Catalog, GraphSettings
from service.database import Database, jobs, now, open_database
from service.job_queue import DatabaseJobQueue
from service.jobs import Job, JobSpec
from service.predictions import (
    KEEP_PER_MODEL,
    MAX_SCORE_COLUMNS,
    ROWS_PER_BATCH,
    PredictionFile,
    PredictionMeta,
    PredictionsNotFound,
    PredictionStore,
    predictor_path,
    write_predictions,
)
from streaming.durable import TEMPORARY_PREFIX

META = PredictionMeta(
    graph_id="g",
    job_id="abc123",
    attempt=2,
    model="hfs",
    parameters={"rtol": 1e-6},
    snapshot=4,
    labels_seq=17,
    features_version=0,
    epsilon_asked=0.7,
    epsilon_expected=0.65,
    solver_status="converged",
    score="class score",
    class_names=("cat", "dog", "eel"),
)
SCORES = np.array([[0.1, 0.7, 0.2], [0.5, 0.1, 0.4], [0.2, 0.3, 0.5]])
REACHABLE = np.array([True, True, False])
NODES = pa.array(["x", "y", "z"], pa.large_string())


def written(directory: Path, meta: PredictionMeta = META) -> PredictionFile:
    path = write_predictions(directory, meta, nodes=NODES, scores=SCORES, reachable=REACHABLE)
    return PredictionFile(path)


def test_a_row_holds_winner_score_margin_and_the_score_of_every_class(tmp_path: Path) -> None:
    table = written(tmp_path).table()
    assert table["node"].to_pylist() == ["x", "y", "z"]
    assert table["label"].to_pylist() == ["dog", "cat", None]
    assert table["reachable"].to_pylist() == [True, True, False]
    np.testing.assert_allclose(table["score"].to_numpy(), [0.7, 0.5, 0.5], rtol=1e-6)
    np.testing.assert_allclose(table["margin"].to_numpy(), [0.5, 0.1, 0.0], rtol=1e-6)
    scores = np.column_stack([table[f"score:{name}"].to_numpy() for name in META.class_names])
    np.testing.assert_allclose(scores, SCORES, rtol=1e-6)


def test_the_schema_says_what_the_predictions_were_made_of(tmp_path: Path) -> None:
    file = written(tmp_path)
    assert file.meta == META
    assert file.path.name == "abc123-2.arrow"
    assert list(tmp_path.iterdir()) == [file.path]


@pytest.mark.parametrize(
    ("class_names", "shown"),
    [
        ((3, 5, 9), [5, 3, None]),
        (("3", "5", "9"), ["5", "3", None]),
        ((3, "five", 9), ["five", "3", None]),
    ],
)
def test_labels_come_back_as_they_were_given(
    tmp_path: Path, class_names: tuple[str | int, ...], shown: list[str | int | None]
) -> None:
    file = written(tmp_path, replace(META, class_names=class_names))
    assert file.table()["label"].to_pylist() == shown
    assert file.meta.class_names == class_names


def test_classes_that_show_alike_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="got 3 both as a number and as a string"):
        written(tmp_path, replace(META, class_names=(3, "3", 4)))


def test_arrays_that_disagree_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must agree, got 2 nodes"):
        write_predictions(tmp_path, META, nodes=NODES[:2], scores=SCORES, reachable=REACHABLE)


def test_many_classes_have_no_column_each(tmp_path: Path) -> None:
    n_classes = MAX_SCORE_COLUMNS + 1
    meta = replace(META, class_names=tuple(range(n_classes)))
    path = write_predictions(
        tmp_path, meta, nodes=NODES, scores=np.eye(3, n_classes), reachable=REACHABLE
    )
    assert PredictionFile(path).schema.names == ["node", "label", "score", "margin", "reachable"]


def numbers_written(directory: Path) -> PredictionFile:
    meta = replace(META, score="value", class_names=())
    values = np.array([[0.1], [-7.0], [2.5]])
    path = write_predictions(directory, meta, nodes=NODES, scores=values, reachable=REACHABLE)
    return PredictionFile(path)


def test_a_row_of_numbers_holds_the_number_as_label_and_score(tmp_path: Path) -> None:
    file = numbers_written(tmp_path)
    table = file.table()
    assert table.schema.names == ["node", "label", "score", "margin", "reachable"]
    assert table["label"].type == pa.float64()
    assert table["label"].to_pylist() == [0.1, -7.0, None]
    np.testing.assert_array_equal(table["score"], np.array([0.1, -7.0, 2.5], np.float32))
    assert table["margin"].to_pylist() == [None, None, None]
    assert table["reachable"].to_pylist() == REACHABLE.tolist()
    assert (file.meta.score, file.meta.class_names) == ("value", ())
    assert file.lookup(np.array([1]))["label"].to_pylist() == [-7.0]


def test_numbers_need_one_column(tmp_path: Path) -> None:
    meta = replace(META, score="value", class_names=())
    with pytest.raises(ValueError, match=r"must agree, got 3 nodes, scores of shape \(3, 3\)"):
        write_predictions(tmp_path, meta, nodes=NODES, scores=SCORES, reachable=REACHABLE)


def test_probabilities_stay_between_nothing_and_one(tmp_path: Path) -> None:
    """The solver's tolerance may leave the interval."""
    beyond = np.array([[1 + 1e-6, -1e-6, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    for kind, least in (("probability", 0.0), ("class score", np.float32(-1e-6))):
        path = write_predictions(
            tmp_path,
            replace(META, score=kind),
            nodes=NODES,
            scores=beyond,
            reachable=REACHABLE,
        )
        table = PredictionFile(path).table()
        assert table["score:dog"].to_numpy().min() == least
        assert (table["score"].to_numpy().max() > 1) == (kind == "class score")


@pytest.fixture(scope="module")
def long_file(tmp_path_factory: pytest.TempPathFactory) -> PredictionFile:
    """Three batches; the score tells the row."""
    n_nodes = 2 * ROWS_PER_BATCH + 5
    rows = np.arange(n_nodes, dtype=np.float64)
    path = write_predictions(
        tmp_path_factory.mktemp("long"),
        replace(META, class_names=("low", "high")),
        nodes=pa.chunked_array(
            [pa.array(np.arange(n_nodes // 2)), pa.array(np.arange(n_nodes // 2, n_nodes))]
        ),
        scores=np.column_stack([np.full(n_nodes, -1.0), rows]),
        reachable=np.ones(n_nodes, dtype=bool),
    )
    return PredictionFile(path)


def test_batches_together_are_the_table(long_file: PredictionFile) -> None:
    assert long_file.n_nodes == 2 * ROWS_PER_BATCH + 5
    assert pa.Table.from_batches(long_file.batches()).equals(long_file.table())


@given(rows=st.lists(st.integers(0, 2 * ROWS_PER_BATCH + 4), max_size=20))
def test_a_lookup_gives_the_rows_asked_for_in_their_order(
    long_file: PredictionFile, rows: list[int]
) -> None:
    found = long_file.lookup(np.array(rows, dtype=np.int64))
    assert found["node"].to_pylist() == rows
    assert found["score"].to_pylist() == rows
    assert found["label"].to_pylist() == ["high"] * len(rows)


@pytest.mark.parametrize("row", [-1, 3])
def test_a_lookup_outside_the_snapshot_is_refused(tmp_path: Path, row: int) -> None:
    with pytest.raises(IndexError, match=r"must lie in \[0, 3\)"):
        written(tmp_path).lookup(np.array([0, row]))


def test_a_reader_keeps_a_file_that_is_removed(tmp_path: Path) -> None:
    file = written(tmp_path)
    file.path.unlink()
    assert file.lookup(np.array([1]))["label"].to_pylist() == ["cat"]


class Store:
    """A queue, a store and a graph, with a way to publish predictions."""

    def __init__(self, database: Database, directory: Path) -> None:
        self.database = database
        self.queue = DatabaseJobQueue(database)
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


def test_a_predictor_goes_with_its_predictions(store: Store) -> None:
    published = [store.publish(labels_seq=seq) for seq in range(KEEP_PER_MODEL + 1)]
    directory = store.predictions.directory(store.graph_id)
    predictors = [predictor_path(directory / file_of(job)) for job in published]
    for path in predictors:
        path.write_bytes(b"functions")
    orphan = directory / "ab-7.npz"
    orphan.write_bytes(b"of predictions that were never written")
    store.predictions.clean(store.graph_id)
    assert all(path.exists() for path in [orphan, *predictors])
    store.predictions.clean(store.graph_id, grace_seconds=0.0)
    assert [path.exists() for path in [orphan, *predictors]] == [False, False, True, True, True]
    store.predictions.discard(store.graph_id, file_of(published[1]))
    assert not predictors[1].exists()


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
