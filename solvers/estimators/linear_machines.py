"""Linear machines of large sparse features behind scikit-learn's interface."""

from collections.abc import Mapping
from typing import Any, Literal

from sklearn.utils.metaestimators import available_if

from peewit.solvers.arrays import FloatArray
from peewit.solvers.estimators.inductive import GraphClassifier, InductiveClassifier
from peewit.solvers.estimators.targets import Marker
from peewit.solvers.graph import Graph
from peewit.solvers.models import linear_machine, transductive

Shares = Mapping[str | int, float]


def _tells_probabilities(estimator: "LinearClassifier") -> bool:
    return estimator.scores == "probability"


def _tells_decisions(estimator: "LinearClassifier") -> bool:
    return not _tells_probabilities(estimator)


class LinearClassifier(GraphClassifier):
    """Base of the linear machines.

    With ``scores='probability'`` there is `predict_proba` and no `decision_function`, and
    ``decision_`` holds probabilities.
    """

    graph_penalty: float
    scores: str

    @available_if(_tells_decisions)  # type: ignore[untyped-decorator]  # ships no types
    def decision_function(self, X: Any) -> FloatArray:
        """Class scores of new samples; see `InductiveClassifier.decision_function`."""
        return InductiveClassifier.decision_function(self, X)

    @available_if(_tells_probabilities)  # type: ignore[untyped-decorator]  # the same
    def predict_proba(self, X: Any) -> FloatArray:
        """(n_samples, n_classes) probabilities of new samples."""
        return self._new_scores(X)

    def _graph(self, X: Any, graph: Any) -> Graph:
        """The graph given or made, where the graph counts."""
        if self.graph_penalty == 0.0:
            return InductiveClassifier._graph(self, X, graph)
        return GraphClassifier._graph(self, X, graph)


class LinearSVM(LinearClassifier):
    """Linear support vector machine of the labeled samples (section F.1).

    `models.linear_machine.LinearSVM` as an estimator.

    Parameters
    ----------
    norm_penalty : float or 'auto'
        Weight of the squared norm of the weights against the mean loss; 'auto' chooses it by
        cross-validation of the machine of the labels alone.
    row_length : {'unit', 'given'}
        Whether rows are brought to unit length, dense ones after their mean is subtracted, or
        taken as given.
    constant : float
        Constant feature beside the others; 0 for none.
    class_costs : {'equal', 'balanced'} or mapping of class to number
        What a missed label costs: as much in every class, as much for every class in all, or in
        known proportions.
    graph_penalty : float
        Weight of f' L^power f / n of the scores f at all n samples.
    laplacian : {'normalized', 'combinatorial'}
        Laplacian of the graph penalty.
    power : int
        Times the Laplacian is applied in the penalty.
    scores : {'decision', 'probability'}
        Decision values, or probabilities fitted to those of labels that were left out.
    n_neighbors : int
        Neighbors of each sample in the graph that is made when `fit` is given none and
        ``graph_penalty`` is above 0.
    max_bytes : int
        Memory that rows of features may take.
    unlabeled : int, str or None
        What marks entries of ``y`` without label.
    """

    _model = linear_machine.LinearSVM

    def __init__(
        self,
        *,
        norm_penalty: float | Literal["auto"] = "auto",
        row_length: Literal["unit", "given"] = "unit",
        constant: float = 1.0,
        class_costs: Literal["equal", "balanced"] | Shares = "equal",
        graph_penalty: float = 0.0,
        laplacian: Literal["normalized", "combinatorial"] = "normalized",
        power: int = 1,
        scores: Literal["decision", "probability"] = "decision",
        n_neighbors: int = 10,
        max_bytes: int = 4 << 30,
        unlabeled: Marker = -1,
    ) -> None:
        self.norm_penalty = norm_penalty
        self.row_length = row_length
        self.constant = constant
        self.class_costs = class_costs
        self.graph_penalty = graph_penalty
        self.laplacian = laplacian
        self.power = power
        self.scores = scores
        self.n_neighbors = n_neighbors
        self.max_bytes = max_bytes
        self.unlabeled = unlabeled


