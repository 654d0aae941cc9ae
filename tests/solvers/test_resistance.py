import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solvers.graph import Graph
from solvers.laplacian.resistance import Embedding, edge_resistance, resistance_embedding
from solvers.solution import Status
from tests.reference.laplacian import dense_laplacian, pseudo_inverse, resistances
from tests.reference.signs import probe_signs
from tests.strategies import EdgeList, edge_lists
from tests.streaming.graphs import random_graph, two_communities


def embed(edges, *, n_probes: int, seed: int = 0, rtol: float = 1e-5, **settings) -> Embedding:
    keys = np.arange(edges.u.size, dtype=np.uint64)
    return resistance_embedding(
        edges.u,
        edges.v,
        edges.weight,
        keys,
        n_nodes=edges.n_nodes,
        n_probes=n_probes,
        seed=seed,
        rtol=rtol,
        **settings,
    )


@given(edge_lists())
def test_vectors_are_the_projection_of_the_paper(edges: EdgeList) -> None:
    """Z = L^+ B^T W^(1/2) Q^T of (B8), parallel records each with its own signs."""
    embedding = embed(edges, n_probes=3, seed=5)
    signs = probe_signs(5, np.arange(edges.u.size, dtype=np.uint64), 3) / np.sqrt(3)
    rhs = np.zeros((edges.n_nodes, 3))
    np.add.at(rhs, edges.u, np.sqrt(edges.weight)[:, None] * signs)
    np.add.at(rhs, edges.v, -np.sqrt(edges.weight)[:, None] * signs)
    graph = edges.graph()
    expected = pseudo_inverse(dense_laplacian(graph)) @ rhs
    assert embedding.status is Status.CONVERGED
    scale = max(1e-6, np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(embedding.vectors, expected, atol=5e-3 * scale)
    np.testing.assert_array_equal(embedding.component, graph.component)


def test_estimates_are_unbiased_with_the_stated_deviation() -> None:
    edges = random_graph(40, 0.2, seed=1)
    exact = resistances(edges.graph(), edges.u, edges.v)
    n_probes, n_seeds = 16, 300
    ratios = np.array(
        [
            edge_resistance(embed(edges, n_probes=n_probes, seed=seed), edges.u, edges.v) / exact
            for seed in range(n_seeds)
        ]
    )
    deviation = np.sqrt(2 / n_probes)
    means = ratios.mean(axis=0)
    assert abs(means.mean() - 1) < 4 * deviation / np.sqrt(n_seeds * edges.n_nodes)
    assert np.abs(means - 1).max() < 5 * deviation / np.sqrt(n_seeds)
    assert ratios.std(axis=0).mean() == pytest.approx(deviation, rel=0.15)


def test_leverages_sum_to_nodes_minus_components() -> None:
    edges = random_graph(300, 0.05, seed=2)
    graph = edges.graph()
    estimate = edges.weight @ edge_resistance(embed(edges, n_probes=64), edges.u, edges.v)
    expected = graph.n_nodes - graph.n_components
    assert estimate == pytest.approx(expected, rel=5 * np.sqrt(2 / 64 / edges.n_edges))


def test_signs_do_not_depend_on_the_order_of_edges() -> None:
    edges = random_graph(50, 0.2, seed=3)
    keys = np.random.default_rng(0).integers(0, 2**64, edges.n_edges, dtype=np.uint64)
    order = np.random.default_rng(1).permutation(edges.n_edges)
    settings = {"n_nodes": 50, "n_probes": 8, "seed": 4, "rtol": 1e-5}
    one = resistance_embedding(edges.u, edges.v, edges.weight, keys, **settings)
    other = resistance_embedding(
        edges.u[order], edges.v[order], edges.weight[order], keys[order], **settings
    )
    np.testing.assert_allclose(one.vectors, other.vectors, atol=1e-4)


def test_equal_calls_give_equal_bits() -> None:
    edges = random_graph(200, 0.1, seed=3)
    one, other = embed(edges, n_probes=8), embed(edges, n_probes=8)
    np.testing.assert_array_equal(one.vectors, other.vectors)


def test_signs_of_seeds_keys_and_probes_are_uncorrelated() -> None:
    keys = np.arange(400, dtype=np.uint64)
    signs = np.concatenate([probe_signs(seed, keys, 130) for seed in (0, 1, 2**40)], axis=1)
    gram = signs.T @ signs / 400
    np.testing.assert_allclose(np.diag(gram), 1.0)
    off = gram[np.triu_indices(len(gram), 1)]
    assert np.abs(off).max() < 6 / np.sqrt(400)
    assert off.std() == pytest.approx(1 / np.sqrt(400), rel=0.05)
    assert abs(signs.mean()) < 4 / np.sqrt(signs.size)


def test_resistance_is_infinite_across_components_and_zero_at_a_node() -> None:
    embedding = resistance_embedding(
        [0, 2],
        [1, 3],
        [1.0, 2.0],
        np.arange(2, dtype=np.uint64),
        n_nodes=5,
        n_probes=4,
        seed=0,
        rtol=1e-5,
    )
    assert embedding.vectors.dtype == np.float32
    values = edge_resistance(embedding, [0, 1, 2, 4, 3], [2, 1, 3, 4, 4])
    np.testing.assert_allclose(values, [np.inf, 0.0, 0.5, 0.0, np.inf], rtol=1e-4)


def test_bridges_are_estimated_exactly() -> None:
    """On a tree the projection loses nothing: every leverage is 1."""
    nodes = np.arange(99)
    weight = np.random.default_rng(0).uniform(0.1, 10, 99)
    embedding = resistance_embedding(
        nodes,
        nodes + 1,
        weight,
        nodes.astype(np.uint64),
        n_nodes=100,
        n_probes=7,
        seed=1,
        rtol=1e-5,
    )
    leverage = weight * edge_resistance(embedding, nodes, nodes + 1)
    np.testing.assert_allclose(leverage, 1.0, rtol=1e-2)


@pytest.mark.parametrize("name", ["auto", "jacobi", "approx-chol"])
def test_edges_between_communities_are_estimated_as_well_as_the_others(name: str) -> None:
    """Their direction is a tiny part of every right-hand side; a residual does not see it."""
    edges = two_communities(600, 0.3, 2, seed=0)
    settings = {"n_probes": 8, "preconditioner": name, "max_iter": 5000}
    fine = edge_resistance(embed(edges, rtol=1e-5, **settings), edges.u, edges.v)
    rough = embed(edges, rtol=1e-2, **settings)
    assert rough.status is Status.CONVERGED
    ratio = edge_resistance(rough, edges.u, edges.v) / fine
    # 1 % is a promise in the mean over signs; with fixed signs single edges stray further
    np.testing.assert_allclose(ratio, 1.0, atol=0.1)
    assert abs(ratio.mean() - 1) < 0.02
    crosses = (edges.u < 300) != (edges.v < 300)
    assert crosses.sum() == 2
    np.testing.assert_allclose(ratio[crosses], 1.0, atol=0.05)


def test_the_preconditioner_follows_the_spectrum() -> None:
    """Jacobi for one well-connected graph, Cholesky for two that hang together by two edges."""
    expander = embed(random_graph(400, 0.2, seed=0), n_probes=4, rtol=1e-2)
    joined = embed(two_communities(400, 0.3, 2, seed=0), n_probes=4, rtol=1e-2)
    assert expander.stats["preconditioner"] == "jacobi"
    assert joined.stats["preconditioner"] == "approx-chol"
    assert expander.stats["condition"] < 10
    assert joined.stats["condition"] < 100


def test_a_cancelled_embedding_says_so() -> None:
    for after in (0, 3, 12):
        asked = iter(range(1000))
        embedding = embed(
            random_graph(200, 0.1, seed=0),
            n_probes=4,
            cancelled=lambda asked=asked, after=after: next(asked) >= after,
        )
        assert embedding.status is Status.CANCELLED
        assert np.isfinite(embedding.vectors).all()


def test_solves_that_do_not_converge_are_reported() -> None:
    edges = random_graph(200, 0.03, seed=0)
    embedding = embed(edges, n_probes=4, rtol=1e-5, max_iter=2)
    assert embedding.status is Status.MAX_ITER
    assert embedding.stats["residual"] > 1e-5


def test_an_embedding_without_edges_has_no_resistance() -> None:
    none = np.zeros(0, dtype=np.int64)
    embedding = resistance_embedding(
        none, none, np.zeros(0), none.astype(np.uint64), n_nodes=3, n_probes=4, seed=0
    )
    assert (embedding.n_nodes, embedding.n_probes) == (3, 4)
    assert embedding.status is Status.CONVERGED
    assert edge_resistance(embedding, [0], [1])[0] == np.inf


@given(st.integers(-(2**70), 2**70))
def test_any_integer_is_a_seed(seed: int) -> None:
    edges = EdgeList(u=np.array([0]), v=np.array([1]), weight=np.array([4.0]), n_nodes=2)
    values = edge_resistance(embed(edges, n_probes=2, seed=seed), [0], [1])
    np.testing.assert_allclose(values, 0.25, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_probes": 0}, "n_probes must be >= 1, got 0"),
        ({"rtol": 1.0}, r"rtol must lie in \(0, 1\), got 1.0"),
        ({"preconditioner": "none"}, "preconditioner must be one of auto, jacobi, approx-chol"),
        ({"sign_key": np.zeros(1, dtype=np.int64)}, "sign_key must be uint64"),
        ({"sign_key": np.zeros(2, dtype=np.uint64)}, r"of shape \(1,\), got uint64 of \(2,\)"),
        ({"weight": [0.0]}, "weight must be finite and > 0"),
    ],
)
def test_bad_embeddings_are_refused(change, message) -> None:
    arguments = {
        "u": [0],
        "v": [1],
        "weight": [1.0],
        "sign_key": np.zeros(1, dtype=np.uint64),
        "n_nodes": 2,
        "n_probes": 2,
        "seed": 0,
    }
    with pytest.raises(ValueError, match=message):
        resistance_embedding(**(arguments | change))


def test_bad_pairs_are_refused() -> None:
    graph = Graph.from_edges([0], [1], [1.0], n_nodes=2)
    embedding = Embedding(
        vectors=np.zeros((2, 1), dtype=np.float32),
        component=graph.component,
        status=Status.CONVERGED,
        stats={},
    )
    with pytest.raises(ValueError, match=r"v must lie in \[0, 2\), got 2"):
        edge_resistance(embedding, [0], [2])
    with pytest.raises(ValueError, match="equal lengths, got 2 and 1"):
        edge_resistance(embedding, [0, 1], [1])
