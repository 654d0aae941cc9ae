"""Features: what the gate refuses, files read by blocks, versions published whole and aligned."""

import errno
import re
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from peewit.solvers.features import FeatureRows
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.features.checked_tables import BadFeatures, FeatureBlock, read_features
from peewit.streaming.features.encoding import Encoding
from peewit.streaming.features.feature_files import (
    ParquetFeatures,
    read_blocks,
    set_owners,
    set_values,
    write_set,
)
from peewit.streaming.features.store import FeaturesNotFound, FeatureStore, NewRows, repeated_row

MAX_NODES = 1_000_000


def dense_table(nodes: Any, values: Any) -> pa.Table:
    values = np.asarray(values, np.float32)
    rows = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
    return pa.table({"node": pa.array(nodes), "features": rows})


def sparse_table(nodes: Any, rows: Any) -> pa.Table:
    rows = sp.csr_array(rows)
    starts = pa.array(rows.indptr.astype(np.int32))
    return pa.table(
        {
            "node": pa.array(nodes),
            "indices": pa.ListArray.from_arrays(starts, pa.array(rows.indices, pa.int32())),
            "values": pa.ListArray.from_arrays(starts, pa.array(rows.data, pa.float32())),
        }
    )


def checked(table: pa.Table, node_kind: NodeKind = "int64", **options: Any) -> FeatureBlock:
    return read_features(table, node_kind=node_kind, max_nodes=MAX_NODES, **options)


def random_sparse(seed: int, n_rows: int, n_columns: int) -> Any:
    rng = np.random.default_rng(seed)
    rows = sp.random_array((n_rows, n_columns), density=0.2, rng=rng, dtype=np.float32)
    return sp.csr_array(rows)


# The gate


def test_rows_of_any_kind_of_list_and_number_come_out_as_32_bit_floats() -> None:
    expected = np.arange(6, dtype=np.float32).reshape(3, 2)
    for kind in (
        pa.list_(pa.float64(), 2),
        pa.list_(pa.float16()),
        pa.large_list(pa.int8()),
        pa.list_(pa.uint64()),
    ):
        listed = [
            [np.float16(x) if kind == pa.list_(pa.float16()) else int(x) for x in row]
            for row in expected
        ]
        table = pa.table({"node": [5, 6, 7], "features": pa.array(listed, kind)})
        block = checked(table)
        assert block.values.dtype == np.float32
        np.testing.assert_array_equal(block.values, expected)


def test_a_slice_and_a_table_of_chunks_are_read_as_they_stand() -> None:
    values = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    table = dense_table(range(9), values)
    np.testing.assert_array_equal(checked(table.slice(4, 3)).values, values[4:7])
    chunks = pa.concat_tables([table.slice(0, 4), table.slice(4)])
    np.testing.assert_array_equal(checked(chunks).values, values)


def test_sparse_rows_come_out_with_sorted_indices() -> None:
    table = pa.table(
        {"node": [1, 2, 3], "indices": [[4, 0], [], [7]], "values": [[1.5, 2.5], [], [3.0]]}
    )
    block = checked(table)
    expected = np.zeros((3, 8))
    expected[0, 4], expected[0, 0], expected[2, 7] = 1.5, 2.5, 3.0
    np.testing.assert_array_equal(block.values.toarray(), expected)
    assert block.values.indices.tolist() == [0, 4, 7]


def test_unsorted_indices_are_sorted_where_the_memory_is_not_to_be_written_to() -> None:
    indices = pa.array([[4, 0]], pa.list_(pa.int32()))
    values = pa.array([[1.5, 2.5]], pa.list_(pa.float32()))
    block = checked(pa.table({"node": [1], "indices": indices, "values": values}))
    assert block.values.indices.tolist() == [0, 4]
    assert block.values.data.tolist() == [2.5, 1.5]
    assert values.to_pylist() == [[1.5, 2.5]]


