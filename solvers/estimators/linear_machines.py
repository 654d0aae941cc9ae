"""Linear machines of large sparse features behind scikit-learn's interface."""

from collections.abc import Mapping
from typing import Any, Literal

from sklearn.utils.metaestimators import available_if

from peewit.solvers.arrays import FloatArray
from peewit.solvers.estimators.inductive_base import InductiveClassifier, PenalizedClassifier
from peewit.solvers.graph import Graph
from peewit.solvers.laplacian.iterated_laplacian import LaplacianName
from peewit.solvers.models import linear_svm, transductive_svms

Shares = Mapping[str | int, float]


def _tells_probabilities(estimator: "LinearClassifier") -> bool:
    return estimator.scores == "probability"


def _tells_decisions(estimator: "LinearClassifier") -> bool:
    return not _tells_probabilities(estimator)


class LinearClassifier(PenalizedClassifier):
    """Base of the linear machines.

    With ``scores='probability'`` there is `predict_proba` and no `decision_function`, and
    ``decision_`` holds probabilities.
    """

    norm_penalty: float | Literal["auto"] = "auto"
    row_length: Literal["unit", "given"] = "unit"
    constant: float = 1.0
    class_costs: Literal["equal", "balanced"] | Shares = "equal"
    graph_penalty: float = 0.0
    laplacian: LaplacianName = "normalized"
    power: int = 1
    scores: Literal["decision", "probability"] = "decision"

    @available_if(_tells_decisions)  # type: ignore[untyped-decorator]  # ships no types
    def decision_function(self, X: Any) -> FloatArray | list[FloatArray]:
        """Class scores of new samples; see `InductiveClassifier.decision_function`."""
        return InductiveClassifier.decision_function(self, X)

    @available_if(_tells_probabilities)  # type: ignore[untyped-decorator]  # the same
    def predict_proba(self, X: Any) -> FloatArray | list[FloatArray]:
        """(n_samples, n_classes) probabilities of new samples; a list of them for columns."""
        columns = self._by_column("predict_proba", X)
        return self._new_scores(X) if columns is None else columns

    def _graph(self, X: Any, graph: Any) -> Graph:
        """The graph given or made, where the graph counts."""
        if self.graph_penalty == 0.0:
            return InductiveClassifier._graph(self, X, graph)
        return PenalizedClassifier._graph(self, X, graph)


class LinearSVM(LinearClassifier):
    """Linear support vector machine of the labeled samples (section F.1).

    `models.linear_svm.LinearSVM` as an estimator.
    """

    _model = linear_svm.LinearSVM


class TransductiveClassifier(LinearClassifier):
    """Base of the linear machines whose margin keeps clear of the unlabeled samples, too."""

    unlabeled_weight: float = 1.0
    class_balance: Literal["labels"] | Shares = "labels"


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

    first_temperature: float = 10.0
    cooling: float = 1.5
    divergence_tol: float = 1e-6
    entropy_tol: float = 1e-6
    max_iter: int = 30
