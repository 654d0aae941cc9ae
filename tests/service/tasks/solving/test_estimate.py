"""Estimates agree with what the process that solves does, and refuse what it would refuse."""

import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.database.engine import open_database
from peewit.service.jobs.job import JobSpec
from peewit.service.jobs.queue import JobQueue
from peewit.service.labels.store import LabelStore
from peewit.service.settings import Settings
from peewit.service.tasks.newest_snapshot import NoSnapshot
from peewit.service.tasks.solving import estimate as estimate_module
from peewit.service.tasks.solving.estimate import DoesNotFit, Estimator
from peewit.service.tasks.solving.solve_memory import RESERVED_BYTES, graph_bytes
from peewit.service.wire.jobs import Estimate
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto import auto, walk_arm
from peewit.solvers.models.auto import preparation as auto_preparation
from peewit.solvers.models.catalogue import CATALOGUE
from peewit.solvers.solution import Solution
from peewit.streaming.features.store import FeatureStore, NewRows
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.edge_folds import product_bytes
from peewit.streaming.snapshots.store import SnapshotStore
from tests.fresh_databases import fresh
from tests.service.solvable import Solvable, graphs_within, parity_features, two_communities
from tests.service.tasks.solving.test_solve import solved, task

N_NODES = 60
GRAM_BYTES = N_NODES**2 * 8


@dataclass(frozen=True, kw_only=True)
class Home:
    graph: Solvable

    @property
    def record(self) -> GraphRecord:
        return Catalog(self.graph.database).get_by_id(self.graph.graph_id)

    def estimator(self, memory_bytes: int) -> Estimator:
        return Estimator(
            jobs=JobQueue(self.graph.database),
            labels=LabelStore(self.graph.database),
            graphs_directory=self.graph.settings.graphs_directory,
            memory_bytes=memory_bytes,
        )

    def estimate(self, model: str, memory_bytes: int = 2**31, **parameters: Any) -> Estimate:
        return self.estimator(memory_bytes).estimate(self.record, model, parameters)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    settings = Settings(home=tmp_path / "home", database_url=None)
    database = open_database(fresh(settings.database))
    graph = Solvable.create(database, settings, "g")
    graph.publish(1, *two_communities())
    graph.label({"n4": "even", "n7": "odd"})
    yield Home(graph=graph)
    database.close()


def loaded(home: Home) -> Graph:
    return SnapshotStore(GraphPaths(root=home.graph.directory).snapshots).load(1).graph


def test_memory_of_a_graph_counts_what_it_holds(home: Home) -> None:
    graph = loaded(home)
    held = (graph.adjacency.data, graph.adjacency.indices, graph.adjacency.indptr)
    own = sum(each.nbytes for each in held)
    assert graph_bytes(graph.n_nodes, graph.n_edges) == 5 * own


def preparation(model: str) -> tuple[object, ...]:
    """What an estimate asks a model for; those that share it all are estimated in one way."""
    asked = ("prepare", "plan", "of_graph", "working_bytes")
    return tuple(getattr(CATALOGUE[model], name, None) for name in asked)


ONE_OF_EACH = sorted({preparation(model): model for model in sorted(CATALOGUE)}.values())


@pytest.mark.parametrize("model", ONE_OF_EACH)
@pytest.mark.parametrize("version", [0, 1])
def test_the_input_is_what_the_solve_says(home: Home, model: str, version: int) -> None:
    if version:
        home.graph.features(version, parity_features(N_NODES))
    found = home.estimate(model)
    solver = graphs_within(2**31)
    labels: dict[str, str | int] = {"n4": "even", "n7": "odd", "n40": "even", "n37": "odd"}
    asked = replace(task(home.graph.directory, labels, model=model), features_version=version)
    result = solved(solver, asked).result
    assert (found.input, found.features_version) == (result["input"], result["features_version"])
    assert (found.gram, found.precision) == tuple(
        result["stats"].get(name) for name in ("gram", "precision")
    )
    assert found.fits
    assert (found.n_nodes, found.n_edges) == (N_NODES, loaded(home).n_edges)


