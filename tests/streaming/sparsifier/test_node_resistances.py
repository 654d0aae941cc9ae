"""Node cards: what is rounded, what is kept, where it lies in memory."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peewit.solvers.arrays import Float32Array
from peewit.solvers.laplacian.effective_resistance import (
    Embedding,
    edge_resistance,
    resistance_embedding,
)
from peewit.streaming.kernels.coins import CARD_HEADER, CARD_PROBES, CARD_WIDTH
from peewit.streaming.sparsifier.node_resistances import NodeCards
from tests.streaming.graphs import core_with_paths, random_graph


def embedding_of(n_nodes: int = 60, n_probes: int = 28, seed: int = 0) -> Embedding:
    edges = random_graph(n_nodes, 0.5, seed)
    return resistance_embedding(
        edges.u,
        edges.v,
        edges.weight,
        np.arange(edges.n_edges, dtype=np.uint64),
        n_nodes=n_nodes,
        n_probes=n_probes,
        seed=seed,
    )


def cards_of(embedding: Embedding) -> NodeCards:
    return NodeCards.of_embedding(
        embedding, local_resistance=embedding.inverse_degree, total_degree=7.5
    )


def vectors_of(cards: NodeCards, n_probes: int) -> Float32Array:
    vectors: Float32Array = cards.array[:, :n_probes].astype(np.float32) * np.float32(cards.scale)
    return vectors


@pytest.mark.parametrize("n_probes", [1, 5, 28])
def test_cards_are_the_embedding_to_half_a_unit(n_probes: int) -> None:
    embedding = embedding_of(n_probes=n_probes)
    cards = cards_of(embedding)
    assert (cards.n_nodes, cards.array.dtype, cards.array.shape) == (60, np.int16, (60, 32))
    assert cards.scale == pytest.approx(float(np.abs(embedding.vectors).max()) / 32767)
    missed = np.abs(vectors_of(cards, n_probes) - embedding.vectors)
    assert missed.max() <= 0.5001 * cards.scale + 1e-6 * np.abs(embedding.vectors).max()
    assert (cards.array[:, n_probes:CARD_PROBES] == 0).all()
    _, floats, integers = cards.views
    assert np.array_equal(floats[:, -2], embedding.inverse_degree)
    assert np.array_equal(integers[:, -1], embedding.component)


def test_local_resistances_are_those_of_the_caller() -> None:
    embedding = embedding_of()
    local = np.linspace(0.0, 1.0, 60, dtype=np.float32)
    cards = NodeCards.of_embedding(embedding, local_resistance=local, total_degree=12.5)
    assert np.array_equal(cards.views[1][:, -2], local)
    assert np.array_equal(cards.local_resistance, local)
    assert cards.total_degree == 12.5


def bounds_of(n_nodes: int = 60) -> NodeCards:
    resistance = np.linspace(0.01, 2.0, n_nodes, dtype=np.float32)
    component = (np.arange(n_nodes) % 3).astype(np.int32)
    return NodeCards.of_bounds(resistance, component, total_degree=9.25)


def test_bounds_are_kept_as_they_are_without_vectors() -> None:
    cards = bounds_of()
    assert not cards.has_vectors
    assert (cards.n_nodes, cards.array.dtype, cards.array.shape) == (60, np.int16, (60, 4))
    assert CARD_HEADER == 4
    _, floats, integers = cards.views
    assert np.array_equal(floats[:, -2], np.linspace(0.01, 2.0, 60, dtype=np.float32))
    assert np.array_equal(integers[:, -1], np.arange(60) % 3)
    assert np.array_equal(floats[:, -2], cards.local_resistance)
    assert (cards.scale, cards.squared_scale, cards.total_degree) == (1.0, 1.0, 9.25)
    with pytest.raises(ValueError, match="read-only"):
        cards.array[0, 0] = 1


def test_local_resistances_tell_everything_of_one_component_without_vectors() -> None:
    local = np.array([0.5, 0.0, 0.25, 0.125, 0.0], np.float32)

    def is_local(*component: int) -> bool:
        return NodeCards.of_bounds(local, np.array(component, np.int32), total_degree=14.0).is_local

    assert is_local(3, 1, 3, 3, 0)  # nodes without edges are components of their own
    assert is_local(0, 0, 0, 0, 0)
    assert not is_local(3, 1, 3, 2, 0)
    assert not cards_of(embedding_of()).is_local


@pytest.mark.parametrize("has_vectors", [True, False])
def test_cards_survive_pickling(has_vectors: bool) -> None:
    cards = cards_of(embedding_of()) if has_vectors else bounds_of()
    copy = pickle.loads(pickle.dumps(cards))
    assert copy.has_vectors == cards.has_vectors == has_vectors
    assert copy.array.shape == (60, CARD_WIDTH if has_vectors else CARD_HEADER)
    assert np.array_equal(copy.array, cards.array)
    assert (copy.scale, copy.total_degree) == (cards.scale, cards.total_degree)
    assert copy.array.ctypes.data % 64 == 0
    assert not copy.array.flags.writeable


def test_rounding_moves_a_distance_as_little_as_promised_and_adds_on_average() -> None:
    # Long paths beside a dense core: coordinates of very different sizes.
    edges = core_with_paths(100, 4, 100, 0)
    keys = np.arange(edges.n_edges, dtype=np.uint64)
    u, v = np.triu_indices(edges.n_nodes, 1)
    added = []
    for seed in range(12):  # the points of the core share the grid cell that one seed puts them in
        embedding = resistance_embedding(
            edges.u, edges.v, edges.weight, keys, n_nodes=edges.n_nodes, n_probes=28, seed=seed
        )
        cards = cards_of(embedding)
        rounded = vectors_of(cards, 28).astype(np.float64)
        exact = embedding.vectors.astype(np.float64)
        before = np.linalg.norm(exact[u] - exact[v], axis=1)
        after = np.linalg.norm(rounded[u] - rounded[v], axis=1)
        assert np.abs(after - before).max() <= 1.001 * np.sqrt(28) * cards.scale
        near = before < np.sqrt(28) * 30 * cards.scale
        assert near.sum() > 1_000
        added.append(((after**2 - before**2) / (28 * cards.scale**2 / 6))[near].mean())
    assert np.mean(added) == pytest.approx(1.0, abs=0.5)


def test_each_card_is_one_cache_line() -> None:
    embedding = embedding_of()
    cards = cards_of(embedding)
    restored = NodeCards.restored(cards.array.copy(), cards.scale, cards.total_degree)
    for each in (cards, restored):
        assert each.array.strides == (64, 2)
        assert each.array.ctypes.data % 64 == 0


def test_restored_cards_are_equal_and_of_their_own() -> None:
    embedding = embedding_of()
    cards = cards_of(embedding)
    stored = cards.array.copy()
    restored = NodeCards.restored(stored, cards.scale, cards.total_degree)
    stored[:] = 0
    assert np.array_equal(restored.array, cards.array)
    assert (restored.scale, restored.total_degree) == (cards.scale, cards.total_degree)


def test_cards_cannot_be_written_to() -> None:
    embedding = embedding_of()
    cards = cards_of(embedding)
    for each in (cards, NodeCards.restored(cards.array, cards.scale, cards.total_degree)):
        with pytest.raises(ValueError, match="read-only"):
            each.array[0, 0] = 1


def test_no_cards_have_no_nodes_and_no_degree() -> None:
    empty = NodeCards.empty()
    assert (empty.n_nodes, empty.total_degree, empty.squared_scale) == (0, 0.0, 1.0)
    assert [view.shape for view in empty.views] == [(0, 4), (0, 2), (0, 2)]
    assert not empty.has_vectors
    assert empty.is_local
    assert empty.local_resistance.size == 0


def test_an_embedding_of_zeros_has_cards() -> None:
    none = np.zeros(0, np.int64)
    embedding = resistance_embedding(
        none, none, np.zeros(0), none.astype(np.uint64), n_nodes=3, n_probes=4, seed=0
    )
    cards = cards_of(embedding)
    assert (cards.n_nodes, cards.scale, cards.has_vectors) == (3, 1.0, True)
    assert not cards.array[:, :CARD_PROBES].any()


def test_more_probes_than_a_card_holds_are_refused() -> None:
    embedding = embedding_of(n_probes=29)
    with pytest.raises(ValueError, match="a card holds 28 probes, got 29"):
        cards_of(embedding)


@given(st.floats(2.0**-60, 2.0**60))
def test_the_unit_follows_the_weights(factor: float) -> None:
    """Weights times a factor are degrees times it and distances divided by it."""
    embedding = embedding_of(20, 4)
    scaled = Embedding(
        vectors=(embedding.vectors / np.sqrt(factor)).astype(np.float32),
        inverse_degree=(embedding.inverse_degree / factor).astype(np.float32),
        component=embedding.component,
        status=embedding.status,
        stats=embedding.stats,
    )
    u, v = np.triu_indices(20, 1)
    cards = cards_of(scaled)
    vectors = vectors_of(cards, 4).astype(np.float64)
    degree = cards.views[1][:, -2].astype(np.float64)
    estimate = ((vectors[u] - vectors[v]) ** 2).sum(axis=1) + degree[u] + degree[v]
    np.testing.assert_allclose(estimate * factor, edge_resistance(embedding, u, v), rtol=1e-3)