BAD = [
    ({"node": [1, 2], "features": [[1.0, 2.0], [1.0, np.nan]]}, "finite numbers, got nan in row 1"),
    ({"node": [1], "features": [[np.inf]]}, "finite numbers, got inf in row 0"),
    ({"node": [1], "features": [[1e300]]}, "finite numbers as 32-bit floats, got 1e+300 in row 0"),
    (
        {"node": [1, 2], "features": [[1.0, 2.0], [1.0]]},
        "'features' must hold 2 numbers in every row, as the first one does, got 1 in row 1",
    ),
    (
        {"node": [1], "features": pa.array([[]], pa.list_(pa.float32()))},
        "at least one number in every row, got 0 in row 0",
    ),
    ({"node": [1, 2], "features": [[1.0], None]}, "'features' must not be null, got null in row 1"),
    ({"node": [1, 2], "features": [[1.0], [None]]}, "must not hold null, got null in row 1"),
    ({"node": [1], "features": ["abc"]}, "'features' must hold lists of numbers, got type string"),
    ({"node": [1], "features": [["a"]]}, "lists of numbers, got type list<item: string>"),
    ({"node": [1], "features": [[True]]}, "lists of numbers, got type list<item: bool>"),
    ({"node": [1], "features": [3.5]}, "lists of numbers, got type double"),
    ({"node": ["a"], "features": [[1.0]]}, "'node' must hold integers in a graph of int64 ids"),
    (
        {"node": [1, None], "features": [[1.0], [1.0]]},
        "'node' must name a node in every row, and 1 of the 2 rows looked at name none",
    ),
    ({"features": [[1.0]]}, "column 'node' is missing"),
    ({"node": [1]}, "must hold column features, or indices and values; the columns are node"),
    ({"node": [1], "indices": [[1]]}, "must hold column features, or indices and values"),
    (
        {"node": [1], "features": [[1.0]], "indices": [[1]], "values": [[1.0]]},
        "must hold features, or indices and values, not both",
    ),
    (
        {"node": [1, 2], "indices": [[0], [1, 2]], "values": [[1.0], [1.0]]},
        "must be equally long in every row, got 2 indices and 1 values in row 1",
    ),
    (
        {"node": [1, 2], "indices": [[0], [1, -2]], "values": [[1.0], [1.0, 2.0]]},
        "'indices' must lie in [0, 2147483646], got -2 in row 1",
    ),
    (
        {"node": [1], "indices": [[2**31 - 1]], "values": [[1.0]]},
        "'indices' must lie in [0, 2147483646], got 2147483647 in row 0",
    ),
    (
        {
            "node": [1, 2, 3],
            "indices": [[0], [], [5, 3, 5]],
            "values": [[1.0], [], [1.0, 2.0, 3.0]],
        },
        "'indices' must hold an index once in a row, got 5 in row 2",
    ),
    (
        {"node": [1, 2, 3], "indices": [[0], [], [5]], "values": [[1.0], [], [np.nan]]},
        "'values' must hold finite numbers, got nan in row 2",
    ),
    ({"node": [1], "indices": [[0.5]], "values": [[1.0]]}, "'indices' must hold lists of integers"),
]


@pytest.mark.parametrize(("columns", "message"), BAD)
def test_what_breaks_a_rule_is_named_with_its_row(columns: Any, message: str) -> None:
    with pytest.raises(BadFeatures, match=re.escape(message)):
        checked(pa.table(columns))


def test_rows_count_from_the_first_of_the_set() -> None:
    table = pa.table({"node": [1, 2], "features": [[1.0], [np.nan]]})
    with pytest.raises(BadFeatures, match="row 101") as raised:
        checked(table, first_row=100)
    assert (raised.value.row, raised.value.value) == (101, "nan")


def test_dense_ids_beyond_max_nodes_are_refused() -> None:
    table = dense_table([0, MAX_NODES], np.ones((2, 1)))
    with pytest.raises(
        BadFeatures, match=r"'node' must lie in \[0, 999999\], got 1000000 in row 1"
    ):
        checked(table, "dense")
    assert checked(dense_table([0, 5], np.ones((2, 1))), "dense").nodes.type == pa.int32()


# Files


