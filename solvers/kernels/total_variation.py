"""The dual of the graph's total variation, edge by edge: one number for each edge and column.

The numbers stand at the entries of symmetric CSR rows, so each is there twice, with opposite signs:
``dual[e]`` of entry e = (i, j) is what node i gives to node j. Both are updated by the same
arithmetic, so they stay exact opposites, and rows can be computed independently.
"""

from typing import Any

import numpy as np

from peewit.solvers.kernels.compilation import njit
from peewit.solvers.kernels.simplex import project_row


@njit(cache=True, nogil=True)
def ascend_rows(
    indptr: Any,
    indices: Any,
    weight: Any,
    penalty: Any,
    pull: Any,
    point: Any,
    momentum: Any,
    dual: Any,
    before: Any,
    divergence: Any,
    start: int,
    stop: int,
) -> Any:
    """One accelerated projected step of the dual at the entries of ``start .. stop - 1``.

    All arrays of numbers have one type; float32 takes a quarter of the time on ten columns.

    Parameters
    ----------
    indptr, indices, weight : CSR arrays
        Of the graph.
    penalty, pull, momentum : (n_columns,)
        |dual| is at most penalty * weight; pull is the strong convexity of the primal.
    point : (n_nodes, n_columns)
        Point of the gradient, the primal point of dual + momentum (dual - before).
    dual, before : (n_entries, n_columns)
        The dual and that of the step before; both are updated.
    divergence : (n_nodes, n_columns)
        Rows are filled with the sums of the new dual over each node's entries.

    Returns
    -------
    (n_columns,) float64
        Sums that are positive where momentum no longer leads uphill, after O'Donoghue and Candes
        (2015), with equal weight for edges of all step lengths.

    Notes
    -----
    Each edge has its own step pull / (neighbors of i + neighbors of j): the incidence matrix B
    satisfies B B' <= diag(n_i + n_j), so hubs slow down only their own edges (Pock and Chambolle
    2011).
    """
    n_columns = point.shape[1]
    turned = np.zeros(n_columns)
    if n_columns == 1:
        turned[0] = _ascend_one(
            indptr,
            indices,
            weight,
            penalty[0],
            pull[0],
            point[:, 0],
            momentum[0],
            dual[:, 0],
            before[:, 0],
            divergence[:, 0],
            start,
            stop,
        )
        return turned
    total = np.empty(n_columns, dual.dtype)
    turn = np.empty(n_columns, dual.dtype)
    own = np.empty(n_columns, dual.dtype)
    for row in range(start, stop):
        n_own = indptr[row + 1] - indptr[row]
        total[:] = 0.0
        turn[:] = 0.0
        own[:] = point[row]
        for entry in range(indptr[row], indptr[row + 1]):
            other = np.uintp(indices[entry])
            step = dual.dtype.type(1.0 / (n_own + indptr[other + np.uintp(1)] - indptr[other]))
            # rows as views: loops over them use the processor's vectors
            near, own_dual, own_before = point[other], dual[entry], before[entry]
            own_weight = weight[entry]
            for column in range(n_columns):
                present = own_dual[column]
                # the step (G14)
                ahead = present + momentum[column] * (present - own_before[column])
                moved = ahead + pull[column] * step * (own[column] - near[column])
                bound = penalty[column] * own_weight
                moved = min(max(moved, -bound), bound)
                # the step went against the momentum where this is positive in sum
                turn[column] += (ahead - moved) * (moved - present)
                own_before[column] = present
                own_dual[column] = moved
                total[column] += moved
        for column in range(n_columns):
            divergence[row, column] = total[column]
            turned[column] += turn[column]
    return turned


