"""The model contract: prepare a graph once, solve for labels often.

A model is a frozen dataclass of hyperparameters and nothing learned; see
`peewit.solvers.hyperparameters`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
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
"""How to read the scores of classes: in [0, 1] with sum 1, or only comparable with each other."""

KEPT_BYTES: Final = 1 << 30
"""What a preparation may keep for later solves, beside the graph, unless told otherwise."""


def parameter_schema(model: "type[Model]") -> dict[str, Any]:
    """JSON Schema of a model's hyperparameters, an object without further properties."""
    return fields_schema(fields(model))


@dataclass(frozen=True, slots=True, kw_only=True)
class Model(ABC):
    """What every model does; subclasses are frozen dataclasses whose fields have a `Rule`.

    Raises
    ------
    TypeError, ValueError
        From the constructor: a hyperparameter breaks its rule.
    """

    uses_features: ClassVar[bool] = False
    """Whether `prepare` takes node features; models that do not refuse them.

    Those that do also work on a graph alone, and their stats say by ``input`` what they used.
    """

    is_calibrated: ClassVar[bool] = False
    """Whether scores are probabilities that were fitted to labels left out."""

    weighs_labels: ClassVar[bool] = False
    """Whether `solve` heeds the weights of labels; models that do not refuse them."""

    preparation: ClassVar[str] = ""
    """Models with the same name here, not empty, can use each other's preparation."""

    graph_copies: ClassVar[tuple[float, float]] = (5.0, 5.0)
    """Memory that a prepared graph and a few vectors take, as multiples of the graph's own: where
    Jacobi's preconditioner serves, and where a hierarchy is needed."""

    def __post_init__(self) -> None:
        for parameter in fields(self):
            rule_of(parameter).check(parameter.name, getattr(self, parameter.name))

    @property
    def score_kind(self) -> ScoreKind:
        """What the scores of classes are."""
        return "class score"

    @property
    def judged(self) -> "Model":
        """What cross-validation judges: the same model, without what changes no class."""
        return self

    @property
    def shows_start(self) -> bool:
        """Whether an answer may show where its solve started, as after an early stop."""
        return False

    def entry_bytes(self, n_classes: int) -> int:
        """What a solve holds for every entry of the adjacency matrix, beside a few vectors."""
        del n_classes
        return 0

    def node_bytes(self, n_nodes: int, n_classes: int) -> int:
        """What a solve holds for every node of so many, beside a few vectors of each class."""
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

        Parameters
        ----------
        graph : Graph
            What is to be labeled.
        features : array or None
            Rows of features, for models that use them.
        parallel : callable
            Runs the parts of products, ``map`` or that of a thread pool, for as long as what is
            returned is in use; results do not depend on it.
        kept_bytes : int
            What may be kept for later solves, beside the graph and its hierarchy; models that
            keep nothing of the kind need none of it.

        Raises
        ------
        ValueError
            Features are given where they are not used, or do not fit the graph.
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

        Parameters
        ----------
        prepared
            From `prepare` of a model of the same class.
        labels : Labels, or RealLabels of a `RegressionModel`
            At least two classes, all nodes inside the graph.
        start : Solution or None
            An earlier solution for the same nodes and classes to start from; one of another
            shape is ignored. It changes the work, not the answer.
        progress, cancelled
            As in `peewit.solvers.iteration_loop.iterate`. A cancelled solve returns the scores it
            has, with that status.

        Raises
        ------
        TypeError
            Real-valued labels, unless the model is a `RegressionModel`.
        ValueError
            No labels, one class only, a labeled node outside the graph, or weights of labels where
            the model heeds none.
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
        """As `solve` with the labels that are not in a fold, and as if it had not known the others.

        ``fold``, (n_labeled,) int64, is that of each label, as `deal_folds` gives it.
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
        """Scores of every node for several columns of labels, each as `solve` gives them.

        Columns share ``prepared``, and with it what the solves of columns before have added: a
        later one costs only what its own labels need anew.

        Parameters
        ----------
        prepared
            From `prepare` of a model of the same class.
        columns : sequence of Labels or RealLabels
            As of `solve`; they may differ in their labeled nodes and their classes.
        progress, cancelled
            As of `solve`. Once cancelled, no further column is begun.

        Returns
        -------
        list of Solution
            One for each column in order, fewer where cancelled.

        Raises
        ------
        TypeError, ValueError
            As `solve` does; the error names the column by its place.
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
        """`solve` by one who has a watch already."""

    def work_ahead(self, prepared: Any, *, cancelled: Cancelled) -> bool:  # noqa: ARG002
        """Do a little of what the next solve would have to do; False when nothing is left.

        Called while nobody waits, again and again until it returns False. It changes the work of
        later solves, not their answers; what it was at is dropped when ``cancelled()`` is true.
        """
        return False

    def bequest(self, prepared: Any) -> Any:  # noqa: ARG002
        """What the preparation of a later graph with the same nodes and more may begin with.

        It holds nothing of the graph; None where there is nothing.
        """
        return None

    def inherit(self, prepared: Any, bequest: Any) -> None:  # noqa: B027 - most have nothing
        """Begin with the `bequest` of an earlier preparation, or with None; changes no answer."""


class RegressionModel(Model):
    """A model that predicts numbers as well: from `RealLabels`, on their scale.

    Scores are then the numbers predicted, (n_nodes, 1); nodes that no label reaches get the mean of
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
    """Say of wrong arguments in which of several columns they are."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"column {place}: {error}") from error


def check_labels(labels: Targets, graph: Graph) -> None:
    """Refuse ``labels`` that pose no classification problem on ``graph``.

    Raises
    ------
    TypeError
        They are real numbers.
    ValueError
        No labels, one class only, or a labeled node outside the graph.
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
    """The labels, when they are classes; raises TypeError."""
    if not isinstance(labels, Labels):
        raise TypeError(
            f"this model predicts classes only, got {type(labels).__name__}; use one that takes "
            "real-valued labels, such as hfs or stable-hfs"
        )
    return labels


def _check_nodes(labels: Targets, graph: Graph) -> None:
    """Raise ValueError for a labeled node outside the graph."""
    if labels.nodes[-1] >= graph.n_nodes:
        raise ValueError(
            f"labeled nodes must lie in [0, {graph.n_nodes}), got node {labels.nodes[-1]}"
        )
