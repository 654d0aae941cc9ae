"""The node index: a dictionary that survives being killed, and refuses rather than merges."""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from peewit.solvers.arrays import frozen
from peewit.streaming.edges.blocks import BadEdges, RawBlock
from peewit.streaming.edges.columns import read_columns
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.kernels.hashing import hash_integers, hash_strings
from peewit.streaming.kernels.node_table import COLLISION, DONE, FULL
from peewit.streaming.nodes.hash_table import HashTable
from peewit.streaming.nodes.index import DenseNodes, NodeCollision, NodeIndex, open_nodes
from peewit.streaming.nodes.segments import CorruptSegment, list_segments, segment_path
from tests.reference.columns import without_self_loops
from tests.reference.node_index import DictIndex

ARROW = {"string": pa.string(), "int64": pa.int64()}
STRINGS = st.text(max_size=20).filter(lambda text: text.isprintable() or text == "")
INTEGERS = st.integers(-(2**63), 2**63 - 1)


def ids_of(kind: str) -> st.SearchStrategy[Any]:
    few = st.sampled_from(["a", "b", "", "aa"] if kind == "string" else [0, 1, -1, 2**63 - 1])
    return few | (STRINGS if kind == "string" else INTEGERS)


def rows_of(kind: str) -> st.SearchStrategy[list[tuple[Any, Any]]]:
    return st.lists(st.tuples(ids_of(kind), ids_of(kind)), max_size=30)


def columns(rows: Sequence[tuple[Any, Any]], kind: str) -> tuple[pa.Array, pa.Array]:
    src, dst = zip(*rows, strict=True) if rows else ((), ())
    return pa.array(src, ARROW[kind]), pa.array(dst, ARROW[kind])


def add(index: NodeIndex, *names: str) -> None:
    ids = pa.array(names, pa.string())
    index.map(ids, ids)


def known(index: NodeIndex | DenseNodes) -> list[Any]:
    return index.external_ids().to_pylist()


def file_names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


class IndexMachine(RuleBasedStateMachine):
    """A writer, a reader and a dictionary that must always agree."""

    @initialize(kind=st.sampled_from(["string", "int64"]), data=st.data())
    def start(self, kind: NodeKind, data: st.DataObject) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.kind, self.data = kind, data
        self.directory = Path(self._folder.name) / "nodes"
        self.twin = DictIndex()
        self.index = NodeIndex.open(self.directory, kind=kind)
        self.reader = NodeIndex.open(self.directory, kind=kind, writable=False)

    def teardown(self) -> None:
        if hasattr(self, "_folder"):
            self._folder.cleanup()

    @rule(data=st.data())
    def map_rows(self, data: st.DataObject) -> None:
        rows = data.draw(rows_of(self.kind))
        src, dst = columns(rows, self.kind)
        u, v = self.index.map(src, dst)
        assert (u.tolist(), v.tolist()) == self.twin.map(src.to_pylist(), dst.to_pylist())
        assert u.dtype == v.dtype == np.int32

    @rule()
    def publish(self) -> None:
        assert self.index.publish() == len(self.twin.ids)
        assert self.index.n_published == len(self.twin.ids)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        # Readers follow committed ids only, which are never taken back.
        n_nodes = data.draw(st.integers(self.reader.n_nodes, len(self.twin.ids)))
        self.index.truncate(n_nodes)
        del self.twin.ids[n_nodes:]

    @rule(data=st.data())
    def open_again(self, data: st.DataObject) -> None:
        n_nodes = data.draw(st.integers(self.reader.n_nodes, self.index.n_published))
        self.index = NodeIndex.open(self.directory, kind=self.kind, n_nodes=n_nodes)
        del self.twin.ids[n_nodes:]

    @rule()
    def open_all(self) -> None:
        del self.twin.ids[self.index.n_published :]
        self.index = NodeIndex.open(self.directory, kind=self.kind)

    @precondition(lambda self: self.index.n_published > 0)
    @rule(data=st.data())
    def erase(self, data: st.DataObject) -> None:
        numbers = st.integers(0, self.index.n_published - 1)
        nodes = data.draw(st.lists(numbers, unique=True, max_size=4))
        for _ in range(data.draw(st.integers(1, 2))):  # done again, nothing changes
            self.index.erase(np.array(nodes, np.int32))
        self.twin.erase(nodes)
        n_read = self.reader.n_nodes
        self.reader = NodeIndex.open(self.directory, kind=self.kind, n_nodes=n_read, writable=False)

    @rule(data=st.data())
    def reader_follows(self, data: st.DataObject) -> None:
        n_nodes = data.draw(st.integers(0, self.index.n_published))
        self.reader.refresh(n_nodes)
        assert self.reader.n_nodes >= n_nodes

    @rule(data=st.data())
    def look_up(self, data: st.DataObject) -> None:
        asked = data.draw(st.lists(st.none() | ids_of(self.kind), max_size=10))
        nodes = pa.array(asked, ARROW[self.kind])
        expected = self.twin.lookup(asked)
        assert self.index.lookup(nodes).tolist() == expected
        n_read = self.reader.n_nodes
        assert self.reader.lookup(nodes).tolist() == [
            number if number < n_read else -1 for number in expected
        ]

    @precondition(lambda self: len(self.twin.ids) > 0)
    @rule(data=st.data())
    def take_a_range(self, data: st.DataObject) -> None:
        stop = data.draw(st.integers(0, len(self.twin.ids)))
        start = data.draw(st.integers(0, stop))
        assert self.index.external_ids(start, stop).to_pylist() == self.twin.ids[start:stop]

    @invariant()
    def same_ids(self) -> None:
        if hasattr(self, "index"):
            assert known(self.index) == self.twin.ids
            assert self.index.n_nodes == len(self.twin.ids)
            assert known(self.reader) == self.twin.ids[: self.reader.n_nodes]


