"""Solve jobs with ``prove``: proven labels are those of all edges, told, kept and found again."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.service.predictions.filtered_rows import RowFilter, ordered_rows
from peewit.service.predictions.prediction_files import PROVEN, PredictionFile
from peewit.service.predictions.thresholds import with_answers
from peewit.service.tasks.solving import all_edges
from peewit.service.tasks.solving.solve_options import validate_solve
from peewit.service.tasks.tasks_and_messages import Advanced, Done, TaskStopped
from peewit.service.tasks.warm_graphs import WarmGraphs
from peewit.service.wire.solve_lines import solve_lines
from peewit.solvers.arguments import BadArgument
from peewit.solvers.proof import bounded_system
from peewit.streaming.edges.column_mapping import CHANGES, EdgeColumns
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.passes.certificate_store import CertificateStore
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings
from tests.service.solvable import graphs_within
from tests.service.tasks.solving.test_refine import run
from tests.service.tasks.solving.test_thinning import N_EDGES, N_NODES, solved, task
from tests.service.tasks.solving.test_thinning import graph as graph  # noqa: PLC0414 - a fixture
from tests.streaming.streamed import StreamedGraph, streamed

PENALTY = 1e-3
PROVE = {"prove": 0.01, "graph_penalty": PENALTY}


@pytest.fixture
def solver() -> WarmGraphs:
    return graphs_within(2**30)


@pytest.fixture(autouse=True)
def few_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds on variances that are wider, as true, and cheaper."""
    monkeypatch.setattr(bounded_system, "N_PROBES", 16)


def table_of(graph: StreamedGraph, result: dict[str, Any]) -> pa.Table:
    return file_of(graph, result).table()


def file_of(graph: StreamedGraph, result: dict[str, Any]) -> PredictionFile:
    return PredictionFile(graph.paths.predictions / result["file"])


def exact_labels(solver: WarmGraphs, graph: StreamedGraph, model: str, **more: Any) -> list[str]:
    """Labels of all edges, by passes to the last digit."""
    parameters = {"refine": True, "graph_penalty": PENALTY, "rtol": 1e-11} | more
    if model == "poisson":
        del parameters["graph_penalty"]
    result = solved(solver, task(graph, model, attempt=9, parameters=parameters))
    return list(table_of(graph, result)["label"].to_pylist())


@pytest.mark.parametrize(
    ("model", "more"),
    [("stable-hfs", {}), ("hfs", {}), ("hfs", {"class_mass": "contrasts"}), ("poisson", {})],
)
def test_proven_labels_are_those_of_all_edges(
    graph: StreamedGraph, solver: WarmGraphs, model: str, more: dict[str, Any]
) -> None:
    parameters = {"prove": 0.01} if model == "poisson" else PROVE | more
    result = solved(solver, task(graph, model, parameters=parameters))
    table, proof = table_of(graph, result), result["proof"]
    is_proven = np.array(table[PROVEN].to_pylist(), dtype=bool)
    assert proof["n_proven"] == np.count_nonzero(is_proven)
    assert proof["share"] == is_proven.mean() >= 0.99
    assert proof["is_enough"]
    assert proof["passes"] == result["stats"]["passes"] == result["passes"]["proving"]
    assert result["passes"]["judging"] > 2  # a solve without some labels, corrected as well
    assert proof["failure"] <= 0.0075 + 1e-9
    expected = np.array(exact_labels(solver, graph, model, **more))
    assert (np.array(table["label"].to_pylist())[is_proven] == expected[is_proven]).all()


@pytest.mark.slow
def test_ends_stay_with_the_snapshot_and_serve_the_next_proof(
    graph: StreamedGraph, solver: WarmGraphs
) -> None:
    first = solved(solver, task(graph, "stable-hfs", parameters=PROVE))
    kept = CertificateStore(graph.paths.snapshots).get(1)
    assert kept is not None
    assert kept.outer_min == pytest.approx(first["proof"]["low"])
    assert kept.n_passes == first["proof"]["passes"]
    asked = task(graph, "hfs", attempt=2, parameters=PROVE | {"class_mass": "none"})
    second = solved(solver, asked)
    assert (second["proof"]["low"], second["proof"]["high"]) == (kept.outer_min, kept.outer_max)
    assert second["proof"]["share"] >= 0.99


