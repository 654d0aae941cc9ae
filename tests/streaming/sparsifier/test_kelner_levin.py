"""Copies: unbiased, as many as printed, and with the errors that were found by experiment."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.linalg

from peewit.solvers.arrays import FloatArray
from peewit.solvers.graph import Graph
from peewit.streaming.sparsifier.kelner_levin import (
    CopiesState,
    KelnerLevinSettings,
    RidgeSettings,
    copies_graph,
    empty,
    kelner_levin,
    merge,
    merge_tree,
    resparsify,
    sparsify,
)
from tests.reference.laplacian import dense_laplacian
from tests.streaming.graphs import EdgeList, edge_block, two_communities


@dataclass(frozen=True)
class ExactSettings:
    """The printed form with alpha = 1: what leverages need that are all but exact."""

    n_nodes: int
    birth_copies: int
    seed: int
    n_probes: int = 128
    ridge: float = 0.0

    @property
    def share(self) -> float:
        return 1.0 / (self.n_nodes - 1)


def complete(n_nodes: int, seed: int = 0, *, weighted: bool = False) -> EdgeList:
    rng = np.random.default_rng(seed)
    u, v = np.triu_indices(n_nodes, 1)
    order = rng.permutation(u.size)
    weight = rng.uniform(0.5, 2.0, u.size) if weighted else np.ones(u.size)
    return EdgeList(u=u[order], v=v[order], weight=weight, n_nodes=n_nodes)


def error(graph: Graph, sparsifier: Graph, ridge: float = 0.0) -> float:
    """Smallest epsilon of (B1), or of (B2) with a ridge."""
    exact, approximate = dense_laplacian(graph), dense_laplacian(sparsifier)
    if ridge:
        shift = ridge * np.eye(graph.n_nodes)
        exact, approximate = exact + shift, approximate + shift
    else:  # one node grounded: the same quotients, without the constant vector
        exact, approximate = exact[1:, 1:], approximate[1:, 1:]
    eigenvalues = scipy.linalg.eigh(approximate, exact, eigvals_only=True)
    return float(max(1.0 - eigenvalues[0], eigenvalues[-1] - 1.0))


def test_copies_are_those_of_the_formula() -> None:
    literal = KelnerLevinSettings(epsilon=0.8, n_nodes=12_100)
    assert literal.alpha == pytest.approx(5.0)
    assert literal.birth_copies == pytest.approx(4.2e7, rel=0.02)
    as_reported = KelnerLevinSettings(epsilon=0.8, n_nodes=12_100, has_alpha=False)
    assert as_reported.birth_copies == pytest.approx(1.67e6, rel=0.01)
    larger = KelnerLevinSettings(epsilon=0.9, n_nodes=75_419, has_alpha=False)
    assert larger.birth_copies == pytest.approx(1.17e7, rel=0.01)
    assert KelnerLevinSettings(epsilon=0.8, n_nodes=99, n_copies=7).birth_copies == 7


@pytest.mark.slow
def test_the_laplacian_is_right_in_the_mean() -> None:
    edges = complete(12, weighted=True)
    exact = dense_laplacian(edges.graph())
    n_seeds = 80
    for settings in (
        KelnerLevinSettings(epsilon=0.5, n_nodes=12, n_copies=90, n_probes=16),
        RidgeSettings(epsilon=0.5, n_nodes=12, copies_per_edge=6, n_probes=16, ridge=2.0),
    ):
        samples = np.array(
            [
                dense_laplacian(
                    copies_graph(_in_blocks(edges, replace(settings, seed=seed), n_blocks=2))
                )
                for seed in range(n_seeds)
            ]
        )
        deviation = samples.std(axis=0) / np.sqrt(n_seeds)
        assert deviation.max() > 0.0
        assert np.abs((samples.mean(axis=0) - exact) / np.maximum(deviation, 1e-9)).max() < 4.5


def _in_blocks(
    edges: EdgeList, settings: KelnerLevinSettings | RidgeSettings, n_blocks: int
) -> CopiesState:
    if isinstance(settings, RidgeSettings):
        return merge_tree(edges.blocks(n_blocks), settings)
    state = empty(settings)
    for block in edges.blocks(n_blocks):
        state = sparsify(state, settings, block)
    return state


def test_a_resparsification_follows_the_printed_lines() -> None:
    edges = complete(20, weighted=True)
    settings = KelnerLevinSettings(epsilon=0.5, n_nodes=20, n_copies=3_000, n_probes=4_000)
    first, second = edges.blocks(2)
    before = sparsify(empty(settings), settings, first)
    after = sparsify(before, settings, second)
    both = np.concatenate([before.conductance, second.weight])
    u, v = np.concatenate([before.u, second.u]), np.concatenate([before.v, second.v])
    weight = np.concatenate([before.weight, second.weight]).astype(np.float64)
    inverse = np.linalg.pinv(dense_laplacian(Graph.from_edges(u, v, both, n_nodes=20)))
    resistance = inverse[u, u] + inverse[v, v] - 2 * inverse[u, v]
    assert np.sum(both * resistance) == pytest.approx(19.0)  # (B3)
    printed = weight * resistance / (settings.alpha * 19)  # (B10)
    assert settings.alpha == pytest.approx(2.0)
    earlier = np.concatenate([before.probability, np.ones(second.u.size)])
    wanted = dict(zip(zip(u, v, strict=True), np.minimum(earlier, printed), strict=True))
    got = [wanted[pair] for pair in zip(after.u, after.v, strict=True)]
    np.testing.assert_allclose(after.probability, got, rtol=0.12)
    np.testing.assert_allclose(  # (B9)
        after.conductance, after.copies * after.weight / (3_000 * after.probability)
    )


def test_probabilities_and_copies_never_rise() -> None:
    edges = complete(30)
    settings = KelnerLevinSettings(epsilon=0.5, n_nodes=30, n_copies=2_000)
    state = sparsify(empty(settings), settings, edges.blocks(1)[0])
    for _ in range(5):
        later = resparsify(state, settings)
        kept = np.flatnonzero(np.isin(state.key, later.key))
        assert np.array_equal(state.key[kept], later.key)
        assert np.all(later.probability <= state.probability[kept])
        assert np.all(later.copies <= state.copies[kept])
        assert np.all(later.copies > 0)
        state = later


def test_about_as_many_copies_as_printed() -> None:
    edges = complete(40)
    copies = [
        _in_blocks(
            edges, KelnerLevinSettings(epsilon=0.2, n_nodes=40, n_copies=1_500, seed=seed), 4
        ).copies.sum()
        for seed in range(6)
    ]
    assert 0.5 * 1_500 < np.mean(copies) <= 1_500


@pytest.mark.slow
@pytest.mark.parametrize("n_blocks", [1, 5, 20])
def test_kelner_levin_errs_as_measured(n_blocks: int) -> None:
    edges, errors = complete(60), []
    for seed in range(8):  # of four seeds the mean has a standard deviation of .035
        settings = ExactSettings(n_nodes=60, birth_copies=2_000, seed=seed)
        state = empty(settings)
        for block in edges.blocks(n_blocks):
            state = sparsify(state, settings, block)
        errors.append(error(edges.graph(), copies_graph(state)))
    assert np.mean(errors) == pytest.approx(0.40, abs=0.06)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("copies_per_edge", "n_leaves", "epsilon"),
    [
        (35, 1, 0.363),
        (35, 8, 0.366),
        (70, 8, 0.26),
        pytest.param(35, 32, 0.378, marks=pytest.mark.slow),
    ],
)
def test_the_merge_tree_errs_as_measured(
    copies_per_edge: int, n_leaves: int, epsilon: float
) -> None:
    edges, errors = complete(60), []
    for seed in range(6):
        settings = RidgeSettings(
            epsilon=0.5,
            n_nodes=60,
            copies_per_edge=copies_per_edge,
            alpha=1.0,
            seed=seed,
            n_probes=512,
        )
        state = merge_tree(edges.blocks(n_leaves), settings)
        errors.append(error(edges.graph(), copies_graph(state)))
    assert np.mean(errors) == pytest.approx(epsilon, abs=0.05)


def test_a_ridge_saves_copies() -> None:
    edges = complete(60)
    ridge = 46.0  # d_eff = 59 * 60 / 106 = 33 of 59
    errors, shares = [], []
    for seed in range(3):
        settings = RidgeSettings(
            epsilon=0.5,
            n_nodes=60,
            ridge=ridge,
            copies_per_edge=35,
            alpha=1.0,
            seed=seed,
            n_probes=128,
        )
        state = merge_tree(edges.blocks(8), settings)
        plain = merge_tree(edges.blocks(8), replace(settings, ridge=0.0))
        errors.append(error(edges.graph(), copies_graph(state), ridge))
        shares.append(state.copies.sum() / plain.copies.sum())
    assert np.mean(errors) == pytest.approx(0.30, abs=0.05)
    assert np.mean(shares) == pytest.approx(33.4 / 59, abs=0.04)


def test_bridges_keep_all_copies_in_the_merge_tree() -> None:
    edges = two_communities(40, 1.0, 1, seed=0)
    settings = RidgeSettings(epsilon=0.9, n_nodes=40, copies_per_edge=4, n_probes=256)
    state = merge_tree(edges.blocks(5), settings)
    across = (state.u < 20) != (state.v < 20)
    assert across.sum() == 1
    assert state.copies[across].tolist() == [4]
    np.testing.assert_allclose(state.conductance[across], 1.0, rtol=1e-6)


def test_kelner_levin_cuts_the_stream_into_blocks_of_n_edges() -> None:
    edges = complete(30)  # 435 edges: 200, 200 and 35
    settings = KelnerLevinSettings(epsilon=0.5, n_nodes=30, n_copies=200)
    once = kelner_levin(edges.blocks(1), settings)
    assert once.n_rounds == 3
    assert once.n_edges == 435
    for n_blocks in (4, 50):
        again = kelner_levin(edges.blocks(n_blocks), settings)
        assert np.array_equal(once.key, again.key)
        assert np.array_equal(once.copies, again.copies)
        assert np.array_equal(once.conductance, again.conductance)
    other = kelner_levin(edges.blocks(1), replace(settings, seed=1))
    assert not np.array_equal(once.key, other.key)


def test_merging_is_reproducible_and_sets_shards_apart() -> None:
    edges = complete(30)
    settings = RidgeSettings(epsilon=0.5, n_nodes=30, copies_per_edge=5)
    one, two = (
        sparsify(empty(settings, shard=shard), settings, block)
        for shard, block in enumerate(edges.blocks(2))
    )
    merged, again = merge(one, two, settings), merge(one, two, settings)
    assert np.array_equal(merged.copies, again.copies)
    assert merged.n_edges == 435
    assert merged.n_rounds == 2
    assert np.unique(merged.key).size == merged.n_records
    with pytest.raises(ValueError, match="differ in shard, both are 0"):
        merge(one, one, settings)
    with pytest.raises(ValueError, match="agree in copies"):
        merge(one, replace(two, birth_copies=6), settings)


def test_no_edges_are_no_trouble() -> None:
    settings = KelnerLevinSettings(epsilon=0.5, n_nodes=4, n_copies=10)
    assert kelner_levin([], settings).n_records == 0
    assert merge_tree([], settings).n_records == 0
    none: FloatArray = np.empty(0)
    state = kelner_levin([edge_block(none, none, none)], settings)
    assert copies_graph(state).n_edges == 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epsilon": 1.0}, r"epsilon must lie in \(0, 1\), got 1.0"),
        ({"n_nodes": 1}, "n_nodes must be at least 2, got 1"),
        ({"seed": -1}, "seed must lie in"),
        ({"n_probes": 0}, "n_probes must be at least 1, got 0"),
    ],
)
@pytest.mark.parametrize("form", [KelnerLevinSettings, RidgeSettings])
def test_settings_refuse_values_outside_their_range(
    form: type, wrong: dict[str, float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        form(**{"epsilon": 0.5, "n_nodes": 10} | wrong)


def test_settings_of_one_form_only() -> None:
    with pytest.raises(ValueError, match="n_copies must be at least 1, got 0"):
        KelnerLevinSettings(epsilon=0.5, n_nodes=9, n_copies=0)
    with pytest.raises(ValueError, match="copies_per_edge must be at least 1, got 0"):
        RidgeSettings(epsilon=0.5, n_nodes=9, copies_per_edge=0)
    with pytest.raises(ValueError, match="ridge must be finite and >= 0, got -1"):
        RidgeSettings(epsilon=0.5, n_nodes=9, ridge=-1.0)
    with pytest.raises(ValueError, match="alpha must be finite and at least 1"):
        RidgeSettings(epsilon=0.5, n_nodes=9, alpha=0.5)
    with pytest.raises(ValueError, match="shard must lie in"):
        empty(KelnerLevinSettings(epsilon=0.5, n_nodes=9), shard=-1)
