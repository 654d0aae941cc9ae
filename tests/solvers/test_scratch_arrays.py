"""Scratch arrays: in a file where they are large, and in memory where there is no room for one."""

import errno
import mmap
import os
from pathlib import Path

import numpy as np
import pytest

from peewit.solvers import scratch_arrays
from peewit.solvers.arrays import AnyArray
from peewit.solvers.graph import Graph
from peewit.solvers.scratch_arrays import scratch_array


@pytest.fixture(autouse=True)
def _all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch_arrays, "LEAST_BYTES", 80)


def is_in_file(array: AnyArray) -> bool:
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return isinstance(array, mmap.mmap)


def test_large_ones_lie_in_a_file_without_a_name(tmp_path: Path) -> None:
    array = scratch_array(10, np.float64, tmp_path)
    array[:] = np.arange(10)
    assert is_in_file(array)
    assert type(array) is np.ndarray
    assert list(tmp_path.iterdir()) == []
    np.testing.assert_array_equal(array, np.arange(10))
    assert not is_in_file(scratch_array(9, np.float64, tmp_path))
    assert not is_in_file(scratch_array(10, np.float64, None))


def test_without_room_they_are_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    assert not is_in_file(scratch_array(10, np.float64, tmp_path / "missing"))
    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    assert not is_in_file(scratch_array(10, np.float64, tmp_path))


def test_a_graph_in_files_is_the_one_in_memory(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    u, v = rng.integers(0, 50, (2, 300))
    apart = u != v
    plain = Graph.from_edges(u[apart], v[apart], rng.uniform(0.1, 9.0, apart.sum()), n_nodes=52)
    filed = Graph.from_sorted_edges([plain.edges()], n_nodes=52, scratch=tmp_path)
    assert is_in_file(filed.adjacency.data)
    assert is_in_file(filed.adjacency.indices)
    assert (filed.adjacency != plain.adjacency).nnz == 0
    np.testing.assert_array_equal(filed.degree, plain.degree)
    np.testing.assert_array_equal(filed.component, plain.component)
