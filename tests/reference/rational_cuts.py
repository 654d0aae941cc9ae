"""Twins of what is cut, in exact integers: every way of dividing a small graph is looked at."""

from fractions import Fraction
from heapq import heappop, heappush
from itertools import product

import numpy as np

from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels


def whole_weights(graph: Graph) -> tuple[list[tuple[int, int, int]], Fraction]:
    """Edges (u, v, weight) with whole weights, and the unit that they are counted in."""
    u, v, weight = (part.tolist() for part in graph.edges())
    exact = [Fraction(value) for value in weight]
    unit = max((value.denominator for value in exact), default=1)
    return list(zip(u, v, [int(value * unit) for value in exact], strict=True)), Fraction(1, unit)


def least_ratio_threshold(graph: Graph, function: np.ndarray, weight: np.ndarray) -> Fraction:
    """Least cut / min(w(A), w(not A)) of the nodes above a threshold."""
    values = np.unique(function)[:-1]
    return min(cut_ratio(graph, weight, (function > value).tolist()) for value in values)


def cut_ratio(graph: Graph, weight: np.ndarray, side: list[bool]) -> Fraction:
    """Cut / min(w(A), w(not A)) of one side."""
    edges, unit = whole_weights(graph)
    exact = [Fraction(value) for value in weight.tolist()]
    cut = unit * sum(w for a, b, w in edges if side[a] != side[b])
    above = sum((value for value, is_in in zip(exact, side, strict=True) if is_in), Fraction(0))
    return cut / min(above, sum(exact) - above)


def degrees(graph: Graph) -> list[Fraction]:
    """Sums of the weights at each node."""
    edges, unit = whole_weights(graph)
    degree = [0] * graph.n_nodes
    for a, b, w in edges:
        degree[a] += w
        degree[b] += w
    return [unit * value for value in degree]


def cheeger_energy(
    graph: Graph, classes: list[int], n_classes: int, weight: list[Fraction]
) -> Fraction | None:
    """(G12) of a partition of nodes of these weights, None where a class is empty of weight."""
    edges, unit = whole_weights(graph)
    total, energy = sum(weight), Fraction(0)
    for k in range(n_classes):
        own = sum((w for w, c in zip(weight, classes, strict=True) if c == k), Fraction(0))
        balance = min((n_classes - 1) * own, total - own)
        if balance == 0:
            return None
        energy += (
            unit * sum(w for a, b, w in edges if (classes[a] == k) != (classes[b] == k)) / balance
        )
    return energy


def total_variation_classes(
    graph: Graph, labels: Labels, *, penalty: float, label_weight: float, slack: float
) -> list[set[int]]:
    """Classes that squares and total variation leave open at each node, f within ``slack`` of 0.

    {f > t} is a least cut: gamma TV(1_A) + eta sum_A (t - y). A node is of class 1 if it lies in
    every least one at t = slack, of class 0 if in none at -slack.
    """
    edges, unit = whole_weights(graph)
    degree = degrees(graph)
    joined = sum(value > 0 for value in degree)
    gamma = Fraction(penalty) * unit * joined / sum(degree) if joined else Fraction(1)
    signs = dict(zip(labels.nodes.tolist(), (2 * labels.classes - 1).tolist(), strict=True))
    sides = list(product((0, 1), repeat=graph.n_nodes))
    cuts = [gamma * sum(w for a, b, w in edges if side[a] != side[b]) for side in sides]

    def least(t: Fraction) -> list[tuple[int, ...]]:
        values = [
            cut + Fraction(label_weight) * sum((t - y) for node, y in signs.items() if side[node])
            for side, cut in zip(sides, cuts, strict=True)
        ]
        smallest = min(values)
        return [side for side, value in zip(sides, values, strict=True) if value == smallest]

    above, below = least(Fraction(slack)), least(-Fraction(slack))
    open_classes = []
    for i in range(graph.n_nodes):
        if all(side[i] for side in above):
            open_classes.append({1})
        elif not any(side[i] for side in below):
            open_classes.append({0})
        else:
            open_classes.append({0, 1})
    return open_classes


def nearest_classes(graph: Graph, labels: Labels, tie: float) -> list[set[int]]:
    """Classes of the nearest labels along edges of length 1 / weight, as near but for a tie."""
    rows: list[list[tuple[int, Fraction]]] = [[] for _ in range(graph.n_nodes)]
    for a, b, w in zip(*(part.tolist() for part in graph.edges()), strict=True):
        rows[a].append((b, 1 / Fraction(w)))
        rows[b].append((a, 1 / Fraction(w)))
    distance = [dict[int, Fraction]() for _ in rows]
    for k in range(labels.n_classes):
        waiting = [(Fraction(0), node) for node in labels.nodes[labels.classes == k].tolist()]
        while waiting:
            length, node = heappop(waiting)
            if k in distance[node]:
                continue
            distance[node][k] = length
            for other, step in rows[node]:
                heappush(waiting, (length + step, other))
    classes = []
    for own in distance:
        nearest = min(own.values(), default=Fraction(0))
        classes.append({k for k, length in own.items() if length <= nearest * (1 + Fraction(tie))})
    return classes
