"""Active learning, which nodes to label next: the unsure, those that tell most, or far apart.

A node is a point of a resistance embedding (`peewit.solvers.laplacian.effective_resistance`): nodes
that a short, wide path joins lie close together. Three choices, each of nodes that may be labeled:

- `least_margins`: where the model's two best classes are closest.
- `least_variance`: the node whose label would take most from the variance of all others, one after
  another (V-optimality), every node counting as much as the model is unsure of it.
- `coverage`: of the less sure half, those in the middle of k clusters, so that the k differ.

Context: V-optimality and clusters alone, without margins, did not beat random labels on images, nor
margins on a social graph. Decision: both take margins as weights. Consequence: each beats random
labels on both (``docs.benchmarks.suggestions``), and without predictions all weights are equal.

References
----------
Ji and Han, AISTATS 2012 (V-optimality); Settles, Active Learning (2012), chapters 2 and 5.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from peewit.solvers.arrays import BoolArray, Float32Array, FloatArray, Int64Array

LEAST_WEIGHT: Final = 0.02
"""What a node counts that the model is sure of, beside 1 for one between two classes."""

NOISE: Final = 1.0
"""Variance of a label beside that of a node, which is 1 before any label is known."""

_SURE_QUANTILE: Final = 0.9
_UNSURE_SHARE: Final = 0.5
_LEAST_PER_CLUSTER: Final = 10
_POINTS_AT_ONCE: Final = 4096


def preload() -> None:
    """Load what `coverage` needs and nothing else does, which takes most of a second."""
    _cluster_class()


def unsureness(margin: npt.ArrayLike) -> Float32Array:
    """Weights of nodes: 1 where two classes are equally likely, `LEAST_WEIGHT` where one is sure.

    Linear in the margin, down to the largest tenth of the margins.

    Parameters
    ----------
    margin : (n_nodes,) floats
        Winner minus runner-up, at least 0.

    Returns
    -------
    (n_nodes,) float32
    """
    margins = np.asarray(margin, dtype=np.float64)
    if margins.size == 0:
        return np.ones(0, np.float32)
    sure = float(np.quantile(margins, _SURE_QUANTILE))
    if sure <= 0.0:
        return np.ones(margins.size, np.float32)
    return np.clip(1.0 - margins / sure, LEAST_WEIGHT, 1.0).astype(np.float32)


def least_margins(margin: npt.ArrayLike, free: BoolArray, n_chosen: int) -> Int64Array:
    """The nodes of least margin, in its order; of equal ones the first.

    Parameters
    ----------
    margin : (n_nodes,) floats
        Winner minus runner-up.
    free : (n_nodes,) bool
        Which may be chosen.
    n_chosen : int
        How many, or all that are free if they are fewer.

    Returns
    -------
    (n,) int64
    """
    margins = np.asarray(margin)
    rows = np.flatnonzero(free)
    if rows.size > n_chosen:  # all of the chosen ones and whatever ties with the last
        bound = np.partition(margins[rows], n_chosen - 1)[n_chosen - 1]
        rows = rows[margins[rows] <= bound]
    order = np.argsort(margins[rows], kind="stable")
    return rows[order][:n_chosen].astype(np.int64)


def least_variance(
    points: Float32Array,
    labeled: Float32Array,
    weight: Float32Array,
    free: BoolArray,
    n_chosen: int,
) -> Int64Array:
    """The nodes whose labels leave least variance to the others, chosen one after another.

    A Gaussian field with covariance ``x_u'x_v``, each point of length 1, is seen with noise at
    the labeled nodes. The label of v takes ``C_uv^2 / (C_vv + noise)`` from the variance of u, C
    the covariance given the labels so far; chosen is the v with the largest
    ``w_v sum_u w_u C_uv^2 / (C_vv + noise)``.

    Parameters
    ----------
    points : (n_nodes, n_coordinates) float32
        Of a centred resistance embedding.
    labeled : (n_labeled, n_coordinates) float32
        Points of the nodes that have a label.
    weight : (n_nodes,) float32
        From `unsureness`.
    free, n_chosen
        As in `least_margins`.

    Returns
    -------
    (n,) int64
        In the order of choice.

    Notes
    -----
    The covariance is ``X M X'`` with a matrix M of the number of coordinates, and each choice is an
    update of rank one: O(n_nodes n_coordinates) for each after the first.
    """
    rows = _unit_rows(points)
    known = _unit_rows(labeled).astype(np.float64)
    n_coordinates = rows.shape[1]
    inner = np.linalg.inv(np.eye(n_coordinates) + known.T @ known / NOISE)
    scatter = ((rows * weight[:, None]).T @ rows).astype(np.float64)
    moved = rows @ inner.astype(np.float32)  # X M
    spread = rows @ (inner @ _square_root(scatter)).astype(np.float32)  # X M G^(1/2)
    variance = np.einsum("ij,ij->i", moved, rows)
    left = free.copy()
    chosen: list[int] = []
    for _ in range(min(n_chosen, int(np.count_nonzero(free)))):
        gain = weight * np.einsum("ij,ij->i", spread, spread) / (variance + NOISE)
        gain[~left] = -1.0
        row = int(gain.argmax())
        chosen.append(row)
        left[row] = False
        total = float(variance[row]) + NOISE
        column = rows @ moved[row]  # covariance with the chosen one
        moved -= np.outer(column, moved[row] / total)
        spread -= np.outer(column, spread[row] / total)
        variance -= column**2 / total
        np.maximum(variance, 0.0, out=variance)
    return np.array(chosen, dtype=np.int64)


def coverage(
    points: Float32Array, margin: npt.ArrayLike, free: BoolArray, n_chosen: int, *, seed: int
) -> Int64Array:
    """The nodes in the middle of k clusters of the less sure half of those that are free.

    Parameters
    ----------
    points : (n_nodes, n_coordinates) float32
        Of a centred resistance embedding.
    margin : (n_nodes,) floats
        Winner minus runner-up; all equal where nothing is predicted yet.
    free, n_chosen
        As in `least_margins`.
    seed : int
        Draws where the clusters begin.

    Returns
    -------
    (n,) int64
        That of the cluster with the most unsure nodes first.
    """
    margins = np.asarray(margin, dtype=np.float64)
    n_free = int(np.count_nonzero(free))
    n_kept = max(_LEAST_PER_CLUSTER * n_chosen, round(_UNSURE_SHARE * n_free))
    rows = least_margins(margins, free, n_kept) if margins.any() else np.flatnonzero(free)
    if rows.size <= n_chosen:
        return rows.astype(np.int64)
    some = points[rows]
    found: Any = _cluster_class()(
        n_chosen, n_init=1, random_state=seed % 2**32, batch_size=_POINTS_AT_ONCE
    ).fit(some)
    distance = np.linalg.norm(some - found.cluster_centers_[found.labels_], axis=1)
    weight = unsureness(margins)[rows].astype(np.float64)
    return rows[_middles(found.labels_, distance, weight, n_chosen)].astype(np.int64)


def _cluster_class() -> Any:
    # Takes a second to import, which whoever serves predictions only should not wait for.
    from sklearn.cluster import MiniBatchKMeans  # noqa: PLC0415 - see above

    return MiniBatchKMeans


def _middles(
    cluster: Any, distance: FloatArray, weight: FloatArray, n_clusters: int
) -> Sequence[int]:
    """The nearest to each centre, heaviest cluster first; an empty one gives the next heaviest."""
    mass = np.bincount(cluster, weight, n_clusters)
    order = np.lexsort((distance, cluster))
    is_first = np.r_[True, np.diff(cluster[order]) != 0]
    middles = order[is_first]
    chosen = middles[np.argsort(-mass[cluster[middles]], kind="stable")]
    rest = np.setdiff1d(np.arange(len(cluster)), chosen)
    missing = rest[np.argsort(-weight[rest], kind="stable")][: n_clusters - len(chosen)]
    return [*chosen.tolist(), *missing.tolist()]


def _unit_rows(points: Float32Array) -> Float32Array:
    """Points of length 1, so that each node has the same variance; those at 0 stay."""
    length = np.linalg.norm(points, axis=1, keepdims=True)
    scaled: Float32Array = np.divide(points, length, out=np.zeros_like(points), where=length > 0)
    return scaled


def _square_root(matrix: FloatArray) -> FloatArray:
    """R with R R' the matrix, which is symmetric and not negative."""
    values, vectors = np.linalg.eigh(matrix)
    root: FloatArray = vectors * np.sqrt(np.maximum(values, 0.0))
    return root
