"""How well densities of personalized PageRank on a graph predict labels left out.

One column for each class and fold: the labels of the class outside the fold. Labels of the fold are
predicted by them, so that no label speaks for itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.walks.personalized_pagerank import PersonalizedPageRank
from peewit.solvers.models.auto.auto import BELIEFS
from peewit.solvers.models.auto.preparation import indicators, width_of
from peewit.solvers.models.auto.stacked_arm import StackedArm, log_odds
from peewit.solvers.models.auto.stacking import SharePrior, fitted_stack
from peewit.solvers.models.left_out.label_groups import LabelGroups
from peewit.solvers.row_ranges import Parallel

TELEPORT: Final = 0.1
"""Teleport probability: longer walks predict left-out labels less well, also where edges join two
kinds of nodes, and take more steps."""

_RTOL: Final = 1e-2
_EVERYWHERE: Final = 0.3
"""Added to densities, in units of a walk from anywhere, as `auto` does (K6)."""

_RARE: Final = 0.5
"""A class is rare whose share of the labels is below this part of an even share."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeftOutLabels:
    """Labels dealt to folds, ready to be predicted on any graph of their nodes."""

    labels: Labels
    fold: Int64Array  # (n_labeled,), -1 for the only label of a class
    n_folds: int
    shares: SharePrior

    @classmethod
    def of(cls, labels: Labels, n_nodes: int) -> "LeftOutLabels":
        """In the folds of `auto`, which do not depend on the other labels."""
        groups = LabelGroups.of(labels, n_nodes)
        return cls(
            labels=labels,
            fold=groups.fold,
            n_folds=groups.n_folds,
            shares=SharePrior.of(labels.classes, labels.n_classes),
        )

    @property
    def used(self) -> Int64Array:
        """Places of the labels that are left out once each."""
        return np.flatnonzero(self.fold >= 0)

    def log_odds(self, pagerank: PersonalizedPageRank, watch: Watch) -> FloatArray:
        """(n_labeled, n_classes) log odds of left-out labels; others are nan."""
        labels, n_classes = self.labels, self.labels.n_classes
        densities = np.full((labels.n_labeled, n_classes), np.nan)
        pairs = [divmod(column, n_classes) for column in range(self.n_folds * n_classes)]
        sources = [
            labels.nodes[(self.fold != fold) & (labels.classes == each)] for fold, each in pairs
        ]
        for column, mass in _densities(pagerank, sources, watch):
            fold, each = pairs[column]
            own = np.flatnonzero(self.fold == fold)
            densities[own, each] = mass[labels.nodes[own]]
        return np.asarray(log_odds(densities, _EVERYWHERE))

    def log_odds_of_nodes(self, pagerank: PersonalizedPageRank, watch: Watch) -> FloatArray:
        """(n_nodes, n_classes) log odds of all nodes by all labels."""
        labels = self.labels
        densities = np.empty((pagerank.n_nodes, labels.n_classes))
        sources = [labels.nodes[labels.classes == each] for each in range(labels.n_classes)]
        for each, mass in _densities(pagerank, sources, watch):
            densities[:, each] = mass
        return np.asarray(log_odds(densities, _EVERYWHERE))

    def rare_classes(self) -> Int64Array:
        """Classes that few labels have."""
        counts = np.bincount(self.labels.classes[self.used], minlength=self.labels.n_classes)
        even = counts.sum() / max(self.labels.n_classes, 1)
        return np.flatnonzero((counts > 1) & (counts < _RARE * even))


def _densities(
    pagerank: PersonalizedPageRank, sources: Sequence[Int64Array], watch: Watch
) -> Iterator[tuple[int, FloatArray]]:
    """Each place in ``sources`` and the density of its nodes at every node, (K6).

    vol / n_k sum_{j in k} P_ij / sqrt(d_i d_j).
    """
    root = pagerank.inverse_root / np.median(pagerank.inverse_root)
    volume = float((1.0 / np.square(root)).sum())
    width = width_of(pagerank.n_nodes)
    for first in range(0, len(sources), width):
        some = list(sources[first : first + width])
        block = indicators(some, pagerank.n_nodes, np.float32)
        block *= root[:, None]
        filtered = pagerank.filtered(block, TELEPORT, rtol=_RTOL, watch=watch)
        for place, members in enumerate(some):
            yield first + place, volume * root * filtered[:, place] / members.size


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judgement:
    """What left-out labels, in their order, say of one graph."""

    values: FloatArray  # (n_used, n_classes) log odds
    log_losses: FloatArray  # (n_used,) after a fit
    losses: FloatArray  # and of labels of rare classes minus the log precision at their rank
    precision: float  # mean of these precisions; nan without rare classes

    @property
    def loss(self) -> float:
        """Mean log loss."""
        return float(self.log_losses.mean())

    @property
    def total(self) -> float:
        """Sum of the losses."""
        return float(self.losses.sum())


def judged(
    left_out: LeftOutLabels, graph: Graph, watch: Watch, parallel: Parallel = map
) -> Judgement:
    """Losses of log odds with one weight and intercepts fitted to them; raises `RunStopped`."""
    values = left_out.log_odds(PersonalizedPageRank.of_graph(graph, parallel), watch)
    labels, used = left_out.labels, left_out.used
    classes = labels.classes[used]
    probabilities = fitted_stack(
        {"density": StackedArm(values=values, left_out=values)},
        labels.classes,
        left_out.shares,
        {name: BELIEFS[name] for name in ("density", "majority")},
        used,
        None,
        covariate_mass=0.0,
    ).left_out
    log_losses = -np.log(probabilities[np.arange(used.size), classes])
    losses, precisions = log_losses.copy(), []
    for rare in left_out.rare_classes():
        is_rare = classes == rare
        precisions.append(precisions_of(probabilities[:, rare], is_rare))
        losses[is_rare] -= np.log(precisions[-1])
    precision = float(np.mean([each.mean() for each in precisions])) if precisions else np.nan
    return Judgement(values=values[used], log_losses=log_losses, losses=losses, precision=precision)


def precisions_of(scores: FloatArray, is_of_class: BoolArray) -> FloatArray:
    """(n_of_class,) share of the class among the nodes ranked as high; equal scores share ranks."""
    own = scores[is_of_class]
    above = np.sort(scores), np.sort(own)
    n_all, n_own = (each.size - np.searchsorted(each, own, side="left") for each in above)
    return np.asarray(n_own / n_all)


def agreement(left: Judgement, right: Judgement) -> float:
    """Cosine of two sets of log odds; nan where one says nothing."""
    norm = float(np.linalg.norm(left.values) * np.linalg.norm(right.values))
    return float(np.sum(left.values * right.values)) / norm if norm > 0 else float("nan")
