from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

from peewit.solvers.features import FeatureRows
from peewit.solvers.gram import kernel_spaces, landmarks
from peewit.solvers.gram.feature_spaces import GramFactor, LinearMap
from peewit.solvers.gram.kernel_functions import KernelFunction
from peewit.solvers.gram.kernel_spaces import BlockedGram, DenseGram
from peewit.solvers.gram.landmarks import LandmarkMap
from peewit.solvers.gram.memory_plan import GramRequest, GramTooLarge
from peewit.solvers.laplacian.iterated_laplacian import IteratedLaplacian
from peewit.solvers.models.machines.lapsvm import LapSVM
from tests.reference.kernel_machines import kernel_matrix, laplacian_power
from tests.solvers.machines import small

KERNELS = ["gaussian", "polynomial", "linear"]
N_ROWS = 45


@pytest.fixture
def points() -> np.ndarray:
    values = np.random.default_rng(5).standard_normal((N_ROWS, 6)) + 3.0
    values[np.abs(values) < 2] = 0.0
    return values


def function(name: str, points, *, width: float | None = 1.7, degree: int = 5) -> KernelFunction:
    rows = FeatureRows.of(points, points.shape[0])
    return KernelFunction.fitted(name, rows, width=width, degree=degree)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("dtype", "atol"), [(np.float64, 1e-13), (np.float32, 1e-5)])
def test_blocks_are_the_kernel_entry_by_entry(points, name, sparse, dtype, atol) -> None:
    given = sp.csr_array(points) if sparse else points
    kernel = function(name, given)
    rows = kernel.scaled(given, dtype)
    expected = kernel_matrix(name, points, points[:20], 1.7, 5)
    block = kernel.block(rows, rows[:20])
    assert block.dtype == dtype
    np.testing.assert_allclose(block, expected, atol=atol * np.abs(expected).max())