TestIndexMachine = pytest.mark.slow(IndexMachine.TestCase)
TestIndexMachine.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)


@pytest.mark.parametrize("kind", ["string", "int64"])
@pytest.mark.parametrize("source_type", [pa.large_string(), pa.string()], ids=str)
def test_thousands_of_ids_are_numbered_in_order_of_appearance(
    tmp_path: Path, kind: NodeKind, source_type: pa.DataType
) -> None:
    rng = np.random.default_rng(5)
    endpoints = rng.integers(0, 9000, size=(40_000, 2))
    values = [pa.array(endpoints[:, side] * 7919 - 10**6) for side in (0, 1)]
    src, dst = (value.cast(source_type) for value in values) if kind == "string" else values
    index = NodeIndex.open(tmp_path, kind=kind)
    halves = [
        index.map(src.slice(start, 20_000), dst.slice(start, 20_000)) for start in (0, 20_000)
    ]
    found = np.stack([np.concatenate(side) for side in zip(*halves, strict=True)], axis=1)

    _, first, inverse = np.unique(endpoints, return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    assert np.array_equal(found, number[inverse].reshape(-1, 2))
    order = np.sort(first)
    flat = np.stack([value.to_numpy() for value in values], axis=1).ravel()
    assert known(index) == [str(x) if kind == "string" else x for x in flat[order].tolist()]

    index.publish()
    again = NodeIndex.open(tmp_path, kind=kind)
    assert np.array_equal(again.lookup(src), found[:, 0])
    index.truncate(5)
    assert np.count_nonzero(index.lookup(src) >= 0) == np.count_nonzero(found[:, 0] < 5)


def test_dense_ids_do_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    src, dst = pa.array(["b", "a", "c"]), pa.array(["a", "d", "b"])
    mapped = [
        NodeIndex.open(tmp_path / str(seed), kind="string", hash_seed=seed).map(src, dst)
        for seed in (0, 1, 2**64 - 1)
    ]
    assert {tuple(u.tolist() + v.tolist()) for u, v in mapped} == {(0, 1, 3, 1, 2, 0)}


def test_sliced_arrays_are_mapped_from_their_offset(tmp_path: Path) -> None:
    names = pa.array(["zero", "one", "two", "three", "four"])
    index = NodeIndex.open(tmp_path, kind="string")
    index.map(names.slice(1, 2), names.slice(3))
    assert known(index) == ["one", "three", "two", "four"]
    assert index.lookup(names.slice(2)).tolist() == [2, 1, 3]


def test_ids_that_are_prefixes_of_each_other_stay_apart(tmp_path: Path) -> None:
    names = ["x" * length for length in range(60)] + [
        "x" * 7 + "\0" * length for length in range(20)
    ]
    names += ["\0" * length for length in range(1, 30)]
    distinct = list(dict.fromkeys(names))
    index = NodeIndex.open(tmp_path, kind="string")
    add(index, *distinct)
    assert index.n_nodes == len(distinct)
    assert known(index) == distinct


def test_lookup_takes_every_type_of_the_kind(tmp_path: Path) -> None:
    strings = NodeIndex.open(tmp_path / "strings", kind="string")
    add(strings, "a", "b")
    for string_type in (pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        assert strings.lookup(pa.array(["b", None, "q"], string_type)).tolist() == [1, -1, -1]
    chunked = pa.chunked_array([pa.array(["b"]), pa.array(["a"])])
    assert strings.lookup(chunked).tolist() == [1, 0]
    integers = NodeIndex.open(tmp_path / "integers", kind="int64")
    integers.map(pa.array([-1, -(2**63)]), pa.array([5, 5]))
    assert integers.lookup(pa.array([5, None, 3], pa.int16())).tolist() == [1, -1, -1]
    # 2^64 - 1 and 2^63 have the bits of -1 and of the smallest integer
    beyond = pa.array([2**64 - 1, 2**63, 5], pa.uint64())
    assert integers.lookup(beyond).tolist() == [-1, -1, 1]
    with pytest.raises(TypeError, match="'node' must hold strings"):
        strings.lookup(pa.array([1]))
    with pytest.raises(TypeError, match="'node' must hold integers"):
        integers.lookup(pa.array(["1"]))


def test_map_takes_only_what_read_columns_returns(tmp_path: Path) -> None:
    index = NodeIndex.open(tmp_path, kind="int64")
    with pytest.raises(TypeError, match="map takes arrays of int64"):
        index.map(pa.array([1], pa.int32()), pa.array([1], pa.int32()))
    with pytest.raises(TypeError, match="ChunkedArray"):
        index.map(pa.chunked_array([[1]]), pa.chunked_array([[1]]))
    with pytest.raises(ValueError, match="equally long, got 1 and 2"):
        index.map(pa.array([1]), pa.array([1, 2]))


@pytest.mark.parametrize("n_before", [0, 2])
def test_passing_max_nodes_is_refused_and_adds_nothing(tmp_path: Path, n_before: int) -> None:
    index = NodeIndex.open(tmp_path, kind="string", max_nodes=3)
    add(index, *["a", "b"][:n_before])
    before = known(index)
    src, dst = pa.array(["a", "c", "e"]), pa.array(["b", "a", "a"])
    with pytest.raises(BadEdges, match="max_nodes = 3") as caught:
        index.map(src, dst, first_row=100)
    assert (caught.value.row, caught.value.value) == (102, "e")
    assert known(index) == before
    assert index.lookup(pa.array(["c", "e"])).tolist() == [-1, -1]
    index.map(src.slice(0, 2), dst.slice(0, 2))
    assert known(index) == ["a", "b", "c"]


def test_a_full_graph_still_maps_the_nodes_it_knows(tmp_path: Path) -> None:
    index = NodeIndex.open(tmp_path, kind="int64", max_nodes=2)
    index.map(pa.array([7]), pa.array([8]))
    u, v = index.map(pa.array([8, 8]), pa.array([7, 8]))
    assert (u.tolist(), v.tolist()) == ([1, 1], [0, 1])


def test_ids_rolled_back_over_several_chunks_are_gone(tmp_path: Path) -> None:
    n_rows = 40_000  # more than are mapped at once
    index = NodeIndex.open(tmp_path, kind="int64", max_nodes=n_rows)
    ids = pa.array(np.arange(n_rows + 1))
    with pytest.raises(BadEdges) as caught:
        index.map(ids, ids)
    assert caught.value.row == n_rows
    assert index.n_nodes == 0
    assert (index.lookup(ids) == -1).all()


# ------------------------------------------------------------------ the table, with given hashes


def hashed(*pairs: tuple[int, int]) -> tuple[Any, Any]:
    hashes, fingerprints = zip(*pairs, strict=True)
    shifted = [fingerprint << 32 for fingerprint in fingerprints]
    return np.array(hashes, dtype=np.uint64), np.array(shifted, dtype=np.uint64)


def test_equal_hashes_of_different_ids_are_reported_never_merged() -> None:
    table = HashTable()
    mapped = table.map(*hashed((5, 1), (6, 1), (5, 1), (5, 2), (7, 7)), max_nodes=100)
    assert mapped.status == COLLISION
    assert mapped.n_mapped == 3
    assert mapped.ids[:3].tolist() == [0, 1, 0]
    assert mapped.added.tolist() == [0, 1]
    assert table.n_entries == 2
    assert table.find(*hashed((5, 1), (5, 2), (7, 7))).tolist() == [0, -1, -1]


def test_a_collision_leaves_the_index_as_it_was(tmp_path: Path) -> None:
    index = NodeIndex.open(tmp_path, kind="string", hash_seed=3)
    add(index, "a")
    # A second id with the hash of "b" and another fingerprint, as no real string is known to have.
    hashes, fingerprints = index._hashes(pa.array(["b"]))
    assert index._table is not None
    index._table.map(hashes, fingerprints ^ np.uint64(1 << 40), max_nodes=100)
    with pytest.raises(NodeCollision, match="nothing was merged"):
        index.map(pa.array(["c"]), pa.array(["b"]))
    assert known(index) == ["a"]


def test_keys_that_share_their_home_slot_are_all_found_and_removed() -> None:
    table = HashTable()
    last_slot = (2**64 - 1) << 40 & (2**64 - 1)  # so that probing wraps around the end
    keys = [(last_slot + offset, offset) for offset in range(200)]
    keys += [(offset, offset) for offset in range(50)]  # whose homes the wrapped ones take
    assert table.map(*hashed(*keys), max_nodes=1000).status == DONE
    gone, left = keys[40:90] + keys[210:220], keys[:40] + keys[90:210] + keys[220:]
    table.remove(hashed(*gone)[0])
    assert table.n_entries == len(left)
    assert (table.find(*hashed(*gone)) == -1).all()
    assert table.find(*hashed(*left)).tolist() == [keys.index(key) for key in left]


@given(homes=st.lists(st.integers(0, 30), min_size=1, max_size=120), data=st.data())
def test_removing_keys_leaves_the_others_reachable(homes: list[int], data: st.DataObject) -> None:
    table = HashTable()
    keys = [(home << 54 | number, number) for number, home in enumerate(homes)]
    table.map(*hashed(*keys), max_nodes=1000)
    gone = data.draw(st.sets(st.sampled_from(range(len(keys)))))
    if gone:
        table.remove(hashed(*(keys[number] for number in gone))[0])
    expected = [-1 if number in gone else number for number in range(len(keys))]
    assert table.find(*hashed(*keys)).tolist() == expected


def test_the_table_grows_without_losing_keys() -> None:
    table = HashTable()
    rng = np.random.default_rng(1)
    hashes = rng.integers(0, 2**64, size=20_000, dtype=np.uint64)
    fingerprints = np.zeros_like(hashes)
    for start in range(0, len(hashes), 1000):
        stop = start + 1000
        table.map(hashes[start:stop], fingerprints[start:stop], max_nodes=10**6)
    assert np.array_equal(table.find(hashes, fingerprints), np.arange(len(hashes)))


def test_a_full_table_reports_the_endpoint_that_did_not_fit() -> None:
    mapped = HashTable().map(*hashed((1, 0), (2, 0), (1, 0), (3, 0)), max_nodes=2)
    assert (mapped.status, mapped.n_mapped) == (FULL, 3)


def test_hashes_of_strings_depend_on_their_bytes_and_the_seed_alone() -> None:
    data = np.frombuffer(b"xxhello worldhello worldyy", dtype=np.uint8)
    offsets = np.array([2, 13, 24], dtype=np.int64)
    results = []
    for seed in (1, 1, 2):
        hashes, fingerprints = np.zeros(2, dtype=np.uint64), np.zeros(2, dtype=np.uint64)
        with np.errstate(over="ignore"):
            hash_strings(frozen(offsets), frozen(data), np.uint64(seed), hashes, fingerprints, 0, 1)
        assert hashes[0] == hashes[1]
        assert fingerprints[0] == fingerprints[1]
        assert fingerprints[0] & 0xFFFFFFFF == 0
        results.append((int(hashes[0]), int(fingerprints[0])))
    assert results[0] == results[1]
    assert results[0][0] != results[2][0]
    assert results[0][1] != results[2][1]


def test_one_changed_bit_changes_half_of_the_hash() -> None:
    rng = np.random.default_rng(2)
    for length in (1, 3, 4, 7, 8, 9, 16, 17, 40):
        flips = 64
        original = rng.integers(0, 256, size=length, dtype=np.uint8)
        data = np.tile(original, flips + 1)
        bits = rng.integers(0, 8 * length, size=flips)
        for row, bit in enumerate(bits, start=1):
            data[row * length + bit // 8] ^= np.uint8(1 << (bit % 8))
        offsets = np.arange(flips + 2, dtype=np.int64) * length
        hashes, marks = np.zeros(flips + 1, dtype=np.uint64), np.zeros(flips + 1, dtype=np.uint64)
        with np.errstate(over="ignore"):
            hash_strings(frozen(offsets), frozen(data), np.uint64(9), hashes, marks, 0, 1)
        changed = np.bitwise_count(hashes[1:] ^ hashes[0]).mean()
        assert 26 < changed < 38, length
        assert 12 < np.bitwise_count(marks[1:] ^ marks[0]).mean() < 20, length


def test_hashes_of_integers_are_distinct() -> None:
    values = np.concatenate([np.arange(-5000, 5000), np.arange(5000) << 40])
    distinct = np.unique(values)
    hashes = np.zeros(len(distinct), dtype=np.uint64)
    with np.errstate(over="ignore"):
        hash_integers(frozen(distinct), np.uint64(7), hashes, 0, 1)
    assert len(np.unique(hashes)) == len(distinct)


# ------------------------------------------------------------------------------------- segments


def test_publishing_writes_one_segment_whole(tmp_path: Path) -> None:
    index = NodeIndex.open(tmp_path, kind="string")
    assert index.publish() == 0
    assert file_names(tmp_path) == []
    add(index, "a", "b", "c")
    assert index.publish() == 3
    assert index.publish() == 3
    assert file_names(tmp_path) == ["00000000000-00000000003.arrow"]
    add(index, "d")
    index.publish()
    assert file_names(tmp_path) == [
        "00000000000-00000000003.arrow",
        "00000000003-00000000004.arrow",
    ]


def test_many_small_publications_leave_few_segments(tmp_path: Path) -> None:
    index = NodeIndex.open(tmp_path, kind="int64")
    for number in range(100):
        index.map(pa.array([number]), pa.array([number]))
        index.publish()
        assert len(file_names(tmp_path)) <= 8  # powers of two, as in a binary counter
    assert known(NodeIndex.open(tmp_path, kind="int64")) == list(range(100))


def test_external_ids_are_memory_mapped(tmp_path: Path) -> None:
    index = NodeIndex.open(tmp_path, kind="string")
    add(index, *(f"node {number}" for number in range(2000)))
    index.publish()
    before = pa.total_allocated_bytes()
    ids = index.external_ids(10, 1990)
    assert pa.total_allocated_bytes() - before < 1000
    assert ids[0].as_py() == "node 10"


def test_a_reader_keeps_what_the_writer_merges_away(tmp_path: Path) -> None:
    index = NodeIndex.open(tmp_path, kind="string")
    add(index, "a")
    index.publish()
    reader = NodeIndex.open(tmp_path, kind="string", writable=False)
    held = reader.external_ids()
    add(index, "b")
    index.publish()
    assert file_names(tmp_path) == ["00000000000-00000000002.arrow"]
    assert held.to_pylist() == ["a"]
    assert reader.lookup(pa.array(["a", "b"])).tolist() == [0, -1]
    reader.refresh(2)
    assert known(reader) == ["a", "b"]
    assert reader.lookup(pa.array(["a", "b"])).tolist() == [0, 1]
    reader.refresh(1)
    assert reader.n_nodes == 2


def test_a_reader_writes_nothing_and_is_told_what_is_missing(tmp_path: Path) -> None:
    reader = NodeIndex.open(tmp_path / "none", kind="string", writable=False)
    assert not (tmp_path / "none").exists()
    assert reader.n_nodes == 0
    for write in (reader.publish, lambda: reader.truncate(0), lambda: add(reader, "a")):
        with pytest.raises(ValueError, match="opened for reading"):
            write()
    with pytest.raises(ValueError, match="5 node ids are asked for, only 0 are published"):
        reader.refresh(5)
    with pytest.raises(ValueError, match="refresh is for readers"):
        NodeIndex.open(tmp_path, kind="string").refresh(0)


def test_opening_with_fewer_ids_cuts_the_segments(tmp_path: Path) -> None:
    index = NodeIndex.open(tmp_path, kind="string")
    add(index, "a", "b", "c", "d")
    index.publish()
    add(index, "e")
    index.publish()
    assert known(NodeIndex.open(tmp_path, kind="string", n_nodes=2, writable=False)) == ["a", "b"]
    assert len(file_names(tmp_path)) == 2
    assert known(NodeIndex.open(tmp_path, kind="string", n_nodes=2)) == ["a", "b"]
    assert file_names(tmp_path) == ["00000000000-00000000002.arrow"]
    with pytest.raises(ValueError, match="3 node ids are asked for, only 2"):
        NodeIndex.open(tmp_path, kind="string", n_nodes=3)


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("n_calls", range(6))
@pytest.mark.parametrize("operation", ["merge", "cut"])
def test_killed_between_any_two_file_operations_the_ids_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_calls: int, operation: str
) -> None:
    index = NodeIndex.open(tmp_path, kind="string")
    for names in (["a", "b", "c", "d"], ["e", "f"], ["g"]):
        add(index, *names)
        index.publish()
    add(index, "h")
    calls = iter(range(100))

    def dying(real: Any) -> Any:
        def call(*arguments: Any, **keywords: Any) -> Any:
            if next(calls) == n_calls:
                raise Killed
            return real(*arguments, **keywords)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", dying(Path.replace))
        patch.setattr(Path, "unlink", dying(Path.unlink))
        try:
            if operation == "merge":
                index.publish()
            else:
                index.truncate(3)
        except Killed:
            pass
    n_checkpoint = 7 if operation == "merge" else 3
    reader = NodeIndex.open(tmp_path, kind="string", n_nodes=n_checkpoint, writable=False)
    assert known(reader) == list("abcdefg")[:n_checkpoint]
    again = NodeIndex.open(tmp_path, kind="string", n_nodes=n_checkpoint)
    assert known(again) == list("abcdefg")[:n_checkpoint]
    add(again, "x", "y")
    again.publish()
    assert known(NodeIndex.open(tmp_path, kind="string")) == [*"abcdefg"[:n_checkpoint], "x", "y"]
    assert not [name for name in file_names(tmp_path) if name.startswith(".")]


def test_half_written_files_are_cleared_away(tmp_path: Path) -> None:
    (tmp_path / ".tmp-123-00000000000-00000000005.arrow").write_bytes(b"half")
    index = NodeIndex.open(tmp_path, kind="string")
    assert index.n_nodes == 0
    assert file_names(tmp_path) == []


def test_superseded_segments_are_cleared_away(tmp_path: Path) -> None:
    index = NodeIndex.open(tmp_path, kind="string")
    add(index, "a")
    index.publish()
    kept = (tmp_path / "00000000000-00000000001.arrow").read_bytes()
    add(index, "b")
    index.publish()
    (tmp_path / "00000000000-00000000001.arrow").write_bytes(kept)
    assert known(NodeIndex.open(tmp_path, kind="string")) == ["a", "b"]
    assert file_names(tmp_path) == ["00000000000-00000000002.arrow"]


def published(directory: Path) -> Path:
    index = NodeIndex.open(directory, kind="string")
    add(index, *(f"node {number}" for number in range(100)))
    index.publish()
    return segment_path(directory, 0, 100)


def test_a_damaged_byte_of_a_segment_is_noticed(tmp_path: Path) -> None:
    path = published(tmp_path)
    content = bytearray(path.read_bytes())
    content[content.index(b"node 50")] = ord("m")
    path.write_bytes(content)
    with pytest.raises(CorruptSegment, match=r"00000000100\.arrow is damaged: its checksum"):
        NodeIndex.open(tmp_path, kind="string")
    reader = NodeIndex.open(tmp_path, kind="string", writable=False)
    with pytest.raises(CorruptSegment, match="checksum"):
        reader.lookup(pa.array(["a"]))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9, 0.999])
