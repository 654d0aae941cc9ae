"""The budget of a stream: kept to, lowered, and raised again where all edges can be read."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.streaming.edges.parts import EdgeFile, FileUnreadable
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.passes.edge_passes import RawEdgesGone
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.provenance import SnapshotMeta
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings

N_NODES = 120
N_ROWS = 6_000
N_PAIRS = N_NODES * (N_NODES - 1) // 2

Open = Callable[..., Stream]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three files of random pairs; most come several times."""
    directory = tmp_path / "data"
    directory.mkdir()
    for seed in range(3):
        rng = np.random.default_rng(seed)
        ends = [pa.array([f"n{each}" for each in rng.integers(0, N_NODES, N_ROWS)]) for _ in "uv"]
        table = pa.table({"src": ends[0], "dst": ends[1], "weight": rng.uniform(1, 2, N_ROWS)})
        pq.write_table(table, directory / f"{seed}.parquet")
    return directory


def opened(
    root: Path, *, max_edges: int | None, epsilon: float | None = None, deletions: str = "off"
) -> Stream:
    sparsifier = SparsifierSettings(
        epsilon=epsilon, max_edges=max_edges, seed=7, expected_nodes=N_NODES
    )
    settings = StreamSettings(
        node_kind="string",
        sparsifier=sparsifier,
        checkpoint_seconds=0.0,
        deletions=deletions,  # type: ignore[arg-type]
    )
    return Stream(GraphPaths(root=root), settings)


def newest(root: Path) -> SnapshotMeta:
    meta = SnapshotStore(GraphPaths(root=root).snapshots).newest()
    assert meta is not None
    return meta


def edges_of(root: Path) -> pa.Table:
    return SnapshotStore(GraphPaths(root=root).snapshots).edges(newest(root).number)


def test_all_pairs_are_kept_however_often_they_come(data: Path, tmp_path: Path) -> None:
    opened(tmp_path / "g", max_edges=N_PAIRS).ingest(EdgeFiles(data).list())
    meta = newest(tmp_path / "g")
    assert meta.edges_seen == 3 * N_ROWS > 2 * N_PAIRS
    assert meta.is_whole
    assert meta.epsilon_expected == 0.0
    assert meta.epsilon_asked is None
    assert meta.max_edges == N_PAIRS
    assert meta.note == ""


def test_of_more_the_budget_is_kept_and_said(data: Path, tmp_path: Path) -> None:
    opened(tmp_path / "g", max_edges=2_000).ingest(EdgeFiles(data).list())
    meta = newest(tmp_path / "g")
    assert meta.edges_kept <= meta.n_records <= 2_000
    assert 0.0 < meta.epsilon_expected < 1.0
    assert not meta.is_whole
    assert f"{meta.edges_kept:,} of 17," in meta.note
    assert "keep the input files: with memory to spare raise max_edges" in meta.note


def test_a_lower_budget_thins_what_is_there(data: Path, tmp_path: Path) -> None:
    opened(tmp_path / "g", max_edges=N_PAIRS).ingest(EdgeFiles(data).list())
    whole = newest(tmp_path / "g")
    opened(tmp_path / "g", max_edges=2 * N_PAIRS).ingest([])
    assert newest(tmp_path / "g").number == whole.number, "a larger one changes nothing"
    opened(tmp_path / "g", max_edges=1_500).ingest([])
    assert newest(tmp_path / "g").n_records <= 1_500
    opened(tmp_path / "g", max_edges=N_PAIRS).ingest([])
    assert newest(tmp_path / "g").is_whole, "the buffer held all of them"


@pytest.mark.parametrize("deletions", ["off", "exact"])
def test_a_raised_budget_is_that_of_a_new_stream(
    data: Path, tmp_path: Path, deletions: str
) -> None:
    files = EdgeFiles(data).list()
    opened(tmp_path / "g", max_edges=1_500, deletions=deletions).ingest(files)
    stream = opened(tmp_path / "g", max_edges=3 * N_ROWS, deletions=deletions)
    assert not np.isinf(stream.state.smallest_constant)
    stream.repair(everything=True)
    opened(tmp_path / "new", max_edges=3 * N_ROWS, deletions=deletions).ingest(files)
    assert newest(tmp_path / "g").is_whole
    assert edges_of(tmp_path / "g").equals(edges_of(tmp_path / "new"))
    again, fresh = newest(tmp_path / "g"), newest(tmp_path / "new")
    counted = ("edges_seen", "left_out", "n_nodes", "n_files", "edges_kept")
    assert [getattr(again, name) for name in counted] == [getattr(fresh, name) for name in counted]


def test_a_file_that_is_gone_or_changed_leaves_the_graph_as_it_was(
    data: Path, tmp_path: Path
) -> None:
    opened(tmp_path / "g", max_edges=1_500).ingest(EdgeFiles(data).list())
    before = edges_of(tmp_path / "g")
    content = (data / "1.parquet").read_bytes()
    for spoil in (Path.unlink, lambda path: pq.write_table(pq.read_table(path).slice(1), path)):
        spoil(data / "1.parquet")
        stream = opened(tmp_path / "g", max_edges=3 * N_ROWS)
        with pytest.raises(
            RawEdgesGone, match=r"1\.parquet: it(s content has changed| is missing)"
        ):
            stream.repair(everything=True)
        assert stream.state.n_rows_seen == 3 * N_ROWS
        assert edges_of(tmp_path / "g").equals(before)
        (data / "1.parquet").write_bytes(content)