@pytest.mark.parametrize("degree", range(1, 12))
def test_powers_by_squaring_are_powers(points, degree: int) -> None:
    kernel = function("polynomial", points, degree=degree)
    rows = kernel.scaled(points, np.float64)
    expected = kernel_matrix("polynomial", points, points, 1.7, degree)
    np.testing.assert_allclose(kernel.block(rows, rows), expected, rtol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
def test_widths_found_make_kernels_independent_of_the_unit(points, sparse: bool) -> None:
    for name in KERNELS:
        blocks = []
        for unit in (1.0, 1e150, 1e-200):
            given = sp.csr_array(points * unit) if sparse else points * unit
            kernel = function(name, given, width=None)
            rows = kernel.scaled(given, np.float64)
            blocks.append(kernel.block(rows, rows))
        np.testing.assert_allclose(blocks[1], blocks[0], rtol=1e-9)
        np.testing.assert_allclose(blocks[2], blocks[0], rtol=1e-9)


def test_lengths_beyond_floats_are_refused(points) -> None:
    with pytest.raises(ValueError, match="features must have lengths that a float can hold"):
        function("linear", np.where(points == 0, 0.0, 1.7e308), width=None)


def test_equal_rows_have_a_width_of_one() -> None:
    assert function("gaussian", np.ones((5, 2)), width=None).width == 1.0
    assert function("linear", np.zeros((5, 2)), width=None).width == 1.0


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("entries", [1 << 24, 7 * N_ROWS, 1])
def test_every_form_has_the_products_of_the_matrix(points, name, entries, monkeypatch) -> None:
    monkeypatch.setattr(kernel_spaces, "_BLOCK_ENTRIES", entries)
    monkeypatch.setattr(kernel_spaces, "_BLOCK_ROWS", max(1, entries // N_ROWS))
    expected = kernel_matrix(name, points, points, 1.7, 5)
    size = np.abs(expected).max()
    rows, kernel = FeatureRows.of(points, N_ROWS), function(name, points)
    coef = np.random.default_rng(1).standard_normal((N_ROWS, 3))
    with ThreadPoolExecutor(2) as pool:
        for parallel in (map, pool.map):
            dense = DenseGram.of(kernel, rows, np.float64, parallel)
            np.testing.assert_array_equal(dense.matrix, dense.matrix.T)
            np.testing.assert_allclose(dense.matrix, expected, atol=1e-12 * size)
            blocked = BlockedGram.of(kernel, rows, np.float64, parallel)
            for space in (dense, blocked):
                np.testing.assert_allclose(space.values(coef), expected @ coef, atol=1e-11 * size)
                nodes = np.array([3, 9])
                np.testing.assert_allclose(
                    space.between(nodes), expected[np.ix_(nodes, nodes)], atol=1e-12 * size
                )
                few = np.zeros_like(coef)
                few[nodes] = coef[nodes]
                np.testing.assert_allclose(space.values(few), expected @ few, atol=1e-11 * size)


def maps(points, name: str, laplacian) -> list:
    rows, kernel = FeatureRows.of(points, len(points)), function(name, points)
    dense = DenseGram.of(kernel, rows, np.float64)
    made = [
        GramFactor(dense),
        LandmarkMap(kernel, rows, points, np.float64, kept_bytes=0),
        LandmarkMap(kernel, rows, points, np.float64, kept_bytes=1 << 30),
    ]
    return [*made, LinearMap(kernel, rows, np.float64)] if name == "linear" else made


@pytest.mark.parametrize("name", KERNELS)
def test_explicit_features_span_the_space_of_the_kernel(points, name: str, monkeypatch) -> None:
    """All nodes as landmarks: nothing is approximated."""
    monkeypatch.setattr(landmarks, "CHUNK_BYTES", 8 * N_ROWS * 10)
    graph = small(n_nodes=N_ROWS).graph
    operator = IteratedLaplacian.of_graph(graph, power=2)
    gram = kernel_matrix(name, points, points, 1.7, 5)
    scale = np.abs(gram).max()
    nodes = np.array([2, 3, 30])
    rng = np.random.default_rng(2)
    for space in maps(points, name, operator):
        features = space.features(np.arange(N_ROWS))
        assert features.shape == (N_ROWS, space.n_coef)
        np.testing.assert_allclose(features @ features.T, gram, atol=1e-8 * scale)
        between = gram[np.ix_(nodes, nodes)]
        np.testing.assert_allclose(space.between(nodes), between, atol=1e-8 * scale)
        coef, residual = rng.standard_normal((space.n_coef, 2)), rng.standard_normal((N_ROWS, 2))
        np.testing.assert_allclose(space.values(coef), features @ coef, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(
            space.adjoint(residual), features.T @ residual, rtol=1e-7, atol=1e-6 * scale
        )
        expected = features.T @ laplacian_power(graph, "normalized", 2) @ features
        np.testing.assert_allclose(
            space.penalty_matrix(operator.product), expected, atol=1e-8 * scale
        )
        intercept = np.array([1.0, -2.0])
        functions = space.expansion(coef, intercept)
        np.testing.assert_allclose(
            functions.values(points), space.values(coef) + intercept, rtol=1e-6, atol=1e-6
        )


def test_sparse_rows_have_the_linear_map_of_dense_ones(points) -> None:
    graph = small(n_nodes=N_ROWS).graph
    operator = IteratedLaplacian.of_graph(graph, power=2)
    dense = LinearMap(function("linear", points), FeatureRows.of(points, N_ROWS), np.float64)
    given = sp.csr_array(points)
    sparse = LinearMap(function("linear", given), FeatureRows.of(given, N_ROWS), np.float64)
    coef = np.random.default_rng(3).standard_normal((6, 2))
    np.testing.assert_allclose(sparse.values(coef), dense.values(coef), rtol=1e-12)
    np.testing.assert_allclose(
        sparse.penalty_matrix(operator.product), dense.penalty_matrix(operator.product), atol=1e-12
    )
    np.testing.assert_allclose(
        sparse.features(np.array([1])), dense.features(np.array([1])), rtol=1e-12
    )
    functions = sparse.expansion(coef, np.zeros(2))
    np.testing.assert_allclose(functions.values(points), dense.values(coef), rtol=1e-9)
    np.testing.assert_allclose(functions.values(given), dense.values(coef), rtol=1e-9)


def test_a_factor_of_repeated_rows_has_their_rank(points) -> None:
    repeated = np.vstack([points[:10]] * 4)
    kernel = function("gaussian", repeated)
    dense = DenseGram.of(kernel, FeatureRows.of(repeated, 40), np.float64)
    factor = GramFactor(dense)
    assert factor.n_coef == 10
    features = factor.features(np.arange(40))
    np.testing.assert_allclose(features @ features.T, dense.matrix, atol=1e-9)


def test_landmarks_in_float32_come_close(points) -> None:
    rows, kernel = FeatureRows.of(points, N_ROWS), function("gaussian", points)
    gram = kernel_matrix("gaussian", points, points, 1.7)
    space = LandmarkMap(kernel, rows, points, np.float32, kept_bytes=0)
    features = space.features(np.arange(N_ROWS))
    np.testing.assert_allclose(features @ features.T, gram, atol=1e-3)
    graph = small(n_nodes=N_ROWS).graph
    operator = IteratedLaplacian.of_graph(graph, power=2)
    expected = features.T @ laplacian_power(graph, "normalized", 2) @ features
    found = space.penalty_matrix(operator.rounded(np.float32).product)
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())


@pytest.mark.parametrize("name", KERNELS)
def test_sparse_points_have_the_values_of_dense_ones(points, name) -> None:
    dense = DenseGram.of(function(name, points), FeatureRows.of(points, N_ROWS), np.float64)
    coef = np.random.default_rng(4).standard_normal((N_ROWS, 2))
    functions = dense.expansion(coef, np.ones(2))
    np.testing.assert_allclose(
        functions.values(sp.csr_array(points)), functions.values(points), rtol=1e-9, atol=1e-9
    )


def test_functions_drop_rows_that_none_needs(points) -> None:
    dense = DenseGram.of(function("gaussian", points), FeatureRows.of(points, N_ROWS), np.float64)
    coef = np.zeros((N_ROWS, 2))
    coef[4, 0], coef[9, 1] = 1.0, 2.0
    functions = dense.expansion(coef, np.zeros(2))
    trimmed = functions.trimmed()
    assert trimmed.basis.n_rows == 2
    np.testing.assert_allclose(trimmed.values(points), functions.values(points), atol=1e-14)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            np.zeros((2, 5)),
            "features must have 6 columns, as those the model was trained on, got 5",
        ),
        (np.full((2, 6), np.nan), "features must be finite, got nan in row 0"),
    ],
)
def test_new_points_that_do_not_fit_are_refused(points, given, message: str) -> None:
    dense = DenseGram.of(function("gaussian", points), FeatureRows.of(points, N_ROWS), np.float64)
    functions = dense.expansion(np.ones((N_ROWS, 1)), np.zeros(1))
    with pytest.raises(ValueError, match=message):
        functions.values(given)


