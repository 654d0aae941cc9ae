"""The model contract: prepare a graph once, solve for labels often.

A model is a frozen dataclass of hyperparameters and nothing learned; see
`peewit.solvers.hyperparameters`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final, Literal

import numpy as np

from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import Int64Array
from peewit.solvers.blas_threads import one_blas_thread
from peewit.solvers.graph import Graph
from peewit.solvers.hyperparameters import fields_schema, rule_of
from peewit.solvers.iteration_loop import Cancelled, Progress, Watch
from peewit.solvers.labels import Labels, RealLabels, Targets
from peewit.solvers.row_ranges import Parallel
from peewit.solvers.solution import Solution

ScoreKind = Literal["probability", "class score"]
"""Meaning of class scores: in [0, 1] with sum 1, or only comparable with each other."""

KEPT_BYTES: Final = 1 << 30
"""Default limit on what a preparation keeps for later solves, beside the graph."""


def parameter_schema(model: "type[Model]") -> dict[str, Any]:
    """JSON Schema of a model's hyperparameters, an object without further properties."""
    return fields_schema(fields(model))


@dataclass(frozen=True, slots=True, kw_only=True)
class Model(ABC):
    """What every model does; subclasses are frozen dataclasses whose fields have a `Rule`.

    The constructor raises TypeError or ValueError if a hyperparameter breaks its rule.
    """

    uses_features: ClassVar[bool] = False
    """Whether `prepare` takes node features; other models refuse them.

    Models of features also work on a graph alone; their stats say by ``input`` what they used.
    """

    is_calibrated: ClassVar[bool] = False
    """Whether scores are probabilities that were fitted to labels left out."""

    weighs_labels: ClassVar[bool] = False
    """Whether `solve` uses the weights of labels; other models refuse weights."""

    takes_counts: ClassVar[bool] = False
    """Whether its features may be joined by counts of what nodes send and receive, of another
    size."""

    smooths_by_relation: ClassVar[bool] = False
    """Whether features are smoothed along each of the `Graph.parts`, too."""

    preparation: ClassVar[str] = ""
    """Models with the same nonempty name here can share a preparation."""

    graph_copies: ClassVar[tuple[float, float]] = (5.0, 5.0)
    """Memory of a prepared graph and a few vectors, as a multiple of the graph's own: with Jacobi's
    preconditioner, and with a hierarchy."""

    uses_start: ClassVar[bool] = True
    """Whether a solve that is given an earlier solution begins with it."""

    def __post_init__(self) -> None:
        for parameter in fields(self):
            name, rule = parameter.name, rule_of(parameter)
            given = getattr(self, name)
            value = rule.read(name, given)
            rule.check(name, value)
            if value is not given:
                object.__setattr__(self, name, value)

    @property
    def score_kind(self) -> ScoreKind:
        """How to read the scores of classes."""
        return "class score"

    @property
    def for_validation(self) -> "Model":
        """The model that cross-validation judges: the same one, without what changes no class."""
        return self

    @property
    def shows_start(self) -> bool:
        """Whether an answer may depend on where its solve started, as after an early stop."""
        return False

    def entry_bytes(self, n_classes: int) -> int:
        """Memory of a solve per entry of the adjacency matrix, beside a few vectors."""
        del n_classes
        return 0

    def node_bytes(self, n_nodes: int, n_classes: int) -> int:
        """Memory of a solve per node, beside a few vectors of each class."""
        del n_nodes, n_classes
        return 0

    @abstractmethod
    def prepare(
        self,
        graph: Graph,
        features: Any = None,
        *,
        parallel: Parallel = map,
        kept_bytes: int = KEPT_BYTES,
    ) -> Any:
        """What depends on the graph alone; paid once per snapshot, shared by many solves.

        ``parallel`` runs the parts of products, ``map`` or that of a thread pool, for as long as
        the preparation is in use; results do not depend on it. ``kept_bytes`` limits what is kept
        for later solves, beside the graph and its hierarchy. Raises ValueError if features are
        given to a model that uses none, or do not fit the graph.
        """

    @one_blas_thread
    def solve(
        self,
        prepared: Any,
        labels: Targets,
        *,
        start: Solution | None = None,
        progress: Progress | None = None,
        cancelled: Cancelled | None = None,
    ) -> Solution:
        """Scores of every node.

        ``prepared`` is from `prepare` of a model of the same class. ``start`` is an earlier
        solution for the same nodes and classes; it changes the work, not the answer, and is ignored
        if its shape differs. ``progress`` and ``cancelled`` are those of
        `peewit.solvers.iteration_loop.iterate`; a cancelled solve returns the scores it has, with
        that status.

        Raises TypeError for `RealLabels` unless the model is a `RegressionModel`, and ValueError
        for no labels, one class only, a labeled node outside the graph, or label weights that the
        model would ignore.
        """
        if isinstance(labels, Labels) and labels.weights is not None and not self.weighs_labels:
            raise ValueError(f"{type(self).__name__} weighs no labels, got labels with weights")
        return self.solve_watched(
            prepared, labels, start, Watch(progress=progress, cancelled=cancelled)
        )

    def solve_without(
        self,
        prepared: Any,
        labels: Labels | RealLabels,
        fold: Int64Array,
        number: int,
        *,
        start: Solution | None = None,
        progress: Progress | None = None,
        cancelled: Cancelled | None = None,
    ) -> Solution:
        """As `solve` with the labels outside fold ``number``, as if it had never seen the others.

        ``fold``, (n_labeled,) int64, is the fold of each label, from `deal_folds`.
        """
        return self.solve(
            prepared,
            labels.subset(np.flatnonzero(fold != number)),
            start=start,
            progress=progress,
            cancelled=cancelled,
        )

    def solve_many(
        self,
        prepared: Any,
        columns: Sequence[Targets],
        *,
        progress: Progress | None = None,
        cancelled: Cancelled | None = None,
    ) -> list[Solution]:
        """Solutions of several columns of labels, each as `solve` gives it, in order.

        Columns may differ in labeled nodes and classes. They share ``prepared`` and what earlier
        solves added to it, so a later column costs only what its own labels need anew. Once
        cancelled no further column is begun, and the list is shorter. Raises as `solve` does; the
        error names the column.
        """
        solutions: list[Solution] = []
        for place, labels in enumerate(columns):
            if cancelled is not None and solutions and cancelled():
                break
            with of_column(place):
                solutions.append(
                    self.solve(prepared, labels, progress=progress, cancelled=cancelled)
                )
        return solutions

    @abstractmethod
    def solve_watched(
        self, prepared: Any, labels: Any, start: Solution | None, watch: Watch
    ) -> Solution:
        """`solve` for callers that have a watch already."""

    def work_ahead(self, prepared: Any, *, cancelled: Cancelled) -> bool:  # noqa: ARG002
        """Do a little of what the next solve would have to do; False if nothing is left.

        Called while nobody waits, again and again until it returns False. It changes the work of
        later solves, not their answers; unfinished work is dropped when ``cancelled()`` is true.
        """
        return False

    def bequest(self, prepared: Any) -> Mapping[Any, Any]:  # noqa: ARG002
        """What a preparation of a later graph, with these nodes and more, may begin with.

        It holds nothing of the graph.
        """
        return {}

    def inherit(self, prepared: Any, left: Mapping[Any, Any]) -> None:  # noqa: B027 - most have none
        """Begin with the `bequest` of an earlier preparation; changes no answer."""


