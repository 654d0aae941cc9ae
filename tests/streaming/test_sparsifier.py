"""The sparsifier against dense algebra: unbiased, accurate, connected, bounded, reproducible."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from solvers.arrays import IntArray
from streaming.records import Coins, SparsifierSettings, SparsifierState
from streaming.sample_size import expected_size
from streaming.sparsifier import (
    BUFFER_FACTOR,
    absorb,
    buffer_cap,
    expected_epsilon,
    resparsify,
    score,
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


@pytest.mark.parametrize("coins", COINS)
@pytest.mark.parametrize("epsilon", [0.9, 0.5])
@pytest.mark.parametrize("family", FAMILIES)
def test_spectrum_lies_within_epsilon_in_19_of_20_seeds(
    family: str, epsilon: float, coins: Coins
) -> None:
    errors, sizes = [], []
    for seed in range(20):
        edges = FAMILIES[family](seed)
        settings = _settings(edges, epsilon, seed, coins)
        state = thinned(sparsified(edges, settings), settings)
        errors.append(spectral_error(edges.graph(), sparsifier_graph(state)))
        sizes.append(state.n_records / edges.n_edges)
    assert sum(error <= epsilon for error in errors) >= 19, sorted(errors)
    assert max(sizes) < 0.9, "nothing was thrown away: the test shows nothing"


ORDERED: dict[str, Callable[[int], EdgeList]] = {
    "one region after the other": lambda seed: region_after_region(400, 0.6, 40, seed),
    "a joint of 6 that never grows": lambda seed: joint_before_growth(400, 0.6, 6, seed),
    "a joint of 60 that never grows": lambda seed: joint_before_growth(400, 0.6, 60, seed),
}


@pytest.mark.statistical
@pytest.mark.parametrize("coins", COINS)
@pytest.mark.parametrize("order", ORDERED)
def test_the_order_of_the_stream_does_not_matter(order: str, coins: Coins) -> None:
    epsilon, errors, shares = 0.7, [], []
    for seed in range(20):
        edges = ORDERED[order](seed)
        # a buffer of half the edges, so that most of the stream is scored by cards
        settings = replace(_settings(edges, epsilon, seed, coins), buffer_edges=edges.n_edges // 2)
        state = sparsified(edges, settings, n_blocks=32, n_forced=1)
        assert state.n_resparsifications >= 2
        errors.append(spectral_error(edges.graph(), sparsifier_graph(state)))
        shares.append(state.n_records / edges.n_edges)
    assert sum(error <= epsilon for error in errors) >= 19, sorted(errors)
    assert max(shares) < 0.6, "hardly an edge was thrown away: the test shows nothing"


SMALL: dict[str, Callable[[int], EdgeList]] = {
    "random": lambda seed: random_graph(200, 0.7, seed),
    "two communities": lambda seed: two_communities(200, 0.9, 6, seed),
}


@pytest.mark.statistical
@pytest.mark.parametrize("coins", COINS)
@pytest.mark.parametrize("family", SMALL)
def test_a_hundred_resparsifications_keep_the_spectrum(family: str, coins: Coins) -> None:
    epsilon, errors = 0.7, []
    for seed in range(20):
        edges = SMALL[family](seed)
        state = sparsified(edges, _settings(edges, epsilon, seed, coins), n_forced=100)
        assert state.n_resparsifications >= 100
        assert state.n_records < 0.8 * edges.n_edges
        errors.append(spectral_error(edges.graph(), sparsifier_graph(state)))
    assert sum(error <= epsilon for error in errors) >= 19, sorted(errors)


def test_expected_epsilon_is_within_a_factor_of_two_of_the_measured_one() -> None:
    for seed in range(5):
        edges = random_graph(500, 0.4, seed)
        settings = _settings(edges, 0.7, seed)
        state = sparsified(edges, settings, n_forced=1)
        expected = expected_epsilon(state, settings)
        measured = spectral_error(edges.graph(), sparsifier_graph(state))
        assert 0.5 * measured <= expected <= 2.0 * measured


def test_laplacian_is_unbiased_over_seeds() -> None:
    edges = two_communities(60, 0.8, 4, 0)
    degrees = []
    for seed in range(150):
        state = sparsified(edges, _settings(edges, 0.9, seed), n_blocks=6, n_forced=3)
        degrees.append(sparsifier_graph(state).degree)
    samples = np.array(degrees)
    spread = samples.std(axis=0, ddof=1) / math.sqrt(len(samples))
    distance = np.abs(samples.mean(axis=0) - edges.graph().degree)
    assert (spread > 0.0).mean() > 0.9, "hardly an edge was thrown away: the test shows nothing"
    # 60 nodes: a deviation beyond 4.5 standard errors has probability below 1e-3 in all.
    assert (distance <= 4.5 * spread + 1e-4).all()


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


def test_buffer_does_not_grow_with_the_number_of_edges() -> None:
    rng = np.random.default_rng(0)
    n_nodes, per_block = 200, 5_000
    settings = SparsifierSettings(epsilon=0.9, seed=3, expected_nodes=n_nodes)
    state, largest = SparsifierState(), []
    for block_number in range(60):
        u = rng.integers(0, n_nodes, per_block)
        v = (u + rng.integers(1, n_nodes, per_block)) % n_nodes
        block = edge_block(u, v, np.ones(per_block))
        state = absorb(
            state, settings, [block], [score(state, settings, block, block_number)], n_nodes=n_nodes
        )
        largest.append(state.n_records)
        if state.n_records > buffer_cap(state, settings):
            state = resparsify(state, settings)
    assert state.n_edges == 60 * per_block
    assert state.n_resparsifications >= 3
    assert max(largest[30:]) <= max(largest[:30])
    assert max(largest) <= BUFFER_FACTOR * expected_size(settings, n_nodes) + per_block


def test_edges_of_nodes_younger_than_the_embedding_are_kept() -> None:
    edges = random_graph(200, 0.5, 0)
    settings = _settings(edges, 0.9)
    state = resparsify(sparsified(edges, settings), settings)
    newcomers = edge_block(np.array([200, 200, 201, 0]), np.array([201, 202, 202, 200]), np.ones(4))
    scored = score(state, settings, newcomers, state.n_blocks)
    assert scored.n_records == 4
    assert (scored.keep_probability == 1.0).all()


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
    assert (score(state, settings, joining, 99).keep_probability == 1.0).all()


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
        scored = score(full, settings, block, full.n_blocks)
        full = absorb(full, settings, [block], [scored], n_nodes=edges.n_nodes)
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
        SparsifierSettings(**{field: value})
