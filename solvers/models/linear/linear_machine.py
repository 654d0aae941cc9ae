"""Base of the linear models of large sparse features: rows, penalties, folds, and the search."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Literal

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.features import FeatureRows, Rows
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.labels import Labels, class_scores, deal_folds, one_against_rest
from peewit.solvers.laplacian.iterated_laplacian import LAPLACIANS, IteratedLaplacian
from peewit.solvers.linear.calibration import fitted_sigmoid, flat_sigmoids
from peewit.solvers.linear.finite_newton import (
    ROUGH_RTOL,
    Hinges,
    LinearPoint,
    LinearProblem,
    minimize,
)
from peewit.solvers.linear.linear_functions import LinearFunctions
from peewit.solvers.linear.row_products import LinearRows, StreamedRows, rows_of
from peewit.solvers.linear.row_scaling import RowScaling
from peewit.solvers.models.classes.class_balance import read_class_shares, unknown_classes
from peewit.solvers.models.contract.embedded_model import EmbeddedModel
from peewit.solvers.models.contract.inductive_model import InductiveModel
from peewit.solvers.models.contract.model import ScoreKind
from peewit.solvers.models.contract.point_model import PointProblem, Points
from peewit.solvers.models.linear.linear_fit import Fit, Table, rows_form
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status

PENALTIES: Final = (3e-2, 1e-2, 3e-3, 1e-3)
"""Norm penalties that 'auto' chooses from, for rows of unit length (section F.4)."""

N_FOLDS: Final = 5
_FEW_LABELS: Final = 100
"""Up to this many labels are left out one by one to choose a norm penalty, more by folds."""

_ROW_VECTORS: Final = 16
_WEIGHT_VECTORS: Final = 16
"""Approximate numbers that a search holds for each row, and for each column."""

_UNCHOSEN: Final = 1e-2
"""Norm penalty where no label can be left out to choose by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearMachine(EmbeddedModel, InductiveModel):
    """A machine whose class scores are linear functions of the features, one for each class.

    Two classes have one function; the scores are it and its negative. The objective is one of means
    (F4): norm_penalty / 2 |w|^2, half the mean loss of the labels, and the graph term
    graph_penalty / (2 n) f' L^power f over the n nodes.
    """

    weighs_labels: ClassVar[bool] = True

    norm_penalty: float | Literal["auto"] = hyperparameter(
        "auto",
        Rule(
            doc=(
                "Weight of the squared norm of the weights against the mean loss. 'auto' "
                "chooses it by cross-validation with the labels alone, the larger of equal "
                "ones."
            ),
            above=0.0,
            words=("auto",),
        ),
    )
    row_length: Literal["unit", "given"] = hyperparameter(
        "unit",
        Rule(
            doc="Whether rows of features are brought to unit length, dense ones after their mean "
            "is subtracted, or taken as given.",
            kind=str,
            words=("unit", "given"),
        ),
    )
    constant: float = hyperparameter(
        1.0,
        Rule(
            doc="Constant feature beside the others, whose weight is the intercept; 0 for none.",
            minimum=0.0,
            below=1e9,
        ),
    )
    class_costs: Literal["equal", "balanced"] | Mapping[str | int, float] = hyperparameter(
        "equal",
        Rule(
            doc="What a missed label costs: as much in every class, as much for every class in "
            'all, or in known proportions, such as {"spam": 1, "ham": 5}.',
            kind=str,
            words=("equal", "balanced"),
            takes_shares=True,
        ),
    )
    graph_penalty: float = hyperparameter(
        0.0, Rule(doc="Weight of f' L^power f / n of the scores f at all n nodes.", minimum=0.0)
    )
    laplacian: Literal["normalized", "combinatorial"] = hyperparameter(
        "normalized", Rule(doc="Laplacian of the graph penalty.", kind=str, words=LAPLACIANS)
    )
    power: int = hyperparameter(
        1, Rule(doc="Times the Laplacian is applied in the penalty.", kind=int, minimum=1)
    )
    scores: Literal["decision", "probability"] = hyperparameter(
        "decision",
        Rule(
            doc=(
                "Decision values, or probabilities fitted to the decision values of labels "
                "left out, which takes five searches more."
            ),
            kind=str,
            words=("decision", "probability"),
        ),
    )

    @property
    def score_kind(self) -> ScoreKind:
        """As ``scores`` requests."""
        return "probability" if self.scores == "probability" else "class score"

    def working_bytes(self, n_rows: int, n_columns: int, row_bytes: int) -> int:
        """Memory of vectors alone: rows are read where they lie; see `PointModel.working_bytes`."""
        del row_bytes
        return 8 * (_ROW_VECTORS * n_rows + _WEIGHT_VECTORS * n_columns)

    @property
    def for_validation(self) -> "LinearMachine":
        """With decision values, which suffice to be judged by."""
        return replace(self, scores="decision")

    @abstractmethod
    def _weights(self, fit: Fit) -> FloatArray:
        """(n_weights, n_functions) the functions; records in ``fit`` how it went."""

    def _solution(self, problem: PointProblem) -> Solution:
        prepared, labels, watch = problem.prepared, problem.labels, problem.watch
        self._require(labels)
        points = self._points(prepared, watch)
        table = self._table(prepared, points.rows)
        n_before = table.rows.passes.count
        fit = self._fit(table, labels, watch)
        fit.start = self._restart(problem.start, table, labels)
        weights = self._weights(fit)
        functions = LinearFunctions(weights=weights, form=table.form)
        if self.scores == "probability":
            functions = functions.with_sigmoid(self._sigmoid(fit))
        scores = functions.scores_of(table.rows.values(weights))
        watch.step("predicting", 1, 1)
        problem.stats.update(
            rows=rows_form(table),
            norm_penalty=fit.norm_penalty,
            objective=fit.objective,
            n_iter=fit.figures.n_newton,
            n_trainings=fit.figures.n_trainings,
            n_switches=fit.figures.n_switches,
            n_passes=table.rows.passes.count - n_before,
        )
        status = fit.status if points.status is Status.CONVERGED else points.status
        unknown = (
            unknown_classes(name, getattr(self, name, None), labels)
            for name in ("class_costs", "class_balance")
        )
        return replace(
            problem.task.solution(scores, status, problem.stats),
            functions=functions,
            warnings=(
                *filter(None, unknown),
                *fit.warnings,
                *_one_class_for_all(scores, labels, fit.norm_penalty),
            ),
        )

    def _require(self, labels: Labels) -> None:
        """Raise ValueError, before any work, if the labels do not suffice."""
        self._costs(labels)
        counts = np.bincount(labels.classes)
        if self.scores == "probability" and counts.min() < 2:
            name = labels.class_names[int(np.argmin(counts))]
            raise ValueError(
                "scores 'probability' needs at least two labels of every class, to leave one out; "
                f"got one of {name!r}"
            )

    def _fit(self, table: Table, labels: Labels, watch: Watch) -> Fit:
        few, costs = table.of_nodes(labels.nodes), self._costs(labels)
        return Fit(
            table=table,
            few=few,
            labels=labels,
            costs=costs,
            norm_penalty=self._choose_penalty(table, few, labels, costs, watch),
            watch=watch,
        )

    def _table(self, prepared: Points, rows: Rows) -> Table:
        key = (self._input_key(prepared), self.row_length, self.constant)
        is_unit = self.row_length == "unit"
        form = prepared.latest(
            "row form",
            key,
            lambda: RowScaling.fitted(rows, is_unit=is_unit, constant=float(self.constant)),
        )
        scale = prepared.latest(
            "row scale",
            key,
            lambda: np.concatenate([form.scale(block) for _, block in rows.blocks()]),
        )
        laplacian = None
        if self.graph_penalty > 0.0:
            laplacian = IteratedLaplacian.of_graph(
                prepared.graph, name=self.laplacian, power=self.power, parallel=prepared.parallel
            )
        fits = rows.n_rows * rows.row_bytes <= prepared.kept_bytes
        if isinstance(rows, FeatureRows) or fits:
            matrix = rows.whole() if prepared.rows is None else prepared.features
            linear: LinearRows = rows_of(matrix, scale, form, prepared.parallel)
        else:
            linear = StreamedRows(source=rows, scale=scale, form=form)
        return Table(features=rows, scale=scale, form=form, rows=linear, laplacian=laplacian)

    def _problem(self, fit: Fit, rows: LinearRows, *, is_whole: bool) -> LinearProblem:
        """On the labeled rows, or on all of them with the graph."""
        laplacian = fit.table.laplacian if is_whole else None
        return LinearProblem(
            rows=rows,
            norm_penalty=fit.norm_penalty,
            graph_penalty=self.graph_penalty / rows.n_rows,
            laplacian=laplacian,
            check=fit.watch.check,
        )

    def _train_supervised(self, fit: Fit, column: int) -> tuple[LinearPoint, float]:
        """One function of the labels and the graph alone, and its objective."""
        is_whole = fit.table.laplacian is not None
        rows = fit.table.rows if is_whole else fit.few
        problem = self._problem(fit, rows, is_whole=is_whole)
        target, costs = fit.targets[:, column], fit.costs
        if is_whole:
            target, costs = np.zeros(rows.n_rows), np.zeros(rows.n_rows)
            target[fit.labels.nodes] = fit.targets[:, column]
            costs[fit.labels.nodes] = fit.costs
        hinges = Hinges.of_targets(target, costs)
        start = LinearPoint.origin(rows)
        if fit.start is not None:
            start = LinearPoint.at(rows, fit.start[:, column])
        point = minimize(problem, hinges, start)
        fit.figures.n_trainings += 1
        fit.figures.n_newton += point.n_newton
        return point, problem.objective(hinges, point.weights, point.outputs)

    def _supervised_weights(self, fit: Fit) -> FloatArray:
        """(n_weights, n_functions) all functions of the labels and the graph alone."""
        weights = np.empty((fit.few.n_weights, fit.targets.shape[1]))
        for column in range(weights.shape[1]):
            point, objective = self._train_supervised(fit, column)
            fit.end(point.status, objective)
            weights[:, column] = point.weights
        return weights

    def _costs(self, labels: Labels) -> FloatArray:
        own = np.ones(labels.n_classes)
        weights = np.ones(labels.n_labeled) if labels.weights is None else labels.weights
        if self.class_costs == "balanced":
            own = 1.0 / np.bincount(labels.classes, weights, labels.n_classes)
        elif self.class_costs != "equal":
            shares = read_class_shares("class_costs", self.class_costs, labels)
            own = own if shares is None else shares
        costs = own[labels.classes] * weights
        return np.asarray(costs / costs.sum())

    def _choose_penalty(
        self, table: Table, few: LinearRows, labels: Labels, costs: FloatArray, watch: Watch
    ) -> float:
        """The norm penalty given, or the largest of those that predict most left-out labels."""
        if self.norm_penalty != "auto":
            return float(self.norm_penalty)
        unit = table.form.length**2
        n_usable = labels.n_usable
        if n_usable < 2:
            return _UNCHOSEN * unit
        n_folds = n_usable if n_usable <= _FEW_LABELS else N_FOLDS
        fold, _ = deal_folds(labels, n_folds, 0)
        targets = one_against_rest(labels)
        values = np.zeros((len(PENALTIES), *targets.shape))
        n_steps = len(PENALTIES) * targets.shape[1]
        for column, target in enumerate(targets.T):
            whole = LinearPoint.origin(few)
            for place, penalty in enumerate(PENALTIES):
                watch.step("choosing norm_penalty", column * len(PENALTIES) + place, n_steps)
                problem = LinearProblem(rows=few, norm_penalty=penalty * unit, check=watch.check)
                whole = minimize(problem, Hinges.of_targets(target, costs), whole, rtol=ROUGH_RTOL)
                for number in range(n_folds):
                    left_out = fold == number
                    fold_costs = np.where(left_out, 0.0, costs)
                    hinges = Hinges.of_targets(target, fold_costs / fold_costs.sum())
                    point = minimize(problem, hinges, whole, rtol=ROUGH_RTOL)
                    values[place, left_out, column] = point.outputs[left_out]
        usable = np.flatnonzero(fold >= 0)
        n_right = [
            np.count_nonzero(class_scores(scores[usable]).argmax(axis=1) == labels.classes[usable])
            for scores in values
        ]
        return PENALTIES[int(np.argmax(n_right))] * unit

    def _sigmoid(self, fit: Fit) -> FloatArray:
        """(2, n_functions) sigmoids from searches without one fold each."""
        labels = fit.labels
        fold, _ = deal_folds(labels, min(N_FOLDS, labels.n_labeled), 0)
        values = np.zeros_like(fit.targets)
        for number in range(int(fold.max()) + 1):
            left_out = np.flatnonzero(fold == number)
            values[left_out] = fit.few.values(self._weights(fit.without(left_out)))[left_out]
        pairs = zip(values.T, fit.targets.T, strict=True)
        fits = (fitted_sigmoid(*pair) for pair in pairs)
        sigmoids = [sigmoid for sigmoid in fits if sigmoid is not None]
        if len(sigmoids) == values.shape[1]:
            return np.array(sigmoids).T
        fit.warnings.append(
            "labels left out are predicted no better than by chance, so probabilities say "
            "little; label more nodes"
        )
        return flat_sigmoids(values)  # classes compare by their decisions alone

    def _restart(self, start: Solution | None, table: Table, labels: Labels) -> FloatArray | None:
        """Weights of an earlier solution in these rows; None if it does not fit."""
        functions = None if start is None else start.functions
        n_functions = one_against_rest(labels).shape[1]
        shape = (table.rows.n_weights, n_functions)
        if not isinstance(functions, LinearFunctions) or functions.weights.shape != shape:
            return None
        return functions.weights


def _one_class_for_all(scores: FloatArray, labels: Labels, norm_penalty: float) -> Iterator[str]:
    """A warning if the constant feature alone decides."""
    winners = scores.argmax(axis=1)
    if winners.size > labels.n_labeled and (winners == winners[0]).all():
        name = labels.class_names[int(winners[0])]
        yield (
            f"every node gets the class {name!r}: lower norm_penalty, {norm_penalty:g} here, or "
            "look at what the rows, class_costs or class_balance hold"
        )
