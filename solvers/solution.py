"""Solution of a model: scores of every node, how the solve ended, and the figures behind it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol, Self, TypeAlias

import numpy as np

from peewit.solvers.arrays import BoolArray, Float32Array, FloatArray, Int64Array, RealArray
from peewit.solvers.status import Status

_SWEEPS: Final = 3
"""How far from the old nodes a grown graph's new ones get a start."""


class Functions(Protocol):
    """Functions of features that outlive the rows they were found on."""

    @property
    def n_columns(self) -> int:
        """Numbers in a row of features."""

    def class_scores(self, features: Any) -> FloatArray:
        """(n_points, n_classes) class scores of new points.

        Raises
        ------
        TypeError, ValueError
            As `peewit.solvers.features.checked_points`.
        """

    def trimmed(self) -> "Functions":
        """The same functions without what none of them needs."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decisive:
    """Columns of a linear system in the Laplacian, the largest of which decides a node's class.

    Attributes
    ----------
    values : (n_nodes, n_classes)
        Solutions f of (L + diag(shift)) f = b, each times a number of its class, if need be.
    shift : (n_nodes,) float64
        In units of weight.
    is_reached, is_free : (n_nodes,) bool
        Nodes that a label reaches, and those of them whose class is not given.
    name : str
        What the columns are.
    is_held : bool
        Whether the shift holds labels where they are; else only differences of f decide.
    hierarchy : Multigrid or None
        Of the graph, where there is one.
    """

    values: RealArray
    shift: FloatArray
    is_reached: BoolArray
    is_free: BoolArray
    name: str
    is_held: bool = False
    hierarchy: Any = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeftOut:
    """What is predicted of labels by the others.

    Attributes
    ----------
    places : (n_used,) int64
        Of the labels that were left out, among all.
    scores : (n_used, n_classes) float64
        As those of nodes.
    reachable : (n_used,) bool
        Whether another label reaches the node.
    """

    places: Int64Array
    scores: FloatArray
    reachable: BoolArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solution:
    """Scores of every node.

    Attributes
    ----------
    scores : (n_nodes, n_classes) float64
        Class scores, columns in the order of ``Labels.class_names``; the largest wins.
    reachable : (n_nodes,) bool
        Whether a labeled node lies in the node's component, or, where the model had features,
        whether the node has some; elsewhere the class prior is given.
    status : Status
        How the linear solves ended.
    stats : Mapping
        Figures worth recording: iterations, residual, chosen parameters.
    functions : Functions or None
        What an inductive model predicts new points with.
    warnings : tuple of str
        What was computed as asked and is hardly what was wanted, and what to do about it.
    bound : (n_nodes, n_classes) float64 or None
        On what rounding may have done to each score, where weights lie far apart.
    densities : (n_nodes, n_classes) float32 or None
        How often walks from each node stop at labels of each class (K6), of `auto` on the snapshot.
    decisive : Decisive or None
        By what the classes of nodes were decided, where that is a linear system.
    left_out : LeftOut or None
        Of labels that the model has left out by itself, where it keeps what it predicts of them.
    """

    scores: FloatArray
    reachable: BoolArray
    status: Status
    stats: Mapping[str, float | int | str] = field(default_factory=dict)
    functions: Functions | None = None
    warnings: tuple[str, ...] = ()
    bound: FloatArray | None = None
    densities: Float32Array | None = None
    decisive: Decisive | None = None
    left_out: LeftOut | None = None


Advice: TypeAlias = Literal["threshold", "label more", "label random", "label apart", "other model"]
"""What is to be done about a warning; each door says how."""


class Advised(str):
    """A warning with what it advises."""

    __slots__ = ("advice",)
    advice: tuple[Advice, ...]

    def __new__(cls, text: str, *advice: Advice) -> Self:
        """The text, and what it advises in the order of what to try."""
        made = super().__new__(cls, text)
        made.advice = advice
        return made


def give_shares(probabilities: FloatArray, reachable: BoolArray) -> None:
    """Give nodes that no label reaches, in place, what classes are predicted to have of the others.

    The shares among the labels would say more of who labels than of these nodes.
    """
    if not reachable.all():
        n_classes = probabilities.shape[1]
        reached = probabilities[reachable]
        probabilities[~reachable] = reached.mean(axis=0) if len(reached) else 1.0 / n_classes


def grown(solution: Solution, adjacency: Any) -> Solution:
    """A solution of an older graph, with their neighbors' mean for the nodes that came since.

    Parameters
    ----------
    solution : Solution
        Of the first nodes.
    adjacency : (n_nodes, n_nodes) sparse matrix
        Of the graph, whose first nodes are those of the solution; new ones that no edge leads to
        within three steps get 0.
    """
    n_old, n_nodes = len(solution.scores), int(adjacency.shape[0])
    n_new = n_nodes - n_old
    if n_new <= 0:
        return solution
    scores = np.pad(solution.scores, ((0, n_new), (0, 0)))
    rows = adjacency[n_old:]
    known = np.zeros(n_nodes)
    known[:n_old] = 1.0
    for _ in range(_SWEEPS):  # the next one reaches the neighbors of new nodes
        weight = rows @ known
        scores[n_old:] = (rows @ scores) / np.where(weight > 0, weight, 1.0)[:, None]
        known[n_old:] = weight > 0
    reachable = np.pad(solution.reachable, (0, n_new))
    return replace(
        solution,
        scores=scores,
        reachable=reachable,
        bound=None,
        densities=None,
        decisive=None,
        left_out=None,
    )
