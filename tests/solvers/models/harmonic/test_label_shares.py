"""Label shares against dense inverses, and against the scores that they sum to."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import UNWATCHED, RunStopped, Watch
from peewit.solvers.labels import Labels
from peewit.solvers.models.catalogue import CATALOGUE
from peewit.solvers.models.harmonic.harmonic import HFS, StableHFS
from peewit.solvers.models.harmonic.label_shares import LabelShares, LinearModel, label_shares
from peewit.solvers.models.poisson.poisson import Poisson
from peewit.solvers.status import Status

N_NODES = 90
TIGHT = 1e-10


@pytest.fixture(scope="module")
def graph() -> Graph:
    """Weighted, with a hub, a second component and a node without edges."""
    rng = np.random.default_rng(5)
    u, v = rng.integers(0, 70, (2, 220))
    u = np.concatenate([u, [70] * 9, np.arange(71, 79), [7] * 40])
    v = np.concatenate([v, np.arange(71, 80), np.arange(72, 80), np.arange(10, 50)])
    return Graph.from_edges(u, v, rng.uniform(0.1, 3.0, u.size), n_nodes=N_NODES)


@pytest.fixture(scope="module")
def labels() -> Labels:
    """42 of three classes, one of which the second component lacks."""
    rng = np.random.default_rng(6)
    first = rng.permutation(70)[:38]
    return Labels.from_pairs(
        [*first, 71, 73, 75, 76], [*rng.choice(["a", "b", "c"], 38), "a", "b", "a", "a"]
    )


def found_by(model: LinearModel, graph: Graph, labels: Labels) -> LabelShares:
    prepared = model.prepare(graph)
    return label_shares(model, prepared, labels, model.solve(prepared, labels), UNWATCHED)


def of_classes(labels: Labels, shares: Any) -> FloatArray:
    return np.asarray(shares.astype(np.float64) @ labels.targets())


@pytest.mark.parametrize(
    "model",
    [
        HFS(class_mass="none", rtol=TIGHT),
        HFS(graph_penalty=0.0, rtol=TIGHT),
        HFS(graph_penalty=0.5, rtol=TIGHT),
        StableHFS(rtol=TIGHT),
        StableHFS(graph_penalty=3.0, rtol=TIGHT),
        Poisson(rtol=TIGHT),
    ],
    ids=repr,
)
def test_shares_sum_to_the_scores(model: LinearModel, graph: Graph, labels: Labels) -> None:
    prepared = model.prepare(graph)
    solution = model.solve(prepared, labels)
    found = label_shares(model, prepared, labels, solution, UNWATCHED)
    assert found.status is Status.CONVERGED
    assert found.largest_miss is not None
    assert found.largest_miss < 1e-5
    sums, scores = of_classes(labels, found.shares), solution.scores
    is_told = solution.reachable[:, None] & np.ones(3, bool)
    if isinstance(model, Poisson):
        is_told[70:80, 2] = False  # the class that the component lacks
    scale = np.abs(scores[is_told]).max()
    np.testing.assert_allclose(sums[is_told], scores[is_told], rtol=0, atol=1e-5 * scale)


def test_shares_of_harmonic_functions_are_those_of_an_inverse(graph: Graph, labels: Labels) -> None:
    penalty = 0.02
    found = found_by(HFS(graph_penalty=penalty, rtol=TIGHT), graph, labels)
    weights = graph.adjacency.toarray()
    system = penalty * labels.n_labeled * (np.diag(weights.sum(axis=1)) - weights)
    system[labels.nodes, labels.nodes] += 1.0
    joined = np.flatnonzero(weights.any(axis=1))
    inverse = np.zeros_like(system)
    inverse[np.ix_(joined, joined)] = np.linalg.inv(system[np.ix_(joined, joined)])
    np.testing.assert_allclose(found.shares, inverse[:, labels.nodes], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found.shares[joined].sum(axis=1), 1.0, rtol=1e-5)
    assert found.shares.min() >= -1e-7


@pytest.mark.parametrize("model", [StableHFS(rtol=TIGHT), Poisson(rtol=TIGHT)], ids=repr)
def test_centered_shares_sum_to_0(model: LinearModel, graph: Graph, labels: Labels) -> None:
    shares = found_by(model, graph, labels).shares
    reached = np.flatnonzero(graph.degree > 0)
    sums = shares[reached].astype(np.float64).sum(axis=1)
    np.testing.assert_allclose(sums, 0.0, atol=1e-5 * float(np.abs(shares).max()))


def test_a_label_adds_nothing_where_no_path_leads(graph: Graph, labels: Labels) -> None:
    is_far = labels.nodes < 70
    for model in (HFS(graph_penalty=0.1), Poisson()):
        shares = found_by(model, graph, labels).shares
        assert not shares[70:80, is_far].any()
        assert not shares[:70, ~is_far].any()
        assert shares[:70, is_far].any()


def test_scores_that_are_read_in_another_way_have_no_miss(graph: Graph, labels: Labels) -> None:
    model = HFS(graph_penalty=0.1, class_mass="labels")
    found = found_by(model, graph, labels)
    assert found.largest_miss is None
    plain = replace(model, class_mass="none")
    expected = plain.solve(plain.prepare(graph), labels).scores
    reached = graph.degree > 0
    np.testing.assert_allclose(
        of_classes(labels, found.shares)[reached], expected[reached], atol=1e-4
    )


def test_the_miss_tells_of_shares_of_other_labels(graph: Graph, labels: Labels) -> None:
    model = StableHFS(graph_penalty=0.1)
    prepared = model.prepare(graph)
    others = Labels.from_pairs(labels.nodes, np.roll(labels.classes, 1))
    found = label_shares(model, prepared, labels, model.solve(prepared, others), UNWATCHED)
    assert found.largest_miss is not None
    assert found.largest_miss > 0.1


def test_shares_can_be_stopped(graph: Graph, labels: Labels) -> None:
    model = Poisson()
    prepared = model.prepare(graph)
    solution = model.solve(prepared, labels)
    stopping = Watch(progress=None, cancelled=lambda: True)
    with pytest.raises(RunStopped):
        label_shares(model, prepared, labels, solution, stopping)


def test_the_models_that_tell_shares_are_known() -> None:
    able = {name for name, model in CATALOGUE.items() if issubclass(model, LinearModel)}
    assert able == {"hfs", "stable-hfs", "poisson"}
