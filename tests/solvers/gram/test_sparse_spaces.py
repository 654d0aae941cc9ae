"""Sparse Gram matrices: Wendland's kernel, local features, and their machines; twins are dense."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist

from peewit.solvers.features import checked_rows
from peewit.solvers.gram.kernel_functions import KernelFunction
from peewit.solvers.gram.kernel_spaces import DenseGram
from peewit.solvers.gram.memory_plan import GramTooLarge
from peewit.solvers.gram.sparse_spaces import LocalMap, SparseGram, near_width
from peewit.solvers.iteration_loop import UNWATCHED, RunStopped, Watch
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.iterated_laplacian import IteratedLaplacian
from peewit.solvers.models.machines.laprlsc import LapRLSC
from peewit.solvers.models.machines.lapsvm import LapSVM
from peewit.solvers.neighbors.neighbor_graph import neighbor_graph
from peewit.solvers.status import Status
from peewit.solvers.svm import iterative_inverse
from peewit.solvers.svm.iterative_inverse import IterativeInverse
from tests.reference.kernel_machines import laplacian_power

ROOM = 1 << 30
POINTS = np.random.default_rng(2).normal(size=(150, 3))
NEW = np.random.default_rng(3).normal(size=(40, 3))
GRAPH = neighbor_graph(POINTS, 8, weights="heat", symmetrize="max")
CLASSES = (POINTS[:, 0] > 0).astype(np.int64) + (POINTS[:, 1] > 0.8)
NODES = np.arange(0, 150, 7)
LABELS = Labels.from_pairs(NODES, CLASSES[NODES])


def wendland(points: np.ndarray, others: np.ndarray, width: float) -> np.ndarray:
    """The function as printed by Wendland (1995), phi_{d,1}."""
    power = points.shape[1] // 2 + 3
    share = cdist(points, others) / (width * np.sqrt(power * (power + 1.0)))
    return np.maximum(1.0 - share, 0.0) ** power * (power * share + 1.0)


def local_features(points: np.ndarray, nodes: np.ndarray, width: float, k: int) -> np.ndarray:
    distance = cdist(points, nodes)
    near = np.exp(-((distance / width) ** 2))
    near[distance > np.sort(distance, axis=1)[:, k - 1 : k]] = 0.0
    return near / np.linalg.norm(near, axis=1, keepdims=True)


def spaces(width: float = 0.4) -> list[tuple[SparseGram | LocalMap, np.ndarray]]:
    """One space of each kind, and its Gram matrix made densely."""
    rows = checked_rows(POINTS, len(POINTS))
    compact = KernelFunction.fitted("wendland", rows, width=width, degree=0)
    gaussian = KernelFunction.fitted("gaussian", rows, width=width, degree=0)
    local = local_features(POINTS, POINTS, width, 12)
    exact = SparseGram.of(compact, rows, np.float64, kept_bytes=ROOM)
    return [
        (exact, wendland(POINTS, POINTS, width)),
        (LocalMap(gaussian, rows, np.float64, 12), local @ local.T),
    ]


@pytest.mark.parametrize("n_columns", [1, 2, 3, 8, 40])
def test_wendlands_kernel_is_positive_and_near_the_gaussian(n_columns) -> None:
    points = np.random.default_rng(n_columns).normal(size=(60, n_columns))
    rows = checked_rows(points, 60)
    kernel = KernelFunction.fitted("wendland", rows, width=1.5, degree=0)
    gram = DenseGram.of(kernel, rows, np.float64).matrix
    np.testing.assert_allclose(gram, wendland(points, points, 1.5), atol=1e-7)
    assert np.linalg.eigvalsh(gram)[0] > -1e-7
    close = points[0] + 1e-3 * np.eye(n_columns)
    near = kernel.block(kernel.scaled(points[:1], np.float64), kernel.scaled(close, np.float64))
    np.testing.assert_allclose(near, np.exp(-0.5 * (1e-3 / 1.5) ** 2), rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse_entries_are_those_of_the_dense_matrix(dtype) -> None:
    rows = checked_rows(POINTS, len(POINTS))
    kernel = KernelFunction.fitted("wendland", rows, width=0.3, degree=0)
    space = SparseGram.of(kernel, rows, dtype, kept_bytes=ROOM)
    dense = wendland(POINTS, POINTS, 0.3)
    tolerance = 1e-7 if dtype is np.float64 else 1e-5
    np.testing.assert_allclose(space.matrix.toarray(), dense, atol=tolerance)
    assert abs(space.matrix - space.matrix.T).max() == 0
    assert space.n_stored < np.count_nonzero(dense) + len(POINTS)
    assert space.n_stored < 0.3 * dense.size
    np.testing.assert_allclose(space.between(NODES), dense[np.ix_(NODES, NODES)], atol=tolerance)


def test_local_features_are_those_of_the_nearest_nodes() -> None:
    (_, _), (space, gram) = spaces()
    coef = np.random.default_rng(0).normal(size=(150, 2))
    features = local_features(POINTS, POINTS, 0.4, 12)
    np.testing.assert_allclose(space.values(coef), features @ coef, atol=1e-10)
    np.testing.assert_allclose(space.adjoint(coef), features.T @ coef, atol=1e-10)
    np.testing.assert_allclose(space.between(NODES), gram[np.ix_(NODES, NODES)], atol=1e-10)
    np.testing.assert_allclose(np.diag(gram), 1.0)
    assert space.n_stored == 150 * 12


@pytest.mark.parametrize("penalties", [(1e-2, 1.0), (1e-4, 1.0), (1.0, 0.1)])
@pytest.mark.parametrize("place", [0, 1])
def test_conjugate_gradients_invert_the_penalty(place, penalties) -> None:
    """(E13): K (norm I + graph L^2 K)^-1 between the labels."""
    norm, energy = penalties
    space, gram = spaces()[place]
    laplacian = IteratedLaplacian.of_graph(GRAPH, name="normalized", power=2)
    inverse = IterativeInverse(space, laplacian, norm, energy, watch=UNWATCHED)
    matrix = norm * np.eye(150) + energy * laplacian_power(GRAPH, "normalized", 2) @ gram
    expected = gram @ np.linalg.solve(matrix, np.eye(150)[:, NODES])
    kernel, lift = inverse.at(NODES)
    np.testing.assert_allclose(kernel, expected[NODES], atol=1e-6 * np.abs(expected).max())
    dual = np.random.default_rng(1).normal(size=(NODES.size, 2))
    found = space.values(lift(dual))
    np.testing.assert_allclose(found, expected @ dual, atol=1e-6 * np.abs(found).max())
    assert inverse.is_accurate


@pytest.mark.parametrize("bias", ["none", "free", "penalized"])
def test_machines_of_compact_support_are_those_of_the_dense_matrix(bias) -> None:
    model = LapSVM(kernel="wendland", width=0.4, graph_penalty=1.0, norm_penalty=0.1, bias=bias)
    expected = None
    for gram, method in (("dense", "newton"), ("sparse", "newton"), ("sparse", "pcg")):
        made = replace(model, gram=gram, method=method, max_iter=5_000)
        prepared = made.prepare(GRAPH, POINTS)
        solution = made.solve(prepared, LABELS)
        assert solution.status is Status.CONVERGED
        answer = solution.scores, made.predict(prepared, solution, NEW)
        expected = answer if expected is None else expected
        for found, wanted in zip(answer, expected, strict=True):
            np.testing.assert_allclose(found, wanted, atol=2e-5)


@pytest.mark.parametrize("kind", [LapSVM, LapRLSC])
def test_local_machines_answer_alike_however_they_are_solved(kind, monkeypatch) -> None:
    """Newton by eigenvectors and by conjugate gradients, and conjugate gradients alone."""
    settings = {"gram": "sparse", "graph_penalty": 1.0, "norm_penalty": 0.1, "n_nearest": 12}
    newton = "newton" if kind is LapSVM else "closed-form"
    found = []
    for method, most in ((newton, 4_000), (newton, 10), ("pcg", 4_000)):
        module = "peewit.solvers.models.machines.laplacian_machine"
        monkeypatch.setattr(f"{module}.FACTORED_COLUMNS", most)
        model = kind(method=method, **settings)
        prepared = model.prepare(GRAPH, POINTS)
        solution = model.solve(prepared, LABELS)
        assert solution.status is Status.CONVERGED
        assert solution.stats["row_entries"] == 12
        found.append((solution.scores, model.predict(prepared, solution, NEW)))
        again = model.solve(prepared, LABELS, start=solution)
        np.testing.assert_allclose(again.scores, solution.scores, atol=1e-5)
    for scores, points in found[1:]:
        np.testing.assert_allclose(scores, found[0][0], atol=1e-5)
        np.testing.assert_allclose(points, found[0][1], atol=1e-5)


def test_new_points_have_local_features_of_the_nodes() -> None:
    model = LapRLSC(gram="sparse", graph_penalty=1.0, n_nearest=12, width=0.4)
    prepared = model.prepare(GRAPH, POINTS)
    solution = model.solve(prepared, LABELS)
    found = model.predict(prepared, solution, NEW)
    coef = solution.functions.coef
    np.testing.assert_allclose(found, local_features(NEW, POINTS, 0.4, 12) @ coef, atol=1e-9)
    np.testing.assert_allclose(model.predict(prepared, solution, POINTS), solution.scores)
    assert solution.functions.trimmed() is solution.functions
    far = model.predict(prepared, solution, 1e3 * NEW)
    assert np.isfinite(far).all()
    assert np.abs(far).max() > 0.1  # by the nearest nodes, however far


def test_sparse_rows_of_features_are_taken() -> None:
    words = sp.random_array((150, 40), density=0.2, rng=np.random.default_rng(0), format="csr")
    for kernel in ("gaussian", "wendland"):
        model = LapSVM(kernel=kernel, gram="sparse", graph_penalty=1.0, n_nearest=12)
        answers = []
        for features in (words, words.toarray()):
            prepared = model.prepare(GRAPH, features)
            solution = model.solve(prepared, LABELS)
            answers.append(model.predict(prepared, solution, features[:20]))
        np.testing.assert_allclose(answers[0], answers[1], atol=1e-5)


def test_kernels_end_with_the_last_of_the_nearest() -> None:
    rows = checked_rows(POINTS, len(POINTS))
    last = np.median(np.sort(cdist(POINTS, POINTS), axis=1)[:, 12])
    for name, ends in (("gaussian", 2.0), ("wendland", np.sqrt(20.0))):
        kernel = KernelFunction.fitted(name, rows, width=None, degree=0)
        assert near_width(kernel, rows, 12) == pytest.approx(last / ends)
    model = LapSVM(gram="sparse", graph_penalty=1.0, n_nearest=12)
    prepared = model.prepare(GRAPH, POINTS)
    assert model.solve(prepared, LABELS).stats["width"] == pytest.approx(last / 2.0)
    equal = checked_rows(np.ones((30, 2)), 30)
    assert near_width(replace(kernel, width=0.7), equal, 12) == 0.7


def test_more_neighbors_than_nodes_are_all() -> None:
    model = LapSVM(gram="sparse", graph_penalty=1.0, n_nearest=10_000)
    prepared = model.prepare(GRAPH, POINTS)
    assert model.solve(prepared, LABELS).stats["row_entries"] == 150


def test_what_cannot_be_sparse_is_refused() -> None:
    with pytest.raises(ValueError, match="gram must not be 'sparse' with kernel='polynomial'"):
        LapSVM(gram="sparse", kernel="polynomial")
    rows = checked_rows(POINTS, len(POINTS))
    kernel = KernelFunction.fitted("wendland", rows, width=5.0, degree=0)
    with pytest.raises(GramTooLarge, match="in the first 150 of 150 rows with width=5; use"):
        SparseGram.of(kernel, rows, np.float64, kept_bytes=1 << 16)
    with pytest.raises(GramTooLarge, match="gram 'sparse' in float32 needs"):
        LapSVM(gram="sparse", method="pcg").plan(1_000_000, 100, 1 << 20)


@pytest.mark.parametrize("settings", [{"n_nearest": 12}, {"kernel": "wendland", "width": 0.4}])
def test_rounded_products_leave_the_answer(settings, monkeypatch) -> None:
    module = "peewit.solvers.models.machines.laplacian_machine"
    monkeypatch.setattr(f"{module}.FACTORED_COLUMNS", 10)
    found = []
    for precision in ("float64", "float32"):
        model = LapSVM(
            gram="sparse", method="newton", graph_penalty=1.0, precision=precision, **settings
        )
        solution = model.solve(model.prepare(GRAPH, POINTS), LABELS)
        assert solution.status is Status.CONVERGED
        found.append(solution.scores)
    np.testing.assert_allclose(found[1], found[0], atol=1e-4)


def test_a_penalty_is_told_where_conjugate_gradients_do_not_converge(monkeypatch) -> None:
    monkeypatch.setattr(iterative_inverse, "_MAX_ITER", 3)
    model = LapSVM(kernel="wendland", gram="sparse", method="newton", graph_penalty=1.0, width=0.4)
    solution = model.solve(model.prepare(GRAPH, POINTS), LABELS)
    assert solution.status is Status.STAGNATED


def test_a_solve_by_conjugate_gradients_can_be_cancelled() -> None:
    space, _ = spaces()[0]
    laplacian = IteratedLaplacian.of_graph(GRAPH, name="normalized", power=2)
    inverse = IterativeInverse(
        space, laplacian, 1e-2, 1.0, watch=Watch(cancelled=lambda: True, progress=None)
    )
    with pytest.raises(RunStopped):
        inverse.at(NODES)
