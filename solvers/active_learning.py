"""Active learning, which nodes to label next: uncertain, informative, or far apart ones.

A node is a point of a resistance embedding (`peewit.solvers.laplacian.effective_resistance`): nodes
that a short, wide path joins lie close together. Three choices among the free nodes:

- `least_margins`: where the model's two best classes are closest.
- `least_variance`: labels that reduce the variance of all others most, one after another
  (V-optimality); a node counts as much as the model is unsure of it.
- `coverage`: middles of k clusters of the less certain half, so that the k differ.

Context: V-optimality and clusters without margins did not beat random labels on images, nor margins
on a social graph. Decision: both weigh nodes by margins. Consequence: each beats random labels on
both (``docs.benchmarks.suggestions``); without predictions all weights are equal.

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
"""Weight of a node that the model is sure of, beside 1 for one between two classes."""

NOISE: Final = 1.0
"""Variance of a label beside that of a node, which is 1 before any label is known."""

_SURE_QUANTILE: Final = 0.9
_UNSURE_SHARE: Final = 0.5
_LEAST_PER_CLUSTER: Final = 10
_POINTS_AT_ONCE: Final = 4096


def preload() -> None:
    """Load what only `coverage` needs, which takes most of a second."""
    _cluster_class()


def unsureness(margin: npt.ArrayLike) -> Float32Array:
    """(n_nodes,) float32 weights: 1 for two equally likely classes, `LEAST_WEIGHT` for a sure one.

    They are linear in ``margin``, winner minus runner-up, down to the largest tenth of the margins.
    """
    margins = np.asarray(margin, dtype=np.float64)
    if margins.size == 0:
        return np.ones(0, np.float32)
    sure = float(np.quantile(margins, _SURE_QUANTILE))
    if sure <= 0.0:
        return np.ones(margins.size, np.float32)
    return np.clip(1.0 - margins / sure, LEAST_WEIGHT, 1.0).astype(np.float32)


def least_margins(margin: npt.ArrayLike, free: BoolArray, n_chosen: int) -> Int64Array:
    """The (n,) nodes of least margin, in its order; of equal ones the first.

    ``margin`` is winner minus runner-up, ``free`` (n_nodes,) marks the candidates; there are
    ``n_chosen``, or all free ones if these are fewer.
    """
    margins = np.asarray(margin)
    rows = np.flatnonzero(free)
    if rows.size > n_chosen:  # the chosen ones and all ties with the last
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
    """The (n,) nodes whose labels leave least variance to the others, in order of choice.

    A Gaussian field with covariance ``x_u'x_v``, each point of length 1, is seen with noise at the
    labeled nodes. The label of v takes ``C_uv^2 / (C_vv + noise)`` from the variance of u, C the
    covariance given the labels so far; the next choice is the v with the largest
    ``w_v sum_u w_u C_uv^2 / (C_vv + noise)``.

    Parameters
    ----------
    points : (n_nodes, n_coordinates) float32
        Of a centered resistance embedding.
    labeled : (n_labeled, n_coordinates) float32
        Points of the nodes that have a label.
    weight : (n_nodes,) float32
        From `unsureness`.
    free, n_chosen
        As in `least_margins`.

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
    """The (n,) nodes in the middle of k clusters of the less certain half of the free nodes.

    The cluster with the most uncertain nodes comes first. ``points`` are those of a centered
    resistance embedding, ``margin`` is winner minus runner-up (all equal before any prediction),
    ``free`` and ``n_chosen`` are as in `least_margins`, and ``seed`` draws the initial clusters.
    """
    margins = np.asarray(margin, dtype=np.float64)
    n_free = int(np.count_nonzero(free))
    n_kept = max(_LEAST_PER_CLUSTER * n_chosen, round(_UNSURE_SHARE * n_free))
    rows = least_margins(margins, free, n_kept) if margins.any() else np.flatnonzero(free)
    if rows.size <= n_chosen:
        return rows.astype(np.int64)
    some = points[rows]
    clusters: Any = _cluster_class()(
        n_chosen, n_init=1, random_state=seed % 2**32, batch_size=_POINTS_AT_ONCE
    ).fit(some)
    distance = np.linalg.norm(some - clusters.cluster_centers_[clusters.labels_], axis=1)
    weight = unsureness(margins)[rows].astype(np.float64)
    return rows[_middles(clusters.labels_, distance, weight, n_chosen)].astype(np.int64)


def _cluster_class() -> Any:
    # Takes a second to import, which callers that only serve predictions should not wait for.
    from sklearn.cluster import MiniBatchKMeans  # noqa: PLC0415 - see above

    return MiniBatchKMeans


def _middles(
    cluster: Any, distance: FloatArray, weight: FloatArray, n_clusters: int
) -> Sequence[int]:
    """The nearest to each center, heaviest cluster first; an empty one gives the next heaviest."""
    mass = np.bincount(cluster, weight, n_clusters)
    order = np.lexsort((distance, cluster))
    is_first = np.r_[True, np.diff(cluster[order]) != 0]
    middles = order[is_first]
    chosen = middles[np.argsort(-mass[cluster[middles]], kind="stable")]
    rest = np.setdiff1d(np.arange(len(cluster)), chosen)
    missing = rest[np.argsort(-weight[rest], kind="stable")][: n_clusters - len(chosen)]
    return [*chosen.tolist(), *missing.tolist()]


def _unit_rows(points: Float32Array) -> Float32Array:
    """Points of length 1, so that each node has the same variance; points at 0 stay."""
    length = np.linalg.norm(points, axis=1, keepdims=True)
    scaled: Float32Array = np.divide(points, length, out=np.zeros_like(points), where=length > 0)
    return scaled


def _square_root(matrix: FloatArray) -> FloatArray:
    """R with R R' the matrix, which is symmetric and positive semidefinite."""
    values, vectors = np.linalg.eigh(matrix)
    root: FloatArray = vectors * np.sqrt(np.maximum(values, 0.0))
    return root
