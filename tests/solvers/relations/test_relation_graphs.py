"""Weighted sums of relations beside dense ones, and what a mapping of graphs must be."""

import numpy as np
import pytest

from peewit.solvers.arguments import BadArgument
from peewit.solvers.graph import Graph
from peewit.solvers.relations.relation_graphs import RelationGraphs
from tests.solvers.relations.made import graph_of, made


@pytest.mark.parametrize("weights", [(1, 1, 1), (0.5, 3, 0), (0, 0, 2), (8, 24, 8)])
def test_combined_is_the_weighted_sum_of_adjacency_matrices(weights: tuple[float, ...]) -> None:
    relations, _ = made({"a": 0.9, "b": 0.5, "c": 0.0}, n_nodes=90)
    dense = sum(
        weight * graph.adjacency.toarray()
        for weight, graph in zip(weights, relations.graphs, strict=True)
    )
    found = relations.combined(weights)
    np.testing.assert_allclose(found.adjacency.toarray(), dense, rtol=1e-15)
    assert found.n_edges == np.count_nonzero(dense) // 2
    np.testing.assert_allclose(found.degree, dense.sum(axis=1), rtol=1e-14)


def test_equal_weights_give_the_bits_of_the_graph_of_all_edges() -> None:
    rng = np.random.default_rng(3)
    pairs = np.array([(u, v) for u in range(40) for v in range(u)])
    parts = [rng.permutation(pairs)[:300] for _ in range(3)]
    weights = [rng.random(300) for _ in range(3)]
    relations = RelationGraphs.of(
        {
            str(place): Graph.from_edges(*part.T, weight, n_nodes=40)
            for place, (part, weight) in enumerate(zip(parts, weights, strict=True))
        }
    )
    whole = Graph.from_edges(*np.concatenate(parts).T, np.concatenate(weights), n_nodes=40)
    found = relations.combined((1, 1, 1))
    for own, other in zip(found.edges(), whole.edges(), strict=True):
        assert np.array_equal(own, other)
    assert np.array_equal(found.degree, whole.degree)


def test_one_relation_of_weight_1_is_the_graph_itself() -> None:
    relations, _ = made({"a": 0.9, "b": 0.5})
    assert relations.combined((0, 1)) is relations.graphs[1]


@pytest.mark.parametrize(
    ("weights", "told"),
    [
        ((1,), r"weights must hold one number for each of a, b, got 1"),
        ((1, -2), r"weights must be finite and >= 0, got -2 for the relation 'b'"),
        ((np.inf, 1), r"weights must be finite and >= 0, got inf for the relation 'a'"),
        ((np.nan, 1), r"weights must be finite and >= 0, got nan for the relation 'a'"),
        ((0, 0), r"weights must leave a relation above 0, got 0 for all of a, b"),
    ],
)
def test_weights_that_break_a_rule_are_refused(weights: tuple[float, ...], told: str) -> None:
    relations, _ = made({"a": 0.9, "b": 0.5}, n_nodes=30)
    with pytest.raises(BadArgument, match=told):
        relations.combined(weights)


def test_relations_that_are_no_graphs_of_the_same_nodes_are_refused() -> None:
    graph, other = (graph_of(np.array([0]), np.array([1]), n) for n in (2, 3))
    with pytest.raises(BadArgument, match=r"over the same nodes, got \{'a': 2, 'b': 3\}"):
        RelationGraphs.of({"a": graph, "b": other})
    with pytest.raises(BadArgument, match="must be 1 to 64 named graphs, got 0"):
        RelationGraphs.of({})
    with pytest.raises(BadArgument, match=r"no comma, = or .* got 'a=1'"):
        RelationGraphs.of({"a=1": graph})
