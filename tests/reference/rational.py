"""Twins in exact fractions of the models of one linear system, straight from their equations.

Weights, penalties and labels are taken for what their floats say; nothing is rounded.
"""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from peewit.solvers.arrays import IntArray
from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels, Targets

Rows = list[list[Fraction]]


def hfs(graph: Graph, labels: Targets, graph_penalty: float) -> Rows:
    """(D1) for a penalty of 0, else (D2)."""
    scores = _everywhere(graph, _mean(exact_targets(labels)))
    kappa = Fraction(graph_penalty) * labels.n_labeled
    for nodes, on_labels in components(graph, labels):
        if kappa:
            matrix = shifted(laplacian(graph, nodes, kappa), on_labels)
            values = solved(matrix, _on_nodes(nodes, on_labels))
        else:
            matrix = laplacian(graph, nodes, Fraction(1))
            for place in on_labels:
                matrix[place] = [Fraction(place == other) for other in range(len(nodes))]
            values = solved(matrix, _on_nodes(nodes, on_labels))
        _put(scores, nodes, values)
    return scores


def stable_hfs(graph: Graph, labels: Targets, graph_penalty: float) -> Rows:
    """(D3) on each component with labels."""
    overall = _mean(exact_targets(labels))
    scores = _everywhere(graph, overall)
    removed = overall if isinstance(labels, Labels) else [Fraction(0)]
    kappa = Fraction(graph_penalty) * labels.n_labeled
    for nodes, on_labels in components(graph, labels):
        mean = _mean(list(on_labels.values()))
        matrix = shifted(laplacian(graph, nodes, kappa), on_labels)
        right = _on_nodes(nodes, centred(on_labels))
        both = solved(matrix, [[*row, Fraction(1)] for row in right])
        *sums, whole = _sums(both)
        mu = [total / whole for total in sums]
        values = [
            [
                u - m * row[-1] + own - out
                for u, m, own, out in zip(row[:-1], mu, mean, removed, strict=True)
            ]
            for row in both
        ]
        _put(scores, nodes, values)
    return scores


def poisson(graph: Graph, labels: Labels) -> Rows:
    """(H1) on each component; classes without label there below all others."""
    scores = _everywhere(graph, _mean(exact_targets(labels)))
    absent, reached = [], []
    for nodes, on_labels in components(graph, labels):
        degree = [row[place] for place, row in enumerate(laplacian(graph, nodes, Fraction(1)))]
        matrix = laplacian(graph, nodes, Fraction(1))
        right = _on_nodes(nodes, centred(on_labels))
        if len(nodes) > 1:  # one equation follows from the others: (H1) has its own in its place
            matrix[-1], right[-1] = degree, [Fraction(0)] * labels.n_classes
            _put(scores, nodes, solved(matrix, right))
        else:
            _put(scores, nodes, right)
        present = [total > 0 for total in _sums(list(on_labels.values()))]
        absent += [(node, k) for node in nodes for k, is_in in enumerate(present) if not is_in]
        reached += list(nodes)
    largest = max(abs(value) for node in reached for value in scores[node]) or Fraction(1)
    for node, k in absent:
        scores[node][k] = -largest
    return scores


def posterior_variance(graph: Graph, labels: Targets, kappa: Fraction) -> list[Fraction | None]:
    """The diagonal of (L + I_S / kappa)^-1 (C2), labels the ground for 0; None out of reach."""
    found: list[Fraction | None] = [None] * graph.n_nodes
    for nodes, on_labels in components(graph, labels):
        size = range(len(nodes))
        matrix = laplacian(graph, nodes, Fraction(1))
        unit = [[Fraction(i == j) for j in size] for i in size]
        for place in on_labels:
            if kappa:
                matrix[place][place] += 1 / kappa
            else:
                matrix[place], unit[place] = unit[place], [Fraction(0)] * len(nodes)
        for place, row in enumerate(solved(matrix, unit)):
            found[nodes[place]] = row[place]
    return found


