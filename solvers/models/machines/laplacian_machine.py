"""Base of kernel machines with a graph penalty: the penalty, its inverse, and their solution."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final, Literal, Self

import numpy as np

from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import FloatArray, Int64Array, frozen
from peewit.solvers.features import Rows
from peewit.solvers.gram.feature_spaces import FeatureMap, GramFactor
from peewit.solvers.gram.kernel_functions import KernelFunction
from peewit.solvers.gram.kernel_spaces import DenseGram
from peewit.solvers.gram.memory_plan import GRAMS
from peewit.solvers.gram.space_base import Space
from peewit.solvers.gram.sparse_spaces import LocalMap, SparseGram, near_width
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.labels import Labels, class_scores, deal_folds, one_against_rest
from peewit.solvers.laplacian.iterated_laplacian import LAPLACIANS, IteratedLaplacian
from peewit.solvers.models.contract.kernel_space_model import FACTORED_COLUMNS, FACTORED_ROWS
from peewit.solvers.models.contract.point_model import PointProblem, Points, Stats
from peewit.solvers.models.machines.kernel_machine import KernelMachine, is_factored, started
from peewit.solvers.models.machines.penalty_choice import (
    GRAPH_PENALTIES,
    NORMS,
    Penalties,
    choose_penalties,
)
from peewit.solvers.status import Status
from peewit.solvers.svm.conjugate_gradients import descend
from peewit.solvers.svm.dual import maximize
from peewit.solvers.svm.iterative_inverse import IterativeInverse
from peewit.solvers.svm.labeled_system import (
    DenseInverse,
    FactoredInverse,
    LabeledProblem,
    LabeledSystem,
    NoGraphPenalty,
    PenaltyInverse,
)
from peewit.solvers.svm.newton import minimize
from peewit.solvers.svm.regularized_problem import LossName, Minimum, Problem
from peewit.solvers.svm.stopping import MEASURES, RTOL, STOPS, EarlyStop, MeasureName, Validation

MethodName = Literal["newton", "dual", "pcg"]

_EIGEN_ARRAYS: Final = 8
"""(n_nodes, n_nodes) float64 arrays of a Gram matrix and its eigenproblems together."""


_CHOICE_ROWS: Final = 3_500
"""Most nodes for which a Gram matrix is decomposed into eigenvectors for the choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplacianMachine(KernelMachine):
    """A kernel machine whose functions are also smooth along the graph."""

    method: str
    """How it is solved; each model has its own words."""

    gram: Literal["auto", "dense", "blocked", "landmarks", "sparse"] = hyperparameter(
        "auto",
        Rule(
            doc=(
                "How the Gram matrix is held: in memory, made in blocks at every product, "
                "approximated on landmarks, or sparse. Sparse is a Gaussian between the "
                "nodes that both points have among their n_nearest, or Wendland's kernel "
                "as it is. 'auto' is dense, or on landmarks where that does not fit the "
                "memory; a linear kernel then needs none."
            ),
            kind=str,
            words=("auto", *GRAMS, "sparse"),
        ),
    )
    n_nearest: int = hyperparameter(
        50,
        Rule(
            doc=(
                "How many nodes a sparse Gaussian joins each point to. With a width of "
                "'auto' it ends at the last of them, and Wendland's kernel has about as "
                "many."
            ),
            kind=int,
            minimum=1,
        ),
    )
    norm_penalty: float | Literal["auto"] = hyperparameter(
        "auto",
        Rule(
            doc=(
                "Weight of the squared norm of the functions, gamma_A. 'auto' is 0.01, or, "
                "with a graph_penalty of 'auto', 1e-4 or 1e-6 where that predicts left-out "
                "labels clearly better."
            ),
            above=0.0,
            words=("auto",),
        ),
    )
    graph_penalty: float | Literal["auto"] = hyperparameter(
        "auto",
        Rule(
            doc=(
                "Weight of f' L^power f of the scores f, gamma_I. 'auto' is 1, or the "
                "value of 0.1 to 1,000 that predicts left-out labels clearly better. That "
                "is tried up to 3,500 nodes, and on landmarks and linear kernels."
            ),
            minimum=0.0,
            words=("auto",),
        ),
    )
    laplacian: Literal["normalized", "combinatorial"] = hyperparameter(
        "normalized",
        Rule(
            doc="Laplacian of the penalty. The combinatorial one grows with the degrees to the "
            "power.",
            kind=str,
            words=LAPLACIANS,
        ),
    )
    power: int = hyperparameter(
        2,
        Rule(
            doc="Times the Laplacian is applied in the penalty; 5 for text and for clusters "
            "that a Gaussian fits.",
            kind=int,
            minimum=1,
        ),
    )
    stop: Literal["optimal", "stability", "validation", "mixed"] = hyperparameter(
        "optimal",
        Rule(
            doc=(
                "When pcg ends. It looks every sqrt(n_nodes) / 2 iterations. It ends once "
                "less than 1.5 % of the unlabeled nodes changed class, once no more of the "
                "labels held out are right, or once both hold. 'optimal' ends at the "
                "optimum; all others make pcg the method."
            ),
            kind=str,
            words=STOPS,
        ),
    )
    measure: MeasureName = hyperparameter(
        "gradient",
        Rule(
            doc=(
                "What pcg brings down to rtol of its first value: |K g|, |g| or sqrt(g' K "
                "g) of the gradient g, or the fall of the objective in one iteration."
            ),
            kind=str,
            words=MEASURES,
        ),
    )
    rtol: float | Literal["auto"] = hyperparameter(
        "auto",
        Rule(
            doc="How small the measure has to be; 'auto' is 1e-8, of the objective 1e-6.",
            above=0.0,
            below=1.0,
            words=("auto",),
        ),
    )
    max_iter: int = hyperparameter(1_000, Rule(doc="Most iterations of pcg.", kind=int, minimum=1))
    validation_share: float = hyperparameter(
        0.2,
        Rule(
            doc="Share of the labels held out with stop 'validation' or 'mixed'; they are not "
            "trained on.",
            above=0.0,
            below=1.0,
        ),
    )

    def __post_init__(self) -> None:
        KernelMachine.__post_init__(self)
        if self.gram == "sparse" and self.kernel not in {"gaussian", "wendland"}:
            raise BadArgument(
                "gram",
                f"must not be 'sparse' with kernel={self.kernel!r}, which is 0 nowhere; use "
                "kernel='gaussian' or kernel='wendland'",
            )
        method = self._method_or_auto()
        if method in {"auto", "pcg"}:
            return
        if self.stop != "optimal":
            raise BadArgument(
                "stop",
                f"must be 'optimal' unless pcg is the method, got {self.stop!r} with {method}",
            )
        if self.gram == "blocked":
            raise BadArgument(
                "gram",
                f"must not be 'blocked' with {method}, which factors it; "
                "use gram='dense' or gram='landmarks', or method='pcg'",
            )

    @property
    def shows_start(self) -> bool:
        """True after an early stop."""
        return self.stop != "optimal"

    def _method_or_auto(self) -> str:
        """'auto', or the method that the hyperparameters leave."""
        return "pcg" if self.method == "auto" and self.stop != "optimal" else self.method

    @property
    def _n_nearest(self) -> int:
        return self.n_nearest if self.gram == "sparse" else 0

    def _fitted_kernel(self, rows: Rows) -> KernelFunction:
        kernel = KernelMachine._fitted_kernel(self, rows)
        if self.gram != "sparse" or self.width != "auto":
            return kernel
        return replace(kernel, width=near_width(kernel, rows, self.n_nearest))

    def _is_factored(self, n_rows: int, n_columns: int) -> bool:
        if self.gram == "sparse":
            is_small = self.kernel == "gaussian" and n_rows <= FACTORED_COLUMNS
            return is_small and self._method_or_auto() != "pcg"
        if self._method_or_auto() == "auto":
            return KernelMachine._is_factored(self, n_rows, n_columns)
        return self._method_or_auto() != "pcg"

    def _is_factored_in(self, space: Space) -> bool:
        """Whether the method factors the Gram matrix or the penalty of this space."""
        if self._method_or_auto() == "auto":
            return is_factored(space)
        return self._method_or_auto() != "pcg"

    @abstractmethod
    def _way(self, space: Space) -> tuple[MethodName, LossName]:
        """The method that is used in a space, and the loss."""

    def _minimum(self, problem: PointProblem, space: Space) -> Minimum:
        if not self._is_chosen:
            return self._minimum_of(problem, space)
        prepared, stats = problem.prepared, problem.stats
        is_small = not isinstance(space, DenseGram) or space.n_rows <= _CHOICE_ROWS
        pairs = self._pairs(space)
        chosen = (
            choose_penalties(
                pairs,
                problem.labels,
                lambda pair, labels, fold: self._with(pair)._left_out_in(
                    space, prepared, labels, fold, problem.watch
                )[0],
                stats,
                seed=self.seed,
            )
            if is_small and self._has_grid(prepared)
            else None
        )
        pair = pairs[0] if chosen is None else chosen
        stats["norm_penalty"], stats["graph_penalty"] = pair
        by_grid = chosen is not None and _is_double(space)
        return self._with(pair)._minimum_of(problem, space, by_grid=by_grid)

    def _with(self, pair: Penalties) -> Self:
        """The model with these penalties of norm and graph."""
        return replace(self, norm_penalty=pair[0], graph_penalty=pair[1])

    def _minimum_of(self, problem: PointProblem, space: Space, *, by_grid: bool = False) -> Minimum:
        """The functions for penalties that are numbers.

        ``by_grid`` takes the eigenpairs that are there: penalties that are far apart leave a
        factorization of the Gram matrix no digits.
        """
        prepared, labels, watch = problem.prepared, problem.labels, problem.watch
        method, loss = self._way(space)
        laplacian = self._laplacian(prepared)
        trained, validation = self._held_out(labels, method)
        primal = Problem(
            space=space,
            laplacian=laplacian,
            norm_penalty=self._norm,
            graph_penalty=self._penalty,
            nodes=trained.nodes,
            targets=one_against_rest(trained),
            bias=self.bias,
            loss=loss,
        )
        if method == "pcg":
            early = None
            if self.stop != "optimal":
                unlabeled = np.ones(space.n_rows, bool)
                unlabeled[labels.nodes] = False
                early = EarlyStop(rule=self.stop, unlabeled=unlabeled, validation=validation)
            return descend(
                primal,
                start=started(space, problem.start, primal.n_functions, self.bias),
                measure=self.measure,
                rtol=RTOL[self.measure] if self.rtol == "auto" else self.rtol,
                early=early,
                max_iter=self.max_iter,
                watch=watch,
            )
        inverse = (self._grid_inverse if by_grid else self._inverse)(prepared, space, watch)
        system = self._system(prepared, inverse, trained)
        if method == "dual":
            found = maximize(system, primal.targets, loss=loss, on_step=watch.step_of("dual"))
        else:
            on_step = watch.step_of("newton")
            found = minimize(system, primal.targets, is_hinge=loss != "squared", on_step=on_step)
        minimum = found.lifted(system)
        if isinstance(inverse.space, GramFactor):
            return replace(minimum, coef=inverse.space.gram_coefficients(minimum.coef))
        return minimum

    def _system(self, prepared: Points, inverse: PenaltyInverse, labels: Labels) -> LabeledSystem:
        constant = self._penalty * self._laplacian(prepared).of_ones()
        return LabeledSystem.of(inverse, labels.nodes, np.asarray(constant, np.float64), self.bias)

    def _laplacian(self, prepared: Points) -> IteratedLaplacian:
        return IteratedLaplacian.of_graph(
            prepared.graph, name=self.laplacian, power=self.power, parallel=prepared.parallel
        )

    def left_out_scores(
        self, prepared: Points, labels: Labels, fold: Int64Array, watch: Watch
    ) -> tuple[FloatArray, Status]:
        """(n_labeled, n_classes) scores of labels from the other folds, and the first failure.

        ``labels`` are those with features, in the numbering of ``prepared.graph``. ``fold`` is
        (n_labeled,) int64; labels of fold -1 are in every training set.

        Notes
        -----
        Two eigenproblems serve all penalties, folds and classes (E14): what is left for each is a
        Newton method on the labels. A Gram matrix is factored, in float64.
        """
        stats: Stats = {}
        space = self._space(prepared, self._points(prepared, watch).rows, watch, stats)
        return self._left_out_in(space, prepared, labels, fold, watch)

    def _left_out_in(
        self, space: Space, prepared: Points, labels: Labels, fold: Int64Array, watch: Watch
    ) -> tuple[FloatArray, Status]:
        inverse = self._grid_inverse(prepared, space, watch)
        system = self._system(prepared, inverse, labels)
        targets, (_, loss) = one_against_rest(labels), self._way(space)
        scores, status = np.zeros_like(targets), Status.CONVERGED
        for number in range(int(fold.max(initial=-1)) + 1):
            others, left_out = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
            within = LabeledProblem(
                kernel=system.kernel[np.ix_(others, others)], has_free_bias=system.has_free_bias
            )
            if loss == "hinge":
                minimum = maximize(within, targets[others], loss=loss)
            else:
                minimum = minimize(within, targets[others], is_hinge=loss != "squared")
            scores[left_out] = system.kernel[np.ix_(left_out, others)] @ minimum.dual + minimum.free
            status = minimum.status if status is Status.CONVERGED else status
        return class_scores(scores), status

    def has_left_out_scores(self, prepared: Points) -> bool:
        """Whether `left_out_scores` gives this model's answers, and its eigenproblems fit."""
        return not self._is_chosen and self._has_grid(prepared)

    def _has_grid(self, prepared: Points) -> bool:
        """Whether eigenproblems that fit the memory serve all penalties."""
        if self.shows_start:
            return False
        if self.gram in {"blocked", "landmarks"}:
            return self.gram == "landmarks"
        if self.gram == "sparse":
            return self._is_factored(prepared.graph.n_nodes, 0)
        if self.kernel == "linear" and self.gram == "auto":
            rows = prepared.rows
            return (self.n_dimensions if rows is None else rows.n_columns) <= FACTORED_COLUMNS
        n_nodes = prepared.graph.n_nodes
        fits = 8 * _EIGEN_ARRAYS * n_nodes**2 <= prepared.kept_bytes
        return fits and n_nodes <= FACTORED_ROWS

    def _grid_inverse(self, prepared: Points, space: Space, watch: Watch) -> PenaltyInverse:
        """The penalty's inverse by eigenpairs that do not depend on the penalties (E14)."""
        if not isinstance(space, DenseGram):
            return self._inverse(prepared, space, watch)
        if self._penalty == 0.0:
            return NoGraphPenalty(space=space, norm_penalty=self._norm)

        def factored() -> FactoredInverse:
            watch.step("eigenvectors", 0, 1)
            return FactoredInverse.of(GramFactor(space), self._laplacian(prepared))

        key = (id(space), self.laplacian, self.power)
        eigen = prepared.latest("eigenvectors", key, factored)
        return eigen.with_penalties(self._norm, self._penalty)

    @property
    def _penalty(self) -> float:
        """The graph penalty; for 'auto' the first one to try."""
        return GRAPH_PENALTIES[0] if self.graph_penalty == "auto" else self.graph_penalty

    @property
    def _is_chosen(self) -> bool:
        """Whether labels choose a penalty."""
        return "auto" in (self.norm_penalty, self.graph_penalty)

    def _pairs(self, space: Space) -> list[Penalties]:
        """Penalties of norm and graph to choose from.

        Conjugate gradients and Gram matrices in single precision want no small norm.
        """
        norms: Sequence[float] = (self._norm,)
        graphs: Sequence[float] = (self._penalty,)
        if self.norm_penalty == "auto" and _is_double(space) and self._way(space)[0] != "pcg":
            norms = NORMS
        if self.graph_penalty == "auto":
            graphs = GRAPH_PENALTIES
        return list(product(norms, graphs))

    def _held_out(self, labels: Labels, method: MethodName) -> tuple[Labels, Validation | None]:
        """The labels to train on, and those that decide when to stop."""
        if method != "pcg" or self.stop in {"optimal", "stability"}:
            return labels, None
        if labels.n_usable == 0:
            raise ValueError(
                f"stop {self.stop!r} holds labels out, but each class has a single one; "
                "label more nodes, or use stop='stability'"
            )
        n_folds = min(max(2, round(1.0 / self.validation_share)), labels.n_usable)
        fold, _ = deal_folds(labels, n_folds, self.seed)
        out, rest = np.flatnonzero(fold == 0), np.flatnonzero(fold != 0)
        classes = labels.classes[out]
        return labels.subset(rest), Validation(nodes=frozen(labels.nodes[out]), classes=classes)

    def _inverse(self, prepared: Points, space: Space, watch: Watch) -> PenaltyInverse:
        """The penalty's inverse (E13), (E14); kept for solves with equal hyperparameters."""
        if self._penalty == 0.0:
            return NoGraphPenalty(space=space, norm_penalty=self._norm)
        graph_key = (id(space), self.laplacian, self.power)
        if isinstance(space, SparseGram) or (
            isinstance(space, LocalMap) and space.n_coef > FACTORED_COLUMNS
        ):
            iterative = prepared.latest(
                "inverse",
                (*graph_key, self._norm, self._penalty),
                lambda: IterativeInverse(
                    space, self._laplacian(prepared), self._norm, self._penalty, watch=watch
                ),
            )
            iterative.watch = watch
            return iterative
        if isinstance(space, FeatureMap):
            eigen = prepared.latest(
                "inverse",
                graph_key,
                lambda: FactoredInverse.of(
                    space,
                    self._laplacian(prepared).rounded(space.dtype),
                    watch.step_of("factoring"),
                ),
            )
            return eigen.with_penalties(self._norm, self._penalty)
        if isinstance(space, DenseGram):
            return prepared.latest(
                "inverse",
                (*graph_key, self._norm, self._penalty),
                lambda: DenseInverse(
                    space,
                    self._laplacian(prepared),
                    self._norm,
                    self._penalty,
                    on_step=watch.step_of("factoring"),
                ),
            )
        raise TypeError(f"nothing is factored of a {type(space).__name__}")


def _is_double(space: Space) -> bool:
    """Whether its Gram matrix, if it has one, has the digits that small penalties of norms need."""
    return not isinstance(space, DenseGram) or space.matrix.dtype == np.float64
