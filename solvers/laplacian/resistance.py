"""Effective resistances by random projection: an embedding whose squared distances estimate them.

The sign of a record in a probe is a keyed hash, so a record that is embedded again and again
meets the same signs (the rule that keeps resparsification from ratcheting, ALGORITHMS B.6).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solvers.arrays import Float32Array, Int32Array, UInt64Array, checked_nodes, frozen
from solvers.graph import Graph
from solvers.iterate import Cancelled, Progress
from solvers.kernels.edges import add_projected_edges, squared_distances
from solvers.laplacian.solver import LaplacianSolver, PreconditionerName
from solvers.solution import Status

_UINT64_MASK = 2**64 - 1


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
        ``n_iter``, ``residual`` (largest relative), ``preconditioner``.
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
    rtol, max_iter, preconditioner
        Of the float32 solves, as in `LaplacianSolver`.
    progress, cancelled
        As in `solvers.iterate.iterate`.

    Raises
    ------
    TypeError, ValueError
        As `Graph.from_edges`; keys that are not uint64 or of another length; ``n_probes`` < 1.

    References
    ----------
    Spielman and Srivastava, arXiv:0803.0929, section 4; ALGORITHMS (B8).
    """
    if n_probes < 1:
        raise ValueError(f"n_probes must be >= 1, got {n_probes}")
    graph = Graph.from_edges(u, v, weight, n_nodes=n_nodes)
    heads, tails = np.asarray(u), np.asarray(v)
    keys = np.asarray(sign_key)
    if keys.dtype != np.uint64 or keys.shape != heads.shape:
        raise ValueError(
            f"sign_key must be uint64 of shape {heads.shape}, got {keys.dtype} of {keys.shape}"
        )
    rhs = np.zeros((n_nodes, n_probes), dtype=np.float32)
    with np.errstate(over="ignore"):  # the hash counts modulo 2^64
        add_projected_edges(
            heads,
            tails,
            np.asarray(weight),
            keys,
            np.uint64(seed & _UINT64_MASK),
            1.0 / np.sqrt(n_probes),
            rhs,
        )
    solver = LaplacianSolver(
        graph, rtol=rtol, max_iter=max_iter, preconditioner=preconditioner, dtype=np.float32
    )
    solution = solver.solve(
        rhs, project=True, phase="resistances", progress=progress, cancelled=cancelled
    )
    return Embedding(
        vectors=frozen(solution.x.astype(np.float32, copy=False)),
        component=graph.component,
        status=solution.status,
        stats={
            "n_iter": solution.n_iter,
            "residual": float(solution.residual.max()),
            "preconditioner": solution.preconditioner,
        },
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
