"""Suffixes against the edges that live at every later horizon, by dense algebra (B26)."""

import json
from dataclasses import replace

import numpy as np
import pytest

from peewit.solvers.graph import Graph
from peewit.streaming.edges.blocks import EdgeBlock
from peewit.streaming.sparsifier.bucket_degrees import BucketCounter, BucketDegrees
from peewit.streaming.sparsifier.runs import EMPTY_RUNS
from peewit.streaming.sparsifier.sample_size import (
    expected_spread,
    local_factor,
    sampling_constant,
)
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings, SparsifierState
from peewit.streaming.sparsifier.sparsifier import (
    absorb,
    expected_epsilon,
    is_full,
    sparsifier_graph,
    thinned,
)
from peewit.streaming.sparsifier.strikes import strike_nodes
from peewit.streaming.sparsifier.suffixes import forget, resparsify_suffixes
from tests.reference.spectrum import spectral_error
from tests.streaming.graphs import edge_block

N_NODES = 150
N_BUCKETS = 8
N_EDGES = 6_000
"""Of a bucket."""

SETTINGS = SparsifierSettings(epsilon=0.7, seed=3, expected_nodes=N_NODES)
BEGUN = SparsifierState(bucket_degrees=BucketDegrees(), runs=EMPTY_RUNS)


def bucket_edges(bucket: int, kind: str) -> EdgeBlock:
    """Edges inside five communities: all of them in each bucket, or one in each in turn."""
    rng = np.random.default_rng([7, bucket])
    community = np.arange(N_NODES) % 5
    inside = np.arange(N_NODES) if kind == "steady" else np.flatnonzero(community == bucket % 5)
    u = rng.choice(inside, 20 * N_EDGES)
    v = rng.integers(0, N_NODES, u.size)
    is_taken = (u != v) & ((community[u] == community[v]) | (rng.random(u.size) < 0.02))
    u, v = u[is_taken][:N_EDGES], v[is_taken][:N_EDGES]
    return replace(edge_block(u, v, rng.integers(1, 9, u.size) / 4), bucket=bucket)


def passed(kind: str, settings: SparsifierSettings = SETTINGS) -> tuple[SparsifierState, int]:
    """State after all buckets, none expired; and how often it was thinned."""
    state = BEGUN
    for bucket in range(N_BUCKETS):
        block = bucket_edges(bucket, kind)
        for rows in np.array_split(np.arange(block.u.size), 6):
            if is_full(state, settings):
                state = resparsify_suffixes(state, settings)
            part = block.where(rows)
            state = absorb(state, settings, [part], n_nodes=N_NODES)
    return resparsify_suffixes(state, settings), state.n_resparsifications


def exact_since(horizon: int, kind: str) -> Graph:
    blocks = [bucket_edges(bucket, kind) for bucket in range(horizon, N_BUCKETS)]
    columns = ([getattr(each, name) for each in blocks] for name in ("u", "v", "weight"))
    return Graph.from_edges(*map(np.concatenate, columns), n_nodes=N_NODES)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["steady", "campaigns"])
def test_what_is_left_at_every_horizon_is_as_good_as_was_asked(kind: str) -> None:
    whole, n_thinned = passed(kind)
    assert n_thinned >= 2
    assert whole.n_records < 0.75 * whole.n_edges
    copies = sampling_constant(SETTINGS, N_NODES)
    factor = local_factor(SETTINGS, N_NODES)
    for horizon in range(N_BUCKETS):
        state, exact = forget(whole, horizon), exact_since(horizon, kind)
        assert state.n_expired == whole.n_edges - sum(
            bucket_edges(bucket, kind).u.size for bucket in range(horizon, N_BUCKETS)
        )
        kept = sparsifier_graph(state)
        np.testing.assert_array_equal(kept.component, exact.component)
        assert spectral_error(exact, kept) <= SETTINGS.epsilon
        # no record was thrown for less than is due in what is left
        inverse = np.linalg.pinv(exact.laplacian().toarray())
        records = state.records
        u, v = records.u, records.v
        resistance = inverse[u, u] + inverse[v, v] - 2.0 * inverse[u, v]
        local = 1.0 / exact.degree[u] + 1.0 / exact.degree[v]
        counted = factor * local + np.maximum(resistance - local, 0.0)
        due = np.minimum(1.0, copies * records.weight * counted)
        assert (records.keep_probability >= 0.7 * due).mean() > 0.995
        # and the degrees of every suffix are even
        reached = exact.degree > 0.0
        over = (kept.degree - exact.degree)[reached] / exact.degree[reached]
        assert np.sqrt(np.mean(over**2)) < 0.06
        np.testing.assert_allclose(state.degree, exact.degree, rtol=1e-6, atol=1e-9)
        # what is published of it is of the usual size
        shown = thinned(state, SETTINGS)
        assert spectral_error(exact, sparsifier_graph(shown)) <= SETTINGS.epsilon
        assert expected_epsilon(shown, SETTINGS) <= SETTINGS.epsilon