@pytest.mark.slow
def test_files_come_out_in_order_whatever_their_row_groups_and_the_threads(tmp_path: Path) -> None:
    values = np.random.default_rng(1).normal(size=(1_000, 7)).astype(np.float32)
    table = dense_table(range(1_000), values)
    for number, (first, size) in enumerate([(0, 10), (300, 700), (650, 1)]):
        stop = [300, 650, 1_000][number]
        pq.write_table(
            table.slice(first, stop - first), tmp_path / f"{number}", row_group_size=size
        )
    paths = [tmp_path / str(number) for number in range(3)]
    for n_threads, block_bytes in [(1, 1 << 20), (3, 500), (2, 1)]:
        blocks = list(
            read_blocks(
                paths,
                node_kind="int64",
                max_nodes=MAX_NODES,
                n_threads=n_threads,
                block_bytes=block_bytes,
            )
        )
        np.testing.assert_array_equal(np.concatenate([each.values for each in blocks]), values)
        assert [each.first_row for each in blocks] == np.cumsum(
            [0, *(each.n_rows for each in blocks[:-1])]
        ).tolist()
        nodes = [node for each in blocks for node in each.nodes.to_pylist()]
        assert nodes == list(range(1_000))


def test_a_truncated_file_is_refused_and_a_missing_one_is_no_fault_of_its_content(
    tmp_path: Path,
) -> None:
    path = tmp_path / "cut.parquet"
    pq.write_table(dense_table(range(10_000), np.ones((10_000, 5))), path)
    content = path.read_bytes()
    for n_bytes in (0, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:n_bytes])
        with pytest.raises(BadFeatures, match=r"cut\.parquet is not a readable Parquet file"):
            list(read_blocks([path], node_kind="int64", max_nodes=MAX_NODES))
    path.unlink()
    with pytest.raises(FileNotFoundError):
        list(read_blocks([path], node_kind="int64", max_nodes=MAX_NODES))


def test_a_set_is_written_and_read_back(tmp_path: Path) -> None:
    values = np.random.default_rng(2).normal(size=(500, 3)).astype(np.float32)
    rows = random_sparse(2, 500, 40)
    names = [f"n{row}" for row in range(500)]
    for name, table, expected in [
        ("dense", dense_table(names, values), values),
        ("sparse", sparse_table(names, rows), rows.toarray()),
    ]:
        given = [checked(table.slice(first, 200), "string") for first in (0, 200, 400)]
        shape = write_set(tmp_path / name, given)
        assert (shape.n_rows, shape.is_sparse) == (500, name == "sparse")
        read = list(set_values(tmp_path / name))
        found = np.vstack([padded(each, shape.n_columns) for each in read])
        np.testing.assert_array_equal(found, expected[:, : shape.n_columns])
        owners = list(set_owners(tmp_path / name))
        assert [node for ids, _ in owners for node in ids.to_pylist()] == names
        if shape.is_sparse:
            lengths = np.concatenate([each for _, each in owners if each is not None])
            np.testing.assert_array_equal(lengths, np.diff(rows.indptr))


def padded(values: Any, n_columns: int) -> Any:
    if not sp.issparse(values):
        return values
    values = values.copy()
    values.resize((values.shape[0], n_columns))
    return values.toarray()


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ([], "must hold at least one row, got none"),
        ([{"node": [1], "indices": [[]], "values": [[]]}], "at least one entry, got none"),
        (
            [
                {"node": [1], "features": [[1.0]]},
                {"node": [2], "indices": [[0]], "values": [[1.0]]},
            ],
            "it began dense and goes on sparse",
        ),
        (
            [{"node": [1], "features": [[1.0]]}, {"node": [2], "features": [[1.0, 2.0]]}],
            "must hold 1 numbers in every row, as the first one does, got 2",
        ),
    ],
)
def test_a_set_that_is_no_set_leaves_no_file(
    tmp_path: Path, tables: list[Any], message: str
) -> None:
    kinds = {"indices": pa.list_(pa.int32()), "values": pa.list_(pa.float32())}
    blocks = [
        checked(pa.table({name: pa.array(each, kinds.get(name)) for name, each in one.items()}))
        for one in tables
    ]
    with pytest.raises(BadFeatures, match=re.escape(message)):
        write_set(tmp_path / "set", blocks)
    assert list(tmp_path.iterdir()) == []


