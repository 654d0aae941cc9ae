"""The kernels of passes over raw edges against plain sums, compiled and not."""

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from peewit.streaming.kernels.edge_passes import (
    LANE_COLUMNS,
    add_edge_differences,
    all_roots,
    join_ends,
)
from tests.uncompiled import assert_passes_uncompiled, only_compiled

N_NODES = 40


@pytest.fixture
def ends() -> np.ndarray:
    return np.random.default_rng(1).integers(0, N_NODES, (2, 30)).astype(np.int32)


def test_differences_are_summed_onto_what_is_there(ends: np.ndarray) -> None:
    rng = np.random.default_rng(2)
    weight = rng.uniform(0.1, 5.0, ends.shape[1]).astype(np.float32)
    lane = rng.standard_normal((N_NODES, 2 * LANE_COLUMNS))
    incidence = np.zeros((ends.shape[1], N_NODES))
    for edge, (i, j) in enumerate(ends.T):
        incidence[edge, i] += 1.0
        incidence[edge, j] -= 1.0
    block, sums = lane[:, :LANE_COLUMNS].copy(), lane[:, LANE_COLUMNS:].copy()
    add_edge_differences(ends[0], ends[1], weight, lane)
    expected = sums + incidence.T @ (weight[:, None].astype(np.float64) * (incidence @ block))
    assert np.array_equal(lane[:, :LANE_COLUMNS], block)
    assert np.allclose(lane[:, LANE_COLUMNS:], expected)


def test_roots_name_the_components_whatever_the_blocks(ends: np.ndarray) -> None:
    parent = np.arange(N_NODES, dtype=np.int32)
    n_joins = join_ends(ends[0, :7], ends[1, :7], parent)
    n_joins += join_ends(ends[0, 7:], ends[1, 7:], parent)
    root = np.empty_like(parent)
    all_roots(parent, root)
    matrix = coo_array((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(N_NODES, N_NODES))
    n_components, component = connected_components(matrix, directed=False)
    assert n_joins == N_NODES - n_components
    smallest = [int(np.flatnonzero(component == each)[0]) for each in component]
    assert root.tolist() == smallest


@only_compiled
def test_the_same_holds_uncompiled() -> None:
    assert_passes_uncompiled(__file__)
