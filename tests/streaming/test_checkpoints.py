"""Checkpoints: what is saved comes back, and the pair of newest and clean always matches."""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from streaming.checkpoints import (
    EMPTY,
    AbsorbedFile,
    Checkpoint,
    CheckpointStore,
    FilePosition,
)
from streaming.records import Records, SparsifierSettings, SparsifierState
from tests.streaming.graphs import random_graph, sparsified


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    edges = random_graph(80, 0.6, 0)
    settings = SparsifierSettings(epsilon=0.9, expected_nodes=80)
    file = AbsorbedFile(
        path="/data/a b.parquet", version="17", digest="00ff", n_rows=12, n_self_loops=1
    )
    return Checkpoint(state=sparsified(edges, settings), n_nodes=80, files=(file,))


def _assert_equal(left: Checkpoint, right: Checkpoint) -> None:
    assert (left.n_nodes, left.files, left.position) == (
        right.n_nodes,
        right.files,
        right.position,
    )
    for item in fields(Records):
        first, second = (getattr(side.state.records, item.name) for side in (left, right))
        assert first.dtype == second.dtype
        assert np.array_equal(first, second)
    for item in fields(SparsifierState):
        if item.name != "chunks":
            first, second = (getattr(side.state, item.name) for side in (left, right))
            assert np.array_equal(first, second)
            assert type(first) is type(second)


def test_saved_checkpoint_is_loaded_as_it_was(tmp_path: Path, checkpoint: Checkpoint) -> None:
    store = CheckpointStore(tmp_path)
    store.save(checkpoint)
    _assert_equal(CheckpointStore(tmp_path).newest(), checkpoint)
    _assert_equal(CheckpointStore(tmp_path).clean(), checkpoint)
    assert store.n_clean_nodes() == 80


def test_empty_store_gives_the_empty_checkpoint(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "new")
    assert store.newest() is EMPTY
    assert store.clean() is EMPTY
    assert store.n_clean_nodes() == 0


def test_empty_state_survives_saving(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    store.save(EMPTY)
    _assert_equal(store.newest(), EMPTY)


def test_checkpoint_inside_a_file_leaves_the_clean_one(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    store = CheckpointStore(tmp_path)
    store.save(checkpoint)
    position = FilePosition(path="b", digest="aa", part_rows=1024, next_part=3, self_loops_before=2)
    inside = replace(checkpoint, n_nodes=90, position=position)
    store.save(inside)
    assert store.newest().position == position
    _assert_equal(store.clean(), checkpoint)
    assert store.n_clean_nodes() == 80
    _assert_equal(store.return_to_clean(), checkpoint)
    _assert_equal(CheckpointStore(tmp_path).newest(), checkpoint)


def test_only_the_two_named_checkpoints_stay_on_disk(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    store = CheckpointStore(tmp_path)
    position = FilePosition(path="b", digest="aa", part_rows=1024, next_part=1, self_loops_before=2)
    for _ in range(3):
        store.save(checkpoint)
        store.save(replace(checkpoint, position=position))
    assert len([entry for entry in tmp_path.iterdir() if entry.is_dir()]) == 2


def test_half_written_checkpoint_is_not_seen(tmp_path: Path, checkpoint: Checkpoint) -> None:
    store = CheckpointStore(tmp_path)
    store.save(checkpoint)
    unfinished = tmp_path / ".tmp-1-000000000099"
    unfinished.mkdir()
    (unfinished / "u.npy").write_bytes(b"\x93NUMPY")
    complete_but_not_pointed_to = tmp_path / "000000000050"
    complete_but_not_pointed_to.mkdir()
    _assert_equal(CheckpointStore(tmp_path).newest(), checkpoint)
    store.save(checkpoint)
    assert not unfinished.exists()
    assert not complete_but_not_pointed_to.exists()
    _assert_equal(CheckpointStore(tmp_path).newest(), checkpoint)


def test_other_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "current.json").write_text('{"format": 99, "newest": null, "clean": null}')
    with pytest.raises(ValueError, match="format 99, this version reads 1"):
        CheckpointStore(tmp_path).newest()


def test_first_files_are_those_of_the_clean_checkpoint(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    store = CheckpointStore(tmp_path)
    assert store.first_files(0) == ()
    store.save(checkpoint)
    position = FilePosition(path="/b", digest="aa", part_rows=10, next_part=1, self_loops_before=1)
    store.save(replace(checkpoint, files=checkpoint.files * 2, position=position))
    assert store.first_files(1) == checkpoint.files
    with pytest.raises(ValueError, match="the first 2 files of the graph, it knows 1"):
        store.first_files(2)
