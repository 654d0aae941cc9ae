"""Whether labels are a random sample: rank sums against scipy's, and draws that are none."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.left_out.label_sample import (
    LabelSample,
    biases_of,
    rank_deviate,
    without_blame,
)


@pytest.mark.parametrize("n_values", [4, 1_000])
def test_the_deviate_is_that_of_the_rank_sum(n_values: int) -> None:
    rng = np.random.default_rng(n_values)
    for _ in range(20):
        some, others = rng.integers(0, n_values, 30), rng.integers(0, n_values, 200)
        deviate = rank_deviate(some, others)
        p_value = mannwhitneyu(some, others, method="asymptotic", use_continuity=False).pvalue
        assert 2 * mannwhitney_tail(deviate) == pytest.approx(p_value, rel=1e-6)
        assert rank_deviate(-some, -others) == pytest.approx(-deviate)


def mannwhitney_tail(deviate: float) -> float:
    from scipy.stats import norm

    return float(norm.sf(abs(deviate)))


def test_equal_or_missing_values_deviate_by_nothing() -> None:
    assert rank_deviate(np.ones(3), np.ones(9)) == 0.0
    assert rank_deviate(np.empty(0), np.ones(9)) == 0.0


@pytest.mark.parametrize(
    ("told", "biases"),
    [
        ({}, ()),
        ({"p_value": 0.002}, ("shares",)),
        ({"degrees": 3.4}, ("more edges",)),
        ({"degrees": -3.4, "nearness": 4.3}, ("fewer edges", "close together")),
        ({"nearness": -9.0}, ()),
    ],
)
def test_each_test_names_its_bias(told: dict[str, float], biases: tuple[str, ...]) -> None:
    values = {"p_value": 1.0, "shares": np.ones(2) / 2, "is_estimated": False} | told
    sample = LabelSample(**values)  # type: ignore[arg-type]
    assert sample.biases == biases == biases_of(sample.stats)


def test_warnings_name_shares_and_need_not_blame_labels() -> None:
    labels = Labels.from_pairs(np.arange(4), ["a", "a", "a", "b"])
    sample = LabelSample(p_value=0.001, shares=np.array([0.5, 0.5]), is_estimated=True)
    (told,) = sample.warnings(labels)
    assert told == (
        "the labels are no random sample of the nodes: 'a' has 75% of them, about 50% of the "
        "nodes, 'b' has 25% of them, about 50% of the nodes; predictions use the latter"
    )
    assert without_blame(["slow", told]) == (
        "slow",
        told.replace(
            "the labels are no random sample of the nodes",
            "what is left of the edges predicts other class shares than labels have",
        ),
    )
    assert (
        "class shares are those of the labels"
        in replace(sample, is_estimated=False).warnings(labels)[0]
    )
    assert replace(sample, p_value=0.003).warnings(labels) == ()


def hubs_and_blocks(seed: int) -> Graph:
    """Four blocks; some nodes have many edges, and a tenth of all have none."""
    rng = np.random.default_rng(seed)
    n_nodes, n_edges = 1_000, 8_000
    weight = 1.0 / (1.0 + np.arange(900) / 60.0)
    drawn = rng.choice(900, (2, n_edges), p=weight / weight.sum())
    u, v = rng.permutation(900)[drawn]
    near = rng.random(n_edges) < 0.8
    v = np.where(near, v // 4 * 4 + u % 4, v)
    keep = u != v
    return Graph.from_edges(u[keep], v[keep], np.ones(keep.sum()), n_nodes=n_nodes)


def biases_for(graph: Graph, nodes: np.ndarray) -> tuple[str, ...]:
    model = Auto(walks="anew")
    labels = Labels.from_pairs(np.sort(nodes), (np.sort(nodes) % 4).tolist())
    return biases_of(model.solve(model.prepare(graph), labels).stats)


@pytest.mark.slow
def test_random_labels_of_a_graph_with_isolated_nodes_are_not_blamed() -> None:
    graph = hubs_and_blocks(0)
    blamed = 0
    for seed in range(20):
        nodes = np.random.default_rng(seed).choice(graph.n_nodes, 120, replace=False)
        blamed += bool(biases_for(graph, nodes))
    assert blamed <= 1


def test_labels_of_hubs_are_known_by_their_edges() -> None:
    graph = hubs_and_blocks(1)
    chances = graph.degree / graph.degree.sum()
    nodes = np.random.default_rng(1).choice(graph.n_nodes, 120, replace=False, p=chances)
    assert "more edges" in biases_for(graph, nodes)
