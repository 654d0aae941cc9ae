"""Streams with a window against lists of the edges that live, dense spectra and unbroken runs."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.solvers.graph import Graph
from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.operations import DELETE, INSERT, OPERATIONS
from peewit.streaming.edges.parts import EdgeFile
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.edges.windows import Window
from peewit.streaming.events import Quarantined
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Interrupted, Stream
from peewit.streaming.log.change_log import ChangeLog
from peewit.streaming.log.logged_files import DeadRows
from peewit.streaming.passes.certificate_store import CertifySettings
from peewit.streaming.passes.certify import certify
from peewit.streaming.passes.raw_edge_passes import (
    RawEdgesMovedOn,
    require_raw_edges,
    snapshot_edges,
)
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.provenance import SnapshotMeta
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings
from tests.reference.spectrum import spectral_error
from tests.streaming.test_graph_stream import Crash, Recorder

LENGTH = 3
COLUMNS = EdgeColumns(time="at", time_unit="s")
CHANGES = EdgeColumns(time="at", time_unit="s", op="op")
WINDOW = Window(length=LENGTH, width=1.0, allowed_ahead=5.0)
NOW = 100.0
"""By the clock of these streams."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Rows of one file."""

    u: np.ndarray
    v: np.ndarray
    weight: np.ndarray
    at: np.ndarray
    """Seconds, in eighths, which floats hold."""
    op: np.ndarray | None = None

    def write(self, path: Path) -> EdgeFile:
        columns = {"src": self.u, "dst": self.v, "weight": self.weight, "at": self.at}
        if self.op is not None:
            columns["op"] = [OPERATIONS[each] for each in self.op]
        pq.write_table(pa.table(columns), path, row_group_size=1_000)
        (file,) = EdgeFiles(path, columns=COLUMNS if self.op is None else CHANGES).list()
        return file


Edge = tuple[int, int, float, int]
"""Ends, weight and bucket."""


