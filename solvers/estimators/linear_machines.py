"""Linear machines of large sparse features behind scikit-learn's interface."""

from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from peewit.solvers.arrays import AnyArray, FloatArray
from peewit.solvers.estimators.documentation import with_arguments_of
from peewit.solvers.estimators.inductive_base import InductiveClassifier, PenalizedClassifier
from peewit.solvers.estimators.targets import ClassTargets
from peewit.solvers.features import FeatureRows
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Progress
from peewit.solvers.laplacian.iterated_laplacian import LaplacianName
from peewit.solvers.models.linear import linear_svm, transductive_svms
from peewit.solvers.solution import Solution

Shares = Mapping[str | int, float]


def _tells_probabilities(estimator: "LinearClassifier") -> bool:
    return estimator.scores == "probability"


def _tells_decisions(estimator: "LinearClassifier") -> bool:
    return not _tells_probabilities(estimator)


def _checked_weights(sample_weight: Any, n_samples: int) -> FloatArray:
    """Weights of samples as numbers; raises ValueError."""
    weights = np.asarray(sample_weight, np.float64)
    if weights.shape != (n_samples,):
        raise ValueError(f"sample_weight must have shape ({n_samples},), got {weights.shape}")
    if not (np.isfinite(weights) & (weights >= 0.0)).all():
        raise ValueError("sample_weight must be finite and >= 0")
    if not weights.any():
        raise ValueError("sample_weight must not be zero for every sample: no label would count")
    return weights


class LinearClassifier(PenalizedClassifier):
    """Base of the linear machines.

    With ``scores='probability'`` there is `predict_proba` and no `decision_function`, and
    ``decision_``, then ``label_distributions_`` as well, holds probabilities.
    """

    norm_penalty: float | Literal["auto"] = "auto"
    row_length: Literal["unit", "given"] = "unit"
    constant: float = 1.0
    class_costs: Literal["equal", "balanced"] | Shares = "equal"
    graph_penalty: float = 0.0
    laplacian: LaplacianName = "normalized"
    power: int = 1
    scores: Literal["decision", "probability"] = "decision"

    @with_arguments_of(InductiveClassifier.fit, "X", "y", "graph", "progress")
    def fit(
        self,
        X: Any,
        y: Any,
        graph: Any = None,
        sample_weight: Any = None,
        *,
        progress: Progress | None = None,
        **further: Any,
    ) -> Self:
        """Functions that predict any sample, from features of all and labels of some.

        Parameters
        ----------
        sample_weight : (n_samples,) array-like or None
            What a missed label costs, >= 0, beside ``class_costs``. A label of weight 0 does not
            count: its sample is one without label. Weights of others are not read.
        **further
            Refused.

        Raises
        ------
        TypeError, ValueError
            As of other classifiers; weights of another shape, negative or not finite.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning, UserWarning
            As of other classifiers.
        """
        self._refuse(further)
        self._sample_weight = sample_weight
        try:
            return self._fit(X, y, graph, progress)
        finally:
            del self._sample_weight

    def _validate(self, X: Any, *y: Any, **checks: Any) -> Any:
        arrays = super()._validate(X, *y, **checks)
        if getattr(self, "_sample_weight", None) is not None:
            self._sample_weight = _checked_weights(self._sample_weight, arrays[0].shape[0])
        return arrays

    @available_if(_tells_decisions)  # type: ignore[untyped-decorator]  # ships no types
    def decision_function(
        self, X: Any = None, *, nodes: Any = None
    ) -> FloatArray | list[FloatArray]:
        """Class scores of samples; see `InductiveClassifier.decision_function`."""
        return InductiveClassifier.decision_function(self, X, nodes=nodes)

    @available_if(_tells_probabilities)  # type: ignore[untyped-decorator]  # the same
    def predict_proba(self, X: Any = None, *, nodes: Any = None) -> FloatArray | list[FloatArray]:
        """(n_samples, n_classes) probabilities of samples; a list of them for columns.

        Fitted to decision values of labels left out, by a sigmoid for each class.
        """
        columns = self._by_column("predict_proba", X, nodes=nodes)
        if columns is not None:
            return columns
        places = self._places(X, nodes)
        if places is None:
            return self._new_scores(X)
        chosen: FloatArray = self.label_distributions_[places]
        return chosen

    def _learn(self, prepared: Any, targets: ClassTargets, solution: Solution) -> None:
        super()._learn(prepared, targets, solution)
        self.__dict__.pop("label_distributions_", None)  # of a fit before
        if _tells_probabilities(self):
            self.label_distributions_ = self.decision_

    def _of_nodes(self, X: Any, y: Any, places: AnyArray) -> tuple[FeatureRows, AnyArray]:
        made = super()._of_nodes(X, y, places)
        if getattr(self, "_sample_weight", None) is not None:
            weights = np.ones(len(self._names))
            weights[places] = self._sample_weight
            self._sample_weight = weights
        return made

    def _graph(self, X: Any, graph: Any, n_nodes: int) -> Graph:
        """The graph given or made, where the graph counts."""
        if self.graph_penalty == 0.0:
            return InductiveClassifier._graph(self, X, graph, n_nodes)
        return PenalizedClassifier._graph(self, X, graph, n_nodes)


class LinearSVM(LinearClassifier):
    """Linear support vector machine of the labeled samples (section F.1).

    `models.linear_svm.LinearSVM` as an estimator.
    """

    _model = linear_svm.LinearSVM


class TransductiveClassifier(LinearClassifier):
    """Base of the linear machines whose margin keeps clear of the unlabeled samples, too."""

    unlabeled_weight: float = 1.0
    class_balance: Literal["labels"] | Shares = "labels"
    multi_class: transductive_svms.MultiClass = "one-against-rest"


class TSVM(TransductiveClassifier):
    """Transductive support vector machine by multiple switching (section F.2).

    `models.transductive_svms.TSVM` as an estimator.
    """

    _model = transductive_svms.TSVM

    max_pairs: int | Literal["all"] = "all"
    first_weight: float = 1e-2
    max_iter: int = 100_000


class DASVM(TransductiveClassifier):
    """Transductive support vector machine by deterministic annealing (section F.3).

    `models.transductive_svms.DASVM` as an estimator.
    """

    _model = transductive_svms.DASVM

    multi_class: transductive_svms.MultiClass = "one-of-k"
    first_temperature: float = 10.0
    cooling: float = 1.5
    divergence_tol: float = 1e-6
    entropy_tol: float = 1e-6
    max_iter: int = 30
