"""Passes over rows against products with the explicit matrix."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from peewit.solvers.features import BLOCK_BYTES, FeatureRows, SourceRows
from peewit.solvers.linear.row_products import (
    DenseRows,
    LinearRows,
    SparseRows,
    StreamedRows,
    rows_of,
)
from peewit.solvers.linear.row_scaling import RowScaling
from tests.reference.linear_machines import formed
from tests.solvers.linear_problems import in_memory

SHAPE = 60, 9


@dataclass(frozen=True)
class Blocks:
    """Rows of a matrix in blocks of given sizes."""

    matrix: Any
    sizes: tuple[int, ...]

    @property
    def n_rows(self) -> int:
        return self.matrix.shape[0]

    @property
    def n_columns(self) -> int:
        return self.matrix.shape[1]

    @property
    def is_sparse(self) -> bool:
        return sp.issparse(self.matrix)

    def blocks(self, n_bytes: int = BLOCK_BYTES) -> Iterator[tuple[slice, Any]]:
        start = 0
        for size in self.sizes:
            place = slice(start, start + size)
            yield place, self.matrix[place]
            start += size


def values(seed: int = 0, shape: tuple[int, int] = SHAPE) -> np.ndarray:
    """With empty rows, the first and the last among them."""
    drawn = np.random.default_rng(seed).standard_normal(shape)
    drawn[np.abs(drawn) < 0.7] = 0.0
    drawn[[0, 5, 6, shape[0] - 1]] = 0.0
    return drawn


def csr(data: np.ndarray, dtype=np.float64, index=np.int32) -> sp.csr_array:
    matrix = sp.csr_array(data.astype(dtype))
    matrix.indices, matrix.indptr = matrix.indices.astype(index), matrix.indptr.astype(index)
    return matrix


def mapped(path: Path, array: np.ndarray) -> np.memmap:
    np.save(path, array)
    return np.load(path, mmap_mode="r")


def mapped_csr(path: Path, matrix: sp.csr_array) -> sp.csr_array:
    parts = [
        mapped(path / f"{name}.npy", getattr(matrix, name))
        for name in ("data", "indices", "indptr")
    ]
    return sp.csr_array(tuple(parts), shape=matrix.shape)


def streamed(matrix: Any, **form: Any) -> StreamedRows:
    source = SourceRows(Blocks(matrix, (0, 7, 1, 0, 30, 22, 0)))
    fitted = RowScaling.fitted(source, **form)
    scale = np.concatenate([fitted.scale(block) for _, block in source.blocks()])
    return StreamedRows(source=source, scale=scale, form=fitted)


CASES: dict[str, tuple[Callable[[Path], Any], type]] = {
    "sparse": (lambda _: csr(values()), SparseRows),
    "float32": (lambda _: csr(values(), np.float32), SparseRows),
    "int64": (lambda _: csr(values(), index=np.int64), SparseRows),
    "float32 int64": (lambda _: csr(values(), np.float32, np.int64), SparseRows),
    "no entries": (lambda _: csr(np.zeros(SHAPE)), SparseRows),
    "mapped sparse": (lambda path: mapped_csr(path, csr(values(), np.float32)), SparseRows),
    "dense": (lambda _: values() + 3, DenseRows),
    "dense float32": (lambda _: (values() + 3).astype(np.float32), DenseRows),
    "dense zeros": (lambda _: np.zeros(SHAPE), DenseRows),
    "mapped dense": (lambda path: mapped(path / "rows.npy", values() + 3), DenseRows),
    "streamed sparse": (lambda _: csr(values(), np.float32), StreamedRows),
    "streamed dense": (lambda _: (values() + 3).astype(np.float32), StreamedRows),
}


def made(case: str, path: Path, **form: Any) -> tuple[LinearRows, np.ndarray]:
    make, kind = CASES[case]
    matrix = make(path)
    rows = streamed(matrix, **form) if kind is StreamedRows else in_memory(matrix, **form)
    assert type(rows) is kind
    return rows, formed(matrix, **form)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("constant", [0.0, 1.0, 2.5])
@pytest.mark.parametrize("is_unit", [False, True])
def test_products_are_those_of_the_explicit_matrix(
    tmp_path: Path, case: str, constant: float, is_unit: bool
) -> None:
    rows, expected = made(case, tmp_path, is_unit=is_unit, constant=constant)
    assert (rows.n_rows, rows.n_weights) == expected.shape
    rng = np.random.default_rng(1)
    weights, residual = rng.standard_normal((expected.shape[1], 3)), rng.standard_normal(60)
    cost = np.where(rng.random(60) < 0.4, 0.0, rng.random(60))
    near = {"rtol": 1e-12, "atol": 1e-12}
    np.testing.assert_allclose(rows.values(weights), expected @ weights, **near)
    np.testing.assert_allclose(rows.adjoint(residual), expected.T @ residual, **near)
    products, image = rows.normal(weights[:, 0], cost)
    own = expected @ weights[:, 0]
    np.testing.assert_allclose(products, np.where(cost > 0, own, 0.0), **near)
    np.testing.assert_allclose(image, expected.T @ (cost * own), **near)
    out = np.full(60, 7.0)
    rows.outputs(weights[:, 0], cost, out)
    np.testing.assert_allclose(out, np.where(cost > 0, 7.0, own), **near)
    assert rows.passes.count == 4


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_rows_that_cost_nothing_are_left_alone(tmp_path: Path, case: str) -> None:
    rows, _ = made(case, tmp_path, is_unit=True, constant=1.0)
    weights = np.random.default_rng(2).standard_normal(rows.n_weights)
    products, image = rows.normal(weights, np.zeros(60))
    np.testing.assert_array_equal(products, 0.0)
    np.testing.assert_array_equal(image, 0.0)
    np.testing.assert_array_equal(rows.adjoint(np.zeros(60)), 0.0)
    out = np.full(60, np.nan)
    rows.outputs(weights, np.ones(60), out)
    assert np.isnan(out).all()


@pytest.mark.parametrize("is_sparse", [False, True])
def test_threads_change_no_bit(is_sparse: bool) -> None:
    data = values(3, (3000, 300))
    matrix = csr(data, np.float32) if is_sparse else data
    rng = np.random.default_rng(4)
    weights, residual = rng.standard_normal((301, 2)), rng.standard_normal(3000)
    cost = np.where(rng.random(3000) < 0.3, 0.0, 1.0)
    tasks: list[int] = []

    def results(parallel) -> list[np.ndarray]:
        def counted(task, items) -> list[Any]:
            items = list(items)
            tasks.append(len(items))
            return list(parallel(task, items))

        rows = in_memory(matrix, parallel=counted)
        out = np.zeros(3000)
        rows.outputs(weights[:, 0], cost, out)
        return [
            out,
            rows.values(weights),
            rows.adjoint(residual),
            *rows.normal(weights[:, 1], cost),
        ]

    alone = results(map)
    with ThreadPoolExecutor(2) as pool:
        together = results(pool.map)
    assert min(tasks) > 1
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)
    dense = formed(matrix, is_unit=True, constant=1.0)
    np.testing.assert_allclose(alone[2], dense.T @ residual, atol=1e-9)
    np.testing.assert_allclose(alone[4], dense.T @ (cost * (dense @ weights[:, 1])), atol=1e-9)


def test_rows_of_unit_length_have_it_and_those_of_zeros_stay() -> None:
    rows = in_memory(csr(values()), constant=0.0)
    lengths = np.linalg.norm(rows.values(np.eye(10)), axis=1)
    empty = (values() == 0).all(axis=1)
    np.testing.assert_allclose(lengths[~empty], 1.0, rtol=1e-14)
    np.testing.assert_array_equal(lengths[empty], 0.0)


def test_dense_rows_are_centered_and_sparse_ones_are_not() -> None:
    data = values() + 5
    dense = RowScaling.fitted(FeatureRows.of(data, 60), is_unit=True, constant=1.0)
    np.testing.assert_allclose(dense.center, data.mean(axis=0), rtol=1e-14)
    sparse = RowScaling.fitted(FeatureRows.of(csr(data), 60), is_unit=True, constant=1.0)
    given = RowScaling.fitted(FeatureRows.of(data, 60), is_unit=False, constant=1.0)
    assert sparse.center.size == given.center.size == 0
    np.testing.assert_allclose(sparse.scale(csr(data)), 1 / np.linalg.norm(data, axis=1))
    np.testing.assert_array_equal(given.scale(data), 1.0)


def test_a_form_is_the_same_for_points_in_other_blocks() -> None:
    data = values(5).astype(np.float32)
    for matrix in (data, csr(data, np.float32)):
        form = RowScaling.fitted(FeatureRows.of(matrix, 60), is_unit=True, constant=1.0)
        whole = rows_of(matrix, form.scale(matrix), form).values(np.eye(10))
        part = matrix[20:31]
        own = rows_of(part, form.scale(part), form).values(np.eye(10))
        np.testing.assert_allclose(own, whole[20:31], atol=1e-15)


def test_long_rows_and_ones_of_less_than_four_entries_are_summed_whole() -> None:
    rng = np.random.default_rng(6)
    data = np.zeros((40, 40))
    for row in range(40):
        data[row, rng.choice(40, row, replace=False)] = rng.standard_normal(row)
    rows = in_memory(csr(data), is_unit=False)
    weights = rng.standard_normal(41)
    out = np.empty(40)
    rows.outputs(weights, np.zeros(40), out)
    np.testing.assert_allclose(out, data @ weights[:-1] + weights[-1], atol=1e-13)


def test_a_matrix_read_in_parts_is_read_whole() -> None:
    data = sp.random_array((50_000, 40), density=0.3, rng=np.random.default_rng(7), format="csr")
    rows = in_memory(data, is_unit=False, constant=0.0)
    total = rows.adjoint(np.ones(50_000))
    np.testing.assert_allclose(total[:-1], data.sum(axis=0), rtol=1e-10)
