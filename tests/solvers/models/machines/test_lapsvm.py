import gc
import tracemalloc
import weakref
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from peewit.solvers.features import FeatureRows
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import ProgressReport
from peewit.solvers.labels import Labels
from peewit.solvers.models.machines.laprlsc import LapRLSC
from peewit.solvers.models.machines.lapsvm import LapSVM
from peewit.solvers.models.machines.supervised_machines import RLSC, SVM
from peewit.solvers.neighbors.neighbor_graph import neighbor_graph
from peewit.solvers.status import Status
from peewit.streaming.features.feature_files import ParquetFeatures
from tests.data_sets import draw_per_class
from tests.reference.kernel_machines import kernel_matrix

N_POINTS = 240


def clouds(n_points: int = N_POINTS, n_classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    classes = rng.integers(n_classes, size=n_points)
    return rng.standard_normal((n_points, 5)) + 2.2 * np.eye(5)[classes], classes


def graph_of(points) -> Graph:
    points = points.toarray() if sp.issparse(points) else points
    return neighbor_graph(points, 6, weights="heat", symmetrize="max")


def labels_of(classes: np.ndarray, per_class: int = 4) -> Labels:
    chosen = [np.flatnonzero(classes == code)[:per_class] for code in np.unique(classes)]
    nodes = np.concatenate(chosen)
    return Labels.from_pairs(nodes, classes[nodes])


def solved(model, points, classes, start=None, **settings):
    prepared = model.prepare(graph_of(points), points, **settings)
    return prepared, model.solve(prepared, labels_of(classes), start=start)


def test_two_classes_have_opposite_scores_of_one_function() -> None:
    points, classes = clouds(n_classes=2)
    _, solution = solved(LapSVM(), points, classes)
    np.testing.assert_array_equal(solution.scores[:, 0], -solution.scores[:, 1])
    assert solution.functions.coef.shape == (N_POINTS, 1)


@pytest.mark.parametrize("model", [LapSVM, LapRLSC])
@pytest.mark.parametrize("gram", ["auto", "landmarks"])
def test_an_early_stop_makes_conjugate_gradients_the_method(model, gram: str) -> None:
    points, classes = clouds()
    settings = {"gram": gram, "n_landmarks": 60}
    _, stopped = solved(model(stop="stability", **settings), points, classes)
    _, expected = solved(model(stop="stability", method="pcg", **settings), points, classes)
    _, exact = solved(model(**settings), points, classes)
    assert stopped.stats["stopped_by"] == "stability"
    np.testing.assert_array_equal(stopped.scores, expected.scores)
    assert not np.allclose(stopped.scores, exact.scores, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("norm_penalty", [1e-2, 1e-4, 1e-6])
def test_what_single_precision_cannot_carry_is_not_called_converged(norm_penalty: float) -> None:
    points, classes = clouds(700, n_classes=2)
    settings = {"norm_penalty": norm_penalty, "width": 2.2}
    _, exact = solved(LapSVM(**settings), points, classes)
    _, rounded = solved(LapSVM(precision="float32", **settings), points, classes)
    gap = np.linalg.norm(rounded.scores - exact.scores) / np.linalg.norm(exact.scores)
    assert exact.status is Status.CONVERGED
    assert rounded.status is (Status.CONVERGED if gap < 1e-3 else Status.STAGNATED)
    assert (rounded.status is Status.CONVERGED) == (norm_penalty == 1e-2)


def test_the_same_question_has_the_same_status() -> None:
    """What was not solved well before does not tell on what is asked again, or instead."""
    points, classes = clouds(30, n_classes=2)
    stagnated = 0
    for exponent in range(-12, -5):
        for graph_penalty in (1.0, 1e2, 1e8, 1e18):
            model = LapSVM(norm_penalty=10.0**exponent, graph_penalty=graph_penalty)
            prepared, first = solved(model, points, classes)
            again = model.solve(prepared, labels_of(classes))
            assert again.status is first.status
            assert np.isfinite(first.scores).all()
            stagnated += first.status is Status.STAGNATED
            fewer = model.solve(prepared, labels_of(classes, 3))
            _, alone = solved(model, points, classes)
            assert alone.status is first.status
            assert fewer.status in {Status.CONVERGED, Status.STAGNATED}
    assert stagnated > 0


@pytest.mark.parametrize("space", [{}, {"gram": "landmarks"}, {"kernel": "linear"}])
@pytest.mark.parametrize("machine", [LapSVM, LapRLSC])
def test_a_start_changes_the_work_and_not_the_answer(machine, space: dict[str, str]) -> None:
    """Of hinges that change sides on the way, fewer iterations are likely but not certain."""
    settings = {"graph_penalty": 1.0, "n_landmarks": 60, "precision": "float64"}
    model = machine(method="pcg", **settings, **space)
    points, classes = clouds()
    prepared, cold = solved(model, points, classes)
    again = model.solve(prepared, labels_of(classes), start=cold)
    assert again.stats["n_iter"] == 0
    more = labels_of(classes, 5)
    from_nothing = model.solve(prepared, more)
    warm = model.solve(prepared, more, start=cold)
    if machine is LapRLSC and model.kernel == "gaussian":
        assert warm.stats["n_iter"] < from_nothing.stats["n_iter"]
    np.testing.assert_allclose(warm.scores, from_nothing.scores, atol=1e-5)


def test_a_start_from_fewer_points_is_used() -> None:
    """As after a new snapshot: old points keep their place, and the width is found anew."""
    points, classes = clouds()
    model = LapSVM(method="pcg", norm_penalty=0.01)
    _, earlier = solved(model, points[:200], classes[:200])
    _, cold = solved(model, points, classes)
    prepared, warm = solved(model, points, classes, start=earlier)
    assert warm.stats["n_iter"] < cold.stats["n_iter"]
    np.testing.assert_allclose(warm.scores, cold.scores, atol=1e-5)
    _, other = solved(model, points[::-1].copy(), classes[::-1].copy())
    unused = model.solve(prepared, labels_of(classes), start=other)
    assert unused.stats["n_iter"] == cold.stats["n_iter"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"gram": "landmarks"}, {"gram": "landmarks", "n_landmarks": 50}),
        ({"gram": "landmarks"}, {"gram": "landmarks", "seed": 1}),
        ({"gram": "landmarks"}, {"kernel": "linear"}),
        ({"kernel": "linear"}, {"gram": "landmarks"}),
        ({}, {"gram": "landmarks"}),
    ],
)
def test_a_start_of_another_space_is_not_used(first, second) -> None:
    points, classes = clouds()
    common = {"n_landmarks": 60, "method": "pcg"}
    _, earlier = solved(LapSVM(**(common | first)), points, classes)
    model = LapSVM(**(common | second))
    prepared, cold = solved(model, points, classes)
    started = model.solve(prepared, labels_of(classes), start=earlier)
    np.testing.assert_array_equal(started.scores, cold.scores)


