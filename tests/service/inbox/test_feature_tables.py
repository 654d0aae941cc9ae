"""Features in every format that people hand them in, and what is wrong with some."""

import io
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from peewit.service.catalog import GraphProgress, GraphRecord
from peewit.service.graph_settings import GraphSettings
from peewit.service.inbox.feature_tables import n_rows_known, path_blocks, point_rows, table_blocks
from peewit.service.tables.uploads import BadUpload, joined_features
from peewit.service.tables.uploads.joined_features import NodeTable, join_tables, joined_names
from peewit.streaming.edges.blocks import MAX_NODE_BYTES
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.table_formats import Format
from peewit.streaming.features.checked_tables import BadFeatures, FeatureBlock
from peewit.streaming.features.encoding import ColumnWishes

VALUES = np.array([[1.5, -2.0], [0.0, 3.25], [1e10, 4.0]], np.float32)
NAMES = ["a", "b", "c"]


def graph_of(kind: NodeKind = "string") -> GraphRecord:
    return GraphRecord(
        id="g",
        settings=GraphSettings(name="g", node_ids=kind, max_nodes=1_000, seed=1),
        progress=GraphProgress(),
        labels_seq=0,
        features_version=0,
        created_at=datetime.now(UTC),
    )


def joined(blocks: list[FeatureBlock]) -> tuple[list[Any], Any]:
    nodes = [node for block in blocks for node in block.nodes.to_pylist()]
    width = max(block.values.shape[1] for block in blocks)
    parts = []
    for block in blocks:
        values = block.values
        if block.is_sparse:
            values.resize((block.n_rows, width))
            values = values.toarray()
        parts.append(values)
    return nodes, np.vstack(parts)


def as_arrow(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return sink.getvalue()


def as_parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=2)
    return sink.getvalue()


def as_csv(table: pa.Table) -> bytes:
    rows = zip(table["node"].to_pylist(), table["features"].to_pylist(), strict=True)
    lines = [",".join(map(str, [node, *row])) for node, row in rows]
    return "\n".join(["node,x,y", *lines, ""]).encode()


def as_ndjson(table: pa.Table) -> bytes:
    import json

    return "\n".join(json.dumps(row) for row in table.to_pylist()).encode()


WRITERS: dict[Format, Callable[[pa.Table], bytes]] = {
    Format.ARROW: as_arrow,
    Format.PARQUET: as_parquet,
    Format.CSV: as_csv,
    Format.NDJSON: as_ndjson,
}


def dense_table(nodes: Any) -> pa.Table:
    return pa.table({"node": nodes, "features": VALUES.tolist()})


@pytest.mark.parametrize("table_format", Format)
@pytest.mark.parametrize("nodes", [NAMES, [7, -3, 2**60]])
def test_dense_rows_come_in_any_format(table_format: Format, nodes: list[Any]) -> None:
    kind: NodeKind = "string" if nodes is NAMES else "int64"
    body = io.BytesIO(WRITERS[table_format](dense_table(nodes)))
    blocks = list(table_blocks(graph_of(kind), body, table_format))
    found, values = joined(blocks)
    assert found == nodes
    np.testing.assert_array_equal(values, VALUES)
    assert blocks[-1].first_row + blocks[-1].n_rows == 3


@pytest.mark.parametrize("table_format", [Format.ARROW, Format.PARQUET, Format.NDJSON])
def test_sparse_rows_come_in_formats_that_have_lists(table_format: Format) -> None:
    table = pa.table(
        {"node": NAMES, "indices": [[3, 1], [], [0]], "values": [[1.0, 2.5], [], [-1.0]]}
    )
    body = io.BytesIO(WRITERS[table_format](table))
    nodes, values = joined(list(table_blocks(graph_of(), body, table_format)))
    assert nodes == NAMES
    np.testing.assert_array_equal(values, [[0, 2.5, 0, 1], [0] * 4, [-1, 0, 0, 0]])


