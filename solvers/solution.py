"""Solution of a model: scores of every node, how the solve ended, and the figures behind it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol, Self, TypeAlias

import numpy as np

from peewit.solvers.arrays import BoolArray, Float32Array, FloatArray, Int64Array, RealArray
from peewit.solvers.decision import DecisionRule, decided
from peewit.solvers.notebook_html import shown
from peewit.solvers.status import Status

_SWEEPS: Final = 3
"""Distance from the old nodes up to which new nodes of a grown graph get a start."""


class Functions(Protocol):
    """Functions of features that outlive their training rows."""

    @property
    def n_columns(self) -> int:
        """Numbers in a row of features."""

    def class_scores(self, features: Any) -> FloatArray:
        """(n_points, n_classes) class scores of new points.

        Raises as `peewit.solvers.features.checked_points`.
        """

    def trimmed(self) -> "Functions":
        """The same functions without rows that none of them needs."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decisive:
    """Columns of a linear system in the Laplacian, the largest of which decides a node's class.

    Attributes
    ----------
    values : (n_nodes, n_classes)
        Solutions f of (L + diag(shift)) f = b, each scaled by a number of its class, if any.
    shift : (n_nodes,) float64
        In units of weight.
    is_reached, is_free : (n_nodes,) bool
        Nodes that a label reaches, and those of them whose class is not given.
    name : str
        What the columns are.
    is_held : bool
        Whether the shift holds labels in place; else only differences of f decide.
    hierarchy : Multigrid or None
        Of the graph, if it exists.
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
    """Predictions of labels by the others."""

    places: Int64Array  # (n_used,) of the left-out labels among all
    scores: FloatArray  # (n_used, n_classes) on the scale of the nodes' scores
    reachable: BoolArray  # (n_used,) whether another label reaches the node


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solution:
    """Scores of every node.

    Attributes
    ----------
    scores : (n_nodes, n_classes) float64
        Class scores, columns in the order of ``Labels.class_names``; the largest wins, unless there
        is a ``decision``.
    reachable : (n_nodes,) bool
        Whether the node's component has a labeled node or, for a model with features, whether the
        node has some; other nodes get the class prior.
    stats : Mapping
        Figures worth recording: iterations, residual, chosen parameters.
    functions : Functions or None
        Of an inductive model, for new points.
    warnings : tuple of str
        Doubts about results that were computed as requested, and what to do about them.
    bound : (n_nodes, n_classes) float64 or None
        On the rounding error of each score, where weights lie far apart.
    densities : (n_nodes, n_classes) float32 or None
        How often walks from each node stop at labels of each class (K6), by `auto` on the snapshot.
    decisive : Decisive or None
        The linear system that decided the classes of nodes, if there is one.
    left_out : LeftOut or None
        Predictions of labels that the model left out itself, if it keeps them.
    of_features : Functions or None
        What features say, smoothed along the edges, where that is a part of the scores.
    decision : DecisionRule or None
        By which scores decide, where that is not the largest one; of nodes, labels left out and new
        points alike.
    class_shares : (n_classes,) float64 or None
        Of all nodes, where they were given; scores have them at nodes that no label reaches.
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
    of_features: Functions | None = None
    decision: DecisionRule | None = None
    class_shares: FloatArray | None = None

    def classes(self, rows: slice | Int64Array = slice(None)) -> Int64Array:
        """(n_rows,) classes that the scores of some nodes decide for; of all by default."""
        return decided(self.scores[rows], self.decision)

    def _repr_html_(self) -> str:
        """HTML for a notebook: how the solve ended, its figures, and nodes by class."""
        n_reached = int(np.count_nonzero(self.reachable))
        facts = {
            "nodes": len(self.scores),
            "reached by labels": n_reached,
            "status": self.status.value,
        }
        figures = {name: each for name, each in self.stats.items() if isinstance(each, int | float)}
        columns: dict[str, list[Any]] = {"figure": [*figures], "value": [*figures.values()]}
        sizes = np.bincount(self.classes()[self.reachable], minlength=self.scores.shape[1])
        is_number = len(sizes) == 1
        bars = {} if is_number else {f"class {code}": n for code, n in enumerate(sizes.tolist())}
        bars_of = "nodes by class, of those that labels reach"
        name = type(self).__name__
        return shown(name, facts, columns, len(figures), bars=bars, bars_of=bars_of)


Advice: TypeAlias = Literal[
    "threshold", "label more", "label random", "label apart", "class shares", "other model"
]
"""Remedy for a warning; each interface says how to apply it."""


class Advised(str):
    """A warning with its remedies."""

    __slots__ = ("advice",)
    advice: tuple[Advice, ...]

    def __new__(cls, text: str, *advice: Advice) -> Self:
        """The text, and its remedies in the order in which to try them."""
        made = super().__new__(cls, text)
        made.advice = advice
        return made


def give_shares(
    probabilities: FloatArray, reachable: BoolArray, class_shares: FloatArray | None = None
) -> None:
    """Give nodes that no label reaches the known class shares, in place.

    Of unknown ones they get the mean prediction of the others: the shares among the labels would
    say more of who labels than of these nodes.
    """
    if class_shares is not None:
        probabilities[~reachable] = class_shares
    elif not reachable.all():
        n_classes = probabilities.shape[1]
        reached = probabilities[reachable]
        probabilities[~reachable] = reached.mean(axis=0) if len(reached) else 1.0 / n_classes


def grown(solution: Solution, adjacency: Any) -> Solution:
    """A solution of an older graph, extended to newer nodes by the mean of their neighbors.

    ``solution`` is that of the first nodes of ``adjacency``. New nodes without a path of at most
    three edges to an old one get 0.
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
