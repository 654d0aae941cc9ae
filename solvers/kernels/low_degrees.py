"""Elimination of nodes with at most two neighbors, which leaves a graph of no more edges.

A leaf goes with its edge, a node between two others becomes one edge between these (series), and
what that leaves of low degree goes next. All numbers are sums, products and quotients of positive
ones.
"""

from typing import Any

from peewit.solvers.kernels.compilation import njit


@njit(cache=True, nogil=True)
def find_twins(indptr: Any, indices: Any, twin: Any) -> None:
    """Fill ``twin`` with the place of entry (j, i) at each entry (i, j) of a symmetric matrix.

    The columns of a row increase.
    """
    cursor = indptr[:-1].copy()
    for row in range(indptr.size - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            other = indices[entry]
            twin[entry] = cursor[other]
            cursor[other] += 1


@njit(cache=True, nogil=True)
def eliminate_low_degrees(
    indptr: Any,
    indices: Any,
    weight: Any,
    twin: Any,
    shift: Any,
    order: Any,
    neighbor: Any,
    share: Any,
    inverse: Any,
) -> int:
    """Eliminate nodes with at most two neighbors while there are any; returns how many.

    Parameters
    ----------
    indptr, indices, weight, twin
        Adjacency matrix without parallel entries, and `find_twins`; changed. What is left are the
        entries with an index >= 0 in the rows of nodes that stay; two may join the same nodes.
    shift : (n_nodes,)
        Added to the diagonal; changed to that of what is left.
    order : (n_nodes,) int32
        Filled with the eliminated nodes, in order, and with whatever behind them.
    neighbor, share : (n_nodes, 2) int32 and floats
        Filled, in that order, with their neighbors at elimination, -1 for none, and the share of
        the degree that is the edge to each.
    inverse : (n_nodes,)
        Filled with 1 / degree at elimination, shift included; zero where that is.
    """
    n_nodes = order.size
    degree = indptr[1:] - indptr[:-1]
    n_waiting = 0
    for node in range(n_nodes):
        if degree[node] <= 2:
            order[n_waiting] = node
            n_waiting += 1
    done = 0
    while done < n_waiting:  # each node waits once, as degrees only fall
        node = order[done]
        first = second = -1
        pivot = shift[node]
        for entry in range(indptr[node], indptr[node + 1]):
            if indices[entry] >= 0:
                pivot += weight[entry]
                if first < 0:
                    first = entry
                else:
                    second = entry
        neighbor[done] = -1
        share[done] = 0.0
        inverse[done] = 1.0 / pivot if pivot > 0.0 else 0.0
        for place, entry in enumerate((first, second)):
            if entry >= 0:
                neighbor[done, place] = indices[entry]
                passed = weight[entry] / pivot
                share[done, place] = passed
                shift[indices[entry]] += passed * shift[node]
        if second >= 0 and indices[first] != indices[second]:
            between = weight[first] * (weight[second] / pivot)
            near, far = twin[first], twin[second]
            indices[near], indices[far] = indices[second], indices[first]
            weight[near] = weight[far] = between
            twin[near], twin[far] = far, near
        else:
            for entry in (first, second):
                if entry >= 0:
                    other = indices[entry]
                    indices[twin[entry]] = -1
                    degree[other] -= 1
                    if degree[other] == 2:
                        order[n_waiting] = other
                        n_waiting += 1
        done += 1
    return done


@njit(cache=True, nogil=True)
def pass_on(order: Any, neighbor: Any, share: Any, block: Any) -> None:
    """Add to the right-hand sides ``block`` (n_nodes, k) what eliminated nodes pass on."""
    for place in range(order.size):
        node = order[place]
        for side in range(2):
            other = neighbor[place, side]
            if other >= 0:
                for column in range(block.shape[1]):
                    block[other, column] += share[place, side] * block[node, column]


@njit(cache=True, nogil=True)
def take_back(order: Any, neighbor: Any, share: Any, inverse: Any, block: Any) -> None:
    """Replace what `pass_on` left at eliminated nodes by their solutions; others have theirs."""
    for place in range(order.size - 1, -1, -1):
        node = order[place]
        for column in range(block.shape[1]):
            block[node, column] *= inverse[place]
        for side in range(2):
            other = neighbor[place, side]
            if other >= 0:
                for column in range(block.shape[1]):
                    block[node, column] += share[place, side] * block[other, column]
