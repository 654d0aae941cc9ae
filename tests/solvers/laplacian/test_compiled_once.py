"""Matrices that can be written and those that cannot are multiplied by the same compiled code."""

import numpy as np
import pytest

from peewit.solvers.arrays import frozen, frozen_all
from peewit.solvers.kernels.multigrid import residual_rows
from peewit.solvers.laplacian.multigrid.residual_sweep import Sweep
from peewit.solvers.row_ranges import RowRanges


def sweep(*, is_writable: bool) -> Sweep:
    """Of the path of three nodes."""
    arrays = (
        np.array([0, 1, 3, 4], np.int32),
        np.array([1, 0, 2, 1], np.int32),
        np.ones(4),
        np.zeros(3),
    )
    indptr, indices, weight, shift = arrays if is_writable else map(frozen, arrays)
    return Sweep(
        indptr=indptr,
        indices=indices,
        weight=weight,
        shift=shift,
        factor=np.full(3, 0.5),
        ranges=RowRanges.of(indptr, map),
    )


def test_a_matrix_that_can_be_written_compiles_nothing_new() -> None:
    if not hasattr(residual_rows, "signatures"):
        pytest.skip("needs compiled kernels; unset NUMBA_DISABLE_JIT")
    block, right = np.arange(3.0)[:, None], np.ones((3, 1))
    answers, counts = [], []
    for is_writable in (False, True):
        out = np.empty((3, 1))
        sweep(is_writable=is_writable).residual(block, right, out)
        answers.append(out)
        counts.append(len(residual_rows.signatures))
    np.testing.assert_array_equal(answers[0], answers[1])
    np.testing.assert_array_equal(answers[0][:, 0], [2.0, 1.0, 0.0])
    assert counts[0] == counts[1]


def test_views_of_mapped_arrays_are_plain_and_cannot_be_written(tmp_path: object) -> None:
    mapped = np.memmap(f"{tmp_path}/numbers", np.int32, "w+", shape=(3,))
    (view,) = frozen_all(mapped)
    assert type(view) is np.ndarray
    assert not view.flags.writeable
    assert np.shares_memory(view, mapped)
    assert mapped.flags.writeable
