"""Counts of relations against counters of the very rows, where edges also leave and expire."""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.solvers.graph import Graph
from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.edges.windows import Window
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.passes.raw_edge_passes import RawEdgesGone
from peewit.streaming.passes.relation_counts import (
    CountsStore,
    count_arcs_of,
    most_among_neighbors,
    n_partners,
)
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.provenance import SnapshotMeta
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings

MOST = "most partners of a partner"
N_NODES = 40


def rows(seed: int, n_rows: int = 600) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    src = rng.zipf(1.7, n_rows) % N_NODES
    return {
        "src": src,
        "dst": rng.integers(0, N_NODES, n_rows),
        "weight": rng.integers(1, 4, n_rows).astype(float),
    }


def ingest(root: Path, tables: dict[str, pa.Table], **settings: Any) -> GraphPaths:
    """A graph of a file for each relation."""
    paths = GraphPaths(root=root / "graph")
    made = StreamSettings(
        node_kind="dense",
        sparsifier=SparsifierSettings(max_edges=200, expected_nodes=N_NODES, seed=0),
        max_part_rows=1 << 12,
        **settings,
    )
    for name, table in tables.items():
        path = root / f"{name}.parquet"
        pq.write_table(table, path, row_group_size=150)
        time = {"time": "time", "time_unit": "s"} if "time" in table.column_names else {}
        op = {"op": "op"} if "op" in table.column_names else {}
        columns = EdgeColumns(relation=name.rstrip("0123456789"), **time, **op)
        Stream(paths, made).ingest(EdgeFiles(path, columns=columns).list())
    return paths


def newest(paths: GraphPaths) -> SnapshotMeta:
    meta = SnapshotStore(paths.snapshots).newest()
    assert meta is not None
    return meta


def expected(arcs: list[tuple[int, int, float]]) -> dict[str, np.ndarray]:
    sums: dict[str, np.ndarray] = {way: np.zeros(N_NODES) for way in ("sent", "received")}
    partners: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for u, v, weight in arcs:
        if u == v:
            continue
        sums["sent"][u] += weight
        sums["received"][v] += weight
        for way, own, other in (("sent_to", u, v), ("heard_from", v, u)):
            partners[way][own].add(other)
            partners["partners"][own].add(other)
    for way, of in partners.items():
        sums[way] = np.array([len(of[node]) for node in range(N_NODES)], float)
    return sums


def check(paths: GraphPaths, relation: str, arcs: list[tuple[int, int, float]]) -> None:
    counts = CountsStore(paths).open()
    assert counts is not None
    for way, values in expected(arcs).items():
        found = counts.columns[relation, way]
        if way in {"sent", "received"}:
            np.testing.assert_allclose(found, values[: found.size])
        else:  # 40 nodes on 64 bits
            assert ((found > 0) == (values[: found.size] > 0)).all()
            assert np.abs(found - values[: found.size]).max() <= 14
            assert np.corrcoef(found, values[: found.size])[0, 1] > 0.95


def listed(table: dict[str, np.ndarray]) -> list[tuple[int, int, float]]:
    return list(zip(*(table[name].tolist() for name in ("src", "dst", "weight")), strict=True))


@pytest.mark.parametrize("n_threads", [1, 3])
def test_counts_are_those_of_all_rows_though_few_edges_are_kept(
    tmp_path: Path, n_threads: int
) -> None:
    tables = {"message": rows(0), "card": rows(1, 300)}
    paths = ingest(tmp_path, {name: pa.table(each) for name, each in tables.items()})
    meta = newest(paths)
    assert meta.edges_kept < 500
    count_arcs_of(paths, meta, attempt="a-1", keep_raw=False, n_threads=n_threads)
    assert [each.name for each in paths.counts.iterdir()] == ["counts.arrow"]
    for name, table in tables.items():
        check(paths, name, listed(table))


def test_counts_follow_deletes_and_the_window(tmp_path: Path) -> None:
    first = rows(2) | {"op": np.array(["insert"] * 600), "time": np.repeat([10, 500], 300)}
    gone = {name: first[name][300:350] for name in ("dst", "src", "weight")}
    pairs = {frozenset(pair) for pair in zip(gone["src"], gone["dst"], strict=True)}
    second = {
        "src": np.append(gone["dst"], 0),  # a pair leaves whichever end is named first
        "dst": np.append(gone["src"], 1),
        "weight": np.ones(51),
        "op": np.array([*["delete"] * 50, "insert"]),
        "time": np.full(51, 990),
    }
    paths = ingest(
        tmp_path,
        {"message1": pa.table(first), "message2": pa.table(second)},
        deletions="exact",
        window=Window(length=600.0, width=100.0, allowed_ahead=1e9, time_unit="s"),
    )
    meta = newest(paths)
    count_arcs_of(paths, meta, attempt="a-1", keep_raw=True)
    lives = [
        arc for arc in listed(first)[300:] if frozenset(arc[:2]) not in pairs and arc[0] != arc[1]
    ]
    check(paths, "message", [*lives, (0, 1, 1.0)])


