"""Choices of nodes to label, against the slow obvious twin and what must hold of them."""

import subprocess
import sys

import numpy as np
import pytest

from peewit.solvers.active_learning import (
    LEAST_WEIGHT,
    NOISE,
    coverage,
    least_margins,
    least_variance,
    unsureness,
)
from peewit.solvers.arrays import BoolArray, Float32Array, FloatArray


def points_of(n_nodes: int, n_coordinates: int = 6, seed: int = 0) -> Float32Array:
    return np.random.default_rng(seed).normal(size=(n_nodes, n_coordinates)).astype(np.float32)


def greedy_twin(
    points: Float32Array, labeled: list[int], weight: Float32Array, free: BoolArray, n_chosen: int
) -> list[int]:
    """The same choices by whole covariance matrices, made anew for every node that is tried."""
    unit = points.astype(np.float64) / np.linalg.norm(points, axis=1, keepdims=True)
    prior = unit @ unit.T

    def left(known: list[int]) -> FloatArray:
        cross, inner = prior[:, known], prior[np.ix_(known, known)]
        given = prior - cross @ np.linalg.solve(inner + NOISE * np.eye(len(known)), cross.T)
        return np.diag(given)

    chosen: list[int] = []
    for _ in range(n_chosen):
        known = labeled + chosen
        before = weight @ left(known)
        gains = {
            node: weight[node] * (before - weight @ left([*known, node]))
            for node in np.flatnonzero(free).tolist()
            if node not in chosen
        }
        chosen.append(max(gains, key=lambda node: gains[node]))
    return chosen


@pytest.mark.parametrize("labeled", [[], [3], [0, 1, 2, 7, 7]])
def test_least_variance_is_what_whole_covariances_say(labeled: list[int]) -> None:
    points = points_of(40)
    weight = np.random.default_rng(1).uniform(0.1, 1, 40).astype(np.float32)
    free = np.ones(40, bool)
    free[[*labeled, 11, 12]] = False
    chosen = least_variance(points, points[labeled], weight, free, 8)
    assert chosen.tolist() == greedy_twin(points, labeled, weight, free, 8)


def test_least_variance_takes_one_of_each_group_before_a_second() -> None:
    group = np.repeat(np.arange(4), [40, 36, 32, 28])
    points = (np.eye(4)[group] + points_of(136, 4) * 0.01).astype(np.float32)
    chosen = least_variance(points, points[:0], np.ones(136, np.float32), np.ones(136, bool), 4)
    assert group[chosen].tolist() == [0, 1, 2, 3]
    known = np.flatnonzero(group == 0)[:2]
    after = least_variance(points, points[known], np.ones(136, np.float32), np.ones(136, bool), 3)
    assert group[after].tolist() == [1, 2, 3]


def test_points_at_the_center_are_chosen_last() -> None:
    points = points_of(10)
    points[4] = 0.0
    chosen = least_variance(points, points[:0], np.ones(10, np.float32), np.ones(10, bool), 10)
    assert sorted(chosen.tolist()) == list(range(10))
    assert chosen[-1] == 4


def test_least_margins_are_the_least_of_the_free_ones_in_order() -> None:
    rng = np.random.default_rng(2)
    margin = rng.integers(0, 20, 200) / 20
    free = rng.random(200) < 0.7
    rows = np.flatnonzero(free)
    expected = rows[np.argsort(margin[rows], kind="stable")]
    for n_chosen in (1, 7, rows.size, rows.size + 5):
        assert np.array_equal(least_margins(margin, free, n_chosen), expected[:n_chosen])


def test_coverage_takes_the_middle_of_each_cluster_heaviest_first() -> None:
    sizes = [50, 40, 30, 20]
    group = np.repeat(np.arange(4), sizes)
    centers = 10 * np.eye(4)
    points = (centers[group] + 0.1 * points_of(140, 4)).astype(np.float32)
    starts = np.cumsum([0, *sizes[:-1]])
    points[starts] = centers  # the mean of its cluster, nearly
    chosen = coverage(points, np.zeros(140), np.ones(140, bool), 4, seed=0)
    assert group[chosen].tolist() == [0, 1, 2, 3]
    offset = np.linalg.norm(points[chosen] - centers, axis=1)
    assert offset.max() < 0.15


def test_coverage_looks_at_the_less_sure_half() -> None:
    points = points_of(400)
    margin = np.random.default_rng(3).permutation(400) / 400
    chosen = coverage(points, margin, np.ones(400, bool), 10, seed=0)
    assert len(set(chosen.tolist())) == 10
    assert margin[chosen].max() <= 0.5
    again = coverage(points, margin, np.ones(400, bool), 10, seed=0)
    assert np.array_equal(chosen, again)


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_nothing_is_chosen_twice_or_that_is_not_free() -> None:
    free = np.zeros(50, bool)
    free[10:40] = True
    alike = np.ones((50, 3), np.float32)  # fewer points than clusters
    weight = np.ones(50, np.float32)
    for n_chosen in (1, 5, 30, 60):
        for chosen in (
            coverage(alike, np.zeros(50), free, n_chosen, seed=1),
            least_variance(alike, alike[:2], weight, free, n_chosen),
            least_margins(np.zeros(50), free, n_chosen),
        ):
            assert len(chosen) == min(n_chosen, 30)
            assert len(set(chosen.tolist())) == len(chosen)
            assert free[chosen].all()


def test_unsureness_falls_with_the_margin() -> None:
    margin = np.linspace(0, 1, 101)
    weight = unsureness(margin)
    assert weight[0] == 1.0
    assert (np.diff(weight) <= 0).all()
    assert weight[50] == pytest.approx(1 - 0.5 / 0.9)
    assert weight[95] == pytest.approx(LEAST_WEIGHT)
    assert unsureness(np.zeros(3)).tolist() == [1.0, 1.0, 1.0]
    assert unsureness([]).size == 0


@pytest.mark.usefixtures("processes")
def test_what_takes_long_to_load_is_loaded_where_it_is_asked_for() -> None:
    code = """
import sys
from peewit.solvers import active_learning
assert "sklearn.cluster" not in sys.modules
active_learning.preload()
assert "sklearn.cluster" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