def test_parquet_features_give_blocks_as_feature_rows_do(tmp_path: Path) -> None:
    values = np.random.default_rng(3).normal(size=(400, 5)).astype(np.float32)
    rows = random_sparse(3, 400, 30)
    pq.write_table(dense_table(range(400), values), tmp_path / "dense", row_group_size=64)
    pq.write_table(sparse_table(range(400), rows), tmp_path / "sparse", row_group_size=64)
    for name, expected in [("dense", values), ("sparse", rows)]:
        given = ParquetFeatures.open(tmp_path / name, n_threads=2)
        kept = FeatureRows.of(expected, 400)
        assert (given.n_rows, given.n_columns, given.is_sparse) == (
            kept.n_rows,
            kept.n_columns,
            kept.is_sparse,
        )
        for _ in range(2):
            for place, block in given.blocks(1_000):
                np.testing.assert_array_equal(
                    padded(block, kept.n_columns), padded(kept.values[place], kept.n_columns)
                )
        assert sum(block.shape[0] for _, block in given.blocks()) == 400
    with pytest.raises(BadFeatures, match=r"'indices' must lie in \[0, 2\]"):
        list(ParquetFeatures.open(tmp_path / "sparse", n_columns=3).blocks())


# The store


def dense_rows(nodes: Any, values: Any, size: int = 3) -> NewRows:
    values = np.asarray(values, np.float32)
    blocks = [values[first : first + size] for first in range(0, len(values), size)]
    return NewRows(nodes=np.asarray(nodes, np.int64), n_columns=values.shape[1], blocks=blocks)


def sparse_rows(nodes: Any, rows: Any, size: int = 3) -> NewRows:
    rows = sp.csr_array(rows)
    return NewRows(
        nodes=np.asarray(nodes, np.int64),
        n_columns=rows.shape[1],
        blocks=[rows[first : first + size] for first in range(0, rows.shape[0], size)],
        lengths=np.diff(rows.indptr).astype(np.int64),
    )


@pytest.fixture
def store(tmp_path: Path) -> FeatureStore:
    return FeatureStore(tmp_path / "features")


def test_rows_are_aligned_with_the_nodes(store: FeatureStore) -> None:
    nodes = [7, 2, 9, 0, 4]
    values = np.arange(10).reshape(5, 2)
    meta = store.publish(1, dense_rows(nodes, values), created_at=5.0)
    assert (meta.n_rows, meta.n_columns, meta.is_sparse, meta.n_values) == (5, 2, False, 10)
    rows = store.load(1, 10)
    assert rows.nodes is not None
    assert rows.nodes.tolist() == [0, 2, 4, 7, 9]
    np.testing.assert_array_equal(rows.values, values[[3, 1, 4, 0, 2]])
    assert FeatureRows.of(rows, 10).n_rows == 5
    assert isinstance(rows.values, np.memmap)


def test_sparse_rows_are_aligned_too_and_not_copied(store: FeatureStore) -> None:
    given = random_sparse(4, 5, 12)
    store.publish(1, sparse_rows([7, 2, 9, 0, 4], given), created_at=5.0)
    rows = store.load(1, 10)
    np.testing.assert_array_equal(rows.values.toarray(), given.toarray()[[3, 1, 4, 0, 2]])
    assert rows.values.shape == (5, 12)
    base = rows.values.data
    while not isinstance(base, np.memmap):
        base = base.base
    assert FeatureRows.of(rows, 10).n_rows == 5


def test_rows_of_newer_nodes_are_left_out(store: FeatureStore) -> None:
    values = np.arange(5, dtype=np.float32)[:, np.newaxis]
    store.publish(1, dense_rows(range(5), values), created_at=5.0)
    store.publish(2, sparse_rows(range(5), sp.csr_array(values + 1)), created_at=5.0)
    for version in (1, 2):
        rows = store.load(version, 3)
        assert rows.nodes is None
        assert rows.values.shape == (3, 1)
        assert store.load(version, 0).n_rows == 0
        assert store.load(version, 6).nodes is not None