@njit(cache=True, nogil=True)
def _ascend_one(
    indptr: Any,
    indices: Any,
    weight: Any,
    penalty: float,
    pull: float,
    point: Any,
    momentum: float,
    dual: Any,
    before: Any,
    divergence: Any,
    start: int,
    stop: int,
) -> float:
    """`ascend_rows` of one column, whose sums stay in registers."""
    turned = 0.0
    one = dual.dtype.type(1.0)
    for row in range(start, stop):
        n_own = indptr[row + 1] - indptr[row]
        total = 0.0 * one
        own = point[row]
        for entry in range(indptr[row], indptr[row + 1]):
            other = np.uintp(indices[entry])
            step = pull / dual.dtype.type(n_own + indptr[other + np.uintp(1)] - indptr[other])
            present = dual[entry]
            ahead = present + momentum * (present - before[entry])  # (G14)
            moved = ahead + step * (own - point[other])
            bound = penalty * weight[entry]
            moved = min(max(moved, -bound), bound)
            turned += (ahead - moved) * (moved - present)
            before[entry] = present
            dual[entry] = moved
            total += moved
        divergence[row] = total
    return turned


@njit(cache=True, nogil=True)
def primal_rows(
    target: Any,
    divergence: Any,
    before: Any,
    momentum: Any,
    pull: Any,
    on_simplex: bool,
    fixed: Any,
    out: Any,
    start: int,
    stop: int,
) -> None:
    """Fill rows of ``out`` with the primal point of dual + momentum (dual - before).

    Blocks are (n_nodes, n_columns); ``before`` is the divergence of the dual before. With
    ``on_simplex`` rows are projected on the simplex, and ``fixed``, (n_nodes,) or (0,), is the
    column at whose corner a row is held; -1 for none.
    """
    n_columns = target.shape[1]
    sorted_row = np.empty(n_columns, out.dtype)
    for row in range(start, stop):
        for column in range(n_columns):
            present = divergence[row, column]
            ahead = present + momentum[column] * (present - before[row, column])
            out[row, column] = target[row, column] - ahead / pull[column]  # (G6): g of p
        if not on_simplex:
            continue
        if fixed.size > 0 and fixed[row] >= 0:
            out[row, :] = 0.0
            out[row, fixed[row]] = 1.0
        else:
            project_row(out[row], sorted_row)


@njit(cache=True, nogil=True)
def variation_rows(
    indptr: Any, indices: Any, weight: Any, dual: Any, values: Any, start: int, stop: int
) -> Any:
    """Sums over the edges of ``start .. stop - 1``, each at its first end; new (2, n_columns).

    First weight |v_i - v_j|, the total variation; then dual (v_i - v_j), which is at most penalty
    times the first. ``dual`` may have no entries: the second sums are then 0.
    """
    n_columns = values.shape[1]
    sums = np.zeros((2, n_columns))
    has_dual = dual.shape[0] > 0
    for row in range(start, stop):
        for entry in range(indptr[row], indptr[row + 1]):
            other = np.uintp(indices[entry])
            if other <= row:
                continue
            for column in range(n_columns):
                difference = values[row, column] - values[other, column]
                # (G8) is made of these two
                sums[0, column] += weight[entry] * abs(difference)
                if has_dual:
                    sums[1, column] += dual[entry, column] * difference
    return sums


@njit(cache=True, nogil=True)
def sweep_cuts(indptr: Any, indices: Any, weight: Any, rank: Any) -> Any:
    """New (n_nodes - 1,): weight of the edges between the nodes up to each rank and the others.

    A running sum would lose light edges beside heavy ones that left it. So an edge is added to the
    few nodes of a segment tree that make up the ranks it crosses, and each rank sums its path.
    """
    n_nodes = rank.size
    tree = np.zeros(2 * n_nodes)  # ranks are the leaves n_nodes .. 2 n_nodes - 1
    for node in range(n_nodes):
        for entry in range(indptr[node], indptr[node + 1]):
            low = rank[node] + n_nodes
            high = rank[indices[entry]] + n_nodes
            while low < high:
                if low % 2 == 1:
                    tree[low] += weight[entry]
                    low += 1
                if high % 2 == 1:
                    high -= 1
                    tree[high] += weight[entry]
                low //= 2
                high //= 2
    for place in range(2, 2 * n_nodes):
        tree[place] += tree[place // 2]
    return tree[n_nodes:-1]