def test_progress_says_what_share_is_proven_so_far(
    graph: StreamedGraph, solver: WarmGraphs
) -> None:
    seen: list[str] = []
    done = run(
        solver,
        task(graph, "stable-hfs", parameters=PROVE),
        report=lambda advanced: seen.append(advanced.phase),
    )
    assert isinstance(done, Done)
    said = [phase.rpartition(", ")[2] for phase in seen if "proven" in phase]
    shares = done.result["proof"]["shares"]
    looks = [f"{math.floor(1_000 * share) / 10:.1f}% proven" for share in shares]
    assert list(dict.fromkeys(said)) == list(dict.fromkeys(looks[:-1]))  # nothing follows the last


def test_a_limit_that_is_met_first_is_a_result(graph: StreamedGraph, solver: WarmGraphs) -> None:
    result = solved(solver, task(graph, "stable-hfs", parameters=PROVE | {"max_passes": 6}))
    assert result["status"] == "converged"
    assert result["warning"] is None or "max_passes" not in result["warning"]
    assert not result["proof"]["is_enough"]
    lines = solve_lines(result, graph="g")
    (line,) = (line for line in lines if "proven" in line)
    assert "6 passes over them; chance of error at most" in line
    assert "max_passes ended it before so many were as was asked: raise it" in line
    assert "`peewit predictions g --unproven` lists the others" in line
    assert "graph_penalty 0.001 as chosen on the edges kept" in line
    file = file_of(graph, result)
    rows = pa.Table.from_batches(ordered_rows(file, RowFilter(is_unproven=True)), file.schema)
    assert len(rows) == result["proof"]["n_reached"] - result["proof"]["n_proven"]
    assert not any(rows[PROVEN].to_pylist())
    first = next(ordered_rows(file, RowFilter(), sort=PROVEN, top=1))
    assert first.column(PROVEN).to_pylist() == [False]
    _, batches = with_answers(file, file.shown(), positive="c1", threshold=0.5)
    assert set(pa.Table.from_batches(batches)[PROVEN].to_pylist()) == {None}


def test_without_a_proof_nothing_is_listed_as_unproven(
    graph: StreamedGraph, solver: WarmGraphs
) -> None:
    result = solved(solver, task(graph, "stable-hfs", parameters={"max_passes": 0}))
    assert result["proof"] is None
    file = file_of(graph, result)
    assert PROVEN not in file.schema.names
    assert file.lookup(np.array([0]))[0]["proven"] is None
    with pytest.raises(
        BadArgument, match="unproven needs predictions with a proof: name their job"
    ):
        list(ordered_rows(file, RowFilter(is_unproven=True)))
    with pytest.raises(BadArgument, match=r"'proven' needs a job with prove=\.01"):
        list(ordered_rows(file, RowFilter(), sort=PROVEN))


def test_a_proof_stops_wherever_it_is_told_to(graph: StreamedGraph, solver: WarmGraphs) -> None:
    for phase in ("degrees", "pass 2: solving", "pass 4"):
        seen: list[str] = []

        def note(advanced: Advanced, seen: list[str] = seen) -> None:
            seen.append(advanced.phase)

        def is_told(phase: str = phase, seen: list[str] = seen) -> bool:
            return phase in seen

        asked = task(graph, "stable-hfs", parameters=PROVE)
        assert run(solver, asked, report=note, cancelled=is_told) == TaskStopped()
        assert list((graph.paths.root / "refine").iterdir()) == []
        assert CertificateStore(graph.paths.snapshots).get(1) is None


def test_a_graph_of_all_edges_is_proven_without_a_pass(
    tmp_path: Path, graph: StreamedGraph, solver: WarmGraphs
) -> None:
    whole = streamed(tmp_path / "w", tmp_path / "data", "dense", epsilon=None, max_edges=20_000)
    result = solved(solver, task(whole, "stable-hfs", parameters=PROVE))
    assert result["proof"]["passes"] == 0
    assert result["proof"]["share"] > 0.99
    assert "refined" not in result["stats"]
    assert "none was dropped" in " ".join(solve_lines(result))


