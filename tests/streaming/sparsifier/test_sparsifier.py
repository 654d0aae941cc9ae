"""The sparsifier against dense algebra: unbiased, accurate, connected, bounded, reproducible."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from peewit.solvers.arrays import IntArray
from peewit.streaming.edges.blocks import EdgeBlock
from peewit.streaming.sparsifier.arrivals import ARRIVAL_LANES, score
from peewit.streaming.sparsifier.merge_tree import leaf, merge, without_embedding
from peewit.streaming.sparsifier.sample_size import expected_size, sampling_constant
from peewit.streaming.sparsifier.settings_and_state import (
    Coins,
    SparsifierSettings,
    SparsifierState,
)
from peewit.streaming.sparsifier.sparsifier import (
    BUFFER_FACTOR,
    LEANING_FACTOR,
    absorb,
    buffer_cap,
    expected_epsilon,
    resparsify,
    sparsifier_graph,
    thinned,
)
from tests.reference.spectrum import spectral_error
from tests.streaming.graphs import (
    EdgeList,
    core_with_paths,
    edge_block,
    heavy_tailed,
    joint_before_growth,
    random_graph,
    region_after_region,
    sparsified,
    two_communities,
)

FAMILIES: dict[str, Callable[[int], EdgeList]] = {
    "random": lambda seed: random_graph(400, 0.4, seed),
    "two communities": lambda seed: two_communities(500, 0.5, 6, seed),
    "heavy-tailed weights": lambda seed: heavy_tailed(300, 0.6, seed),
    "dense core with paths": lambda seed: core_with_paths(280, 8, 20, seed),
}


COINS: list[Coins] = ["independent", "dependent"]


def _settings(
    edges: EdgeList, epsilon: float, seed: int = 0, coins: Coins = "independent"
) -> SparsifierSettings:
    return SparsifierSettings(epsilon=epsilon, seed=seed, expected_nodes=edges.n_nodes, coins=coins)


@pytest.mark.slow
@pytest.mark.thinned(3)
@pytest.mark.parametrize("coins", COINS)
@pytest.mark.parametrize("epsilon", [0.9, 0.5])
@pytest.mark.parametrize("family", FAMILIES)
def test_spectrum_lies_within_epsilon_in_19_of_20_seeds(
    family: str, epsilon: float, coins: Coins
) -> None:
    errors, sizes = [], []
    for seed in range(10):
        edges = FAMILIES[family](seed)
        settings = _settings(edges, epsilon, seed, coins)
        state = resparsify(sparsified(edges, settings), settings)
        errors.append(spectral_error(edges.graph(), sparsifier_graph(state)))
        sizes.append(state.n_records / edges.n_edges)
    assert sum(error <= epsilon for error in errors) >= 9, sorted(errors)
    assert max(sizes) < 0.9, "nothing was thrown away: the test shows nothing"


ORDERED: dict[str, Callable[[int], EdgeList]] = {
    "one region after the other": lambda seed: region_after_region(400, 0.6, 40, seed),
    "a joint of 6 that never grows": lambda seed: joint_before_growth(400, 0.6, 6, seed),
    "a joint of 60 that never grows": lambda seed: joint_before_growth(400, 0.6, 60, seed),
}


@pytest.mark.slow
@pytest.mark.parametrize("coins", COINS)
@pytest.mark.parametrize("order", ORDERED)
def test_the_order_of_the_stream_does_not_matter(order: str, coins: Coins) -> None:
    epsilon, errors, shares = 0.7, [], []
    for seed in range(10):
        edges = ORDERED[order](seed)
        # a buffer of half the edges, so that most of the stream is scored by cards
        settings = replace(_settings(edges, epsilon, seed, coins), buffer_edges=edges.n_edges // 2)
        state = sparsified(edges, settings, n_blocks=32, n_forced=1)
        assert state.n_resparsifications >= 2
        errors.append(spectral_error(edges.graph(), sparsifier_graph(state)))
        shares.append(state.n_records / edges.n_edges)
    assert sum(error <= epsilon for error in errors) >= 9, sorted(errors)
    assert max(shares) < 0.6, "hardly an edge was thrown away: the test shows nothing"


SMALL: dict[str, Callable[[int], EdgeList]] = {
    "random": lambda seed: random_graph(200, 0.7, seed),
    "two communities": lambda seed: two_communities(200, 0.9, 6, seed),
}


@pytest.mark.slow
@pytest.mark.parametrize("coins", COINS)
@pytest.mark.parametrize("family", SMALL)
def test_a_hundred_resparsifications_keep_the_spectrum(family: str, coins: Coins) -> None:
    epsilon, errors = 0.7, []
    for seed in range(10):
        edges = SMALL[family](seed)
        state = sparsified(edges, _settings(edges, epsilon, seed, coins), n_forced=100)
        assert state.n_resparsifications >= 100
        assert state.n_records < 0.8 * edges.n_edges
        errors.append(spectral_error(edges.graph(), sparsifier_graph(state)))
    assert sum(error <= epsilon for error in errors) >= 9, sorted(errors)


def test_expected_epsilon_is_within_a_factor_of_two_of_the_measured_one() -> None:
    for seed in range(5):
        edges = random_graph(500, 0.4, seed)
        settings = _settings(edges, 0.7, seed)
        state = sparsified(edges, settings, n_forced=1)
        expected = expected_epsilon(state, settings)
        measured = spectral_error(edges.graph(), sparsifier_graph(state))
        assert 0.5 * measured <= expected <= 2.0 * measured


LARGER: dict[str, Callable[[int], EdgeList]] = {
    "random": lambda seed: random_graph(600, 0.8, seed),
    "two communities": lambda seed: two_communities(600, 1.0, 5, seed),
    "dense core with paths": lambda seed: core_with_paths(500, 10, 20, seed),
}


@pytest.mark.slow
@pytest.mark.parametrize("family", LARGER)
def test_a_hundred_blocks_cost_little_accuracy_and_the_error_is_the_expected_one(
    family: str,
) -> None:
    errors: dict[int, list[float]] = {1: [], 100: []}
    for seed in range(4):
        edges = LARGER[family](seed)
        settings = _settings(edges, 0.9, seed, "dependent")
        for n_blocks, found in errors.items():
            streamed = sparsified(edges, settings, n_blocks=n_blocks)
            assert streamed.n_resparsifications >= 1
            state = thinned(streamed, settings)
            assert (state.n_resparsifications >= 2) == (n_blocks > 1)
            assert state.n_records < 0.1 * edges.n_edges
            measured = spectral_error(edges.graph(), sparsifier_graph(state))
            found.append(measured)
            # measured: between .79 and 1.07 on these families with three times as many seeds
            assert 0.7 <= measured / expected_epsilon(state, settings) <= 1.15
    # measured: 1.03 to 1.05
    assert np.mean(errors[100]) <= 1.15 * np.mean(errors[1]), errors
    assert max(errors[100]) <= 0.9


def _arriving(
    edges: EdgeList, coins: Coins, n_blocks: int = 7
) -> tuple[SparsifierState, SparsifierSettings, list[EdgeBlock]]:
    """A state with cards, and blocks of other edges that are thrown by these."""
    settings = _settings(edges, 0.9, 5, coins)
    first, rest = edges.blocks(2)
    state = absorb(SparsifierState(), settings, [first], n_nodes=edges.n_nodes)
    rows = np.array_split(np.arange(rest.u.size), n_blocks)
    blocks = [edge_block(rest.u[part], rest.v[part], rest.weight[part]) for part in rows]
    return resparsify(state, settings), settings, blocks


def _assert_same_state(first: SparsifierState, second: SparsifierState) -> None:
    for column in ("u", "v", "weight", "keep_probability", "key"):
        assert np.array_equal(getattr(first.records, column), getattr(second.records, column))
    assert (first.surplus is None) == (second.surplus is None)
    if first.surplus is not None:
        assert np.array_equal(first.surplus, second.surplus)
    assert first.degree is not None
    assert second.degree is not None
    np.testing.assert_allclose(first.degree, second.degree, rtol=1e-12)


@pytest.mark.parametrize("family", ["random", "two communities"])  # bounds, and an embedding
@pytest.mark.parametrize("coins", COINS)
def test_threads_and_the_grouping_of_blocks_change_no_arriving_coin(
    family: str, coins: Coins
) -> None:
    state, settings, blocks = _arriving(FAMILIES[family](0), coins)
    grow = partial(absorb, settings=settings, n_nodes=state.n_nodes)
    whole = grow(state, blocks=blocks)
    assert whole.n_records - state.n_records < 0.8 * sum(block.u.size for block in blocks)
    for n_threads in (1, 2, 4):
        with ThreadPoolExecutor(n_threads) as pool:
            _assert_same_state(grow(state, blocks=blocks, parallel=pool.map), whole)
    in_parts = grow(grow(grow(state, blocks=blocks[:1]), blocks=blocks[1:4]), blocks=blocks[4:])
    _assert_same_state(in_parts, whole)


def test_surpluses_outlive_groups_and_resparsifications() -> None:
    edges = FAMILIES["random"](0)
    state, settings, blocks = _arriving(edges, "dependent")
    assert state.surplus is not None
    assert state.surplus.shape == (ARRIVAL_LANES, state.cards.n_nodes)
    assert not state.surplus.flags.writeable
    assert state.surplus[0].any()  # what thinning has left; arrivals of the first lane lean on it
    assert not state.surplus[1:].any()
    grow = partial(absorb, settings=settings, n_nodes=state.n_nodes)
    first = grow(state, blocks=blocks[:ARRIVAL_LANES])
    assert first.surplus is not None
    assert (first.surplus != 0.0).mean() > 0.9
    # the next group leans against them, and so does a resparsification that knows no degrees
    rest = blocks[ARRIVAL_LANES:]
    unknown = replace(first, degree=None)
    for go_on in (partial(grow, blocks=rest), partial(resparsify, settings=settings)):
        forgetful = go_on(replace(unknown, surplus=None))
        assert not np.array_equal(go_on(unknown).records.key, forgetful.records.key)
    unconverged = resparsify(first, settings, cancelled=lambda: True)
    assert unconverged.surplus is first.surplus
    assert unconverged.cards is first.cards
    # it counts by cards: where there are none it is none, and a merger keeps that of its cards
    other = leaf(first, first_block=99)
    assert other.surplus is None
    assert without_embedding(first).surplus is None
    assert score(without_embedding(first), settings, rest).surplus is None
    lighter = without_embedding(grow(other, blocks=rest))
    assert merge(first, lighter, settings).surplus is first.surplus


def test_what_is_left_at_a_node_is_told_by_its_degrees() -> None:
    """The surplus in units of weight is the degree of what survived over that of all that arrived.

    Where that is not known, it is over the degree of the records before, and what they left.
    """
    edges = FAMILIES["random"](0)
    state, settings, blocks = _arriving(edges, "dependent")
    before = absorb(state, settings, blocks, n_nodes=state.n_nodes)
    assert before.degree is not None
    unknown = replace(before, surplus=None, degree=None)
    for start, degree in ((before, before.degree), (unknown, sparsifier_graph(before).degree)):
        after = resparsify(start, settings)
        assert after.surplus is not None
        copies = settings.oversampling * sampling_constant(settings, after.n_nodes)
        weight = after.surplus.sum(axis=0) / (copies * after.cards.local_resistance)
        gained = sparsifier_graph(after).degree - degree
        np.testing.assert_allclose(weight, gained, atol=1e-3 * np.abs(gained).max())


@pytest.mark.parametrize("coins", COINS)
def test_degrees_are_those_of_all_that_arrived(coins: Coins) -> None:
    edges = FAMILIES["random"](0)
    edges = replace(edges, weight=np.ceil(edges.weight * 4))  # of which sums are exact
    settings = replace(_settings(edges, 0.9, 1, coins), buffer_edges=6_000)
    state = sparsified(edges, settings, n_blocks=30)
    assert state.n_resparsifications > 1
    expected = np.zeros(edges.n_nodes)
    np.add.at(expected, edges.u, edges.weight)
    np.add.at(expected, edges.v, edges.weight)
    assert np.array_equal(state.degree, expected)
    # those of shares add up, and shares begin with none
    share = leaf(state, first_block=99)
    assert share.degree is not None
    assert share.degree.size == 0
    share = absorb(share, settings, edges.blocks(1), n_nodes=edges.n_nodes)
    whole = absorb(SparsifierState(), settings, edges.blocks(1), n_nodes=edges.n_nodes)
    assert whole.degree is None  # no coin yet: its records tell
    for other in (share, whole):
        for pair in ((state, other), (other, state)):
            assert np.array_equal(merge(*pair, settings).degree, 2.0 * expected)
    few = absorb(SparsifierState(), settings, edges.blocks(30)[:1], n_nodes=edges.n_nodes)
    assert merge(few, few, settings).degree is None
    newcomer = edge_block(np.array([edges.n_nodes]), np.array([0]), np.array([3.0]))
    grown = absorb(state, settings, [newcomer], n_nodes=edges.n_nodes + 1)
    assert grown.degree is not None
    assert grown.degree[-1] == 3.0
    assert grown.degree[0] == expected[0] + 3.0
    unknown = replace(state, degree=None)
    assert absorb(unknown, settings, [newcomer], n_nodes=edges.n_nodes + 1).degree is None
    assert merge(state, unknown, settings).degree is None


def test_coins_lean_while_the_buffer_is_young_or_degrees_are_unknown() -> None:
    state, settings, blocks = _arriving(FAMILIES["random"](0), "dependent")
    grow = partial(absorb, settings=settings, blocks=blocks, n_nodes=state.n_nodes)
    grown = grow(state)
    assert grown.surplus is not None
    assert grown.n_leaning == state.n_leaning == LEANING_FACTOR * state.n_kept_last
    older = grow(replace(grow(grown), n_leaning=10**9))
    assert older.surplus is not None
    assert older.n_records > LEANING_FACTOR * state.n_kept_last
    older = replace(older, n_leaning=grown.n_leaning)
    assert grow(older).surplus is None
    assert grow(older).n_leaning == 0
    assert grow(replace(older, degree=None)).surplus is not None


def test_coins_lean_as_long_as_a_snapshot_would_not_be_thinned() -> None:
    """Forty parallel records of each edge of a sparse graph, which a snapshot merges."""
    rng = np.random.default_rng(0)
    n_nodes, n_pairs = 200, 600
    pairs = rng.integers(0, n_nodes, (2, n_pairs))
    u, v = np.concatenate([np.tile([np.arange(n_nodes - 1), np.arange(1, n_nodes)], 20)], axis=1)
    chosen = rng.integers(0, n_pairs, 40 * n_pairs)
    u, v = np.concatenate([u, pairs[0, chosen]]), np.concatenate([v, pairs[1, chosen]])
    edges = EdgeList(u=u[u != v], v=v[u != v], weight=np.ones((u != v).sum()), n_nodes=n_nodes)
    settings = _settings(edges, 0.5, 1, "dependent")
    blocks = edges.blocks(40)
    state = absorb(SparsifierState(), settings, blocks[:8], n_nodes=n_nodes)
    state = resparsify(state, settings)
    for block in blocks[8:]:
        state = absorb(state, settings, [block], n_nodes=n_nodes)
    assert state.n_records > 1.5 * LEANING_FACTOR * state.n_kept_last
    assert thinned(state, settings) is state
    assert state.surplus is not None


def test_arrivals_that_nothing_evened_out_expect_more_error() -> None:
    """Where the embedding of a snapshot does not converge, they are published as they are."""
    edges = FAMILIES["random"](0)
    state, settings, blocks = _arriving(edges, "dependent")
    full = absorb(replace(state, n_leaning=0), settings, blocks, n_nodes=state.n_nodes)
    failed = thinned(full, settings, cancelled=lambda: True)
    assert failed.n_failed_embeddings == full.n_failed_embeddings + 1
    assert failed.is_uneven
    told = expected_epsilon(failed, settings)
    even = expected_epsilon(replace(failed, n_leaning=1), settings)
    assert told >= math.sqrt(math.log(edges.n_nodes) / 2.0) * even
    assert spectral_error(edges.graph(), sparsifier_graph(failed)) <= told
    published = thinned(full, settings)
    assert not published.is_uneven
    assert expected_epsilon(published, settings) < told


def test_a_resparsification_evens_out_what_independent_arrivals_have_left() -> None:
    edges = FAMILIES["random"](0)
    state, settings, blocks = _arriving(edges, "dependent")
    stray: dict[str, list[float]] = {"leaning": [], "independent": [], "never evened out": []}
    for seed in range(5):
        settings = replace(settings, seed=seed)
        independent = replace(state, n_leaning=0)
        for name, start in zip(stray, (state, independent, independent), strict=True):
            full = absorb(start, settings, blocks, n_nodes=state.n_nodes)
            exact = full.degree
            assert exact is not None
            if name == "never evened out":
                full = replace(full, degree=None, surplus=None)
            kept = resparsify(full, settings)
            copies = settings.oversampling * sampling_constant(settings, kept.n_nodes)
            over = (sparsifier_graph(kept).degree - exact) * copies * kept.cards.local_resistance
            stray[name].append(float(np.sqrt(np.mean(over**2))))
    mean = {name: np.mean(values) for name, values in stray.items()}
    assert mean["independent"] < 1.15 * mean["leaning"], mean
    assert mean["never evened out"] > 1.5 * mean["leaning"], mean


@pytest.mark.parametrize("room", [8.0, 2.0])
def test_many_rounds_add_up_to_no_more_than_one(room: float) -> None:
    """Nodes that arrive one after another, edges in order of the later end."""
    rng = np.random.default_rng(0)
    n_nodes = 150
    u, v = rng.integers(0, n_nodes, (2, 60_000))
    order = np.argsort(np.maximum(u, v), kind="stable")
    proper = order[u[order] != v[order]]
    path = np.arange(n_nodes - 1)
    u, v = np.concatenate([path, u[proper]]), np.concatenate([path + 1, v[proper]])
    edges = EdgeList(u=u, v=v, weight=np.ones(u.size), n_nodes=n_nodes)
    settings = _settings(edges, 0.9, 1, "dependent")
    whole = resparsify(sparsified(edges, settings, n_blocks=1), settings)
    tight = replace(settings, buffer_edges=int(room * expected_size(settings, n_nodes)))
    many = resparsify(sparsified(edges, tight, n_blocks=100), settings)
    assert many.n_resparsifications > (8 if room > 2.0 else 30)
    errors = [spectral_error(edges.graph(), sparsifier_graph(state)) for state in (whole, many)]
    assert errors[1] < 1.15 * errors[0] < 0.9


def test_independent_coins_know_no_surplus() -> None:
    state, settings, blocks = _arriving(FAMILIES["random"](0), "independent")
    grown = absorb(state, settings, blocks, n_nodes=state.n_nodes)
    assert state.cards.n_nodes == state.n_nodes
    assert grown.surplus is None


def test_leaning_arrivals_even_out_the_degrees() -> None:
    """Equal probabilities, other coins: how far degrees stray from those that arrived."""
    edges = FAMILIES["random"](0)
    state, settings, blocks = _arriving(edges, "dependent")
    state = replace(state, surplus=None)  # arrivals would make up for what thinning has left
    arrived = np.zeros(edges.n_nodes)
    for block in blocks:
        np.add.at(arrived, block.u, block.weight)
        np.add.at(arrived, block.v, block.weight)
    spread: dict[Coins, list[float]] = {coins: [] for coins in COINS}
    for seed in range(5):
        for coins, found in spread.items():
            thrown = replace(settings, coins=coins, slack=1.0, seed=seed)
            degree = np.zeros(edges.n_nodes)
            for records in score(state, thrown, blocks).records:
                np.add.at(degree, records.u, records.conductance)
                np.add.at(degree, records.v, records.conductance)
            found.append(float(np.mean((degree / arrived - 1.0) ** 2)))
    # about one edge in each of four lanes, where there would be the square root of some 30
    assert np.mean(spread["dependent"]) < 0.4 * np.mean(spread["independent"]), spread


@pytest.mark.slow
@pytest.mark.parametrize("coins", COINS)
def test_laplacian_is_unbiased_over_seeds(coins: Coins) -> None:
    edges = two_communities(60, 0.8, 4, 0)
    degrees = []
    for seed in range(150):
        # a small buffer, so that arriving coins are thrown too
        settings = replace(_settings(edges, 0.9, seed, coins), buffer_edges=edges.n_edges // 2)
        state = sparsified(edges, settings, n_blocks=6, n_forced=3)
        degrees.append(sparsifier_graph(state).degree)
    samples = np.array(degrees)
    spread = samples.std(axis=0, ddof=1) / math.sqrt(len(samples))
    distance = np.abs(samples.mean(axis=0) - edges.graph().degree)
    assert (spread > 0.0).mean() > 0.9, "hardly an edge was thrown away: the test shows nothing"
    # 60 nodes: a deviation beyond 4.5 standard errors has probability below 1e-3 in all.
    # coins that lean on a surplus are cut now and then, and lean a little on what they did before
    bias = 0.03 * edges.graph().degree if coins == "dependent" else 1e-4
    assert (distance <= 4.5 * spread + bias).all()


@pytest.mark.slow
def test_bridges_and_components_are_never_lost() -> None:
    for seed in range(10):
        edges = core_with_paths(120, 6, 15, seed)
        state = sparsified(edges, _settings(edges, 0.95, seed), n_forced=20)
        graph = sparsifier_graph(state)
        assert np.array_equal(graph.component, edges.graph().component)
        kept = {
            (min(a, b), max(a, b)) for a, b in zip(state.records.u, state.records.v, strict=True)
        }
        bridges = {
            (min(a, b), max(a, b))
            for a, b in zip(edges.u.tolist(), edges.v.tolist(), strict=True)
            if max(a, b) >= 120
        }
        assert bridges <= kept


def _pairs(u: IntArray, v: IntArray) -> set[tuple[int, int]]:
    return set(zip(np.minimum(u, v).tolist(), np.maximum(u, v).tolist(), strict=True))


def test_a_tree_is_its_own_sparsifier() -> None:
    rng = np.random.default_rng(0)
    child = np.arange(1, 400)
    edges = EdgeList(
        u=child, v=(rng.random(399) * child).astype(np.int64), weight=np.ones(399), n_nodes=400
    )
    settings = _settings(edges, 0.9)
    state = sparsified(edges, settings, n_forced=5)
    assert spectral_error(edges.graph(), sparsifier_graph(state)) < 1e-6


def test_probabilities_of_a_record_never_rise() -> None:
    edges = random_graph(300, 0.5, 1)
    settings = _settings(edges, 0.9)
    state = sparsified(edges, settings)
    before = dict(zip(state.records.key.tolist(), state.records.keep_probability, strict=True))
    assert len(before) == state.n_records
    after = resparsify(state, settings).records
    assert all(
        probability <= before[key]
        for key, probability in zip(after.key.tolist(), after.keep_probability, strict=True)
    )
    assert after.n_records < state.n_records


@pytest.mark.parametrize("coins", COINS)
def test_buffer_does_not_grow_with_the_number_of_edges(coins: Coins) -> None:
    rng = np.random.default_rng(0)
    n_nodes, per_block = 200, 5_000
    settings = SparsifierSettings(epsilon=0.9, seed=3, expected_nodes=n_nodes, coins=coins)
    state, largest = SparsifierState(), []
    for _ in range(60):
        u = rng.integers(0, n_nodes, per_block)
        v = (u + rng.integers(1, n_nodes, per_block)) % n_nodes
        block = edge_block(u, v, np.ones(per_block))
        state = absorb(state, settings, [block], n_nodes=n_nodes)
        largest.append(state.n_records)
        if state.n_records > buffer_cap(state, settings):
            state = resparsify(state, settings)
    assert state.n_rows_seen == 60 * per_block
    assert state.n_resparsifications >= 2
    assert max(largest[30:]) <= max(largest[:30])
    assert max(largest) <= BUFFER_FACTOR * expected_size(settings, n_nodes) + per_block


def test_edges_of_nodes_younger_than_the_embedding_are_kept() -> None:
    edges = random_graph(200, 0.5, 0)
    settings = _settings(edges, 0.9)
    state = resparsify(sparsified(edges, settings), settings)
    newcomers = edge_block(np.array([200, 200, 201, 0]), np.array([201, 202, 202, 200]), np.ones(4))
    [kept] = score(state, settings, [newcomers]).records
    assert kept.n_records == 4
    assert (kept.keep_probability == 1.0).all()


def test_edges_between_components_of_the_embedding_are_kept() -> None:
    left, right = random_graph(100, 0.6, 0), random_graph(100, 0.6, 1)
    edges = EdgeList(
        u=np.concatenate([left.u, right.u + 100]),
        v=np.concatenate([left.v, right.v + 100]),
        weight=np.concatenate([left.weight, right.weight]),
        n_nodes=200,
    )
    settings = _settings(edges, 0.9)
    state = resparsify(sparsified(edges, settings), settings)
    joining = edge_block(np.array([0, 1]), np.array([150, 160]), np.array([1e-6, 1e6]))
    [kept] = score(state, settings, [joining]).records
    assert kept.n_records == 2
    assert (kept.keep_probability == 1.0).all()


@pytest.mark.parametrize("n_blocks", [1, 4, 9, 30])
def test_max_edges_wins_over_epsilon_and_is_told(n_blocks: int) -> None:
    edges = random_graph(300, 0.5, 0)
    settings = replace(_settings(edges, 0.3), max_edges=3_000)
    state = thinned(sparsified(edges, settings, n_blocks=n_blocks), settings)
    assert state.n_records <= 3_000
    assert math.isfinite(state.constant)
    assert expected_epsilon(state, settings) > 0.3
    assert sparsifier_graph(state).n_components == 1


def test_a_lower_max_edges_holds_from_the_next_snapshot_on() -> None:
    edges = random_graph(300, 0.5, 0)
    settings = replace(_settings(edges, 0.3), max_edges=3_000)
    state = sparsified(edges, settings)
    assert thinned(state, replace(settings, max_edges=1_500)).n_records <= 1_500


def test_a_budget_below_the_spanning_forest_keeps_the_forest() -> None:
    edges = random_graph(300, 0.5, 0)
    settings = replace(_settings(edges, 0.3), max_edges=100)
    state = resparsify(sparsified(edges, settings), settings)
    assert sparsifier_graph(state).n_components == 1


def test_equal_seeds_give_equal_sparsifiers_and_others_do_not() -> None:
    edges = random_graph(300, 0.5, 0)
    first, again, other = (
        sparsified(edges, _settings(edges, 0.9, seed)).records for seed in (1, 1, 2)
    )
    assert np.array_equal(first.key, again.key)
    assert np.array_equal(first.keep_probability, again.keep_probability)
    assert not np.array_equal(first.key, other.key)


def test_thinning_for_a_snapshot_leaves_the_stream_alone() -> None:
    edges = random_graph(300, 0.5, 0)
    settings = _settings(edges, 0.9)
    full = SparsifierState()
    for block in edges.blocks(2):
        full = absorb(full, settings, [block], n_nodes=edges.n_nodes)
    published = thinned(full, settings)
    assert published.n_records < edges.n_edges
    assert full.n_records == edges.n_edges
    assert thinned(published, settings) is published


def test_nothing_is_thrown_away_when_the_embedding_does_not_converge() -> None:
    edges = random_graph(300, 0.5, 0)
    settings = _settings(edges, 0.9)
    state = sparsified(edges, settings, n_blocks=3)
    after = resparsify(state, settings, cancelled=lambda: True)
    assert after.n_failed_embeddings == state.n_failed_embeddings + 1
    assert np.array_equal(after.records.key, state.records.key)
    assert np.array_equal(after.records.keep_probability, state.records.keep_probability)


def test_everything_kept_expects_no_error() -> None:
    edges = random_graph(50, 0.3, 0)
    settings = SparsifierSettings(epsilon=0.5)
    state = sparsified(edges, settings)
    assert state.n_records == edges.n_edges
    assert expected_epsilon(state, settings) == 0.0


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("epsilon", 1.5, r"epsilon must lie in \(0, 1\), got 1.5"),
        ("epsilon", float("nan"), "epsilon must lie"),
        ("seed", -1, "seed must lie"),
        ("expected_nodes", 1, "expected_nodes must be at least 2, got 1"),
        ("max_edges", 0, "max_edges must be at least 1, got 0"),
        ("n_probes", 0, r"n_probes must lie in \[1, 28\], got 0"),
        ("n_probes", 29, r"n_probes must lie in \[1, 28\], got 29"),
        ("slack", 0.9, "slack must be at least 1, got 0.9"),
        ("slack", float("nan"), "slack must be at least 1, got nan"),
        ("buffer_edges", 0, "buffer_edges must be at least 1, got 0"),
        ("ridge", -0.5, "ridge must be finite and at least 0, got -0.5"),
        ("ridge", float("inf"), "ridge must be finite and at least 0, got inf"),
        ("coins", "loaded", "coins must be one of .*, got 'loaded'"),
    ],
)
def test_settings_outside_their_range_are_refused(field: str, value: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SparsifierSettings(**{"epsilon": 0.7, field: value})


@pytest.mark.parametrize("weight", [1e-20, 1e-37, 1e30])
@pytest.mark.parametrize("coins", COINS)
def test_the_unit_of_weights_decides_nothing(coins: Coins, weight: float) -> None:
    edges = random_graph(100, 1.0, 0)
    scaled = replace(edges, weight=edges.weight * weight)
    settings = replace(_settings(edges, 0.9, 1, coins), buffer_edges=edges.n_edges // 2)
    state = sparsified(scaled, settings, n_forced=1)
    kept = sparsified(edges, settings, n_forced=1).n_records
    assert 0.9 * kept < state.n_records < min(1.3 * kept, edges.n_edges)
    assert sparsifier_graph(state).n_components == 1
    assert spectral_error(scaled.graph(), sparsifier_graph(state)) < 0.9
    assert 0.3 < expected_epsilon(state, settings) < 0.9


def test_weights_of_many_orders_lose_no_component() -> None:
    rng = np.random.default_rng(0)
    edges = random_graph(150, 1.0, 0)
    weight = np.where(rng.random(edges.n_edges) < 0.5, 1.0, np.exp(-rng.uniform(80, 103)))
    edges = replace(edges, weight=weight.astype(np.float32).astype(np.float64))
    settings = replace(_settings(edges, 0.7, 1, "dependent"), buffer_edges=4_000)
    state = sparsified(edges, settings, n_forced=2)
    assert state.n_records < 4_000
    assert sparsifier_graph(state).n_components == 1
    assert spectral_error(edges.graph(), sparsifier_graph(state)) < 0.7


def test_a_budget_below_the_accuracy_asked_is_told() -> None:
    edges = random_graph(150, 1.0, 0)
    for max_edges in (10, 200, 600):
        settings = replace(_settings(edges, 0.5, 1, "dependent"), max_edges=max_edges)
        state = sparsified(edges, settings, n_forced=1)
        true = spectral_error(edges.graph(), sparsifier_graph(state))
        assert expected_epsilon(state, settings) > 0.7 * min(true, 1.0)


@pytest.mark.parametrize("epsilon", [0.9, 0.5])
def test_what_is_published_of_a_buffer_with_room_is_as_large_as_without(epsilon: float) -> None:
    edges = random_graph(400, 0.9, 0)
    settings = _settings(edges, epsilon, coins="dependent")
    roomy = sparsified(edges, settings.with_room(3.0), n_forced=1)
    plain = sparsified(edges, settings, n_forced=1)
    published = thinned(roomy, settings)
    assert roomy.n_records == pytest.approx(3.0 * plain.n_records, rel=0.1)
    assert published.n_records == pytest.approx(plain.n_records, rel=0.05)
    assert spectral_error(edges.graph(), sparsifier_graph(published)) <= epsilon


@pytest.mark.parametrize("room", [1.0, 2.0])
def test_a_bound_on_what_is_published_is_met_with_room(room: float) -> None:
    edges = random_graph(400, 0.9, 0)
    settings = replace(_settings(edges, 0.5, coins="dependent"), max_edges=3_000)
    state = sparsified(edges, settings.with_room(room), n_forced=1)
    assert 0.9 * room * 3_000 < state.n_records <= room * 3_000
    assert 2_700 < thinned(state, settings).n_records <= 3_000
