import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits, make_blobs

from peewit.solvers.neighbors.neighbor_graph import (
    LEAST_WEIGHT,
    TieRule,
    edges_of,
    neighbor_graph,
    with_width,
)
from peewit.solvers.neighbors.neighbor_lists import NeighborLists, nearest, neighbor_lists
from tests.reference.neighbors import neighbor_adjacency, self_tuned_adjacency

RULES = [
    (weights, symmetrize)
    for weights in ("self-tuned", "heat", "binary")
    for symmetrize in ("mean", "max")
]
every_rule = pytest.mark.parametrize(("weights", "symmetrize"), RULES)


def lists_of(rows, k: int, **options) -> NeighborLists:
    blocks = list(neighbor_lists(rows, k, **options))
    return NeighborLists(
        neighbors=np.concatenate([block[1] for block in blocks]),
        distances=np.concatenate([block[2] for block in blocks]),
    )


@every_rule
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), k=st.integers(1, 6))
def test_graph_equals_its_dense_twin_with_ties_and_duplicates(
    weights: str, symmetrize: str, seed: int, k: int
) -> None:
    points = np.random.default_rng(seed).integers(0, 5, (20, 2)).astype(float)
    graph = neighbor_graph(points, k, weights=weights, symmetrize=symmetrize)
    expected = neighbor_adjacency(points, k, weights=weights, symmetrize=symmetrize)
    np.testing.assert_allclose(graph.adjacency.toarray(), expected, rtol=1e-12)


@every_rule
def test_sparse_rows_and_float32_rows_make_the_same_graph(weights: str, symmetrize: str) -> None:
    points = np.random.default_rng(0).integers(0, 4, (150, 6)).astype(float)
    rule = {"weights": weights, "symmetrize": symmetrize}
    expected = neighbor_graph(points, 7, **rule).adjacency
    for rows in (sp.csr_array(points), points.astype(np.float32), np.asfortranarray(points)):
        found = neighbor_graph(rows, 7, **rule).adjacency
        np.testing.assert_array_equal(found.indices, expected.indices)
        np.testing.assert_allclose(found.data, expected.data, rtol=1e-12)


def test_both_twins_of_the_self_tuned_graph_agree() -> None:
    points = make_blobs(40, random_state=1)[0]
    np.testing.assert_allclose(
        neighbor_adjacency(points, 4), self_tuned_adjacency(points, 4), rtol=1e-12
    )


def test_heat_takes_the_width_that_is_given() -> None:
    points = make_blobs(40, random_state=0)[0]
    found = neighbor_graph(points, 3, weights="heat", symmetrize="max", width=0.7)
    expected = neighbor_adjacency(points, 3, weights="heat", symmetrize="max", width=0.7)
    np.testing.assert_allclose(found.adjacency.toarray(), expected, rtol=1e-12)


def test_a_heat_weight_that_underflows_is_the_least_weight() -> None:
    points = np.array([[0.0], [1.0], [1e6]])
    graph = neighbor_graph(points, 1, weights="heat", symmetrize="max", width=1.0)
    assert graph.n_edges == 2
    assert graph.adjacency[1, 2] == LEAST_WEIGHT
    assert np.float32(LEAST_WEIGHT) > 0
    graph = neighbor_graph(points, 1, weights="heat", symmetrize="mean", width=1.0)
    assert graph.adjacency[1, 2] == LEAST_WEIGHT


def test_cosine_looks_at_directions_only() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(60, 4))
    lengths = 10.0 ** rng.uniform(-150, 150, (60, 1))
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    expected = lists_of(unit, 5)
    for rows in (points * lengths, sp.csr_array(points * lengths)):
        found = lists_of(rows, 5, metric="cosine")
        np.testing.assert_array_equal(found.neighbors, expected.neighbors)
        np.testing.assert_allclose(found.distances, expected.distances, rtol=1e-9)


def test_a_row_is_never_its_own_neighbor_and_its_duplicates_are() -> None:
    points = np.concatenate([np.zeros((15, 3)), np.ones((15, 3))])
    lists = lists_of(points, 3)
    assert not (lists.neighbors == np.arange(30)[:, None]).any()
    assert (lists.distances == 0).all()
    assert ((lists.neighbors < 15) == (np.arange(30) < 15)[:, None]).all()
    assert lists.neighbors[4].tolist() == [0, 1, 2]  # of equal distances the smaller id


def test_distances_of_rows_far_from_the_origin_keep_their_digits() -> None:
    offsets = np.arange(50.0)[:, None] ** 2 * 1e-6
    lists = lists_of(1e3 + offsets, 1)
    assert lists.neighbors[1:, 0].tolist() == list(range(49))
    np.testing.assert_allclose(lists.distances[1:, 0], np.diff(offsets[:, 0]), rtol=1e-6)