def test_a_truncated_segment_is_named(tmp_path: Path, share: float) -> None:
    path = published(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    for writable in (False, True):
        with pytest.raises(CorruptSegment, match=path.name):
            NodeIndex.open(tmp_path, kind="string", writable=writable)


def test_every_damage_of_a_segment_is_noticed_or_harmless(tmp_path: Path) -> None:
    path = published(tmp_path)
    content = path.read_bytes()
    rng = np.random.default_rng(3)
    expected = [f"node {number}" for number in range(100)]
    messages = []
    for position in rng.integers(0, len(content), size=150):
        damaged = bytearray(content)
        damaged[position] ^= 1 << rng.integers(0, 8)
        path.write_bytes(damaged)
        try:
            assert known(NodeIndex.open(tmp_path, kind="string")) == expected
        except CorruptSegment as error:
            messages.append(str(error))
    assert messages
    assert all(path.name in message for message in messages)


def test_a_missing_segment_is_noticed(tmp_path: Path) -> None:
    index = NodeIndex.open(tmp_path, kind="string")
    for names in (["a", "b", "c", "d"], ["e", "f"], ["g"]):
        add(index, *names)
        index.publish()
    list_segments(tmp_path)[1].path.unlink()
    with pytest.raises(CorruptSegment, match="no segment holds dense id 4"):
        NodeIndex.open(tmp_path, kind="string")


def test_a_segment_of_another_kind_is_noticed(tmp_path: Path) -> None:
    published(tmp_path)
    with pytest.raises(CorruptSegment, match="must hold one column of int64"):
        NodeIndex.open(tmp_path, kind="int64")


def test_an_id_that_stands_twice_is_noticed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    for directory, names in ((tmp_path / "nodes", ["a", "b", "c"]), (other, ["x", "a"])):
        index = NodeIndex.open(directory, kind="string")
        add(index, *names)
        index.publish()
    segment_path(other, 0, 2).rename(segment_path(tmp_path / "nodes", 3, 5))
    with pytest.raises(CorruptSegment, match="an id stands twice"):
        NodeIndex.open(tmp_path / "nodes", kind="string")


def test_open_segments_hold_no_descriptors(tmp_path: Path) -> None:
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("needs /proc")
    published(tmp_path)
    before = len(list(descriptors.iterdir()))
    indexes = [NodeIndex.open(tmp_path, kind="string", writable=False) for _ in range(20)]
    assert len(list(descriptors.iterdir())) < before + 5
    assert all(index.n_nodes == 100 for index in indexes)


# ---------------------------------------------------------------------------------- dense nodes


def test_dense_ids_stand_for_themselves(tmp_path: Path) -> None:
    nodes = open_nodes(tmp_path / "none", kind="dense", max_nodes=10)
    u, v = nodes.map(pa.array([3, 0]), pa.array([5, 1]))
    assert (u.tolist(), v.tolist()) == ([3, 0], [5, 1])
    assert u.dtype == np.int32
    assert nodes.publish() == nodes.n_nodes == nodes.n_published == 6
    assert known(nodes) == list(range(6))
    assert nodes.external_ids(2, 4).to_pylist() == [2, 3]
    asked = pa.array([5, 6, -1, None, 2**40])
    assert nodes.lookup(asked).tolist() == [5, -1, -1, -1, -1]
    nodes.truncate(4)
    assert nodes.lookup(asked).tolist() == [-1] * 5
    nodes.refresh(9)
    assert nodes.n_nodes == 9
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("bad", [-1, 10, 2**40])
def test_dense_ids_outside_the_range_are_refused(bad: int) -> None:
    nodes = DenseNodes(n_nodes=2, max_nodes=10)
    with pytest.raises(BadEdges, match=r"\[0, 9\]") as caught:
        nodes.map(pa.array([9, 1]), pa.array([0, bad]), first_row=4)
    assert (caught.value.row, caught.value.value) == (5, str(bad))
    assert nodes.n_nodes == 2


@pytest.mark.parametrize("kind", ["string", "int64", "dense"])
@pytest.mark.parametrize("is_owned", [False, True])
@pytest.mark.parametrize("has_weights", [False, True])
def test_blocks_become_edges_without_self_loops(
    tmp_path: Path, kind: NodeKind, is_owned: bool, has_weights: bool
) -> None:
    rng = np.random.default_rng(8)
    id_type = pa.string() if kind == "string" else pa.int32()
    src, dst = (pa.array(rng.integers(0, 40, 500)).cast(id_type) for _ in range(2))
    table = pa.table({"src": src, "dst": dst})
    weight = rng.uniform(1, 2, 500).astype(np.float32) if has_weights else np.ones(500, np.float32)
    if has_weights:
        table = table.append_column("weight", pa.array(weight.copy()))
    before = table.to_pydict()
    nodes = open_nodes(tmp_path, kind=kind, max_nodes=40)
    block = read_columns(table, node_kind=kind, max_nodes=40, is_owned=is_owned)
    edges = nodes.map_block(block)
    numbers = [nodes.lookup(pa.array(before[name], id_type)) for name in ("src", "dst")]
    kept = without_self_loops(list(zip(*numbers, weight, strict=True)))
    assert list(zip(edges.u, edges.v, edges.weight, strict=True)) == kept
    assert (edges.n_rows, edges.left_out.self_loops) == (500, 500 - len(kept))
    assert nodes.n_nodes == 40
    if not is_owned:
        assert table.to_pydict() == before


def test_a_block_of_known_nodes_adds_those_of_the_other_end_alone(tmp_path: Path) -> None:
    nodes = open_nodes(tmp_path, kind="string", max_nodes=5)
    u = nodes.add(pa.array(["a", "b", "a", "c"]))
    block = RawBlock(
        src=pa.nulls(4),
        dst=pa.array(["x", None, "c", "x"]),
        weight=np.ones(4, np.float32),
        first_row=10,
        n_empty=1,
        u=u,
    )
    edges = nodes.map_block(block)
    assert sorted(zip(edges.u.tolist(), edges.v.tolist(), strict=True)) == [(0, 2), (0, 3), (2, 3)]
    assert (edges.left_out.empty_cells, edges.left_out.self_loops) == (1, 0)
    assert nodes.external_ids().to_pylist() == ["a", "b", "c", "x"]
    full = replace(block, dst=pa.array(["a", None, "y", "z"]))
    with pytest.raises(BadEdges, match="max_nodes = 5 nodes, the next one, got z in row 13"):
        nodes.map_block(full)
    assert nodes.n_nodes == 4


def test_dense_blocks_that_were_read_for_more_nodes_are_refused(tmp_path: Path) -> None:
    table = pa.table({"src": [1, 12], "dst": [3, 4]})
    block = read_columns(table, node_kind="dense", max_nodes=100, first_row=5)
    nodes = DenseNodes(max_nodes=10)
    with pytest.raises(BadEdges, match=r"\[0, 9\], got 12 in row 6"):
        nodes.map_block(block)
    assert nodes.n_nodes == 0


@pytest.mark.parametrize("kind", ["string", "int64", "dense"])
def test_every_kind_opens_and_takes_an_empty_block(tmp_path: Path, kind: NodeKind) -> None:
    nodes = open_nodes(tmp_path, kind=kind, n_nodes=0)
    empty = pa.array([], pa.string() if kind == "string" else pa.int64())
    u, v = nodes.map(empty, empty)
    assert len(u) == len(v) == nodes.n_nodes == nodes.publish() == 0
    assert nodes.lookup(empty).tolist() == []
    assert len(nodes.external_ids()) == 0


def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="node_kind must be one of"):
        open_nodes(tmp_path, kind="uuid")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="kind must be string or int64, got 'dense'"):
        NodeIndex.open(tmp_path, kind="dense")
    with pytest.raises(ValueError, match="max_nodes must lie in"):
        open_nodes(tmp_path, kind="string", max_nodes=2**31)
    for nodes in (DenseNodes(n_nodes=2), NodeIndex.open(tmp_path, kind="string")):
        with pytest.raises(ValueError, match="got 5"):
            nodes.truncate(5)
        with pytest.raises(ValueError, match="start <= stop"):
            nodes.external_ids(3, 1)


