"""Snapshots: published whole, numbered, loaded as they were, retired by number."""

import errno
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from peewit.solvers import graph as graph_module
from peewit.solvers.graph import Graph
from peewit.solvers.laplacian.walks.walk_rows import WalkRows
from peewit.streaming.left_out import LeftOut
from peewit.streaming.snapshots.provenance import SnapshotMeta
from peewit.streaming.snapshots.store import WALKS, Snapshot, SnapshotNotFound, SnapshotStore
from peewit.streaming.snapshots.walk_rows import walk_rows
from peewit.streaming.sparsifier.settings_and_state import Records, SparsifierSettings
from peewit.streaming.sparsifier.sparsifier import sparsifier_graph
from tests.reference.adjacency import summed_pairs
from tests.streaming.graphs import merged_edges, random_graph, sparsified

META = SnapshotMeta(
    number=1,
    node_kind="string",
    n_nodes=40,
    edges_seen=900,
    edges_kept=random_graph(40, 0.5, 0).n_edges,
    n_records=310,
    left_out=LeftOut(2),
    epsilon_asked=0.7,
    epsilon_expected=0.6,
    sampling_constant=12.5,
    max_edges_bound=False,
    n_resparsifications=3,
    n_failed_embeddings=0,
    n_blocks=7,
    n_files=2,
    seed=5,
    created_at=1.5,
)


def _publish(store: SnapshotStore, *numbers: int) -> None:
    graph = random_graph(40, 0.5, 0).graph()
    for number in numbers:
        store.publish_records(replace(META, number=number), [merged_edges(graph)])


def test_loaded_snapshot_equals_the_published_one(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path / "snapshots")
    _publish(store, 1)
    loaded = store.load(1)
    assert loaded.meta == META
    for left, right in zip(
        loaded.graph.edges(), random_graph(40, 0.5, 0).graph().edges(), strict=True
    ):
        assert np.array_equal(left, right)
    assert store.edges(1).num_rows == loaded.graph.n_edges


def test_an_order_is_found_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_module, "LEAST_ORDERED", 10)
    store = SnapshotStore(tmp_path / "snapshots")
    _publish(store, 1)
    snapshot = store.load(1)
    store.keep_order(snapshot)
    assert store.load(1).graph.known_order is None  # nobody asked for one
    near = snapshot.graph.near_in_memory
    assert near is not None
    store.keep_order(snapshot)
    loaded = store.load(1)
    np.testing.assert_array_equal(loaded.graph.known_order, near.order)
    again = loaded.graph.near_in_memory
    assert again is not None
    assert (again.graph.adjacency != near.graph.adjacency).nnz == 0
    file = store.directory(1) / "order.npy"
    for damage in (np.zeros(40, np.int32), np.arange(40.0), np.arange(39)):
        np.save(file, damage)
        assert store.load(1).graph.known_order is None
        assert not file.exists()
    for content in (b"", b"damaged"):
        file.write_bytes(content)
        assert store.load(1).graph.known_order is None
        assert not file.exists()
    store.retire(keep_last=0)
    with pytest.raises(SnapshotNotFound):
        store.keep_order(snapshot)


def test_latest_is_the_highest_number(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path / "snapshots")
    assert store.latest() is None
    assert store.list() == []
    _publish(store, 9, 10)
    assert store.latest() == 10
    assert [meta.number for meta in store.list()] == [9, 10]


def test_missing_snapshot_is_named_with_the_newest(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path)
    with pytest.raises(SnapshotNotFound, match="no snapshot 42, none is kept"):
        store.meta(42)
    _publish(store, 37)
    for read in (store.meta, store.load, store.edges):
        with pytest.raises(SnapshotNotFound, match="no snapshot 42, the newest is 37"):
            read(42)


def test_retiring_keeps_the_last_and_the_named(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path)
    _publish(store, 1, 2, 3, 4, 5)
    assert store.retire(keep_last=2, keep={2}) == [1, 3]
    assert store.numbers() == [2, 4, 5]
    assert store.retire(keep_last=10) == []


