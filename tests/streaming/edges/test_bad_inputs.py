"""Every rule of the data contract, broken in a file among good ones: what is said, what is kept."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.json_tables import json_batch
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.events import Committed, IngestEvent, Quarantined
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.nodes.index import open_nodes
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings

N_ROWS, BAD_ROW, MAX_NODES = 3_000, 2_345, 500
ID_TYPES: dict[NodeKind, pa.DataType] = {
    "string": pa.string(),
    "int64": pa.int64(),
    "dense": pa.int32(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """A file that must be quarantined, and what must be said of it."""

    content: pa.Table | bytes
    reason: str
    row: int | None = None
    value: str | None = None


def ids(kind: NodeKind, seed: int) -> pa.Array:
    numbers = np.random.default_rng(seed).integers(0, 90, N_ROWS)
    return pa.array(numbers).cast(ID_TYPES[kind])


def edges(kind: NodeKind, seed: int) -> pa.Table:
    weight = np.random.default_rng(seed + 50).uniform(0.5, 2.0, N_ROWS).astype(np.float32)
    return pa.table({"src": ids(kind, seed), "dst": ids(kind, seed + 1), "weight": weight})


def with_column(table: pa.Table, name: str, column: Any) -> pa.Table:
    return table.set_column(table.schema.names.index(name), name, column)


def replaced(column: pa.ChunkedArray, value: Any, column_type: pa.DataType) -> pa.Array:
    values = column.to_pylist()
    values[BAD_ROW] = value
    return pa.array(values, column_type)


def not_utf8() -> pa.Array:
    raw = pa.array([b"\xff" if row == BAD_ROW else b"a" for row in range(N_ROWS)], pa.binary())
    return pa.Array.from_buffers(pa.string(), N_ROWS, raw.buffers())


def parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=1_000, write_page_checksum=True)
    return sink.getvalue().to_pybytes()


def damaged(table: pa.Table) -> bytes:
    content = bytearray(parquet(table))
    chunk = pq.ParquetFile(pa.BufferReader(bytes(content))).metadata.row_group(2).column(2)
    content[chunk.dictionary_page_offset + chunk.total_compressed_size // 2] ^= 0xFF
    return bytes(content)


def bad_weights(good: pa.Table) -> dict[str, Bad]:
    rule = "column 'weight' must be finite and >= 0"
    values = {"nan": np.nan, "inf": np.inf, "minus-inf": -np.inf, "negative": -1.5}
    bad = {
        f"{name}-{width}": Bad(
            content=with_column(good, "weight", replaced(good["weight"], value, width)),
            reason=rule,
            row=BAD_ROW,
            value=str(value),
        )
        for name, value in values.items()
        for width in (pa.float32(), pa.float64())
    }
    for name, value, why in (
        ("too-large", 1e60, ""),
        ("too-small", 1e-60, ", where so little is 0"),
    ):
        bad[name] = Bad(
            content=with_column(good, "weight", replaced(good["weight"], value, pa.float64())),
            reason=f"{rule} as a 32-bit float{why}",
            row=BAD_ROW,
            value=str(value),
        )
    bad["null-weight"] = Bad(
        content=with_column(good, "weight", replaced(good["weight"], None, pa.float32())),
        reason="column 'weight' must not be null",
        row=BAD_ROW,
        value="null",
    )
    integers = pa.array([-3 if row == BAD_ROW else 1 for row in range(N_ROWS)], pa.int16())
    bad["negative-integer"] = Bad(
        content=with_column(good, "weight", integers), reason=rule, row=BAD_ROW, value="-3"
    )
    bad["text-weight"] = Bad(
        content=with_column(good, "weight", pa.array(["1"] * N_ROWS)),
        reason="column 'weight' must hold integers, decimals or floats, got type string; "
        "make numbers of the text, as by a cast to float64",
    )
    return bad


def bad_ids(kind: NodeKind, good: pa.Table) -> dict[str, Bad]:
    bad = {}
    for name in ("src", "dst"):
        nulls = replaced(good[name], None, ID_TYPES[kind])
        bad[f"null-{name}"] = Bad(
            content=with_column(good, name, nulls),
            reason=f"column '{name}' must not be null",
            row=BAD_ROW,
            value="null",
        )
        left = [other for other in good.schema.names if other != name]
        bad[f"missing-{name}"] = Bad(
            content=good.drop_columns([name]),
            reason=f"column '{name}' is missing; the file has {', '.join(left)}; "
            "say src='COLUMN', dst='COLUMN' with the names of those that hold the ends",
        )
        wanted = "strings" if kind == "string" else "integers"
        other_type = pa.int64() if kind == "string" else pa.string()
        bad[f"other-type-{name}"] = Bad(
            content=with_column(good, name, good[name].cast(other_type)),
            reason=f"column '{name}' must hold {wanted}",
        )
        bad[f"list-{name}"] = Bad(
            content=with_column(good, name, pa.array([[1]] * N_ROWS)),
            reason=f"column '{name}' must hold {wanted}",
        )
    bad["twice"] = Bad(
        content=good.append_column("src", good["src"]),
        reason="column 'src' must stand once, the file has it 2 times",
    )
    return bad


def bad_ids_of_kind(kind: NodeKind, good: pa.Table) -> dict[str, Bad]:
    if kind == "string":
        text = with_column(good, "dst", not_utf8())
        return {"not-utf8": Bad(content=text, reason="column 'dst' must be valid", row=BAD_ROW)}
    outside = {
        "int64": [(2**63, pa.uint64())],
        "dense": [
            *((-1, pa.int8()), (-1, pa.int32()), (-1, pa.int64()), (MAX_NODES, pa.int16())),
            *((MAX_NODES, pa.int32()), (2**32 - 1, pa.uint32()), (2**40, pa.int64())),
            *((2**32, pa.int64()), (2**63, pa.uint64())),
        ],
    }[kind]
    limits = f"[0, {MAX_NODES - 1 if kind == 'dense' else 2**63 - 1}]"
    return {
        f"outside-{value}-{id_type}-{name}": Bad(
            content=with_column(good, name, replaced(good[name], value, id_type)),
            reason=f"column '{name}' must lie in {limits}",
            row=BAD_ROW,
            value=str(value),
        )
        for value, id_type in outside
        for name in ("src", "dst")
    }


def bad_files(good: pa.Table) -> dict[str, Bad]:
    content = parquet(good)
    unreadable = "is not a readable Parquet file"
    return {
        "no-bytes": Bad(content=b"", reason=unreadable),
        "text": Bad(content=b"src,dst\n1,2\n", reason=unreadable),
        "truncated": Bad(content=content[: len(content) // 2], reason=unreadable),
        "one-byte-short": Bad(content=content[:-1], reason=unreadable),
        "damaged": Bad(content=damaged(good), reason="row groups 0 to 2 of "),
    }


def ingest(root: Path, data: Path, kind: NodeKind) -> tuple[GraphPaths, list[IngestEvent]]:
    events: list[IngestEvent] = []
    settings = StreamSettings(
        node_kind=kind,
        max_nodes=MAX_NODES,
        sparsifier=SparsifierSettings(epsilon=0.9, seed=3, expected_nodes=100),
        checkpoint_seconds=1e9,
    )
    paths = GraphPaths(root=root)
    Stream(paths, settings, on_event=events.append).ingest(EdgeFiles(data).list())
    return paths, events


def graph_of(paths: GraphPaths, kind: NodeKind) -> tuple[Any, ...]:
    store = SnapshotStore(paths.snapshots)
    latest = store.latest()
    assert latest is not None
    meta = store.meta(latest)
    nodes = open_nodes(
        paths.nodes, kind=kind, n_nodes=meta.n_nodes, max_nodes=MAX_NODES, writable=False
    )
    return (
        meta.edges_seen,
        meta.left_out.self_loops,
        nodes.external_ids().to_pylist(),
        store.edges(latest).to_pydict(),
    )


@pytest.mark.parametrize("kind", ["string", "int64", "dense"])
def test_bad_files_are_quarantined_with_the_reason_and_leave_the_graph_unchanged(
    tmp_path: Path, kind: NodeKind
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    pq.write_table(edges(kind, 1), data / "a.parquet", row_group_size=1_000)
    pq.write_table(edges(kind, 2), data / "z.parquet", row_group_size=1_000)
    pq.write_table(edges(kind, 1).slice(0, 0), data / "without-rows.parquet")
    expected, _ = ingest(tmp_path / "expected", data, kind)

    good = edges(kind, 3)
    bad = bad_weights(good) | bad_ids(kind, good) | bad_ids_of_kind(kind, good) | bad_files(good)
    for name, file in bad.items():
        content = parquet(file.content) if isinstance(file.content, pa.Table) else file.content
        (data / f"{name}.parquet").write_bytes(content)
    paths, events = ingest(tmp_path / "graph", data, kind)

    said = {Path(event.file.path).stem: event for event in events if isinstance(event, Quarantined)}
    assert set(said) == set(bad)
    for name, file in bad.items():
        assert file.reason in said[name].reason, name
        assert (said[name].row, said[name].value) == (file.row, file.value), name
    committed = [
        Path(file.path).stem
        for event in events
        if isinstance(event, Committed)
        for file in event.files
    ]
    assert sorted(committed) == ["a", "without-rows", "z"]
    assert graph_of(paths, kind) == graph_of(expected, kind)


def test_an_operation_of_the_usual_name_is_no_insert_where_the_graph_has_another() -> None:
    row = {"src": "a", "dst": "b", "op": "delete"}
    columns = EdgeColumns(op="change", needs_op=False)
    with pytest.raises(BadEdges, match=r"column 'change' is missing.*say op='op'"):
        json_batch([row], "string", columns, first_row=0)
    batch = json_batch([{"src": "a", "dst": "b"}], "string", columns, first_row=0)
    assert batch.schema.names == ["src", "dst"]