def test_what_was_erased_is_not_read_again(data: Path, tmp_path: Path) -> None:
    stream = opened(tmp_path / "g", max_edges=1_500)
    stream.ingest(EdgeFiles(data).list())
    stream.erase(np.array([3], np.int32))
    with pytest.raises(RawEdgesGone, match="they may still hold nodes that were erased"):
        opened(tmp_path / "g", max_edges=3 * N_ROWS).repair(everything=True)


@pytest.mark.parametrize("deletions", ["off", "exact"])
@pytest.mark.parametrize(("budget", "epsilon"), [(1_500, None), (1_000, 0.3)])
def test_an_epsilon_without_a_budget_is_that_of_a_new_stream(
    data: Path, tmp_path: Path, deletions: str, budget: int, epsilon: float | None
) -> None:
    files = EdgeFiles(data).list()
    before = opened(tmp_path / "g", max_edges=budget, epsilon=epsilon, deletions=deletions)
    before.ingest(files)
    lowered = before.state.constant
    assert np.isfinite(lowered)
    stream = opened(tmp_path / "g", max_edges=None, epsilon=0.3, deletions=deletions)
    stream.repair(everything=True)
    assert np.isinf(stream.state.constant)
    assert stream.state.smallest_constant > lowered
    meta = newest(tmp_path / "g")
    assert not meta.max_edges_bound
    assert meta.edges_kept > budget
    assert "max_edges" not in meta.note


@pytest.mark.parametrize("deletions", ["off", "exact"])
def test_a_raised_budget_counts_beside_an_epsilon(
    data: Path, tmp_path: Path, deletions: str
) -> None:
    opened(tmp_path / "g", max_edges=1_000, epsilon=0.2, deletions=deletions).ingest(
        EdgeFiles(data).list()
    )
    assert newest(tmp_path / "g").max_edges_bound
    stream = opened(tmp_path / "g", max_edges=50_000, epsilon=0.2, deletions=deletions)
    stream.repair(everything=True)
    meta = newest(tmp_path / "g")
    assert not meta.max_edges_bound
    assert meta.edges_kept > 2_000


def test_of_a_state_that_is_whole_nothing_is_read_again(data: Path, tmp_path: Path) -> None:
    opened(tmp_path / "g", max_edges=N_PAIRS).ingest(EdgeFiles(data).list())
    number = newest(tmp_path / "g").number
    for path in data.iterdir():
        path.unlink()
    opened(tmp_path / "g", max_edges=3 * N_ROWS).repair(everything=True)
    assert newest(tmp_path / "g").number == number


def test_what_was_read_again_is_told_with_the_same_budget_too(data: Path, tmp_path: Path) -> None:
    opened(tmp_path / "g", max_edges=1_500).ingest(EdgeFiles(data).list())
    before = newest(tmp_path / "g")
    stream = opened(tmp_path / "g", max_edges=1_500)
    stream.repair(everything=True)
    repair = newest(tmp_path / "g").last_repair
    assert repair is not None
    n_edges = before.edges_seen - before.left_out.total
    assert (repair.kind, repair.n_edges, repair.snapshot) == ("all", n_edges, before.number + 1)
    assert newest(tmp_path / "g").edges_seen == before.edges_seen


def test_a_store_that_does_not_answer_leaves_the_graph_as_it_was(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(tmp_path / "g", max_edges=1_500).ingest(EdgeFiles(data).list())
    before = edges_of(tmp_path / "g")
    stream = opened(tmp_path / "g", max_edges=3 * N_ROWS)

    def unreachable(_source: EdgeFiles) -> list[EdgeFile]:
        raise ConnectionError("no answer")

    monkeypatch.setattr(EdgeFiles, "list", unreachable)
    with pytest.raises(FileUnreadable, match="cannot be read now: no answer"):
        stream.repair(everything=True)
    assert stream.state.n_rows_seen == 3 * N_ROWS
    assert edges_of(tmp_path / "g").equals(before)


def test_a_note_does_not_blame_a_budget_that_is_not_there(data: Path, tmp_path: Path) -> None:
    opened(tmp_path / "g", max_edges=400).ingest(EdgeFiles(data).list())
    opened(tmp_path / "g", max_edges=None, epsilon=0.2).ingest([])
    meta = newest(tmp_path / "g")
    assert meta.max_edges is None
    assert "max_edges raised the spectral error" not in meta.note
    assert "raise max_edges if it is set, or else have `peewit repair --rebuild`" in meta.note


def test_a_note_says_that_fewer_are_kept_than_the_budget_allows(data: Path, tmp_path: Path) -> None:
    opened(tmp_path / "g", max_edges=400).ingest(EdgeFiles(data).list())
    opened(tmp_path / "g", max_edges=3 * N_ROWS).ingest([])
    note = newest(tmp_path / "g").note
    assert "as many as max_edges allows" not in note
    assert f"fewer than max_edges={3 * N_ROWS:,} allows" in note
    assert "`peewit repair --rebuild` reads them again" in note
