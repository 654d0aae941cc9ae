"""Reasons: which labels speak for the classes of one node, and on which way they are reached.

Walks from the node stop with probability a at each step. How often they stop at labels of a class,
per walk from anywhere that does, is the density of the class (K6). It is linear in the labels, so
each label has an exact part of it (J15). Walks are followed as far as time allows; the densities of
the nodes where the rest have arrived complete the sum for each class. Models that are linear in
their labels can keep what each label adds to their scores (J19), which is then read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray, Int32Array, Int64Array
from peewit.solvers.kernels.local_walks import follow_walks, likeliest_paths
from peewit.solvers.laplacian.walks.walk_rows import WalkRows
from peewit.solvers.models.auto.density_arm import TELEPORT

MOST_EDGES: Final = 1 << 17
"""Most edges for walks, and again for a search of ways: some ten milliseconds each."""

_ENOUGH: Final = 1e-6
"""Share of the walks that may remain unfinished."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reasons:
    """What speaks for the classes of a node.

    ``support`` is the density of each class (without ``densities``, that of the labels found), or
    the sum of the shares of its labels.
    """

    places: Int64Array  # (n_found,) labels found, among those given; those that add most first
    added: FloatArray  # (n_found,) to the support of its class; by walks a lower bound
    support: FloatArray  # (n_classes,)
    whole: FloatArray  # (n_classes,) unit of parts: the support, or the sum of sizes of shares
    followed: float  # share of the walks followed to their end; 1 for shares


def reasons(
    rows: WalkRows,
    node: int,
    nodes: Int64Array,
    classes: Int64Array,
    *,
    n_classes: int,
    densities: Float32Array | None = None,
    most_edges: int = MOST_EDGES,
) -> Reasons:
    """What labels add to the densities of a node (J15).

    Parameters
    ----------
    node : int
        Start of the walks.
    nodes, classes : (n_labeled,) int64
        Labeled nodes, each once, and their classes.
    densities : (n_nodes, n_classes) float32, optional
        Of all nodes, by these labels, as `peewit.solvers.models.auto.auto.Auto` has found them.
    most_edges : int
        Limit on the edges that walks pass.
    """
    stopped, left, visited = _followed(rows, node, TELEPORT, most_edges)
    counts = np.bincount(classes, minlength=n_classes)
    places = np.flatnonzero(stopped[nodes])
    sources = nodes[places]
    density_per_walk = rows.degree.sum() / (rows.degree[sources] * counts[classes[places]])
    added = stopped[sources] * density_per_walk
    density = np.bincount(classes[places], added, n_classes).astype(np.float64)
    if densities is not None:
        waiting = visited[left[visited] > 0.0]
        density = density + left[waiting] @ densities[waiting]
    order = np.argsort(-added, kind="stable")
    return Reasons(
        places=places[order],
        added=added[order],
        support=density,
        whole=density,
        followed=1.0 - float(left[visited].sum()),
    )


def filter_row(
    rows: WalkRows, node: int, teleport: float, *, most_edges: int = MOST_EDGES
) -> tuple[Int64Array, FloatArray]:
    """Nodes, and the entries at them of the row of P (K1) at a node, as far as walks are followed.

    P is symmetric: a walk from i stops at j with the probability P_ij sqrt(d_j / d_i).
    """
    if teleport >= 1.0:
        return np.array([node]), np.ones(1)
    stopped, _, visited = _followed(rows, node, teleport, most_edges)
    nodes = np.sort(visited[stopped[visited] > 0.0]).astype(np.int64)
    return nodes, stopped[nodes] * np.sqrt(rows.degree[node] / rows.degree[nodes])


def _followed(
    rows: WalkRows, node: int, teleport: float, most_edges: int
) -> tuple[FloatArray, FloatArray, Int32Array]:
    """Shares of the walks that stopped at each node and that wait there, and the nodes visited."""
    n_nodes = rows.n_nodes
    stopped, left = np.zeros((2, n_nodes))
    visited: Int32Array = np.empty(n_nodes, np.int32)
    n_visited = follow_walks(
        rows.indptr,
        rows.indices,
        rows.probability,
        node,
        teleport,
        most_edges,
        _ENOUGH,
        stopped,
        left,
        np.zeros(n_nodes, bool),
        visited,
    )
    return stopped, left, visited[:n_visited]


def shared_reasons(shares: Float32Array, classes: Int64Array, *, n_classes: int) -> Reasons:
    """What labels add to the scores of a node (J19).

    ``shares`` are the node's (n_labeled,) row of
    `peewit.solvers.models.harmonic.label_shares.LabelShares`.
    """
    added = shares.astype(np.float64)
    places = np.flatnonzero(added)
    places = places[np.argsort(-added[places], kind="stable")]
    of_class: FloatArray = (classes == np.arange(n_classes)[:, None]).astype(np.float64)
    return Reasons(
        places=places,
        added=added[places],
        support=of_class @ added,
        whole=of_class @ np.abs(added),
        followed=1.0,
    )


def likeliest_ways(
    rows: WalkRows, node: int, targets: Sequence[int], *, most_edges: int = MOST_EDGES
) -> list[list[int] | None]:
    """The likeliest way of walks from a node to each target, both ends included.

    None if the search passed ``most_edges`` edges before it reached the target.
    """
    before: Int32Array = np.empty(rows.n_nodes, np.int32)
    is_settled = np.zeros(rows.n_nodes, bool)
    likeliest_paths(
        rows.indptr,
        rows.indices,
        rows.probability,
        node,
        np.array(targets, np.int64),
        most_edges,
        np.zeros(rows.n_nodes),
        is_settled,
        before,
    )

    def way(target: int) -> list[int] | None:
        if not is_settled[target]:
            return None
        path = [target]
        while path[-1] != node:
            path.append(int(before[path[-1]]))
        return path[::-1]

    return [way(target) for target in targets]