@dataclass
class Twin:
    """All live edges of each file, and what became of the others."""

    length: int = LENGTH
    watermark: float = -np.inf
    horizon: float = -np.inf
    live: list[list[Edge]] = field(default_factory=list)
    n_seen: int = 0
    n_loops: int = 0
    n_late: int = 0
    n_expired: int = 0
    n_deleted: int = 0

    def play(self, rows: Rows) -> None:
        """Rows that delete come first."""
        edges: list[Edge] = []
        op = np.full(rows.u.size, INSERT) if rows.op is None else rows.op
        columns = (each.tolist() for each in (rows.u, rows.v, rows.weight, rows.at, op))
        for u, v, weight, at, what in zip(*columns, strict=True):
            if what == DELETE:
                assert not edges
                n_before = self.n_live
                for number, others in enumerate(self.live):
                    self.live[number] = [each for each in others if {*each[:2]} != {u, v}]
                self.n_deleted += n_before - self.n_live
                continue
            self.n_seen += 1
            self.n_loops += u == v
            self.watermark = max(self.watermark, at)
            if u != v and at // 1 < self.horizon:
                self.n_late += 1
            elif u != v:
                edges.append((u, v, weight, int(at // 1)))
        self.live.append(edges)
        self.leave((self.watermark - self.length) // 1)

    def leave(self, horizon: float) -> None:
        n_before, self.horizon = self.n_live, max(self.horizon, horizon)
        self.live = [[edge for edge in file if edge[3] >= self.horizon] for file in self.live]
        self.n_expired += n_before - self.n_live

    @property
    def edges(self) -> list[Edge]:
        return [edge for file in self.live for edge in file]

    @property
    def n_live(self) -> int:
        return len(self.edges)

    def graph(self, n_nodes: int) -> Graph:
        u, v, weight, _ = (np.array(each) for each in zip(*self.edges, strict=True))
        return Graph.from_edges(u, v, weight, n_nodes=n_nodes)

    def check(self, paths: GraphPaths) -> SnapshotMeta:
        """The newest snapshot of a graph of which every edge is kept has what is here."""
        snapshot = SnapshotStore(paths.snapshots).load(newest(paths).number)
        meta = snapshot.meta
        weights: Counter[tuple[int, ...]] = Counter()
        for u, v, weight, _ in self.edges:
            weights[tuple(sorted((u, v)))] += weight
        found = zip(*(each.tolist() for each in snapshot.graph.edges()), strict=True)
        assert {tuple(sorted(ends)): weight for *ends, weight in found} == dict(weights)
        assert meta.epsilon_expected == 0.0
        assert (meta.n_live, meta.n_late, meta.n_expired, meta.n_deleted) == (
            self.n_live,
            self.n_late,
            self.n_expired,
            self.n_deleted,
        )
        assert meta.n_gone == self.n_deleted + self.n_expired
        assert (meta.edges_seen, meta.left_out.self_loops) == (self.n_seen, self.n_loops)
        assert (meta.watermark, meta.horizon) == (self.watermark, self.horizon)
        return meta


def rows_of(
    file: int, *, n_rows: int = 60, n_nodes: int = 12, n_late: int = 6, seed: int = 0
) -> Rows:
    """Times of the last two seconds, and of as many before as they may come late."""
    rng = np.random.default_rng([seed, file])
    u, v = rng.integers(0, n_nodes, (2, n_rows))
    at = file + rng.integers(-8, 8, n_rows) / 8
    at[: n_rows // 4] -= rng.integers(0, n_late + 1, n_rows // 4)
    rng.shuffle(at)
    return Rows(u=u, v=v, weight=rng.integers(1, 9, n_rows) / 4, at=at)


def with_deletes(rows: Rows, gone: list[Edge]) -> Rows:
    """Rows after such that delete edges, the other way round, by times that nobody looks at."""
    v, u, weight, _ = (np.array(each) for each in zip(*gone, strict=True))
    at = np.where(np.arange(len(gone)) % 2, -1e6, NOW)
    deleting = {"u": u, "v": v, "weight": weight, "at": at}
    return Rows(
        **{name: np.concatenate([each, getattr(rows, name)]) for name, each in deleting.items()},
        op=np.repeat([DELETE, INSERT], [len(gone), rows.u.size]),
    )


def settings(n_nodes: int = 12, *, epsilon: float = 0.5, **changes: object) -> StreamSettings:
    values: dict[str, object] = {
        "node_kind": "dense",
        "sparsifier": SparsifierSettings(epsilon=epsilon, seed=1, expected_nodes=n_nodes),
        "deletions": "exact",
        "window": WINDOW,
        "checkpoint_seconds": 0.0,
        "n_threads": 1,
    }
    return StreamSettings(**(values | changes))  # type: ignore[arg-type]


def opened(paths: GraphPaths, stream_settings: StreamSettings, **changes: object) -> Stream:
    return Stream(paths, stream_settings, wall_clock=lambda: NOW, **changes)  # type: ignore[arg-type]


def newest(paths: GraphPaths) -> SnapshotMeta:
    return SnapshotStore(paths.snapshots).list()[-1]


def published(paths: GraphPaths) -> list[list[object]]:
    """Records of the newest snapshot, in their order."""
    table = SnapshotStore(paths.snapshots).edges(newest(paths).number)
    return [table[name].to_pylist() for name in table.column_names]


@pytest.fixture
def paths(tmp_path: Path) -> GraphPaths:
    return GraphPaths(root=tmp_path / "graph")


def played(folder: Path, stream: Stream, files: Sequence[Rows], twin: Twin | None = None) -> Twin:
    """Ingest files one by one, into a twin, too."""
    twin = twin or Twin()
    for rows in files:
        number = len(twin.live)
        stream.ingest([rows.write(folder / f"{number:02d}.parquet")])
        twin.play(rows)
    return twin


def test_a_graph_of_few_edges_has_exactly_those_that_live(
    tmp_path: Path, paths: GraphPaths
) -> None:
    stream, twin = opened(paths, settings()), Twin()
    for number in range(9):
        played(tmp_path, stream, [rows_of(number)], twin)
        meta = twin.check(paths)
        assert meta.n_files == number + 1
    assert min(twin.n_late, twin.n_expired, twin.n_loops) > 5


def test_rows_that_delete_find_what_lives(tmp_path: Path, paths: GraphPaths) -> None:
    twin, stream = Twin(), opened(paths, settings())
    played(tmp_path, stream, [rows_of(number) for number in range(4)], twin)
    for number in range(4, 9):
        live = twin.edges
        chosen = np.random.default_rng(number).choice(len(live), 8, replace=False)
        rows = with_deletes(rows_of(number), [live[place] for place in chosen.tolist()])
        played(tmp_path, stream, [rows], twin)
        twin.check(paths)
    assert twin.n_deleted > 20


def test_a_window_needs_the_log_by_which_edges_leave() -> None:
    with pytest.raises(ValueError, match="deletions must be 'exact' in a graph with a window"):
        settings(deletions="off")


def test_a_file_too_far_ahead_is_quarantined_and_the_graph_is_as_before(
    tmp_path: Path, paths: GraphPaths
) -> None:
    recorder = Recorder()
    small = settings(max_part_rows=16, group_blocks=1)
    stream = opened(paths, small, on_event=recorder)
    twin = played(tmp_path, stream, [rows_of(number) for number in range(4)])
    ahead = rows_of(4)
    ahead.at[50:] = NOW + 5.125
    bad, good = ahead.write(tmp_path / "bad.parquet"), rows_of(5)
    stream.ingest([bad, good.write(tmp_path / "good.parquet")])
    twin.play(good)
    twin.check(paths)
    (event,) = (each for each in recorder.events if isinstance(each, Quarantined))
    assert (event.file.path, event.row) == (bad.path, 50)
    assert event.value == "1970-01-01T00:01:45Z"
    assert "allowed_ahead" in event.reason
    near = rows_of(6)
    near.at[50:] = NOW + 5.0
    played(tmp_path, stream, [near], twin)
    assert twin.check(paths).watermark == NOW + 5.0


def test_a_window_that_becomes_shorter_lets_go_and_never_takes_back(
    tmp_path: Path, paths: GraphPaths
) -> None:
    twin = played(tmp_path, opened(paths, settings()), [rows_of(number) for number in range(6)])
    shorter = settings(window=replace(WINDOW, length=1.0))
    stream = opened(paths, shorter)
    n_before = twin.n_live
    stream.ingest([])
    twin.length = 1
    twin.leave((twin.watermark - 1) // 1)
    twin.check(paths)
    assert 0 < twin.n_live < n_before
    longer = opened(paths, settings(window=replace(WINDOW, length=5.0)))
    longer.ingest([])
    twin.check(paths)
    twin.length = 5
    for number in range(6, 12):
        played(tmp_path, longer, [rows_of(number)], twin)
        twin.check(paths)


def test_edges_expire_by_hand_up_to_some_time(tmp_path: Path, paths: GraphPaths) -> None:
    stream = opened(paths, settings())
    twin = played(tmp_path, stream, [rows_of(number) for number in range(5)])
    for before in (2.875, 3.0, 1.0, 4.25):
        stream.expire(before)
        twin.leave(before // 1)
        twin.check(paths)
    played(tmp_path, stream, [rows_of(5)], twin)
    n_late = twin.n_late
    twin.check(paths)
    stream.expire(50.0)
    twin.leave(50)
    assert twin.n_live == 0
    assert newest(paths).n_live == 0
    assert newest(paths).edges_kept == 0
    played(tmp_path, opened(paths, settings()), [rows_of(6)], twin)
    assert newest(paths).n_late == twin.n_late > n_late


def test_a_horizon_that_moves_past_nothing_is_told(tmp_path: Path, paths: GraphPaths) -> None:
    stream = opened(paths, settings())
    rows = rows_of(5, n_late=0)
    rows.at[:] = 5.5
    twin = played(tmp_path, stream, [rows])
    stream.expire(4.0)
    twin.leave(4.0)
    assert twin.n_expired == 0
    assert newest(paths).horizon == 4.0
    twin.check(paths)


def test_only_graphs_with_a_window_expire_between_files(tmp_path: Path, paths: GraphPaths) -> None:
    with pytest.raises(ValueError, match="without a window"):
        opened(paths, settings(window=None)).expire(0.0)
    files = [rows_of(0, n_rows=400).write(tmp_path / "0.parquet")]
    small = settings(max_part_rows=16, group_blocks=1)
    with pytest.raises(Crash):
        opened(paths, small, on_event=Recorder(dies_at=1)).ingest(files)
    with pytest.raises(RuntimeError, match="between files"):
        opened(paths, small).expire(0.0)


# Files and nodes that go


def test_a_file_that_is_partly_expired_is_retracted_with_the_rest(
    tmp_path: Path, paths: GraphPaths
) -> None:
    stream = opened(paths, settings())
    twin = played(tmp_path, stream, [rows_of(number) for number in range(6)])
    n_rows = rows_of(3).u.size
    assert 0 < len(twin.live[3]) < n_rows - 10
    for number in (3, 0):  # and one that has nothing left
        twin.n_deleted += len(twin.live[number])
        twin.live[number] = []
        stream.retract(str(tmp_path / f"{number:02d}.parquet"))
        twin.check(paths)
    for number in range(6, 9):
        played(tmp_path, opened(paths, settings()), [rows_of(number)], twin)
        twin.check(paths)


def test_an_erased_node_leaves_what_is_kept_of_the_log(tmp_path: Path, paths: GraphPaths) -> None:
    stream = opened(paths, settings())
    twin = played(tmp_path, stream, [rows_of(number) for number in range(6)])
    stream.erase(np.array([3, 7], np.int32))
    n_before = twin.n_live
    twin.live = [[each for each in file if not {3, 7} & {*each[:2]}] for file in twin.live]
    twin.n_deleted += n_before - twin.n_live
    twin.check(paths)
    log = ChangeLog(paths.log)
    dead = log.dead(stream.state.log_version)
    kept = [log.file(file.digest, dead) for file in stream.files if file.lives(dead.horizon)]
    assert 0 < len(kept) < len(stream.files)
    blocks = [file.block(number) for file in kept for number in range(file.n_batches)]
    ends = {*np.concatenate([ends for each in blocks for ends in (each.u, each.v)]).tolist()}
    assert ends == set(range(12)) - {3, 7}


# The log


def _generation(dead: DeadRows, digest: str) -> str:
    return f"-{dead.generations[digest]}" if digest in dead.generations else ""


def test_files_of_the_log_go_with_what_they_held(tmp_path: Path, paths: GraphPaths) -> None:
    stream = opened(paths, settings())
    twin = played(tmp_path, stream, [rows_of(number) for number in range(9)])
    lives = {file.digest for file, live in zip(stream.files, twin.live, strict=True) if live}
    assert 0 < len(lives) < len(stream.files)
    dead = ChangeLog(paths.log).dead(stream.state.log_version)
    of_files = {f"{each}{_generation(dead, each)}.arrow" for each in lives}
    names = {path.name for path in paths.log.iterdir()}
    assert names == {f"dead-{stream.state.log_version:09d}.arrow"} | of_files
    metas = SnapshotStore(paths.snapshots).list()
    for meta in metas[:-1]:
        with pytest.raises(RawEdgesMovedOn, match="edges were deleted since"):
            require_raw_edges(paths, meta)
    require_raw_edges(paths, metas[-1])
    certificate = certify(
        paths,
        metas[-1].number,
        CertifySettings(passes=20),
        keep_raw=True,
        owner="test",
        n_threads=1,
    )
    assert certificate.n_edges == twin.n_live
    assert certificate.epsilon_certified == pytest.approx(0.0, abs=1e-6)
    with snapshot_edges(
        paths, metas[-1], spool=tmp_path / "spool", staging=tmp_path / "staging", n_threads=1
    ) as raw:
        raw.open()
        assert raw.n_edges == twin.n_live
        block = np.random.default_rng(0).normal(size=(12, 3))
        laplacian = twin.graph(12).laplacian()
        np.testing.assert_allclose(raw.laplacian_product(block), laplacian @ block)
        np.testing.assert_allclose(raw.degrees().weight, twin.graph(12).degree)


# Sampled graphs

N_NODES = 300


def community_file(number: int, n_rows: int, seed: int) -> Rows:
    """Six communities, some of whose nodes move from one file to the next; all of one second."""
    rng = np.random.default_rng([seed, number])
    community = (np.arange(N_NODES) + (np.arange(N_NODES) % 20 < number)) % 6
    u, v = rng.integers(0, N_NODES, (2, 8 * n_rows))
    is_taken = (u != v) & ((community[u] == community[v]) | (rng.random(u.size) < 0.02))
    u, v = u[is_taken][:n_rows], v[is_taken][:n_rows]
    at = number + rng.integers(0, 8, u.size) / 8
    return Rows(u=u, v=v, weight=rng.integers(1, 9, u.size) / 4, at=at)


@pytest.mark.slow
def test_the_error_is_what_was_asked_as_long_as_the_window_moves(tmp_path: Path) -> None:
    found, fresh, told = [], [], []
    window = Window(length=7.0, width=1.0, allowed_ahead=0.0)
    for seed in range(3):
        of_seed = SparsifierSettings(epsilon=0.5, seed=seed, expected_nodes=N_NODES)
        twin, folder = Twin(length=7), tmp_path / str(seed)
        folder.mkdir()
        paths = GraphPaths(root=folder / "graph")
        stream = opened(paths, settings(window=window, sparsifier=of_seed))
        for number in range(16):
            played(folder, stream, [community_file(number, 6_000, seed)], twin)
            if number in {10, 13, 15}:
                exact, meta = twin.graph(N_NODES), newest(paths)
                assert meta.n_live == twin.n_live
                assert meta.n_records < 0.3 * meta.n_live
                kept = SnapshotStore(paths.snapshots).load(meta.number).graph
                found.append(spectral_error(exact, kept))
                told.append(meta.epsilon_expected)
                alone = GraphPaths(root=folder / f"alone-{number}")
                u, v, weight, _ = (np.array(each) for each in zip(*twin.edges, strict=True))
                whole = Rows(u=u, v=v, weight=weight, at=np.zeros(u.size))
                plain = settings(sparsifier=of_seed, window=None, deletions="off")
                opened(alone, plain).ingest([whole.write(folder / "alone.parquet")])
                fresh.append(
                    spectral_error(
                        exact, SnapshotStore(alone.snapshots).load(newest(alone).number).graph
                    )
                )
    assert max(found) <= 0.5
    assert np.mean(found) <= 1.2 * np.mean(fresh)
    assert np.mean(told) >= np.mean(found)
    assert max(np.array(found) / np.array(told)) <= 1.1


def sampled_rows() -> list[Rows]:
    """Files of two seconds each, in any order within them, and a few late rows."""
    return [rows_of(number, n_rows=3_000, n_nodes=60, n_late=5) for number in range(6)]


def sampled(**changes: object) -> StreamSettings:
    values = {"max_part_rows": 512, "group_blocks": 2, "epsilon": 0.9} | changes
    return settings(60, **values)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("checkpoint_seconds", [0.0, 1e9])
def test_equal_files_give_equal_records_whatever_the_threads_and_the_kills(
    tmp_path: Path, n_threads: int, checkpoint_seconds: float
) -> None:
    twin, files = Twin(), []
    for number, rows in enumerate(sampled_rows()):
        files.append(rows.write(tmp_path / f"{number}.parquet"))
        twin.play(rows)
    whole = GraphPaths(root=tmp_path / "whole")
    opened(whole, sampled(n_threads=3 - n_threads)).ingest(files)
    expected, meta = published(whole), newest(whole)
    assert meta.n_records < 0.5 * meta.n_live
    assert (meta.n_live, meta.n_late, meta.n_expired) == (twin.n_live, twin.n_late, twin.n_expired)
    changes = {"n_threads": n_threads, "checkpoint_seconds": checkpoint_seconds}
    n_kills = 0
    for dies_at in count(0, 3):
        paths = GraphPaths(root=tmp_path / f"graph-{dies_at}")
        recorder = Recorder(dies_at=dies_at)
        with suppress(Crash):
            opened(paths, sampled(**changes), on_event=recorder).ingest(files)
            break
        n_kills += 1
        opened(paths, sampled(**changes)).ingest(files)
        assert published(paths) == expected
        assert comparable(newest(paths)) == comparable(meta)
    assert n_kills >= 6


def comparable(meta: SnapshotMeta) -> SnapshotMeta:
    """Without what kills and clocks change."""
    return replace(meta, created_at=0.0, log_bytes=0, number=1, last_repair=None)


@pytest.mark.slow
@pytest.mark.parametrize("length", [1.0, 6.0])
def test_a_half_absorbed_file_is_begun_again_where_the_window_has_changed(
    tmp_path: Path, paths: GraphPaths, length: float
) -> None:
    """Of the parts absorbed before, other edges would live."""
    twin = played(tmp_path, opened(paths, sampled()), sampled_rows()[:3])
    rows = sampled_rows()[3]
    file = rows.write(tmp_path / "last.parquet")
    with pytest.raises(Crash):
        opened(paths, sampled(), on_event=Recorder(dies_at=1)).ingest([file])
    stream = opened(paths, sampled(window=replace(WINDOW, length=length)))
    assert not stream.is_between_files
    stream.ingest([file])
    twin.length = int(length)
    twin.play(rows)
    stream.repair(everything=True)  # looks through the log
    meta = newest(paths)
    assert (meta.n_live, meta.n_late, meta.n_expired) == (twin.n_live, twin.n_late, twin.n_expired)
    gone = twin.live[2]
    assert gone
    stream.retract(str(tmp_path / "02.parquet"))
    assert newest(paths).n_live == twin.n_live - len(gone)


def test_who_is_stopped_in_a_file_by_arrival_goes_on_with_the_bucket_it_had(
    tmp_path: Path, paths: GraphPaths
) -> None:
    file = rows_of(0, n_rows=3_000, n_nodes=60).write(tmp_path / "0.parquet")
    by_arrival = sampled(window=replace(WINDOW, by="arrival"))
    recorder = Recorder()
    clock = iter([10.5, 20.5])
    ask = lambda: len(recorder.events) == 1  # noqa: E731
    stream = Stream(
        paths, by_arrival, on_event=recorder, should_stop=ask, wall_clock=lambda: next(clock)
    )
    with pytest.raises(Interrupted):
        stream.ingest([file])
    Stream(paths, by_arrival, wall_clock=lambda: 20.5).ingest([file])
    assert newest(paths).watermark == 10.5
    resumed = Stream(paths, by_arrival, wall_clock=lambda: 20.5)
    assert set(resumed.state.runs.buckets.tolist()) == {10}
    arrived = replace(rows_of(1).write(tmp_path / "1.parquet"), arrived=12.0)
    resumed.ingest([arrived])
    assert newest(paths).watermark == 12.0
    late = replace(rows_of(2).write(tmp_path / "2.parquet"), arrived=8.5)
    resumed.ingest([late])
    loops = int((rows_of(2).u == rows_of(2).v).sum())
    assert newest(paths).n_late == rows_of(2).u.size - loops


def test_a_buffer_is_thinned_once_it_holds_more_than_it_keeps_for_edges_that_leave(
    tmp_path: Path, paths: GraphPaths
) -> None:
    n_nodes, n_files = 120, 12
    budget = SparsifierSettings(epsilon=None, max_edges=400, seed=1, expected_nodes=n_nodes)
    files = [
        rows_of(0, n_rows=900, n_nodes=n_nodes, seed=number).write(
            tmp_path / f"{number:02}.parquet"
        )
        for number in range(n_files)
    ]
    stream = opened(paths, settings(sparsifier=budget))
    stream.ingest(files)
    assert 1 <= stream.state.n_resparsifications <= n_files / 2
    assert newest(paths).edges_kept <= 400
