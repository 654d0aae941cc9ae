"""Penalties of norm and graph by labels left out."""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.labels import Labels, deal_folds
from peewit.solvers.models.contract.point_model import Stats
from peewit.solvers.models.machines.kernel_machine import DEFAULT_NORM

Penalties: TypeAlias = tuple[float, float]
"""Of the norm and of the graph."""

LeftOut: TypeAlias = Callable[[Penalties, Labels, Int64Array], FloatArray]
"""(n_labeled, n_classes) scores of labels by those of the other folds, with some penalties."""

GRAPH_PENALTIES: Final = (1.0, 10.0, 0.1, 100.0, 1_000.0)
NORMS: Final = (DEFAULT_NORM, 1e-4, 1e-6)
"""To choose from; the first ones win ties."""

_MAX_FOLDS: Final = 5
_MAX_LABELS: Final = 500
"""Labels that choose; more cost their square for each pair of penalties."""


def choose_penalties(
    pairs: Sequence[Penalties], labels: Labels, left_out: LeftOut, stats: Stats, *, seed: int
) -> Penalties | None:
    """The pair that predicts left-out labels, or None where no label can be left out.

    Another one than the first is taken if it is right at more left-out labels by more than the root
    of the number on which the two differ. Of many labels some choose, drawn evenly from the
    classes. The stats hold how many are right, and of how many.
    """
    n_groups = max(1, round(labels.n_labeled / _MAX_LABELS))
    if n_groups > 1:
        group, _ = deal_folds(labels, n_groups, seed)
        labels = labels.subset(np.flatnonzero(group <= 0))
    n_folds = min(_MAX_FOLDS, labels.n_usable)
    if n_folds < 2:
        return None
    fold, _ = deal_folds(labels, n_folds, seed)
    is_out = fold >= 0
    is_right = [
        (left_out(pair, labels, fold).argmax(axis=1) == labels.classes)[is_out] for pair in pairs
    ]
    n_right = [np.count_nonzero(hits) for hits in is_right]
    best = int(np.argmax(n_right))
    n_differing = np.count_nonzero(is_right[best] != is_right[0])
    if n_right[best] - n_right[0] <= np.sqrt(n_differing):
        best = 0
    stats["loo_accuracy"] = float(is_right[best].mean())
    stats["loo_labels"] = int(np.count_nonzero(is_out))
    return pairs[best]
