"""Thinning by clusters: fair, as exact as by an embedding, and chosen where it serves."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from peewit.solvers.arrays import FloatArray
from peewit.streaming.edges.blocks import EdgeBlock
from peewit.streaming.kernels.coins import score_records
from peewit.streaming.snapshots.checkpoints import Checkpoint, CheckpointStore
from peewit.streaming.sparsifier import buffer_resistances
from peewit.streaming.sparsifier.cluster_resistances import bounds_inside
from peewit.streaming.sparsifier.node_resistances import NodeCards
from peewit.streaming.sparsifier.sample_size import local_factor, sampling_constant
from peewit.streaming.sparsifier.settings_and_state import (
    Coins,
    Records,
    SparsifierSettings,
    SparsifierState,
)
from peewit.streaming.sparsifier.sparsifier import absorb, is_full, resparsify, sparsifier_graph
from peewit.streaming.sparsifier.thinning import Thinning, spanning_forest, thin
from tests.reference.resistance import DenseGraph
from tests.reference.spectrum import spectral_error
from tests.streaming.graphs import EdgeList, edge_block, records_of, rings


def exact_counted(edges: EdgeList, settings: SparsifierSettings) -> FloatArray:
    """(n_nodes, n_nodes) counted resistances of all pairs, by the pseudo-inverse."""
    dense = DenseGraph.of(edges.graph(), settings.ridge)
    pairs = np.indices((edges.n_nodes, edges.n_nodes))
    factor = local_factor(settings, edges.n_nodes)
    return dense.resistances(*pairs) - (1.0 - factor) * dense.local_terms(*pairs)


def thinning_of(
    records: Records, settings: SparsifierSettings, n_nodes: int, stream: int = 1
) -> Thinning:
    thinning = thin(
        [records],
        NodeCards.empty(),
        settings,
        n_nodes=n_nodes,
        constant=sampling_constant(settings, n_nodes),
        coin_stream=stream,
    )
    assert thinning is not None
    return thinning


def settings_of(edges: EdgeList, coins: Coins = "dependent") -> SparsifierSettings:
    # the logarithm of a large graph, so that degrees count with a factor
    return SparsifierSettings(epsilon=0.9, expected_nodes=10**6, coins=coins)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters are tried in small graphs too, where one ring cut in two is many edges."""
    monkeypatch.setattr(buffer_resistances, "LEAST_NODES", 0)
    monkeypatch.setattr(buffer_resistances, "MOST_TOGETHER", 20)
    monkeypatch.setattr(buffer_resistances, "MOST_CLUSTER_EXCESS", 0.6)
    monkeypatch.setattr(buffer_resistances, "CLUSTER_LOOKS", ((10, 0.6),))


@pytest.mark.usefixtures("tried")
@pytest.mark.parametrize("ridge", [0.0, 5.0])
@pytest.mark.parametrize("coins", ["independent", "dependent"])
def test_probabilities_are_no_less_than_exact_leverages_ask_for(coins: Coins, ridge: float) -> None:
    for seed in range(3):
        edges = rings(15, 20, seed, per_node=60, far_share=0.01)
        records = records_of(edges)
        settings = replace(settings_of(edges, coins), seed=seed, ridge=ridge)
        thinning = thinning_of(records, settings, edges.n_nodes)
        cards = thinning.cards
        assert not cards.has_vectors
        assert cards.n_components >= 15
        component = cards.views[2][:, -1]
        leverage = records.weight * exact_counted(edges, settings)[records.u, records.v]
        copies = settings.oversampling * thinning.constant
        lowered = thinning.lowered[0]
        survives = lowered > 0.0
        needed = np.minimum(1.0, copies * leverage)
        assert (lowered >= needed * (1 - 1e-6))[survives].all()
        assert (lowered[component[records.u] != component[records.v]] == 1.0).all()
        assert survives.mean() < 0.7


@pytest.mark.slow
@pytest.mark.usefixtures("tried")
@pytest.mark.parametrize("coins", ["independent", "dependent"])
def test_coins_are_fair(coins: Coins) -> None:
    edges = rings(10, 20, seed=3, per_node=40)
    records, settings = records_of(edges), settings_of(edges, coins)
    n_streams, n_kept = 200, np.zeros(edges.n_edges)
    for stream in range(n_streams):
        thinning = thinning_of(records, settings, edges.n_nodes, stream)
        n_kept += thinning.lowered[0] > 0.0
    score = np.empty(records.n_records, np.float32)
    score_records(*records.columns[:4], *thinning.cards.views, 1.0, 0.0, False, score)
    chance = np.minimum(1.0, settings.oversampling * thinning.constant * score)
    chance[spanning_forest([records], n_nodes=edges.n_nodes)[0]] = 1.0
    assert (n_kept[chance == 1.0] == n_streams).all()
    tossed = chance < 0.98
    assert tossed.mean() > 0.5
    missed = (n_kept - chance * n_streams)[tossed]
    missed /= np.sqrt(chance * (1 - chance) * n_streams)[tossed]
    assert abs(missed.mean()) < 0.1
    assert 0.8 < np.mean(missed**2) < 1.2


