"""Class mixing: the weight of the edges between classes, how good a cut is, and other cuts.

Two partitions of one graph are compared relative to chance, so that neither one large class nor
many equal ones win by their sizes.
"""

from dataclasses import dataclass

import numpy as np

from peewit.solvers.arrays import BoolArray, Float32Array, FloatArray, Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.laplacian.walks.neighbor_means import NeighborMeans
from peewit.solvers.row_ranges import row_blocks

_GUARDS = 2
_STEPS = 240
_STEPS_APART = 20
_LEAST_NORM = 1e-6

_MORE = 1e-4
_AS_FIT, _FAR_BETTER = 0.975, 0.75
"""A cut that retains walks better must keep this part of the other's agreement, or leave at most
this part of its weight between classes, relative to chance (H4)."""


@dataclass(frozen=True, slots=True, eq=False)
class Mixing:
    """(n_classes, n_classes) weight of the edges between classes, counted twice within a class.

    Its row sums are the volumes of the classes.
    """

    weight: FloatArray

    @classmethod
    def of(cls, graph: Graph, classes: Int64Array, mask: BoolArray, n_classes: int) -> "Mixing":
        """Of a partition of the nodes in ``mask``, which are whole components."""
        adjacency = graph.adjacency
        known = np.where(mask, classes, n_classes)
        sums = np.zeros((n_classes + 1) ** 2)
        for rows in row_blocks(known.size):
            starts = adjacency.indptr[rows.start : rows.stop + 1]
            entries = slice(starts[0], starts[-1])
            own = np.repeat(known[rows], np.diff(starts))
            place = own * (n_classes + 1) + known[adjacency.indices[entries]]
            sums += np.bincount(place, adjacency.data[entries], sums.size)
        return cls(sums.reshape(n_classes + 1, -1)[:n_classes, :n_classes])

    @property
    def assortativity(self) -> float:
        """The weight within classes beyond chance, relative to the most possible (H4); at most 1.

        Newman (2003): (sum_k e_kk - sum_k a_k^2) / (1 - sum_k a_k^2). 0 for a single class.
        """
        total = float(self.weight.sum())
        volumes = self.weight.sum(axis=1)
        by_chance = float((volumes**2).sum()) / total if total else 0.0
        if total - by_chance <= 0:
            return 0.0
        return (float(np.trace(self.weight)) - by_chance) / (total - by_chance)

    @property
    def retention(self) -> float:
        """Sum over classes of the chance that a step stays (H4): n_classes - normalized cut."""
        volumes = self.weight.sum(axis=1)
        stay = np.diagonal(self.weight)
        return float(np.divide(stay, volumes, out=np.zeros(volumes.size), where=volumes > 0).sum())

    def cut_ratio(self, other: "Mixing") -> float:
        """The weight left between classes, relative to chance, over that of another partition."""
        least = float(np.finfo(np.float64).tiny)
        return (1.0 - self.assortativity) / max(1.0 - other.assortativity, least)

    def improves(self, other: "Mixing") -> bool:
        """Whether a cut is better than another, both relative to chance and class by class."""
        return (
            self.assortativity > other.assortativity + _MORE
            and self.retention > other.retention + _MORE
        )

    def beats(self, other: "Mixing", fit: float, other_fit: float) -> bool:
        """Whether this partition replaces one that was found first (H4).

        ``fit`` is the `agreement` of each with the potentials that both began from.
        """
        if self.retention <= other.retention + _MORE:
            return False
        return fit >= _AS_FIT * other_fit or self.cut_ratio(other) <= _FAR_BETTER

    def nearest_pairs(self) -> list[tuple[int, int]]:
        """Pairs of classes, those with the largest part of their volumes between them first."""
        volumes = np.maximum(self.weight.sum(axis=1), np.finfo(np.float64).tiny)
        between = self.weight / volumes[:, None] + self.weight / volumes
        first, second = np.triu_indices(len(volumes), 1)
        order = np.argsort(-between[first, second], kind="stable")
        return [(int(first[at]), int(second[at])) for at in order]


def agreement(potential: FloatArray, classes: Int64Array, weight: FloatArray) -> float:
    """The weighted sum of the potentials of a partition, over the most that any has (H4)."""
    own = potential[np.arange(classes.size), classes]
    most = float(weight @ potential.max(axis=1))
    return float(weight @ own) / most if most > 0 else 1.0


def slow_functions(graph: Graph, walk: NeighborMeans, n_functions: int) -> Float32Array:
    """(n_nodes, n_functions) functions that a walk changes least, without the constant.

    Approximate eigenvectors of the walk to its greatest eigenvalues below 1: lazy steps of random
    functions from a fixed seed.
    """
    n_columns = min(n_functions + _GUARDS, graph.n_nodes - 1)
    drawn = np.random.default_rng(0).standard_normal((graph.n_nodes, n_columns))
    block: Float32Array = drawn.astype(np.float32)
    spare = np.empty_like(block)
    weight = graph.degree / (float(graph.degree.sum()) or 1.0)
    for number in range(_STEPS):
        walk.step(block, spare)
        block = (block + spare) / np.float32(2)
        if (number + 1) % _STEPS_APART == 0:
            block = _orthonormalize(block, weight)
    return block[:, :n_functions]


def _orthonormalize(block: Float32Array, weight: FloatArray) -> Float32Array:
    """Orthonormal columns of mean 0 with the same span, slowest first."""
    exact = np.where(weight[:, None] > 0, block, 0.0)
    exact -= weight @ exact
    values, vectors = np.linalg.eigh((exact * weight[:, None]).T @ exact)
    norms = np.sqrt(np.maximum(values, _LEAST_NORM * values[-1]))
    norms[norms == 0] = 1.0
    return np.asarray((exact @ (vectors / norms))[:, ::-1], dtype=np.float32)
