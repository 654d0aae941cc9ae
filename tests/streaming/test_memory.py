"""A limit on memory: how it is spent, when it is refused, and that streams keep to its buffer."""

import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peewit.streaming.edges.change_rules import Deletions
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.graph_stream import Stream
from peewit.streaming.memory import MemoryLimitTooSmall, plan_memory
from peewit.streaming.settings import GROUP_SHARE, StreamSettings
from peewit.streaming.sparsifier.arrivals import ARRIVAL_LANES
from peewit.streaming.sparsifier.sample_size import expected_size
from peewit.streaming.sparsifier.settings_and_state import Coins, Records, SparsifierSettings

MIB = 1 << 20


def settings(
    limit: int | None, *, kind: NodeKind = "dense", coins: Coins = "dependent", **changes: int
) -> StreamSettings:
    sparsifier = SparsifierSettings(epsilon=0.7, expected_nodes=200_000, coins=coins)
    return StreamSettings(node_kind=kind, sparsifier=sparsifier, memory_limit=limit, **changes)


def test_without_a_limit_nothing_changes() -> None:
    free = settings(None)
    assert free.within_memory(10**9) is free


@given(more=st.integers(0, 4_000), n_nodes=st.integers(0, 400_000))
def test_more_memory_means_a_larger_buffer_and_blocks_no_smaller(more: int, n_nodes: int) -> None:
    least, most = (settings(limit * MIB).within_memory(n_nodes) for limit in (1_500, 1_500 + more))
    assert least.sparsifier.buffer_edges is not None
    assert most.sparsifier.buffer_edges is not None
    assert least.sparsifier.buffer_edges <= most.sparsifier.buffer_edges
    assert least.part_rows <= most.part_rows <= settings(None).part_rows
    # nothing else is decided by the limit
    sparsifier = replace(most.sparsifier, buffer_edges=None)
    assert replace(most, sparsifier=sparsifier, max_part_rows=settings(None).max_part_rows) == (
        settings((1_500 + more) * MIB)
    )


def test_whoever_follows_the_advice_gets_there_with_hardly_more_than_needed() -> None:
    limit, plan, advice = 500 * MIB, None, list[int]()
    while plan is None:
        try:
            plan = settings(limit).within_memory(0)
        except MemoryLimitTooSmall as refused:
            told = re.search(
                r"at least ([\d,]+) bytes \((\d+)MiB\) for 200,000 nodes", str(refused)
            )
            assert told is not None
            limit = int(told[1].replace(",", ""))
            assert limit <= int(told[2]) * MIB < limit + MIB
            advice.append(limit)
    # blocks grow with the limit, so that a little more is asked for when one comes back
    assert advice[-1] < 1.1 * advice[0]
    assert len(advice) < 10
    assert plan.sparsifier.buffer_edges == pytest.approx(
        1.1 * expected_size(plan.sparsifier, 200_000), rel=0.01
    )
    with pytest.raises(MemoryLimitTooSmall):
        settings(limit - MIB).within_memory(0)


def test_dependent_coins_do_with_less_memory_and_ids_ask_for_more() -> None:
    def buffer(coins: Coins, kind: NodeKind = "dense") -> int:
        sparsifier = settings(None, coins=coins).sparsifier
        plan = plan_memory(
            4_000 * MIB, sparsifier, node_kind=kind, n_nodes=0, part_rows=8_192, blocks_in_flight=5
        )
        return plan.buffer_edges

    assert buffer("dependent") == buffer("independent")
    assert buffer("dependent", "string") < buffer("dependent")
    few = 900 * MIB
    assert settings(few).within_memory(0).sparsifier.buffer_edges
    with pytest.raises(MemoryLimitTooSmall):
        settings(few, coins="independent").within_memory(0)