def test_older_buckets_keep_less_and_all_together_as_planned() -> None:
    whole, _ = passed("steady")
    counts = dict(zip(whole.runs.buckets.tolist(), whole.runs.counts.tolist(), strict=True))
    assert list(counts) == list(range(N_BUCKETS))[::-1]
    assert counts[0] < 0.4 * counts[N_BUCKETS - 1]
    one = thinned(whole, SETTINGS).n_records
    assert whole.n_records < 1.3 * expected_spread(N_BUCKETS) * one


def test_edges_of_a_later_bucket_than_the_cards_know_stay() -> None:
    state, _ = passed("steady")
    assert state.cards.n_nodes == N_NODES
    assert state.cards_bucket == N_BUCKETS - 1
    for bucket, is_whole in ((N_BUCKETS - 1, False), (0, False), (N_BUCKETS, True)):
        block = replace(bucket_edges(1, "steady"), bucket=bucket)
        after = absorb(state, SETTINGS, [block], n_nodes=N_NODES)
        assert (after.n_records - state.n_records == block.u.size) == is_whole
        known = after.bucket_degrees.of(bucket, N_NODES)
        known -= state.bucket_degrees.of(bucket, N_NODES)
        of_block = Graph.from_edges(block.u, block.v, block.weight, n_nodes=N_NODES)
        np.testing.assert_allclose(known, of_block.degree, rtol=1e-3)


def test_cards_go_with_the_edges_that_they_know() -> None:
    state, _ = passed("steady")
    assert forget(state, N_BUCKETS - 1).cards is state.cards
    gone = forget(state, N_BUCKETS)
    assert gone.cards.n_nodes == 0
    assert gone.n_records == 0
    assert gone.n_expired == state.n_edges
    block = replace(bucket_edges(1, "steady"), bucket=N_BUCKETS + 2)
    after = absorb(gone, SETTINGS, [block], n_nodes=N_NODES)
    assert after.n_records == block.u.size
    np.testing.assert_allclose(
        resparsify_suffixes(after, SETTINGS).degree,
        Graph.from_edges(block.u, block.v, block.weight, n_nodes=N_NODES).degree,
        rtol=1e-6,
    )


@pytest.mark.parametrize("coins", ["dependent", "independent"])
def test_equal_buckets_give_equal_records_and_rise_is_never_thrown_again(coins: str) -> None:
    settings = replace(SETTINGS, coins=coins)
    first, _ = passed("campaigns", settings)
    second, _ = passed("campaigns", settings)
    for name in ("u", "v", "weight", "keep_probability", "key"):
        np.testing.assert_array_equal(getattr(first.records, name), getattr(second.records, name))
    again = resparsify_suffixes(first, settings)
    before = dict(zip(first.records.key.tolist(), first.records.keep_probability, strict=True))
    for key, probability in zip(
        again.records.key.tolist(), again.records.keep_probability, strict=True
    ):
        assert probability <= before[key]


def test_an_embedding_that_fails_keeps_edges_and_is_counted() -> None:
    state = BEGUN
    for bucket in range(2):
        block = bucket_edges(bucket, "steady")
        state = absorb(state, SETTINGS, [block], n_nodes=N_NODES)
    stopped = resparsify_suffixes(state, SETTINGS, cancelled=lambda: True)
    assert stopped.n_records == state.n_records
    assert stopped.n_failed_embeddings > 0
    assert stopped.smallest_constant == np.inf


def test_degrees_of_buckets_lose_what_erased_nodes_had() -> None:
    state, _ = passed("steady")
    nodes = np.array([4, 9], np.int32)
    struck = strike_nodes(state, nodes)
    known = struck.bucket_degrees
    assert known.buckets == state.bucket_degrees.buckets
    for bucket, before in zip(known.buckets, state.bucket_degrees.degrees, strict=True):
        left = known.of(bucket, N_NODES)
        # by records, which stand for what they weigh in the mean
        assert left[nodes].max() < 0.6 * before[nodes].max()
        assert (left <= before + 1e-4).all()
    total = known.total(N_NODES)
    assert total[nodes].max() < 0.1 * state.degree[nodes].min()


def test_degrees_by_bucket_are_stored_and_counted() -> None:
    counter = BucketCounter()
    blocks = [bucket_edges(bucket, "campaigns") for bucket in (3, 1, 3, 2)]
    assert [counter.count(each) for each in blocks] == blocks
    found = BucketDegrees().with_counts(counter)
    assert found.buckets == (1, 2, 3)
    assert found.n_edges == (N_EDGES, N_EDGES, 2 * N_EDGES)
    joined = np.concatenate(found.degrees)
    again = BucketDegrees.restored(json.loads(json.dumps(found.stored)), joined)
    assert (again.buckets, again.n_edges) == (found.buckets, found.n_edges)
    for each, other in zip(again.degrees, found.degrees, strict=True):
        np.testing.assert_array_equal(each, other)
    nothing = BucketDegrees()
    stored = json.loads(json.dumps(nothing.stored))
    assert BucketDegrees.restored(stored, np.zeros(0, np.float32)).buckets == ()
    assert found.since(2).buckets == (2, 3)
    assert found.since(4).buckets == ()
