"""The demo's data, and the demo itself with the accuracy that the README promises."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_digits

from peewit.service.catalog import Catalog
from peewit.service.database.engine import open_database
from peewit.service.demo.digits import digit_edges, digit_labels, draw_labels, write_shuffled
from peewit.service.demo.own_home import demo_settings, take_home
from peewit.service.demo.walk import (
    _MARKER,
    LABELS_PER_CLASS,
    SEED,
    DemoFiles,
    DemoResult,
    _fresh_graph,
    run_demo,
)
from peewit.service.graph_settings import GraphSettings
from peewit.service.jobs.worker_registry import WorkerRegistry
from peewit.service.labels.store import LabelStore
from peewit.service.settings import COMPILED, Settings
from peewit.solvers.labels import Labels
from peewit.solvers.models.catalogue import CATALOGUE, DEFAULT_MODEL
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.nodes.index import open_nodes
from peewit.streaming.snapshots.store import SnapshotStore

N_DRAWS = 10


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "home"


@pytest.fixture(scope="module")
def settings(directory: Path) -> Settings:
    return demo_settings(Settings(), directory)


@pytest.fixture(scope="module")
def told() -> list[str]:
    return []


@pytest.fixture(scope="module")
def result(processes: None, settings: Settings, told: list[str]) -> DemoResult:
    return run_demo(settings, told.append)


def test_neighbors_are_joined_once_and_weigh_less_the_farther_they_are() -> None:
    edges = digit_edges(n_neighbors=10)
    u = np.char.partition(edges["src"].to_numpy(zero_copy_only=False).astype(str), "-")[:, 2]
    v = np.char.partition(edges["dst"].to_numpy(zero_copy_only=False).astype(str), "-")[:, 2]
    pairs = np.sort(np.stack([u.astype(int), v.astype(int)], axis=1), axis=1)
    assert len(np.unique(pairs, axis=0)) == edges.num_rows
    assert (pairs[:, 0] != pairs[:, 1]).all()
    assert np.bincount(pairs.ravel()).min() >= 10
    weight = edges["weight"].to_numpy()
    assert ((weight > 0) & (weight <= 1)).all()
    images = load_digits().data
    distance = np.linalg.norm(images[pairs[:, 0]] - images[pairs[:, 1]], axis=1)
    nearest = distance < np.quantile(distance, 0.1)
    assert np.median(weight[nearest]) > np.median(weight[~nearest])


def test_draw_takes_equally_many_of_each_class() -> None:
    drawn = draw_labels(digit_labels(), 7, seed=3)
    counts = pc.value_counts(drawn["label"]).to_pylist()
    assert {each["counts"] for each in counts} == {7}
    assert len(counts) == 10
    assert drawn == draw_labels(digit_labels(), 7, seed=3)
    assert drawn != draw_labels(digit_labels(), 7, seed=4)
    with pytest.raises(ValueError, match="per_class"):
        draw_labels(digit_labels(), 1000, seed=3)


def test_edges_are_written_in_another_order_and_several_row_groups(tmp_path: Path) -> None:
    edges = digit_edges()
    write_shuffled(edges, tmp_path / "edges.parquet", seed=1)
    written = pq.ParquetFile(tmp_path / "edges.parquet")
    assert written.num_row_groups >= 4
    table = written.read()
    assert table != edges
    keys = [("src", "ascending"), ("dst", "ascending")]
    assert table.sort_by(keys) == edges.sort_by(keys)


def test_demo_keeps_its_promises(result: DemoResult, told: list[str]) -> None:
    assert result.evaluation.accuracy is not None
    assert result.evaluation.accuracy >= 0.955
    assert result.evaluation.n_judged == 1797 - 10 * LABELS_PER_CLASS
    assert result.snapshot.edges_seen == 112_374
    assert result.snapshot.edges_kept <= 0.2 * result.snapshot.edges_seen
    assert result.snapshot.epsilon_asked is None  # a small budget thins
    assert result.snapshot.edges_kept <= result.snapshot.max_edges
    assert result.snapshot.epsilon_expected > 0
    assert any("112,374 edges" in line for line in told)


def test_demo_leaves_its_files(result: DemoResult) -> None:
    files = DemoFiles(directory=result.directory)
    predictions = pq.read_table(files.predictions)
    assert predictions.num_rows == 1797
    assert {"node", "label", "probability", "margin", "reachable"} <= set(predictions.column_names)
    meta = json.loads(predictions.schema.metadata[b"peewit"])
    assert meta["job_id"] == result.job.id
    assert len(list(files.items.glob("digit-*.svg"))) == 1797
    for path in (files.edges, files.labels, files.truth):
        assert path.stat().st_size > 0


def test_ten_draws_of_labels_are_right_on_average(result: DemoResult, settings: Settings) -> None:
    paths = GraphPaths(root=settings.graphs_directory / result.job.graph_id)
    snapshot = SnapshotStore(paths.snapshots).load(result.snapshot.number)
    nodes = open_nodes(paths.nodes, kind="string", n_nodes=snapshot.meta.n_nodes, writable=False)
    truth_table = digit_labels()
    truth = np.empty(1797, dtype=np.int64)
    truth[nodes.lookup(truth_table["node"])] = truth_table["label"].to_numpy()
    model = CATALOGUE[DEFAULT_MODEL]()
    prepared = model.prepare(snapshot.graph)
    accuracies = []
    for seed in range(N_DRAWS):
        drawn = draw_labels(truth_table, LABELS_PER_CLASS, seed=seed)
        labels = Labels.from_pairs(nodes.lookup(drawn["node"]), drawn["label"].to_numpy())
        scores = model.solve(prepared, labels).scores
        predicted = np.asarray(labels.class_names)[scores.argmax(axis=1)]
        others = np.setdiff1d(np.arange(1797), labels.nodes)
        accuracies.append(float((predicted[others] == truth[others]).mean()))
    assert np.mean(accuracies) >= 0.96


@pytest.fixture
def own_graph(result: DemoResult, settings: Settings) -> Iterator[str]:
    """A graph of the user's in the demo's home."""
    database = open_database(settings.database)
    yield Catalog(database).create(GraphSettings(name="mine")).id
    database.close()


def test_second_run_starts_afresh_and_spares_what_is_not_its_own(
    result: DemoResult, settings: Settings, own_graph: str
) -> None:
    truth = {row["node"]: row["label"] for row in digit_labels().to_pylist()}
    drawn = draw_labels(digit_labels(), LABELS_PER_CLASS, seed=SEED)["node"].to_pylist()
    by_hand = next(name for name in truth if name not in drawn)
    with closing(open_database(settings.database)) as database:
        LabelStore(database).put(result.job.graph_id, [by_hand], [truth[by_hand]])
    lines: list[str] = []
    again = run_demo(settings, lines.append)
    assert again.job.graph_id != result.job.graph_id
    assert any(
        "100 put, 10 of each digit, 1 by hand kept, labels_seq 101" in each for each in lines
    )
    assert again.evaluation.n_judged == result.evaluation.n_judged - 1
    database = open_database(settings.database)
    records = {record.settings.name: record.id for record in Catalog(database).list()}
    database.close()
    assert records == {"digits": again.job.graph_id, "mine": own_graph}


def test_labels_by_hand_outlive_another_run(tmp_path: Path) -> None:
    settings = demo_settings(Settings(), tmp_path / "demo")
    drawn = draw_labels(digit_labels(), LABELS_PER_CLASS, seed=SEED)
    first, *others = drawn["node"].to_pylist()
    by_hand = next(name for name in digit_labels()["node"].to_pylist() if name not in others)
    with closing(open_database(settings.database)) as database:
        graph = _fresh_graph(database)
        store = LabelStore(database)
        labels = drawn["label"].to_pylist()
        store.put(graph.id, [first, *others], labels)
        store.put(graph.id, [by_hand], [3], origin="suggested", annotator="Ann")  # new
        store.put(graph.id, [first], [-1])  # corrected
        store.put(graph.id, [others[0]], ["unclear"])  # as earlier versions allowed
        again = _fresh_graph(database)
        assert again.id != graph.id
        kept = store.current(again.id)
    assert dict(zip(kept.nodes.to_pylist(), kept.labels, strict=True)) == {by_hand: 3, first: -1}
    assert kept.origins.to_pylist() == ["suggested", "given"]
    assert kept.annotators.to_pylist() == ["Ann", None]


def test_home_that_a_server_uses_is_left_alone(tmp_path: Path) -> None:
    settings = demo_settings(Settings(), tmp_path / "demo")
    settings.home.mkdir()
    (settings.home / ".peewit-demo").touch()
    database = open_database(settings.database)
    WorkerRegistry(database).register("somewhere-1", ("fast",))
    database.close()
    with pytest.raises(RuntimeError, match="somewhere-1"):
        run_demo(settings, lambda _: None)


def test_a_directory_with_compiled_code_only_counts_as_new(tmp_path: Path) -> None:
    (tmp_path / COMPILED).mkdir()  # as where PEEWIT_HOME names the demo's own directory
    take_home(tmp_path, _MARKER, "demo")
    (tmp_path / "thesis.txt").write_text("of the demo's owner")
    take_home(tmp_path, _MARKER, "demo")


def test_directory_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("do not touch")
    with pytest.raises(FileExistsError, match="--dir"):
        run_demo(demo_settings(Settings(), tmp_path), lambda _: None)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