@pytest.mark.parametrize("limit", [None, 1_000, 1_500, 4_000, 16_000])
def test_a_group_holds_twice_what_is_kept_where_blocks_allow_it(limit: int | None) -> None:
    plan = settings(None if limit is None else limit * MIB).within_memory(200_000)
    wanted = 2.0 * expected_size(plan.sparsifier, 200_000)
    if limit is not None:
        assert plan.sparsifier.buffer_edges is not None
        wanted = min(wanted, GROUP_SHARE * plan.sparsifier.buffer_edges)
    rows = plan.blocks_per_group * plan.part_rows
    assert ARRIVAL_LANES <= plan.blocks_per_group <= plan.group_blocks
    if plan.blocks_per_group == plan.group_blocks:
        assert rows <= wanted + plan.part_rows
    elif plan.blocks_per_group > ARRIVAL_LANES:
        assert wanted <= rows < wanted + plan.part_rows
    else:
        assert wanted <= rows
    if limit is None:
        assert rows <= 1.5 * wanted


def test_groups_of_small_graphs_have_a_block_for_each_lane_and_no_more_than_asked() -> None:
    small = SparsifierSettings(epsilon=0.9, expected_nodes=100)
    for group_blocks, expected in ((8, ARRIVAL_LANES), (2, 2), (1, 1)):
        plan = StreamSettings(node_kind="dense", sparsifier=small, group_blocks=group_blocks)
        assert plan.blocks_per_group == expected
        assert plan.part_rows == 8_192


@pytest.mark.slow
def test_a_plan_is_the_same_for_any_threads_and_after_reopening(tmp_path: Path) -> None:
    sparsifier = SparsifierSettings(epsilon=0.9, expected_nodes=1_000)
    limited = StreamSettings(
        node_kind="dense", sparsifier=sparsifier, memory_limit=MIB, checkpoint_seconds=0.0
    )
    with pytest.raises(MemoryLimitTooSmall, match="must be at least") as refused:
        limited.within_memory(2_000)
    assert "expected_nodes counts as nodes, and is fixed once" in str(refused.value)
    told = re.search(r"at least ([\d,]+) bytes", str(refused.value))
    assert told is not None
    # hardly more than 2,000 nodes need, where half as many were expected
    limited = replace(limited, memory_limit=int(told[1].replace(",", "")) + MIB // 2)
    rng = np.random.default_rng(0)
    for number in range(4):
        ids = rng.integers(0, 500 * (number + 1), (2, 100_000))
        table = pa.table({"src": ids[0], "dst": ids[1]})
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=50_000)
    files = EdgeFiles(str(tmp_path / "*.parquet")).list()
    unbroken = Stream(GraphPaths(root=tmp_path / "unbroken"), limited)
    unbroken.ingest(files)
    for number, file in enumerate(files):
        threads = replace(limited, n_threads=1 + 3 * number)
        reopened = Stream(GraphPaths(root=tmp_path / "reopened"), threads)
        reopened.ingest([file])
    free = Stream(GraphPaths(root=tmp_path / "free"), replace(limited, memory_limit=None))
    free.ingest(files)
    assert reopened.state.n_resparsifications == unbroken.state.n_resparsifications
    assert unbroken.state.n_resparsifications > free.state.n_resparsifications
    ours, theirs = (Records.concatenate(s.state.chunks) for s in (reopened, unbroken))
    assert np.array_equal(ours.u, theirs.u)
    assert np.array_equal(ours.key, theirs.key)


