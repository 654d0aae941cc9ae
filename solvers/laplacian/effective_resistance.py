"""Effective resistances: two terms from the degrees, exact, and a random projection for the rest.

``R = b'D^-1 b + b'D^-1 A D^-1 b + ||W^(1/2) B L^+ A D^-1 b||^2`` with ``b = chi_u - chi_v``, since
``L^+ = D^-1 + D^-1 A L^+`` up to constants. The first two terms are known,
``1/d_u + 1/d_v - 2w/(d_u d_v)``; the third is projected (B8), (B16), from the smoothed solutions
``D^-1 A Z``. On a well connected graph the third term is small and its noise with it; at a
bottleneck it is all there is. The sign of a record in a probe is a keyed hash, so a record that is
embedded again meets the same signs (which keeps resparsification from ratcheting, section B.6).

Decision: Chebyshev iteration inside checked spectral bounds, not conjugate gradients to a residual.
An edge between two communities is a tiny part (1e-5) of the right-hand sides, so a small residual
can leave its resistance far off. Consequence: every edge is estimated equally well.

Where most nodes have at most two neighbors, these are eliminated first, exactly, and only what is
left is solved (B30).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import get_args

import numpy as np
import numpy.typing as npt

from peewit.solvers.arguments import require_one_of
from peewit.solvers.arrays import (
    Float32Array,
    FloatArray,
    Int32Array,
    UInt32Array,
    UInt64Array,
    checked_nodes,
    frozen,
)
from peewit.solvers.iteration_loop import Cancelled, Progress, iterate
from peewit.solvers.kernels.adjacency import row_sums
from peewit.solvers.kernels.clusters import propagate_clusters
from peewit.solvers.kernels.components import join_edges, number_components
from peewit.solvers.kernels.jacobi_chebyshev import smooth_rows
from peewit.solvers.kernels.resistance_records import estimated_resistances
from peewit.solvers.laplacian.edge_record_matrix import (
    UINT64_MASK,
    EdgeRecords,
    locality_order,
    record_matrix,
    right_hand_sides,
)
from peewit.solvers.laplacian.jacobi_chebyshev import JacobiChebyshev
from peewit.solvers.laplacian.low_degrees import LowDegrees
from peewit.solvers.laplacian.preconditioned_chebyshev import Chebyshev
from peewit.solvers.laplacian.preconditioners import (
    ApproximateCholesky,
    Jacobi,
    Preconditioner,
    PreconditionerName,
)
from peewit.solvers.laplacian.shifted_laplacian import ShiftedLaplacian
from peewit.solvers.laplacian.spectral_bounds import Lanczos, SpectralBounds, bounds_of_ritz_values
from peewit.solvers.laplacian.walks.random_walk import RandomWalk, WalkLanczos
from peewit.solvers.row_ranges import Parallel, RowRanges
from peewit.solvers.status import Status

_COLUMNS_AT_ONCE = 8
_WALK_STEPS = 3
_N_LANCZOS = 2
_JACOBI_LOWEST = 0.015
_JACOBI_LANCZOS_STEPS = 80


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Embedding:
    """Points whose squared distances estimate the projected term of effective resistances.

    Never drop edges by estimates of an embedding whose ``status`` is not converged.

    Attributes
    ----------
    vectors : (n_nodes, n_probes) float32
        Smoothed solutions ``D^-1 A Z``; unit 1 / sqrt(weight).
    inverse_degree : (n_nodes,) float32
        1 / (weighted degree + ridge); zero at isolated nodes without ridge.
    component : (n_nodes,) int32
        Resistance between two components is infinite.
    stats : Mapping
        ``n_iter``; ``residual``, the largest of any column in the preconditioner's norm;
        ``preconditioner``; ``condition``, of the preconditioned Laplacian.
    """

    vectors: Float32Array
    inverse_degree: Float32Array
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
    sign_key: UInt64Array | UInt32Array,
    *,
    n_nodes: int,
    n_probes: int,
    seed: int,
    ridge: float = 0.0,
    rtol: float = 1e-2,
    max_iter: int = 2_000,
    preconditioner: PreconditionerName = "auto",
    cancelled: Cancelled | None = None,
    progress: Progress | None = None,
    parallel: Parallel = map,
) -> Embedding:
    """Embedding of the graph of the given records, one Laplacian solve per probe.

    In the mean over signs every resistance lies within (1 +- rtol)^2 of the truth. The result does
    not depend on ``parallel``, whose threads also ask ``cancelled``.

    Parameters
    ----------
    u, v, weight : (n_records,)
        Parallel records stay separate, each with its own signs; loops are ignored. ``weight`` is
        the present conductance of a record (weight / keep_probability).
    sign_key : (n_records,) uint64 or uint32
        Permanent name of a record; equal keys get equal signs.
    n_probes : int
        The relative standard deviation of the projected term is sqrt(2 / n_probes).
    seed : int
        Of the signs; the same for every embedding of one stream.
    ridge : float
        gamma >= 0 of the resistances ``b'(L + gamma I)^-1 b`` (B4); unit of a weight.
    rtol : float
        Relative error allowed in every direction, in (0, 1).
    max_iter : int
        Limit on the steps, of the spectral bounds and of the solve each.
    preconditioner : {"auto", "jacobi", "approx-chol"}
        ``auto`` takes Jacobi, in float32, where the normalized Laplacian has no non-zero eigenvalue
        below 0.015 (Chebyshev then needs at most 40 steps), else approximate Cholesky in float64.

    References
    ----------
    Spielman and Srivastava, arXiv:0803.0929, section 4; (B4), (B8).
    """
    system = ResistanceSystem(
        u,
        v,
        weight,
        sign_key,
        n_nodes=n_nodes,
        seed=seed,
        ridge=ridge,
        max_iter=max_iter,
        preconditioner=preconditioner,
        cancelled=cancelled,
        progress=progress,
        parallel=parallel,
    )
    return system.embedding(n_probes=n_probes, rtol=rtol)


class ResistanceSystem:
    """The equations behind resistances: built once, then asked for a spectral gap or an embedding.

    Takes the arguments of `resistance_embedding`.
    """

    def __init__(
        self,
        u: npt.ArrayLike,
        v: npt.ArrayLike,
        weight: npt.ArrayLike,
        sign_key: UInt64Array | UInt32Array,
        *,
        n_nodes: int,
        seed: int,
        ridge: float = 0.0,
        max_iter: int = 2_000,
        preconditioner: PreconditionerName = "auto",
        cancelled: Cancelled | None = None,
        progress: Progress | None = None,
        parallel: Parallel = map,
    ) -> None:
        if not 0 <= ridge < np.inf:
            raise ValueError(f"ridge must be finite and >= 0, got {ridge}")
        require_one_of("preconditioner", preconditioner, get_args(PreconditionerName))
        self._records = EdgeRecords.checked(u, v, weight, sign_key, n_nodes)
        self._matrix = record_matrix(self._records, np.arange(n_nodes), ridge, parallel)
        self._seed = seed
        self._ridge = ridge
        self._max_iter = max_iter
        self._preconditioner: PreconditionerName = preconditioner
        self._run = partial(iterate, phase="resistances", progress=progress, cancelled=cancelled)
        self._parallel = parallel
        self._normalized: RandomWalk | None = None
        self._jacobi_bounds: SpectralBounds | None = None

    @property
    def component(self) -> Int32Array:
        """(n_nodes,) components of the graph."""
        return self._matrix.component

    def spectral_gap(self) -> float:
        """Lower estimate of the smallest non-zero eigenvalue of ``D^-1 (L + ridge I)``.

        Zero if it lies below 0.015 or was not found in a few steps.
        """
        bounds = self._tried_bounds()
        return bounds.lowest if bounds.status is Status.CONVERGED else 0.0

    def local_bounds(self) -> FloatArray | None:
        """(n_nodes,) s with ``R_uv <= s_u / d_u + s_v / d_v`` for two nodes of a component (B17).

        None without a spectral gap of at least 0.015. With P the random walk,
        ``R_uv = sum_j b' D^-1 (A D^-1)^j b``, whose terms are at most
        ``P^j(u, u) / d_u + P^j(v, v) / d_v``; the terms after the first 2 k are together at most
        ``1 / lambda`` times the next one, lambda the spectral gap. So s_u is the sum of the first 2
        k return probabilities and of the next one over lambda, here with k = 3. 32 random vectors
        estimate their excess over 1 to about a quarter.
        """
        gap = self.spectral_gap()
        if gap <= 0.0:
            return None
        seed = self._seed & UINT64_MASK
        return self._walk().returns(_WALK_STEPS, last_factor=1.0 / gap, seed=seed)

    def clusters(self, most: int, *, n_rounds: int, start: Int32Array | None = None) -> Int32Array:
        """(n_nodes,) connected clusters of at most ``most`` nodes, by label propagation.

        Propagation starts from the clusters ``start``, or from single nodes.
        """
        records, n_nodes = self._records, self._records.n_nodes
        cluster = np.arange(n_nodes, dtype=np.int32) if start is None else start.copy()
        size = np.bincount(cluster, minlength=n_nodes).astype(np.int32)
        matrix = self._matrix.indptr, self._matrix.indices
        propagate_clusters(*matrix, cluster, size, most, n_rounds)
        inside = cluster[records.u] == cluster[records.v]
        parent, number = np.arange(n_nodes, dtype=np.int32), np.empty(n_nodes, np.int32)
        join_edges(records.u[inside], records.v[inside], parent)
        number_components(parent, number)
        return number

    def embedding(self, *, n_probes: int, rtol: float = 1e-2) -> Embedding:
        """Embedding of the graph, see `resistance_embedding`; call it last.

        It releases the matrix and the records of the system as soon as they are not needed.
        """
        if n_probes < 1:
            raise ValueError(f"n_probes must be >= 1, got {n_probes}")
        if not 0 < rtol < 1:
            raise ValueError(f"rtol must lie in (0, 1), got {rtol}")
        system, component = self._condition(), self.component
        self._normalized = None
        node = np.arange(component.size)
        if isinstance(system.preconditioner, Jacobi):
            # the bounds hold in any order, the products are faster in this one
            node = locality_order(self._records, self._seed, self._parallel)
            del self._matrix
            ordered = record_matrix(self._records, node, self._ridge, self._parallel)
            system = replace(system, operator=ordered, preconditioner=Jacobi(ordered))
        operator = system.operator if system.low_degrees is None else self._matrix
        rows = RowRanges.of(operator.indptr, self._parallel)
        rhs = right_hand_sides(
            self._records, operator, node, rows, self._ridge, self._seed, n_probes
        )
        del self._records
        degree = operator.diagonal
        inverse = np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0)
        by_jacobi = isinstance(system.preconditioner, Jacobi)
        solve = self._smoothed_by_jacobi if by_jacobi else self._smoothed_by_cholesky
        solved, status, n_iter, relative = solve(system, inverse, rows, rhs, rtol)
        vectors = np.empty((operator.n_nodes, n_probes), np.float32)
        vectors[node] = solved[:, :n_probes]
        inverse_degree = np.empty_like(inverse)
        inverse_degree[node] = inverse
        return Embedding(
            vectors=frozen(vectors),
            inverse_degree=frozen(inverse_degree),
            component=component,
            # a solve inside bounds that were not found for certain proves nothing
            status=system.bounds.status if status is Status.CONVERGED else status,
            stats={
                "n_iter": system.bounds.n_iter + n_iter,
                "residual": relative,
                "preconditioner": system.preconditioner.name,
                "condition": system.bounds.highest / system.bounds.lowest,
            },
        )

    def _condition(self) -> "_Conditioned":
        """Jacobi in float32 where its spectrum allows, else approximate Cholesky in float64."""
        if self._preconditioner == "approx-chol":
            return self._by_cholesky()
        if self._preconditioner == "jacobi":
            return self._by_jacobi(self._walk_bounds(max_iter=self._max_iter))
        tried = self._tried_bounds()
        if tried.status in {Status.CONVERGED, Status.CANCELLED}:
            return self._by_jacobi(tried)
        chosen = self._by_cholesky()
        n_iter = tried.n_iter + chosen.bounds.n_iter
        return replace(chosen, bounds=replace(chosen.bounds, n_iter=n_iter))

    def _tried_bounds(self) -> SpectralBounds:
        if self._jacobi_bounds is None:
            limit = min(self._max_iter, _JACOBI_LANCZOS_STEPS)
            self._jacobi_bounds = self._walk_bounds(max_iter=limit, give_up_below=_JACOBI_LOWEST)
        return self._jacobi_bounds

    def _walk_bounds(self, *, max_iter: int, give_up_below: float = 0.0) -> SpectralBounds:
        seed = self._seed & UINT64_MASK
        method = WalkLanczos(walk=self._walk(), seed=seed, give_up_below=give_up_below)
        return bounds_of_ritz_values(self._run(method, max_iter=max_iter))

    def _walk(self) -> RandomWalk:
        if self._normalized is None:
            self._normalized = RandomWalk(self._matrix, self._parallel)
        return self._normalized

    def _by_jacobi(self, bounds: SpectralBounds) -> "_Conditioned":
        return _Conditioned(
            operator=self._matrix, preconditioner=Jacobi(self._matrix), bounds=bounds
        )

    def _by_cholesky(self) -> "_Conditioned":
        """The Laplacian with approximate Cholesky and their spectrum, estimated from two starts."""
        self._normalized = None
        low_degrees = LowDegrees.of(self._matrix)
        operator = _in_float64(self._matrix) if low_degrees is None else low_degrees.operator
        preconditioner = ApproximateCholesky(operator)

        def bounds_from(start: int) -> SpectralBounds:
            seed = (self._seed + start) & UINT64_MASK
            lanczos = Lanczos(operator=operator, preconditioner=preconditioner, seed=seed)
            return bounds_of_ritz_values(self._run(lanczos, max_iter=self._max_iter))

        estimates = list(self._parallel(bounds_from, range(_N_LANCZOS)))
        bounds = SpectralBounds(
            lowest=min(bounds.lowest for bounds in estimates),
            highest=max(bounds.highest for bounds in estimates),
            status=_worst([bounds.status for bounds in estimates]),
            n_iter=max(bounds.n_iter for bounds in estimates),
        )
        return _Conditioned(
            operator=operator, preconditioner=preconditioner, bounds=bounds, low_degrees=low_degrees
        )

    def _smoothed_by_jacobi(
        self,
        system: "_Conditioned",
        inverse_diagonal: Float32Array,
        rows: RowRanges,
        rhs: Float32Array,
        rtol: float,
    ) -> tuple[Float32Array, Status, int, float]:
        """``diag(M)^-1 A Z``, status, steps and relative residual; ``rhs`` is overwritten."""
        if system.bounds.status is Status.CANCELLED:
            return rhs, Status.CANCELLED, 0, 1.0
        method = JacobiChebyshev(
            operator=system.operator,
            inverse_diagonal=inverse_diagonal,
            rows=rows,
            rhs=rhs,
            bounds=system.bounds,
            rtol=rtol,
        )
        outcome = self._run(method, max_iter=self._max_iter)
        vectors = method.smoothed(outcome.state)
        return vectors, outcome.status, outcome.n_iter, outcome.state.relative

    def _smoothed_by_cholesky(
        self,
        system: "_Conditioned",
        inverse_diagonal: Float32Array,
        rows: RowRanges,
        rhs: Float32Array,
        rtol: float,
    ) -> tuple[Float32Array, Status, int, float]:
        """The same for approximate Cholesky, in float64, a few columns at a time."""
        low_degrees = system.low_degrees
        whole = system.operator if low_degrees is None else self._matrix
        inverse = inverse_diagonal.astype(np.float64)
        smooth = whole.indptr, whole.indices, whole.weight, inverse
        statuses, n_iter, relative = [system.bounds.status], 0, 0.0
        for first in range(0, rhs.shape[1], _COLUMNS_AT_ONCE):
            columns = slice(first, first + _COLUMNS_AT_ONCE)
            if statuses[-1] is Status.CANCELLED or not rhs[:, columns].any():
                continue
            block = rhs[:, columns].astype(np.float64)
            reduced = block if low_degrees is None else low_degrees.reduced(block)
            method = Chebyshev(
                operator=system.operator,
                preconditioner=system.preconditioner,
                rhs=reduced,
                bounds=system.bounds,
                rtol=rtol,
            )
            outcome = self._run(method, max_iter=self._max_iter)
            solved = outcome.state.iterate
            if low_degrees is not None:
                low_degrees.extend(solved, block)
                whole.project(block)
                solved = block
            block = np.empty_like(solved)
            rows.run(partial(smooth_rows, *smooth, solved, block))
            rhs[:, columns] = block
            statuses.append(outcome.status)
            n_iter, relative = max(n_iter, outcome.n_iter), max(relative, outcome.state.relative)
        return rhs, _worst(statuses), n_iter, relative


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Conditioned:
    """A Laplacian, its preconditioner, and the spectral bounds of the two.

    Where ``low_degrees`` were eliminated, it is that of the nodes that are left.
    """

    operator: ShiftedLaplacian
    preconditioner: Preconditioner
    bounds: SpectralBounds
    low_degrees: LowDegrees | None = None


def _in_float64(operator: ShiftedLaplacian) -> ShiftedLaplacian:
    """The same matrix in float64, its diagonal exactly the row sums plus the shift."""
    data = operator.weight.astype(np.float64)
    shift = operator.shift.astype(np.float64)
    degree = np.empty(operator.n_nodes)
    row_sums(operator.indptr, data, degree)
    return replace(
        operator, weight=frozen(data), diagonal=frozen(degree + shift), shift=frozen(shift)
    )


def _worst(statuses: list[Status]) -> Status:
    """Cancelled if any is; converged only if all are."""
    failed = [status for status in statuses if status is not Status.CONVERGED]
    if not failed:
        return Status.CONVERGED
    return Status.CANCELLED if Status.CANCELLED in failed else failed[0]


def edge_resistance(
    embedding: Embedding, u: npt.ArrayLike, v: npt.ArrayLike, conductance: npt.ArrayLike = 0.0
) -> Float32Array:
    """(n_pairs,) float32 estimated effective resistances, infinite across components.

    The unit is 1 / weight.

    Parameters
    ----------
    embedding : Embedding
        Of the graph that has the resistances.
    u, v : (n_pairs,) integers
        Nodes of the embedding.
    conductance : float or (n_pairs,) floats
        Weight between u and v in that graph, parallel records summed. A smaller value, such as the
        default 0, makes the estimate too large by ``2 w / (d_u d_v)``, never too small.
    """
    heads = checked_nodes("u", u, embedding.n_nodes)
    tails = checked_nodes("v", v, embedding.n_nodes)
    own = np.atleast_1d(np.asarray(conductance, dtype=np.float64))
    if heads.size != tails.size or own.size not in (1, heads.size):
        raise ValueError(
            "u, v and conductance must have equal lengths, "
            f"got {heads.size}, {tails.size} and {own.size}"
        )
    resistance = np.empty(heads.size, dtype=np.float32)
    estimated_resistances(
        embedding.vectors,
        embedding.inverse_degree,
        embedding.component,
        heads,
        tails,
        own,
        resistance,
    )
    return resistance