GIB = 1 << 30


def request(**given) -> GramRequest:
    settings = {
        "n_rows": 20_000,
        "n_columns": 100,
        "row_bytes": 800,
        "is_linear": False,
        "n_landmarks": 1_000,
        "is_factored": False,
    }
    return GramRequest(**(settings | given))


@pytest.mark.parametrize(
    ("budget", "form", "precision"),
    [(4 * GIB, "dense", "float64"), (2 * GIB, "dense", "float32"), (GIB, "landmarks", "float64")],
)
def test_the_best_form_that_fits_is_planned(budget: int, form: str, precision: str) -> None:
    plan = request().plan("auto", "auto", budget)
    assert (plan.form, plan.dtype.name) == (form, precision)
    assert plan.n_bytes <= budget


def test_a_form_that_does_not_fit_is_refused_with_others_that_do() -> None:
    with pytest.raises(GramTooLarge) as refused:
        request().plan("dense", "float64", 2 * GIB)
    assert str(refused.value) == (
        "gram 'dense' in float64 needs 3.00 GiB for 20000 nodes, but 2.00 GiB may be used; use "
        "gram='dense' with precision='float32', or gram='landmarks' (approximate), or "
        "gram='blocked' with method='pcg' (exact, slower)"
    )
    with pytest.raises(GramTooLarge, match="allow it more memory"):
        request(n_rows=10**8).plan("dense", "float32", 1 << 20)


def test_a_linear_kernel_needs_no_gram_matrix() -> None:
    plan = request(is_linear=True, n_rows=10**6).plan("auto", "auto", 4 * GIB)
    assert plan.form == "linear"


def test_wide_sparse_rows_are_not_planned_as_if_they_were_factored() -> None:
    model = LapSVM(kernel="linear")
    wide = model.plan(40_000, 65_536, GIB, row_bytes=1_200)
    assert (wide.form, wide.dtype.name) == ("linear", "float64")
    narrow = model.plan(40_000, 4_000, 4 * GIB, row_bytes=1_200)
    assert narrow.n_bytes > wide.n_bytes
    forced = LapSVM(kernel="linear", method="newton")
    assert forced.plan(40_000, 65_536, GIB, row_bytes=1_200).form == "landmarks"
