"""Silence: a warning where the arms say no more of labels left out than class shares alone."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from peewit.solvers.labels import Labels
from peewit.solvers.solution import Advice, Advised, Solution

SILENT: Final = 0.5
"""Belief in the majority from which on the arms have said nothing."""

SAY_NOTHING: Final = "say nothing"
"""Part of the warning by which others know that it was given."""

_COMMON_SHARE: Final = 0.75


def silence_warnings(solution: Solution, labels: Labels) -> Iterator[Advised]:
    """One where class shares are believed as much as all arms together, and one class takes all."""
    if float(solution.stats.get("belief_majority", 0.0)) < SILENT:
        return
    predicted = np.bincount(solution.classes()[solution.reachable], minlength=labels.n_classes)
    place = int(predicted.argmax())
    if predicted[place] < predicted.sum():
        return
    who = "the edges" if solution.of_features is None else "edges and features"
    ways: tuple[Advice, ...] = ("label more", "other model")
    if labels.class_prior().max() >= _COMMON_SHARE:
        ways = ("threshold", *ways)
    yield Advised(
        f"{who} {SAY_NOTHING} about these labels, so every node gets the commonest class, "
        f"{labels.class_names[place]!r}. Nodes are ranked by what {who} say, but hardly "
        "better than by chance",
        *ways,
    )
