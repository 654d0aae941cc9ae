"""Solves on replicas of the sparsifier."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from peewit.service.predictions.sorted_rows import sorted_rows
from peewit.service.tasks.solving.solve_options import MAX_REPLICAS, validate_solve
from peewit.service.tasks.tasks_and_messages import Done, TaskStopped
from peewit.service.tasks.warm_graphs import WarmGraphs
from peewit.solvers.labels import Labels
from peewit.solvers.models.classes.score_calibration import Calibration
from peewit.solvers.models.harmonic.harmonic import HFS
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.snapshots.replicas import replicas
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import Records
from tests.service.solvable import graphs_within, publish_snapshot, two_communities
from tests.service.tasks.solving.test_solve import MEMORY_BYTES, predictions, run, solved, task

WAVERING = 60
"""A node that one sampled edge joins to each community."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two communities of which every edge was kept, but for the two of one node."""
    root = tmp_path / "g"
    u, v = two_communities()
    u, v = np.append(u, [WAVERING, WAVERING]), np.append(v, [5, 45])
    meta = publish_snapshot(root, 1, u, v)
    store = SnapshotStore(GraphPaths(root=root).snapshots)
    edges = store.edges(1)
    ends = [edges[name].to_numpy() for name in ("u", "v")]
    is_sampled = np.maximum(*ends) == meta.n_nodes - 1
    records = Records(
        u=ends[0],
        v=ends[1],
        weight=edges["weight"].to_numpy().astype(np.float32),
        keep_probability=np.where(is_sampled, 0.1, 1.0).astype(np.float32),
        key=np.arange(len(edges), dtype=np.uint32),
    )
    store.publish_records(replace(meta, number=2, sampling_constant=1.0), [records])
    return root


def asked(
    directory: Path, solver: WarmGraphs, snapshot: int, **options: object
) -> tuple[Done, pa.Table]:
    answer = solved(solver, task(directory, snapshot=snapshot, parameters=options))
    return answer, predictions(directory, answer).table()


@pytest.mark.slow
def test_nodes_that_coins_decide_are_marked(directory: Path, solver: WarmGraphs) -> None:
    answer, table = asked(directory, solver, 2, replicas=12)
    assert table.schema.names[4:7] == ["reachable", "labeled", "stability"]
    found = dict(zip(*(table[name].to_pylist() for name in ("node", "stability")), strict=True))
    wavering = found.pop(f"n{WAVERING}")
    assert 0.0 < wavering < 1.0
    assert set(found.values()) == {1.0}
    assert answer.result["stats"]["replicas"] == {"n_replicas": 12, "n_unstable": 1}
    file = predictions(directory, answer)
    assert file.lookup(np.array([0]))[0]["stability"] == 1.0
    first = next(sorted_rows(file, "stability", n_rows=1)).to_pylist()[0]
    assert first["node"] == f"n{WAVERING}"


def test_stability_counts_the_replicas_with_the_same_class(
    directory: Path, solver: WarmGraphs
) -> None:
    _, table = asked(directory, solver, 2, replicas=5)
    nodes, own = table["node"].to_pylist(), table["label"].to_pylist()
    ids = np.array([int(each[1:]) for each in nodes])
    n_same = np.zeros(len(own))
    store = SnapshotStore(GraphPaths(root=directory).snapshots)
    for number, graph in enumerate(replicas(store, 2, 5)):
        coordinates = graph.adjacency.tocoo()
        u, v = coordinates.coords
        is_once = u < v
        root = directory.parent / f"replica-{number}"
        publish_snapshot(root, 1, ids[u[is_once]], ids[v[is_once]], coordinates.data[is_once])
        answer = solved(graphs_within(MEMORY_BYTES), task(root))
        told = predictions(root, answer).table()
        other = dict(zip(*(told[name].to_pylist() for name in ("node", "label")), strict=True))
        n_same += [
            other[node] == label for node, label in zip(table["node"].to_pylist(), own, strict=True)
        ]
    np.testing.assert_allclose(table["stability"].to_numpy(), n_same / 5, rtol=1e-6)


def test_stability_is_that_of_the_label_beside_it(directory: Path, solver: WarmGraphs) -> None:
    labels = {f"n{node}": "left" if node < 30 else "right" for node in range(0, 60, 4)}
    parameters = {"replicas": 4, "probabilities": True, "cross_validate": 3}
    asked_for = task(directory, labels, snapshot=2, parameters=parameters)
    answer = solved(solver, asked_for)
    told = predictions(directory, answer).table()
    stable = dict(zip(*(told[each].to_pylist() for each in ("node", "stability")), strict=True))
    assert stable["n0"] == stable["n59"] == 1.0
    file = predictions(directory, answer)
    assert file.meta.calibration is not None
    calibration = Calibration.restored(file.meta.calibration)
    store = SnapshotStore(GraphPaths(root=directory).snapshots)
    known = np.array([int(each[1:]) for each in told["node"].to_pylist()])
    given = Labels.from_pairs(
        [int(np.flatnonzero(known == int(node[1:]))[0]) for node in labels], list(labels.values())
    )
    n_same = np.zeros(known.size)
    own = told["label"].to_pylist()
    model = HFS()
    for graph in replicas(store, 2, 4):
        scores = calibration.probabilities(model.solve(model.prepare(graph), given).scores)
        n_same += np.array(given.class_names)[scores.argmax(axis=1)] == own
    np.testing.assert_allclose(told["stability"].to_numpy(), n_same / 4, rtol=1e-6)


def test_a_graph_of_which_every_edge_was_kept_is_stable(
    directory: Path, solver: WarmGraphs
) -> None:
    answer, table = asked(directory, solver, 1, replicas=2)
    assert set(table["stability"].to_pylist()) == {1.0}
    assert answer.result["stats"]["replicas"]["n_unstable"] == 0
    _, plain = asked(directory, solver, 1)
    assert "stability" not in plain.schema.names


def test_snapshots_that_say_nothing_of_coins_are_refused(
    directory: Path, solver: WarmGraphs
) -> None:
    SnapshotStore(GraphPaths(root=directory).snapshots).erase(2, np.array([3], np.int32))
    with pytest.raises(ValueError, match=r"replicas cannot be made.*solve again on a newer one"):
        asked(directory, solver, 2, replicas=2)


def test_a_job_that_is_to_stop_stops_between_replicas(directory: Path, solver: WarmGraphs) -> None:
    whole = task(directory, snapshot=2, parameters={"replicas": 3})
    solved(solver, task(directory, snapshot=2))  # prepared: what comes next is asked of replicas
    assert isinstance(run(solver, whole, stop_after=6), TaskStopped)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"replicas": -1}, "replicas must be"),
        ({"replicas": MAX_REPLICAS + 1}, f"replicas must be at most {MAX_REPLICAS}"),
        ({"replicas": 2, "refine": True}, "replicas must be left out beside refine"),
        ({"replicas": 2, "target": "real"}, "replicas must be left out beside target='real'"),
    ],
)
def test_what_cannot_be_done_is_refused(options: dict[str, object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        validate_solve("hfs", options)