def test_a_stream_keeps_to_the_buffer_and_may_outgrow_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n_rows, n_nodes = 120_000, 400
    columns = {"src": rng.integers(0, n_nodes, n_rows), "dst": rng.integers(0, n_nodes, n_rows)}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=8_192)
    files = EdgeFiles(tmp_path / "a.parquet").list()
    sparsifier = SparsifierSettings(epsilon=0.9, expected_nodes=n_nodes)
    kept = expected_size(sparsifier, n_nodes)
    rounds = []
    for number, room in enumerate((8.0, 1.5)):
        limited = StreamSettings(
            node_kind="dense",
            sparsifier=replace(sparsifier, buffer_edges=int(room * kept)),
            checkpoint_seconds=0.0,
        )
        stream = Stream(GraphPaths(root=tmp_path / str(number)), limited)
        stream.ingest(files)
        assert stream.state.n_records <= int(room * kept)
        rounds.append(stream.state.n_resparsifications)
    assert 1 <= rounds[0] < rounds[1]
    hopeless = StreamSettings(
        node_kind="dense", sparsifier=replace(sparsifier, buffer_edges=int(0.5 * kept))
    )
    with pytest.raises(MemoryLimitTooSmall, match="must be kept; raise it, raise epsilon"):
        Stream(GraphPaths(root=tmp_path / "hopeless"), hopeless).ingest(files)


def test_deletes_leave_less_room_for_the_buffer() -> None:
    settings = SparsifierSettings(epsilon=0.7, expected_nodes=100_000)
    plans = [
        plan_memory(
            4 << 30,
            settings,
            node_kind="dense",
            n_nodes=0,
            part_rows=1 << 16,
            blocks_in_flight=9,
            deletions=deletions,
        )
        for deletions in get_args(Deletions)
    ]
    assert plans[1].buffer_edges < 0.6 * plans[0].buffer_edges
    assert plans[1].part_rows == plans[0].part_rows


@pytest.mark.parametrize("max_edges", [10_000, 20_000_000, 2**62])
@pytest.mark.parametrize("deletions", get_args(Deletions))
def test_without_an_epsilon_the_buffer_follows_the_limit_and_not_the_budget(
    max_edges: int, deletions: Deletions
) -> None:
    def plan(limit: int, n_nodes: int) -> StreamSettings:
        sparsifier = SparsifierSettings(max_edges=max_edges, expected_nodes=1_000)
        asked = StreamSettings(
            node_kind="string", sparsifier=sparsifier, memory_limit=limit, deletions=deletions
        )
        return asked.within_memory(n_nodes)

    few, many = (plan(limit * MIB, 0).sparsifier.buffer_edges for limit in (1_100, 1_200))
    assert few is not None
    assert many is not None
    assert 1_000 < few < many
    with pytest.raises(MemoryLimitTooSmall) as refused:
        plan(1_100 * MIB, 5_000_000)
    told = str(refused.value)
    assert "for 5,000,000 nodes at " in told
    assert "at at most" not in told
    assert "raise it" in told


def test_a_limit_refuses_once_more_must_be_kept_than_it_holds(tmp_path: Path) -> None:
    u, v = np.triu_indices(400, 1)
    table = pa.table({"src": u, "dst": v})
    for part in range(4):
        pq.write_table(table.slice(part * 20_000, 20_000), tmp_path / f"{part}.parquet")
    files = EdgeFiles(str(tmp_path / "*.parquet")).list()

    def stream(root: str, *, max_edges: int, buffer_edges: int) -> Stream:
        sparsifier = SparsifierSettings(
            max_edges=max_edges, expected_nodes=400, buffer_edges=buffer_edges
        )
        settings = StreamSettings(node_kind="dense", sparsifier=sparsifier)
        return Stream(GraphPaths(root=tmp_path / root), settings)

    fits = stream("fits", max_edges=20_000_000, buffer_edges=2 * u.size)
    fits.ingest(files)
    assert fits.state.n_records == u.size
    with pytest.raises(MemoryLimitTooSmall, match="raise it, or set max_edges to") as refused:
        stream("full", max_edges=20_000_000, buffer_edges=40_000).ingest(files)
    told = re.search(r"set max_edges to ([\d,]+) or less", str(refused.value))
    assert told is not None
    most = int(told[1].replace(",", ""))
    advised = stream("full", max_edges=most, buffer_edges=40_000)
    advised.ingest(files)
    assert advised.state.n_rows_seen == u.size