class RegressionModel(Model):
    """A model that also predicts numbers, from `RealLabels`, on their scale.

    Scores are then the predicted numbers, (n_nodes, 1); nodes that no label reaches get the mean of
    the labels.
    """


def refuse_features(model: str, features: Any) -> None:
    """Raise ValueError unless ``features`` is None: a graph model would ignore them."""
    if features is not None:
        raise ValueError(
            f"{model} uses no features, got {type(features).__name__}; "
            "pass None, or build edges from the features first"
        )


@contextmanager
def of_column(place: int) -> Iterator[None]:
    """Prefix errors about wrong arguments with the column they are in."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"column {place}: {error}") from error


def check_labels(labels: Targets, graph: Graph) -> None:
    """Raise unless ``labels`` pose a classification problem on ``graph``.

    Raises TypeError for real numbers, and ValueError for no labels, one class only, or a labeled
    node outside the graph.
    """
    known = as_classes(labels)
    if known.n_labeled == 0:
        raise BadArgument("labels", "must hold at least two labeled nodes, got none")
    if known.n_classes == 1:
        raise ValueError(
            f"labels hold one class only ({known.class_names[0]!r}); at least two needed"
        )
    _check_nodes(known, graph)


def check_targets(labels: Targets, graph: Graph) -> None:
    """Raise ValueError unless ``labels`` of either kind pose a problem on ``graph``."""
    if isinstance(labels, Labels):
        check_labels(labels, graph)
        return
    if labels.n_labeled == 0:
        raise BadArgument("labels", "must hold at least one labeled node, got none")
    _check_nodes(labels, graph)


def as_classes(labels: Targets) -> Labels:
    """The labels if they are classes; otherwise raises TypeError."""
    if not isinstance(labels, Labels):
        raise TypeError(
            f"this model predicts classes only, got {type(labels).__name__}; use one that takes "
            "real-valued labels, such as hfs or stable-hfs"
        )
    return labels


def _check_nodes(labels: Targets, graph: Graph) -> None:
    if labels.nodes[-1] >= graph.n_nodes:
        raise ValueError(
            f"labeled nodes must lie in [0, {graph.n_nodes}), got node {labels.nodes[-1]}"
        )