def test_directions_count_apart_where_a_node_is_at_both_ends(tmp_path: Path) -> None:
    message, card = rows(3), rows(4)
    card["src"], card["dst"] = card["src"] % 20, 20 + card["dst"] % 20
    paths = ingest(tmp_path, {"message": pa.table(message), "card": pa.table(card)})
    meta = newest(paths)
    counts = count_arcs_of(paths, meta, attempt="a-1", keep_raw=True)
    said = "sent", "received", "sent to", "heard from"
    unsaid = "out", "in", "partners out", "partners in"
    found = []
    for directed, ways in ((["message"], said), ([], unsaid)):
        of_card = "card edges", "card partners", f"card {MOST}"
        of_message = (*(f"message {way}" for way in ways),)
        assert counts.names(directed) == of_message + of_card
        found.append(counts.rows(directed, np.arange(meta.n_nodes + 2)))
    np.testing.assert_array_equal(*found)
    columns = found[0]
    sent = expected(listed(message))["sent"]
    np.testing.assert_allclose(np.expm1(columns[: meta.n_nodes, 0]), sent, rtol=1e-4)
    assert not columns[meta.n_nodes :].any()  # nodes that have come since
    both = counts.columns["card", "sent"] + counts.columns["card", "received"]
    np.testing.assert_allclose(np.expm1(columns[: meta.n_nodes, 4]), both, rtol=1e-4)
    some = np.array([3, 7, meta.n_nodes])
    np.testing.assert_array_equal(counts.rows([], some), columns[some])
    assert counts.names(["card"])[4:] == tuple(f"card {way}" for way in said)


def test_the_most_partners_of_a_partner_are_those_of_the_edges_kept() -> None:
    """Two accounts share a device; a third has one of its own, a fourth none."""
    graph = Graph.from_edges([0, 1, 1, 2], [4, 4, 5, 6], [1.0, 9.0, 1.0, 1.0], n_nodes=8)
    partners = np.array([1, 2, 1, 0, 2, 1, 1, 0], float)
    assert most_among_neighbors(graph, partners).tolist() == [2, 2, 1, 0, 2, 2, 1, 0]


def test_counts_serve_until_a_tenth_has_come(tmp_path: Path) -> None:
    paths = ingest(tmp_path, {"message1": pa.table(rows(5))})
    made = count_arcs_of(paths, newest(paths), attempt="a-1", keep_raw=True).meta
    assert made.serves(newest(paths))
    ingest(tmp_path, {"message2": pa.table(rows(6, 50))})
    assert made.serves(newest(paths))
    ingest(tmp_path, {"message3": pa.table(rows(7, 50))})
    assert not made.serves(newest(paths))
    ingest(tmp_path, {"card": pa.table(rows(8, 1))})
    assert not made.serves(newest(paths))


def test_counts_of_files_that_have_left_serve_no_more(tmp_path: Path) -> None:
    """However many edges came in their place."""
    tables = {f"message{number}": pa.table(rows(5 + number, 50)) for number in (1, 2)}
    paths = ingest(tmp_path, tables, deletions="exact")
    made = count_arcs_of(paths, newest(paths), attempt="a-1", keep_raw=True).meta
    assert made.serves(newest(paths))
    later = replace(newest(paths), n_removed_files=1)
    assert not made.serves(later)
    assert not made.serves(replace(newest(paths), n_erased=1))


def test_files_that_are_gone_are_named_and_leave_nothing(tmp_path: Path) -> None:
    paths = ingest(tmp_path, {"message": pa.table(rows(9))})
    (tmp_path / "message.parquet").unlink()
    with pytest.raises(RawEdgesGone, match=r"message\.parquet: it is missing"):
        count_arcs_of(paths, newest(paths), attempt="a-1", keep_raw=True)
    assert list(paths.counts.iterdir()) == []
    assert CountsStore(paths).open() is None


def test_partners_are_estimated_within_a_tenth() -> None:
    rng = np.random.default_rng(0)
    for n, most in ((1, 0.02), (8, 0.15), (40, 0.1), (120, 0.1)):
        bits = np.bitwise_or.reduce(np.uint64(1) << rng.integers(0, 64, (n, 400), np.uint64))
        assert abs(n_partners(bits).mean() / n - 1) < most
    assert n_partners(np.array([0, 2**64 - 1], np.uint64)).round().tolist() == [0, 311]
