"""The data contract of edges: what is taken as it is, what is refused and with which words."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peewit.solvers.arrays import frozen
from peewit.streaming.edges.blocks import (
    MAX_NODES,
    BadEdges,
    RawBlock,
    check_max_nodes,
    check_node_kind,
    edges_of,
)
from peewit.streaming.edges.columns import read_columns
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.left_out import LeftOut

MAX_INT64 = 2**63 - 1


def read(columns: dict[str, object], kind: NodeKind = "int64", **arguments: int) -> RawBlock:
    max_nodes = arguments.pop("max_nodes", 100)
    return read_columns(pa.table(columns), node_kind=kind, max_nodes=max_nodes, **arguments)


def refused(columns: dict[str, object], kind: NodeKind = "int64", **arguments: int) -> BadEdges:
    with pytest.raises(BadEdges) as caught:
        read(columns, kind, **arguments)
    return caught.value


def with_weights(weights: object) -> dict[str, object]:
    n_rows = len(weights)  # type: ignore[arg-type]
    return {"src": list(range(n_rows)), "dst": [7] * n_rows, "weight": weights}


def test_columns_of_the_right_type_are_not_copied() -> None:
    table = pa.table(
        {
            "src": np.arange(5),
            "dst": np.arange(5)[::-1].copy(),
            "weight": np.ones(5, dtype=np.float32),
        }
    )
    block = read_columns(table, node_kind="int64", max_nodes=10)
    assert block.src.buffers()[1].address == table["src"].chunk(0).buffers()[1].address
    assert block.weight.ctypes.data == table["weight"].chunk(0).buffers()[1].address
    strings = pa.table({"src": ["a"], "dst": ["b"]})
    text = read_columns(strings, node_kind="string", max_nodes=10)
    assert text.src.buffers()[2].address == strings["src"].chunk(0).buffers()[2].address


@pytest.mark.parametrize("id_type", [np.int32, np.uint32])
def test_dense_ids_of_32_bits_are_not_copied(id_type: type[np.int32]) -> None:
    table = pa.table({"src": np.arange(5, dtype=id_type), "dst": np.ones(5, dtype=id_type)})
    block = read_columns(table, node_kind="dense", max_nodes=10)
    for name, ids in (("src", block.src), ("dst", block.dst)):
        assert ids.buffers()[1].address == table[name].chunk(0).buffers()[1].address
    assert (block.greatest_id, block.n_self_loops) == (4, 1)


def test_blocks_without_weights_share_them() -> None:
    first, second = (read({"src": [1, 2], "dst": [2, 2]}, "dense") for _ in range(2))
    assert first.weight.ctypes.data == second.weight.ctypes.data
    with pytest.raises(ValueError, match="read-only"):
        first.weight[0] = 2


def test_more_rows_than_weights_are_shared_have_weights_too() -> None:
    ids = np.zeros((1 << 20) + 3, dtype=np.int32)
    block = read({"src": ids, "dst": ids}, "dense")
    assert len(block.weight) == len(ids)
    assert (block.weight == 1).all()


def test_the_first_bad_row_of_the_first_bad_column_is_named() -> None:
    columns = {"src": [1, 2, 3, 100], "dst": [1, 100, 3, 4], "weight": [-1.0, 1.0, 1.0, 1.0]}
    for id_type in (pa.int64(), pa.int32(), pa.int16(), pa.uint32()):
        typed = {name: pa.array(columns[name], id_type) for name in ("src", "dst")}
        error = refused(typed | {"weight": columns["weight"]}, "dense", first_row=10)
        assert (error.row, error.value) == (13, "100")
        error = refused(typed | {"weight": columns["weight"]}, "dense", max_nodes=101)
        assert (error.row, error.value) == (0, "-1.0")


@pytest.mark.parametrize("id_type", [pa.uint32(), pa.uint64(), pa.int64()])
def test_dense_ids_beyond_32_bits_are_refused(id_type: pa.DataType) -> None:
    beyond = 2**32 - 1 if id_type == pa.uint32() else 2**32 + 5
    ids = pa.array([5, beyond], id_type)
    error = refused({"src": ids, "dst": ids}, "dense", max_nodes=MAX_NODES)
    assert (error.row, error.value) == (1, str(beyond))


def test_missing_weights_are_one_and_other_columns_are_ignored() -> None:
    block = read({"note": [[1], None], "src": [1, 2], "time": ["x", None], "dst": [3, 4]})
    assert block.weight.tolist() == [1.0, 1.0]
    assert block.weight.dtype == np.float32
    assert block.n_rows == 2


@pytest.mark.parametrize("kind", ["string", "int64", "dense"])
def test_an_empty_table_is_an_empty_block(kind: NodeKind) -> None:
    ids = pa.array([], pa.string() if kind == "string" else pa.int32())
    block = read({"src": ids, "dst": ids, "weight": pa.array([], pa.float64())}, kind)
    assert block.n_rows == 0


def test_record_batches_are_read_like_tables() -> None:
    batch = pa.record_batch({"src": [1, 2], "dst": [2, 3], "weight": [0.5, 2.0]})
    block = read_columns(batch, node_kind="int64", max_nodes=10)
    assert block.weight.tolist() == [0.5, 2.0]


@pytest.mark.parametrize(
    "string_type",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.large_string()),
    ],
    ids=str,
)
def test_every_string_type_gives_the_same_ids(string_type: pa.DataType) -> None:
    names = [" ", "ä", "node with spaces", "ä", "\N{PILE OF POO}"]
    ids = pa.chunked_array([pa.array(names[:2], string_type), pa.array(names[2:], string_type)])
    block = read({"src": ids, "dst": ids}, "string")
    assert isinstance(block.src, pa.Array)
    assert block.src.type in (pa.string(), pa.large_string())
    assert block.src.to_pylist() == names


@pytest.mark.parametrize(
    "integer_type",
    [
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        pa.dictionary(pa.int8(), pa.int32()),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["int64", "dense"])
def test_every_integer_type_gives_the_same_ids(integer_type: pa.DataType, kind: NodeKind) -> None:
    ids = pa.chunked_array([pa.array([0, 99], integer_type), pa.array([5], integer_type)])
    block = read({"src": ids, "dst": ids}, kind)
    assert block.src.type == (pa.int32() if kind == "dense" else pa.int64())
    assert block.src.to_pylist() == block.dst.to_pylist() == [0, 99, 5]


def test_sliced_columns_are_read_from_their_offset() -> None:
    table = pa.table({"src": ["x", "a", "b"], "dst": ["y", "c", "d"], "weight": [9.0, 1.0, 2.0]})
    block = read_columns(table.slice(1), node_kind="string", max_nodes=10)
    assert block.src.to_pylist() == ["a", "b"]
    assert block.weight.tolist() == [1.0, 2.0]


def test_the_largest_and_smallest_integers_are_ids() -> None:
    extremes = [MAX_INT64, -(2**63), 0]
    block = read({"src": extremes, "dst": extremes})
    assert block.src.to_pylist() == extremes
    unsigned = pa.array([MAX_INT64], pa.uint64())
    assert read({"src": unsigned, "dst": unsigned}).src.to_pylist() == [MAX_INT64]


def test_unsigned_ids_beyond_63_bits_are_refused() -> None:
    error = refused({"src": pa.array([1, 2**63], pa.uint64()), "dst": [1, 2]}, first_row=10)
    assert (error.row, error.value) == (11, str(2**63))
    assert str(MAX_INT64) in error.reason


@pytest.mark.parametrize("bad", [-1, 100])
def test_dense_ids_outside_the_range_are_refused(bad: int) -> None:
    error = refused({"src": [0, 99], "dst": [5, bad]}, "dense")
    assert (error.row, error.value) == (1, str(bad))
    assert str(error) == (
        f"column 'dst' must lie in [0, 99], got {bad} in row 1 (rows count from 0)"
    )


def test_a_narrow_type_may_be_unable_to_leave_the_dense_range() -> None:
    ids = pa.array([0, 127], pa.int8())
    assert read({"src": ids, "dst": ids}, "dense", max_nodes=1000).n_rows == 2
    assert refused({"src": pa.array([-1], pa.int8()), "dst": [1]}, "dense").value == "-1"


@pytest.mark.parametrize("missing", ["src", "dst"])
def test_a_missing_column_is_named_with_those_there_are(missing: str) -> None:
    columns = {"src": [1], "dst": [2], "extra": [3]}
    del columns[missing]
    error = refused(dict(columns))
    other = "dst" if missing == "src" else "src"
    held = f"column '{missing}' is missing; the file has {other}, extra"
    way_out = "say src='COLUMN', dst='COLUMN' with the names of those that hold the ends"
    assert str(error) == f"{held}; {way_out}"
    assert error.row is None


def test_a_column_that_stands_twice_is_refused() -> None:
    table = pa.Table.from_arrays([pa.array([1])] * 3, names=["src", "dst", "src"])
    with pytest.raises(BadEdges, match="'src' must stand once, the file has it 2 times"):
        read_columns(table, node_kind="int64", max_nodes=10)


@pytest.mark.parametrize(
    ("kind", "ids", "said"),
    [
        ("string", pa.array([1]), "got type int64; a graph of integers is created with"),
        ("string", pa.array([b"a"]), "in this graph, got type binary; write them as text"),
        ("string", pa.array([None]), "in this graph, got type null; every cell is null"),
        ("int64", pa.array(["1"]), "must hold integers in a graph of int64 ids, got type string"),
        ("int64", pa.array([1.5]), "must hold 64-bit integers"),
        ("dense", pa.array([True]), "integers in a graph of dense ids, got type bool"),
        ("dense", pa.array([[1]]), "got type list"),
        ("int64", pa.array(["1"]).dictionary_encode(), "got type string"),
    ],
)
def test_ids_of_another_type_are_refused(kind: NodeKind, ids: pa.Array, said: str) -> None:
    error = refused({"src": ids, "dst": ids}, kind)
    assert said in error.reason
    assert "'src'" in error.reason


@pytest.mark.parametrize(
    ("kind", "ids"),
    [
        ("string", pa.array(["a", "b", None, None])),
        ("string", pa.array(["a", "b", None, None]).dictionary_encode()),
        ("string", pa.DictionaryArray.from_arrays([0, 0, 1, 0], pa.array(["a", None]))),
        ("int64", pa.array([1, 2, None, 3])),
        ("dense", pa.array([1, 2, None, 3], pa.uint8())),
        ("int64", pa.array([0, 1, 2, None, 3]).slice(1)),
    ],
)
def test_a_null_id_is_refused_with_its_row(kind: NodeKind, ids: pa.Array) -> None:
    error = refused({"src": ids, "dst": ids}, kind, first_row=100)
    assert (error.row, error.value) == (102, "null")


def test_an_id_that_is_not_utf8_is_refused_with_its_row() -> None:
    raw = pa.array([b"a"] * 500 + [b"\xff"] + [b"b"] * 300 + [b"\xfe"], pa.binary())
    ids = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    error = refused({"src": ids, "dst": ids}, "string", first_row=1000)
    assert error.row == 1500
    assert "UTF8" in error.reason


def test_forged_offsets_are_refused_before_their_bytes_are_read() -> None:
    offsets = np.array([0, 2, 2_000_000, 3], dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"abc")]
    ids = pa.Array.from_buffers(pa.string(), 3, buffers)
    error = refused({"src": ids, "dst": ids}, "string")
    assert "must be valid Arrow data" in error.reason
    assert error.row == 1


def test_forged_dictionary_indices_are_refused() -> None:
    ids = pa.DictionaryArray.from_arrays(pa.array([0, 9]), pa.array(["a", "b"]), safe=False)
    assert refused({"src": ids, "dst": ids}, "string").row == 1


@pytest.mark.parametrize(
    "weight_type",
    [pa.int8(), pa.uint64(), pa.int64(), pa.float16(), pa.float32(), pa.float64()],
    ids=str,
)
def test_weights_of_every_width_become_float32(weight_type: pa.DataType) -> None:
    values = np.array([1, 2, 100]).astype(weight_type.to_pandas_dtype())
    block = read(with_weights(pa.array(values, weight_type)))
    assert block.weight.dtype == np.float32
    assert block.weight.tolist() == [1.0, 2.0, 100.0]


@pytest.mark.parametrize(
    ("bad", "shown"),
    [(float("nan"), "nan"), (float("inf"), "inf"), (float("-inf"), "-inf"), (-1.5, "-1.5")],
)
@pytest.mark.parametrize("weight_type", [pa.float64(), pa.float32()], ids=str)
def test_weights_that_are_negative_or_not_finite_are_refused(
    bad: float, shown: str, weight_type: pa.DataType
) -> None:
    error = refused(with_weights(pa.array([1.0, 2.0, bad, bad], weight_type)), first_row=5)
    assert (error.row, error.value) == (7, shown)
    assert error.reason == "column 'weight' must be finite and >= 0"


@pytest.mark.parametrize(("bad", "why"), [(1e-60, ", where so little is 0"), (1e60, "")])
def test_weights_that_float32_cannot_hold_are_refused(bad: float, why: str) -> None:
    error = refused(with_weights([1.0, bad]))
    assert (error.row, error.value) == (1, str(bad))
    assert error.reason == f"column 'weight' must be finite and >= 0 as a 32-bit float{why}"


@pytest.mark.parametrize("kind", ["dense", "int64"])
@pytest.mark.parametrize(
    "weights", [[1, 0, 2], [1.0, -0.0, 2.0], pa.array([1, 0, 2], pa.decimal128(5, 2))], ids=str
)
def test_weights_of_zero_are_no_edges_and_hide_no_bad_weight(
    kind: NodeKind, weights: list[float]
) -> None:
    assert read(with_weights(weights), kind).has_zero_weights
    assert not read(with_weights([1, 3, 2]), kind).has_zero_weights
    assert refused(with_weights([0.0, 1.0, np.nan]), kind).row == 2


def test_the_smallest_float32_is_a_weight() -> None:
    smallest = float(np.finfo(np.float32).smallest_subnormal)
    assert read(with_weights([smallest])).weight[0] > 0


def test_negative_integer_weights_are_refused() -> None:
    assert refused(with_weights(pa.array([3, -2], pa.int16()))).value == "-2"


def test_null_weights_are_refused() -> None:
    error = refused(with_weights([1.0, None]))
    assert (error.row, error.value) == (1, "null")


@pytest.mark.parametrize("weights", [["1"], [True], [[1.0]]])
def test_weights_that_are_not_numbers_are_refused(weights: list[object]) -> None:
    assert "must hold integers, decimals or floats" in refused(with_weights(weights)).reason


def test_bad_edges_survive_pickling() -> None:
    error = BadEdges("a rule", argument="src", row=3, value="x")
    error.part = 2
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.reason, copy.argument, copy.row) == ("a rule", "src", 3)
    assert (copy.value, copy.part) == ("x", 2)
    assert str(copy) == str(error) == "a rule, got x in row 3 (rows count from 0)"


def test_errors_show_long_values_cut() -> None:
    fields = {f"field_{number}": pa.int64() for number in range(1000)}
    ids = pa.array([None], pa.struct(list(fields.items())))
    assert len(str(refused({"src": ids, "dst": ids}))) < 400


@given(
    edges=st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 5), st.just(0.0) | st.floats(1, 9, width=32)),
        max_size=40,
    ),
    is_timed=st.booleans(),
)
def test_rows_without_an_edge_are_left_out_and_counted(
    edges: list[tuple[int, int, float]], is_timed: bool
) -> None:
    u, v, weight = (np.array(column) for column in zip(*edges, strict=True)) if edges else [[]] * 3
    block = edges_of(
        np.asarray(u, dtype=np.int32),
        np.asarray(v, dtype=np.int32),
        np.asarray(weight, dtype=np.float32),
        has_zero_weights=any(weight == 0.0 for _, _, weight in edges),
        time=np.arange(len(edges)) if is_timed else None,
    )
    weighted = [edge for edge in edges if edge[2]]
    kept = [edge for edge in edges if edge[2] and edge[0] != edge[1]]
    assert sorted(zip(block.u, block.v, block.weight, strict=True)) == sorted(kept)
    assert block.left_out == LeftOut(len(weighted) - len(kept), len(edges) - len(weighted))
    assert block.n_rows == len(edges)
    if block.time is not None:
        assert [edges[row] for row in block.time] == kept


def test_edges_without_self_loops_are_not_copied() -> None:
    u, v = np.array([0, 1], np.int32), np.array([1, 2], np.int32)
    weight = np.ones(2, np.float32)
    block = edges_of(u, v, weight)
    assert (block.u is u, block.v is v, block.weight is weight) == (True, True, True)


def test_self_loops_are_dropped_in_place_only_where_that_is_allowed() -> None:
    def arrays() -> list[np.ndarray]:
        return [
            np.array([0, 1, 2], np.int32),
            np.array([0, 2, 1], np.int32),
            np.ones(3, np.float32),
        ]

    fixed, taken = [frozen(array) for array in arrays()], arrays()
    for columns in (fixed, taken):
        block = edges_of(*columns, n_self_loops=1)
        assert (block.u.tolist(), block.v.tolist(), len(block.weight)) == ([2, 1], [1, 2], 2)
    assert [array.tolist() for array in fixed] == [array.tolist() for array in arrays()]
    assert block.u.base is taken[0]


def test_node_kind_and_max_nodes_are_checked() -> None:
    assert check_node_kind("dense") == "dense"
    with pytest.raises(ValueError, match="one of string, int64, dense, typed, got 'uuid'"):
        check_node_kind("uuid")
    assert check_max_nodes(MAX_NODES) == MAX_NODES
    for wrong in (0, MAX_NODES + 1):
        with pytest.raises(ValueError, match=f"got {wrong}"):
            check_max_nodes(wrong)
