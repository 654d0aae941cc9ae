"""Base of the estimators that predict classes: scores, tables, and sets of classes."""

from dataclasses import field, replace
from typing import Any, Final

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score

from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import AnyArray, BoolArray, Float32Array
from peewit.solvers.assessment.conformal import ConformalPValues, groups_of
from peewit.solvers.assessment.cross_validation import CrossValidation, cross_validate
from peewit.solvers.estimators.base import ModelEstimator, plain
from peewit.solvers.estimators.kinds import Kinds
from peewit.solvers.estimators.node_predictions import NodePredictions
from peewit.solvers.estimators.targets import (
    ClassTargets,
    Marker,
    find_markers,
    refuse_nan,
    target_columns,
    without_mask,
    without_nulls,
)
from peewit.solvers.iteration_loop import Progress
from peewit.solvers.labels import Labels
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.left_out.label_sample import DOUBT
from peewit.solvers.solution import Solution

N_FOLDS: Final = 5
"""Parts of the labels, of which each is left out once."""


class Classifier(ClassifierMixin, ModelEstimator):
    """Base of the estimators that predict classes.

    With ``sets=True`` labels are left out in turn, in five folds or as many as there are, which
    takes so many solves more: `predictions` then has sets of classes of any coverage.
    """

    unlabeled: Marker = field(
        default=-1, metadata={"doc": "What marks entries of ``y`` without label."}
    )

    sets: bool = field(
        default=False,
        metadata={
            "doc": "Whether labels are left out in turn, for sets of classes that hold the true "
            "one as often as asked: ``predictions(coverage=0.9)``."
        },
    )

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Part of the labeled entries of ``y`` that `predict` finds.

        Entries that are the marker do not count. Of several columns a row counts where all have a
        label. Raises ValueError where no entry has one.
        """
        truth = target_columns(np.asarray(self._with_nulls(y)))
        markers = find_markers(truth, plain(self.unlabeled))
        known: BoolArray = np.logical_not(markers.reshape(len(markers), -1).any(axis=1))
        if not known.any():
            raise ValueError(f"y must hold a label to score by, got {self.unlabeled!r} alone")
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        predicted = np.asarray(self.predict(X))[known]
        if truth.dtype.kind == "O" or predicted.dtype.kind == "O":
            truth, predicted = truth.astype(object), predicted.astype(object)
            hits = (truth[known] == predicted).reshape(predicted.shape[0], -1).all(axis=1)
            return float(np.average(hits, weights=weights))
        return float(accuracy_score(truth[known], predicted, sample_weight=weights))

    def _with_nulls(self, y: Any) -> Any:
        if self.unlabeled is None:
            return without_nulls(y)
        y = without_mask(y, self.unlabeled)
        refuse_nan(y)
        return y

    def _no_label(self) -> Any:
        return plain(self.unlabeled)

    def _targets_in(self, y: AnyArray) -> ClassTargets:
        weights = getattr(self, "_sample_weight", None)  # while a fit with some runs
        targets = ClassTargets.of_vector(y, plain(self.unlabeled), weights)
        kinds = Kinds.of(self._names)
        if kinds is None:
            return targets
        is_asked = kinds.are(kinds.among(targets.labels.nodes))
        among = None if is_asked.all() else is_asked
        return replace(targets, labels=replace(targets.labels, among=among))

    def _predictions_of(self, nodes: Any) -> NodePredictions:
        probabilities: Any = getattr(self, "label_distributions_", None)
        scores: Any = self.decision_ if probabilities is None else probabilities
        return NodePredictions.of_classes(
            nodes,
            self.classes_,
            scores,
            self.reachable_,
            model=type(self).__name__,
            score="class score" if probabilities is None else "probability",
            rule=getattr(self, "_rule", None),
        )

    def _calibrate(
        self,
        model: Model,
        prepared: Any,
        targets: ClassTargets,
        solution: Solution,
        progress: Progress | None,
    ) -> None:
        """Keep what sets are read from, where they are asked for."""
        self.__dict__.pop("_p_values", None)  # of a fit before
        if self.sets:
            self._leave_out(model, prepared, targets.labels, solution, progress)

    def _leave_out(
        self,
        model: Model,
        prepared: Any,
        labels: Labels,
        solution: Solution,
        progress: Progress | None,
    ) -> CrossValidation:
        """Labels left out in turn; keeps what sets are read from, where they are asked for.

        Raises
        ------
        ValueError
            No label can be left out, as each class has one.
        """
        if labels.n_usable < 2:
            raise ValueError(
                f"{'sets' if self.sets else 'probabilities'}=True needs a class with two labels or "
                f"more, of which one can be left out, got {labels.n_labeled} labels of "
                f"{labels.n_classes} classes; label more nodes"
            )
        values = None
        if self.sets:
            is_random = float(solution.stats.get("sample_p_value", 1.0)) >= DOUBT
            values = ConformalPValues(
                labels=labels,
                n_nodes=len(solution.reachable),
                groups=groups_of(labels, "auto" if is_random else "by-class"),
                score_kind=model.for_validation.score_kind,
            )
        folds = cross_validate(
            model,
            prepared,
            labels,
            n_folds=min(N_FOLDS, labels.n_usable),
            start=solution,
            on_fold=None if values is None else values.add,
            progress=progress,
        )
        if values is not None:
            self._p_values: Float32Array = values.values(solution.reachable)
        return folds

    def _with_sets(self, found: NodePredictions, coverage: float) -> NodePredictions:
        if not self.sets:
            raise BadArgument(
                "coverage", f"needs labels that were left out; fit {type(self).__name__}(sets=True)"
            )
        if not 0.0 < coverage < 1.0:
            raise BadArgument("coverage", f"must lie in (0, 1), got {coverage}")
        return found.with_sets(self.classes_, self._p_values > 1.0 - coverage)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
