"""Edges that dask computes, partition by partition: the same rows in a table are their twin."""

import threading
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client, get_worker
from hypothesis import given, settings
from hypothesis import strategies as st

from peewit.streaming import Sparsified, sparsify, sparsify_relations
from peewit.streaming.calls.dask_partitions import DaskPartitions, cut
from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.edges.column_mapping import NO_COLUMN, PLAIN, EdgeColumns
from tests.streaming.clusters import cluster_of
from tests.streaming.graphs import heavy_tailed

N_NODES = 300
EDGES = heavy_tailed(N_NODES, 0.2, 0)
TABLE = pa.table({"src": EDGES.u, "dst": EDGES.v, "weight": EDGES.weight.astype(np.float32)})
BOUNDS = [0, 1000, 1000, 5555, 5556, TABLE.num_rows]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of which a table of the tests has some dozens."""
    for module in ("dask_partitions", "sparsify_call"):
        monkeypatch.setattr(f"peewit.streaming.calls.{module}.PART_ROWS", 700)


def pieces(table: pa.Table, bounds: list[int]) -> list[pa.Table]:
    return [table.slice(a, b - a) for a, b in pairwise(bounds)]


def as_given(piece: pa.Table) -> pa.Table:
    return piece


def rows(piece: pa.Table) -> list[tuple[int, int, float]]:
    return list(zip(*(column.to_pylist() for column in piece.columns), strict=True))


def frame(table: pa.Table, bounds: list[int]) -> Any:
    return dd.from_map(pa.Table.to_pandas, pieces(table, bounds))


def bag_of_tables(table: pa.Table, bounds: list[int]) -> Any:
    return db.from_sequence(pieces(table, bounds), npartitions=2)


def bag_of_tuples(table: pa.Table, bounds: list[int]) -> Any:
    some = [each for each in pieces(table, bounds) if len(each)]
    return db.concat([db.from_sequence(rows(each), npartitions=2) for each in some])


def bag_of_mappings(table: pa.Table, bounds: list[int]) -> Any:
    return db.from_sequence(table.to_pylist(), npartitions=len(bounds))


def delayed(table: pa.Table, bounds: list[int]) -> Any:
    return [dask.delayed(as_given)(each) for each in pieces(table, bounds)]


MAKERS = [frame, bag_of_tables, bag_of_tuples, bag_of_mappings, delayed]


def same(a: Sparsified, b: Sparsified) -> bool:
    ids = [None if each is None else each.to_pylist() for each in (a.external_ids, b.external_ids)]
    return (
        (a.adjacency != b.adjacency).nnz == 0
        and (a.edges_seen, a.epsilon_expected) == (b.edges_seen, b.epsilon_expected)
        and ids[0] == ids[1]
    )


@pytest.mark.parametrize("make", MAKERS)
def test_partitions_give_what_their_rows_give_in_a_table(make: Callable[..., Any]) -> None:
    expected = sparsify(TABLE, 0.9, seed=3, n_nodes=N_NODES)
    assert expected.edges_kept < 0.6 * TABLE.num_rows
    found = sparsify(make(TABLE, BOUNDS), 0.9, seed=3, n_nodes=N_NODES)
    assert same(found, expected)


@pytest.mark.filterwarnings("ignore:The inplace keyword:DeprecationWarning")  # dask's of pandas
def test_a_frame_of_a_file_gives_what_the_file_gives(tmp_path) -> None:
    pq.write_table(TABLE, tmp_path / "edges.parquet", row_group_size=700)
    expected = sparsify(tmp_path, max_edges=4000)
    assert same(sparsify(dd.read_parquet(tmp_path, split_row_groups=3), max_edges=4000), expected)


@settings(max_examples=8)
@given(st.lists(st.integers(0, TABLE.num_rows), max_size=9), st.integers(1, 3))
def test_how_rows_are_dealt_to_partitions_changes_nothing(bounds, n_threads) -> None:
    dealt = delayed(TABLE, [0, *sorted(bounds), TABLE.num_rows])
    found = sparsify(dealt, 0.9, n_nodes=N_NODES, n_threads=n_threads)
    assert same(found, sparsify(TABLE, 0.9, n_nodes=N_NODES))


@pytest.mark.filterwarnings("ignore:column 'op' is passed over")
def test_mappings_have_the_columns_of_all_of_them() -> None:
    rows = [{"src": 0, "dst": 1}, {"src": 1, "dst": 2, "weight": 5.0}]
    for given_rows in (rows, rows[::-1]):
        found = sparsify(db.from_sequence(given_rows, npartitions=1))
        assert found.adjacency.sum() / 2 == 6.0
        assert sparsify(db.from_sequence(given_rows, npartitions=2)).adjacency.sum() / 2 == 6.0
    deletes = [*rows, {"src": 1, "dst": 2, "op": "delete"}]
    with pytest.raises(BadEdges, match="'op'"):
        sparsify(db.from_sequence(deletes, npartitions=1))


def test_columns_may_be_called_by_numbers() -> None:
    numbered = dd.from_pandas(pa.table({"a": ["x"], "b": ["y"]}).to_pandas(), npartitions=1)
    numbered.columns = [0, 1]
    assert sparsify(numbered, src="0", dst="1").external_ids.to_pylist() == ["x", "y"]


@pytest.mark.parametrize(
    ("types", "values"),
    [
        ((pa.float32(), pa.int64()), ([0.5], [123_456_789])),
        ((pa.int32(), pa.float64()), ([1], [0.25])),
        ((pa.uint8(), pa.int64()), ([1], [2])),
    ],
)
def test_weights_of_several_types_keep_their_digits(types, values) -> None:
    parts = [
        pa.table({"src": [i], "dst": [i + 1], "weight": pa.array(values[i], types[i])})
        for i in (0, 1)
    ]
    found = sparsify([dask.delayed(as_given)(each) for each in parts])
    expected = np.float32(values[0][0]), np.float32(values[1][0])
    assert found.adjacency[0, 1] == expected[0]
    assert found.adjacency[1, 2] == expected[1]


@pytest.mark.parametrize("first", [0, 4])
def test_partitions_that_a_filter_empties_are_left_out(first: int) -> None:
    rows = db.from_sequence([{"src": i, "dst": i + 1} for i in range(10)], npartitions=5)
    found = sparsify(rows.filter(lambda row: first <= row["src"] < first + 2 or row["src"] > 7))
    assert found.edges_seen == 4


def test_texts_of_several_types_are_texts() -> None:
    ends = ["a", "b"], ["b", "c"]
    kinds = [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
    ]
    parts = [
        pa.table({"src": pa.array(ends[0], kind), "dst": pa.array(ends[1], kind)}) for kind in kinds
    ]
    found = sparsify([dask.delayed(as_given)(each) for each in parts])
    assert found.external_ids.to_pylist() == ["a", "b", "c"]
    assert found.adjacency.sum() / 2 == 8.0


def test_columns_that_nobody_reads_may_be_of_any_type_and_are_told() -> None:
    odd = [pa.table({"src": [1], "dst": [2], "tag": [i], "w": [0.5]}) for i in (7, {"a": 1}, [2])]
    with pytest.warns(UserWarning, match="'w'"):
        found = sparsify([dask.delayed(as_given)(each) for each in odd])
    assert found.edges_seen == 3
    with pytest.warns(UserWarning, match="'w'"):
        sparsify(db.from_sequence(odd, npartitions=1))


def test_one_delayed_table_and_a_tuple_of_them_are_edges() -> None:
    one = dask.delayed(as_given)(TABLE)
    assert sparsify(one).edges_seen == TABLE.num_rows
    assert sparsify((one, dask.delayed(as_given)(TABLE.slice(1)))).edges_seen == 2 * len(TABLE) - 1


def test_what_a_task_raises_names_its_partition() -> None:
    def fail(number: int) -> pa.Table:
        if number:
            raise KeyError("amount")
        return TABLE

    with pytest.raises(KeyError) as failed:
        sparsify([dask.delayed(fail)(number) for number in (0, 1)])
    assert failed.value.__notes__ == ["while partition 1 (from 0) was computed"]


def test_equal_partitions_count_each() -> None:
    twice = [dask.delayed(as_given)(TABLE) for _ in range(2)]
    assert sparsify(twice).edges_seen == 2 * TABLE.num_rows


def test_arrays_of_partitions_are_nodes_as_those_in_memory_are() -> None:
    arrays = [dask.delayed(lambda: (np.array([0, 1]), np.array([1, 5])))()]
    found = sparsify(arrays)
    assert found.external_ids is None
    assert found.graph.n_nodes == 6
    assert sparsify(arrays, node_ids="int64").external_ids.to_pylist() == [0, 1, 5]


def test_no_partition_has_rows() -> None:
    found = sparsify(delayed(TABLE, [0, 0, 0]))
    assert (found.edges_seen, found.graph.n_nodes) == (0, 0)


def test_few_partitions_are_in_flight() -> None:
    lock, in_hand, most = threading.Lock(), [0], [0]

    def compute(piece: pa.Table) -> pa.Table:
        with lock:
            in_hand[0] += 1
            most[0] = max(most[0], in_hand[0])
        return piece

    parts = [dask.delayed(compute)(each) for each in pieces(TABLE, list(range(0, 8000, 200)))]
    partitions = DaskPartitions(parts, PLAIN)
    for _ in partitions.tables(2):
        with lock:
            in_hand[0] -= 1
    assert len(partitions) == 39
    assert 1 <= most[0] <= 3


def test_a_frame_computes_the_columns_that_are_read_and_those_that_may_delete() -> None:
    wide = TABLE.append_column("distance", TABLE["weight"])
    wide = wide.append_column("op", pa.repeat("insert", len(TABLE)))
    partitions = DaskPartitions(frame(wide, BOUNDS), PLAIN)
    assert partitions.compute(0).table.schema.names == ["src", "dst", "weight", "op"]
    partitions = DaskPartitions(frame(wide, BOUNDS), EdgeColumns(op=NO_COLUMN))
    assert partitions.compute(0).names == ["src", "dst", "weight", "distance", "op"]
    assert partitions.compute(0).table.schema.names == ["src", "dst", "weight"]
    partitions = DaskPartitions(frame(wide, BOUNDS), EdgeColumns(weight="distance"))
    assert set(partitions.compute(0).table.schema.names) >= {"src", "dst", "distance", "op"}


@pytest.mark.filterwarnings("ignore:column 'op' is passed over")  # in the first rows
def test_rows_that_delete_are_refused_with_their_partition() -> None:
    changes = pa.table(
        {"src": [1, 2, 3, 4], "dst": [2, 3, 4, 5], "op": ["insert"] * 3 + ["delete"]}
    )
    with pytest.raises(BadEdges, match=r"partition 1 \(from 0\): .*in row 1 "):
        sparsify(delayed(changes, [0, 2, 4]))


def test_a_bad_row_is_named_with_its_partition() -> None:
    weights = pa.array([*np.ones(1500), -1.0, 1.0])
    table = pa.table({"src": range(1502), "dst": range(1, 1503), "weight": weights})
    with pytest.raises(BadEdges, match=r"partition 2 \(from 0\): .*got -1.0 in row 100 "):
        sparsify(delayed(table, [0, 700, 1400, 1502]))
    with pytest.raises(BadEdges, match="column 'dst' is missing"):
        sparsify(frame(table.select(["src", "weight"]), [0, 5, 9]))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([pa.table({"src": [1], "dst": [2]}), pa.table({"src": ["a"], "dst": ["b"]})], "text in"),
        ([{"src": [1]}], r"partition 0 \(from 0\): edges must be"),
        ([[(1, 2), ("a", "b")]], r"partition 0 \(from 0\): .* all strings or all integers"),
        ([[{"src": 1, "dst": 2}, {"src": "a", "dst": 3}]], "of one type"),
        ([sparsify(TABLE).adjacency], "a whole graph"),
    ],
)
def test_what_is_no_table_is_refused(parts: list[Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        sparsify([dask.delayed(as_given)(each) for each in parts])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scheduler": "tcp://127.0.0.1:1"}, "connect a dask.distributed.Client"),
        ({"storage_options": {}}, "storage_options is for edges in files"),
        ({"max_bad_rows": 1}, "max_bad_rows is for edges in files"),
        ({"method": "kelner-levin", "epsilon": 0.5}, "takes edges in memory"),
    ],
)
def test_arguments_for_other_edges_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sparsify(delayed(TABLE, BOUNDS), **options)


def test_other_collections_are_refused_with_a_way_out() -> None:
    with pytest.raises(TypeError, match="from_dask_array"):
        sparsify(da.ones((4, 2)))


def test_tasks_that_partitions_share_are_told() -> None:
    whole = dask.delayed(as_given)(TABLE)
    parts = [dask.delayed(pa.Table.slice)(whole, start, 100) for start in (0, 100)]
    with pytest.warns(UserWarning, match="2 partitions share 1 tasks") as told:
        sparsify(parts)
    assert told[0].filename == __file__
    (kept,) = dask.persist(whole)
    parts = [dask.delayed(pa.Table.slice)(kept, start, 100) for start in (0, 100)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sparsify(parts)


@pytest.mark.usefixtures("processes")
def test_a_client_that_is_connected_computes_partitions() -> None:
    def on_worker(piece: pa.Table) -> pa.Table:
        get_worker()  # raises anywhere else
        return piece

    parts = [dask.delayed(on_worker)(each) for each in pieces(TABLE, BOUNDS)]
    with pytest.raises(ValueError, match="worker"):
        sparsify(parts)
    with cluster_of(1) as cluster, Client(cluster):
        found = sparsify(parts, 0.9, n_nodes=N_NODES)
    assert same(found, sparsify(TABLE, 0.9, n_nodes=N_NODES))


@pytest.mark.parametrize("n_rows", [1, 3, 100])
def test_rows_are_cut_alike(n_rows: int) -> None:
    def arriving() -> Iterator[pa.Table]:
        yield from pieces(TABLE.slice(0, 10), [0, 0, 4, 10, 10])

    found = list(cut(arriving(), n_rows))
    assert [len(each) for each in found] == [
        len(each) for each in pieces(TABLE.slice(0, 10), [*range(0, 10, n_rows), 10])
    ]
    assert pa.concat_tables(found).equals(TABLE.slice(0, 10))


def test_relations_may_be_of_dask() -> None:
    names = pa.table({"src": ["a", "b"], "dst": ["b", "c"]})
    logins = pa.table({"user": ["a", "b", "c"], "device": ["x", "x", "y"]})
    columns = {"src": {"login": "user"}, "dst": {"login": "device"}}
    expected = sparsify_relations({"knows": names, "login": logins}, **columns)
    found = sparsify_relations(
        {"knows": delayed(names, [0, 1, 2]), "login": frame(logins, [0, 2, 3])}, **columns
    )
    assert found.external_ids.to_pylist() == expected.external_ids.to_pylist()
    for name, each in expected.items():
        assert (found[name].adjacency != each.adjacency).nnz == 0
    events = pa.table({"user": ["a", "b"], "card": ["x", None], "phone": ["y", "y"]})
    stars = sparsify_relations(frame(events, [0, 1, 2]), entity="user", via=["card", "phone"])
    assert {name: each.edges_kept for name, each in stars.items()} == {"card": 1, "phone": 2}


def test_a_fault_of_a_relation_names_its_partition() -> None:
    bad = pa.table({"src": ["a", "b"], "dst": ["b", None]})
    with pytest.raises(BadEdges, match=r"knows, partition 1 \(from 0\): .*row 0"):
        sparsify_relations({"knows": delayed(bad, [0, 1, 2])})
