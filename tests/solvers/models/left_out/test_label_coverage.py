"""Label coverage: rare alarms for labels drawn at random, sure ones where they are spread out."""

import numpy as np
import pytest
from scipy.stats import hypergeom

from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import UNWATCHED
from peewit.solvers.labels import Labels
from peewit.solvers.models.auto.auto import Auto
from peewit.solvers.models.auto.density_arm import Densities
from peewit.solvers.models.auto.preparation import PreparedAuto
from peewit.solvers.models.left_out.label_coverage import LabelCoverage, chance_of_at_most
from peewit.solvers.models.left_out.label_groups import LabelGroups


def villages(n_villages: int, size: int, far: float) -> Graph:
    """Dense villages, a part of the edges to anywhere."""
    rng = np.random.default_rng(0)
    n_nodes = n_villages * size
    u = rng.integers(0, n_nodes, 4 * n_nodes)
    v = u // size * size + rng.integers(0, size, u.size)
    is_far = rng.random(u.size) < far
    v[is_far] = rng.integers(0, n_nodes, np.count_nonzero(is_far))
    different = u != v
    ones = np.ones(np.count_nonzero(different))
    return Graph.from_edges(u[different], v[different], ones, n_nodes=n_nodes)


def coverage_of(prepared: PreparedAuto, nodes: np.ndarray, classes: np.ndarray) -> LabelCoverage:
    groups = LabelGroups.of(Labels.from_pairs(nodes, classes), prepared.graph.n_nodes)
    return LabelCoverage.of(Densities.of(prepared, groups, UNWATCHED).columns, groups)


@pytest.mark.slow
@pytest.mark.parametrize(("far", "n_labels"), [(0.05, 40), (0.05, 400), (1.0, 100)])
def test_labels_drawn_at_random_are_hardly_ever_called_spread(far: float, n_labels: int) -> None:
    prepared = Auto().prepare(villages(200, 20, far))
    p_values = []
    for seed in range(100):
        rng = np.random.default_rng(seed)
        nodes = np.sort(rng.choice(4_000, n_labels, replace=False))
        found = coverage_of(prepared, nodes, rng.integers(0, 2, n_labels))
        p_values.append(found.p_value)
        assert found.is_spread or not (found.is_near.any() or found.is_left_near.any())
    assert np.count_nonzero(np.array(p_values) < 0.05) <= 10
    assert np.count_nonzero(np.array(p_values) < 0.003) <= 1


def test_villages_with_one_label_are_near_and_no_left_out_label_is() -> None:
    graph, rng = villages(200, 20, 0.05), np.random.default_rng(1)
    labeled = np.sort(rng.choice(200, 120, replace=False))
    nodes = 20 * labeled + rng.integers(0, 20, 120)
    found = coverage_of(Auto().prepare(graph), nodes, np.arange(120) % 2)
    assert found.is_spread
    assert found.is_left_near.sum() <= 3
    is_in_labeled = np.isin(np.arange(4_000) // 20, labeled)
    assert found.is_near[is_in_labeled].mean() > 0.6
    assert found.is_near[~is_in_labeled].mean() < 0.05
    assert found.near_share == pytest.approx(found.is_near.mean())


def test_labels_that_come_in_pairs_are_not_spread() -> None:
    graph, rng = villages(200, 20, 0.05), np.random.default_rng(1)
    first = 20 * np.sort(rng.choice(200, 60, replace=False))
    nodes = np.sort(np.concatenate([first, first + 1]))
    assert not coverage_of(Auto().prepare(graph), nodes, np.arange(120) // 60).is_spread


def test_the_only_labels_of_their_classes_judge_nothing() -> None:
    found = coverage_of(Auto().prepare(villages(5, 20, 0.05)), np.array([3, 90]), np.arange(2))
    assert (found.p_value, found.is_spread) == (1.0, False)
    assert found.is_left_near.size == 0


def test_where_every_node_has_a_label_nothing_is_spread() -> None:
    prepared = Auto().prepare(villages(5, 20, 0.05))
    found = coverage_of(prepared, np.arange(100), np.arange(100) % 2)
    assert (found.p_value, found.is_spread, found.near_share) == (1.0, False, 0.0)
    assert found.is_left_near.size == 100


def test_a_few_nodes_prove_nothing() -> None:
    prepared = Auto().prepare(villages(2, 10, 0.05))
    for seed in range(20):
        nodes = np.sort(np.random.default_rng(seed).permutation(20)[:17])
        assert not coverage_of(prepared, nodes, np.arange(17) % 2).is_spread


@pytest.mark.parametrize(
    ("n_left", "n_all", "n_near", "n_drawn"),
    [
        (0, 30, 10, 5),
        (3, 30, 10, 5),
        (5, 30, 10, 5),
        (9, 12, 10, 11),
        (40, 5_000_000, 3_000_000, 99),
    ],
)
def test_chances_are_those_of_the_hypergeometric_distribution(
    n_left: int, n_all: int, n_near: int, n_drawn: int
) -> None:
    found = chance_of_at_most(n_left, n_all=n_all, n_near=n_near, n_drawn=n_drawn)
    assert found == pytest.approx(hypergeom.cdf(n_left, n_all, n_near, n_drawn), rel=1e-6)