@pytest.mark.parametrize("kind", ["string", "int64"])
def test_no_byte_of_an_erased_id_is_left(tmp_path: Path, kind: NodeKind) -> None:
    ids = [
        f"node-{number:03d}" if kind == "string" else 7_000_000_000 + number for number in range(40)
    ]
    index = NodeIndex.open(tmp_path, kind=kind)
    for first in range(0, 40, 10):
        some = pa.array(ids[first : first + 10])
        index.map(some, some)
        index.publish()
    index.erase(np.array([3, 25], np.int32))
    gone = [ids[3], ids[25]]
    forms = [
        each.encode() if isinstance(each, str) else each.to_bytes(8, "little") for each in gone
    ]
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert not any(form in stored for form in forms)
    again = NodeIndex.open(tmp_path, kind=kind)
    assert again.lookup(pa.array(gone)).tolist() == [-1, -1]
    assert again.add(pa.array(gone)).tolist() == [40, 41]
    assert known(again)[3] is None


def test_only_published_nodes_can_be_erased(tmp_path: Path) -> None:
    index = NodeIndex.open(tmp_path, kind="string")
    add(index, "a")
    with pytest.raises(ValueError, match="must be published"):
        index.erase(np.array([0], np.int32))


def test_an_erased_number_makes_self_loops_of_its_edges(tmp_path: Path) -> None:
    nodes = open_nodes(tmp_path, kind="dense", n_nodes=4)
    nodes.erase(np.array([2], np.int32))
    again = open_nodes(tmp_path, kind="dense", n_nodes=4)
    assert known(again) == [0, 1, None, 3]
    assert again.lookup(pa.array([1, 2])).tolist() == [1, -1]
    u, v = again.map(pa.array([0, 2, 1, 2]), pa.array([1, 3, 2, 2]))
    assert (u == v).tolist() == [False, True, True, True]
    with pytest.raises(ValueError, match="must be known"):
        again.erase(np.array([9], np.int32))
    with pytest.raises(ValueError, match="a directory keeps them"):
        DenseNodes(n_nodes=3).erase(np.array([1], np.int32))


