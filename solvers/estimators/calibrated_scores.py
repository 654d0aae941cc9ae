"""Probabilities of classes from scores that are none, by labels that were left out (J11)."""

from dataclasses import field
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from peewit.solvers.arrays import AnyArray, FloatArray
from peewit.solvers.estimators.classifier import Classifier
from peewit.solvers.estimators.targets import ClassTargets
from peewit.solvers.iteration_loop import Progress
from peewit.solvers.models.classes.score_calibration import Calibration
from peewit.solvers.models.contract.inductive_model import InductiveModel
from peewit.solvers.models.contract.model import Model
from peewit.solvers.solution import Solution


def _has_probabilities(estimator: "CalibratedScores") -> bool:
    if not estimator.probabilities:
        raise AttributeError(
            f"{type(estimator).__name__} gives class scores, which are no probabilities: "
            "probabilities=True makes some of them, by labels that are left out"
        )
    return True


class CalibratedScores(Classifier):
    """A classifier whose scores can be made probabilities.

    With ``probabilities=True`` labels are left out in turn, in five folds or as many as there are,
    and one factor and a number for each class are fitted to what is predicted of them. That takes
    so many solves more. What is predicted is then the likeliest class, as by the service; scores of
    classes that the calibration moves may have another order.

    Attributes
    ----------
    label_distributions_ : (n_nodes, n_classes) float64
        With ``probabilities``: calibrated probabilities, whose rows sum to 1; the class prior at
        nodes that no label reaches.
    """

    probabilities: bool = field(
        default=False,
        metadata={
            "doc": "Whether class scores are made probabilities, by labels that are left out in "
            "turn; gives `predict_proba` and ``label_distributions_``."
        },
    )

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]  # ships no types
    def predict_proba(self, X: Any = None, *, nodes: Any = None) -> FloatArray | list[FloatArray]:
        """(n_samples, n_classes) calibrated probabilities of samples or nodes; see `predict`.

        A list of them where ``y`` had several columns.
        """
        columns = self._by_column("predict_proba", X, nodes=nodes)
        if columns is not None:
            return columns
        places = self._places(X, nodes)
        if places is not None:
            chosen: FloatArray = self.label_distributions_[places]
            return chosen
        if (reason := self._barred()) is not None:
            raise ValueError(f"predict_proba has no probabilities of new samples: {reason}")
        scores, reached = self._scores_of_new(X)
        return self._probabilities(scores, reached)

    def _calibrate(
        self,
        model: Model,
        prepared: Any,
        targets: ClassTargets,
        solution: Solution,
        progress: Progress | None,
    ) -> None:
        """Learn the calibration, where probabilities are asked for."""
        self.__dict__.pop("label_distributions_", None)  # of a fit before
        if not self.probabilities:
            super()._calibrate(model, prepared, targets, solution, progress)
            return
        labels = targets.labels
        left_out = self._leave_out(model, prepared, labels, solution, progress)
        if left_out.scores is None:
            raise AssertionError("class scores are judged as they are given")
        known = left_out.fold >= 0
        self._prior = labels.class_prior()
        self._calibration = Calibration.fitted(left_out.scores[known], labels.classes[known])
        self.label_distributions_ = self._probabilities(solution.scores, solution.reachable)
        likeliest = self.label_distributions_.argmax(axis=1)
        self.transduction_: AnyArray = np.where(
            solution.reachable, targets.classes[likeliest], self.transduction_
        )

    def _decide(self, scores: FloatArray, reached: Any) -> FloatArray:
        """By what classes of new samples are chosen: probabilities, where they have some."""
        is_calibrated = self.probabilities and self._barred() is None
        return self._probabilities(scores, reached) if is_calibrated else scores

    def _barred(self) -> str | None:
        """Why new samples have no probabilities: theirs would be those of other scores."""
        model = self._model
        if not issubclass(model, InductiveModel):
            return None
        return model.barred(self.stats_, is_calibrated=True)

    def _probabilities(self, scores: FloatArray, reached: Any) -> FloatArray:
        calibrated = self._calibration.probabilities(scores)
        return np.where(np.atleast_1d(reached)[:, None], calibrated, self._prior)
