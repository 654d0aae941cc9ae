"""Label shares: what each label adds to the score of each node, in models that are linear in them.

With its parameters given, such a model answers one-hot labels by a linear map. Solved as if every
label were a class of its own, it gives the columns of that map (J19): the score of a class at a
node is the sum over the labels of the class.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from peewit.solvers.arrays import BoolArray, Float32Array, FloatArray, Int64Array, IntArray
from peewit.solvers.iteration_loop import RunStopped, Watch
from peewit.solvers.labels import Labels
from peewit.solvers.models.contract.graph_model import GraphModel, PreparedGraph
from peewit.solvers.row_ranges import row_blocks
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status, first_failure

_WIDTH: Final = 32
"""Labels whose columns are solved for together."""

_SOLVED_BYTES: Final = 112
"""Memory of a solve per node and column: thirteen vectors in float64, and scores."""


class LinearModel(GraphModel):
    """A model whose scores, before any other reading, are sums over the labels."""

    is_centered: ClassVar[bool] = False
    """Whether labels out of reach score below 0, by the mean of all labels."""

    @abstractmethod
    def as_chosen(self, solution: Solution) -> "LinearModel":
        """The same model with the parameters chosen for ``solution``, and scores read as they are.

        Its scores are linear in one-hot labels of the same nodes.
        """

    @abstractmethod
    def reads_as_they_are(self, solution: Solution) -> bool:
        """Whether the solution's scores are those of `as_chosen`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelShares:
    """What labels add to scores.

    ``largest_miss`` is the largest difference between a sum of shares and its score, relative to
    the largest score; None if the scores of the solution are read in another way.
    """

    shares: Float32Array  # (n_nodes, n_labeled), in the order of the labels
    status: Status  # of their solves
    largest_miss: float | None


def shares_bytes(n_nodes: int, n_labeled: int) -> int:
    """Memory of shares, and of the solves for them."""
    return n_nodes * (4 * n_labeled + _SOLVED_BYTES * min(n_labeled, _WIDTH))


def label_shares(
    model: LinearModel, prepared: PreparedGraph, labels: Labels, solution: Solution, watch: Watch
) -> LabelShares:
    """Shares of all labels in the scores of all nodes (J19); raises `RunStopped`.

    ``solution`` is that of ``labels`` by ``model``. Sums of shares over the labels of a class are
    its scores by ``model.as_chosen``, except where Poisson learning gives a class without label in
    a component a score below all.

    Notes
    -----
    One right-hand side for each label, 32 at a time; columns that the solution kept are reused.
    """
    chosen, component = model.as_chosen(solution), prepared.graph.component
    shares = np.empty((prepared.graph.n_nodes, labels.n_labeled), np.float32)
    status = Status.CONVERGED
    for first in range(0, labels.n_labeled, _WIDTH):
        places = np.arange(first, min(first + _WIDTH, labels.n_labeled))
        answer = chosen.solve_watched(prepared, _one_class_per_label(labels, places), None, watch)
        if answer.status is Status.CANCELLED:
            raise RunStopped
        status = first_failure(status, answer.status)
        elsewhere = -1.0 / labels.n_labeled if model.is_centered else 0.0
        at = component[labels.nodes[places]]
        for rows in row_blocks(len(shares)):
            is_joined: BoolArray = component[rows, None] == at
            columns: FloatArray = np.where(is_joined, answer.scores[rows, : places.size], elsewhere)
            shares[rows, places[0] : places[-1] + 1] = columns
    miss = None
    if model.reads_as_they_are(solution):
        miss = _largest_miss(shares, labels, solution, component)
    return LabelShares(shares=shares, status=status, largest_miss=miss)


def _largest_miss(
    shares: Float32Array, labels: Labels, solution: Solution, component: IntArray
) -> float:
    """Largest distance of sums from scores, of classes with a label in the component."""
    targets = labels.targets().astype(np.float32)
    has_label = np.zeros((int(component.max(initial=-1)) + 1, labels.n_classes), bool)
    has_label[component[labels.nodes], labels.classes] = True
    most, scale = 0.0, 0.0
    for rows in row_blocks(len(shares)):
        scores = np.where(has_label[component[rows]], solution.scores[rows], 0.0)
        away = shares[rows] @ targets - scores
        away[~has_label[component[rows]]] = 0.0
        most = max(most, float(np.abs(away).max(initial=0.0)))
        scale = max(scale, float(np.abs(scores).max(initial=0.0)))
    return most / scale if scale else 0.0


def _one_class_per_label(labels: Labels, places: Int64Array) -> Labels:
    """The labels at ``places`` as classes of their own, in order, and all others as one more."""
    classes = np.full(labels.n_labeled, places.size)
    classes[places] = np.arange(places.size)
    n_classes = places.size + int(places.size < labels.n_labeled)
    return Labels(nodes=labels.nodes, classes=classes, class_names=tuple(range(n_classes)))
