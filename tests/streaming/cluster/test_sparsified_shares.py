"""Shares without a cluster: where they end, and that they equal what the stream would do."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peewit.streaming.cluster import sparsified_shares
from peewit.streaming.cluster.sparsified_shares import (
    CodedShare,
    Share,
    ShareSettings,
    absorb_group,
    code_share,
    cut_shares,
    distinct_ids,
    first_row_of,
    index_in_memory,
    merge_shares,
    sparsify_coded,
    sparsify_dense,
)
from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.parts import Part, StagedFile
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.edges.staging import stage
from peewit.streaming.sparsifier.merge_tree import leaf, without_embedding
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings, SparsifierState
from tests.streaming.graphs import EdgeList, random_graph

N_NODES = 300
FRESH = SparsifierState()


def settings(kind: NodeKind = "dense", **changes: int) -> ShareSettings:
    values = {"max_nodes": 10_000, "group_blocks": 2} | changes
    sparsifier = SparsifierSettings(epsilon=0.9, seed=3, expected_nodes=N_NODES)
    return ShareSettings(node_kind=kind, sparsifier=sparsifier, **values)


def name_of(node: int) -> str:
    return f"node {node}"


def staged_edges(path: Path, edges: EdgeList, kind: NodeKind, part_rows: int = 4000) -> StagedFile:
    sides = [
        pa.array([name_of(node) for node in side] if kind == "string" else side)
        for side in (edges.u, edges.v)
    ]
    table = pa.table({"src": sides[0], "dst": sides[1], "weight": edges.weight})
    pq.write_table(table, path, row_group_size=2 * part_rows)
    return stage(EdgeFiles(path).list()[0], path.parent, part_rows=part_rows)


def part(number: int, skipped_rows: int, n_rows: int) -> Part:
    return Part(
        number=number,
        row_group=0,
        n_groups=1,
        skipped_rows=skipped_rows,
        is_slice=True,
        first_row=0,
        n_rows=n_rows,
        n_bytes=1,
    )


@st.composite
def part_lists(draw: st.DrawFn) -> list[Part]:
    """Row groups of several slices of 100 rows."""
    counts = draw(st.lists(st.integers(1, 12), max_size=10))
    rows = [100 * slice_number for count in counts for slice_number in range(count)]
    return [part(number, skipped, 100) for number, skipped in enumerate(rows)]


@given(parts=part_lists(), share_blocks=st.integers(1, 5))
def test_shares_hold_every_part_in_order_and_end_with_row_groups(
    parts: list[Part], share_blocks: int
) -> None:
    shares = cut_shares(parts, share_blocks=share_blocks)
    assert [number for share in shares for number in share] == parts
    for share, following in pairwise(shares):
        assert len(share) >= share_blocks
        assert following[0].skipped_rows == 0
    for share in shares:
        # no longer than it must be: it could not have ended at an earlier row group
        starts = [at for at, piece in enumerate(share) if at and piece.skipped_rows == 0]
        assert all(at < share_blocks for at in starts)


def test_a_row_group_beyond_bounds_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparsified_shares, "SHARE_ROWS", 500)
    parts = [part(number, 100 * number, 100) for number in range(23)]
    assert [len(share) for share in cut_shares(parts, share_blocks=2)] == [5, 5, 5, 5, 3]
    assert [len(share) for share in cut_shares(parts, share_blocks=8)] == [8, 8, 7]


@pytest.mark.parametrize("kind", ["dense", "string"])
@pytest.mark.parametrize("is_warm", [False, True])
def test_a_share_is_what_the_stream_would_make_of_its_blocks(
    tmp_path: Path, kind: NodeKind, is_warm: bool
) -> None:
    edges = random_graph(N_NODES, 0.9, 0)
    start = FRESH
    if is_warm:  # an embedding from elsewhere
        [block] = random_graph(N_NODES, 0.9, 1).blocks(1)
        start = absorb_group(FRESH, settings().sparsifier, [block], n_nodes=N_NODES)
        assert start.cards.n_nodes == N_NODES
    warm = leaf(start, first_block=40)
    with staged_edges(tmp_path / "a.parquet", edges, kind) as staged:
        share = Share(staged=staged, parts=staged.parts, first_block=40)
        if kind == "dense":
            found = sparsify_dense(share, settings(), without_embedding(warm), warm.cards)
        else:
            coded = code_share(share, settings(kind))
            assert isinstance(coded, CodedShare)
            # numbered as if the names had been dense ids from the start
            numbers = np.array([int(name.split()[1]) for name in coded.ids.to_pylist()], np.int32)
            found = sparsify_coded(
                coded, numbers, N_NODES, settings(), without_embedding(warm), warm.cards
            )
    assert isinstance(found, SparsifierState)
    expected = warm
    parts = [slice(at, at + 4000) for at in range(0, edges.n_edges, 4000)]
    whole = edges.blocks(1)[0]
    blocks = [
        replace(whole, u=whole.u[rows], v=whole.v[rows], weight=whole.weight[rows])
        for rows in parts
    ]
    for at in range(0, len(blocks), 2):
        group = [replace(block, n_rows=block.u.size) for block in blocks[at : at + 2]]
        expected = absorb_group(expected, settings().sparsifier, group, n_nodes=N_NODES)
    assert np.array_equal(found.records.key, expected.records.key)
    assert np.array_equal(found.records.keep_probability, expected.records.keep_probability)
    assert found.n_records < edges.n_edges
    assert found.n_rows_seen == edges.n_edges
    assert found.n_blocks == 40 + len(parts)
    # what was sent is not sent back
    assert found.cards.n_nodes == (0 if expected.n_resparsifications == 0 else N_NODES)


@pytest.mark.parametrize("kind", ["string", "int64"])
@pytest.mark.parametrize("n_nodes", [7, 8])
def test_distinct_ids_mapped_in_pairs_get_the_numbers_of_their_rows(
    tmp_path: Path, kind: NodeKind, n_nodes: int
) -> None:
    edges = random_graph(n_nodes, 1.0, 0)
    with staged_edges(tmp_path / "a.parquet", edges, kind, part_rows=5) as staged:
        coded = code_share(Share(staged=staged, parts=staged.parts, first_block=0), settings(kind))
    assert isinstance(coded, CodedShare)
    even, odd = distinct_ids(coded)
    index = index_in_memory(kind, hash_seed=9)
    u, v = index.map(even, odd)
    assert np.column_stack([u, v]).ravel()[:n_nodes].tolist() == list(range(n_nodes))
    assert index.n_nodes == n_nodes
    appearance = dict.fromkeys(np.column_stack([edges.u, edges.v]).ravel().tolist())
    names = [name_of(node) if kind == "string" else node for node in appearance]
    assert coded.ids.to_pylist() == names
    assert index.external_ids().to_pylist() == names


def test_the_first_row_of_an_id_is_found_on_either_side(tmp_path: Path) -> None:
    edges = EdgeList(
        u=np.array([0, 1, 2, 5, 3]), v=np.array([1, 2, 5, 0, 4]), weight=np.ones(5), n_nodes=6
    )
    with staged_edges(tmp_path / "a.parquet", edges, "string", part_rows=2) as staged:
        share = Share(staged=staged, parts=staged.parts, first_block=0)
        rows = [first_row_of(share, settings("string"), pa.scalar(name_of(at))) for at in range(6)]
        assert rows == [0, 0, 1, 4, 4, 2]
        with pytest.raises(ValueError, match="node must stand in the share, got nobody"):
            first_row_of(share, settings("string"), pa.scalar("nobody"))


@pytest.mark.parametrize("kind", ["dense", "string"])
def test_a_fault_is_a_value_and_the_earliest_wins(tmp_path: Path, kind: NodeKind) -> None:
    edges = random_graph(60, 0.9, 0)
    edges.weight[[700, 900]] = np.nan
    found = []
    with staged_edges(tmp_path / "a.parquet", edges, kind, part_rows=400) as staged:
        for at in range(len(staged.parts)):
            share = Share(staged=staged, parts=staged.parts[at : at + 1], first_block=at)
            if kind == "dense":
                start = without_embedding(leaf(FRESH, first_block=at))
                found.append(sparsify_dense(share, settings(), start, FRESH.cards))
            else:
                coded = code_share(share, settings(kind))
                assert (distinct_ids(coded) is coded) == isinstance(coded, BadEdges)
                found.append(coded if isinstance(coded, BadEdges) else FRESH)
    faults = [result for result in found if isinstance(result, BadEdges)]
    assert [fault.row for fault in faults] == [700, 900]
    state = merge_shares(FRESH, FRESH, settings().sparsifier)
    assert isinstance(state, SparsifierState)
    for a, b in ((FRESH, faults[0]), (faults[0], FRESH), (faults[0], faults[1])):
        assert merge_shares(a, b, settings().sparsifier) is faults[0]


def test_threads_that_score_do_not_matter() -> None:
    blocks = random_graph(N_NODES, 0.9, 0).blocks(6)
    start = absorb_group(FRESH, settings().sparsifier, blocks[:2], n_nodes=N_NODES)
    with ThreadPoolExecutor(2) as pool:
        one, two = (
            absorb_group(
                start, settings().sparsifier, blocks[2:], n_nodes=N_NODES, parallel=parallel
            )
            for parallel in (map, pool.map)
        )
    assert np.array_equal(one.records.key, two.records.key)
