"""The budget: every edge is kept while they fit, then as many as fit, whatever comes."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from peewit.solvers.graph import Graph
from peewit.streaming.sparsifier import survivor_estimate
from peewit.streaming.sparsifier.budget_shares import budget_shares
from peewit.streaming.sparsifier.merge_tree import leaf
from peewit.streaming.sparsifier.parallel_records import merged_records, n_merged
from peewit.streaming.sparsifier.runs import EMPTY_RUNS
from peewit.streaming.sparsifier.sample_size import (
    expected_size,
    present_constant,
    sampling_constant,
    target_epsilon,
)
from peewit.streaming.sparsifier.settings_and_state import (
    Coins,
    SparsifierSettings,
    SparsifierState,
)
from peewit.streaming.sparsifier.sparsifier import (
    BUDGET_FACTOR,
    absorb,
    buffer_cap,
    expected_epsilon,
    is_full,
    resparsify,
    sparsifier_graph,
    thinned,
)
from tests.reference.spectrum import spectral_error
from tests.streaming.graphs import EdgeList, edge_block, heavy_tailed, random_graph, two_communities

FAMILIES: dict[str, Callable[[int], EdgeList]] = {
    "random": lambda seed: random_graph(300, 0.4, seed),
    "two communities": lambda seed: two_communities(300, 0.5, 6, seed),
    "heavy-tailed weights": lambda seed: heavy_tailed(250, 0.6, seed),
}
GROUP = 500


def settings_of(max_edges: int, *, coins: Coins = "dependent", **others: int) -> SparsifierSettings:
    return SparsifierSettings(max_edges=max_edges, expected_nodes=2, coins=coins, **others)


def states(
    edges: EdgeList, settings: SparsifierSettings, state: SparsifierState | None = None
) -> Iterator[SparsifierState]:
    """After each group of a stream, resparsified where the buffer is full."""
    state = state or SparsifierState()
    for rows in np.array_split(np.arange(edges.n_edges), -(-edges.n_edges // GROUP)):
        if is_full(state, settings):
            state = resparsify(state, settings)
        block = edge_block(edges.u[rows], edges.v[rows], edges.weight[rows])
        state = absorb(state, settings, [block], n_nodes=edges.n_nodes)
        yield state


def first_rows(edges: EdgeList, n_rows: int) -> EdgeList:
    return EdgeList(
        u=edges.u[:n_rows], v=edges.v[:n_rows], weight=edges.weight[:n_rows], n_nodes=edges.n_nodes
    )


def share_of(edges: EdgeList, settings: SparsifierSettings, *, first_block: int) -> SparsifierState:
    """A share of a stream, resparsified once more in the end if its buffer is full."""
    *_, state = states(edges, settings, leaf(SparsifierState(), first_block=first_block))
    return resparsify(state, settings) if is_full(state, settings) else state


def is_equal(first: Graph, second: Graph) -> bool:
    """Whether they are the same, but for the rounding of sums."""
    pairs = zip(first.edges(), second.edges(), strict=True)
    return all(np.allclose(one, other, rtol=1e-6, atol=0.0) for one, other in pairs)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_edge_is_kept_while_they_fit(family: str) -> None:
    edges = FAMILIES[family](0)
    settings = settings_of(edges.n_edges)
    for state in states(edges, settings):
        published = thinned(state, settings)
    kept, whole = sparsifier_graph(published), edges.graph()
    assert all(np.array_equal(*pair) for pair in zip(kept.edges(), whole.edges(), strict=True))
    assert expected_epsilon(published, settings) == 0.0
    assert published.n_resparsifications == 0


@pytest.mark.parametrize("coins", ["dependent", "independent"])
@pytest.mark.parametrize("family", FAMILIES)
def test_of_more_edges_no_more_than_the_budget_are_kept(family: str, coins: Coins) -> None:
    edges = FAMILIES[family](1)
    settings = settings_of(edges.n_edges // 5, coins=coins)
    assert settings.max_edges is not None
    largest = []
    for state in states(edges, settings):
        published = thinned(state, settings)
        largest.append(state.n_records)
        assert published.n_records <= settings.max_edges
        n_components = first_rows(edges, state.n_rows_seen).graph().n_components
        assert sparsifier_graph(published).n_components == n_components, "components were lost"
    assert max(largest) <= BUDGET_FACTOR * settings.max_edges + GROUP
    graph = sparsifier_graph(published)
    assert graph.n_components == edges.graph().n_components
    assert graph.n_edges > 0.8 * settings.max_edges, "the budget is not made use of"
    expected = expected_epsilon(published, settings)
    assert expected > 0.0
    assert spectral_error(edges.graph(), graph) < 1.5 * expected


@pytest.mark.parametrize("coins", ["dependent", "independent"])
def test_a_budget_that_a_forest_uses_up_keeps_the_forest_alone(coins: Coins) -> None:
    edges = random_graph(300, 0.4, 1)
    settings = settings_of(290, coins=coins)
    for state in states(edges, settings):
        published = thinned(state, settings)
        assert state.n_records <= BUDGET_FACTOR * 290 + GROUP
        whole = first_rows(edges, state.n_rows_seen).graph()
        assert sparsifier_graph(published).n_components == whole.n_components
        if whole.n_components == 1:
            assert published.n_records == 299
    assert published.cards.n_nodes == 0
    assert expected_epsilon(published, settings) > 1e6
    assert published.degree is not None
    np.testing.assert_allclose(published.degree, whole.degree)


def test_a_larger_budget_errs_less() -> None:
    edges = random_graph(300, 0.5, 3)
    told, errors = [], []
    for share in (0.9, 0.5, 0.2, 0.08):
        settings = settings_of(int(share * edges.n_edges))
        *_, state = states(edges, settings)
        published = thinned(state, settings)
        told.append(expected_epsilon(published, settings))
        errors.append(spectral_error(edges.graph(), sparsifier_graph(published)))
    assert told == sorted(told)
    assert errors == sorted(errors)


def test_pairs_that_come_again_and_again_stay_whole() -> None:
    once = random_graph(100, 0.2, 0)
    settings = settings_of(once.n_edges + 5)
    rows = np.tile(np.arange(once.n_edges), 20)
    weight = np.arange(rows.size, dtype=np.float32) % 7 + 1
    again = EdgeList(u=once.u[rows], v=once.v[rows], weight=weight, n_nodes=once.n_nodes)
    for state in states(again, settings):
        assert state.n_records <= BUDGET_FACTOR * once.n_edges + GROUP + 10
    published = thinned(state, settings)
    assert is_equal(sparsifier_graph(published), again.graph())
    assert expected_epsilon(published, settings) == 0.0


@pytest.mark.parametrize("coins", ["dependent", "independent"])
def test_a_pair_in_two_shares_throws_two_coins(coins: Coins) -> None:
    """Shares are thinned before they are merged; equal coins would err twice as much."""
    once = random_graph(300, 0.4, 0)
    turned = EdgeList(u=once.v, v=once.u, weight=once.weight, n_nodes=once.n_nodes)
    settings = settings_of(once.n_edges // 5, coins=coins)
    first = share_of(once, settings, first_block=0)
    second = share_of(turned, settings, first_block=first.n_blocks)
    assert not set(first.records.key) & set(second.records.key)
    kept = [np.zeros((300, 300)) for _ in range(2)]
    for matrix, state in zip(kept, (first, second), strict=True):
        records = state.records
        matrix[np.minimum(records.u, records.v), np.maximum(records.u, records.v)] = 1.0
    pairs = np.minimum(once.u, once.v), np.maximum(once.u, once.v)
    one, other = (matrix[pairs] for matrix in kept)
    assert 0.1 < one.mean() < 0.5
    assert 0.1 < other.mean() < 0.5
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.2
    again = share_of(turned, settings, first_block=first.n_blocks)
    assert all(
        np.array_equal(*columns)
        for columns in zip(again.records.columns, second.records.columns, strict=True)
    )


def test_files_that_can_leave_keep_records_of_their_own() -> None:
    """Records of several files in one could not be retracted with one of them."""
    once = random_graph(60, 0.3, 0)
    settings = settings_of(once.n_edges)
    state = SparsifierState(runs=EMPTY_RUNS)
    for run in "abc":
        block = edge_block(once.u, once.v, once.weight)
        state = absorb(state, settings, [block], n_nodes=60, run=run)
    assert is_full(state, settings)
    thin = resparsify(state, settings)
    assert thin.runs is not None
    assert thin.runs.keys == ("a", "b", "c")
    assert thin.runs.n_records == thin.n_records
    assert expected_epsilon(thin, settings) > 0.0
    merged = resparsify(replace(state, runs=None), settings)
    assert merged.n_records == once.n_edges  # where nothing leaves


def test_many_records_of_a_pair_are_published_whole() -> None:
    once = random_graph(60, 0.3, 0)
    settings = settings_of(once.n_edges)
    *_, state = states(once, settings)
    twice = replace(state, chunks=(*state.chunks, *state.chunks, *state.chunks))
    assert n_merged(twice.chunks, n_nodes=60) == once.n_edges
    assert thinned(twice, settings) is twice  # what is published is merged in any case


@pytest.mark.parametrize("budget", [3_000, 8_000, 17_900, 18_500, 60_000])
def test_shares_by_a_sample_are_those_by_all_pairs(
    monkeypatch: pytest.MonkeyPatch, budget: int
) -> None:
    monkeypatch.setattr(survivor_estimate, "_SAMPLE_RECORDS", 1 << 9)
    relations = [random_graph(300, density, seed) for seed, density in enumerate((0.02, 0.1, 0.3))]
    buffers = []
    for edges in relations:
        *_, state = states(edges, settings_of(10**6))
        buffers.append(replace(state, chunks=(*state.chunks, *state.chunks)))
    sizes = [edges.n_edges for edges in relations]
    shares = budget_shares(buffers, budget)
    if 2 * sum(sizes) <= budget:
        assert shares == [2 * size for size in sizes]  # they need not be counted
        return
    assert sum(shares) == pytest.approx(min(budget, sum(sizes)), abs=3)
    constant = max(shares) / 300  # that of the relation which is thinned most
    assert shares == [pytest.approx(min(size, constant * 300), abs=1) for size in sizes]


def test_merged_records_are_the_sums_of_their_pairs() -> None:
    edges = random_graph(50, 0.4, 2)
    rows = np.random.default_rng(0).integers(0, edges.n_edges, 900)
    turned = rows % 2 == 0
    u = np.where(turned, edges.v[rows], edges.u[rows])
    v = np.where(turned, edges.u[rows], edges.v[rows])
    given = EdgeList(u=u, v=v, weight=edges.weight[rows], n_nodes=50)
    *_, state = states(given, settings_of(10_000))
    merged = replace(state, chunks=merged_records(state.chunks, n_nodes=50, last_block=0))
    assert merged.n_records == np.unique(rows).size
    assert is_equal(sparsifier_graph(merged), given.graph())
    assert np.unique(merged.records.key).size == merged.n_records


def test_a_sum_that_a_float32_does_not_hold_stays_in_parts() -> None:
    largest = np.full(2, 3e38, np.float32)
    block = edge_block(np.array([0, 1]), np.array([1, 0]), largest)
    state = absorb(SparsifierState(), settings_of(10), [block], n_nodes=2)
    assert merged_records(state.chunks, n_nodes=2, last_block=0) == state.chunks


@pytest.mark.parametrize("coins", ["dependent", "independent"])
@pytest.mark.parametrize("n_nodes", [50, 10**4, 10**6])
@pytest.mark.parametrize("epsilon", [0.2, 0.7, 0.95])
def test_a_budget_stands_for_the_epsilon_of_that_size(
    n_nodes: int, epsilon: float, coins: Coins
) -> None:
    asking = SparsifierSettings(epsilon=epsilon, coins=coins, expected_nodes=2)
    size = expected_size(asking, n_nodes)
    budget = SparsifierSettings(max_edges=round(size), coins=coins, expected_nodes=2)
    assert target_epsilon(budget, n_nodes) == pytest.approx(epsilon, rel=0.01)
    assert expected_size(budget, n_nodes) == round(size)
    assert sampling_constant(budget, n_nodes) == pytest.approx(
        sampling_constant(asking, n_nodes), rel=0.02
    )
    roomy = budget.with_room(3.0)
    assert target_epsilon(roomy, n_nodes) == pytest.approx(epsilon, rel=0.01)


def test_the_constant_of_arrivals_is_what_the_budget_affords() -> None:
    settings = settings_of(1_000)
    fresh = SparsifierState(n_nodes=100)
    assert present_constant(fresh, settings) == sampling_constant(settings, 100)
    assert present_constant(replace(fresh, constant=77.0), settings) == 77.0
    asking = SparsifierSettings(epsilon=0.5, expected_nodes=2)
    assert present_constant(replace(fresh, constant=1e9), asking) < 1e3


def test_room_for_what_leaves_is_part_of_the_buffer() -> None:
    settings = settings_of(1_000)
    assert buffer_cap(SparsifierState(), settings) == 2_000
    assert buffer_cap(SparsifierState(), settings.with_room(3.0)) == 4_000


def test_neither_budget_nor_epsilon_is_refused() -> None:
    with pytest.raises(ValueError, match="epsilon or max_edges must be given, got neither"):
        SparsifierSettings()
