"""Solving where what nodes send and receive tells more than whom they are joined with."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.service.predictions.prediction_files import PredictionFile, predictor_path
from peewit.service.predictions.predictors import read_functions
from peewit.service.tasks.joined_counts import JoinedCounts
from peewit.service.tasks.solving.counts import counts_bytes, wants_counts
from peewit.service.tasks.solving.solve import SolveKind, SolveTask
from peewit.service.tasks.solving.solve_options import SolveOptions
from peewit.service.tasks.tasks_and_messages import Done, TaskStopped
from peewit.service.tasks.warm_graphs import WarmGraphs
from peewit.service.wire.solve_lines import solve_lines
from peewit.solvers.features import FeatureRows
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.harmonic.harmonic import HFS
from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.passes.relation_counts import CountsStore
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings
from tests.service.solvable import graphs_within, publish_features
from tests.service.tasks.solving.test_solve import MEMORY_BYTES, context_with, run, solved, task

N_ACCOUNTS = 200


def is_seller(account: int) -> bool:
    return account % 2 == 1


def messages(n_rows: int = 3_000) -> pa.Table:
    """Buyers write to sellers, most of whom answer seldom."""
    rng = np.random.default_rng(0)
    buyer, seller = 2 * rng.integers(0, N_ACCOUNTS // 2, (2, n_rows)) + [[0], [1]]
    answers = rng.random(n_rows) < 0.1
    src, dst = np.where(answers, seller, buyer), np.where(answers, buyer, seller)
    return pa.table({"src": src, "dst": dst})


def logins() -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table({"src": rng.integers(0, N_ACCOUNTS, 600), "dst": rng.integers(0, 90, 600)})


def graph_of_messages(tmp_path: Path) -> Path:
    """The directory of a graph of messages between accounts, and of logins on devices."""
    paths = GraphPaths(root=tmp_path / "g")
    settings = StreamSettings(node_kind="typed", sparsifier=SparsifierSettings(max_edges=2_000))
    for name, table, kind in (("message", messages(), "account"), ("login", logins(), "device")):
        pq.write_table(table, tmp_path / f"{name}.parquet")
        columns = EdgeColumns(src="account:src", dst=f"{kind}:dst", relation=name)
        files = EdgeFiles(tmp_path / f"{name}.parquet", columns=columns)
        Stream(paths, settings).ingest(files.list())
    return paths.root


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return graph_of_messages(tmp_path)


def asked_of(directory: Path, model: str = "auto", **options: Any) -> SolveTask:
    labels = {f"account:{n}": "seller" if is_seller(n) else "buyer" for n in range(30)}
    newest = SnapshotStore(GraphPaths(root=directory).snapshots).latest()
    assert newest is not None
    return replace(task(directory, labels, model=model, snapshot=newest), **options)


def share_right(directory: Path, answer: Done) -> float:
    table = PredictionFile(directory / "predictions" / answer.result["file"]).table()
    table = table.filter(table["node"].is_valid())  # accounts alone are asked about
    rows = zip(table["node"].to_pylist(), table["label"].to_pylist(), strict=True)
    return float(
        np.mean([(label == "seller") == is_seller(int(node.split(":")[1])) for node, label in rows])
    )


@pytest.mark.parametrize("model", ["auto", "filtered-ridge"])
def test_who_sends_and_who_receives_is_told_apart_once_somebody_says_so(
    directory: Path, solver: WarmGraphs, model: str
) -> None:
    without = solved(solver, asked_of(directory, model))
    assert "n_counts" not in without.result["stats"]
    share_without = share_right(directory, without)  # later solves take the place of the file
    assert model == "auto" or share_without < 0.7
    with_counts = solved(solver, asked_of(directory, model, directed=("message",)))
    assert share_right(directory, with_counts) >= 0.95
    stats = with_counts.result["stats"]
    assert (stats["n_counts"], stats["counts_snapshot"]) == (4 + 3, 2)
    assert (stats["input"], with_counts.result["features_version"]) == ("features", 0)
    (line,) = [each for each in solve_lines(with_counts.result) if "relations count" in each]
    assert line.endswith("; 7 features count what nodes send and receive in all of them")
    assert not with_counts.result["inductive"]
    again = solved(solver, asked_of(directory, model, directed=("message",)))
    assert again.result["warm"]
    other = solved(solver, asked_of(directory, model))
    assert share_right(directory, other) == share_without


def test_other_models_and_who_wants_none_do_without(directory: Path, solver: WarmGraphs) -> None:
    for model, parameters in (("hfs", {}), ("svm", {}), ("auto", {"counts": False})):
        asked = asked_of(directory, model, directed=("message",), parameters=parameters)
        assert "n_counts" not in solved(solver, asked).result["stats"]
    assert not GraphPaths(root=directory).counts.exists()


def test_counts_join_a_table_and_points_need_none(directory: Path, solver: WarmGraphs) -> None:
    """Of new points, whose edges nobody knows, the table alone tells."""
    store = SnapshotStore(GraphPaths(root=directory).snapshots)
    n_nodes = store.meta(2).n_nodes
    values = np.random.default_rng(2).normal(size=(n_nodes, 3)).astype(np.float32)
    publish_features(directory, 1, values)
    answer = solved(solver, asked_of(directory, "filtered-ridge", features_version=1))
    assert answer.result["stats"]["n_counts"] == 7  # messages lead from and to accounts
    assert answer.result["inductive"]
    functions = read_functions(predictor_path(directory / "predictions" / answer.result["file"]))
    assert functions.class_scores(np.zeros((2, 3))).shape == (2, 2)


def test_files_that_are_gone_cost_the_counts_alone(directory: Path, solver: WarmGraphs) -> None:
    (directory.parent / "login.parquet").unlink()
    answer = solved(solver, asked_of(directory, directed=("message",)))
    assert "n_counts" not in answer.result["stats"]
    assert "counts of what nodes send and receive are left out" in answer.result["warning"]
    assert "login.parquet: it is missing" in answer.result["warning"]


def test_a_directed_relation_that_is_none_is_told(directory: Path, solver: WarmGraphs) -> None:
    answer = solved(solver, asked_of(directory, directed=("mesage",)))
    assert "n_counts" not in answer.result["stats"]
    told = "directed names mesage, of which the graph has no edge: its relations are message, login"
    assert told in answer.result["warning"]
    other = solved(solver, asked_of(directory, "hfs", directed=("mesage",)))
    assert "directed" not in (other.result["warning"] or "")


def test_a_solve_that_is_stopped_while_it_counts_leaves_nothing(
    directory: Path, solver: WarmGraphs
) -> None:
    stages: list[str | None] = []

    def cancelled() -> bool:
        return "counting" in stages

    context = context_with(
        solver, report=lambda progress: stages.append(progress.stage), cancelled=cancelled
    )
    answer = SolveKind().run(asked_of(directory, directed=("message",)), context)
    assert isinstance(answer, TaskStopped)
    assert stages[-1] == "counting"
    assert list(GraphPaths(root=directory).counts.iterdir()) == []


def test_a_solve_that_is_stopped_while_it_weighs_relations_is_stopped(
    directory: Path, solver: WarmGraphs
) -> None:
    for stop_after in range(12):
        assert isinstance(run(solver, asked_of(directory), stop_after=stop_after), TaskStopped)


def test_counts_follow_the_kinds_that_are_asked_about_and_stay_in_memory(
    directory: Path, solver: WarmGraphs, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asked_of(directory, directed=("message",))
    both = solved(solver, replace(asked, answers=("account", "device")))
    assert both.result["n_nodes"] > N_ACCOUNTS
    alone = solved(solver, asked)
    assert alone.result["n_nodes"] == N_ACCOUNTS
    fresh = solved(graphs_within(MEMORY_BYTES), asked)
    assert alone.result["stats"] == fresh.result["stats"]  # no rows of devices are left

    def opened(_store: CountsStore) -> None:
        raise AssertionError("a warm solve reads no counts")

    monkeypatch.setattr(CountsStore, "open", opened)
    assert solved(solver, asked).result["warm"]


def test_counts_are_as_large_as_the_columns_beside_them() -> None:
    rng = np.random.default_rng(3)
    same = np.full(50, np.log1p(0.7))  # whose mean is another number, by rounding
    counts = np.column_stack([rng.poisson(4, 50), same, rng.poisson(90, 50)]).astype(np.float32)
    even = np.arange(0, 50, 2)
    joined = JoinedCounts.of(counts[even], None, is_encoded=False, nodes=even, snapshot=1)
    alone = joined.beside(None)
    assert isinstance(alone, FeatureRows)
    assert alone.n_columns == joined.n_columns == 2  # one of them tells nothing
    assert alone.nodes is not None
    assert alone.nodes.tolist() == even.tolist()
    np.testing.assert_allclose(alone.whole().std(axis=0), 1.0, rtol=1e-5)
    rows = FeatureRows(values=rng.normal(size=(20, 4)) * [1, 2, 3, 4], nodes=np.arange(20))
    for is_encoded, variance in ((False, rows.values.var(axis=0).mean()), (True, 1.0)):
        of_rows = JoinedCounts.of(
            counts[:20], rows, is_encoded=is_encoded, nodes=rows.nodes, snapshot=1
        )
        wider = of_rows.beside(rows)
        assert wider is not None
        np.testing.assert_allclose(wider.whole()[:, 4:].var(axis=0), variance, rtol=1e-5)


@pytest.mark.parametrize(
    ("directed", "features_version", "options", "model", "expected"),
    [
        (("message",), 0, {}, Auto(), True),
        ((), 1, {}, Auto(), True),
        ((), 0, {}, Auto(), False),
        (("call",), 0, {}, Auto(), False),  # of which the snapshot has no edge
        (("message",), 1, {"counts": False}, Auto(), False),
        (("message",), 1, {}, HFS(), False),
    ],
)
def test_counts_are_made_and_room_is_kept_for_them_where_they_are_used(
    directory: Path,
    directed: tuple[str, ...],
    features_version: int,
    options: dict[str, bool],
    model: Model,
    expected: bool,
) -> None:
    meta = SnapshotStore(GraphPaths(root=directory).snapshots).meta(2)
    wanted = wants_counts(
        model, SolveOptions(**options), meta, directed=directed, features_version=features_version
    )
    assert wanted == expected
    columns = 2 * 4 * meta.n_nodes  # float32
    assert counts_bytes(meta) == 2 * 4 * columns