@pytest.mark.parametrize("kind", ["string", "int64"])
def test_few_ids_are_found_without_a_table_as_with_one(tmp_path: Path, kind: NodeKind) -> None:
    names = [f"n{number}" if kind == "string" else 7 * number for number in range(300)]
    ids = pa.array(names, ARROW[kind])
    writer = open_nodes(tmp_path, kind=kind)
    for part in (ids[:100], ids[100:]):
        writer.map(part, part)
        writer.publish()
    assert isinstance(writer, NodeIndex)
    writer.erase(np.array([5, 150], np.int32))
    reader = open_nodes(tmp_path, kind=kind, writable=False)
    unknown = "x" if kind == "string" else -1
    few = pa.array([names[250], None, names[3], unknown, names[3], names[5]], ARROW[kind])
    for asked in (few, pa.chunked_array([few[:2], few[2:]]), few[:0], few[4:]):
        assert not reader.has_table
        assert reader.lookup(asked).tolist() == writer.lookup(asked).tolist()
    assert reader.lookup(few).tolist() == [250, -1, 3, -1, 3, -1]
    assert reader.has_table  # five looks in a row are one too many without


def test_many_ids_are_found_by_a_table_at_once(tmp_path: Path) -> None:
    ids = pa.array(range(2_000), pa.int64())
    writer = open_nodes(tmp_path, kind="int64")
    writer.map(ids, ids)
    writer.publish()
    reader = open_nodes(tmp_path, kind="int64", writable=False)
    assert reader.lookup(ids).tolist() == list(range(2_000))
    assert reader.has_table
