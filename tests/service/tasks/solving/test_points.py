"""Points of nodes on thinned snapshots: made from all edges, kept, and told."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peewit.service.predictions.prediction_files import PredictionFile
from peewit.service.tasks.warm_graphs import WarmGraphs
from peewit.streaming.snapshots.store import SnapshotStore
from tests.service.solvable import graphs_within
from tests.service.tasks.solving.test_thinning import N_NODES, graph, solved, task
from tests.streaming.streamed import StreamedGraph

__all__ = ["graph"]


def new_solver() -> WarmGraphs:
    return graphs_within(2**30)


def kept_files(graph: StreamedGraph) -> list[Path]:
    return sorted(graph.paths.snapshots.rglob("points-*"))


def share_right(graph: StreamedGraph, found: dict[str, Any]) -> float:
    file = PredictionFile(graph.paths.predictions / found["file"])
    labels = file.table()["label"].to_pylist()
    return float(np.mean([label == f"c{node % 3}" for node, label in enumerate(labels)]))


def test_points_of_all_edges_bring_back_what_thinning_costs(graph: StreamedGraph) -> None:
    found = solved(new_solver(), task(graph, "auto"))
    assert found["stats"]["points"] == "all edges"
    thinned = solved(new_solver(), task(graph, "auto", attempt=2, parameters={"max_passes": 0}))
    assert thinned["stats"]["points"] == "all edges"  # kept beside the snapshot
    (file,) = kept_files(graph)
    file.unlink()
    thinned = solved(new_solver(), task(graph, "auto", attempt=3, parameters={"max_passes": 0}))
    assert thinned["stats"]["points"] == "edges kept"
    assert share_right(graph, found) > share_right(graph, thinned) + 0.1


def test_solves_after_it_read_no_edge_again(graph: StreamedGraph) -> None:
    first = solved(new_solver(), task(graph, "auto"))
    (raw,) = (graph.paths.root.parent / "data").glob("*.parquet")
    raw.unlink()
    second = solved(new_solver(), task(graph, "auto", attempt=2, is_automatic=True))
    assert second["stats"]["points"] == "all edges"
    assert share_right(graph, second) == share_right(graph, first)
    assert second["warning"] == first["warning"]


def test_edges_that_are_gone_are_told(graph: StreamedGraph) -> None:
    (raw,) = (graph.paths.root.parent / "data").glob("*.parquet")
    raw.unlink()
    found = solved(new_solver(), task(graph, "auto"))
    assert found["stats"]["points"] == "edges kept"
    assert "points of nodes are of the edges kept alone" in found["warning"]
    assert raw.name in found["warning"]
    assert not kept_files(graph)


@pytest.mark.parametrize("changes", [{"is_automatic": True}, {"parameters": {"max_passes": 0}}])
def test_nobody_waits_for_passes_unasked(graph: StreamedGraph, changes: dict[str, Any]) -> None:
    found = solved(new_solver(), task(graph, "auto", **changes))
    assert found["stats"]["points"] == "edges kept"
    assert not kept_files(graph)


def test_points_go_with_erased_nodes(graph: StreamedGraph) -> None:
    solved(new_solver(), task(graph, "auto"))
    store = SnapshotStore(graph.paths.snapshots)
    store.erase(1, np.arange(5, dtype=np.int32))
    assert not kept_files(graph)
    assert store.points(store.meta(1), of_all_edges=True) is None


def test_nothing_is_kept_of_nodes_that_were_erased_meanwhile(graph: StreamedGraph) -> None:
    store = SnapshotStore(graph.paths.snapshots)
    loaded = store.meta(1)
    rows = np.zeros((N_NODES, 3), np.float32)
    store.keep_points(loaded, rows, of_all_edges=True)
    assert kept_files(graph)
    store.erase(1, np.arange(5, dtype=np.int32))
    store.keep_points(loaded, rows, of_all_edges=True)
    assert not kept_files(graph)


def test_no_pass_is_made_where_memory_is_short(graph: StreamedGraph) -> None:
    found = solved(graphs_within(2**20), task(graph, "auto"))
    assert found["stats"]["points"] == "edges kept"


def test_points_of_the_edges_kept_serve_other_processes(
    graph: StreamedGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peewit.service.tasks.solving.points._LEAST_KEPT", 1)
    first = solved(new_solver(), task(graph, "auto", is_automatic=True))
    (file,) = kept_files(graph)
    assert "kept" in file.name
    rows = np.load(file)
    rows[:] = 0.0
    np.save(file, rows)
    second = solved(new_solver(), task(graph, "auto", attempt=2, is_automatic=True))
    assert second["stats"]["points"] == "edges kept"
    assert second["stats"]["loo_spectral"] != first["stats"]["loo_spectral"]


def test_damaged_points_are_made_anew(graph: StreamedGraph) -> None:
    first = solved(new_solver(), task(graph, "auto"))
    (file,) = kept_files(graph)
    file.write_bytes(file.read_bytes()[:100])
    second = solved(new_solver(), task(graph, "auto", attempt=2))
    assert second["stats"]["points"] == "all edges"
    assert share_right(graph, second) == share_right(graph, first)
    store = SnapshotStore(graph.paths.snapshots)
    rows = store.points(store.meta(1), of_all_edges=True)
    assert rows is not None
    assert len(rows) == N_NODES


def test_a_refined_answer_makes_points_once(graph: StreamedGraph) -> None:
    found = solved(new_solver(), task(graph, "auto", parameters={"refine": True}))
    assert found["stats"]["refined"] == 1
    assert found["passes"] == {"refining": found["stats"]["passes"] + 1}  # and one for degrees
    assert found["stats"]["points"] == "all edges"
    assert share_right(graph, found) > 0.8
