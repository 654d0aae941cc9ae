"""Twins of what is cut, in exact integers: every way of dividing a small graph is looked at."""

from collections.abc import Iterator
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
    edges, unit = whole_weights(graph)
    exact = [Fraction(value) for value in weight.tolist()]
    return min(
        _ratio(edges, unit, exact, (function > value).tolist())
        for value in np.unique(function)[:-1]
    )


def _ratio(
    edges: list[tuple[int, int, int]], unit: Fraction, weight: list[Fraction], side: list[bool]
) -> Fraction:
    cut = unit * sum(w for a, b, w in edges if side[a] != side[b])
    above = sum((value for value, is_in in zip(weight, side, strict=True) if is_in), Fraction(0))
    return cut / min(above, sum(weight) - above)


def cheeger_energy(graph: Graph, classes: list[int], n_classes: int, weight: list[Fraction]) -> Fraction | None:
    """(G12) of a partition of nodes of these weights, None where a class is empty of weight."""
    edges, unit = whole_weights(graph)
    total, energy = sum(weight), Fraction(0)
    for k in range(n_classes):
        own = sum((w for w, c in zip(weight, classes, strict=True) if c == k), Fraction(0))
        balance = min((n_classes - 1) * own, total - own)
        if balance == 0:
            return None
        energy += unit * sum(w for a, b, w in edges if (classes[a] == k) != (classes[b] == k)) / balance
    return energy


def partitions(labels: Labels, n_nodes: int) -> Iterator[list[int]]:
    """All partitions that keep the labels."""
    held = dict(zip(labels.nodes.tolist(), labels.classes.tolist(), strict=True))
    choices = [[held[i]] if i in held else range(labels.n_classes) for i in range(n_nodes)]
    for classes in product(*choices):
        yield list(classes)


def total_variation_classes(
    graph: Graph, labels: Labels, *, penalty: float, label_weight: float, slack: float
) -> list[set[int]]:
    """Classes that squares and total variation leave open at each node, f within ``slack`` of 0.

    {f > t} is a least cut: gamma TV(1_A) + eta sum_A (t - y). A node is of class 1 if it lies in
    every least one at t = slack, of class 0 if in none at -slack.
    """
    edges, unit = whole_weights(graph)
    degree = [0] * graph.n_nodes
    for a, b, w in edges:
        degree[a] += w
        degree[b] += w
    joined = sum(value > 0 for value in degree)
    gamma = Fraction(penalty) * joined / sum(degree) if joined else Fraction(1)
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


def resistances_to_labels(graph: Graph, labels: Labels, kappa: Fraction) -> list[Fraction | None]:
    """Posterior variance (C2): the diagonal of (L + I_S / kappa)^-1; None out of reach."""
    from tests.reference import rational

    found: list[Fraction | None] = [None] * graph.n_nodes
    for nodes, on_labels in rational.components(graph, labels):
        size = len(nodes)
        matrix = rational.laplacian(graph, nodes, Fraction(1))
        for place in on_labels:
            if kappa:
                matrix[place][place] += 1 / kappa
            else:
                matrix[place] = [Fraction(place == other) for other in range(size)]
        unit = [[Fraction(i == j) for j in range(size)] for i in range(size)]
        if not kappa:
            for place in on_labels:
                unit[place] = [Fraction(0)] * size
        inverse = rational.solved(matrix, unit)
        for place, node in enumerate(nodes):
            found[node] = inverse[place][place]
    return found
