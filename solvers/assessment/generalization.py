"""How far Stable-HFS may be off on unlabeled nodes: the bound of Theorem 1, as a diagnostic.

The theorem (Calandriello et al. 2015; here (D5), (D6)) speaks of a connected graph and numbers.
Here it is applied to each component with its own labels, and to each column of one-hot classes;
the parts are weighed by their unlabeled nodes, and the probability of failure is shared equally.

It is no certificate: labels are taken to be drawn uniformly, unlabeled targets to lie within the
range of the labeled ones, and the spectral gap comes from Lanczos, which has no proof of having
met the least eigenvalue.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigvalsh
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Cancelled
from peewit.solvers.labels import Targets
from peewit.solvers.laplacian.solver import LaplacianSolver
from peewit.solvers.status import Status

FAILURE = 0.05
"""Probability with which the bound may fail, delta."""

_DENSE_NODES = 200
_GAP_RTOL = 1e-3
_SOLVE_RTOL = 1e-6
_MAX_LANCZOS_STEPS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneralizationBound:
    """The bound of Theorem 1 on the mean squared miss of unlabeled nodes, in two forms.

    Squared misses are summed over classes. Only nodes that a label reaches count.

    Attributes
    ----------
    bound : float or None
        With rho = kappa * lambda_2, kappa = graph_penalty * n_labeled, which is positive on every
        component; None where a spectral gap was not found, or every reachable node is labeled.
    bound_of_paper : float or None
        With the printed rho = kappa * lambda_2 - 1; None where it is not positive on some
        component, and the bound says nothing.
    rho : float
        The least of any component; the paper's is one less.
    lambda_2 : float
        The least spectral gap of any component with labeled and unlabeled nodes.
    empirical_risk : float
        Mean squared miss on the labels.
    probability : float
        With which the bounds hold, at least.
    n_components : int
        Components that the bound is made of.
    status : Status
        Of the search for spectral gaps.
    """

    bound: float | None
    bound_of_paper: float | None
    rho: float
    lambda_2: float
    empirical_risk: float
    probability: float
    n_components: int
    status: Status


def generalization_bound(
    graph: Graph,
    labels: Targets,
    predicted: FloatArray,
    *,
    graph_penalty: float,
    failure: float = FAILURE,
    cancelled: Cancelled | None = None,
) -> GeneralizationBound:
    """The bound for an answer of Stable-HFS.

    Parameters
    ----------
    graph : Graph
        The graph solved, H.
    labels : Labels or RealLabels
        What was given.
    predicted : (n_nodes, n_columns)
        Answer on the scale of the targets: f plus the label mean of the component.
    graph_penalty : float
        gamma, > 0.
    failure : float
        delta, in (0, 1).
    cancelled : callable, optional
        Asked while spectral gaps are sought.

    Raises
    ------
    ValueError
        ``graph_penalty`` not > 0, or ``failure`` outside (0, 1).
    """
    if not 0 < graph_penalty < np.inf:
        raise ValueError(f"graph_penalty must be finite and > 0, got {graph_penalty}")
    if not 0 < failure < 1:
        raise ValueError(f"failure must lie in (0, 1), got {failure}")
    targets = labels.targets()
    missed = predicted[labels.nodes] - targets
    parts = list(_parts(graph, labels, predicted, missed))
    kappa = graph_penalty * labels.n_labeled
    share = failure / max(1, len(parts) * labels.n_columns)
    gaps, status = _spectral_gaps(graph, parts, cancelled)
    return GeneralizationBound(
        bound=_combined(parts, kappa * gaps, share),
        bound_of_paper=_combined(parts, kappa * gaps - 1.0, share),
        rho=float(kappa * gaps.min(initial=np.inf)),
        lambda_2=float(gaps.min(initial=np.inf)),
        empirical_risk=float(np.square(missed).sum(axis=1).mean()),
        probability=1.0 - failure,
        n_components=len(parts),
        status=status,
    )


def transduction_factor(n_labeled: float, n_unlabeled: float) -> float:
    """pi(l, u) of (D5); grows with both arguments from 2 on, and is symmetric."""
    larger = 2.0 * max(n_labeled, n_unlabeled)
    share = n_labeled * n_unlabeled / (n_labeled + n_unlabeled - 0.5)
    return share * larger / (larger - 1.0)


def stability(magnitude: float, n_labeled: float, rho: float) -> float:
    """Beta of (D6): how much one label may move the answer; falls with rho > 0."""
    return 1.5 * magnitude * math.sqrt(n_labeled) / rho**2 + 4.0 * magnitude / rho


def risk_bound(
    empirical_risk: float,
    beta: float,
    largest_miss: float,
    n_labeled: float,
    n_unlabeled: float,
    failure: float,
) -> float:
    """(D5): the mean squared miss on unlabeled nodes, but for a probability of ``failure``."""
    spread = largest_miss**2 * (n_labeled + n_unlabeled) / (n_labeled * n_unlabeled)
    factor = transduction_factor(n_labeled, n_unlabeled) * np.log(1.0 / failure) / 2.0
    return float(empirical_risk + beta + (2.0 * beta + spread) * np.sqrt(factor))


def sparsifier_distance(epsilon: float) -> float | None:
    """(D8): the most that the answers on H and G differ, over the answer on G, both in norm M_G.

    None for an ``epsilon`` of 1 or more, for which nothing follows.
    """
    return epsilon / (1.0 - epsilon) if epsilon < 1 else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Part:
    """One component with labeled and unlabeled nodes; arrays have one entry per column."""

    nodes: Int64Array
    n_labeled: int
    empirical_risk: FloatArray
    magnitude: FloatArray
    largest_miss: FloatArray

    @property
    def n_unlabeled(self) -> int:
        return int(self.nodes.size) - self.n_labeled


def _parts(
    graph: Graph, labels: Targets, predicted: FloatArray, missed: FloatArray
) -> "list[_Part]":
    """The components that the bound is made of."""
    targets, component = labels.targets(), graph.component[labels.nodes]
    least, most = targets.min(axis=0), targets.max(axis=0)
    members = np.argsort(graph.component, kind="stable")
    sizes = graph.component_sizes()
    ends = np.cumsum(sizes)
    parts = []
    for number in np.unique(component):
        nodes = members[ends[number] - sizes[number] : ends[number]]
        rows = np.flatnonzero(component == number)
        if nodes.size == rows.size:
            continue
        mean = targets[rows].mean(axis=0)
        magnitude = np.maximum(most - mean, mean - least)
        parts.append(
            _Part(
                nodes=nodes,
                n_labeled=rows.size,
                empirical_risk=np.square(missed[rows]).mean(axis=0),
                magnitude=magnitude,
                largest_miss=np.abs(predicted[nodes] - mean).max(axis=0) + magnitude,
            )
        )
    return parts


def _combined(parts: list[_Part], rho: FloatArray, failure: float) -> float | None:
    """The bounds of all parts and columns as one; None unless every rho is positive."""
    if not parts or not (rho > 0).all():
        return None
    n_unlabeled = sum(part.n_unlabeled for part in parts)
    total = 0.0
    for part, own in zip(parts, rho, strict=True):
        for column, magnitude in enumerate(part.magnitude):
            total += (part.n_unlabeled / n_unlabeled) * risk_bound(
                part.empirical_risk[column],
                stability(magnitude, part.n_labeled, own),
                part.largest_miss[column],
                part.n_labeled,
                part.n_unlabeled,
                failure,
            )
    return total


def _spectral_gaps(
    graph: Graph, parts: list[_Part], cancelled: Cancelled | None
) -> tuple[FloatArray, Status]:
    """lambda_2 of the Laplacian of each part, nan where it was not found."""
    gaps, status = np.full(len(parts), np.nan), Status.CONVERGED
    for index, part in enumerate(parts):
        if cancelled is not None and cancelled():
            return gaps, Status.CANCELLED
        block = graph.adjacency[part.nodes][:, part.nodes]
        gap, ended = spectral_gap(Graph.from_adjacency(block), cancelled=cancelled)
        gaps[index] = gap
        status = status if ended is Status.CONVERGED else ended
    return gaps, status


def spectral_gap(graph: Graph, *, cancelled: Cancelled | None = None) -> tuple[float, Status]:
    """lambda_2 of a connected graph of two nodes or more, to 1e-3, and how the search ended.

    By Lanczos on the pseudo-inverse, whose largest eigenvalue is 1 / lambda_2: some ten to twenty
    solves with L. Small graphs are decomposed. nan where the search did not end well.
    """
    n_nodes = graph.n_nodes
    if n_nodes <= _DENSE_NODES:
        laplacian = np.diag(graph.degree) - graph.adjacency.toarray()
        return float(eigvalsh(laplacian, subset_by_index=[1, 1])[0]), Status.CONVERGED
    solver = LaplacianSolver(graph, rtol=_SOLVE_RTOL)

    def pseudo_inverse(vector: FloatArray) -> FloatArray:
        answer = solver.solve(vector, project=True, phase="spectral gap", cancelled=cancelled)
        if answer.status is not Status.CONVERGED:
            raise _SolveEnded(answer.status)
        return np.asarray(answer.x, dtype=np.float64)

    operator = LinearOperator((n_nodes, n_nodes), matvec=pseudo_inverse, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(n_nodes)
    try:
        (largest,) = eigsh(
            operator,
            k=1,
            which="LA",
            v0=start - start.mean(),
            tol=_GAP_RTOL,
            maxiter=_MAX_LANCZOS_STEPS,
            return_eigenvectors=False,
        )
    except ArpackNoConvergence:
        return float("nan"), Status.MAX_ITER
    except _SolveEnded as ended:
        return float("nan"), ended.status
    return float(1.0 / largest), Status.CONVERGED


class _SolveEnded(Exception):
    """A solve within the search for a gap did not converge."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status