@pytest.mark.parametrize("size", [1, 2, 100])
def test_added_rows_overwrite_and_join_those_there_are(store: FeatureStore, size: int) -> None:
    rng = np.random.default_rng(size)
    expected = {}
    expected_sparse = {}
    for version in (1, 2, 3):
        nodes = rng.permutation(30)[:17]
        values = rng.normal(size=(17, 4)).astype(np.float32)
        rows = random_sparse(version, 17, 20 + version)
        if version == 1:
            expected, expected_sparse = {}, {}
        expected |= dict(zip(nodes.tolist(), values, strict=True))
        expected_sparse |= {
            node: np.pad(row, (0, 23 - row.size))
            for node, row in zip(nodes.tolist(), rows.toarray(), strict=True)
        }
        onto = None if version == 1 else version - 1
        store.publish(version, dense_rows(nodes, values, size), onto=onto, created_at=1.0)
        sparse_onto = None if version == 1 else version + 9
        store.publish(
            version + 10, sparse_rows(nodes, rows, size), onto=sparse_onto, created_at=1.0
        )
    for version, wanted in [(3, expected), (13, expected_sparse)]:
        loaded = store.load(version, 30)
        assert loaded.nodes is None or loaded.nodes.tolist() == sorted(wanted)
        found = loaded.values.toarray() if loaded.is_sparse else loaded.values
        np.testing.assert_array_equal(found, [wanted[node] for node in sorted(wanted)])


def test_rows_of_another_kind_or_length_cannot_be_added(store: FeatureStore) -> None:
    store.publish(1, dense_rows([0], [[1.0, 2.0]]), created_at=1.0)
    with pytest.raises(
        BadFeatures, match="must hold 2 numbers in every row as the set it is added"
    ):
        store.publish(2, dense_rows([0], [[1.0]]), onto=1, created_at=1.0)
    with pytest.raises(BadFeatures, match="must be dense as those there are, got sparse ones"):
        store.publish(2, sparse_rows([0], [[1.0]]), onto=1, created_at=1.0)
    assert store.versions() == [1]


def test_a_version_is_published_whole_or_not_at_all(store: FeatureStore, tmp_path: Path) -> None:
    store.publish(1, dense_rows([0], [[1.0]]), created_at=1.0)

    def torn() -> Iterator[Any]:
        yield np.ones((1, 1), np.float32)
        raise OSError(errno.ENOSPC, "No space left on device")

    rows = NewRows(nodes=np.arange(2), n_columns=1, blocks=torn())
    with pytest.raises(OSError, match="No space left"):
        store.publish(2, rows, created_at=1.0)

    def lost() -> None:
        raise RuntimeError("lost the lease")

    with pytest.raises(RuntimeError, match="lost the lease"):
        store.publish(1, dense_rows([0], [[2.0]]), created_at=1.0, guard=lost)
    assert [entry.name for entry in (tmp_path / "features").iterdir()] == ["00000001"]
    assert store.load(1, 1).values.tolist() == [[1.0]]


def test_a_version_that_nobody_was_told_of_is_replaced(store: FeatureStore) -> None:
    store.publish(1, dense_rows([0], [[1.0]]), created_at=1.0)
    store.publish(1, dense_rows([0], [[2.0]]), created_at=2.0)
    assert store.load(1, 1).values.tolist() == [[2.0]]


def test_versions_that_gave_way_go_after_a_grace(store: FeatureStore) -> None:
    for version in (1, 2, 3, 4):
        store.publish(version, dense_rows([0], [[float(version)]]), created_at=1.0)
    held = store.load(1, 1)
    newest = (store._directory / "00000004").stat().st_mtime
    assert store.retire(3, grace_seconds=600.0, now=newest) == []
    assert store.retire(3, grace_seconds=600.0, now=newest + 601.0) == [1, 2]
    assert store.versions() == [3, 4]
    assert held.values.tolist() == [[1.0]]
    with pytest.raises(FeaturesNotFound, match="no features_version 1, the newest is 4"):
        store.load(1, 1)


@pytest.mark.slow
def test_neither_reading_nor_publishing_needs_room_for_all_rows(
    store: FeatureStore, tmp_path: Path
) -> None:
    n_rows, n_columns, n_bytes = 40_000, 500, 80_000_000
    path = tmp_path / "rows.parquet"
    values = np.random.default_rng(5).random((n_rows, n_columns), np.float32)
    nodes = np.random.default_rng(6).permutation(n_rows)
    pq.write_table(dense_table(nodes, values), path, row_group_size=n_rows)
    values = np.zeros(0, np.float32)
    pa.default_memory_pool().release_unused()
    before = pa.total_allocated_bytes()
    arrow_peak = 0

    def watched(block_bytes: int) -> Iterator[Any]:
        nonlocal arrow_peak
        blocks = read_blocks(
            [path], node_kind="dense", max_nodes=n_rows, block_bytes=block_bytes, n_threads=2
        )
        for block in blocks:
            arrow_peak = max(arrow_peak, pa.total_allocated_bytes() - before)
            yield block.values

    tracemalloc.start()
    for version, onto in [(1, None), (2, 1)]:
        rows = NewRows(nodes=nodes, n_columns=n_columns, blocks=watched(1 << 20))
        store.publish(version, rows, onto=onto, created_at=1.0)
    numpy_peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert arrow_peak + numpy_peak < n_bytes / 4
    np.testing.assert_array_equal(
        store.load(2, n_rows).values[nodes[-1]], pq.read_table(path)["features"][-1].as_py()
    )


