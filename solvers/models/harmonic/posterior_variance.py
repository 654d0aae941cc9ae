"""Posterior variance of the Gaussian field: how uncertain a harmonic answer is at each node.

The soft models are the mean of f ~ N(0, tau^2 L^+), flat along constants, observed at the labels
with noise of variance kappa tau^2, kappa = graph_penalty * n_labeled. Its variance given the
labels, in units of tau^2, is the diagonal of (L + I_S / kappa)^-1: the effective resistance between
the node and a ground that every label is joined to by the resistance kappa (C2). With kappa = 0 the
labels are the ground, as for hard HFS. Targets do not enter.

Decision: the zero sum of Stable-HFS is no knowledge of the labels, so its variance is that of HFS
with the same penalty.
"""

from dataclasses import dataclass

import numpy as np

from peewit.solvers.arrays import Float32Array, FloatArray, IntArray
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Cancelled, Progress, Watch
from peewit.solvers.labels import Targets
from peewit.solvers.laplacian.effective_resistance import edge_resistance, resistance_embedding
from peewit.solvers.laplacian.multigrid.elimination import (
    BLIND_RATIO,
    Elimination,
    can_be_eliminated,
    is_eliminated,
)
from peewit.solvers.models.contract.model import RegressionModel
from peewit.solvers.status import Status, first_failure

RELATIVE_ERROR = 0.125
"""Default limit on the standard deviation of a variance, relative to it."""

_PROBES_AT_ONCE = 32
_RTOL = 1e-2
_COLUMNS_AT_ONCE = 256
_LEAST_KAPPA = 1e-300


class GaussianField(RegressionModel):
    """A model whose answer is the mean of a Gaussian field given the labels.

    The stats of its solutions hold the penalty used as ``graph_penalty``.
    """


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Uncertainty:
    """Posterior variances, and how they were computed; solves add a bias of at most 2 %."""

    variance: Float32Array  # (n_nodes,) unit 1 / weight; infinite where no label reaches
    relative_error: float  # standard deviation of each, relative to it, at most
    n_probes: int  # random vectors used
    status: Status  # of the solves; if not converged, do not trust the variances


