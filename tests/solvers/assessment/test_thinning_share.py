"""What coins decided, against a dense twin and against other coins."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pytest

from peewit.solvers.arrays import FloatArray
from peewit.solvers.assessment import thinning_share as module
from peewit.solvers.assessment.thinning_share import ThinnedEdges, ThinningShare, thinning_share
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.harmonic.harmonic import HFS, StableHFS
from peewit.solvers.models.poisson.poisson import Poisson
from peewit.solvers.solution import Decisive

N_NODES, N_CLASSES = 30, 3
MODELS = [StableHFS(graph_penalty=0.01), HFS(graph_penalty=0), HFS(), Poisson(), Auto()]


def random_edges(seed: int) -> ThinnedEdges:
    rng = np.random.default_rng(seed)
    u, v = np.triu_indices(N_NODES, 1)
    taken = (rng.random(u.size) < 0.3) | (v == u + 1)
    n_edges = int(taken.sum())
    relative = np.where(rng.random(n_edges) < 0.7, rng.uniform(0.1, 0.9, n_edges), 0.0)
    return ThinnedEdges(
        u[taken].astype(np.int32),
        v[taken].astype(np.int32),
        rng.uniform(0.5, 2.0, n_edges),
        relative.astype(np.float32),
    )


def graph_of(edges: ThinnedEdges, n_nodes: int = N_NODES) -> Graph:
    return Graph.from_edges(edges.u, edges.v, edges.weight, n_nodes=n_nodes)


def random_columns(seed: int, *, is_held: bool) -> Decisive:
    rng = np.random.default_rng(seed)
    is_reached = rng.random(N_NODES) < 0.9
    return Decisive(
        values=rng.normal(size=(N_NODES, N_CLASSES)),
        shift=rng.uniform(0, 1, N_NODES),
        is_reached=is_reached,
        is_free=is_reached & (rng.random(N_NODES) < 0.9),
        name="scores",
        is_held=is_held,
    )


def whole(*parts: ThinnedEdges) -> Callable[[], Iterable[ThinnedEdges]]:
    return lambda: parts


def laplacian(edges: ThinnedEdges, weight: FloatArray) -> FloatArray:
    matrix = np.zeros((N_NODES, N_NODES))
    for u, v, w in zip(edges.u, edges.v, weight, strict=True):
        matrix[[u, v], [u, v]] += w
        matrix[[u, v], [v, u]] -= w
    return matrix


def twin(decisive: Decisive, edges: ThinnedEdges, seed: int) -> float:
    """(B27) by dense matrices."""
    normal = np.random.default_rng(seed).standard_normal(edges.u.size)
    change = laplacian(edges, normal * edges.weight * np.sqrt(edges.relative))
    system = laplacian(edges, edges.weight) + np.diag(decisive.shift)
    pull = -change @ decisive.values
    if not decisive.is_held:  # of zero sum
        project = np.eye(N_NODES) - 1.0 / N_NODES
        system = project @ system @ project
    found = np.linalg.pinv(system) @ pull
    free = decisive.is_free
    made, told = (np.median(each[free].var(axis=1)) for each in (found, decisive.values))
    moved = np.sqrt(max(0.0, 1.0 - made / told)) * decisive.values + found
    differs = moved.argmax(axis=1) != decisive.values.argmax(axis=1)
    return float((differs & decisive.is_free).sum() / decisive.is_reached.sum())


@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_share_is_that_of_the_formula(
    monkeypatch: pytest.MonkeyPatch, seed: int, is_held: bool
) -> None:
    monkeypatch.setattr(module, "_RTOL", 1e-10)
    decisive, edges = random_columns(seed, is_held=is_held), random_edges(seed)
    found = thinning_share(decisive, graph_of(edges), whole(edges), seed=seed)
    assert found is not None
    expected = twin(decisive, edges, seed)
    assert found.share == pytest.approx(expected)
    assert 0.0 < expected < 1.0
    cuts = slice(0, 7), slice(7, None)
    parts = [ThinnedEdges(*(each[rows] for each in edges)) for rows in cuts]
    assert thinning_share(decisive, graph_of(edges), whole(*parts), seed=seed) == found
    monkeypatch.setattr(module, "_COLUMNS", 2)  # classes in parts, by the same draw
    assert thinning_share(decisive, graph_of(edges), whole(edges), seed=seed) == found


def test_it_leaves_the_answer_as_it_is() -> None:
    decisive, edges = random_columns(1, is_held=True), random_edges(1)
    before = np.array(decisive.values)
    thinning_share(decisive, graph_of(edges), whole(edges), seed=0)
    np.testing.assert_array_equal(decisive.values, before)


def test_where_no_coin_was_thrown_nothing_was_decided() -> None:
    decisive, edges = random_columns(1, is_held=True), random_edges(1)
    exact = edges._replace(relative=np.zeros_like(edges.relative))
    one = replace(decisive, values=decisive.values[:, :1])
    nobody = replace(decisive, is_free=np.zeros(N_NODES, bool))
    for columns, given in ((decisive, exact), (one, edges), (nobody, edges)):
        found = thinning_share(columns, graph_of(edges), whole(given), seed=0)
        assert found is not None
        assert found.share == 0.0


def test_a_solve_that_is_stopped_tells_nothing() -> None:
    decisive, edges = random_columns(2, is_held=True), random_edges(2)
    graph = graph_of(edges)
    assert thinning_share(decisive, graph, whole(edges), seed=0, cancelled=lambda: True) is None


@pytest.mark.parametrize(("share", "is_much"), [(0.019, False), (0.021, True)])
def test_two_of_a_hundred_are_much(share: float, is_much: bool) -> None:
    assert ThinningShare(share=share, column="scores").is_much is is_much


def test_no_more_are_decided_than_twice_those_that_are_wrong() -> None:
    told = ThinningShare(share=0.4, column="potentials")
    assert told.where_right(0.75) is told
    capped = told.where_right(0.95)
    assert (round(capped.share, 12), capped.is_most) == (0.1, True)
    assert not told.where_right(0.995).is_much


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
    every, _, labels = noisy_blocks(1.0, 0)
    truth = model.solve(model.prepare(every), labels).scores.argmax(axis=1)
    told, changed = [], []
    for seed in range(10):
        graph, edges, _ = noisy_blocks(0.3, seed)
        solution = model.solve(model.prepare(graph), labels)
        assert solution.decisive is not None
        found = thinning_share(solution.decisive, graph, whole(edges), seed=seed)
        assert found is not None
        told.append(found.share)
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