@pytest.mark.usefixtures("tried")
def test_rings_are_as_exact_as_by_an_embedding(monkeypatch: pytest.MonkeyPatch) -> None:
    errors, kept = np.empty((2, 10)), np.empty((2, 10))
    for way, least in enumerate((0, 10**9)):
        monkeypatch.setattr(buffer_resistances, "LEAST_NODES", least)
        for seed in range(10):
            edges = rings(15, 20, seed, per_node=60, far_share=0.01)
            settings = replace(settings_of(edges), seed=seed)
            state = SparsifierState(chunks=(records_of(edges),), n_nodes=edges.n_nodes)
            state = resparsify(state, settings)
            assert state.cards.has_vectors == (way == 1)
            errors[way, seed] = spectral_error(edges.graph(), sparsifier_graph(state))
            kept[way, seed] = state.n_records / edges.n_edges
    assert errors.max() < 0.9
    assert errors[0].mean() < 1.05 * errors[1].mean()
    assert kept[0].mean() < 1.15 * kept[1].mean()


@pytest.mark.usefixtures("tried")
def test_later_edges_stay_between_clusters_and_by_leverage_inside() -> None:
    edges = rings(15, 20, seed=0, per_node=60, far_share=0.01)
    settings = settings_of(edges)
    state = SparsifierState(
        chunks=(records_of(edges),), n_nodes=edges.n_nodes, n_blocks=1, n_rows_seen=edges.n_edges
    )
    state = replace(resparsify(state, settings), chunks=())
    component = state.cards.views[2][:, -1]
    later = rings(15, 20, seed=0, per_node=60, far_share=0.5)
    after = absorb(
        state, settings, [edge_block(later.u, later.v, later.weight)], n_nodes=edges.n_nodes
    ).records
    is_far = component[after.u] != component[after.v]
    assert np.count_nonzero(is_far) == np.count_nonzero(component[later.u] != component[later.v])
    assert (after.keep_probability[is_far] == 1.0).all()
    copies = settings.oversampling * sampling_constant(settings, edges.n_nodes)
    met = exact_counted(edges, settings)[after.u, after.v]
    needed = np.minimum(1.0, copies * met / (1.0 + met))
    assert (after.keep_probability >= needed * (1 - 1e-5)).all()
    assert after.keep_probability[~is_far].max() < 0.9


@pytest.mark.usefixtures("tried")
def test_a_stream_resumed_from_a_checkpoint_goes_on_as_if_unbroken(tmp_path: Path) -> None:
    edges = rings(15, 20, seed=0, per_node=60, far_share=0.01)
    settings = replace(settings_of(edges), buffer_edges=4_000)

    def advance(state: SparsifierState, blocks: list[EdgeBlock]) -> SparsifierState:
        for block in blocks:
            state = absorb(state, settings, [block], n_nodes=edges.n_nodes)
            if is_full(state, settings):
                state = resparsify(state, settings)
        return state

    blocks = edges.blocks(12)
    unbroken = advance(SparsifierState(), blocks)
    assert unbroken.n_resparsifications > 2
    assert unbroken.cards.n_components >= 15
    half = advance(SparsifierState(), blocks[:7])
    assert half.cards.n_components >= 15
    CheckpointStore(tmp_path).save(Checkpoint(states={"": half}, n_nodes=edges.n_nodes, files=()))
    resumed = advance(CheckpointStore(tmp_path).newest().state, blocks[7:])
    for one, other in zip(resumed.records.columns, unbroken.records.columns, strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(resumed.cards.array, unbroken.cards.array)


def assert_same(first: Thinning, second: Thinning) -> None:
    assert np.array_equal(first.lowered[0], second.lowered[0])
    assert np.array_equal(first.cards.array, second.cards.array)


@pytest.mark.usefixtures("tried")
@pytest.mark.parametrize("case", ["mixing badly", "budget"])
def test_the_embedding_decides_where_clusters_do_not_serve(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neighbors on a circle, cut by any clusters; a budget, which edges between could exceed."""
    if case == "budget":
        edges = rings(15, 20, seed=0, per_node=60, far_share=0.01)
        settings = replace(settings_of(edges), max_edges=edges.n_edges // 10)
    else:
        step = np.repeat(np.arange(1, 31), 1_000)
        u = np.tile(np.arange(1_000), 30)
        edges = EdgeList(u=u, v=(u + step) % 1_000, weight=np.ones(u.size), n_nodes=1_000)
        settings = settings_of(edges)
    records = records_of(edges)
    tried = thinning_of(records, settings, edges.n_nodes)
    assert tried.cards.has_vectors
    monkeypatch.setattr(buffer_resistances, "LEAST_NODES", 10**9)
    assert_same(tried, thinning_of(records, settings, edges.n_nodes))


@pytest.mark.usefixtures("tried")
def test_bounds_that_would_keep_too_many_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """All edges lie inside clusters, but paths in there are long where outside they are short."""
    edges = rings(15, 20, seed=0, per_node=60, far_share=0.01)
    records, settings = records_of(edges), settings_of(edges)
    assert not thinning_of(records, settings, edges.n_nodes).cards.has_vectors
    monkeypatch.setattr(
        buffer_resistances,
        "bounds_inside",
        lambda *arguments, **options: 2 * bounds_inside(*arguments, **options),
    )
    assert thinning_of(records, settings, edges.n_nodes).cards.has_vectors
