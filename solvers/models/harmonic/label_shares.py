"""Label shares: what each label adds to the score of each node, of models that are linear in them.

With its parameters given, such a model answers one-hot labels by a linear map. Solved as if every
label were a class of its own it tells the columns of that map (J19): what a class scores at a node
is the sum over the labels of the class.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from peewit.solvers.arrays import BoolArray, Float32Array, FloatArray, Int64Array, IntArray
from peewit.solvers.iteration_loop import Stopped, Watch
from peewit.solvers.labels import Labels
from peewit.solvers.models.contract.graph_model import GraphModel, PreparedGraph
from peewit.solvers.row_ranges import row_blocks
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status, first_failure

_WIDTH: Final = 32
"""Labels whose columns are solved for together."""

_SOLVED_BYTES: Final = 112
"""What a solve holds of a node for each of them: thirteen vectors in float64, and scores."""


class LinearModel(GraphModel):
    """A model whose scores, before they are read in another way, are sums over the labels."""

    is_centred: ClassVar[bool] = False
    """Whether the scores of labels that are nowhere near lie below 0, by the mean of all labels."""

    @abstractmethod
    def as_chosen(self, solution: Solution) -> "LinearModel":
        """The same with what it chose for a solution given, and scores that are read as they are.

        Its scores are linear in one-hot labels of the same nodes.
        """

    @abstractmethod
    def reads_as_they_are(self, solution: Solution) -> bool:
        """Whether the solution's scores are those of `as_chosen`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelShares:
    """What labels add to scores.

    Attributes
    ----------
    shares : (n_nodes, n_labeled) float32
        Columns in the order of the labels.
    status : Status
        How their solves ended.
    largest_miss : float or None
        By how much their sums miss a score at most, in largest scores; None where the scores of the
        solution are read in another way.
    """

    shares: Float32Array
    status: Status
    largest_miss: float | None


def shares_bytes(n_nodes: int, n_labeled: int) -> int:
    """Memory that shares take, and what solves for them."""
    return n_nodes * (4 * n_labeled + _SOLVED_BYTES * min(n_labeled, _WIDTH))


def label_shares(
    model: LinearModel, prepared: PreparedGraph, labels: Labels, solution: Solution, watch: Watch
) -> LabelShares:
    """Shares of all labels in the scores of all nodes (J19).

    Parameters
    ----------
    model : LinearModel
    prepared : PreparedGraph
        From its `prepare`.
    labels : Labels
    solution : Solution
        Of these, by the model.
    watch : Watch

    Returns
    -------
    LabelShares
        Sums of ``shares`` over the labels of a class are its scores by ``model.as_chosen``, but
        where Poisson learning gives a class that has no label in a component a score below all.

    Raises
    ------
    Stopped
        Cancelled.

    Notes
    -----
    One right-hand side for each label, 32 at a time; columns that the solution kept are used again.
    """
    chosen, component = model.as_chosen(solution), prepared.graph.component
    shares = np.empty((prepared.graph.n_nodes, labels.n_labeled), np.float32)
    status = Status.CONVERGED
    for first in range(0, labels.n_labeled, _WIDTH):
        places = np.arange(first, min(first + _WIDTH, labels.n_labeled))
        found = chosen.solve_watched(prepared, _each_by_itself(labels, places), None, watch)
        if found.status is Status.CANCELLED:
            raise Stopped
        status = first_failure(status, found.status)
        elsewhere = -1.0 / labels.n_labeled if model.is_centred else 0.0
        at = component[labels.nodes[places]]
        for rows in row_blocks(len(shares)):
            is_joined: BoolArray = component[rows, None] == at
            columns: FloatArray = np.where(is_joined, found.scores[rows, : places.size], elsewhere)
            shares[rows, places[0] : places[-1] + 1] = columns
    miss = None
    if model.reads_as_they_are(solution):
        miss = _largest_miss(shares, labels, solution, component)
    return LabelShares(shares=shares, status=status, largest_miss=miss)


def _largest_miss(
    shares: Float32Array,
    labels: Labels,
    solution: Solution,
    component: IntArray,
) -> float:
    """Largest distance of sums from scores, of classes with a label in the component."""
    targets = labels.targets().astype(np.float32)
    has_label = np.zeros((int(component.max(initial=-1)) + 1, labels.n_classes), bool)
    has_label[component[labels.nodes], labels.classes] = True
    most, scale = 0.0, 0.0
    for rows in row_blocks(len(shares)):
        told = np.where(has_label[component[rows]], solution.scores[rows], 0.0)
        away = shares[rows] @ targets - told
        away[~has_label[component[rows]]] = 0.0
        most = max(most, float(np.abs(away).max(initial=0.0)))
        scale = max(scale, float(np.abs(told).max(initial=0.0)))
    return most / scale if scale else 0.0


def _each_by_itself(labels: Labels, places: Int64Array) -> Labels:
    """Some labels as classes of their own, in order, and all others as one more."""
    classes = np.full(labels.n_labeled, places.size)
    classes[places] = np.arange(places.size)
    n_classes = places.size + int(places.size < labels.n_labeled)
    return Labels(nodes=labels.nodes, classes=classes, class_names=tuple(range(n_classes)))