@pytest.mark.slow
@pytest.mark.parametrize("bias", ["free", "penalized"])
def test_a_start_with_an_intercept_leaves_none_where_there_is_none(bias: str) -> None:
    points, classes = clouds()
    model = LapSVM(method="pcg")
    prepared, cold = solved(model, points, classes)
    other = replace(model, bias=bias).solve(prepared, labels_of(classes))
    warm = model.solve(prepared, labels_of(classes), start=other)
    np.testing.assert_array_equal(warm.functions.intercept, 0.0)
    np.testing.assert_allclose(warm.scores, cold.scores, atol=1e-5)


def test_one_gram_matrix_is_kept_at_a_time() -> None:
    points, classes = clouds()
    prepared, _ = solved(LapSVM(width=1.0), points, classes)
    space = next(value for name, (_, value) in prepared._made.items() if name == "space")
    kept = weakref.ref(space.matrix)
    del space
    LapSVM(width=2.0).solve(prepared, labels_of(classes))
    gc.collect()
    assert kept() is None


def test_a_supervised_machine_makes_no_gram_matrix_of_all_nodes() -> None:
    points, classes = clouds(40_000)
    graph = Graph.from_edges([], [], [], n_nodes=points.shape[0])
    tracemalloc.start()
    for model in (SVM(), RLSC()):
        solution = model.solve(model.prepare(graph, points), labels_of(classes))
        assert (solution.scores.argmax(axis=1) == classes).mean() > 0.8
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 400 << 20  # the whole would be 12 GiB


