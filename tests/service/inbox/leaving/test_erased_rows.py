"""Rows of erased nodes leave blocks of edges and sets of features, and no others do."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from peewit.service.inbox.leaving.erased_rows import erase_from_block, erase_from_set, without_nodes

WHO = pa.array(["gone-for-good"], pa.large_string())
EDGES = pa.table(
    {
        "src": pa.array(["a", "gone-for-good", "b", "c"], pa.large_string()),
        "dst": pa.array(["b", "a", "gone-for-good", "a"], pa.large_string()),
        "weight": pa.array([1, 2, 3, 4], pa.float32()),
    }
).replace_schema_metadata({"peewit.push": "name"})


def as_stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def test_a_stream_keeps_its_other_rows_and_its_schema() -> None:
    left, n_rows = without_nodes(as_stream(EDGES), WHO)
    assert n_rows == 2
    assert pa.ipc.open_stream(left).read_all().equals(EDGES.take([0, 3]), check_metadata=True)
    assert b"gone-for-good" not in left
    assert without_nodes(left, WHO) == (left, 2)


def test_a_file_keeps_its_other_rows_and_what_it_says_of_itself(tmp_path: Path) -> None:
    path = tmp_path / "block.parquet"
    pq.write_table(EDGES, path, row_group_size=2)
    assert erase_from_block(path, WHO) == 2
    assert b"gone-for-good" not in path.read_bytes(), "not in its statistics either"
    left = pq.read_table(path)
    assert left.to_pylist() == EDGES.take([0, 3]).to_pylist()
    assert left.schema.metadata[b"peewit.push"] == b"name"
    written = path.stat().st_mtime_ns
    assert erase_from_block(path, WHO) is None
    assert path.stat().st_mtime_ns == written
    assert erase_from_block(tmp_path / "none.parquet", WHO) is None


def test_a_set_keeps_its_other_rows(tmp_path: Path) -> None:
    path = tmp_path / "set.arrow"
    nodes = pa.array(["a", "gone-for-good", "b"], pa.large_string())
    rows = pa.FixedSizeListArray.from_arrays(pa.array([1, 2, 3, 4, 5, 6], pa.float32()), 2)
    table = pa.table({"node": nodes, "features": rows})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    assert erase_from_set(path, WHO) == 2
    assert b"gone-for-good" not in path.read_bytes()
    with pa.memory_map(str(path)) as source:
        assert pa.ipc.open_file(source).read_all().to_pylist() == table.take([0, 2]).to_pylist()
    assert erase_from_set(path, WHO) is None
    assert erase_from_set(tmp_path / "none.arrow", WHO) is None
