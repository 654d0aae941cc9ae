import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from peewit.solvers.kernels.mutual_neighbors import mark_mutual
from tests.uncompiled import assert_passes_uncompiled, only_compiled


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**31), k=st.integers(1, 6), dtype=st.sampled_from([np.int32, np.int64]))
def test_a_neighbor_is_mutual_when_it_lists_the_row(seed: int, k: int, dtype: type) -> None:
    rng = np.random.default_rng(seed)
    neighbors = np.array([rng.permutation(12)[:k] for _ in range(12)], dtype)
    neighbors[rng.random(neighbors.shape) < 0.2] = -1
    first, last = sorted(rng.integers(0, 13, 2))
    is_mutual = np.empty((last - first, k), np.bool_)
    mark_mutual(neighbors, first, is_mutual)
    for row in range(first, last):
        expected = [each >= 0 and row in neighbors[each] for each in neighbors[row]]
        assert is_mutual[row - first].tolist() == expected


@only_compiled
def test_this_file_passes_uncompiled() -> None:
    assert_passes_uncompiled(__file__)
