"""Edge records as equations: checked, as a matrix in float32, and as right-hand sides of probes.

Matrix rows may have any order; products are fastest in `locality_order`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from peewit.solvers.arrays import (
    BoolArray,
    Float32Array,
    IntArray,
    RealArray,
    UInt32Array,
    UInt64Array,
    checked_nodes,
    frozen,
    index_dtype,
)
from peewit.solvers.kernels.adjacency import row_sums
from peewit.solvers.kernels.components import join_edges, number_components
from peewit.solvers.kernels.random_projection import project_rows
from peewit.solvers.kernels.resistance_records import (
    add_projected_nodes,
    count_ends,
    fill_rows,
    spread_over_edges,
)
from peewit.solvers.laplacian.shifted_laplacian import ShiftedLaplacian
from peewit.solvers.row_ranges import Parallel, RowRanges

UINT64_MASK = 2**64 - 1
_NODE_SIGNS = 0x6E6F6465
_LANES = 32
_SIGNS_PER_WORD = 64
_ORDER_EDGES = 8
_ORDER_STEPS = 12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EdgeRecords:
    """Checked edge records of a graph, loops included."""

    u: IntArray
    v: IntArray
    weight: RealArray
    key: UInt64Array | UInt32Array
    n_nodes: int

    @classmethod
    def checked(
        cls,
        u: npt.ArrayLike,
        v: npt.ArrayLike,
        weight: npt.ArrayLike,
        key: UInt64Array | UInt32Array,
        n_nodes: int,
    ) -> "EdgeRecords":
        """Records whose ids, weights and keys fit; see `resistance_embedding`."""
        heads = checked_nodes("u", u, n_nodes)
        tails = checked_nodes("v", v, n_nodes)
        weights = np.asarray(weight)
        if weights.dtype.kind != "f":
            weights = weights.astype(np.float64)
        if not heads.size == tails.size == weights.size or weights.ndim != 1:
            raise ValueError(
                "u, v and weight must have equal lengths, "
                f"got {heads.size}, {tails.size} and {weights.size}"
            )
        valid: BoolArray = np.isfinite(weights) & (weights > 0)
        if not valid.all():
            row = int(np.argmin(valid))
            raise ValueError(f"weight must be finite and > 0, got {weights[row]} in row {row}")
        keys: Any = np.asarray(key)
        if keys.dtype not in (np.uint64, np.uint32) or keys.shape != heads.shape:
            raise ValueError(
                f"sign_key must be uint64 or uint32 of shape {heads.shape}, "
                f"got {keys.dtype} of {keys.shape}"
            )
        return cls(u=heads, v=tails, weight=weights, key=keys, n_nodes=n_nodes)


def locality_order(records: EdgeRecords, seed: int, parallel: Parallel) -> IntArray:
    """(n_nodes,) nodes in an order in which neighbors stand close together.

    Nodes are sorted by a random vector that was averaged over neighbors a few times, so that it is
    nearly constant on communities; products then find most of what they need in the cache. A dense
    graph is averaged over a sample of its edges.
    """
    n_nodes = records.n_nodes
    rng = np.random.default_rng(seed & UINT64_MASK)
    vector = rng.standard_normal(n_nodes, np.float32)
    stride = max(1, records.u.size // max(_ORDER_EDGES * n_nodes, 1))
    for _ in range(_ORDER_STEPS):
        sums, totals = np.zeros(n_nodes, np.float32), np.zeros(n_nodes, np.float32)
        edges = records.u, records.v, records.weight, stride, vector, sums, totals
        _over_halves(partial(spread_over_edges, *edges), n_nodes, parallel)
        np.divide(sums, totals, out=vector, where=totals > 0)
    return np.argsort(vector, kind="stable")


def _over_halves(task: Callable[[int, int], None], n_nodes: int, parallel: Parallel) -> None:
    """Run ``task(low, high)`` for the lower and the upper half of the nodes."""
    cuts = (0, n_nodes // 2, n_nodes)
    for _ in parallel(lambda half: task(cuts[half], cuts[half + 1]), range(2)):
        pass


def record_matrix(
    records: EdgeRecords, node: IntArray, ridge: float, parallel: Parallel
) -> ShiftedLaplacian:
    """L + ridge I in float32; row r belongs to ``node[r]``, parallel records are entries each."""
    n_nodes, ids = records.n_nodes, index_dtype(2 * records.u.size, records.n_nodes)
    rank = _rank(node, ids)
    indptr = np.zeros(n_nodes + 1, ids)
    count_ends(records.u, records.v, rank, indptr[1:])
    np.cumsum(indptr, out=indptr)
    indices, data = np.empty(int(indptr[-1]), ids), np.empty(int(indptr[-1]), np.float32)
    columns = records.u, records.v, records.weight
    fill = partial(fill_rows, *columns, rank, indptr[:-1].copy(), indices, data)
    _over_halves(fill, n_nodes, parallel)
    degree = np.empty(n_nodes)
    row_sums(indptr, data, degree)
    parent = np.arange(n_nodes, dtype=np.int32)
    component = np.empty(n_nodes, np.int32)
    join_edges(records.u, records.v, parent)
    n_components = number_components(parent, component)
    return ShiftedLaplacian(
        indptr=indptr,
        indices=indices,
        weight=frozen(data),
        scale=1.0,
        diagonal=frozen((degree + ridge).astype(np.float32)),
        shift=frozen(np.full(n_nodes, ridge, np.float32)),
        component=frozen(component[node]),
        component_size=np.bincount(component, minlength=n_components).astype(np.float64),
        ranges=RowRanges.of(indptr, map),
        projected=np.full(n_components, ridge == 0.0),
        projects_products=False,
    )


def _rank(node: IntArray, ids: type[np.int32] | type[np.int64]) -> IntArray:
    """Row of each node, the inverse of ``node``."""
    rank = np.empty(node.size, ids)
    rank[node] = np.arange(node.size, dtype=ids)
    return rank


def right_hand_sides(
    records: EdgeRecords,
    operator: ShiftedLaplacian,
    node: IntArray,
    rows: RowRanges,
    ridge: float,
    seed: int,
    n_probes: int,
) -> Float32Array:
    """(n_nodes, next multiple of 32) float32 columns of B' W^(1/2) Q (B8), padded with zeros.

    A ridge adds ridge^(1/2) Q'.
    """
    rank = _rank(node, index_dtype(operator.indices.size, node.size))
    key = np.empty(operator.indices.size, records.key.dtype)
    keyed = records.u, records.v, records.key
    fill = partial(fill_rows, *keyed, rank, operator.indptr[:-1].copy(), operator.indices, key)
    _over_halves(fill, node.size, rows.parallel)
    rhs = np.zeros((operator.n_nodes, -(-n_probes // _LANES) * _LANES), np.float32)
    scale = 1.0 / np.sqrt(n_probes)
    with np.errstate(over="ignore"):  # the hash counts modulo 2^64
        hash_seed = np.uint64(seed & UINT64_MASK)
        matrix = operator.indptr, operator.indices, operator.weight, key, node
        for first in range(0, n_probes, _SIGNS_PER_WORD):
            columns = rhs[:, first : min(first + _SIGNS_PER_WORD, n_probes)]
            word = first // _SIGNS_PER_WORD
            rows.run(partial(project_rows, *matrix, hash_seed, scale, word, columns))
            if ridge > 0.0:
                node_seed = hash_seed ^ np.uint64(_NODE_SIGNS)
                add_projected_nodes(node, ridge, node_seed, scale, word, columns)
    operator.project(rhs)
    return rhs
