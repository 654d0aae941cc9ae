"""What coins decided, against a slow twin and against other coins."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

from peewit.solvers.arrays import FloatArray
from peewit.solvers.assessment import thinning_share as module
from peewit.solvers.assessment.thinning_share import (
    ThinnedEdges,
    ThinningShare,
    thinning_share,
)
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto import Auto
from peewit.solvers.models.harmonic import HFS, StableHFS
from peewit.solvers.models.poisson import Poisson
from peewit.solvers.solution import Decisive

N_NODES, N_CLASSES = 30, 3
MODELS = [StableHFS(graph_penalty=0.01), HFS(graph_penalty=0), HFS(), Poisson(), Auto()]


def random_edges(seed: int) -> ThinnedEdges:
    rng = np.random.default_rng(seed)
    u, v = np.triu_indices(N_NODES, 1)
    taken = rng.random(u.size) < 0.3
    n_edges = int(taken.sum())
    relative = np.where(rng.random(n_edges) < 0.7, rng.uniform(0.1, 0.9, n_edges), 0.0)
    return ThinnedEdges(
        u[taken].astype(np.int32),
        v[taken].astype(np.int32),
        rng.uniform(0.5, 2.0, n_edges),
        relative.astype(np.float32),
    )


def random_columns(seed: int) -> Decisive:
    rng = np.random.default_rng(seed)
    is_reached = rng.random(N_NODES) < 0.9
    return Decisive(
        values=rng.normal(size=(N_NODES, N_CLASSES)),
        shift=rng.uniform(0, 1, N_NODES),
        is_reached=is_reached,
        is_free=is_reached & (rng.random(N_NODES) < 0.9),
        name="scores",
    )


def degrees(edges: ThinnedEdges) -> FloatArray:
    degree = np.zeros(N_NODES)
    np.add.at(degree, edges.u, edges.weight)
    np.add.at(degree, edges.v, edges.weight)
    return degree


def twin(decisive: Decisive, edges: ThinnedEdges) -> float:
    """(B27), edge by edge."""
    degree, values, total = degrees(edges), decisive.values, 0.0
    for node in np.flatnonzero(decisive.is_free & (degree > 0)):
        winner, stays = int(values[node].argmax()), 1.0
        for rival in set(range(N_CLASSES)) - {winner}:
            lead = values[:, winner] - values[:, rival]
            variance = 0.0
            for u, v, weight, relative in zip(*edges, strict=True):
                if node in (u, v):
                    other = v if node == u else u
                    variance += weight**2 * float(relative) * (lead[other] - lead[node]) ** 2
            if variance > 0:
                deviation = np.sqrt(variance) / (degree[node] + decisive.shift[node])
                stays *= 1.0 - norm.cdf(-lead[node] / deviation)
        total += 1.0 - stays
    return total / int(decisive.is_reached.sum())


@pytest.mark.parametrize("seed", range(5))
def test_the_share_is_that_of_the_formula(seed: int) -> None:
    decisive, edges = random_columns(seed), random_edges(seed)
    found = thinning_share(decisive, degrees(edges), [edges], seed=0)
    assert found.share == pytest.approx(twin(decisive, edges), rel=1e-6)
    cuts = slice(0, 7), slice(7, None)
    parts = [ThinnedEdges(*(each[rows] for each in edges)) for rows in cuts]
    single = replace(decisive, values=decisive.values.astype(np.float32))
    again = thinning_share(single, degrees(edges), parts, seed=0)
    assert again.share == pytest.approx(found.share, rel=1e-4)
    assert found.n_nodes == np.count_nonzero(decisive.is_free & (degrees(edges) > 0))


def test_where_no_coin_was_thrown_nothing_was_decided() -> None:
    decisive, edges = random_columns(1), random_edges(1)
    whole = edges._replace(relative=np.zeros_like(edges.relative))
    assert thinning_share(decisive, degrees(edges), [whole], seed=0).share == 0.0
    one = replace(decisive, values=decisive.values[:, :1])
    assert thinning_share(one, degrees(edges), [edges], seed=0).share == 0.0


def test_of_many_nodes_some_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    decisive, edges = random_columns(2), random_edges(2)
    every = thinning_share(decisive, degrees(edges), [edges], seed=0)
    monkeypatch.setattr(module, "MOST_NODES", 12)
    some = [thinning_share(decisive, degrees(edges), [edges], seed=seed) for seed in range(400)]
    assert {each.n_nodes for each in some} == {12}
    assert np.mean([each.share for each in some]) == pytest.approx(every.share, rel=0.05)


@pytest.mark.parametrize(("share", "is_much"), [(0.019, False), (0.021, True)])
def test_two_of_a_hundred_are_much(share: float, is_much: bool) -> None:
    assert ThinningShare(share=share, n_nodes=9, column="scores").is_much is is_much


def noisy_blocks(keep: float, seed: int) -> tuple[Graph, ThinnedEdges, Labels]:
    """Two blocks of which edges were kept with a chance, and labels of both."""
    rng = np.random.default_rng(seed)
    n_nodes = 200
    u, v = np.triu_indices(n_nodes, 1)
    together = (u < n_nodes // 2) == (v < n_nodes // 2)
    drawn = np.random.default_rng(99).random(u.size) < np.where(together, 0.32, 0.22)
    u, v = u[drawn], v[drawn]
    is_kept = rng.random(u.size) < keep
    u, v = u[is_kept], v[is_kept]
    weight = np.full(u.size, 1.0 / keep)
    graph = Graph.from_edges(u, v, weight, n_nodes=n_nodes)
    relative = np.full(u.size, 1.0 - keep, np.float32)
    nodes = np.r_[np.arange(0, 100, 12), np.arange(100, 200, 12)]
    edges = ThinnedEdges(u.astype(np.int32), v.astype(np.int32), weight, relative)
    return graph, edges, Labels.from_pairs(nodes, (nodes >= 100).astype(int).tolist())


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS[:4], ids=lambda model: type(model).__name__)
def test_it_is_near_what_all_edges_change(model: StableHFS) -> None:
    """Within a factor of 2.5 in the mean of ten samples, as what is told for people promises."""
    whole, _, labels = noisy_blocks(1.0, 0)
    truth = model.solve(model.prepare(whole), labels).scores.argmax(axis=1)
    told, changed = [], []
    for seed in range(10):
        graph, edges, _ = noisy_blocks(0.3, seed)
        solution = model.solve(model.prepare(graph), labels)
        assert solution.decisive is not None
        told.append(thinning_share(solution.decisive, graph.degree, [edges], seed=0).share)
        changed.append(float((solution.scores.argmax(axis=1) != truth).mean()))
    assert np.mean(changed) > 0.02
    assert 1 / 2.5 < np.mean(told) / np.mean(changed) < 2.5


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_models_say_by_what_they_decide(model: StableHFS) -> None:
    graph, _, labels = noisy_blocks(0.5, 1)
    solution = model.solve(model.prepare(graph), labels)
    decisive = solution.decisive
    assert decisive is not None
    assert decisive.values.shape == (200, 2)
    assert decisive.is_reached.all()
    if not isinstance(model, Auto):
        same = decisive.values.argmax(axis=1) == solution.scores.argmax(axis=1)
        assert same.all()
    is_hard = isinstance(model, HFS) and model.graph_penalty == 0
    assert decisive.is_free[labels.nodes].any() != is_hard


def test_rivals_that_are_as_good_are_a_toss_up() -> None:
    ends = np.array([0, 1], np.int32), np.array([2, 2], np.int32)
    edges = ThinnedEdges(*ends, np.ones(2), np.full(2, 0.5, np.float32))
    values = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    every, last = np.ones(3, bool), np.array([False, False, True])
    decisive = Decisive(values=values, shift=np.zeros(3), is_reached=every, is_free=last, name="f")
    found = thinning_share(decisive, degrees(edges)[:3], [edges], seed=0)
    assert found.share == pytest.approx(0.5 / 3)


def test_every_part_is_counted_once() -> None:
    """Edges in either direction and in any order are the same edges."""
    decisive, edges = random_columns(3), random_edges(3)
    expected = thinning_share(decisive, degrees(edges), [edges], seed=0).share
    order = np.random.default_rng(0).permutation(edges.u.size)
    for turned, shuffled in product((False, True), repeat=2):
        u, v = (edges.v, edges.u) if turned else (edges.u, edges.v)
        rows = order if shuffled else slice(None)
        other = ThinnedEdges(u[rows], v[rows], edges.weight[rows], edges.relative[rows])
        assert thinning_share(decisive, degrees(edges), [other], seed=0).share == pytest.approx(
            expected, rel=1e-9
        )