def test_a_cancelled_solution_predicts_nothing() -> None:
    points, classes = clouds()
    model = LapSVM(method="newton")
    prepared = model.prepare(graph_of(points), points)
    solution = model.solve(prepared, labels_of(classes), cancelled=lambda: True)
    with pytest.raises(ValueError, match="got one that was cancelled"):
        model.predict(prepared, solution, points)


def test_a_changed_label_reuses_the_factors() -> None:
    points, classes = clouds()
    model = LapSVM(method="newton", norm_penalty=0.01, graph_penalty=1.0)
    prepared = model.prepare(graph_of(points), points)
    phases: list[str] = []

    def note(report: ProgressReport) -> None:
        phases.append(report.phase)

    model.solve(prepared, labels_of(classes), progress=note)
    assert {"gram matrix", "factoring", "newton"} <= set(phases)
    phases.clear()
    warm = model.solve(prepared, labels_of(classes, 5), progress=note)
    assert set(phases) == {"newton"}
    cold = model.solve(model.prepare(graph_of(points), points), labels_of(classes, 5))
    np.testing.assert_allclose(warm.scores, cold.scores, atol=1e-9)


def test_models_share_the_gram_matrix_of_a_preparation() -> None:
    points, classes = clouds()
    prepared = LapSVM().prepare(graph_of(points), points)
    for model in (LapSVM(), LapRLSC(), LapSVM(graph_penalty=0.1), SVM(gram="dense")):
        phases: list[str] = []
        shared = model.solve(
            prepared,
            labels_of(classes),
            progress=lambda report, seen=phases: seen.append(report.phase),
        )
        alone = model.solve(model.prepare(graph_of(points), points), labels_of(classes))
        np.testing.assert_allclose(shared.scores, alone.scores, atol=1e-9)
        assert ("gram matrix" in phases) == (model == LapSVM())


@pytest.mark.parametrize("model", [LapSVM(), LapRLSC(), SVM(), RLSC()])
def test_new_points_are_predicted_by_the_solution(model) -> None:
    points, classes = clouds()
    prepared, solution = solved(model, points, classes)
    found = model.predict(prepared, solution, points[:20])
    np.testing.assert_allclose(found, solution.scores[:20], atol=1e-8)


def test_new_points_need_features() -> None:
    points, classes = clouds()
    model = LapSVM()
    prepared = model.prepare(graph_of(points))
    solution = model.solve(prepared, labels_of(classes))
    assert solution.stats["input"] == "spectral embedding"
    assert (solution.scores.argmax(axis=1) == classes).mean() > 0.8
    with pytest.raises(ValueError, match="new points need a model of features"):
        model.predict(prepared, solution, points)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("kernel", ["gaussian", "polynomial", "linear"])
def test_kernels_and_precisions_agree(kernel: str, precision: str) -> None:
    points, classes = clouds()
    exact = LapSVM(kernel=kernel, method="newton")
    _, expected = solved(exact, points, classes)
    for settings in (
        {"method": "newton"},
        {"method": "pcg", "rtol": 1e-5 if precision == "float32" else 1e-9},
    ):
        model = replace(exact, precision=precision, **settings)
        _, solution = solved(model, points, classes)
        atol = 2e-2 if precision == "float32" else 1e-5
        np.testing.assert_allclose(solution.scores, expected.scores, atol=atol)


@pytest.mark.slow
def test_float32_products_stop_with_a_status_when_they_can_no_more() -> None:
    points, classes = clouds()
    model = LapSVM(method="pcg", precision="float32", norm_penalty=1e-6, rtol=1e-12, max_iter=5_000)
    _, solution = solved(model, points, classes)
    assert solution.status is Status.STAGNATED
    assert np.isfinite(solution.scores).all()


def test_a_mapped_file_is_read_in_blocks(tmp_path) -> None:
    points, classes = clouds()
    np.save(tmp_path / "points.npy", points.astype(np.float32))
    mapped = np.load(tmp_path / "points.npy", mmap_mode="r")
    model = LapSVM(gram="landmarks", n_landmarks=60)
    prepared = model.prepare(graph_of(points), FeatureRows(values=mapped))
    assert isinstance(prepared.rows.values, np.memmap)
    solution = model.solve(prepared, labels_of(classes))
    _, expected = solved(model, points.astype(np.float32), classes)
    np.testing.assert_allclose(solution.scores, expected.scores, atol=1e-6)
    assert (solution.scores.argmax(axis=1) == classes).mean() > 0.8