@pytest.mark.parametrize(
    ("room", "parameters", "form"),
    [
        (3 * GRAM_BYTES, {"gram": "dense"}, ("dense", "float64")),
        (GRAM_BYTES, {"gram": "dense", "method": "pcg"}, ("dense", "float32")),
        (2**29, {"gram": "landmarks", "n_landmarks": 20}, ("landmarks", "float64")),
    ],
)
def test_the_form_that_fits_is_the_one_that_is_solved_with(
    home: Home, room: int, parameters: dict[str, Any], form: tuple[str, str]
) -> None:
    home.graph.features(1, parity_features(N_NODES))
    graph = loaded(home)
    memory = RESERVED_BYTES + graph_bytes(graph.n_nodes, graph.n_edges) + room
    found = home.estimate("lapsvm", memory, **parameters)
    assert (found.gram, found.precision, found.n_points, found.n_features) == (*form, N_NODES, 3)
    assert found.gram_bytes is not None
    assert found.gram_bytes <= room
    assert found.n_bytes is not None
    assert found.n_bytes <= memory == found.limit_bytes
    asked = task(home.graph.directory, {"n4": "e", "n7": "o"}, model="lapsvm")
    asked = replace(asked, features_version=1, parameters=parameters)
    stats = solved(graphs_within(memory), asked).result["stats"]
    assert (stats["gram"], stats["precision"]) == form


def test_what_cannot_fit_is_refused_as_the_solve_would_be(home: Home) -> None:
    home.graph.features(1, parity_features(N_NODES))
    parameters = {"gram": "dense"}
    memory = RESERVED_BYTES + 1
    found = home.estimate("lapsvm", memory, **parameters)
    assert (found.fits, found.gram, found.n_bytes) == (False, None, None)
    assert found.message is not None
    assert "needs 1 MiB for 60 nodes, but 0 MiB may be used" in found.message
    assert "PEEWIT_CHILD_MEMORY_BYTES, 512 MiB here" in found.message
    assert "The process itself takes 512 MiB of them and the graph 0 MiB" in found.message
    with pytest.raises(DoesNotFit) as refused:
        home.estimator(memory).require_room(home.record, "lapsvm", parameters)
    asked = task(home.graph.directory, {"n4": "e", "n7": "o"}, model="lapsvm")
    asked = replace(asked, features_version=1, parameters=parameters)
    with pytest.raises(ValueError, match="may be used") as failed:
        solved(graphs_within(memory), asked)
    assert str(refused.value) == str(failed.value) == found.message


def test_a_graph_that_no_machine_holds_is_refused(home: Home) -> None:
    paths = GraphPaths(root=home.graph.directory)
    path = paths.snapshots / "00000001" / "meta.json"
    edges = loaded(home).n_edges
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(f'"edges_kept": {edges}', f'"edges_kept": {10**13}'), "utf-8")
    found = home.estimate("hfs")
    assert not found.fits
    assert found.message is not None
    assert "model hfs needs about" in found.message
    with pytest.raises(DoesNotFit, match="set max_edges or a larger epsilon"):
        home.estimator(2**31).require_room(home.record, "hfs", {})
    assert home.estimate("hfs", 2**60).fits