MANY = b"node,x\n" + b"".join(b"n%d,1\n" % row for row in range(200_000))
"""Numbers alone, beyond the rows by which it is decided that they are."""


@pytest.mark.parametrize(
    ("table_format", "body", "message"),
    [
        (Format.CSV, MANY + b"b,\n", "column 'x' must hold a number, got '' in row 200000"),
        (Format.CSV, MANY + b"b,two\n", "must hold numbers"),
        (Format.CSV, b"node,x\na,1\nb,nan\n", "must hold finite numbers, got nan in row 1"),
        (Format.CSV, b"node\na\n", "must be node, once, and at least one of numbers"),
        (Format.CSV, b"x,y\n1,2\n", "must be node, once, and at least one of numbers"),
        (Format.CSV, b"node,x,x\na,1,2\n", "each of another name; they are node, x, x"),
        (Format.CSV, b"node,x,y\na,1,2\nb,1\n", "in row 1 (rows count from 0)"),
        (Format.NDJSON, b'{"node":"a","features":[1]}\n{"node":"b"}', "with node, features, as"),
        (
            Format.NDJSON,
            b'{"node":"a","features":[1]}\n{"node":"b","indices":[1],"values":[1]}',
            "a row must be an object with node, features, as the first one",
        ),
        (Format.NDJSON, b'{"node":"a","features":[1,"x"]}', "'features' must be a list of numbers"),
        (Format.NDJSON, b'{"node":"a","features":[true]}', "'features' must be a list of numbers"),
        (Format.NDJSON, b'{"node":"a","features":[null]}', "must not hold null, got null in row 0"),
        (Format.NDJSON, b'{"node":"a","features":7}', "'features' must be a list of numbers"),
        (Format.NDJSON, b'{"node":1,"features":[1]}', "'node' must be a string in this graph"),
        (Format.NDJSON, b'{"node":"a","features":[1]', "every line must be one JSON object"),
        (
            Format.NDJSON,
            b'{"node":"a","indices":[1.5],"values":[1]}',
            "'indices' must be a list of 64-bit integers",
        ),
        (
            Format.NDJSON,
            b'{"node":"a","indices":[99999999999999999999],"values":[1]}',
            "'indices' must be a list of 64-bit integers",
        ),
        (Format.PARQUET, b"PAR1 and no more", "must be a Parquet file"),
        (Format.PARQUET, as_parquet(dense_table(NAMES))[:-9], "must be a Parquet file"),
        (Format.ARROW, as_arrow(dense_table(NAMES))[:-40], "breaks off or is damaged"),
        (Format.ARROW, as_arrow(dense_table([1, 2, 3])), "'node' must hold strings in this graph"),
    ],
)
def test_what_is_no_table_of_features_is_named(
    table_format: Format, body: bytes, message: str
) -> None:
    with pytest.raises((BadUpload, BadFeatures), match=re.escape(message)):
        list(table_blocks(graph_of(), io.BytesIO(body), table_format))


@pytest.mark.parametrize("table_format", Format)
@pytest.mark.parametrize("kind", ["string", "int64"])
def test_rows_without_a_node_are_refused_by_the_name_of_the_column_or_left_out(
    table_format: Format, kind: NodeKind
) -> None:
    ids = pa.array(["3", None, "4"]).cast(pa.string() if kind == "string" else pa.int64())
    body = WRITERS[table_format](dense_table(ids))
    if table_format is Format.CSV:
        body = body.replace(b"None", b"").replace(b"node", b"person")
    column = "person" if table_format is Format.CSV else "node"
    message = f"column '{column}' must name a node in every row, and 1 of the"
    with pytest.raises(BadFeatures, match=message) as raised:
        list(table_blocks(graph_of(kind), io.BytesIO(body), table_format, node=column))
    assert raised.value.row == 1
    wishes = ColumnWishes(missing_ids="leave-out")
    opened = io.BytesIO(body)
    blocks = list(table_blocks(graph_of(kind), opened, table_format, node=column, wishes=wishes))
    nodes, values = joined(blocks)
    assert (list(map(str, nodes)), sum(each.n_left_out for each in blocks)) == (["3", "4"], 1)
    np.testing.assert_array_equal(values, VALUES[[0, 2]])
    assert blocks[-1].first_row + blocks[-1].n_rows == 2