@pytest.mark.parametrize(
    ("model", "parameters", "message"),
    [
        ("stable-hfs", {"prove": 1.0}, "prove must be a finite number >= 0 and < 1, got 1.0"),
        ("tv-rls", {"prove": 0.1}, "prove must be left out for model tv-rls"),
        ("hfs", {"prove": 0.1, "refine": True}, "refine must be left out beside prove"),
        ("hfs", {"prove": 0.1, "replicas": 3}, "replicas must be left out beside prove"),
        ("hfs", {"prove": 0.1, "probabilities": True}, "probabilities must be left out beside"),
        ("hfs", {"prove": 0.1, "max_passes": 2}, "max_passes must be at least 3 for a proof"),
        ("auto", {"prove": 0.1, "max_passes": 6}, "max_passes must be at least 11 for a proof"),
        ("hfs", {"prove": 0.1, "target": "real"}, "prove must be left out beside target='real'"),
        ("poisson", {"prove": 0.1, "class_balance": "labels"}, "class_balance must be left out"),
    ],
)
def test_what_cannot_be_proven_is_refused(
    model: str, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        validate_solve(model, parameters)


@pytest.mark.slow
def test_deletes_and_newer_snapshots_leave_a_running_job_what_it_reads(
    tmp_path: Path, solver: WarmGraphs
) -> None:
    """The log moves on while the job solves; it proves labels of what lived when it began."""
    data, paths = tmp_path / "data", GraphPaths(root=tmp_path / "g")
    data.mkdir()
    rng = np.random.default_rng(0)
    u, v = rng.integers(0, N_NODES, (2, N_EDGES // 2))
    v = np.where(rng.random(u.size) < 0.25, v // 3 * 3 + u % 3, v)

    def bring(number: int, rows: slice, op: str) -> None:
        table = pa.table({"src": u[rows], "dst": v[rows], "op": [op] * len(u[rows])})
        pq.write_table(table, data / f"{number}.parquet")
        settings = StreamSettings(
            node_kind="dense",
            sparsifier=SparsifierSettings(epsilon=None, seed=1, max_edges=1_500),
            deletions="exact",
        )
        Stream(paths, settings).ingest(EdgeFiles(data, columns=CHANGES).list())

    bring(0, slice(None), "insert")
    bring(1, slice(0, 500), "delete")
    graph = StreamedGraph(paths=paths, kind="dense")
    newest = SnapshotStore(paths.snapshots).latest()
    assert newest is not None
    asked = task(graph, "stable-hfs", snapshot=newest, parameters=PROVE)
    plain = run(solver, asked)
    assert isinstance(plain, Done)
    moved: list[str] = []

    def move_on(advanced: Advanced) -> None:
        if advanced.phase == "solving" and not moved:
            moved.append(advanced.phase)
            bring(2, slice(500, 1_500), "delete")
            bring(3, slice(1_500, 2_000), "delete")

    found = run(solver, replace(asked, attempt=2), report=move_on)
    assert moved
    assert isinstance(found, Done)
    assert found.result["proof"]["n_edges"] == plain.result["proof"]["n_edges"]
    tables = [
        PredictionFile(paths.predictions / each.result["file"]).table() for each in (plain, found)
    ]
    assert tables[0]["label"].equals(tables[1]["label"])
    assert list((paths.root / "refine").iterdir()) == []


@pytest.mark.slow
def test_another_attempt_goes_on_from_the_passes_of_a_killed_one(
    graph: StreamedGraph, solver: WarmGraphs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(all_edges, "WORTH_KEEPING_SECONDS", 0.0)
    expected = solved(solver, task(graph, "stable-hfs", attempt=1, parameters=PROVE))
    certificate = graph.paths.snapshots / "00000001" / "certificate.json"
    for phase in ("pass 5: solving",):
        certificate.unlink()  # as it was at first
        seen: list[str] = []

        def note(advanced: Advanced, seen: list[str] = seen) -> None:
            seen.append(advanced.phase)

        def is_told(phase: str = phase, seen: list[str] = seen) -> bool:
            return phase in seen

        asked = task(graph, "stable-hfs", attempt=2, parameters=PROVE)
        assert run(solver, asked, report=note, cancelled=is_told) == TaskStopped()
        kept = list((graph.paths.root / "refine" / "ab12-passes").glob("*.npy"))
        assert len(kept) >= int(phase[5]) - 2
        again = solved(solver, replace(asked, attempt=3))
        tables = [table_of(graph, each) for each in (expected, again)]
        assert tables[0].equals(tables[1])
        assert not (graph.paths.root / "refine" / "ab12-passes").exists()


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["login=2,card=0.5", "login=1,card=0"])
def test_labels_of_weighed_relations_are_proven(
    tmp_path: Path, solver: WarmGraphs, weights: str
) -> None:
    data, paths = tmp_path / "data", GraphPaths(root=tmp_path / "g")
    data.mkdir()
    rng = np.random.default_rng(2)
    u, v = rng.integers(0, N_NODES, (2, N_EDGES // 2))
    v = np.where(rng.random(u.size) < 0.3, v // 3 * 3 + u % 3, v)
    kinds = np.where(np.arange(u.size) % 2, "login", "card")
    pq.write_table(pa.table({"src": u, "dst": v, "kind": kinds}), data / "edges.parquet")
    settings = StreamSettings(
        node_kind="dense", sparsifier=SparsifierSettings(epsilon=None, seed=1, max_edges=3_000)
    )
    columns = EdgeColumns(relation_column="kind")
    Stream(paths, settings).ingest(EdgeFiles(data, columns=columns).list())
    graph = StreamedGraph(paths=paths, kind="dense")
    parameters = PROVE | {"relations": weights}
    result = solved(solver, task(graph, "stable-hfs", parameters=parameters))
    table, proof = table_of(graph, result), result["proof"]
    assert proof["share"] >= 0.99
    expected = exact_labels(solver, graph, "stable-hfs", relations=weights)
    is_proven = np.array(table[PROVEN].to_pylist(), dtype=bool)
    assert (np.array(table["label"].to_pylist())[is_proven] == np.array(expected)[is_proven]).all()
    # ends of one weighing are not those of another
    assert CertificateStore(paths.snapshots).get(1) is None
    chosen = solved(solver, task(graph, "poisson", attempt=5, parameters={"prove": 0.1}))
    assert set(chosen["proof"]["relations"]) == {"login", "card"}
    assert "relations card=" in " ".join(solve_lines(chosen))


def test_auto_proves_nothing_where_walks_stay_on_the_edges_kept(
    graph: StreamedGraph, solver: WarmGraphs
) -> None:
    few = solved(solver, task(graph, "auto", parameters={"prove": 0.01, "max_passes": 12}))
    assert few["proof"]["walks_on"] == "edges kept"
    assert few["proof"]["n_proven"] == 0
    assert few["proof"]["passes"] <= 12
    assert "before walks had gone along all edges" in " ".join(solve_lines(few))


@pytest.mark.slow
def test_auto_proves_labels_of_walks_along_all_edges(
    graph: StreamedGraph, solver: WarmGraphs
) -> None:
    result = solved(solver, task(graph, "auto", attempt=2, parameters={"prove": 0.01}))
    assert result["proof"]["walks_on"] == "all edges"
    assert result["proof"]["share"] >= 0.99
    table = table_of(graph, result)
    labels = np.array(table["label"].to_pylist())
    refine_all = {"refine": True, "rtol": 1e-8}
    refined = solved(solver, task(graph, "auto", attempt=3, parameters=refine_all))
    is_proven = np.array(table[PROVEN].to_pylist(), dtype=bool)
    expected = np.array(table_of(graph, refined)["label"].to_pylist())
    assert (labels[is_proven] == expected[is_proven]).all()
    truth = np.array([f"c{node % 3}" for node in range(N_NODES)])
    assert (labels == truth).mean() > 0.9