def test_edges_of_all_places_give_every_edge_once() -> None:
    lists = lists_of(make_blobs(300, random_state=0)[0], 4)
    rule = with_width(TieRule(weights="heat"), lists)
    edges = [edges_of(lists, slice(s, min(s + 37, 300)), rule) for s in range(0, 300, 37)]
    u, v, weight = (
        np.concatenate([getattr(each, name) for each in edges]) for name in ("u", "v", "weight")
    )
    pairs = {(min(pair), max(pair)) for pair in zip(u.tolist(), v.tolist(), strict=True)}
    assert len(pairs) == u.size
    whole = edges_of(lists, slice(0, 300), rule)
    np.testing.assert_array_equal(weight, whole.weight)


def test_lists_that_end_early_tie_to_what_they_have() -> None:
    lists = NeighborLists(
        neighbors=np.array([[1, -1], [0, 2], [1, -1], [-1, -1]]),
        distances=np.array([[1.0, np.inf], [1.0, 2.0], [2.0, np.inf], [np.inf, np.inf]]),
    )
    for weights, _ in RULES:
        edges = edges_of(lists, slice(0, 4), with_width(TieRule(weights=weights), lists))
        assert list(zip(edges.u.tolist(), edges.v.tolist(), strict=True)) == [(0, 1), (1, 2)]
        assert (edges.weight > 0).all()
        if weights == "heat":
            continue
        np.testing.assert_allclose(
            edges.weight[1], 1.0 if weights == "binary" else np.exp(-4), rtol=1e-12
        )


def test_nearest_pads_when_there_are_too_few_points() -> None:
    points = np.array([[0.0], [1.0]])
    ids, distances = nearest(points, points, 3, own=np.array([0, -1]))
    assert ids.tolist() == [[1, -1, -1], [1, 0, -1]]
    assert distances.tolist() == [[1.0, np.inf, np.inf], [0.0, 1.0, np.inf]]


def test_digits_agree_with_the_library_alone() -> None:
    from sklearn.neighbors import NearestNeighbors

    images = load_digits().data
    distances, _ = NearestNeighbors(n_neighbors=10, algorithm="kd_tree").fit(images).kneighbors()
    np.testing.assert_allclose(lists_of(images, 10).distances, distances, rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_neighbors": 0}, "n_neighbors must be at least 1, got 0"),
        ({"n_neighbors": 5}, "n_neighbors must be below the number of samples, got 5"),
        ({"weights": "gauss"}, "weights must be one of self-tuned, heat, binary, got 'gauss'"),
        ({"symmetrize": "and"}, "symmetrize must be one of mean, max, got 'and'"),
        ({"metric": "l1"}, "metric must be one of euclidean, cosine, got 'l1'"),
        ({"width": 1.0}, "width must be left out with self-tuned weights, got 1.0"),
        ({"weights": "heat", "width": 0.0}, "width must be finite and > 0, got 0.0"),
        ({"metric": "cosine"}, "got zeros in row 2"),
    ],
)
def test_wrong_arguments_are_named(options: dict, message: str) -> None:
    points = np.array([[1.0], [2.0], [0.0], [4.0], [5.0]])
    with pytest.raises(ValueError, match=message):
        neighbor_graph(points, **{"n_neighbors": 2, **options})
    if options.get("metric") == "cosine":
        with pytest.raises(ValueError, match=message):
            neighbor_graph(sp.csr_array(points), 2, metric="cosine")


def test_distances_beyond_floats_are_refused() -> None:
    with pytest.raises(ValueError, match="scale them down"):
        neighbor_graph(np.array([[0.0], [1e200], [-1e200]]), 1)
    with pytest.raises(ValueError, match=r"scale them up, got at most 2e-200"):
        neighbor_graph(np.array([[0.0], [1e-200], [2e-200]]), 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("spread", [1.0, 1e-2, 1e-4])
def test_rounding_of_the_first_search_changes_no_list(spread: float, dtype) -> None:
    """Tight clusters far apart: in float32 alone, neighbors within one are a matter of luck."""
    rng = np.random.default_rng(4)
    centers = 100 * rng.standard_normal((20, 12))
    points = centers[np.arange(600) % 20] + spread * rng.standard_normal((600, 12))
    points = points.astype(dtype)
    ids, distances = nearest(points, points, 5, own=np.arange(600))
    exact = points.astype(np.float64)
    apart = np.linalg.norm(exact[:, None] - exact[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    expected = np.lexsort((np.broadcast_to(np.arange(600), apart.shape), apart), axis=-1)[:, :5]
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_allclose(distances, np.take_along_axis(apart, expected, axis=1), rtol=1e-12)
