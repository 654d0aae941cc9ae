"""Slow obvious twins of the graphs of nearest neighbors and of ties to new points."""

import numpy as np

from peewit.solvers.arrays import FloatArray


def ties(distances: FloatArray, n_neighbors: int) -> FloatArray:
    """(n,) weights of one point to others, 0 beyond its nearest; no two distances are equal or
    equal ones are 0."""
    nearest = np.argsort(distances, kind="stable")[:n_neighbors]
    farthest = distances[nearest[-1]]
    weight = np.zeros(distances.size)
    for node in nearest:
        weight[node] = 1.0 if farthest == 0 else np.exp(-4 * (distances[node] / farthest) ** 2)
    return weight


def self_tuned_adjacency(points: FloatArray, n_neighbors: int) -> FloatArray:
    """(W + W^T) / 2 with a row of ties to others for each point."""
    n_points = len(points)
    weight = np.zeros((n_points, n_points))
    for node in range(n_points):
        distances = np.linalg.norm(points - points[node], axis=1)
        distances[node] = np.inf
        weight[node] = ties(distances, n_neighbors)
    return (weight + weight.T) / 2


def neighbor_adjacency(
    points: FloatArray,
    n_neighbors: int,
    *,
    weights: str = "self-tuned",
    symmetrize: str = "mean",
    width: float | None = None,
) -> FloatArray:
    """W from the n x n distances, made symmetric by (W + W^T) / 2 or the larger of W and W^T."""
    n_points = len(points)
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    listed = np.zeros((n_points, n_points), dtype=bool)
    farthest = np.zeros(n_points)
    for node in range(n_points):
        others = [other for other in range(n_points) if other != node]
        nearest = sorted(others, key=lambda other: (distances[node, other], other))[:n_neighbors]
        listed[node, nearest] = True
        farthest[node] = distances[node, nearest[-1]]
    if weights == "self-tuned":
        scale = np.where(farthest > 0, farthest, 1.0)
        tie = np.exp(-4 * (distances / scale[:, None]) ** 2)
    elif weights == "heat":
        joined = np.triu(listed | listed.T) & (distances > 0)
        width = (distances[joined].mean() if joined.any() else 1.0) if width is None else width
        tie = np.exp(-(distances**2) / (2 * width**2))
    else:
        tie = np.ones_like(distances)
    weight = np.where(listed, np.maximum(tie, np.finfo(np.float32).tiny), 0)
    return (weight + weight.T) / 2 if symmetrize == "mean" else np.maximum(weight, weight.T)


def harmonic_extension(
    points: FloatArray, new: FloatArray, values: FloatArray, n_neighbors: int
) -> FloatArray:
    """Mean of the values of each new point's nearest ``points``, weighted by its ties to them."""
    rows = []
    for point in new:
        weight = ties(np.linalg.norm(points - point, axis=1), n_neighbors)
        rows.append(weight @ values / weight.sum())
    return np.array(rows)