def test_note_says_why_the_accuracy_falls_short() -> None:
    assert META.note == ""
    assert "max_edges" in replace(META, epsilon_expected=0.9, max_edges_bound=True).note
    assert "lower epsilon" in replace(META, epsilon_expected=0.9).note


@pytest.mark.parametrize(
    ("n_kept", "said"),
    [
        (30, "30 of 898 edges are kept, as many as max_edges allows. Each solve says"),
        (39, "39 of 898 edges are kept, more than max_edges=30, as a spanning forest always stays"),
        (
            40,
            "40 of 898 edges are kept, more than max_edges=30. Each solve says",
        ),  # a thinning failed
    ],
)
def test_note_says_whether_the_budget_was_kept_to(n_kept: int, said: str) -> None:
    meta = replace(META, epsilon_asked=None, edges_kept=n_kept, max_edges=30)
    assert meta.note.startswith(said)


def test_a_half_written_snapshot_is_not_seen(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path)
    _publish(store, 1)
    (tmp_path / ".tmp-7-00000002").mkdir()
    assert store.latest() == 1
    _publish(store, 2)
    assert not list(tmp_path.glob(".tmp-*"))


def random_records(n_records: int, n_nodes: int) -> Records:
    rng = np.random.default_rng(n_records)
    u, v = rng.integers(0, n_nodes, (2, n_records), dtype=np.int32)
    weight, probability = rng.uniform(0.1, 1.0, (2, n_records)).astype(np.float32)
    key = rng.integers(0, 2**32, n_records, dtype=np.uint32)
    return Records(u=u, v=v, weight=weight, keep_probability=probability, key=key)


def rows(table: pa.Table) -> list[tuple[int, int, float]]:
    return list(zip(*(table[name].to_pylist() for name in ("u", "v", "weight")), strict=True))


def test_published_records_are_the_graph_of_the_sparsifier(tmp_path: Path) -> None:
    settings = SparsifierSettings(epsilon=0.9, expected_nodes=80)
    state = sparsified(random_graph(80, 0.6, 0), settings)
    store = SnapshotStore(tmp_path)
    graph = sparsifier_graph(state)
    meta = store.publish_records(replace(META, n_nodes=80, edges_kept=0), state.chunks)
    assert meta == replace(META, n_nodes=80, edges_kept=graph.n_edges)
    assert store.meta(1) == meta
    store.publish_records(replace(meta, number=2), [merged_edges(graph)])
    assert rows(store.edges(1)) == rows(store.edges(2))
    for left, right in zip(store.load(1).graph.edges(), graph.edges(), strict=True):
        assert np.array_equal(left, right)


@pytest.mark.slow
def test_many_records_are_published_in_small_sorted_batches(tmp_path: Path) -> None:
    records = random_records(700_000, 90_000)
    chunks = [
        Records(**{item.name: getattr(records, item.name)[part] for item in fields(Records)})
        for part in np.array_split(np.arange(700_000), 5)
    ]
    store = SnapshotStore(tmp_path)
    meta = store.publish_records(replace(META, n_nodes=90_000), chunks)
    table = store.edges(1)
    assert rows(table) == summed_pairs(records.u, records.v, records.conductance)
    assert meta.edges_kept == table.num_rows
    batches = table.to_batches()
    assert len(batches) > 1
    assert max(batch.num_rows for batch in batches) <= 1 << 18
    expected = Graph.from_records(chunks, n_nodes=90_000)
    loaded = store.load(1).graph
    assert np.array_equal(loaded.adjacency.indices, expected.adjacency.indices)
    assert np.array_equal(loaded.adjacency.data, expected.adjacency.data)


def test_a_snapshot_without_edges_is_a_snapshot(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path)
    assert store.publish_records(META, []).edges_kept == 0
    loaded = store.load(1)
    assert (loaded.graph.n_nodes, loaded.graph.n_edges) == (40, 0)


