"""What thinning decided is told after every solve of a thinned snapshot, and corrected."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.service.predictions.prediction_files import PredictionFile
from peewit.service.tasks.job_kind import TaskContext
from peewit.service.tasks.solving import thinning
from peewit.service.tasks.solving.solve import SolveKind, SolveTask
from peewit.service.tasks.solving.thinning import CORRECTED_RTOL, MOST_PASSES
from peewit.service.tasks.tasks_and_messages import Done, TaskStopped
from peewit.service.tasks.warm_graphs import WarmGraphs
from peewit.service.wire.solve_lines import solve_lines
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.snapshots.variances import VARIANCES
from tests.service.solvable import graphs_within
from tests.streaming.streamed import StreamedGraph, streamed

N_NODES, N_EDGES = 300, 12_000


@pytest.fixture
def solver() -> WarmGraphs:
    return graphs_within(2**30)


@pytest.fixture
def graph(tmp_path: Path) -> StreamedGraph:
    """Three blocks that a quarter of the edges tell apart, of which a tenth was kept."""
    data = tmp_path / "data"
    data.mkdir()
    rng = np.random.default_rng(0)
    u, v = rng.integers(0, N_NODES, (2, N_EDGES))
    v = np.where(rng.random(N_EDGES) < 0.25, v // 3 * 3 + u % 3, v)
    pq.write_table(pa.table({"src": u, "dst": v}), data / "edges.parquet")
    return streamed(tmp_path / "g", data, "dense", epsilon=None, max_edges=1_500)


def task(graph: StreamedGraph, model: str, **changes: Any) -> SolveTask:
    nodes = np.arange(0, N_NODES, 7)
    values: dict[str, Any] = {
        "job_id": "ab12",
        "attempt": 1,
        "graph_id": "g",
        "graph_directory": graph.paths.root,
        "snapshot": 1,
        "labels_seq": 1,
        "features_version": 0,
        "model": model,
        "parameters": {},
        "nodes": pa.array([str(node) for node in nodes], pa.large_string()),
        "labels": [f"c{node % 3}" for node in nodes],
        "origins": pa.array(["given"] * nodes.size),
        "n_threads": 2,
    }
    return SolveTask(**(values | changes))


def solved(solver: WarmGraphs, asked: SolveTask) -> dict[str, Any]:
    def ignore(_: object) -> None:
        """Reports that no test looks at."""

    context = TaskContext(graphs=solver, report=ignore, cancelled=lambda: False)
    answer = SolveKind().run(asked, context)
    assert isinstance(answer, Done)
    return dict(answer.result)


def labels_of(graph: StreamedGraph, result: dict[str, Any]) -> list[str]:
    file = PredictionFile(graph.paths.predictions / result["file"])
    return file.table()["label"].to_pylist()


@pytest.mark.parametrize("model", ["stable-hfs", "hfs", "poisson"])
def test_an_answer_corrects_itself_to_that_of_all_edges(
    graph: StreamedGraph, solver: WarmGraphs, model: str
) -> None:
    found = solved(solver, task(graph, model))
    told = found["thinning"]
    assert told["is_much"]
    assert 3 <= found["stats"]["passes"] <= MOST_PASSES + 1  # one more for degrees
    assert found["stats"]["residual"] <= CORRECTED_RTOL
    assert told["correction"] == "settled"
    assert found["stats"]["thinning_share"] == told["share"] > 0.1
    exact = solved(solver, task(graph, model, attempt=2, parameters={"refine": True}))
    plain = solved(solver, task(graph, model, attempt=3, parameters={"max_passes": 0}))
    truth = labels_of(graph, exact)
    n_wrong, n_before = (
        sum(ours != theirs for ours, theirs in zip(labels_of(graph, each), truth, strict=True))
        for each in (found, plain)
    )
    assert n_wrong < 0.02 * N_NODES < 0.1 * N_NODES < n_before
    first, second, *_ = solve_lines(found)
    assert first.startswith("right at ")
    assert "predictions changed; dropped edges do no harm now" in second


def test_solves_that_follow_by_themselves_tell_alone(
    graph: StreamedGraph, solver: WarmGraphs
) -> None:
    found = solved(solver, task(graph, "stable-hfs", is_automatic=True))
    assert "refined" not in found["stats"]
    assert found["thinning"]["is_much"]
    _, second, *_ = solve_lines(found, graph="g")
    assert f"`peewit graph set g --max-edges {found['thinning']['n_edges']}`" in second
    assert "--set refine=true" in second


def test_the_default_model_tells_the_ways_out(graph: StreamedGraph, solver: WarmGraphs) -> None:
    found = solved(solver, task(graph, "auto"))
    assert "refined" not in found["stats"]
    assert found["thinning"]["column"] in {"potentials", "densities"}
    if found["thinning"]["is_much"]:
        assert "--model stable-hfs" in solve_lines(found)[1]
        assert "graph set" not in solve_lines(found, door="page")[1]


@pytest.mark.parametrize(
    "options", [{"probabilities": True}, {"replicas": 2}, {"label_shares": True}]
)
def test_what_looks_at_the_kept_edges_alone_goes_with_their_answer(
    graph: StreamedGraph, solver: WarmGraphs, options: dict[str, Any]
) -> None:
    found = solved(solver, task(graph, "hfs", parameters=options))
    assert "refined" not in found["stats"]
    assert "--set refine=true" in solve_lines(found)[1]


def test_cross_validation_beside_passes_says_what_it_looked_at(
    graph: StreamedGraph, solver: WarmGraphs
) -> None:
    asked = {"refine": True, "cross_validate": 3}
    found = solved(solver, task(graph, "stable-hfs", parameters=asked))
    assert "labels were left out of solves on the edges that are kept" in found["warning"]


def test_without_raw_edges_it_is_a_warning(graph: StreamedGraph, solver: WarmGraphs) -> None:
    for path in (graph.paths.root.parent / "data").iterdir():
        path.unlink()
    found = solved(solver, task(graph, "poisson"))
    assert "not corrected by passes over all edges" in found["warning"]
    assert "edges.parquet: it is missing" in found["warning"]
    assert found["status"] == "converged"


def test_of_every_edge_there_is_nothing_to_tell(tmp_path: Path, solver: WarmGraphs) -> None:
    data = tmp_path / "data"
    data.mkdir()
    u, v = np.triu_indices(30, 1)
    pq.write_table(pa.table({"src": u, "dst": v}), data / "edges.parquet")
    whole = streamed(tmp_path / "g", data, "dense", epsilon=None, max_edges=10_000)
    nodes = pa.array([str(node) for node in range(6)], pa.large_string())
    few = {"nodes": nodes, "labels": ["a", "b"] * 3, "origins": pa.array(["given"] * 6)}
    found = solved(solver, task(whole, "auto", **few))
    assert found["thinning"] is None
    assert "thinning_share" not in found["stats"]


def test_a_snapshot_that_does_not_say_how_far_it_is_off_tells_nothing(
    graph: StreamedGraph, solver: WarmGraphs
) -> None:
    SnapshotStore(graph.paths.snapshots).companion(1, VARIANCES).unlink()
    told = solved(solver, task(graph, "poisson"))["thinning"]
    assert (told["share"], told["is_much"], told["correction"]) == (None, False, None)


def test_a_model_of_which_nothing_can_be_told_says_so(
    graph: StreamedGraph, solver: WarmGraphs
) -> None:
    found = solved(solver, task(graph, "harmonic-mbo"))
    assert found["thinning"]["share"] is None
    assert "how many predictions the others would change is not known" in solve_lines(found)[1]


def test_passes_that_were_too_few_promise_nothing(
    graph: StreamedGraph, solver: WarmGraphs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thinning, "MOST_PASSES", 3)
    monkeypatch.setattr(thinning, "_SETTLED", 1e-6)
    found = solved(solver, task(graph, "stable-hfs"))
    assert found["thinning"]["correction"] == "unfinished"
    assert "which is not enough here" in solve_lines(found)[1]
    assert found["judged"]["low"] is None
    assert found["judged"]["sample"] != "random"


def test_the_default_model_on_all_edges_says_what_still_follows_kept_ones(
    graph: StreamedGraph, solver: WarmGraphs
) -> None:
    found = solved(solver, task(graph, "auto", parameters={"refine": True}))
    assert found["thinning"]["correction"] == "part"
    assert "dropped edges do no harm" not in solve_lines(found)[1]


def test_a_correction_stops_when_it_is_told_to(graph: StreamedGraph, solver: WarmGraphs) -> None:
    reports: list[str] = []

    def is_correcting() -> bool:
        return any(phase == "correcting" for phase in reports)

    def note(advanced: Any) -> None:
        reports.append(advanced.phase.split(":")[0])

    context = TaskContext(
        graphs=solver, report=note, cancelled=lambda: bool(reports) and is_correcting()
    )
    assert SolveKind().run(task(graph, "poisson"), context) == TaskStopped()
    assert not list(graph.paths.predictions.glob("*.arrow"))


@pytest.mark.parametrize(
    ("origin", "n_labels", "sample", "has_interval"),
    [
        ("given", 150, "untested", False),
        ("random", 150, "random", True),
        ("random", 40, "untested", False),
    ],
)
def test_labels_drawn_at_random_speak_for_all_nodes(
    graph: StreamedGraph,
    solver: WarmGraphs,
    origin: str,
    n_labels: int,
    sample: str,
    has_interval: bool,
) -> None:
    nodes = np.sort(np.random.default_rng(3).choice(N_NODES, n_labels, replace=False))
    asked = task(
        graph,
        "stable-hfs",
        parameters={"max_passes": 0},
        nodes=pa.array([str(node) for node in nodes], pa.large_string()),
        labels=[f"c{node % 3}" for node in nodes],
        origins=pa.array([origin] * n_labels),
    )
    judged = solved(solver, asked)["judged"]
    assert judged["sample"] == sample
    assert (judged["low"] is not None) is has_interval
    assert judged["n_random"] == (n_labels if origin == "random" else 0)
    options = {"cross_validate": 4, "max_passes": 0}
    again = solved(solver, replace(asked, attempt=2, parameters=options))
    assert again["judged"]["n_left_out"] == n_labels


def weak_blocks(data: Path) -> tuple[int, int]:
    """60,000 edges, of which three in ten are within five blocks; numbers of nodes and blocks."""
    n_nodes, n_classes, n_edges = 1_000, 5, 60_000
    data.mkdir()
    rng = np.random.default_rng(0)
    u, v = rng.integers(0, n_nodes, (2, n_edges))
    v = np.where(rng.random(n_edges) < 0.3, v // n_classes * n_classes + u % n_classes, v)
    pq.write_table(pa.table({"src": u, "dst": v}), data / "edges.parquet")
    return n_nodes, n_classes


@pytest.mark.parametrize("model", ["stable-hfs", "poisson"])
@pytest.mark.parametrize("options", [{}, {"refine": True}])
def test_accuracy_is_that_of_the_answer_from_all_edges(
    tmp_path: Path, solver: WarmGraphs, model: str, options: dict[str, Any]
) -> None:
    n_nodes, n_classes = weak_blocks(tmp_path / "data")
    graph = streamed(tmp_path / "g", tmp_path / "data", "dense", epsilon=None, max_edges=5_000)
    nodes = np.sort(np.random.default_rng(1).choice(n_nodes, 400, replace=False))
    given = {
        "nodes": pa.array([str(node) for node in nodes], pa.large_string()),
        "labels": [f"c{node % n_classes}" for node in nodes],
        "origins": pa.array(["random"] * nodes.size),
    }

    def told(attempt: int, parameters: dict[str, Any]) -> tuple[dict[str, Any], float]:
        asked = task(graph, model, attempt=attempt, parameters=parameters, **given)
        found = solved(solver, asked)
        labels = labels_of(graph, found)
        others = np.setdiff1d(np.arange(n_nodes), nodes)
        return found["judged"], float(np.mean([labels[i] == f"c{i % n_classes}" for i in others]))

    judged, right = told(1, options)
    assert judged["low"] <= right <= judged["high"] + 0.001
    thinned, right_before = told(2, {"max_passes": 0})
    assert thinned["low"] <= right_before <= thinned["high"] < judged["low"]


def test_what_walks_mend_is_told_as_the_most(tmp_path: Path, solver: WarmGraphs) -> None:
    """Potentials of so few edges say little, walks much: random labels are right all the same."""
    data = tmp_path / "data"
    n_nodes, n_classes = weak_blocks(data)
    nodes = np.sort(np.random.default_rng(1).choice(n_nodes, 200, replace=False))
    given = {
        "nodes": pa.array([str(node) for node in nodes], pa.large_string()),
        "labels": [f"c{node % n_classes}" for node in nodes],
    }

    def answer(max_edges: int, origin: str) -> tuple[dict[str, Any], list[str]]:
        place = tmp_path / f"{max_edges}-{origin}"
        graph = streamed(place, data, "dense", epsilon=None, max_edges=max_edges)
        origins = pa.array([origin] * nodes.size)
        found = solved(graphs_within(2**30), task(graph, "auto", **given, origins=origins))
        return found, labels_of(graph, found)

    thinned, labels = answer(20_000, "random")
    _, truth = answer(100_000, "random")
    n_others = sum(one != other for one, other in zip(labels, truth, strict=True))
    told = thinned["thinning"]
    assert told["is_most"]
    assert n_others / n_nodes < told["share"] == pytest.approx(2 - 2 * thinned["judged"]["low"])
    line = solve_lines(thinned)[1]
    assert line.startswith("up to about ")
    assert "stable-hfs" not in line  # whose answer is what thinning decided
    unsaid, _ = answer(20_000, "given")  # but tested
    assert unsaid["thinning"] == told


def test_a_model_that_leaves_nothing_out_holds_out_a_fifth(
    graph: StreamedGraph, solver: WarmGraphs
) -> None:
    judged = solved(solver, task(graph, "poisson"))["judged"]
    assert judged["n_left_out"] == round(len(range(0, N_NODES, 7)) / 5)
    assert 0.0 <= judged["accuracy"] <= 1.0
    quiet = solved(solver, task(graph, "poisson", attempt=2, is_automatic=True))["judged"]
    assert (quiet["accuracy"], quiet["n_left_out"]) == (None, 0)
    assert "nobody asked" in solve_lines({"judged": quiet, "thinning": None, "stats": {}})[0]
