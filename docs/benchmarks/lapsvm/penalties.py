"""Penalties: one pair for a set and method, by the mean validation error (section E.4).

Two eigenproblems for a split serve all 49 pairs, all classes and all losses.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from docs.benchmarks.lapsvm.cases import Case
from peewit.solvers.arrays import FloatArray
from peewit.solvers.gram.feature_spaces import FeatureMap, GramFactor
from peewit.solvers.gram.space_base import Space
from peewit.solvers.laplacian.iterated_laplacian import IteratedLaplacian
from peewit.solvers.svm.dual import maximize
from peewit.solvers.svm.labeled_system import (
    FactoredInverse,
    LabeledSystem,
    NoGraphPenalty,
    PenaltyInverse,
)
from peewit.solvers.svm.newton import minimize
from peewit.solvers.svm.regularized_problem import BiasName, Minimum

Pair = tuple[float, float]
"""norm_penalty, graph_penalty."""

PENALTIES: Final = (1e-6, 1e-4, 1e-2, 1e-1, 1.0, 10.0, 100.0)
PAIRS: Final[Sequence[Pair]] = [(norm, graph) for norm in PENALTIES for graph in PENALTIES]
NORMS: Final[Sequence[Pair]] = [(norm, 0.0) for norm in PENALTIES]

SUPERVISED: Final = ("SVM", "RLSC")
LAPLACIAN: Final = ("LapRLSC", "LapSVM dual", "LapSVM Newton")

NEWTON_STEPS: Final = 100
DUAL_STEPS: Final = 200


def trained(method: str, system: LabeledSystem, targets: FloatArray) -> Minimum:
    """The minimum by a method that works on the labeled points."""
    if method == "LapSVM dual":
        return maximize(system, targets, loss="hinge", max_iter=DUAL_STEPS).lifted(system)
    is_hinge = method in {"SVM", "LapSVM Newton"}
    found = minimize(system, targets, is_hinge=is_hinge, max_iter=NEWTON_STEPS)
    return found.lifted(system)


def system_of(
    case: Case,
    inverse: PenaltyInverse,
    laplacian: IteratedLaplacian | None,
    graph_penalty: float,
    bias: BiasName,
) -> LabeledSystem:
    """The problem on the labeled points; without a graph a penalized intercept is free."""
    if laplacian is None:
        constant, own = np.zeros((case.n_rows, 1)), "none" if bias == "none" else "free"
        return LabeledSystem.of(inverse, case.nodes, constant, own)
    constant = np.asarray(graph_penalty * laplacian.of_ones(), np.float64)
    return LabeledSystem.of(inverse, case.nodes, constant, bias)


def supervised_errors(case: Case, bias: BiasName) -> dict[str, FloatArray]:
    """Validation errors of the methods without a graph, at all `NORMS`."""
    space, found = case.labeled_space, {}
    for method in SUPERVISED:
        minima = []
        for norm, _ in NORMS:
            inverse = NoGraphPenalty(space=space, norm_penalty=norm)
            minima.append(trained(method, system_of(case, inverse, None, 0.0, bias), case.targets))
        found[method] = _validation_errors(case, space, minima)
    return found


def laplacian_errors(
    case: Case, bias: BiasName, methods: Sequence[str] = LAPLACIAN
) -> dict[str, FloatArray]:
    """Validation errors of the methods with a graph, at all `PAIRS`."""
    joined = case.joined()
    space: FeatureMap = GramFactor(joined.gram)
    eigen = FactoredInverse.of(space, joined.laplacian)
    minima: dict[str, list[Minimum]] = {method: [] for method in methods}
    for norm, graph in PAIRS:
        inverse = eigen.with_penalties(norm, graph)
        system = system_of(case, inverse, joined.laplacian, graph, bias)
        for method in methods:
            minima[method].append(trained(method, system, case.targets))
    return {method: _validation_errors(case, space, own) for method, own in minima.items()}


def _validation_errors(case: Case, space: Space, minima: Sequence[Minimum]) -> FloatArray:
    """Validation error at each pair; all functions go through the kernel together."""
    functions = space.expansion(
        np.hstack([minimum.coef for minimum in minima]),
        np.concatenate([minimum.intercept for minimum in minima]),
    )
    values = functions.values(case.held_features[: case.n_validation])
    nothing = np.zeros((case.held.size - case.n_validation, minima[0].coef.shape[1]))
    unknown = np.zeros((case.n_rows, nothing.shape[1]))
    columns = np.hsplit(values, len(minima))
    return np.array([case.errors_of(unknown, np.vstack([own, nothing]))[1] for own in columns])


def best_pair(pairs: Sequence[Pair], errors: Sequence[FloatArray]) -> Pair:
    """The pair of the least mean error over splits.

    Of equal errors the larger penalties win: by their product, then by the norm's.
    """
    mean = np.mean(errors, axis=0)
    least = float(mean.min())
    tied = [pair for pair, error in zip(pairs, mean, strict=True) if error <= least + 1e-9]
    return max(tied, key=lambda pair: (np.log10(pair[0] * (pair[1] or 1.0)).round(6), pair))