@pytest.mark.parametrize("bad", ["record", "guard"])
def test_what_fails_before_it_is_whole_publishes_nothing(tmp_path: Path, bad: str) -> None:
    store = SnapshotStore(tmp_path)
    _publish(store, 1)
    records = random_records(100, 40)
    if bad == "record":
        records.u[50] = 40

    def refuse() -> None:
        assert bad == "guard"
        raise ValueError("this process may write no more; u must lie in [0, 40)")

    with pytest.raises(ValueError, match=r"u must lie in \[0, 40\)"):
        store.publish_records(replace(META, number=2), [records], guard=refuse)
    assert store.numbers() == [1]
    assert [entry.name for entry in tmp_path.iterdir()] == ["00000001"]


FULL_DISK = """
import resource, sys
from dataclasses import replace
from pathlib import Path
from peewit.streaming.snapshots.store import SnapshotStore
from tests.streaming.snapshots.test_store import META, random_records

resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    meta = replace(META, number=2, n_nodes=1000)
    SnapshotStore(Path(sys.argv[1])).publish_records(meta, [random_records(50_000, 1000)])
except OSError as error:
    print(error.errno, error)
"""


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("limit", [0, 100, 400_000])
def test_full_disk_leaves_the_snapshots_and_is_named(tmp_path: Path, limit: int) -> None:
    store = SnapshotStore(tmp_path)
    _publish(store, 1)
    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path), str(limit)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.startswith(f"{errno.EFBIG} ")
    assert f"{tmp_path}/.tmp-" in run.stdout
    assert "edges.arrow" in run.stdout
    assert [entry.name for entry in tmp_path.iterdir()] == ["00000001"]
    assert store.load(1).graph.n_edges == META.edges_kept


def test_edges_of_erased_nodes_leave_a_snapshot(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path / "snapshots")
    _publish(store, 1)
    before = store.edges(1).to_pydict()
    erased = np.array([3, 17, 99], np.int32)
    for _ in range(2):  # done again, nothing changes
        store.erase(1, erased)
        left = store.edges(1).to_pydict()
        stays = [
            row
            for row, ends in enumerate(zip(before["u"], before["v"], strict=True))
            if not {3, 17} & set(ends)
        ]
        assert left == {name: [values[row] for row in stays] for name, values in before.items()}
        loaded = store.load(1)
        assert loaded.meta == replace(META, edges_kept=len(stays), n_erased=3)
        assert loaded.graph.degree[[3, 17]].tolist() == [0.0, 0.0]


def test_walk_rows_are_those_of_the_graph_and_follow_erasures(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path / "snapshots")
    _publish(store, 1)

    def require_same() -> None:
        rows, expected = walk_rows(store, 1), WalkRows.of_graph(store.load(1).graph)
        for name in WalkRows.__dataclass_fields__:
            np.testing.assert_array_equal(getattr(rows, name), getattr(expected, name))

    require_same()
    before = store.companion(1, f"{WALKS}-0")
    assert before.exists()
    store.erase(1, np.array([3, 17], np.int32))
    assert not before.exists()
    require_same()
    with pytest.raises(SnapshotNotFound):
        walk_rows(store, 2)


def test_walk_rows_of_erased_edges_do_not_stay(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path / "snapshots")
    _publish(store, 1)
    loaded = store.load

    def load_and_erase(number: int) -> Snapshot:
        snapshot = loaded(number)
        if store.meta(number).n_erased == 0:
            store.erase(number, np.array([3, 17], np.int32))
        return snapshot

    store.load = load_and_erase  # type: ignore[method-assign]
    unfinished = store.companion(1, f".tmp-99-{WALKS}-0")
    unfinished.mkdir()  # of a process that was killed
    rows = walk_rows(store, 1)
    assert [each.name for each in store.directory(1).glob(f"*{WALKS}*")] == [f"{WALKS}-2"]
    expected = WalkRows.of_graph(loaded(1).graph)
    np.testing.assert_array_equal(rows.indices, expected.indices)


def test_walk_rows_bring_no_retired_snapshot_back(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path / "snapshots")
    _publish(store, 1)
    _publish(store, 2)
    loaded = store.load

    def load_and_retire(number: int) -> Snapshot:
        snapshot = loaded(number)
        store.retire(keep_last=1)
        return snapshot

    store.load = load_and_retire  # type: ignore[method-assign]
    with pytest.raises(SnapshotNotFound):
        walk_rows(store, 1)
    assert store.numbers() == [2]
