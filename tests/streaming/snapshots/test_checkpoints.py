"""Checkpoints: what is saved comes back, and the pair of newest and clean always matches."""

import contextlib
import errno
import gc
import os
import shutil
import subprocess
import sys
import weakref
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest

from peewit.streaming.left_out import NO_ROWS, LeftOut
from peewit.streaming.snapshots.checkpoints import (
    EMPTY,
    AbsorbedFile,
    Checkpoint,
    CheckpointStore,
    FilePosition,
)
from peewit.streaming.sparsifier.runs import Runs
from peewit.streaming.sparsifier.settings_and_state import (
    Records,
    SparsifierSettings,
    SparsifierState,
)
from peewit.streaming.sparsifier.strikes import strike
from tests.streaming.graphs import random_graph, sparsified

NODE_ARRAYS = ("surplus", "degree", "struck_variance", "lost", "torn")
POSITION = FilePosition(
    path="b", digest="aa", part_rows=1024, next_part=3, left_out_before=LeftOut(2)
)


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    edges = random_graph(80, 0.6, 0)
    settings = SparsifierSettings(epsilon=0.9, expected_nodes=80, buffer_edges=1_000)
    file = AbsorbedFile(
        path="/data/a b.parquet", version="17", digest="00ff", n_rows=12, left_out=LeftOut(1)
    )
    state = sparsified(edges, settings)
    state = replace(state, runs=Runs.of(["aa", "bb"], [1, state.n_records - 1]))
    state = strike(state, state.records.u[:300], state.records.v[:300])
    state = replace(state, torn=np.array([[1], [2]], np.int32))
    assert state.surplus is not None
    assert state.lost is not None
    return Checkpoint(states={"": state}, n_nodes=80, files=(file,))


def _assert_equal(left: Checkpoint, right: Checkpoint) -> None:
    assert (left.n_nodes, left.files, left.position, list(left.states)) == (
        right.n_nodes,
        right.files,
        right.position,
        list(right.states),
    )
    for name in left.states:
        _assert_equal_states(left.states[name], right.states[name])


def _assert_equal_states(left: SparsifierState, right: SparsifierState) -> None:
    for item in fields(Records):
        first, second = (getattr(side.records, item.name) for side in (left, right))
        assert first.dtype == second.dtype
        assert np.array_equal(first, second)
    assert np.array_equal(left.cards.array, right.cards.array)
    assert left.cards.scale == right.cards.scale
    for name in NODE_ARRAYS:
        first, second = (getattr(side, name) for side in (left, right))
        assert (first is None) == (second is None)
        if first is not None:
            assert first.dtype == second.dtype
            assert np.array_equal(first, second)
    for item in fields(SparsifierState):
        if item.name not in ("chunks", "cards", "runs", *NODE_ARRAYS):
            first, second = (getattr(side, item.name) for side in (left, right))
            assert first == second
            assert type(first) is type(second)

    first, second = left.runs, right.runs
    assert (first is None) == (second is None)
    if first is not None:
        assert first.keys == second.keys
        assert np.array_equal(first.counts, second.counts)


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
    position = FilePosition(
        path="b", digest="aa", part_rows=1024, next_part=3, left_out_before=LeftOut(2)
    )
    inside = replace(checkpoint, n_nodes=90, position=position)
    store.save(inside)
    assert store.newest().position == position
    _assert_equal(store.clean(), checkpoint)
    assert store.n_clean_nodes() == 80
    _assert_equal(store.return_to_clean(), checkpoint)
    _assert_equal(CheckpointStore(tmp_path).newest(), checkpoint)


@pytest.mark.parametrize("name", [*NODE_ARRAYS, "runs"])
def test_a_checkpoint_may_have_each_of_these_or_none(
    tmp_path: Path, checkpoint: Checkpoint, name: str
) -> None:
    store = CheckpointStore(tmp_path)
    bare = replace(checkpoint, states={"": replace(checkpoint.state, **{name: None})})
    for saved in (checkpoint, bare, checkpoint):
        store.save(saved)
        _assert_equal(CheckpointStore(tmp_path).newest(), saved)


