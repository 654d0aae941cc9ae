"""Twins of the models that cut and walk, in exact integers: fractions of one power of two.

Weights are exact; quotients are cut off after thousands of binary places, far below what a weight
of 1e-60 does in a dozen steps. What is nearer than `TIE` of a node's largest is a tie.
"""

from fractions import Fraction
from math import log

import numpy as np

from peewit.solvers.graph import Graph
from peewit.solvers.labels import Labels
from peewit.solvers.models.harmonic.harmonic import even_penalty
from tests.reference import rational

PLACES = 6_000
ONE = 1 << PLACES
TIE = 1e-9

Block = list[list[int]]


class Tie(Exception):
    """Rounding may decide what the twin does next: whatever follows is right."""


def harmonic_mbo(
    graph: Graph, labels: Labels, *, n_rounds: int = 9, walk_length: int = 10, min_kept: float = 0.8
) -> list[int]:
    """Classes of soft HFS by contrasts, then walks that are undone where they harm (H.2).

    Raises
    ------
    Tie
        Two classes of a node are as good, a walk ends where its limit is, or a partition is nearly
        as bad as one that is undone.
    """
    lengths = [-(-walk_length // (3 * number // n_rounds + 1)) for number in range(n_rounds)]
    first = _contrasted(graph, labels)
    return _walked(graph, labels, first, lengths, min_kept, undoes=True)


def _walked(
    graph: Graph,
    labels: Labels,
    classes: list[int],
    lengths: list[int],
    min_kept: float,
    *,
    undoes: bool = False,
) -> list[int]:
    """Classes after a round of walks of each length, stopped at labels."""
    passed_over = 0
    reached = [
        int(i) for i in np.flatnonzero(np.isin(graph.component, graph.component[labels.nodes]))
    ]
    held = dict(zip(labels.nodes.tolist(), labels.classes.tolist(), strict=True))
    walk = _walk(graph)
    for length in lengths:
        if length == passed_over:
            continue
        before = classes
        chance = Fraction(0)
        counts = np.bincount([classes[i] for i in reached], minlength=labels.n_classes)
        for count in counts.tolist():
            chance += Fraction(count, len(reached)) ** 2
        least = chance + Fraction(min_kept) * (1 - chance)
        shares = _one_hot(classes, labels.n_classes)
        for _ in range(length):
            shares = [
                shares[i] if i in held else _combined(walk[i], shares, labels.n_classes)
                for i in range(graph.n_nodes)
            ]
            kept = Fraction(sum(shares[i][classes[i]] for i in reached), ONE * len(reached))
            if abs(kept - least) < Fraction(1, 10**5):
                raise Tie
            if kept < least:
                break
        for i in reached:
            best = max(range(labels.n_classes), key=shares[i].__getitem__)
            better = Fraction(shares[i][best] - shares[i][classes[i]], ONE)
            second = max((shares[i][k] for k in range(labels.n_classes) if k != best), default=0)
            if best != classes[i] and (
                abs(better - Fraction(1e-5)) < Fraction(1, 10**6)
                or shares[i][best] - second < ONE // 10**6
            ):
                raise Tie
            if better > Fraction(1e-5):
                classes = [*classes[:i], best, *classes[i + 1 :]]
        if not undoes:
            continue
        gain = _evidence(graph, reached, classes) - _evidence(graph, reached, before)
        if abs(gain + 1e-5) < 2e-6:
            raise Tie
        if gain < -1e-5:
            classes, passed_over = before, length
    return classes


def _evidence(graph: Graph, reached: list[int], classes: list[int]) -> float:
    """(H6), from exact sums of weights."""
    adjacency = graph.adjacency.toarray()
    weight = [[Fraction(float(adjacency[i, j])) for j in reached] for i in reached]
    total = sum(map(sum, weight))
    if total == 0:
        return 0.0
    own = [classes[i] for i in reached]
    part: dict[int, Fraction] = {}
    kept = Fraction(0)
    for k, row in zip(own, weight, strict=True):
        part[k] = part.get(k, Fraction(0)) + sum(row) / total
        kept += sum(w for other, w in zip(own, row, strict=True) if other == k) / total
    apart = 1 - sum(share**2 for share in part.values())
    if abs(apart - Fraction(1e-5)) < Fraction(1, 10**6):
        raise Tie
    if apart <= Fraction(1e-5):
        return 0.0
    pairs = (kept, 1 - apart), (1 - kept, apart)
    return sum(float(p) * log(p / q) for p, q in pairs if p > 0)


def _contrasted(graph: Graph, labels: Labels) -> list[int]:
    """Classes of the largest contrast of soft HFS; labels keep theirs."""
    scores = rational.hfs(graph, labels, even_penalty(labels, graph))
    classes = [0] * graph.n_nodes
    held = dict(zip(labels.nodes.tolist(), labels.classes.tolist(), strict=True))
    for number in np.unique(graph.component[labels.nodes]):
        nodes = np.flatnonzero(graph.component == number).tolist()
        degree = [
            row[place] for place, row in enumerate(rational.laplacian(graph, nodes, Fraction(1)))
        ]
        if sum(degree) == 0:
            degree = [Fraction(1)] * len(nodes)
        counts = [sum(held.get(i) == k for i in nodes) for k in range(labels.n_classes)]
        total = sum(degree)
        columns = range(labels.n_classes)
        mean = [
            sum(d * scores[i][k] for d, i in zip(degree, nodes, strict=True)) / total
            for k in columns
        ]
        variance = (
            sum(
                d * (scores[i][k] - mean[k]) ** 2
                for d, i in zip(degree, nodes, strict=True)
                for k in columns
            )
            / total
        )
        spread = sum(m * (1 - m) for m in mean)
        decided = min(max(variance / spread, Fraction(0)), Fraction(1)) if spread else Fraction(1)
        wanted = [Fraction(c + 1, sum(counts) + labels.n_classes) for c in counts]
        for i in nodes:
            if i in held:
                classes[i] = held[i]
                continue
            row = [
                (decided * m + (1 - decided) * w)
                * ((scores[i][k] / m if m else Fraction(0)) - (1 - decided))
                for k, (m, w) in enumerate(zip(mean, wanted, strict=True))
            ]
            classes[i] = _winner(row)
    return classes


def poisson_mbo(
    graph: Graph, labels: Labels, *, n_outer: int = 10, n_inner: int = 40, min_kept: float = 0.8
) -> list[int]:
    """Classes of Poisson learning, then walks, at free sizes (section H.1).

    Raises
    ------
    Tie
        Two classes of a node are as good, or a walk ends where its limit is.
    """
    scores = rational.poisson(graph, labels)
    classes = [0] * graph.n_nodes
    for i in np.flatnonzero(np.isin(graph.component, graph.component[labels.nodes])).tolist():
        classes[i] = _winner(scores[i])
    for node, own in zip(labels.nodes.tolist(), labels.classes.tolist(), strict=True):
        classes[node] = own
    parts = [(4, 4, 4, 8, 12)[5 * number // n_outer] for number in range(n_outer)]
    return _walked(graph, labels, classes, [-(-n_inner // part) for part in parts], min_kept)


def _walk(graph: Graph) -> list[dict[int, int]]:
    """Rows of D^-1 A; of an isolated node the identity."""
    rows = []
    for i, row in enumerate(graph.adjacency.toarray().tolist()):
        exact = [Fraction(value) for value in row]
        total = sum(exact)
        rows.append(
            {j: int(value / total * ONE) for j, value in enumerate(exact) if value}
            if total
            else {i: ONE}
        )
    return rows


def _combined(row: dict[int, int], block: Block, n_columns: int) -> list[int]:
    return [
        sum(value * block[j][k] for j, value in row.items()) >> PLACES for k in range(n_columns)
    ]


def _one_hot(classes: list[int], n_classes: int) -> Block:
    return [[ONE * (k == own) for k in range(n_classes)] for own in classes]


def _winner(row: list[Fraction]) -> int:
    best = max(range(len(row)), key=row.__getitem__)
    size = max(abs(value) for value in row)
    if any(k != best and row[best] - value <= TIE * size for k, value in enumerate(row)):
        raise Tie
    return best