def test_a_fault_below_a_row_that_is_left_out_has_its_own_row() -> None:
    wishes = ColumnWishes(missing_ids="leave-out")
    body = io.BytesIO(b"node,x\na,1\n,2\n" + b"b" * (MAX_NODE_BYTES + 1) + b",3\n")
    with pytest.raises(BadFeatures, match="must hold strings of at most") as raised:
        list(table_blocks(graph_of(), body, Format.CSV, wishes=wishes))
    assert raised.value.row == 2


def test_rows_that_change_their_length_between_batches_are_named() -> None:
    table = pa.table({"node": NAMES, "features": [[1.0, 2.0], [1.0, 2.0], [1.0]]})
    with pytest.raises(BadFeatures, match="must hold 2 numbers in every row") as raised:
        list(table_blocks(graph_of(), io.BytesIO(as_arrow(table)), Format.ARROW))
    assert (raised.value.row, raised.value.value) == (2, "1")


# Files


def test_files_of_several_formats_are_one_set(tmp_path: Path) -> None:
    for name, table_format in [("1.parquet", Format.PARQUET), ("2.csv", Format.CSV)]:
        named = dense_table([f"{name}{each}" for each in NAMES])
        (tmp_path / name).write_bytes(WRITERS[table_format](named))
    paths = [tmp_path / "1.parquet", tmp_path / "2.csv"]
    blocks = list(path_blocks(graph_of(), paths))
    nodes, values = joined(blocks)
    assert nodes == [f"{path.name}{each}" for path in paths for each in NAMES]
    np.testing.assert_array_equal(values, np.vstack([VALUES, VALUES]))
    assert blocks[-1].first_row == 3
    assert (n_rows_known(paths), n_rows_known(paths[:1])) == (None, 3)


def test_blanks_around_nodes_of_text_that_does_not_quote_are_nothing() -> None:
    content = io.BytesIO(b"node, x, y\n a, 1, 2\nb , 3, 4\n")
    nodes, values = joined(list(table_blocks(graph_of(), content, Format.CSV)))
    assert (nodes, values.tolist()) == (["a", "b"], [[1, 2], [3, 4]])