def test_only_the_two_named_checkpoints_stay_on_disk(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    store = CheckpointStore(tmp_path)
    position = FilePosition(
        path="b", digest="aa", part_rows=1024, next_part=1, left_out_before=LeftOut(2)
    )
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
    with pytest.raises(ValueError, match="format 99, this version reads 6"):
        CheckpointStore(tmp_path).newest()


def records(n_records: int, seed: int) -> Records:
    rng = np.random.default_rng(seed)
    u, v = rng.integers(0, 1000, (2, n_records), dtype=np.int32)
    weight, probability = rng.random((2, n_records), dtype=np.float32)
    key = rng.integers(0, 2**32, n_records, dtype=np.uint32)
    return Records(u=u, v=v, weight=weight, keep_probability=probability, key=key)


def absorbed(*numbers: int) -> tuple[AbsorbedFile, ...]:
    return tuple(
        AbsorbedFile(
            path=f"/data/\u00e9 {n}", version="1", digest=f"{n:x}", n_rows=n, left_out=NO_ROWS
        )
        for n in numbers
    )


def grown(checkpoint: Checkpoint, n_records: int, seed: int = 1) -> Checkpoint:
    """The stream after one more block and file."""
    *before, name = checkpoint.states
    state = checkpoint.states[name]
    after = replace(
        state, chunks=(*state.chunks, records(n_records, seed)), n_blocks=state.n_blocks + 1
    )
    return replace(
        checkpoint,
        states={each: checkpoint.states[each] for each in before} | {name: after},
        files=(*checkpoint.files, *absorbed(100 + len(checkpoint.files))),
    )


def test_every_relation_has_a_state_of_its_own_and_links_what_it_had(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    card = replace(EMPTY.state, chunks=(records(2_000, 5),), n_nodes=80, n_blocks=1)
    several = replace(checkpoint, states={"login": checkpoint.state, "card": card})
    store = CheckpointStore(tmp_path)
    store.save(several)
    _assert_equal(CheckpointStore(tmp_path).newest(), several)
    later = replace(grown(several, 10), position=POSITION)
    store.save(later)
    _assert_equal(CheckpointStore(tmp_path).newest(), later)
    first, second = inodes(tmp_path, "relation-1/00000000000-00000002000.records").values()
    assert first == second
    assert len(first) == 1


def inodes(store: Path, pattern: str) -> dict[str, set[int]]:
    """Names of the checkpoints with the inodes of some of their files."""
    return {
        entry.name: {path.stat().st_ino for path in entry.glob(pattern)}
        for entry in store.iterdir()
        if entry.is_dir()
    }


def test_a_grown_buffer_links_what_was_written_before(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    store = CheckpointStore(tmp_path)
    store.save(checkpoint)
    later = replace(grown(checkpoint, 10), position=POSITION)
    store.save(later)
    old, new = (inodes(tmp_path, "*.records")[f"{number:012d}"] for number in (1, 2))
    assert len(old) == 1
    assert old < new
    cards = inodes(tmp_path, "cards.npy")
    assert cards["000000000001"] == cards["000000000002"]
    _assert_equal(CheckpointStore(tmp_path).newest(), later)
    _assert_equal(CheckpointStore(tmp_path).clean(), checkpoint)


def test_an_equal_state_is_not_written_again(tmp_path: Path, checkpoint: Checkpoint) -> None:
    store = CheckpointStore(tmp_path)
    store.save(checkpoint)
    store.save(replace(checkpoint, position=POSITION))
    for pattern in ("*.records", "cards.npy", "*.arrow"):  # surpluses are small, and change
        first, second = inodes(tmp_path, pattern).values()
        assert first == second
        assert first


def test_a_restored_buffer_links_its_segments_too(tmp_path: Path, checkpoint: Checkpoint) -> None:
    CheckpointStore(tmp_path).save(checkpoint)
    CheckpointStore(tmp_path).save(grown(checkpoint, 10))
    before = inodes(tmp_path, "*.records")["000000000002"]
    store = CheckpointStore(tmp_path)
    store.save(grown(store.newest(), 3))
    assert before & inodes(tmp_path, "*.records")["000000000003"]
    _assert_equal(CheckpointStore(tmp_path).newest(), grown(grown(checkpoint, 10), 3))


def test_changed_chunks_are_written_anew(tmp_path: Path, checkpoint: Checkpoint) -> None:
    store = CheckpointStore(tmp_path)
    first = grown(checkpoint, 500)
    store.save(first)
    old, young = first.state.chunks[0], first.state.chunks[-1]
    lowered = replace(old, keep_probability=old.keep_probability / 2)
    for chunks in ((lowered, young), (young, old), (young,), ()):
        changed = replace(first, states={"": replace(first.state, chunks=chunks)})
        store.save(changed)
        _assert_equal(CheckpointStore(tmp_path).newest(), changed)


def test_many_small_saves_leave_few_segments(tmp_path: Path) -> None:
    store, checkpoint = CheckpointStore(tmp_path), EMPTY
    for seed in range(100):
        checkpoint = grown(checkpoint, 1 + seed % 7, seed)
        store.save(checkpoint)
        for pattern in ("*.records", "*.arrow"):
            (found,) = inodes(tmp_path, pattern).values()
            assert len(found) <= 10
    _assert_equal(CheckpointStore(tmp_path).newest(), checkpoint)
    assert store.first_files(100) == checkpoint.files


def test_chunks_of_every_layout_are_saved(tmp_path: Path) -> None:
    wide = records(40, 3)
    strided = Records(**{item.name: getattr(wide, item.name)[::2] for item in fields(Records)})
    state = SparsifierState(chunks=(strided, Records.empty(), wide))
    checkpoint = replace(EMPTY, states={"": state})
    CheckpointStore(tmp_path).save(checkpoint)
    _assert_equal(CheckpointStore(tmp_path).newest(), checkpoint)


def test_saved_arrays_are_not_kept_alive(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path)
    chunk = records(10, 0)
    store.save(replace(EMPTY, states={"": SparsifierState(chunks=(chunk,))}))
    column = weakref.ref(chunk.u)
    del chunk
    gc.collect()
    assert column() is None


def test_a_file_system_without_links_gets_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoint: Checkpoint
) -> None:
    def refuse(_source: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "no links here", str(target))

    monkeypatch.setattr(os, "link", refuse)
    store = CheckpointStore(tmp_path)
    store.save(checkpoint)
    later = replace(grown(checkpoint, 10), position=POSITION)
    store.save(later)
    _assert_equal(CheckpointStore(tmp_path).newest(), later)
    _assert_equal(CheckpointStore(tmp_path).clean(), checkpoint)


def test_files_that_follow_a_return_replace_those_forgotten(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    store = CheckpointStore(tmp_path)
    clean = replace(checkpoint, files=absorbed(1, 2, 3))
    store.save(clean)
    store.save(replace(clean, files=absorbed(1, 2, 3, 4, 5), position=POSITION))
    assert store.first_files(3) == absorbed(1, 2, 3)
    _assert_equal(store.return_to_clean(), clean)
    other = replace(clean, files=absorbed(1, 2, 3, 6))
    store.save(other)
    _assert_equal(CheckpointStore(tmp_path).newest(), other)
    store.save(replace(clean, files=absorbed(1, 7)))
    assert CheckpointStore(tmp_path).newest().files == absorbed(1, 7)


def test_first_files_need_as_many_files(tmp_path: Path, checkpoint: Checkpoint) -> None:
    store = CheckpointStore(tmp_path)
    assert store.first_files(0) == ()
    with pytest.raises(ValueError, match="first 1 files of the graph, it knows 0"):
        store.first_files(1)
    store.save(replace(checkpoint, files=absorbed(1, 2)))
    assert CheckpointStore(tmp_path).first_files(1) == absorbed(1)
    with pytest.raises(ValueError, match="first 3 files of the graph, it knows 2"):
        store.first_files(3)


@pytest.mark.slow
def test_readers_ask_while_the_writer_replaces(tmp_path: Path) -> None:
    store, checkpoint = CheckpointStore(tmp_path), grown(EMPTY, 5)
    store.save(checkpoint)
    done, wrong = Event(), []

    def ask() -> None:
        reader = CheckpointStore(tmp_path)
        while not done.is_set():
            try:
                if reader.first_files(1) != checkpoint.files[:1]:
                    wrong.append("other files")
            except Exception as error:  # noqa: BLE001 (shown by the main thread)
                wrong.append(repr(error))

    thread = Thread(target=ask)
    thread.start()
    try:
        for _ in range(60):
            checkpoint = grown(checkpoint, 3)
            store.save(checkpoint)
    finally:
        done.set()
        thread.join()
    assert wrong == []


def test_a_segment_of_another_length_is_named(tmp_path: Path, checkpoint: Checkpoint) -> None:
    CheckpointStore(tmp_path).save(checkpoint)
    (path,) = tmp_path.glob("*/*.records")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(RuntimeError, match=rf"{path.name} must be \d+ bytes long"):
        CheckpointStore(tmp_path).newest()


class Killed(BaseException):
    """The process ends here."""


def kill_at(monkeypatch: pytest.MonkeyPatch, n_calls: int) -> list[str]:
    """Die at the given change of the disk; nothing reaches the disk afterwards.

    Returns the changes that were made, which fills up.
    """
    made: list[str] = []

    def dying(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            if name == "open" and arguments[1:2] not in (("wb",), ("w",)):
                return real(*arguments, **keywords)
            if len(made) >= n_calls:
                raise Killed
            made.append(name)
            return real(*arguments, **keywords)

        return call

    for owner, names in (
        (Path, ("open", "write_text", "mkdir", "replace", "rename", "unlink")),
        (os, ("link", "fsync")),
        (shutil, ("rmtree",)),
    ):
        for name in names:
            monkeypatch.setattr(owner, name, dying(name, getattr(owner, name)))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("is_clean", [True, False])
def test_killed_at_any_change_of_the_disk_one_whole_pair_is_there(
    tmp_path: Path, checkpoint: Checkpoint, is_clean: bool
) -> None:
    before = grown(checkpoint, 30, 2)
    position = None if is_clean else POSITION
    after = replace(grown(grown(before, 8, 3), 5, 4), position=position)
    outcomes = set()
    for n_calls in range(1000):
        directory = tmp_path / str(n_calls)
        store = CheckpointStore(directory)
        store.save(checkpoint)
        store.save(before)
        with pytest.MonkeyPatch.context() as patch:
            made = kill_at(patch, n_calls)
            with contextlib.suppress(Killed):
                store.save(after)
            is_whole = len(made) < n_calls
        again = CheckpointStore(directory)
        again.clear()
        assert len(list(directory.iterdir())) in (2, 3)
        newest = again.newest()
        is_new = newest.state.n_blocks == after.state.n_blocks
        outcomes.add(is_new)
        _assert_equal(newest, after if is_new else before)
        _assert_equal(again.clean(), after if is_new and is_clean else before)
        next_one = grown(again.newest(), 3, 5)
        again.save(next_one)
        _assert_equal(CheckpointStore(directory).newest(), next_one)
        if is_whole:
            break
    assert outcomes == {True, False}
    assert n_calls > 20


def test_killed_at_any_change_while_it_returns_one_whole_pair_is_there(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    inside = replace(grown(checkpoint, 30), position=POSITION)
    for n_calls in range(100):
        directory = tmp_path / str(n_calls)
        store = CheckpointStore(directory)
        store.save(checkpoint)
        store.save(inside)
        with pytest.MonkeyPatch.context() as patch:
            made = kill_at(patch, n_calls)
            with contextlib.suppress(Killed):
                store.return_to_clean()
            is_whole = len(made) < n_calls
        again = CheckpointStore(directory)
        _assert_equal(again.clean(), checkpoint)
        newest = again.newest()
        _assert_equal(newest, checkpoint if newest.is_clean else inside)
        if is_whole:
            assert newest.is_clean
            break
    assert n_calls > 2


FULL_DISK = """
import resource, signal, sys
from dataclasses import replace
from pathlib import Path
from peewit.streaming.snapshots.checkpoints import CheckpointStore
from tests.streaming.snapshots.test_checkpoints import grown

store = CheckpointStore(Path(sys.argv[1]))
checkpoint = grown(store.newest(), 100_000)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    store.save(checkpoint)
except OSError as error:
    print(error.errno, error)
"""


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("limit", [0, 100, 300_000, 1_999_999])
def test_full_disk_leaves_the_checkpoints_and_is_named(
    tmp_path: Path, checkpoint: Checkpoint, limit: int
) -> None:
    CheckpointStore(tmp_path).save(checkpoint)
    before = sorted(tmp_path.rglob("*"))
    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path), str(limit)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.startswith(f"{errno.EFBIG} ")
    assert f"{tmp_path}/.tmp-" in run.stdout
    assert ".records" in run.stdout
    assert sorted(tmp_path.rglob("*")) == before
    _assert_equal(CheckpointStore(tmp_path).newest(), checkpoint)
    _assert_equal(CheckpointStore(tmp_path).clean(), checkpoint)
