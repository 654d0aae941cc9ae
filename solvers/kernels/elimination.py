"""Elimination of the nodes of a network without a subtraction, and potentials by it."""

from typing import Any

from peewit.solvers.kernels.compilation import njit


@njit(cache=True, nogil=True)
def eliminate(weight: Any, pivot: Any) -> None:
    """Eliminate all nodes but the last, in order; ``weight`` becomes the shares they pass on.

    ``weight`` (n, n) has the conductances above its diagonal; ``pivot`` (n,) is filled with the
    degrees at elimination. A degree is summed from its edges, never reduced, so every number keeps
    its digits, however far apart the conductances are.
    """
    n_nodes = pivot.size
    pivot[n_nodes - 1] = 0.0
    for node in range(n_nodes - 1):
        degree = 0.0
        for other in range(node + 1, n_nodes):
            degree += weight[node, other]
        pivot[node] = degree
        if degree == 0.0:
            continue
        for one in range(node + 1, n_nodes):
            own = weight[node, one]
            if own == 0.0:
                continue
            for other in range(one + 1, n_nodes):
                weight[one, other] += own * (weight[node, other] / degree)
        for other in range(node + 1, n_nodes):
            weight[node, other] /= degree


@njit(cache=True, nogil=True)
def potentials(share: Any, pivot: Any, block: Any) -> None:
    """Replace sources >= 0 in ``block`` (n, k) by their potentials above the last node, in place.

    ``share`` and ``pivot`` are the output of `eliminate`; no digit is lost here, either.
    """
    n_nodes, n_columns = block.shape
    for node in range(n_nodes - 1):
        for other in range(node + 1, n_nodes):
            passed = share[node, other]
            if passed != 0.0:
                for column in range(n_columns):
                    block[other, column] += passed * block[node, column]
    for column in range(n_columns):
        block[n_nodes - 1, column] = 0.0
    for node in range(n_nodes - 2, -1, -1):
        degree = pivot[node]
        for column in range(n_columns):
            block[node, column] = block[node, column] / degree if degree > 0.0 else 0.0
        for other in range(node + 1, n_nodes):
            passed = share[node, other]
            if passed != 0.0:
                for column in range(n_columns):
                    block[node, column] += passed * block[other, column]
