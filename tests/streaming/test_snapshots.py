"""Snapshots: published whole, numbered, loaded as they were, retired by number."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from streaming.snapshots import Snapshot, SnapshotMeta, SnapshotNotFound, SnapshotStore
from tests.streaming.graphs import random_graph

META = SnapshotMeta(
    number=1,
    node_kind="string",
    n_nodes=40,
    edges_seen=900,
    edges_kept=random_graph(40, 0.5, 0).n_edges,
    n_records=310,
    self_loops=2,
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
        store.publish(Snapshot(meta=replace(META, number=number), graph=graph))


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


def test_a_half_written_snapshot_is_not_seen(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path)
    _publish(store, 1)
    (tmp_path / ".tmp-7-00000002").mkdir()
    assert store.latest() == 1
    _publish(store, 2)
    assert not list(tmp_path.glob(".tmp-*"))
