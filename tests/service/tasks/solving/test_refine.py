"""Solve jobs with ``refine``, from real files to predictions, against dense solves of all edges."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from peewit.service.predictions.left_out import read_left_out
from peewit.service.predictions.prediction_files import PredictionFile, own_score
from peewit.service.tasks.job_kind import TaskContext
from peewit.service.tasks.solving.solve import SolveKind, SolveTask
from peewit.service.tasks.tasks_and_messages import Advanced, Done, TaskOutcome, TaskStopped
from peewit.service.tasks.warm_graphs import WarmGraphs
from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels, RealLabels
from peewit.streaming.edges.node_kinds import UNTYPED, NodeKind
from tests.reference.harmonic import hfs_scores, stable_hfs_scores
from tests.reference.poisson import poisson_scores
from tests.streaming.streamed import RawFile, StreamedGraph, ids_of, random_file, streamed

N_NODES = 50
TIGHT = {"refine": True, "graph_penalty": 1e-3, "rtol": 1e-10}
LABELS: dict[int, str] = {0: "a", 1: "b", 2: "c", 3: "a", 50: "b", 51: "c", 60: "a"}
"""On two of three components."""


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> NodeKind:
    return getattr(request, "param", "dense")


@pytest.fixture
def files(tmp_path: Path) -> list[RawFile]:
    """Three components, the edges of each in both files, with parallel ones and self-loops."""
    made = []
    for seed in (1, 2):
        parts = [random_file(seed + part, n_nodes=N_NODES, n_rows=1_500) for part in range(3)]
        made.append(
            RawFile(
                u=np.concatenate([part.u + N_NODES * n for n, part in enumerate(parts)]),
                v=np.concatenate([part.v + N_NODES * n for n, part in enumerate(parts)]),
                weight=np.concatenate([part.weight for part in parts]),
            )
        )
    return made


@pytest.fixture
def graph(tmp_path: Path, files: list[RawFile], kind: NodeKind) -> StreamedGraph:
    """A snapshot that keeps few of the edges."""
    (tmp_path / "data").mkdir()
    for number, file in enumerate(files):
        file.write(tmp_path / "data" / f"{number}.parquet", kind)
    made = streamed(tmp_path / "g", tmp_path / "data", kind, expected_nodes=150, max_edges=900)
    assert made.meta.edges_kept < 0.4 * made.raw_graph(files).n_edges
    return made


def task(graph: StreamedGraph, model: str = "stable-hfs", **changes: Any) -> SolveTask:
    nodes = ids_of(np.array(list(LABELS)), graph.kind).cast(pa.large_string())
    values = {
        "job_id": "ab12",
        "attempt": 1,
        "graph_id": "g",
        "graph_directory": graph.paths.root,
        "snapshot": 1,
        "labels_seq": len(LABELS),
        "features_version": 0,
        "model": model,
        "parameters": TIGHT,
        "nodes": nodes,
        "labels": list(LABELS.values()),
        "origins": pa.array(["given"] * len(LABELS)),
        "n_threads": 2,
    }
    return SolveTask(**values | changes)


def ignore(_advanced: Advanced) -> None:
    """Reports that no test looks at."""


def run(
    solver: WarmGraphs,
    asked: SolveTask,
    *,
    report: Callable[[Advanced], None] = ignore,
    cancelled: Callable[[], bool] = lambda: False,
) -> TaskOutcome:
    return SolveKind().run(asked, TaskContext(graphs=solver, report=report, cancelled=cancelled))


def solved(solver: WarmGraphs, asked: SolveTask, **watchers: Any) -> Done:
    answer = run(solver, asked, **watchers)
    assert isinstance(answer, Done)
    return answer


def reached_of(graph: StreamedGraph, answer: Done) -> np.ndarray:
    """Which nodes a label reaches."""
    table = PredictionFile(graph.paths.predictions / answer.result["file"]).table()
    return np.asarray(table["reachable"].to_numpy())


def scores_of(graph: StreamedGraph, answer: Done) -> FloatArray:
    table = PredictionFile(graph.paths.predictions / answer.result["file"]).table()
    score = own_score(table.schema.names)
    return np.column_stack([table[f"{score}:{name}"].to_numpy() for name in "abc"])


def direct(graph: StreamedGraph, files: list[RawFile], reference: Any, penalty: float) -> Any:
    full: Graph = graph.raw_graph(files)
    dense = graph._dense(np.array(list(LABELS)))
    return reference(full, Labels.from_pairs(dense, list(LABELS.values())), penalty)


CASES = [
    *((kind, "stable-hfs", 1e-3) for kind in UNTYPED),
    ("dense", "hfs", 1e-3),
    ("string", "hfs", 0.0),
]


@pytest.mark.thinned(3)
@pytest.mark.parametrize(("kind", "model", "penalty"), CASES, indirect=["kind"])
def test_refined_scores_are_those_of_a_direct_solve_of_all_edges(
    graph: StreamedGraph, files: list[RawFile], solver: WarmGraphs, model: str, penalty: float
) -> None:
    parameters = TIGHT | {"graph_penalty": penalty}
    plain = scores_of(
        graph, solved(solver, task(graph, model, parameters=parameters | {"refine": False}))
    )
    answer = solved(solver, task(graph, model, parameters=parameters, attempt=2))
    reference = hfs_scores if model == "hfs" else stable_hfs_scores
    expected = direct(graph, files, reference, penalty)
    size = np.abs(expected).max()
    found = scores_of(graph, answer)
    reached = reached_of(graph, answer)
    np.testing.assert_allclose(found[reached], expected[reached], atol=1e-6 * size)
    assert np.abs(plain - expected).max() > 1e-3 * size  # there was something to refine
    stats = answer.result["stats"]
    assert (answer.result["status"], answer.result["warning"]) == ("converged", None)
    assert stats["refined"] == 1
    assert 2 < stats["passes"] < 60
    assert 0 < stats["residual"] <= 1e-10
    assert answer.result["n_unreachable"] == N_NODES
    meta = PredictionFile(graph.paths.predictions / answer.result["file"]).meta
    assert meta.parameters["refine"] is True
    assert meta.stats == stats
    assert list((graph.paths.root / "refine").iterdir()) == []


@pytest.mark.parametrize("kind", ["dense", "string"], indirect=True)
def test_poisson_is_refined_by_the_degrees_of_all_edges(
    graph: StreamedGraph, files: list[RawFile], solver: WarmGraphs
) -> None:
    parameters = {"refine": True, "rtol": 1e-10}
    answer = solved(solver, task(graph, "poisson", parameters=parameters))
    full = graph.raw_graph(files)
    dense = graph._dense(np.array(list(LABELS)))
    expected = poisson_scores(full, Labels.from_pairs(dense, list(LABELS.values())))
    found, reached = scores_of(graph, answer), reached_of(graph, answer)
    size = np.abs(expected).max()
    np.testing.assert_allclose(found[reached], expected[reached], atol=1e-6 * size)
    mean = found[reached].mean(axis=0)  # labels' shares would say nothing of the others
    np.testing.assert_allclose(found[~reached], np.tile(mean, ((~reached).sum(), 1)), atol=1e-6)
    assert answer.result["stats"]["refined"] == 1


def test_auto_is_refined_and_tells_what_was_weighed_anew(
    graph: StreamedGraph, solver: WarmGraphs
) -> None:
    places = np.append(np.arange(20), np.arange(20) + N_NODES)
    many = {
        "nodes": ids_of(places, graph.kind).cast(pa.large_string()),
        "labels": ["abc"[place % 3] for place in places],
        "origins": pa.array(["given"] * places.size),
    }
    plain = task(graph, "auto", parameters={}, **many)
    before = solved(solver, plain)
    refined = solved(solver, replace(plain, parameters={"refine": True}, attempt=2))
    stats = refined.result["stats"]
    assert (refined.result["status"], stats["refined"]) == ("converged", 1)
    assert 4 < stats["passes"] < 100  # of two systems
    told = ("belief_poisson", "belief_density", "belief_walks")
    assert [stats[name] for name in told] != [before.result["stats"][name] for name in told]
    first = scores_of(graph, before)
    assert np.abs(scores_of(graph, refined) - first).max() > 1e-2
    again = solved(solver, replace(plain, attempt=3))
    np.testing.assert_allclose(scores_of(graph, again), first, atol=1e-6)


def test_numbers_are_refined_and_what_they_are_worth_is_that_of_the_snapshot(
    graph: StreamedGraph, files: list[RawFile], solver: WarmGraphs
) -> None:
    values = [0.5 * number for number in range(len(LABELS))]
    asked = TIGHT | {"graph_penalty": 1e-3, "target": "real", "cross_validate": 3}
    refined = solved(solver, task(graph, parameters=asked, labels=values))
    plain = solved(
        solver, task(graph, parameters=asked | {"refine": False}, labels=values, attempt=2)
    )
    table = PredictionFile(graph.paths.predictions / refined.result["file"]).table()
    labels = RealLabels.from_pairs(graph._dense(np.array(list(LABELS))), values)
    expected = stable_hfs_scores(graph.raw_graph(files), labels, 1e-3)[:, 0]
    reached = table["reachable"].to_numpy()
    np.testing.assert_allclose(
        table["label"].to_numpy()[reached], expected[reached], atol=1e-6 * np.abs(expected).max()
    )
    stats = refined.result["stats"]
    assert stats["largest_change"] > 1e-3
    assert "n_changed" not in stats
    told = plain.result["stats"]
    for figure in ("rmse", "folds"):
        expected = pytest.approx(told["cross_validation"][figure], rel=1e-4)
        assert stats["cross_validation"][figure] == expected


def test_without_doubtful_labels_the_others_are_refined(
    graph: StreamedGraph, files: list[RawFile], solver: WarmGraphs
) -> None:
    asked = TIGHT | {"without_doubtful": 1, "cross_validate": 2}
    answer = solved(solver, task(graph, parameters=asked))
    left_out = read_left_out(PredictionFile(graph.paths.predictions / answer.result["file"]))
    assert left_out.nodes is not None
    (dropped,) = left_out.nodes[left_out.is_dropped]
    dense = graph._dense(np.array(list(LABELS)))
    labels = Labels.from_pairs(dense, list(LABELS.values()))
    kept = labels.subset(np.flatnonzero(labels.nodes != dropped))
    expected = stable_hfs_scores(graph.raw_graph(files), kept, 1e-3)
    size = np.abs(expected).max()
    found, reached = scores_of(graph, answer), reached_of(graph, answer)
    np.testing.assert_allclose(found[reached], expected[reached], atol=1e-6 * size)


def test_a_plain_solve_after_a_refined_one_is_plain(
    graph: StreamedGraph, solver: WarmGraphs
) -> None:
    plain = task(graph, parameters=TIGHT | {"refine": False, "max_passes": 0})
    first = scores_of(graph, solved(solver, plain))
    solved(solver, task(graph, attempt=2))
    again = solved(solver, replace(plain, attempt=3))
    assert "refined" not in again.result["stats"]
    np.testing.assert_allclose(scores_of(graph, again), first, atol=1e-6)


def test_passes_are_told_with_their_fraction(graph: StreamedGraph, solver: WarmGraphs) -> None:
    seen: list[Advanced] = []
    answer = solved(solver, task(graph), report=seen.append)
    phases = list(dict.fromkeys(each.phase for each in seen))
    first = phases.index("refining")
    assert phases[first : first + 4] == ["refining", "reading", "pass 1", "pass 1: solving"]
    last = answer.result["stats"]["passes"]
    assert phases[-4:] == [f"pass {last}", f"pass {last}: solving", "judging", "writing"]
    assert answer.result["seconds"].keys() >= {"solving", "refining"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dense", "string"], indirect=True)
@pytest.mark.parametrize("keep_raw", [True, False])
def test_missing_parts_are_named_and_nothing_is_stored(
    graph: StreamedGraph, tmp_path: Path, solver: WarmGraphs, keep_raw: bool
) -> None:
    path = tmp_path / "data" / "1.parquet"
    content = path.read_bytes()
    path.unlink()
    message = r"got 1 files that are not: .*1\.parquet: it is missing"
    with pytest.raises(ValueError, match=message) as caught:
        run(solver, task(graph, keep_raw=keep_raw))
    assert ("only with keep_raw" in str(caught.value)) is not keep_raw
    assert not graph.paths.predictions.exists()
    path.write_bytes(content)
    assert solved(solver, task(graph, keep_raw=keep_raw)).result["status"] == "converged"
    assert (graph.paths.root / "spool").exists() is (keep_raw and graph.kind == "string")


def test_changed_part_is_named(
    graph: StreamedGraph, files: list[RawFile], tmp_path: Path, solver: WarmGraphs
) -> None:
    files[0].write(tmp_path / "data" / "1.parquet", graph.kind)
    with pytest.raises(ValueError, match=r"1\.parquet: its content has changed"):
        run(solver, task(graph))


def test_a_refinement_stops_wherever_it_is_told_to(
    graph: StreamedGraph, solver: WarmGraphs
) -> None:
    """Told so while a phase is told, at each of some phases; the last within a pass."""
    whole: list[Advanced] = []
    expected = scores_of(graph, solved(solver, task(graph), report=whole.append))
    for phase in ("reading", "pass 1", "pass 1: solving", "pass 3"):
        seen: list[str] = []
        answer = run(
            solver,
            task(graph, attempt=2),
            report=lambda advanced, seen=seen: seen.append(advanced.phase),  # type: ignore[misc]
            cancelled=lambda phase=phase, seen=seen: phase in seen,  # type: ignore[misc]
        )
        assert answer == TaskStopped()
        assert seen[-1] == phase
        assert len(list(graph.paths.predictions.glob("*.arrow"))) == 1
        assert list((graph.paths.root / "refine").iterdir()) == []
    again = solved(solver, task(graph, attempt=3))
    np.testing.assert_allclose(scores_of(graph, again), expected, atol=1e-6)


def test_pass_limit_is_a_result_with_a_warning(graph: StreamedGraph, solver: WarmGraphs) -> None:
    answer = solved(solver, task(graph, parameters=TIGHT | {"max_passes": 3}))
    assert answer.result["status"] == "max-iter"
    assert "raise max_passes, of which 3 were made" in answer.result["warning"]
    assert answer.result["stats"]["passes"] == 3
    assert answer.result["stats"]["residual"] > 1e-10


def test_what_a_killed_attempt_left_goes_after_a_day(
    graph: StreamedGraph, solver: WarmGraphs
) -> None:
    left = [graph.paths.root / "refine" / name for name in ("old-1", "new-1")]
    for directory in left:
        directory.mkdir(parents=True)
    os.utime(left[0], (0, 0))
    solved(solver, task(graph))
    assert [directory.exists() for directory in left] == [False, True]
