import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from peewit.service.demo.digits import neighbor_edges
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import ProgressReport, RunStopped, Watch
from peewit.solvers.labels import Labels
from peewit.solvers.models.contract.spectral_embedding import spectral_embedding
from peewit.solvers.models.harmonic.eigenfunctions import (
    EigFun,
    bin_eigenfunctions,
    principal_coordinates,
)
from peewit.solvers.models.harmonic.harmonic import StableHFS
from peewit.solvers.models.harmonic.nearest_neighbor import NearestNeighbor
from peewit.solvers.models.harmonic.simple_hfs import SimpleHFS, kernel_eigenvectors
from peewit.solvers.models.harmonic.subsampling import SubSampling
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status
from tests.data_sets import accuracy, draw_per_class
from tests.reference.baselines import (
    commute_times,
    eigfun_scores,
    nearest_classes,
    row_distances,
    shortest_paths,
    simple_hfs_scores,
)
from tests.strategies import graphs, problems

QUIET = Watch(progress=None, cancelled=None)
BASELINES = (NearestNeighbor(), SubSampling(), EigFun(), SimpleHFS())


def solved(model, graph: Graph, labels: Labels, features=None, **given_) -> Solution:
    return model.solve(model.prepare(graph, features), labels, **given_)


def cloud(n_points: int, n_columns: int, seed: int = 0) -> np.ndarray:
    """Gaussian coordinates of falling variance, so that principal directions are well apart."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n_points, n_columns)) * 0.6 ** np.arange(n_columns)


def empty_graph(n_nodes: int) -> Graph:
    return Graph.from_edges([], [], [], n_nodes=n_nodes)


def ring(n_nodes: int) -> Graph:
    """A ring with rising weights, so that no two eigenvalues are equal."""
    u = np.arange(n_nodes)
    return Graph.from_edges(u, (u + 1) % n_nodes, 1.0 + u / n_nodes, n_nodes=n_nodes)


@given(problems())
def test_the_nearest_class_along_paths_wins(problem) -> None:
    graph, labels = problem
    solution = solved(NearestNeighbor(), graph, labels)
    expected = nearest_classes(shortest_paths(graph), labels)
    for node in np.flatnonzero(solution.reachable):
        assert int(solution.scores[node].argmax()) in expected[node]


@given(st.integers(0, 1000), st.integers(2, 12), st.booleans())
@settings(max_examples=30)
def test_the_nearest_class_by_features_wins(seed: int, n_labeled: int, sparse: bool) -> None:
    rows = np.round(cloud(40, 3, seed), 1)  # ties, and coordinates that are 0
    labels = Labels.from_pairs(np.arange(n_labeled), np.arange(n_labeled) % 3 % n_labeled)
    given_ = sp.csr_array(rows) if sparse else rows
    scores = solved(NearestNeighbor(), empty_graph(40), labels, given_).scores
    expected = nearest_classes(row_distances(rows), labels)
    for node in range(n_labeled, 40):
        assert int(scores[node].argmax()) in expected[node]


@given(problems())
def test_nearest_neighbor_scores_are_distributions_and_keep_the_labels(problem) -> None:
    graph, labels = problem
    scores = solved(NearestNeighbor(), graph, labels).scores
    assert scores.min() >= 0
    np.testing.assert_allclose(scores.sum(axis=1), 1.0)
    np.testing.assert_array_equal(scores[labels.nodes], labels.targets())


def test_a_path_of_unequal_weights_is_cut_in_the_middle_of_its_length() -> None:
    graph = Graph.from_edges([0, 1, 2], [1, 2, 3], [1.0, 4.0, 4.0], n_nodes=4)
    scores = solved(NearestNeighbor(), graph, Labels.from_pairs([0, 3], ["a", "b"])).scores
    np.testing.assert_allclose(scores[1], [1 / 3, 2 / 3])  # 1 from a, 0.25 + 0.25 from b
    np.testing.assert_allclose(scores[2], [0.25 / 1.5, 1.25 / 1.5])


@given(problems())
def test_a_sample_of_every_node_is_stable_hfs(problem) -> None:
    graph, labels = problem
    sampled = solved(SubSampling(graph_penalty=0.5), graph, labels)
    whole = solved(StableHFS(graph_penalty=0.5), graph, labels)
    np.testing.assert_allclose(sampled.scores, whole.scores, atol=1e-5)
    np.testing.assert_array_equal(sampled.reachable, whole.reachable)


@given(problems(), st.integers(1, 8), st.integers(0, 5))
def test_nodes_out_of_the_sample_copy_one_of_the_nearest_in_it(problem, size, seed) -> None:
    graph, labels = problem
    solution = solved(SubSampling(n_sampled=size, seed=seed, graph_penalty=1.0), graph, labels)
    drawn = np.random.default_rng(seed).choice(graph.n_nodes, min(size, graph.n_nodes), False)
    nodes = np.union1d(drawn, labels.nodes)
    inner = Graph.from_adjacency(graph.adjacency[nodes][:, nodes])
    names = [labels.class_names[code] for code in labels.classes]
    inside = Labels.from_pairs(np.searchsorted(nodes, labels.nodes), names)
    part = solved(StableHFS(graph_penalty=1.0), inner, inside)
    known = nodes[part.reachable]
    distance = shortest_paths(graph)[:, known]
    for node in np.flatnonzero(solution.reachable):
        nearest = np.isclose(distance[node], distance[node].min(), rtol=1e-9)
        copied = solution.scores[known[nearest]]
        assert np.isclose(copied, solution.scores[node], atol=1e-9).all(axis=1).any()
    np.testing.assert_allclose(solution.scores[known], part.scores[part.reachable], atol=1e-6)
    assert solution.stats["n_sampled"] == nodes.size
    assert solution.stats["n_copied"] == graph.n_nodes - known.size


def test_samples_are_drawn_by_the_seed(digits) -> None:
    graph, classes = digits
    nodes = draw_per_class(classes, 5, seed=0)
    labels = Labels.from_pairs(nodes, classes[nodes])
    one, same, other = (
        solved(SubSampling(n_sampled=200, seed=seed), graph, labels).scores for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


@given(graphs(min_nodes=2, connected=True))
def test_the_whole_embedding_has_commute_times_for_distances(graph: Graph) -> None:
    coordinates, _ = spectral_embedding(graph, graph.n_nodes, QUIET)
    expected = commute_times(graph)
    np.testing.assert_allclose(row_distances(coordinates) ** 2, expected, atol=1e-6, rtol=1e-5)


@given(graphs(min_nodes=2))
def test_embeddings_tell_nothing_of_components(graph: Graph) -> None:
    """Every coordinate is orthogonal to every component's indicator, in the degree's product."""
    coordinates, _ = spectral_embedding(graph, 5, QUIET)
    for number in range(graph.n_components):
        inside = graph.component == number
        sums = graph.degree[inside] @ coordinates[inside]
        scale = graph.degree[inside] @ np.abs(coordinates[inside])
        assert (np.abs(sums) <= 1e-6 * scale + 1e-9).all()


def test_large_and_small_graphs_are_embedded_alike() -> None:
    parts = [ring(450), ring(30)]
    u = np.concatenate([parts[0].edges()[0], parts[1].edges()[0] + 450])
    v = np.concatenate([parts[0].edges()[1], parts[1].edges()[1] + 450])
    weight = np.concatenate([parts[0].edges()[2], parts[1].edges()[2]])
    graph = Graph.from_edges(u, v, weight, n_nodes=481)  # and an isolated node
    found, status = spectral_embedding(graph, 6, QUIET)
    root = np.sqrt(np.maximum(graph.degree, 1e-300))
    normalized = graph.laplacian().toarray() / np.outer(root, root)
    values, vectors = np.linalg.eigh(normalized)
    expected = vectors[:, 3:9] / root[:, None] / np.sqrt(values[3:9])
    expected[480] = 0.0
    assert status is Status.CONVERGED
    signs = np.sign((found * expected).sum(axis=0))
    np.testing.assert_allclose(found * signs, expected, atol=1e-5 * np.abs(expected).max())


def test_embedding_a_large_graph_can_be_cancelled() -> None:
    reports: list[ProgressReport] = []
    watch = Watch(progress=reports.append, cancelled=lambda: len(reports) >= 4)
    with pytest.raises(RunStopped):
        spectral_embedding(ring(500), 3, watch)
    assert [report.n_iter for report in reports] == [0, 1, 2, 3]


@given(st.integers(0, 100), st.floats(0.05, 1.0))
@settings(max_examples=20)
def test_eigenfunctions_of_bins_solve_their_equation(seed: int, width: float) -> None:
    """Rayleigh quotients over all pairs of bins, and orthogonality to the constant."""
    values = cloud(200, 1, seed)[:, 0]
    roughness, functions, centers = bin_eigenfunctions(values, 12, width)
    low, high = np.quantile(values, [0.025, 0.975])
    share = np.histogram(np.clip(values, low, high), 12, (low, high))[0] / 200 + 0.01
    share /= share.sum()
    joint = np.exp(-((centers[:, None] - centers) ** 2) / (2 * width**2)) * np.outer(share, share)
    assert (np.diff(roughness) >= 0).all()
    for value, g in zip(roughness, functions.T, strict=True):
        mass = (joint.sum(axis=1) * g**2).sum()
        energy = 0.5 * (joint * (g[:, None] - g) ** 2).sum()
        assert energy == pytest.approx(value * mass, abs=1e-9)
        assert joint.sum(axis=1) @ g == pytest.approx(0.0, abs=1e-5)


def test_eigfun_agrees_with_its_twin() -> None:
    rows = cloud(150, 4)
    labels = Labels.from_pairs([0, 10, 20, 30, 40], ["a", "b", "c", "a", "b"])
    model = EigFun(n_dimensions=3, n_functions=7, n_bins=20, width=0.3)
    scores = solved(model, empty_graph(150), labels, rows).scores
    rotated = principal_coordinates(rows, 3)
    centered = rows - rows.mean(axis=0)
    _, _, directions = np.linalg.svd(centered)
    np.testing.assert_allclose(np.abs(rotated), np.abs(centered @ directions[:3].T), atol=1e-9)
    expected = eigfun_scores(rotated, labels, n_functions=7, n_bins=20, width=0.3)
    np.testing.assert_allclose(scores, expected, atol=1e-8)


@pytest.mark.parametrize("wide", [False, True])
def test_principal_coordinates_of_every_shape(wide: bool) -> None:
    rows = np.hstack([cloud(60, 5), np.zeros((60, 2_500 if wide else 3))])
    centered = rows - rows.mean(axis=0)
    left, values, _ = np.linalg.svd(centered, full_matrices=False)
    for given_ in (rows, sp.csr_array(rows)):
        for n_kept in (2, 5):
            found = principal_coordinates(given_, n_kept)
            np.testing.assert_allclose(
                np.abs(found), np.abs(left[:, :n_kept] * values[:n_kept]), atol=1e-8
            )


def test_simple_hfs_agrees_with_its_twin() -> None:
    rows = cloud(120, 4)
    labels = Labels.from_pairs(np.arange(0, 120, 8), np.arange(15) % 3)
    model = SimpleHFS(n_functions=6, width=0.8)
    scores = solved(model, empty_graph(120), labels, rows).scores
    expected = simple_hfs_scores(rows, labels, n_functions=6, width=0.8)
    np.testing.assert_allclose(scores, expected, atol=1e-5)


def test_landmarks_give_orthonormal_eigenvectors_of_their_approximation() -> None:
    rows = cloud(120, 4)
    landmarks = np.arange(0, 120, 3)
    values, vectors = kernel_eigenvectors(rows, landmarks, 0.8, 10, QUIET)
    kernel = np.exp(-(row_distances(rows) ** 2) / (2 * 0.8**2))
    columns = kernel[:, landmarks]
    approximation = columns @ np.linalg.pinv(kernel[np.ix_(landmarks, landmarks)]) @ columns.T
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(10), atol=1e-6)
    np.testing.assert_allclose(approximation @ vectors, vectors * values, atol=1e-5)


@pytest.mark.slow
def test_few_landmarks_do_nearly_as_well_as_many() -> None:
    rows, classes = load_digits(return_X_y=True)
    nodes = draw_per_class(classes, 20, seed=0)
    labels = Labels.from_pairs(nodes, classes[nodes])
    right = []
    for size in (300, 900):
        scores = solved(SimpleHFS(n_landmarks=size), empty_graph(1_797), labels, rows).scores
        right.append(accuracy(scores, classes, nodes))
    assert min(right) > 0.85
    assert abs(right[0] - right[1]) < 0.05


@pytest.mark.parametrize(
    ("model", "least"),
    [(NearestNeighbor(), 0.9), (SubSampling(n_sampled=900), 0.9), (EigFun(), 0.7)],
    ids=lambda value: type(value).__name__,
)
def test_digits_are_read_from_their_pixels(model, least: float) -> None:
    rows, classes = load_digits(return_X_y=True)
    nodes = draw_per_class(classes, 20, seed=0)
    labels = Labels.from_pairs(nodes, classes[nodes])
    solution = solved(model, empty_graph(1_797), labels, rows)
    assert accuracy(solution.scores, classes, nodes) > least


@pytest.fixture(scope="module")
def digits() -> tuple[Graph, np.ndarray]:
    """The 20-NN graph of 600 digits."""
    images, classes = load_digits(return_X_y=True)
    u, v, weight = neighbor_edges(images[:600], 20)
    return Graph.from_edges(u, v, weight, n_nodes=600), classes[:600].astype(np.int64)


@pytest.mark.slow
@pytest.mark.parametrize("model", BASELINES, ids=lambda model: type(model).__name__)
def test_digits_are_read_from_their_graph(model, digits) -> None:
    graph, classes = digits
    nodes = draw_per_class(classes, 15, seed=0)
    labels = Labels.from_pairs(nodes, classes[nodes])
    solution = solved(model, graph, labels)
    assert accuracy(solution.scores, classes, nodes) > 0.85


@pytest.mark.parametrize("model", BASELINES, ids=lambda model: type(model).__name__)
def test_components_whose_labels_agree_predict_their_class(model) -> None:
    """Two triangles, a pair, a node alone; the second triangle has labels of two classes."""
    graph = Graph.from_edges(
        [0, 1, 0, 3, 4, 3, 6], [1, 2, 2, 4, 5, 5, 7], [1.0, 1.1, 1.2, 1.3, 0.1, 1.5, 1.0], n_nodes=9
    )
    labels = Labels.from_pairs([0, 3, 5], ["a", "a", "b"])
    solution = solved(model, graph, labels)
    np.testing.assert_array_equal(solution.reachable, np.arange(9) < 6)
    np.testing.assert_array_equal(solution.scores[:3].argmax(axis=1), 0)
    np.testing.assert_allclose(solution.scores[6:], np.tile(labels.class_prior(), (3, 1)))


@pytest.mark.parametrize("model", BASELINES, ids=lambda model: type(model).__name__)
def test_a_graph_without_edges_leaves_the_labels_alone(model) -> None:
    labels = Labels.from_pairs([1, 2], ["a", "b"])
    solution = solved(model, empty_graph(4), labels)
    np.testing.assert_array_equal(solution.reachable, [False, True, True, False])
    np.testing.assert_array_equal(solution.scores[[1, 2]].argmax(axis=1), [0, 1])


@pytest.mark.parametrize("model", BASELINES[1:], ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("n_asked", [1, 2, 3])
def test_what_is_cancelled_on_the_way_is_made_whole_next_time(model, n_asked: int) -> None:
    graph, rows = empty_graph(60), cloud(60, 3)
    labels = Labels.from_pairs(np.arange(9), np.arange(9) % 3)
    prepared, asked = model.prepare(graph, rows), []

    def cancelled() -> bool:
        asked.append(True)
        return len(asked) > n_asked

    stopped = model.solve(prepared, labels, cancelled=cancelled)
    assert stopped.status is Status.CANCELLED
    assert np.isfinite(stopped.scores).all()
    np.testing.assert_array_equal(
        model.solve(prepared, labels).scores, solved(model, graph, labels, rows).scores
    )
