"""Linear machines whose margin also keeps clear of the unlabeled nodes."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

import numpy as np

from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.labels import Labels, class_scores
from peewit.solvers.linear.annealing import Schedule, anneal
from peewit.solvers.linear.finite_newton import LinearPoint
from peewit.solvers.linear.switching import SwitchRule, switch_labels
from peewit.solvers.linear.transductive_problem import Transduced, Transduction, whole_sizes
from peewit.solvers.models.classes.class_balance import ClassShares, read_class_shares
from peewit.solvers.models.contract.point_model import Points
from peewit.solvers.models.linear.linear_fit import Fit
from peewit.solvers.models.linear.linear_machine import LinearMachine
from peewit.solvers.status import Status, first_failure

_FEW_LABELS: Final = 20
_LARGE_ERROR: Final = 0.1
_LEAST_SHARE: Final = 1e-9
_CLASS_BYTES: Final = 64
"""Of a row in each class where classes are searched together: outputs, costs and beliefs."""

MultiClass: TypeAlias = Literal["one-against-rest", "one-of-k"]
"""How several classes are searched: each by itself, or all together (F9)."""

_MULTI_CLASS: Final = Rule(
    doc=(
        "Whether each of several classes is searched against the rest, or all together, so "
        "that an unlabeled node has exactly one."
    ),
    kind=str,
    words=("one-against-rest", "one-of-k"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransductiveMachine(LinearMachine):
    """A linear machine whose margin also keeps clear of the unlabeled nodes (F4).

    The share of the nodes that each class gets is fixed beforehand. It decides much, and must come
    from elsewhere than the labels if these were drawn by class.
    """

    unlabeled_weight: float = hyperparameter(
        1.0,
        Rule(
            doc="Weight of the mean loss of the unlabeled nodes against that of the labels; 0 "
            "leaves them out.",
            minimum=0.0,
            below=1e6,
        ),
    )
    class_balance: ClassShares = hyperparameter(
        "labels",
        Rule(
            doc="Share of the unlabeled nodes that each class gets: as among the labels, or "
            'known, such as {"spam": 2, "ham": 1}.',
            kind=str,
            words=("labels",),
            takes_shares=True,
        ),
    )
    multi_class: MultiClass = hyperparameter("one-against-rest", _MULTI_CLASS)

    def node_bytes(self, n_nodes: int, n_classes: int) -> int:  # noqa: ARG002
        """What a search of all classes together holds."""
        return _CLASS_BYTES * n_classes if self.multi_class == "one-of-k" else 0

    @abstractmethod
    def _search(
        self,
        tasks: Sequence[Transduction],
        fit: Fit,
        columns: Sequence[int],
        weights: Sequence[float],
        phase: str,
    ) -> list[list[Transduced]]:
        """For each unlabeled weight, increasing, a function of each task.

        One task is a class against the rest, several are one of K; ``columns`` are their places
        among the targets.
        """

    def left_out_scores(
        self,
        prepared: Points,
        labels: Labels,
        fold: Int64Array,
        weights: Sequence[float],
        watch: Watch,
    ) -> tuple[list[FloatArray], Status]:
        """Class scores of every label from the other folds, for each unlabeled weight.

        And the first status that is not converged, or converged. Arguments are those of
        `LaplacianMachine.left_out_scores`; ``weights`` are unlabeled weights > 0, increasing, which
        switching goes through all at once.
        """
        table = self._table(prepared, self._points(prepared, watch).rows)
        status = Status.CONVERGED
        scores = [np.zeros((labels.n_labeled, labels.n_classes)) for _ in weights]
        for number in range(int(fold.max(initial=-1)) + 1):
            others, left_out = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
            fit = self._fit(table, labels.subset(others), watch)
            for place, runs in enumerate(self._search_all(fit, weights)):
                status = first_failure(status, *(run.status for run in runs))
                outputs = [run.point.outputs[labels.nodes[left_out]] for run in runs]
                scores[place][left_out] = class_scores(np.column_stack(outputs))
        return scores, status

    def _weights(self, fit: Fit) -> FloatArray:
        if self.unlabeled_weight == 0.0 or fit.labels.n_labeled == fit.table.rows.n_rows:
            return self._supervised_weights(fit)
        self._warn(fit)
        fit.start = None  # the answer depends on where a search begins
        (runs,) = self._search_all(fit, [self.unlabeled_weight])
        for run in runs:
            fit.end(run.status, run.objective)
        return np.column_stack([run.point.weights for run in runs])

    def _search_all(self, fit: Fit, weights: Sequence[float]) -> list[list[Transduced]]:
        """For each unlabeled weight all functions."""
        n_functions = fit.targets.shape[1]
        is_joint = n_functions > 1 and self.multi_class == "one-of-k"
        shares = self._shares(fit.labels)
        own = shares[1:] if n_functions == 1 else shares
        if is_joint:
            n_unlabeled = fit.table.rows.n_rows - fit.labels.n_labeled
            own = whole_sizes(shares, n_unlabeled) / n_unlabeled
        tasks = [
            Transduction(
                problem=self._problem(fit, fit.table.rows, is_whole=True),
                nodes=fit.labels.nodes,
                targets=fit.targets[:, column],
                costs=fit.costs,
                positive_share=float(own[column]),
                unlabeled_weight=self.unlabeled_weight,
                figures=fit.figures,
            )
            for column in range(n_functions)
        ]
        if is_joint or n_functions == 1:
            return self._search(tasks, fit, range(n_functions), weights, "searching")
        runs: list[list[Transduced]] = [[] for _ in weights]
        for column, task in enumerate(tasks):
            phase = f"searching, class {column + 1} of {n_functions}"
            found = self._search([task], fit, [column], weights, phase)
            for place, one in enumerate(found):
                runs[place] += one
        return runs

    def _require(self, labels: Labels) -> None:
        LinearMachine._require(self, labels)
        self._shares(labels)

    def _shares(self, labels: Labels) -> FloatArray:
        """(n_classes,) share of the unlabeled nodes of each class, in (0, 1)."""
        if self.class_balance == "labels":
            counts = np.bincount(labels.classes, minlength=labels.n_classes)
            return np.asarray((counts + 1.0) / (labels.n_labeled + labels.n_classes))
        requested = read_class_shares("class_balance", self.class_balance, labels)
        shares = labels.class_prior() if requested is None else requested
        return np.clip(shares, _LEAST_SHARE, 1.0 - _LEAST_SHARE)

    def _warn(self, fit: Fit) -> None:
        """Warn if the labels tell little of the classes' shares."""
        if self.class_balance != "labels":
            return
        n_labeled, shares = fit.labels.n_labeled, self._shares(fit.labels)
        error = float(np.sqrt(shares * (1.0 - shares) / n_labeled).max())
        if n_labeled >= _FEW_LABELS and error <= _LARGE_ERROR:
            return
        fit.warnings.append(
            f"the share of each class is taken from {n_labeled} labels, to within {error:.2f} or "
            "so; give class_balance where it is known, or label more nodes"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TSVM(TransductiveMachine):
    """Transductive support vector machine by multiple switching (section F.2).

    Sindhwani and Keerthi (2006), section 3.1: the machine of the labels ranks the unlabeled nodes,
    which gives them labels. Then pairs of labels change places as long as that lowers the
    objective, while the weight of the unlabeled nodes grows.
    """

    max_pairs: int | Literal["all"] = hyperparameter(
        "all",
        Rule(
            doc="Pairs of labels that change places at once, S: 1 as Joachims has it.",
            kind=int,
            minimum=1,
            words=("all",),
        ),
    )
    first_weight: float = hyperparameter(
        1e-2,
        Rule(
            doc="Unlabeled weight to begin with; it grows by half until it is unlabeled_weight.",
            minimum=1e-12,
        ),
    )
    max_iter: int = hyperparameter(
        100_000, Rule(doc="Most trainings of each class.", kind=int, minimum=1)
    )

    def _search(
        self,
        tasks: Sequence[Transduction],
        fit: Fit,
        columns: Sequence[int],
        weights: Sequence[float],
        phase: str,
    ) -> list[list[Transduced]]:
        supervised = [self._train_supervised(fit, column)[0] for column in columns]
        rule = SwitchRule(
            max_pairs=None if self.max_pairs == "all" else self.max_pairs,
            first_weight=self.first_weight,
            max_trainings=self.max_iter,
        )
        starts = [LinearPoint.at(fit.table.rows, point.weights) for point in supervised]
        return switch_labels(tasks, starts, weights, rule, phase=phase, watch=fit.watch)


@dataclass(frozen=True, slots=True, kw_only=True)
class DASVM(TransductiveMachine):
    """Transductive support vector machine by deterministic annealing (section F.3).

    Sindhwani and Keerthi (2006), section 3.2: each unlabeled node has both labels, with beliefs
    whose entropy counts less and less. Of the weights at the end of each step, those with the
    smallest objective are kept. Several classes are annealed together (F10).
    """

    multi_class: MultiClass = hyperparameter("one-of-k", _MULTI_CLASS)

    first_temperature: float = hyperparameter(
        10.0,
        Rule(doc="Temperature to begin with, in units of unlabeled_weight.", above=0.0, below=1e9),
    )
    cooling: float = hyperparameter(
        1.5, Rule(doc="What the temperature is divided by at each step.", above=1.0)
    )
    divergence_tol: float = hyperparameter(
        1e-6,
        Rule(doc="Mean divergence of the beliefs between trainings that ends a step.", above=0.0),
    )
    entropy_tol: float = hyperparameter(
        1e-6, Rule(doc="Mean entropy of the beliefs that ends the annealing.", above=0.0)
    )
    max_iter: int = hyperparameter(
        30, Rule(doc="Most steps of the temperature.", kind=int, minimum=1)
    )

    def _search(
        self,
        tasks: Sequence[Transduction],
        fit: Fit,
        columns: Sequence[int],  # noqa: ARG002 - what the tasks are made of
        weights: Sequence[float],
        phase: str,
    ) -> list[list[Transduced]]:
        schedule = Schedule(
            first=self.first_temperature,
            cooling=self.cooling,
            divergence_tol=self.divergence_tol,
            entropy_tol=self.entropy_tol,
            max_steps=self.max_iter,
        )
        start = LinearPoint.origin(fit.table.rows)
        return [
            anneal(
                [replace(task, unlabeled_weight=weight) for task in tasks],
                start,
                schedule,
                phase=phase,
                watch=fit.watch,
            )
            for weight in weights
        ]
