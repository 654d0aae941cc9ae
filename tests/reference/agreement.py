"""Agreement as its definitions say it: pairs counted one by one."""

from collections.abc import Hashable, Sequence
from fractions import Fraction
from itertools import permutations

Answer = Hashable | None


def kappa(first: Sequence[Answer], second: Sequence[Answer]) -> Fraction | None:
    """Cohen's kappa of two people, where both have answered; None where it is not defined."""
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if None not in {a, b}]
    n, classes = len(pairs), {each for pair in pairs for each in pair}
    observed = Fraction(sum(a == b for a, b in pairs), n)
    by_chance = sum(
        Fraction(sum(a == each for a, _ in pairs), n)
        * Fraction(sum(b == each for _, b in pairs), n)
        for each in classes
    )
    return None if by_chance == 1 else (observed - by_chance) / (1 - by_chance)


def alpha(nodes: Sequence[Sequence[Answer]]) -> Fraction | None:
    """Krippendorff's alpha of classes, by the matrix of coincidences; None where not defined."""
    coincidences: dict[tuple[Answer, Answer], Fraction] = {}
    for node in nodes:
        answers = [each for each in node if each is not None]
        for pair in permutations(answers, 2):
            share = Fraction(1, len(answers) - 1)
            coincidences[pair] = coincidences.get(pair, Fraction(0)) + share
    totals: dict[Answer, Fraction] = {}
    for (a, _), many in coincidences.items():
        totals[a] = totals.get(a, Fraction(0)) + many
    n = sum(totals.values())
    observed = sum(many for (a, b), many in coincidences.items() if a != b) / n
    expected = (
        sum(totals[a] * totals[b] for a in totals for b in totals if a != b) / (n * (n - 1))
        if n > 1
        else Fraction(0)
    )
    return None if expected == 0 else 1 - observed / expected