def posterior_variance(
    graph: Graph,
    labels: Targets,
    *,
    graph_penalty: float,
    relative_error: float = RELATIVE_ERROR,
    seed: int = 0,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> Uncertainty:
    """Variance of every node given which nodes are labeled, by random projection.

    Parameters
    ----------
    graph : Graph
        Weights are conductances.
    graph_penalty : float
        Of the model, >= 0.
    relative_error : float
        Of the projected part, in (0, 1); what the degrees tell is exact.

    Raises
    ------
    ValueError
        ``graph_penalty`` negative or not finite, ``relative_error`` outside (0, 1).

    Notes
    -----
    Graphs that are eliminated, see `peewit.solvers.laplacian.multigrid.elimination`, are exact.
    Else 2 / relative_error^2 probes, 32 at a time: that many Laplacian solves to a relative error
    of 1e-2 in every direction, and 32 floats per node.

    References
    ----------
    Spielman and Srivastava, arXiv:0803.0929; (B8), (C2).
    """
    if not 0 <= graph_penalty < np.inf:
        raise ValueError(f"graph_penalty must be finite and >= 0, got {graph_penalty}")
    if not 0 < relative_error < 1:
        raise ValueError(f"relative_error must lie in (0, 1), got {relative_error}")
    kappa = graph_penalty * labels.n_labeled
    is_far = kappa > 0 and _within_reach(kappa, graph) != kappa
    if is_eliminated(graph) or (is_far and can_be_eliminated(graph)):
        return _eliminate(graph, labels, kappa)
    grounded = _Grounded.of(graph, labels, kappa)
    n_rounds = int(np.ceil(2.0 / relative_error**2 / _PROBES_AT_ONCE))
    total, status = np.zeros(graph.n_nodes), Status.CONVERGED
    watch = Watch(progress=progress, cancelled=None)  # solves ask themselves
    for done in range(n_rounds):
        variance, ended = grounded.estimate(seed + done, cancelled)
        total += variance
        status = status if ended is Status.CONVERGED else ended
        if ended is Status.CANCELLED:
            break
        watch.step("variance", done + 1, n_rounds)
    if graph.weight_spread >= BLIND_RATIO:
        status = first_failure(status, Status.ILL_CONDITIONED)
    n_probes = n_rounds * _PROBES_AT_ONCE
    return Uncertainty(
        variance=(total / n_rounds).astype(np.float32),
        relative_error=float(np.sqrt(2.0 / n_probes)),
        n_probes=n_probes,
        status=status,
    )


def _eliminate(graph: Graph, labels: Targets, kappa: float) -> Uncertainty:
    """The diagonal of (L + I_S / kappa)^-1 without probes, of positive numbers alone."""
    ground = np.zeros(graph.n_nodes)
    if kappa == 0:
        ground = np.asarray(graph.adjacency[:, labels.nodes].sum(axis=1)).ravel()
        free = np.setdiff1d(np.arange(graph.n_nodes), labels.nodes)
    else:
        ground[labels.nodes] = 1.0 / max(kappa, _LEAST_KAPPA)
        free = np.arange(graph.n_nodes)
    variance = np.zeros(graph.n_nodes)
    if free.size:
        system = Elimination(graph.subgraph(free), scale=1.0, shift=ground[free], zero_mean=False)
        for start in range(0, free.size, _COLUMNS_AT_ONCE):
            places = np.arange(start, min(start + _COLUMNS_AT_ONCE, free.size))
            units = np.zeros((free.size, places.size))
            units[places, places - start] = 1.0
            variance[free[places]] = system.solve(units).x[places, places - start]
    is_reached = np.isin(graph.component, graph.component[labels.nodes])
    return Uncertainty(
        variance=np.where(is_reached, variance, np.inf).astype(np.float32),
        relative_error=0.0,
        n_probes=0,
        status=Status.CONVERGED,
    )


def _within_reach(kappa: float, graph: Graph) -> float:
    """The penalty, within what float32 can hold beside the weights.

    Beyond, the variance is that of labels kept exactly, or of a field that labels hardly hold.
    """
    typical = float(graph.degree.max(initial=0.0)) or 1.0
    return float(np.clip(kappa, 1e-9 / typical, 1e9 / typical))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Grounded:
    """Edge records of the graph with one more node, the ground (C2)."""

    u: IntArray
    v: IntArray
    weight: FloatArray
    place: IntArray  # (n_nodes,) new node of each old one
    conductance: FloatArray  # (n_nodes,) weight between each node and the ground

    @classmethod
    def of(cls, graph: Graph, labels: Targets, kappa: float) -> "_Grounded":
        u, v, weight = graph.edges()
        ground = graph.n_nodes
        place = np.arange(ground)
        conductance = np.zeros(ground)
        if kappa == 0:
            place[labels.nodes] = ground
            conductance = np.asarray(graph.adjacency[:, labels.nodes].sum(axis=1)).ravel()
            return cls(u=place[u], v=place[v], weight=weight, place=place, conductance=conductance)
        to_ground = 1.0 / _within_reach(kappa, graph)
        conductance[labels.nodes] = to_ground
        return cls(
            u=np.concatenate([u, labels.nodes]),
            v=np.concatenate([v, np.full(labels.n_labeled, ground)]),
            weight=np.concatenate([weight, np.full(labels.n_labeled, to_ground)]),
            place=place,
            conductance=conductance,
        )

    def estimate(self, seed: int, cancelled: Cancelled | None) -> tuple[Float32Array, Status]:
        """Resistance between each node and the ground, from one set of probes."""
        ground = self.place.size
        embedding = resistance_embedding(
            self.u,
            self.v,
            self.weight,
            np.arange(self.u.size, dtype=np.uint64),
            n_nodes=ground + 1,
            n_probes=_PROBES_AT_ONCE,
            seed=seed,
            rtol=_RTOL,
            cancelled=cancelled,
        )
        others = np.full(ground, ground)
        resistance = edge_resistance(embedding, self.place, others, self.conductance)
        return resistance, embedding.status
