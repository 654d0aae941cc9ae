"""Walks from one node that may stop at every step: where they stop, and the likeliest way there."""

from heapq import heappop, heappush
from typing import Any

from peewit.solvers.kernels.compilation import njit

_DECAY = 0.25  # of the walks that must wait for each edge, from round to round


@njit(cache=True, nogil=True)
def follow_walks(
    indptr: Any,
    indices: Any,
    probability: Any,
    start: Any,
    teleport: Any,
    most: Any,
    enough: Any,
    stopped: Any,
    left: Any,
    is_waiting: Any,
    visited: Any,
) -> Any:
    """Follow walks from ``start`` over at most ``most`` edges, until ``enough`` of them are left.

    A walk stops with probability ``teleport`` at each node, else it goes to a neighbor; it stays
    with what a row of ``probability`` lacks to 1. Nodes with many waiting walks per edge come
    first. ``stopped`` and ``left``, (n_nodes,) float64 zeros, become the share of the walks that
    stopped at each node, and of those that wait there unfollowed. ``is_waiting`` (n_nodes,) bool is
    False before and after. ``visited`` (n_nodes,) int32 becomes the visited nodes, whose number is
    returned.
    """
    left[start] = 1.0
    visited[0] = start
    n_visited, n_gone, remaining, share = 1, 0, 1.0, 1.0
    waiting = [visited[0]]
    while remaining > enough and n_gone < most:
        share *= _DECAY
        waiting.clear()
        for place in range(n_visited):
            node = visited[place]
            if left[node] > share * (indptr[node + 1] - indptr[node] + 1):
                waiting.append(node)
                is_waiting[node] = True
        at = 0
        while at < len(waiting):
            node = waiting[at]
            at += 1
            is_waiting[node] = False
            if n_gone >= most:
                continue
            amount, moves = left[node], 0.0
            left[node] = 0.0
            for entry in range(indptr[node], indptr[node + 1]):
                moves += probability[entry]
            # a geometric sum: those that stay may stop, leave or stay again
            amount /= 1.0 - (1.0 - teleport) * (1.0 - moves)
            stopped[node] += teleport * amount
            remaining -= teleport * amount
            amount *= 1.0 - teleport
            n_gone += indptr[node + 1] - indptr[node] + 1
            for entry in range(indptr[node], indptr[node + 1]):
                other = indices[entry]
                arriving = amount * probability[entry]
                if arriving == 0.0:
                    continue
                if left[other] == 0.0 and stopped[other] == 0.0 and other != start:
                    visited[n_visited] = other
                    n_visited += 1
                left[other] += arriving
                if not is_waiting[other] and left[other] > share * (
                    indptr[other + 1] - indptr[other] + 1
                ):
                    waiting.append(other)
                    is_waiting[other] = True
    return n_visited


@njit(cache=True, nogil=True)
def likeliest_paths(
    indptr: Any,
    indices: Any,
    probability: Any,
    start: Any,
    targets: Any,
    most: Any,
    likelihood: Any,
    is_settled: Any,
    before: Any,
) -> None:
    """Find the likeliest way from ``start`` to each of ``targets``; ends after ``most`` edges.

    ``before`` (n_nodes,) int32 becomes the node before each reached node on its way, ``likelihood``
    (n_nodes,) float64 zeros the likelihood of the way, and ``is_settled`` (n_nodes,) bool of False
    whether no better way is possible.
    """
    likelihood[start] = 1.0
    before[start] = start
    reached, n_gone = 0, 0
    heap = [(-1.0, indices.dtype.type(start))]
    while len(heap) > 0 and n_gone < most and reached < targets.size:
        _, node = heappop(heap)
        if is_settled[node]:
            continue
        is_settled[node] = True
        for target in targets:
            reached += int(target == node)
        n_gone += indptr[node + 1] - indptr[node] + 1
        for entry in range(indptr[node], indptr[node + 1]):
            other = indices[entry]
            likely = likelihood[node] * probability[entry]
            if likely > likelihood[other]:
                likelihood[other] = likely
                before[other] = node
                heappush(heap, (-likely, other))