@pytest.mark.thinned(3)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("gram", ["landmarks", "dense", "blocked"])
def test_rows_of_parquet_files_are_read_as_they_are_needed(tmp_path, gram: str, sparse) -> None:
    points, classes = clouds()
    points[np.abs(points) < 0.5] = 0.0
    table = {"features": list(points.astype(np.float32))}
    if sparse:
        table = {
            "indices": [np.flatnonzero(row).astype(np.int32) for row in points],
            "values": [row[row != 0].astype(np.float32) for row in points],
        }
    node = {"node": np.arange(N_POINTS)}
    pq.write_table(pa.table(node | table), tmp_path / "points.parquet", row_group_size=100)
    rows = ParquetFeatures.open(tmp_path / "points.parquet")
    model = LapSVM(gram=gram, n_landmarks=60, method="pcg" if gram == "blocked" else "newton")
    prepared = model.prepare(graph_of(points), rows)
    solution = model.solve(prepared, labels_of(classes))
    given = points.astype(np.float32)
    _, expected = solved(model, sp.csr_array(given) if sparse else given, classes)
    np.testing.assert_allclose(solution.scores, expected.scores, atol=1e-5)
    found = model.predict(prepared, solution, given[:9])
    np.testing.assert_allclose(found, solution.scores[:9], atol=1e-6)
    with pytest.raises(ValueError, match=r"one row for each of the 7 nodes .* \(240, 5\)"):
        model.prepare(Graph.from_edges([], [], [], n_nodes=7), rows)


@pytest.mark.parametrize("kept_bytes", [1 << 30, 1 << 28 | 1 << 20])
def test_landmarks_answer_alike_whether_kernel_values_are_kept(kept_bytes: int) -> None:
    points, classes = clouds(2000)
    model = LapSVM(gram="landmarks", n_landmarks=100, precision="float64")
    _, solution = solved(model, points, classes, kept_bytes=kept_bytes)
    assert solution.stats["gram"] == "landmarks"
    _, expected = solved(model, points, classes, kept_bytes=4 << 30)
    np.testing.assert_allclose(solution.scores, expected.scores, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "phase", ["gram matrix", "eigenvectors", "factoring", "conjugate gradients"]
)
def test_a_cancelled_solve_ends_in_every_phase(phase: str) -> None:
    points, classes = clouds(700)
    settings = {"norm_penalty": 0.01, "graph_penalty": 1.0} if phase == "factoring" else {}
    model = LapSVM(method="pcg" if phase == "conjugate gradients" else "newton", **settings)
    prepared = model.prepare(graph_of(points), points)
    seen: list[str] = []
    solution = model.solve(
        prepared,
        labels_of(classes),
        progress=lambda report: seen.append(report.phase),
        cancelled=lambda: bool(seen) and seen[-1] == phase,
    )
    assert solution.status is Status.CANCELLED
    assert seen[-1] == phase
    again = model.solve(prepared, labels_of(classes))
    assert again.status is Status.CONVERGED