def exact_targets(labels: Targets) -> Rows:
    return [[Fraction(value) for value in row] for row in labels.targets().tolist()]


def _mean(rows: Rows) -> list[Fraction]:
    return [total / len(rows) for total in _sums(rows)]


def _sums(rows: Rows) -> list[Fraction]:
    return [sum(column, Fraction(0)) for column in zip(*rows, strict=True)]


def centred(on_labels: dict[int, list[Fraction]]) -> dict[int, list[Fraction]]:
    mean = _mean(list(on_labels.values()))
    return {
        place: [value - m for value, m in zip(row, mean, strict=True)]
        for place, row in on_labels.items()
    }


def _everywhere(graph: Graph, row: list[Fraction]) -> Rows:
    return [list(row) for _ in range(graph.n_nodes)]


def _put(scores: Rows, nodes: IntArray, values: Rows) -> None:
    for node, row in zip(nodes, values, strict=True):
        scores[node] = list(row)


def _on_nodes(nodes: IntArray, on_labels: dict[int, list[Fraction]]) -> Rows:
    zeros = [Fraction(0)] * len(next(iter(on_labels.values())))
    return [list(on_labels.get(place, zeros)) for place in range(len(nodes))]


def components(
    graph: Graph, labels: Targets
) -> Iterator[tuple[IntArray, dict[int, list[Fraction]]]]:
    """Nodes of each component with labels, and its targets by place among them."""
    row = dict(zip(labels.nodes.tolist(), exact_targets(labels), strict=True))
    for number in np.unique(graph.component[labels.nodes]):
        nodes = np.flatnonzero(graph.component == number).tolist()
        yield nodes, {place: row[node] for place, node in enumerate(nodes) if node in row}


def laplacian(graph: Graph, nodes: IntArray, scale: Fraction) -> Rows:
    """``scale`` times the Laplacian (A1) of a component; degrees are not the graph's floats."""
    block = graph.adjacency[nodes][:, nodes].toarray().tolist()
    matrix = [[-scale * Fraction(weight) for weight in row] for row in block]
    for place, row in enumerate(matrix):
        row[place] = -sum(row)
    return matrix


def shifted(matrix: Rows, on_labels: dict[int, list[Fraction]]) -> Rows:
    for place in on_labels:
        matrix[place][place] += 1
    return matrix


def solved(matrix: Rows, right: Rows) -> Rows:
    """Gaussian elimination, and back substitution: all of Gauss-Jordan's fractions are longer."""
    n = len(matrix)
    rows = [list(row) + list(more) for row, more in zip(matrix, right, strict=True)]
    for k in range(n):
        pivot = next(i for i in range(k, n) if rows[i][k])
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for i in range(k + 1, n):
            if rows[i][k]:
                factor = rows[i][k] / rows[k][k]
                rows[i] = [
                    a - factor * b if b else a for a, b in zip(rows[i], rows[k], strict=True)
                ]
    for k in reversed(range(n)):
        for i in range(k + 1, n):
            if factor := rows[k][i]:
                rows[k][n:] = [
                    a - factor * b for a, b in zip(rows[k][n:], rows[i][n:], strict=True)
                ]
        rows[k][n:] = [value / rows[k][k] for value in rows[k][n:]]
    return [row[n:] for row in rows]


def is_semidefinite(matrix: Rows) -> bool:
    """Whether a symmetric matrix has no negative eigenvalue, by its pivots."""
    rows = [list(row) for row in matrix]
    for k, row in enumerate(rows):
        if row[k] < 0 or (row[k] == 0 and any(row[k:])):
            return False
        for later in rows[k + 1 :]:
            if row[k] and later[k]:
                factor = later[k] / row[k]
                later[k:] = [a - factor * b for a, b in zip(later[k:], row[k:], strict=True)]
    return True
