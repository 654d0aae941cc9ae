"""Strikes against a filter of the edges, dense spectra and sums over many seeds."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from peewit.streaming.edges.blocks import EdgeBlock
from peewit.streaming.sparsifier.merge_tree import leaf, merge
from peewit.streaming.sparsifier.runs import EMPTY_RUNS
from peewit.streaming.sparsifier.settings_and_state import (
    Coins,
    SparsifierSettings,
    SparsifierState,
)
from peewit.streaming.sparsifier.sparsifier import (
    absorb,
    expected_epsilon,
    resparsify,
    sparsifier_graph,
)
from peewit.streaming.sparsifier.strikes import expire, n_split, retract, strike, strike_nodes
from tests.reference.spectrum import spectral_error
from tests.streaming.graphs import EdgeList, edge_block, random_graph, two_communities


def settings_of(edges: EdgeList, seed: int = 0, coins: Coins = "dependent") -> SparsifierSettings:
    return SparsifierSettings(epsilon=0.7, seed=seed, expected_nodes=edges.n_nodes, coins=coins)


def absorbed(
    edges: EdgeList, settings: SparsifierSettings, *, n_files: int = 4, tosses: bool = True
) -> SparsifierState:
    """Each block is a file; half of them is thinned, so that the other half is scored by cards."""
    state = SparsifierState(runs=EMPTY_RUNS, n_nodes=edges.n_nodes)
    for number, block in enumerate(edges.blocks(n_files)):
        state = absorb(state, settings, [block], n_nodes=0, run=f"file {number}")
        if tosses and number == n_files // 2 - 1:
            state = resparsify(state, settings)
    return state


def without(edges: EdgeList, is_deleted: np.ndarray) -> EdgeList:
    stays = ~is_deleted
    columns = edges.u[stays], edges.v[stays], edges.weight[stays]
    return EdgeList(u=columns[0], v=columns[1], weight=columns[2], n_nodes=edges.n_nodes)


def struck(state: SparsifierState, edges: EdgeList, is_deleted: np.ndarray) -> SparsifierState:
    u, v = edges.u[is_deleted].astype(np.int32), edges.v[is_deleted].astype(np.int32)
    return strike(state, v, u)  # either orientation means the same edge


def at_random(edges: EdgeList, share: float, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random(edges.n_edges) < share


def of_users(edges: EdgeList, seed: int) -> np.ndarray:
    """Four fifths of the edges of some nodes."""
    rng = np.random.default_rng(seed)
    users = rng.choice(edges.n_nodes, edges.n_nodes // 50, replace=False)
    touches = np.isin(edges.u, users) | np.isin(edges.v, users)
    return touches & (rng.random(edges.n_edges) < 0.8)


@pytest.mark.parametrize("coins", ["dependent", "independent"])
def test_the_records_of_deleted_pairs_leave_and_no_others(coins: Coins) -> None:
    edges = random_graph(300, 0.5, 1)
    settings = settings_of(edges, coins=coins)
    before = absorbed(edges, settings)
    is_deleted = at_random(edges, 0.2, 0)
    after = struck(before, edges, is_deleted)
    gone = {frozenset(pair) for pair in zip(edges.u[is_deleted], edges.v[is_deleted], strict=True)}
    records = before.records
    leaves = np.array([frozenset(pair) in gone for pair in zip(records.u, records.v, strict=True)])
    assert 0 < leaves.sum() < leaves.size
    for name in ("u", "v", "weight", "keep_probability", "key"):
        kept = getattr(records, name)[~leaves]
        np.testing.assert_array_equal(getattr(after.records, name), kept)
    assert after.n_struck == after.n_struck_since_cards == leaves.sum()
    variance, weight = np.zeros(300), np.zeros(300)
    for place in np.flatnonzero(leaves):
        scaled = records.conductance[place]
        for end in (records.u[place], records.v[place]):
            variance[end] += scaled**2 * (1.0 - records.keep_probability[place])
            weight[end] += scaled
    np.testing.assert_allclose(after.struck_variance, variance, rtol=1e-4)
    np.testing.assert_allclose(after.degree, before.degree - weight, rtol=1e-5)
    assert after.runs.n_records == after.n_records


def test_nothing_happens_where_no_pair_has_a_record() -> None:
    edges = two_communities(100, 0.5, 3, 0)
    state = absorbed(edges, settings_of(edges))
    u, v = np.triu_indices(100, 1)
    present = np.minimum(edges.u, edges.v) * 100 + np.maximum(edges.u, edges.v)
    absent = ~np.isin(u * 100 + v, present)
    assert absent.sum() > 1_000
    assert strike(state, u[absent].astype(np.int32), v[absent].astype(np.int32)) is state
    loops = np.arange(10, dtype=np.int32)
    assert strike(state, loops, loops) is state
    assert strike(state, np.zeros(0, np.int32), np.zeros(0, np.int32)) is state


def test_a_chunk_that_loses_nothing_keeps_its_memory() -> None:
    edges = random_graph(100, 0.5, 1)
    state = absorbed(edges, settings_of(edges), tosses=False)
    first = state.chunks[0]
    after = strike(state, first.u[:3], first.v[:3])
    assert after.chunks[0] is not first
    for kept, before in zip(after.chunks[1:], state.chunks[1:], strict=True):
        assert kept is before


def test_a_file_leaves_with_all_its_records() -> None:
    edges = random_graph(200, 0.5, 2)
    settings = settings_of(edges)
    state = resparsify(absorbed(edges, settings), settings)
    is_gone = np.repeat(np.array(state.runs.keys) == "file 1", state.runs.counts)
    after = retract(state, "file 1")
    assert 0 < is_gone.sum() < state.n_records
    np.testing.assert_array_equal(after.records.key, state.records.key[~is_gone])
    assert after.runs.keys == ("file 0", "file 2", "file 3")
    assert after.runs.n_records == after.n_records
    assert after.struck_variance is None  # a run takes its own evenness along
    assert after.n_struck == is_gone.sum()
    assert retract(after, "file 1").records.n_records == after.n_records
    with pytest.raises(ValueError, match="runs"):
        retract(replace(state, runs=None), "file 1")


def test_counting_runs_changes_no_coin() -> None:
    edges = random_graph(200, 0.5, 3)
    settings = settings_of(edges)
    plain = SparsifierState(n_nodes=200)
    for block in edges.blocks(4):
        plain = resparsify(absorb(plain, settings, [block], n_nodes=0), settings)
    counted = SparsifierState(n_nodes=200, runs=EMPTY_RUNS)
    for block in edges.blocks(4):
        counted = resparsify(absorb(counted, settings, [block], n_nodes=0, run="a"), settings)
    np.testing.assert_array_equal(plain.records.key, counted.records.key)
    np.testing.assert_array_equal(plain.records.keep_probability, counted.records.keep_probability)


def test_merged_parts_have_the_runs_and_the_strikes_of_both() -> None:
    edges = random_graph(200, 0.6, 4)
    settings = settings_of(edges)
    blocks = edges.blocks(4)
    first = absorb(SparsifierState(runs=EMPTY_RUNS), settings, blocks[:2], n_nodes=200, run="a")
    first = resparsify(first, settings)
    second = leaf(first, first_block=2)
    assert second.runs is None
    second = replace(second, runs=EMPTY_RUNS)
    second = absorb(second, settings, blocks[2:], n_nodes=200, run="b")
    first = strike(first, first.records.u[:50], first.records.v[:50])
    merged = merge(first, second, settings)
    assert merged.runs.keys == ("a", "b")
    assert merged.runs.n_records == merged.n_records
    assert merged.n_struck == first.n_struck
    np.testing.assert_array_equal(merged.struck_variance, first.struck_variance)


@pytest.mark.slow
@pytest.mark.parametrize("coins", ["dependent", "independent"])
def test_what_is_left_is_unbiased(coins: Coins) -> None:
    edges = two_communities(160, 0.9, 60, 0)
    is_deleted = at_random(edges, 0.3, 1)
    left = without(edges, is_deleted).graph().laplacian()
    rng = np.random.default_rng(2)
    directions = np.column_stack(
        [np.arange(160) < 80, np.eye(160)[:, 0], rng.normal(size=(160, 4))]
    )
    forms = []
    for seed in range(300):
        settings = replace(settings_of(edges, seed, coins), epsilon=0.95, slack=1.0)
        state = struck(absorbed(edges, settings), edges, is_deleted)
        found = sparsifier_graph(state).laplacian()
        forms.append([each @ (found @ each) for each in directions.T.astype(float)])
    expected = [each @ (left @ each) for each in directions.T.astype(float)]
    error = np.std(forms, axis=0) / np.sqrt(len(forms))
    assert (error > 0).all()
    assert (np.abs(np.mean(forms, axis=0) - expected) < 4 * error + 0.005 * np.abs(expected)).all()


SCENARIOS: dict[str, Callable[[EdgeList, int], np.ndarray]] = {
    "random 10 %": lambda edges, seed: at_random(edges, 0.1, seed),
    "random 30 %": lambda edges, seed: at_random(edges, 0.3, seed),
    "random 50 %": lambda edges, seed: at_random(edges, 0.5, seed),
    "users": of_users,
}


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_error_that_is_told_is_not_below_the_true_one(scenario: str) -> None:
    told, true, untold = [], [], []
    for seed in range(10):
        edges = random_graph(500, 0.7, seed)
        settings = settings_of(edges, seed)
        state = resparsify(absorbed(edges, settings), settings)
        is_deleted = SCENARIOS[scenario](edges, seed)
        after = struck(state, edges, is_deleted)
        true.append(spectral_error(without(edges, is_deleted).graph(), sparsifier_graph(after)))
        told.append(expected_epsilon(after, settings))
        untold.append(expected_epsilon(replace(after, struck_variance=None), settings))
    assert np.mean(np.array(told) >= np.array(true)) >= 0.9, list(zip(told, true, strict=True))
    assert np.mean(told) > np.mean(untold)


@pytest.mark.slow
def test_thinning_after_strikes_keeps_the_error_of_a_fresh_stream() -> None:
    after, fresh = [], []
    for seed in range(10):
        edges = random_graph(500, 0.7, seed)
        settings = settings_of(edges, seed)
        is_deleted = at_random(edges, 0.3, seed)
        left = without(edges, is_deleted)
        state = struck(absorbed(edges, settings), edges, is_deleted)
        state = resparsify(state, settings)
        assert state.n_struck_since_cards == 0
        after.append(spectral_error(left.graph(), sparsifier_graph(state)))
        whole = resparsify(absorbed(left, settings), settings)
        fresh.append(spectral_error(left.graph(), sparsifier_graph(whole)))
    assert max(after) <= 0.7
    assert np.mean(after) < 1.5 * np.mean(fresh)


def test_blocks_go_on_after_a_strike() -> None:
    edges = random_graph(200, 0.6, 5)
    settings = settings_of(edges)
    state = absorbed(edges, settings)
    state = strike(state, state.records.u[:100], state.records.v[:100])
    block: EdgeBlock = edges.blocks(8)[0]
    grown = absorb(state, settings, [block], n_nodes=0, run="later")
    assert grown.runs.keys[-1] == "later"
    assert grown.degree.sum() == pytest.approx(state.degree.sum() + 2 * block.weight.sum())


def test_parts_that_came_apart_are_counted_where_edges_were_thrown_away() -> None:
    edges = two_communities(160, 0.9, 12, 3)
    settings = replace(settings_of(edges), epsilon=0.95)
    state = resparsify(absorbed(edges, settings), settings)
    joint = (edges.u < 80) != (edges.v < 80)
    assert sparsifier_graph(state).n_components == 1
    apart = struck(state, edges, joint)
    assert n_split(apart) == sparsifier_graph(apart).n_components - 1 == 1
    alone = struck(apart, edges, (edges.u == 5) | (edges.v == 5))
    assert n_split(alone) == sparsifier_graph(alone).n_components - 1 == 2
    back = absorb(alone, settings, [edge_block([5, 6], [7, 100], [1.0, 1.0])], n_nodes=0)
    assert n_split(back) == sparsifier_graph(back).n_components - 1 == 0
    assert n_split(struck(back, edges, joint)) == 0
    whole = absorbed(edges, settings, tosses=False)
    assert n_split(struck(whole, edges, joint)) == 0


@pytest.mark.parametrize("leans", [True, False])
def test_a_node_that_lost_its_edges_keeps_all_that_come(leans: bool) -> None:
    edges = random_graph(600, 0.9, 6)
    settings = settings_of(edges)
    state = resparsify(absorbed(edges, settings), settings)
    if not leans:
        state = replace(state, n_leaning=0)
    touches = (edges.u == 3) | (edges.v == 3)
    others = np.arange(10, 50, dtype=np.int32)
    block = edge_block(np.full(40, 3), others, np.ones(40))

    def arrived(before: SparsifierState) -> int:
        return absorb(before, settings, [block], n_nodes=0).n_records - before.n_records

    assert arrived(state) < 35
    gone = struck(state, edges, touches)
    grown = absorb(gone, settings, [block], n_nodes=0)
    assert grown.chunks[-1].n_records == 40
    np.testing.assert_array_equal(grown.chunks[-1].keep_probability, 1.0)
    renewed = resparsify(grown, settings)
    assert renewed.lost is None
    few = struck(state, edges, touches & at_random(edges, 0.05, 0))
    assert arrived(few) < 40


def neighbors_of(edges: EdgeList, nodes: np.ndarray) -> np.ndarray:
    return np.isin(edges.u, nodes) | np.isin(edges.v, nodes)


def test_striking_nodes_strikes_all_their_pairs() -> None:
    edges = random_graph(300, 0.5, 1)
    before = absorbed(edges, settings_of(edges))
    nodes = np.array([5, 17, 200], np.int32)
    after = strike_nodes(before, nodes)
    by_pairs = struck(before, edges, neighbors_of(edges, nodes))
    for name in ("u", "v", "weight", "keep_probability", "key"):
        np.testing.assert_array_equal(getattr(after.records, name), getattr(by_pairs.records, name))
    for name in ("struck_variance", "lost", "degree"):
        np.testing.assert_array_equal(getattr(after, name), getattr(by_pairs, name))
    assert after.runs is not None
    assert by_pairs.runs is not None
    np.testing.assert_array_equal(after.runs.counts, by_pairs.runs.counts)
    assert after.n_struck == by_pairs.n_struck > 0
    assert strike_nodes(after, nodes) is after, "done again, nothing changes"


def test_the_accuracy_that_is_left_counts_struck_nodes() -> None:
    edges = random_graph(300, 0.5, 1)
    settings = settings_of(edges)
    before = absorbed(edges, settings)
    rng = np.random.default_rng(3)
    after = strike_nodes(before, rng.choice(300, 90, replace=False).astype(np.int32))
    assert expected_epsilon(after, settings) > expected_epsilon(before, settings)


def test_an_erased_node_does_not_count_as_a_part_that_came_off() -> None:
    edges = two_communities(60, 0.6, 1, seed=0)
    before = absorbed(edges, settings_of(edges))
    lonely = strike_nodes(before, np.array([1], np.int32))
    assert lonely.n_struck > before.n_struck
    assert n_split(lonely) == 0


# Windows


TWICE = [*range(8), *range(8)]
"""Buckets of the blocks of two files, each of which has all."""
IN_ORDER = sorted(TWICE)


def aged(
    edges: EdgeList, settings: SparsifierSettings, buckets: list[int] = TWICE
) -> SparsifierState:
    """Two files of eight blocks; what the first brought is thinned."""
    state = SparsifierState(runs=EMPTY_RUNS, n_nodes=edges.n_nodes)
    for number, (block, bucket) in enumerate(zip(edges.blocks(16), buckets, strict=True)):
        of_bucket = replace(block, bucket=bucket)
        state = absorb(state, settings, [of_bucket], n_nodes=0, run=f"file {number // 8}")
        if number == 7:
            state = resparsify(state, settings)
    return state


def bucket_of(edges: EdgeList, buckets: list[int]) -> np.ndarray:
    return np.repeat(buckets, [block.u.size for block in edges.blocks(16)])


@pytest.mark.parametrize("coins", ["dependent", "independent"])
def test_buckets_before_the_horizon_leave_with_all_their_records(coins: Coins) -> None:
    edges = random_graph(300, 0.6, 1)
    before = aged(edges, settings_of(edges, coins=coins))
    bucket = np.repeat(before.runs.buckets, before.runs.counts)
    after = expire(before, 5, np.zeros(300, bool))
    assert 0 < np.count_nonzero(bucket < 5) < before.n_records
    np.testing.assert_array_equal(after.records.key, before.records.key[bucket >= 5])
    assert after.runs.buckets.tolist() == [5, 6, 7, 5, 6, 7]
    assert after.runs.n_records == after.n_records
    assert after.n_struck == np.count_nonzero(bucket < 5)
    assert expire(after, 5, np.zeros(300, bool)) is not after  # runs tell, and nothing goes
    assert expire(after, 5, np.zeros(300, bool)).n_struck == after.n_struck
    with pytest.raises(ValueError, match="runs"):
        expire(replace(before, runs=None), 5, np.zeros(300, bool))


def degree_error(state: SparsifierState, edges: EdgeList) -> float:
    """Mean square of what the degrees of the records are off, in parts of the degree."""
    found, exact = sparsifier_graph(state).degree, edges.graph().degree
    return float(np.mean((found / exact - 1.0) ** 2))


@pytest.mark.slow
@pytest.mark.parametrize(("buckets", "most"), [(IN_ORDER, 0.7), (TWICE, 0.9)])
def test_degrees_stay_more_even_when_buckets_leave(buckets: list[int], most: float) -> None:
    """More than after as many deletes at random: coins lean in the order of arrival."""
    kept, random = [], []
    for seed in range(10):
        edges = random_graph(400, 0.7, seed)
        state = aged(edges, settings_of(edges, seed), buckets)
        after = expire(state, 3, np.zeros(400, bool))
        assert after.struck_variance is None
        kept.append(degree_error(after, without(edges, bucket_of(edges, buckets) < 3)))
        is_gone = at_random(edges, 3 / 8, seed)
        random.append(degree_error(struck(state, edges, is_gone), without(edges, is_gone)))
    assert np.mean(kept) < most * np.mean(random)


def joined_by(joints: np.ndarray, buckets: list[int]) -> SparsifierState:
    """Two dense halves of 80 nodes, thinned, of bucket 9; then some edges of buckets of theirs."""
    edges = two_communities(160, 0.9, 0, 3)
    n_nodes = int(joints.max(initial=159)) + 1
    settings = replace(settings_of(edges), epsilon=0.95)
    state = SparsifierState(runs=EMPTY_RUNS, n_nodes=n_nodes)
    (block,) = edges.blocks(1)
    state = absorb(state, settings, [replace(block, bucket=9)], n_nodes=0, run="a")
    state = resparsify(state, settings)
    for (u, v), bucket in zip(joints.tolist(), buckets, strict=True):
        joint = replace(edge_block([u], [v], [1.0]), bucket=bucket)
        state = absorb(state, settings, [joint], n_nodes=0, run="b")
    return state


def isolated(state: SparsifierState, horizon: int) -> np.ndarray:
    """Of graphs whose joints were all kept."""
    is_isolated = np.ones(state.n_nodes, bool)
    is_isolated[:160] = False
    lives = np.repeat(state.runs.buckets >= horizon, state.runs.counts)
    is_isolated[state.records.u[lives]] = is_isolated[state.records.v[lives]] = False
    return is_isolated


@pytest.mark.parametrize(
    ("joints", "buckets", "n_apart"),
    [
        # the only edge between the halves
        ([[5, 100]], [3], 1),
        # a node of one edge, which has no other
        ([[5, 160], [6, 101]], [3, 8], 0),
        # a node through which the halves were joined
        ([[5, 160], [160, 100]], [3, 3], 1),
        # the same, and another way is left
        ([[5, 160], [160, 100], [7, 90]], [3, 3, 8], 0),
        # a node that keeps one of its edges
        ([[5, 160], [160, 100]], [3, 8], 1),
        # two nodes that were joined to nothing else
        ([[160, 161], [5, 100]], [3, 8], 0),
        # a path of two that have no edge any more
        ([[5, 160], [160, 161], [161, 100]], [3, 3, 3], 1),
    ],
)
def test_what_comes_apart_when_buckets_leave(
    joints: list[list[int]], buckets: list[int], n_apart: int
) -> None:
    before = joined_by(np.array(joints), buckets)
    after = expire(before, 5, isolated(before, 5))
    assert n_split(after) == n_apart
    assert (after.torn is None) == (n_apart == 0)
    untorn = expire(before, 0, isolated(before, 0))
    assert untorn.torn is None