def curves(n_curves: int, n_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of closed curves in 50 dimensions, longer than the kernel is wide; their curves."""
    rng = np.random.default_rng(0)
    angle = np.linspace(0.0, 2 * np.pi, n_points, endpoint=False)
    waves = np.column_stack([f(k * angle) / k for k in (1, 2, 3) for f in (np.cos, np.sin)])
    parts = [
        0.5 * waves @ rng.standard_normal((6, 50))
        + 0.35 * rng.standard_normal(50)
        + 0.1 * rng.standard_normal((n_points, 50))
        for _ in range(n_curves)
    ]
    return np.concatenate(parts), np.repeat(np.arange(n_curves), n_points)


@pytest.mark.parametrize("kind", [LapSVM, LapRLSC])
def test_labels_left_out_choose_how_much_the_graph_counts(kind) -> None:
    points, classes = curves(12, 50)
    nodes = draw_per_class(classes, 2, seed=1)
    labels = Labels.from_pairs(nodes, classes[nodes])
    prepared = kind().prepare(graph_of(points), points)
    models = kind(), kind(norm_penalty=0.01, graph_penalty=1.0)
    chosen, fixed = (model.solve(prepared, labels) for model in models)
    assert chosen.stats["graph_penalty"] > 1.0 or chosen.stats["norm_penalty"] < 0.01
    assert chosen.stats["loo_labels"] == labels.n_labeled
    right = [(each.scores.argmax(axis=1) == classes).mean() for each in (chosen, fixed)]
    assert right[0] > right[1] + 0.05
    told = {name: chosen.stats[name] for name in ("norm_penalty", "graph_penalty")}
    again = kind(**told)
    np.testing.assert_allclose(again.solve(prepared, labels).scores, chosen.scores, atol=1e-6)


def noisy_curves(n_points: int = 50) -> tuple[np.ndarray, np.ndarray]:
    """Points of closed curves that pass near each other, as views of objects that turn."""
    points, classes = curves(12, n_points)
    rng = np.random.default_rng(0)
    noise = 0.2 * rng.normal(size=(len(points), 8))
    return points @ rng.normal(size=(points.shape[1], 8)) + noise, classes


@pytest.mark.parametrize("kind", [LapSVM, LapRLSC])
def test_labels_left_out_choose_a_smaller_norm(kind) -> None:
    points, classes = noisy_curves()
    graph, nodes = graph_of(points), draw_per_class(classes, 6, seed=0)
    labels = Labels.from_pairs(nodes, classes[nodes])
    prepared = kind().prepare(graph, points)
    chosen, by_graph = (
        model.solve(prepared, labels) for model in (kind(), kind(norm_penalty=0.01))
    )
    assert chosen.stats["norm_penalty"] < 0.01
    assert by_graph.stats["norm_penalty"] == 0.01
    right = [(each.scores.argmax(axis=1) == classes).mean() for each in (chosen, by_graph)]
    assert right[0] > right[1] + 0.02
    # the functions, which come from eigenpairs, have the values of the nodes
    found = kind().predict(prepared, chosen, points)
    np.testing.assert_allclose(found, chosen.scores, atol=1e-6)


def test_far_penalties_that_labels_choose_are_those_of_exact_algebra() -> None:
    points, classes = noisy_curves(30)
    graph, nodes = graph_of(points), draw_per_class(classes, 4, seed=0)
    labels = Labels.from_pairs(nodes, classes[nodes])
    model = LapRLSC()
    solution = model.solve(model.prepare(graph, points), labels)
    norm, penalty = solution.stats["norm_penalty"], solution.stats["graph_penalty"]
    assert norm < 0.01
    gram = kernel_matrix("gaussian", points, points, solution.functions.kernel.width)
    root = np.sqrt(graph.degree)
    laplacian = np.linalg.matrix_power(graph.laplacian().toarray() / np.outer(root, root), 2)
    n_nodes, one_hot = graph.n_nodes, np.zeros((graph.n_nodes, 12))
    one_hot[labels.nodes] = 2.0 * (labels.classes[:, None] == np.arange(12)) - 1.0
    is_labeled = np.isin(np.arange(n_nodes), labels.nodes)
    inside = is_labeled[:, None] * gram + norm * np.eye(n_nodes) + penalty * laplacian @ gram
    twin = gram @ np.linalg.solve(inside, one_hot)
    np.testing.assert_allclose(solution.scores, twin, atol=1e-4)


@pytest.mark.parametrize("settings", [{"method": "pcg"}, {"precision": "float32"}])
def test_where_digits_lack_the_norm_is_not_chosen(settings) -> None:
    points, classes = noisy_curves(20)
    model = LapSVM(**settings)
    nodes = draw_per_class(classes, 6, seed=0)
    labels = Labels.from_pairs(nodes, classes[nodes])
    solution = model.solve(model.prepare(graph_of(points), points), labels)
    assert solution.stats["norm_penalty"] == 0.01
    assert solution.stats["loo_labels"] == labels.n_labeled


def test_without_labels_to_leave_out_the_graph_counts_one() -> None:
    points, classes = clouds()
    labels = labels_of(classes, per_class=1)
    prepared = LapSVM().prepare(graph_of(points), points)
    solution = LapSVM().solve(prepared, labels)
    assert (solution.stats["norm_penalty"], solution.stats["graph_penalty"]) == (0.01, 1.0)
    assert "loo_accuracy" not in solution.stats
