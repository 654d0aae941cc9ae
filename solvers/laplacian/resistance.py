"""Effective resistances by random projection: an embedding whose squared distances estimate them.

The sign of a record in a probe is a keyed hash, so a record that is embedded again and again
meets the same signs (the rule that keeps resparsification from ratcheting, ALGORITHMS B.6).

Decision: Chebyshev iteration inside checked spectral bounds, not a residual of conjugate
gradients. With two communities of 10,000 nodes and 5 edges between them, conjugate gradients
reach a residual of 1e-4 with those edges' resistances at 8 % of the truth, because their direction
is a 1e-5 part of the right-hand sides. Consequence: every edge is estimated equally well.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from solvers.arrays import Float32Array, Int32Array, UInt64Array, checked_nodes, frozen
from solvers.graph import Graph
from solvers.iterate import Cancelled, Outcome, Progress, iterate
from solvers.kernels.edges import add_projected_edges, squared_distances
from solvers.laplacian.chebyshev import Chebyshev
from solvers.laplacian.operator import ShiftedLaplacian
from solvers.laplacian.preconditioners import (
    ApproximateCholesky,
    Jacobi,
    Preconditioner,
    PreconditionerName,
    check_preconditioner,
)
from solvers.laplacian.spectrum import Lanczos, SpectralBounds, spectral_bounds
from solvers.solution import Status

_UINT64_MASK = 2**64 - 1
_JACOBI_LOWEST = 0.015
_JACOBI_LANCZOS_STEPS = 80


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Embedding:
    """Points whose squared distances estimate effective resistances.

    Attributes
    ----------
    vectors : (n_nodes, n_probes) float32
        Zero mean on every component; unit 1 / sqrt(weight).
    component : (n_nodes,) int32
        Components of the graph embedded; resistance between two of them is infinite.
    status : Status
        Of the linear solves. Estimates of an embedding that did not converge are not to be used
        for dropping anything.
    stats : Mapping
        ``n_iter``; ``residual``, the largest of any column in the preconditioner's norm;
        ``preconditioner``; ``condition``, of the preconditioned Laplacian.
    """

    vectors: Float32Array
    component: Int32Array
    status: Status
    stats: Mapping[str, float | int | str]

    @property
    def n_nodes(self) -> int:
        """Number of points."""
        return int(self.vectors.shape[0])

    @property
    def n_probes(self) -> int:
        """Number of coordinates."""
        return int(self.vectors.shape[1])


def resistance_embedding(
    u: npt.ArrayLike,
    v: npt.ArrayLike,
    weight: npt.ArrayLike,
    sign_key: UInt64Array,
    *,
    n_nodes: int,
    n_probes: int,
    seed: int,
    rtol: float = 1e-2,
    max_iter: int = 2_000,
    preconditioner: PreconditionerName = "auto",
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> Embedding:
    """Embedding of the graph of the given records, one Laplacian solve per probe.

    In the mean over signs every resistance lies within (1 +- rtol)^2 of the truth.

    Parameters
    ----------
    u, v, weight : (n_records,)
        Edge records as for `Graph.from_edges`; parallel records stay separate, each with its
        own signs. ``weight`` is the conductance a record has now (weight / keep_probability).
    sign_key : (n_records,) uint64
        What names a record for ever; equal keys get equal signs.
    n_nodes, n_probes : int
        Size of the embedding; the relative standard deviation of an estimate is
        sqrt(2 / n_probes).
    seed : int
        Of the signs; the same for every embedding of one stream.
    rtol : float
        Relative error allowed in every direction, in (0, 1).
    max_iter : int
        Limit on the steps, of the spectral bounds and of the solve each.
    preconditioner : {"auto", "jacobi", "approx-chol"}
        ``auto`` takes Jacobi, in float32, where the spectrum of the normalised Laplacian reaches
        down to 0.015 at most (Chebyshev then needs at most 40 steps), else approximate Cholesky
        in float64.
    progress, cancelled
        As in `solvers.iterate.iterate`.

    Raises
    ------
    TypeError, ValueError
        As `Graph.from_edges`; keys that are not uint64 or of another length; ``n_probes`` < 1;
        ``rtol`` outside (0, 1); no such preconditioner.

    References
    ----------
    Spielman and Srivastava, arXiv:0803.0929, section 4; ALGORITHMS (B8).
    """
    if n_probes < 1:
        raise ValueError(f"n_probes must be >= 1, got {n_probes}")
    if not 0 < rtol < 1:
        raise ValueError(f"rtol must lie in (0, 1), got {rtol}")
    check_preconditioner(preconditioner)
    graph = Graph.from_edges(u, v, weight, n_nodes=n_nodes)
    heads, tails = np.asarray(u), np.asarray(v)
    keys = np.asarray(sign_key)
    if keys.dtype != np.uint64 or keys.shape != heads.shape:
        raise ValueError(
            f"sign_key must be uint64 of shape {heads.shape}, got {keys.dtype} of {keys.shape}"
        )
    rhs = np.zeros((n_nodes, n_probes), dtype=np.float32)
    scale = 1.0 / np.sqrt(n_probes)
    with np.errstate(over="ignore"):  # the hash counts modulo 2^64
        hash_seed = np.uint64(seed & _UINT64_MASK)
        add_projected_edges(heads, tails, np.asarray(weight), keys, hash_seed, scale, rhs)
    run = partial(iterate, phase="resistances", progress=progress, cancelled=cancelled)
    system = _conditioned(graph, seed, preconditioner, max_iter, run)
    vectors, status, n_iter, relative = _solved(system, rhs, rtol, max_iter, run)
    return Embedding(
        vectors=frozen(vectors),
        component=graph.component,
        status=status,
        stats={
            "n_iter": n_iter,
            "residual": relative,
            "preconditioner": system.preconditioner.name,
            "condition": system.bounds.highest / system.bounds.lowest,
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Conditioned:
    """A Laplacian, the preconditioner chosen for it, and how well that fits."""

    operator: ShiftedLaplacian
    preconditioner: Preconditioner
    bounds: SpectralBounds
    n_iter: int


def _conditioned(
    graph: Graph,
    seed: int,
    name: PreconditionerName,
    max_iter: int,
    run: Callable[..., Outcome[Any]],
) -> _Conditioned:
    """Jacobi in float32 where its spectrum allows, else approximate Cholesky in float64."""
    fit = partial(_fitted, graph, seed=seed & _UINT64_MASK, run=run)
    if name == "approx-chol":
        return fit(ApproximateCholesky, np.float64, max_iter=max_iter)
    if name == "jacobi":
        return fit(Jacobi, np.float32, max_iter=max_iter)
    limit = min(max_iter, _JACOBI_LANCZOS_STEPS)
    tried = fit(Jacobi, np.float32, max_iter=limit, give_up_below=_JACOBI_LOWEST)
    if tried.bounds.status in {Status.CONVERGED, Status.CANCELLED}:
        return tried
    chosen = fit(ApproximateCholesky, np.float64, max_iter=max_iter)
    return replace(chosen, n_iter=tried.n_iter + chosen.n_iter)


def _fitted(
    graph: Graph,
    kind: type[Jacobi] | type[ApproximateCholesky],
    dtype: npt.DTypeLike,
    *,
    seed: int,
    max_iter: int,
    run: Callable[..., Outcome[Any]],
    give_up_below: float = 0.0,
) -> _Conditioned:
    """The Laplacian with one preconditioner and the spectrum of the two."""
    operator = ShiftedLaplacian.of_graph(
        graph, scale=1.0, shift=np.zeros(graph.n_nodes), zero_mean=False, dtype=dtype
    )
    preconditioner = kind(operator)
    lanczos = Lanczos(
        operator=operator,
        preconditioner=preconditioner,
        seed=seed,
        give_up_below=give_up_below,
    )
    bounds = spectral_bounds(lanczos, max_iter=max_iter, run=run)
    return _Conditioned(
        operator=operator, preconditioner=preconditioner, bounds=bounds, n_iter=bounds.n_iter
    )


def _solved(
    system: _Conditioned,
    rhs: Float32Array,
    rtol: float,
    max_iter: int,
    run: Callable[..., Outcome[Any]],
) -> tuple[Float32Array, Status, int, float]:
    """Vectors, status, steps in all and relative residual; ``rhs`` may be overwritten."""
    if system.bounds.status is Status.CANCELLED:
        return np.zeros_like(rhs), Status.CANCELLED, system.n_iter, 1.0
    inside = rhs.astype(system.operator.dtype, copy=False)
    system.operator.project(inside)
    method = Chebyshev(
        operator=system.operator,
        preconditioner=system.preconditioner,
        rhs=inside,
        bounds=system.bounds,
        rtol=rtol,
    )
    outcome = run(method, max_iter=max_iter)
    vectors = outcome.state.iterate
    system.operator.project(vectors)
    # a solve inside bounds that were not found for certain proves nothing
    status = system.bounds.status if outcome.status is Status.CONVERGED else outcome.status
    return (
        vectors.astype(np.float32, copy=False),
        status,
        system.n_iter + outcome.n_iter,
        outcome.state.relative,
    )


def edge_resistance(embedding: Embedding, u: npt.ArrayLike, v: npt.ArrayLike) -> Float32Array:
    """Estimated effective resistance between u and v, infinite across components.

    Parameters
    ----------
    embedding : Embedding
        Of the graph the resistances are asked of.
    u, v : (n_pairs,) integers
        Nodes of the embedding.

    Returns
    -------
    (n_pairs,) float32
        Unit 1 / weight.

    Raises
    ------
    ValueError
        Unequal lengths, or a node outside the embedding.
    """
    heads = checked_nodes("u", u, embedding.n_nodes)
    tails = checked_nodes("v", v, embedding.n_nodes)
    if heads.size != tails.size:
        raise ValueError(f"u and v must have equal lengths, got {heads.size} and {tails.size}")
    resistance = np.empty(heads.size, dtype=np.float32)
    squared_distances(embedding.vectors, embedding.component, heads, tails, resistance)
    return resistance