class TSVM(LinearClassifier):
    """Transductive support vector machine by multiple switching (section F.2).

    `models.transductive.TSVM` as an estimator.

    Parameters
    ----------
    norm_penalty : float or 'auto'
        Weight of the squared norm of the weights against the mean loss; 'auto' chooses it by
        cross-validation of the machine of the labels alone.
    row_length : {'unit', 'given'}
        Whether rows are brought to unit length, dense ones after their mean is subtracted, or
        taken as given.
    constant : float
        Constant feature beside the others; 0 for none.
    class_costs : {'equal', 'balanced'} or mapping of class to number
        What a missed label costs: as much in every class, as much for every class in all, or in
        known proportions.
    graph_penalty : float
        Weight of f' L^power f / n of the scores f at all n samples.
    laplacian : {'normalized', 'combinatorial'}
        Laplacian of the graph penalty.
    power : int
        Times the Laplacian is applied in the penalty.
    scores : {'decision', 'probability'}
        Decision values, or probabilities fitted to those of labels that were left out.
    unlabeled_weight : float
        Weight of the mean loss of the unlabeled samples against that of the labels.
    class_balance : {'labels'} or mapping of class to number
        Share of the unlabeled samples that each class gets: as among the labels, or known.
    max_pairs : int or 'all'
        Pairs of labels that change places at once.
    first_weight : float
        Unlabeled weight to begin with; it grows by half until it is ``unlabeled_weight``.
    max_iter : int
        Most trainings of each class.
    n_neighbors : int
        Neighbors of each sample in the graph that is made when `fit` is given none and
        ``graph_penalty`` is above 0.
    max_bytes : int
        Memory that rows of features may take.
    unlabeled : int, str or None
        What marks entries of ``y`` without label.
    """

    _model = transductive.TSVM

    def __init__(
        self,
        *,
        norm_penalty: float | Literal["auto"] = "auto",
        row_length: Literal["unit", "given"] = "unit",
        constant: float = 1.0,
        class_costs: Literal["equal", "balanced"] | Shares = "equal",
        graph_penalty: float = 0.0,
        laplacian: Literal["normalized", "combinatorial"] = "normalized",
        power: int = 1,
        scores: Literal["decision", "probability"] = "decision",
        unlabeled_weight: float = 1.0,
        class_balance: Literal["labels"] | Shares = "labels",
        max_pairs: int | Literal["all"] = "all",
        first_weight: float = 1e-2,
        max_iter: int = 100_000,
        n_neighbors: int = 10,
        max_bytes: int = 4 << 30,
        unlabeled: Marker = -1,
    ) -> None:
        self.norm_penalty = norm_penalty
        self.row_length = row_length
        self.constant = constant
        self.class_costs = class_costs
        self.graph_penalty = graph_penalty
        self.laplacian = laplacian
        self.power = power
        self.scores = scores
        self.unlabeled_weight = unlabeled_weight
        self.class_balance = class_balance
        self.max_pairs = max_pairs
        self.first_weight = first_weight
        self.max_iter = max_iter
        self.n_neighbors = n_neighbors
        self.max_bytes = max_bytes
        self.unlabeled = unlabeled


class DASVM(LinearClassifier):
    """Transductive support vector machine by deterministic annealing (section F.3).

    `models.transductive.DASVM` as an estimator.

    Parameters
    ----------
    norm_penalty : float or 'auto'
        Weight of the squared norm of the weights against the mean loss; 'auto' chooses it by
        cross-validation of the machine of the labels alone.
    row_length : {'unit', 'given'}
        Whether rows are brought to unit length, dense ones after their mean is subtracted, or
        taken as given.
    constant : float
        Constant feature beside the others; 0 for none.
    class_costs : {'equal', 'balanced'} or mapping of class to number
        What a missed label costs: as much in every class, as much for every class in all, or in
        known proportions.
    graph_penalty : float
        Weight of f' L^power f / n of the scores f at all n samples.
    laplacian : {'normalized', 'combinatorial'}
        Laplacian of the graph penalty.
    power : int
        Times the Laplacian is applied in the penalty.
    scores : {'decision', 'probability'}
        Decision values, or probabilities fitted to those of labels that were left out.
    unlabeled_weight : float
        Weight of the mean loss of the unlabeled samples against that of the labels.
    class_balance : {'labels'} or mapping of class to number
        Share of the unlabeled samples that each class gets: as among the labels, or known.
    first_temperature : float
        Temperature to begin with, in units of ``unlabeled_weight``.
    cooling : float
        What the temperature is divided by at each step.
    divergence_tol : float
        Mean divergence of the beliefs between trainings that ends a step.
    entropy_tol : float
        Mean entropy of the beliefs that ends the annealing.
    max_iter : int
        Most steps of the temperature.
    n_neighbors : int
        Neighbors of each sample in the graph that is made when `fit` is given none and
        ``graph_penalty`` is above 0.
    max_bytes : int
        Memory that rows of features may take.
    unlabeled : int, str or None
        What marks entries of ``y`` without label.
    """

    _model = transductive.DASVM

    def __init__(
        self,
        *,
        norm_penalty: float | Literal["auto"] = "auto",
        row_length: Literal["unit", "given"] = "unit",
        constant: float = 1.0,
        class_costs: Literal["equal", "balanced"] | Shares = "equal",
        graph_penalty: float = 0.0,
        laplacian: Literal["normalized", "combinatorial"] = "normalized",
        power: int = 1,
        scores: Literal["decision", "probability"] = "decision",
        unlabeled_weight: float = 1.0,
        class_balance: Literal["labels"] | Shares = "labels",
        first_temperature: float = 10.0,
        cooling: float = 1.5,
        divergence_tol: float = 1e-6,
        entropy_tol: float = 1e-6,
        max_iter: int = 30,
        n_neighbors: int = 10,
        max_bytes: int = 4 << 30,
        unlabeled: Marker = -1,
    ) -> None:
        self.norm_penalty = norm_penalty
        self.row_length = row_length
        self.constant = constant
        self.class_costs = class_costs
        self.graph_penalty = graph_penalty
        self.laplacian = laplacian
        self.power = power
        self.scores = scores
        self.unlabeled_weight = unlabeled_weight
        self.class_balance = class_balance
        self.first_temperature = first_temperature
        self.cooling = cooling
        self.divergence_tol = divergence_tol
        self.entropy_tol = entropy_tol
        self.max_iter = max_iter
        self.n_neighbors = n_neighbors
        self.max_bytes = max_bytes
        self.unlabeled = unlabeled
