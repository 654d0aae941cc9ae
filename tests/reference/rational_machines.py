"""Twins of the machines and of what they take for points, from their optimality conditions.

Where a root is asked for, it is right to `PLACES` binary places.
"""

from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from math import isqrt

import numpy as np

from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from tests.reference import rational
from tests.reference.rational import Rows

PLACES = 400
DIGITS = 500
ROUNDING = Fraction(1, 10**400)
"""What decimals leave of scores that cancel; scores of labels are about 1."""


def root(value: Fraction) -> Fraction:
    """The square root, to `PLACES` significant binary places."""
    if value == 0:
        return value
    shift = 2 * PLACES + max(0, value.denominator.bit_length() - value.numerator.bit_length())
    shift += shift % 2
    return Fraction(isqrt((value.numerator << shift) // value.denominator), 1 << (shift // 2))


def embedded_gram(graph: Graph) -> Rows:
    """Inner products of the points of the spectral embedding, all of its dimensions."""
    gram = [[Fraction(0)] * graph.n_nodes for _ in range(graph.n_nodes)]
    for number in range(graph.n_components):
        nodes = np.flatnonzero(graph.component == number).tolist()
        if len(nodes) == 1:
            continue
        matrix = rational.laplacian(graph, nodes, Fraction(1))
        degree = [row[place] for place, row in enumerate(matrix)]
        volume = sum(degree)
        size = range(len(nodes))
        right = [[Fraction(i == j) - degree[i] / volume for j in size] for i in size]
        matrix[-1], right[-1] = degree, [Fraction(0)] * len(nodes)
        for i, row in zip(nodes, rational.solved(matrix, right), strict=True):
            for j, value in zip(nodes, row, strict=True):
                gram[i][j] = value
    return gram


def gaussian_kernel(gram: Rows) -> Rows:
    """exp(-d^2 / (2 width^2)) at 0.7 of the mean distance, each to the last digits of a float."""
    n = len(gram)
    squares = [[gram[i][i] + gram[j][j] - 2 * gram[i][j] for j in range(n)] for i in range(n)]
    total = sum(root(max(value, Fraction(0))) for row in squares for value in row)
    width = Fraction(0.7) * total / (n * (n - 1)) if total else Fraction(1)
    return [
        [Fraction(float(np.exp(-0.5 * float(value / width**2)))) for value in row]
        for row in squares
    ]


def iterated_laplacian(graph: Graph, name: str, power: int) -> Rows:
    """(A2), (A3): the normalized or combinatorial Laplacian to a power."""
    once = rational.laplacian(graph, list(range(graph.n_nodes)), Fraction(1))
    if name == "normalized":
        inverse = [1 / root(row[i]) if row[i] else Fraction(0) for i, row in enumerate(once)]
        once = [
            [value * a * b for value, b in zip(row, inverse, strict=True)]
            for row, a in zip(once, inverse, strict=True)
        ]
    matrix = once
    for _ in range(power - 1):
        matrix = _times(matrix, once)
    return matrix


def kernel_machine(
    graph: Graph,
    labels: Labels,
    near: np.ndarray,
    *,
    norm_penalty: float = 0.01,
    graph_penalty: float = 0.0,
    laplacian: str = "normalized",
    power: int = 2,
    is_hinge: bool,
) -> Rows:
    """Class scores by (E12), or by (E7) with the active labels of ``near`` tried first."""
    kernel = gaussian_kernel(embedded_gram(graph))
    n = graph.n_nodes
    matrix = [[Fraction(norm_penalty) * (i == j) for j in range(n)] for i in range(n)]
    if graph_penalty:
        smooth = _times(iterated_laplacian(graph, laplacian, power), kernel)
        matrix = [
            [a + Fraction(graph_penalty) * b for a, b in zip(*rows, strict=True)]
            for rows in zip(matrix, smooth, strict=True)
        ]
    columns = []
    for target, own in _one_against_rest(labels, near):
        for active in _active_sets(target, own) if is_hinge else [set(target)]:
            whole = [list(row) for row in matrix]
            for node in active:
                whole[node] = [a + b for a, b in zip(whole[node], kernel[node], strict=True)]
            right = [[Fraction(target[i]) if i in active else Fraction(0)] for i in range(n)]
            found = (row[0] for row in _times(kernel, _in_decimals(whole, right)))
            values = [value if abs(value) > ROUNDING else Fraction(0) for value in found]
            if not is_hinge or all((target[i] * values[i] < 1) == (i in active) for i in target):
                break
        else:
            raise AssertionError("no active set is consistent")
        columns.append(values)
    return _class_scores(columns)


def free_squares(
    graph: Graph, labels: Labels, *, graph_penalty: float, label_weight: float, ridge: float
) -> Rows:
    """Lap-RLS without a norm (G2), above class means of more than two classes."""
    matrix = _penalty(graph, graph_penalty, ridge)
    base = [Fraction(value) for value in labels.class_prior().tolist()]
    right = [[Fraction(0)] * labels.n_classes for _ in matrix]
    for node, own in zip(labels.nodes.tolist(), labels.classes.tolist(), strict=True):
        matrix[node][node] += Fraction(label_weight)
        right[node] = [Fraction(label_weight) * ((k == own) - b) for k, b in enumerate(base)]
    if labels.n_classes > 2:
        return [
            [value + b for value, b in zip(row, base, strict=True)]
            for row in rational.solved(matrix, right)
        ]
    signed = [[Fraction(0)] for _ in matrix]
    for node, own in zip(labels.nodes.tolist(), labels.classes.tolist(), strict=True):
        signed[node] = [Fraction(label_weight) * (1 if own else -1)]
    return _class_scores([[row[0] for row in rational.solved(matrix, signed)]])


def hinges(
    graph: Graph, labels: Labels, *, graph_penalty: float, label_weight: float, ridge: float
) -> Iterator[Rows]:
    """Lap-SVM of two classes without a norm (G4), b free: class scores at each end of b.

    The labels are outside, at or inside the margin: the way that meets all conditions is right.
    """
    matrix = _penalty(graph, graph_penalty, ridge)
    nodes = labels.nodes.tolist()
    signs = [Fraction(1 if own else -1) for own in labels.classes.tolist()]
    n, mu, size = graph.n_nodes, Fraction(label_weight), len(nodes)
    unit = [[Fraction(i == node) for node in nodes] for i in range(n)]
    spread = rational.solved(matrix, unit)  # one column for each label's force
    kernel = [spread[node] for node in nodes]
    for kinds in product((0, 1, 2), repeat=size):  # no force, some force at the margin, all of it
        own = [i for i in range(size) if kinds[i] == 1]
        fixed = [mu * signs[i] * (kinds[i] == 2) for i in range(size)]
        known = [sum(k * f for k, f in zip(row, fixed, strict=True)) for row in kernel]
        if own:
            rows = [[kernel[i][j] for j in own] + [Fraction(1)] for i in own]
            rows.append([Fraction(1)] * len(own) + [Fraction(0)])
            right = [[signs[i] - known[i]] for i in own] + [[-sum(fixed)]]
            try:
                answer = [row[0] for row in rational.solved(rows, right)]
            except StopIteration:
                continue
            force = list(fixed)
            for i, value in zip(own, answer, strict=False):
                force[i] = value
            intercepts = [answer[-1]]
        else:
            if sum(fixed):
                continue
            force = fixed
            # any b between the bends of the labels
            lows, highs = [], []
            for i in range(size):
                bend = signs[i] - known[i]
                (lows if (kinds[i] == 0) == (signs[i] > 0) else highs).append(bend)
            if not lows or not highs or max(lows) > min(highs):
                continue
            intercepts = [max(lows), min(highs)]
        smooth = [sum(s * f for s, f in zip(row, force, strict=True)) for row in spread]
        met = all(0 <= signs[i] * force[i] <= mu for i in range(size))
        for b in intercepts:
            margins = [1 - signs[i] * (smooth[nodes[i]] + b) for i in range(size)]
            met &= all(
                (margin <= 0) if kind == 0 else (margin == 0) if kind == 1 else (margin >= 0)
                for margin, kind in zip(margins, kinds, strict=True)
            )
        if met:
            for b in intercepts:
                yield _class_scores([[value + b for value in smooth]])


def hinges_on_simplex(
    graph: Graph,
    labels: Labels,
    near: np.ndarray,
    *,
    graph_penalty: float,
    label_weight: float,
    ridge: float,
) -> Rows:
    """Lap-SVM of more classes without a norm: hinges of shares are linear, the simplex is not.

    Entries of ``near`` that are almost 0 are held there; those that pull away are let go and those
    that fall below 0 held, until all conditions are met.
    """
    penalty = _penalty(graph, graph_penalty, ridge)
    n, n_classes = graph.n_nodes, labels.n_classes
    base = [Fraction(value) for value in labels.class_prior().tolist()]
    pulls = [[-sum(row) * b for b in base] for row in penalty]  # the penalty is of f - base
    pulls = [[-value for value in row] for row in pulls]
    for node, own in zip(labels.nodes.tolist(), labels.classes.tolist(), strict=True):
        pulls[node][own] += 4 * Fraction(label_weight)
    held = {(i, k) for i, k in product(range(n), range(n_classes)) if near[i, k] < 1e-6}
    for _ in range(500):
        free = [(i, k) for i, k in product(range(n), range(n_classes)) if (i, k) not in held]
        place = {entry: number for number, entry in enumerate(free)}
        size = len(free) + n
        rows = [[Fraction(0)] * size for _ in range(size)]
        right = [[Fraction(0)] for _ in range(size)]
        for number, (i, k) in enumerate(free):
            for j in range(n):
                if (j, k) in place and penalty[i][j]:
                    rows[number][place[j, k]] = penalty[i][j]
            rows[number][len(free) + i] = rows[len(free) + i][number] = Fraction(1)
            right[number] = [pulls[i][k]]
        for i in range(n):
            right[len(free) + i] = [Fraction(1)]
        answer = [row[0] for row in rational.solved(rows, right)]
        values = [[Fraction(0)] * n_classes for _ in range(n)]
        for (i, k), value in zip(free, answer, strict=False):
            values[i][k] = value
        below = {entry for entry in free if values[entry[0]][entry[1]] < 0}
        if below:
            held |= below
            continue
        slopes = {
            (i, k): sum(penalty[i][j] * values[j][k] for j in range(n))
            - pulls[i][k]
            + answer[len(free) + i]
            for i, k in held
        }
        worst = min(slopes, key=slopes.__getitem__, default=None)
        if worst is None or slopes[worst] >= 0:
            return values
        held = held - {worst}
    raise AssertionError("no face of the simplex is the right one")


def _penalty(graph: Graph, graph_penalty: float, ridge: float) -> Rows:
    """graph_penalty L in units of the mean degree, and the ridge."""
    nodes = list(range(graph.n_nodes))
    matrix = rational.laplacian(graph, nodes, Fraction(1))
    degree = [row[i] for i, row in enumerate(matrix)]
    unit = sum(degree) / max(1, sum(value > 0 for value in degree)) or Fraction(1)
    scale = Fraction(graph_penalty) / unit
    return [
        [scale * value + Fraction(ridge) * (i == j) for j, value in enumerate(row)]
        for i, row in enumerate(matrix)
    ]


def _one_against_rest(
    labels: Labels, near: np.ndarray
) -> Iterator[tuple[dict[int, int], np.ndarray]]:
    columns = [1] if labels.n_classes == 2 else range(labels.n_classes)
    for k in columns:
        pairs = zip(labels.nodes.tolist(), labels.classes.tolist(), strict=True)
        yield {node: 1 if own == k else -1 for node, own in pairs}, near[:, k]


def _active_sets(target: dict[int, int], own: np.ndarray) -> Iterator[set[int]]:
    yield {i for i, sign in target.items() if sign * own[i] < 1}
    for chosen in product((True, False), repeat=len(target)):
        yield {i for i, is_in in zip(target, chosen, strict=True) if is_in}


def _class_scores(columns: list[list[Fraction]]) -> Rows:
    if len(columns) == 1:
        return [[-value, value] for value in columns[0]]
    return [list(row) for row in zip(*columns, strict=True)]


def _in_decimals(matrix: Rows, right: Rows) -> Rows:
    """`rational.solved` of many digits, where fractions would grow with every step."""
    with localcontext(prec=DIGITS):
        rows, more = (
            [[Decimal(value.numerator) / value.denominator for value in row] for row in part]
            for part in (matrix, right)
        )
        return [[Fraction(value) for value in row] for row in rational.solved(rows, more)]


def _times(left: Rows, right: Rows) -> Rows:
    columns = list(zip(*right, strict=True))
    return [
        [
            sum((a * b for a, b in zip(row, column, strict=True) if a and b), Fraction(0))
            for column in columns
        ]
        for row in left
    ]