def test_a_repeated_node_is_found_at_its_second_row() -> None:
    assert repeated_row(np.array([1, 5, 9])) is None
    assert repeated_row(np.array([9, 5, 1])) is None
    assert repeated_row(np.array([3, 9, 5, 9, 3])) == 3


@pytest.mark.parametrize("is_sparse", [False, True])
def test_rows_of_some_nodes_can_be_left_out(tmp_path: Path, is_sparse: bool) -> None:
    store = FeatureStore(tmp_path)
    values: Any = random_sparse(1, 6, 5)
    owners = np.array([9, 2, 7, 0, 4, 5])
    lengths = np.diff(values.indptr).astype(np.int64) if is_sparse else None
    blocks = [values] if is_sparse else [values.toarray()]
    rows = NewRows(nodes=owners, n_columns=5, blocks=blocks, lengths=lengths)
    store.publish(1, rows, created_at=0.0)
    meta = store.publish_without(2, np.array([2, 5, 33]), onto=1, created_at=1.0)
    assert meta is not None
    assert (meta.n_rows, meta.n_columns, meta.is_sparse) == (4, 5, is_sparse)
    left = store.load(2, 10)
    assert left.nodes is not None
    assert left.nodes.tolist() == [0, 4, 7, 9]
    found = left.values.toarray() if is_sparse else left.values
    np.testing.assert_array_equal(found, values.toarray()[[3, 4, 2, 0]])
    none = store.publish_without(3, left.nodes, onto=2, created_at=1.0)
    assert none is not None
    assert none.n_rows == 0


@pytest.mark.parametrize("is_sparse", [False, True])
def test_words_go_with_their_columns_and_rows_of_before_still_join(
    tmp_path: Path, is_sparse: bool
) -> None:
    store = FeatureStore(tmp_path)
    words = {"friend": ["ann", "bob", "bob", "ann"], "town": ["Oslo", "Rome", "Rome", "Ur"]}
    encoding = Encoding.of(pa.table(words))
    values = encoding.encode(pa.record_batch(words), 0)

    def rows(some: slice, text: str) -> NewRows:
        block = sp.csr_array(values[some]) if is_sparse else values[some]
        return NewRows(
            nodes=np.arange(4)[some],
            n_columns=values.shape[1],
            blocks=[block],
            lengths=np.diff(block.indptr).astype(np.int64) if is_sparse else None,
            names=None if is_sparse else encoding.names,
            encoding=text,
        )

    def found(version: int) -> Any:
        left = store.load(version, 4).values
        return (left.toarray() if is_sparse else left).tolist()

    store.publish(1, rows(slice(4), encoding.to_json()), created_at=0.0)
    meta = store.publish_without(2, np.array([3]), words={"ann"}, onto=1, created_at=1.0)
    assert meta is not None
    assert meta.encoding is not None
    assert not {"ann", "Ur"} & {
        word for each in Encoding.from_json(meta.encoding).columns for word in each.words
    }
    assert found(2) == [[0, 0, 1, 0, 0], [0, 1, 0, 1, 0], [0, 1, 0, 1, 0]]
    assert meta.n_values == (5 if is_sparse else 15)
    assert store.publish_without(3, np.array([3]), words={"ann"}, onto=2, created_at=1.0) is None
    joined = store.publish(3, rows(slice(3, 4), encoding.to_json()), onto=2, created_at=1.0)
    assert (joined.names, joined.encoding) == (meta.names, meta.encoding)
    assert found(3) == [*found(2), [0] * 5]