def test_a_graph_that_fits_unless_its_edges_mix_weakly_is_taken_with_a_word(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = home.estimate("auto").n_bytes
    assert most is not None
    machine = SimpleNamespace(total=most - 1)
    monkeypatch.setattr(estimate_module.psutil, "virtual_memory", lambda: machine)
    found = home.estimate("auto", 1)
    assert found.fits
    assert found.message is not None
    assert "model auto needs, where edges mix weakly, about 0.50 GiB" in found.message
    home.estimator(1).require_room(home.record, "auto", {})
    machine.total = most
    assert home.estimate("auto", 1).message is None
    graph = loaded(home)
    one, four = (graph_bytes(graph.n_nodes, graph.n_edges, copies) for copies in (1.0, 4.0))
    machine.total = most - (four - one) - 1
    with pytest.raises(DoesNotFit, match="model auto needs about"):
        home.estimator(1).require_room(home.record, "auto", {})


def test_sparse_rows_count_by_their_entries(home: Home) -> None:
    entries = sp.csr_array(np.eye(N_NODES, 1_000, dtype=np.float32))
    rows = NewRows(
        nodes=np.arange(N_NODES),
        n_columns=1_000,
        blocks=[entries],
        lengths=np.ones(N_NODES, np.int64),
    )
    store = FeatureStore(GraphPaths(root=home.graph.directory).features)
    store.publish(1, rows, created_at=0.0)
    home.graph.tell_features(1)
    found = home.estimate("lapsvm", gram="dense")
    assert (found.n_points, found.n_features) == (N_NODES, 1_000)
    assert found.gram_bytes == N_NODES**2 * 16 + N_NODES * 12


def test_only_points_of_the_snapshot_count(home: Home) -> None:
    home.graph.features(1, parity_features(N_NODES + 40))
    assert home.estimate("svm").n_points == N_NODES


def test_without_a_snapshot_nothing_is_known_and_nothing_refused(home: Home) -> None:
    empty = Solvable.create(home.graph.database, home.graph.settings, "empty")
    record = Catalog(home.graph.database).get_by_id(empty.graph_id)
    with pytest.raises(NoSnapshot, match="graph empty has no snapshot yet; ingest edges first"):
        home.estimator(1).estimate(record, "lapsvm", {})
    home.estimator(1).require_room(record, "lapsvm", {})


def test_time_is_that_of_the_last_equal_job_or_none(home: Home) -> None:
    queue = JobQueue(home.graph.database)
    assert home.estimate("hfs", graph_penalty=2.0).seconds is None
    for seconds, penalty in ((1.5, 2.0), (4.0, 3.0)):
        parameters = {"graph_penalty": penalty}
        spec = JobSpec(graph_id=home.graph.graph_id, model="hfs", parameters=parameters)
        job = queue.submit(spec)
        claimed = queue.claim("worker", ("fast",))
        assert claimed is not None
        queue.capture(job.id, 1, snapshot=1, labels_seq=2, features_version=0)
        queue.finish(job.id, 1, {"seconds": {"loading": 0.25, "solving": seconds}, "file": "x"})
    found = home.estimate("hfs", graph_penalty=2.0)
    assert (found.seconds, found.seconds_snapshot) == (1.75, 1)
    assert queue.get(found.seconds_job or "").parameters == {"graph_penalty": 2.0}


def test_linear_machines_read_rows_where_they_lie_and_hold_vectors(home: Home) -> None:
    home.graph.features(1, parity_features(N_NODES))
    graph = loaded(home)
    found = home.estimate("da-svm")
    assert (found.gram, found.n_points, found.n_features) == (None, N_NODES, 3)
    own = CATALOGUE["da-svm"]().working_bytes(N_NODES, 3, 12)
    assert 8 * N_NODES < own < 200 * (N_NODES + 3)
    apart = RESERVED_BYTES + graph_bytes(graph.n_nodes, graph.n_edges) + own
    assert found.n_bytes == apart + 2 * 64 * graph.n_nodes
    assert home.estimate("da-svm", multi_class="one-against-rest").n_bytes == apart
    home.graph.label({f"n{node}": f"class {node}" for node in range(10, 17)})  # nine in all
    assert home.estimate("da-svm").n_bytes == apart + 9 * 64 * graph.n_nodes


def test_duals_of_total_variation_count_by_the_classes(home: Home) -> None:
    graph = loaded(home)
    without = home.estimate("hfs").n_bytes
    assert without is not None
    two = home.estimate("tv-rls", initial="harmonic").n_bytes
    assert two == without + 2 * graph.n_edges * (4 + 2 * 4 * 2)
    home.graph.label({f"n{node}": f"class {node}" for node in range(10, 17)})  # nine in all
    nine = 2 * graph.n_edges * (4 + 2 * 4 * 9)
    assert home.estimate("tv-rls", initial="harmonic").n_bytes == without + nine
    assert home.estimate("cheeger-rls").n_bytes == without + nine
    assert home.estimate("tv-rls", proximal_rtol=1e-6).n_bytes == without + 2 * nine
    assert home.estimate("hfs").n_bytes == without


def test_columns_of_auto_count_by_the_classes(home: Home) -> None:
    graph = loaded(home)
    without = home.estimate("hfs").n_bytes
    of_graph = RESERVED_BYTES + graph_bytes(graph.n_nodes, graph.n_edges, 4.0)
    each = 4 + 14 * 8  # of float32, and fourteen vectors of float64 for each that is solved for
    # what walks began with, twice, and a cycle; harmonic functions, and where both ended, by class;
    # points of nodes, as many columns of the spectrum as a third of the nodes
    points = 4 * (N_NODES // 3 + 4)
    kept = 50 + 6 * 2 + 8 * (30 + 2) + points
    assert home.estimate("auto").n_bytes == of_graph + N_NODES * (30 * each + kept)
    home.graph.label({f"n{node}": f"class {node}" for node in range(10, 40)})  # 32 in all
    kept = 50 + 6 * 32 + 8 * (5 * 32 + 32) + points
    assert home.estimate("auto").n_bytes == of_graph + N_NODES * (5 * 32 * each + kept)
    assert home.estimate("hfs").n_bytes == without


def test_what_refining_holds_counts_by_its_columns(home: Home) -> None:
    without = home.estimate("hfs").n_bytes
    assert without is not None
    graph = loaded(home)
    for model, columns in (("hfs", 2), ("poisson", 2), ("auto", 34)):
        lanes = product_bytes(N_NODES, 2 * columns)
        copies = CATALOGUE[model].graph_copies[1]
        of_graph = RESERVED_BYTES + graph_bytes(graph.n_nodes, graph.n_edges, copies)
        expected = of_graph + N_NODES * 18 * 8 * columns + lanes
        assert home.estimate(model, refine=True).n_bytes == expected
    number = home.estimate("hfs", refine=True, target="real").n_bytes
    assert number == without + N_NODES * 18 * 8 + product_bytes(N_NODES, 2)


@pytest.mark.slow
@pytest.mark.parametrize(("block_entries", "least"), [(1 << 24, 0.33), (1 << 14, 0.5)])
def test_the_memory_of_auto_is_what_its_solve_takes(
    monkeypatch: pytest.MonkeyPatch, block_entries: int, least: float
) -> None:
    """Of many columns at a time, of which this graph needs no multigrid; and of one, where the
    walks take the most."""
    monkeypatch.setattr(auto_preparation, "_BLOCK_ENTRIES", block_entries)
    n_nodes, n_classes = 20_000, 10
    rng = np.random.default_rng(0)
    classes = rng.integers(0, n_classes, n_nodes)
    order = np.argsort(classes, kind="stable")
    first = np.searchsorted(classes[order], np.arange(n_classes + 1))
    u = rng.integers(0, n_nodes, 5 * n_nodes)
    own = first[classes[u]] + rng.random(u.size) * np.diff(first)[classes[u]]
    inside = rng.random(u.size) < 0.8
    v = np.where(inside, order[own.astype(int)], rng.integers(0, n_nodes, u.size))
    graph = Graph.from_edges(
        u[u != v], v[u != v], np.ones(np.count_nonzero(u != v)), n_nodes=n_nodes
    )
    labeled = np.concatenate([order[at : at + 20] for at in first[:-1]])
    told, peak, solution = told_and_taken(graph, Labels.from_pairs(labeled, classes[labeled]))
    assert least * told < peak < told
    assert solution.stats["harmonic"] == "left out"


@pytest.mark.slow
@pytest.mark.parametrize("by_far", [walk_arm.BY_FAR, np.inf])  # walks begin twice
@pytest.mark.parametrize(
    ("block_entries", "n_classes"), [(1 << 24, 10), (1 << 14, 3), (1 << 14, 9)]
)
def test_the_memory_of_auto_covers_harmonic_functions(
    monkeypatch: pytest.MonkeyPatch, block_entries: int, n_classes: int, by_far: float
) -> None:
    monkeypatch.setattr(walk_arm, "BY_FAR", by_far)
    monkeypatch.setattr(auto_preparation, "_BLOCK_ENTRIES", block_entries)
    side = 140
    place = np.arange(side * side).reshape(side, side)
    u = np.concatenate([place[:, :-1].ravel(), place[:-1].ravel()])
    v = np.concatenate([place[:, 1:].ravel(), place[1:].ravel()])
    graph = Graph.from_edges(u, v, np.ones(u.size), n_nodes=side * side)
    labeled = np.sort(np.random.default_rng(0).choice(side * side, 200, replace=False))
    labels = Labels.from_pairs(labeled, labeled // side * n_classes // side)
    told, peak, solution = told_and_taken(graph, labels)
    assert 0.5 * told < peak < told
    assert solution.stats["harmonic"] == "anew"


def told_and_taken(graph: Graph, labels: Labels) -> tuple[int, int, Solution]:
    """Bytes that the estimate tells of `auto`, those of its first answer, and the answer."""
    model = auto.Auto()
    tracemalloc.start()
    solution = model.solve(model.prepare(graph), labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    own = graph.n_nodes * model.node_bytes(graph.n_nodes, labels.n_classes)
    return graph_bytes(graph.n_nodes, graph.n_edges) + own, peak, solution