def test_files_behind_one_another_are_no_set(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    path.write_bytes(2 * as_parquet(dense_table(NAMES)))
    with pytest.raises(BadFeatures, match="several, one after the other"):
        list(path_blocks(graph_of(), [path]))


def test_a_fault_names_the_file_and_its_row(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("node,x\na,1\n")
    (tmp_path / "2.csv").write_text("node,x\nb,1\nc,inf\n")
    with pytest.raises(BadFeatures, match=r"^2\.csv: .*finite numbers, got inf in row 1"):
        list(path_blocks(graph_of(), [tmp_path / "1.csv", tmp_path / "2.csv"]))


def test_columns_of_the_csv_files_of_a_set_are_matched_by_name(tmp_path: Path) -> None:
    paths = [tmp_path / "1.csv", tmp_path / "2.csv"]
    paths[0].write_text("node,x,y\na,1,2\n")
    paths[1].write_text("x,node,y\n3,b,4\n")
    _, values = joined(list(path_blocks(graph_of(), paths)))
    np.testing.assert_array_equal(values, [[1, 2], [3, 4]])
    paths[1].write_text("node,y,x\nb,4,3\n")
    _, values = joined(list(path_blocks(graph_of(), paths)))
    np.testing.assert_array_equal(values, [[1, 2], [3, 4]])
    paths[1].write_text("node,y,z,x\nb,4,5,3\n")
    message = re.escape("2.csv: columns of features must have the names of those before")
    with pytest.raises(BadFeatures, match=message):
        list(path_blocks(graph_of(), paths))


@pytest.mark.parametrize("kind", ["int64", "dense"])
def test_row_i_of_a_matrix_is_that_of_node_i(tmp_path: Path, kind: NodeKind) -> None:
    rng = np.random.default_rng(0)
    rows = sp.csr_array(sp.random_array((40, 9), density=0.3, rng=rng))
    for matrix in (rows, sp.coo_array(rows), sp.csr_array(rows.toarray()[:, :8] > 0)):
        sp.save_npz(tmp_path / "rows.npz", matrix)
        nodes, values = joined(list(path_blocks(graph_of(kind), [tmp_path / "rows.npz"])))
        assert nodes == list(range(40))
        np.testing.assert_array_equal(values, matrix.toarray().astype(np.float32))
    dump_svmlight_file(rows, np.ones(40), str(tmp_path / "rows"), zero_based=False)
    blocks = list(path_blocks(graph_of(kind), [tmp_path / "rows"], is_libsvm=True))
    nodes, values = joined(blocks)
    np.testing.assert_allclose(values, rows.toarray()[:, : values.shape[1]], rtol=1e-6)


@pytest.mark.parametrize("zero_based", [False, True])
def test_columns_of_libsvm_text_count_from_one_unless_told_otherwise(
    tmp_path: Path, zero_based: bool
) -> None:
    path = tmp_path / "rows"
    path.write_text("1 2:0.5\n1 3:1.5\n")
    blocks = path_blocks(graph_of("dense"), [path], is_libsvm=True, zero_based=zero_based)
    _, values = joined(list(blocks))
    expected = np.array([[0.0, 0.5, 0.0], [0.0, 0.0, 1.5]])
    np.testing.assert_array_equal(values, np.pad(expected, ((0, 0), (int(zero_based), 0))))
    path.write_text("1 2:0.5\n1 0:1.5\n")
    blocks = path_blocks(graph_of("dense"), [path], is_libsvm=True, zero_based=zero_based)
    if zero_based:
        assert joined(list(blocks))[1].shape == (2, 3)
    else:
        with pytest.raises(BadFeatures, match=r"must count from 1; say --zero-based .* in row 1"):
            list(blocks)


class Touching:
    """Makes a file as soon as somebody unpickles it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_a_pickled_matrix_is_refused_and_not_unpickled(tmp_path: Path) -> None:
    path, touched = tmp_path / "rows.npz", tmp_path / "touched"
    objects = np.array([Touching(touched)], dtype=object)
    parts = {"format": np.array(b"csr"), "shape": np.array([1, 1])}
    np.savez(path, data=objects, indices=[0], indptr=[0, 1], **parts, allow_pickle=True)
    for read in (lambda: list(path_blocks(graph_of("dense"), [path])), lambda: point_rows(path)):
        with pytest.raises(BadFeatures, match=r"must be one of scipy\.sparse\.save_npz"):
            read()
    assert not touched.exists()
    with np.load(path, allow_pickle=True) as loaded:
        loaded["data"]
    assert touched.exists()


def test_what_is_no_matrix_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.npz"
    sp.save_npz(path, sp.csr_array(np.eye(3)))
    with pytest.raises(
        BadFeatures, match=r"rows\.npz: row i of a matrix is that of node i.*string"
    ):
        list(path_blocks(graph_of("string"), [path]))
    with pytest.raises(ValueError, match="a matrix must be the only file of a set, got 2 files"):
        list(path_blocks(graph_of("dense"), [path, path]))
    sp.save_npz(path, sp.csr_array([[1.0, np.nan]]))
    with pytest.raises(BadFeatures, match="must hold finite numbers, got nan in row 0"):
        list(path_blocks(graph_of("dense"), [path]))
    sp.save_npz(path, sp.csr_array([[1j]]))
    with pytest.raises(BadFeatures, match="must be real numbers, got dtype complex128"):
        list(path_blocks(graph_of("dense"), [path]))
    sp.save_npz(path, sp.csr_array((2_000, 1)))
    with pytest.raises(BadFeatures, match=r"'node' must lie in \[0, 999\], got 1000 in row 1000"):
        list(path_blocks(graph_of("dense"), [path]))
    np.savez(path, values=np.ones(3))
    with pytest.raises(BadFeatures, match=r"must be one of scipy\.sparse\.save_npz"):
        list(path_blocks(graph_of("dense"), [path]))
    path.write_bytes(b"no zip")
    with pytest.raises(BadFeatures, match=r"must be one of scipy\.sparse\.save_npz"):
        list(path_blocks(graph_of("dense"), [path]))
    path.write_text("1 1:0.5\nnot libsvm\n")
    with pytest.raises(BadFeatures, match="must be libsvm text"):
        list(path_blocks(graph_of("dense"), [path], is_libsvm=True))


@pytest.mark.parametrize("held_bytes", [1 << 26, 0])  # in memory, and parted on the disk
def test_tables_of_the_same_nodes_are_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held_bytes: int
) -> None:
    monkeypatch.setattr(joined_features, "_HELD_BYTES", held_bytes)
    ages = {f"account:{k}": f"{k % 70}" if k % 5 else "" for k in range(0, 900, 2)}
    pays = {
        f"account:{k}": {"age": k / 2, "node": None if k % 7 else True} for k in range(0, 900, 3)
    }
    os = {f"device:{k}": "ios" for k in range(40)}
    paths = [tmp_path / name for name in ("accounts.csv", "pay.day.parquet", "devices.ndjson")]
    lines = [f"{node.split(':')[1]},{age}" for node, age in ages.items()]
    paths[0].write_text("\n".join(["id,age", *lines]))
    columns = {name: [each[name] for each in pays.values()] for name in ("age", "node")}
    numbers = {"account": [int(node.split(":")[1]) for node in pays]}
    pq.write_table(pa.table(numbers | columns), paths[1], row_group_size=50)
    rows = [
        f'{{"device": {node.split(":")[1]}, "os": "{each}", "x": []}}' for node, each in os.items()
    ]
    paths[2].write_text("\n".join(rows))
    kinds = ("account:id", "account:account", "device:device")
    tables = [NodeTable(path=path, node=node) for path, node in zip(paths, kinds, strict=True)]
    target = tmp_path / "joined.arrow"
    join_tables(tables, target, node_kind="typed", max_nodes=9_000)
    with target.open("rb") as file:
        made = {row.pop("node"): row for row in pa.ipc.open_stream(file).read_all().to_pylist()}
    lacks = {"age": None, "node": None}
    assert made == {
        node: {
            "accounts.age": ages.get(node),
            "pay.age": pays.get(node, lacks)["age"],
            "pay.node": pays.get(node, lacks)["node"],
            "os": os.get(node),
            "x": None,
        }
        for node in {**ages, **pays, **os}
    }
    paths[0].write_text("id,age\n3,1\n3,2\n")
    with pytest.raises(BadFeatures, match=r"accounts.csv: column 'id' must .* 'account:3' several"):
        join_tables(tables, target, node_kind="typed", max_nodes=9_000)
    pq.write_table(pa.table({"account": [1], "features": [[1.0]]}), paths[1])
    with pytest.raises(BadFeatures, match=r"day.parquet: column 'features' must not hold lists"):
        join_tables(tables[1:], target, node_kind="typed", max_nodes=9_000)


def test_columns_of_a_join_bear_the_name_of_their_file_where_they_must() -> None:
    assert joined_names([("a.csv", ["x", "y"]), ("a.parquet", ["x", "z"])]) == [
        {"x": "a1.x", "y": "y"},
        {"x": "a2.x", "z": "z"},
    ]
