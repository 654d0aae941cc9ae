"""How well densities of personalized PageRank on a graph predict labels left out.

One column for each class and fold: the labels of the class outside the fold. Labels of the fold are
predicted by them, so that no label speaks for itself.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.labels import Labels
from peewit.solvers.laplacian.walks.personalized_pagerank import PersonalizedPageRank
from peewit.solvers.models.auto.auto import BELIEFS
from peewit.solvers.models.auto.stacked_arm import StackedArm, log_odds
from peewit.solvers.models.auto.stacking import SharePrior, fitted_stack
from peewit.solvers.models.left_out.label_groups import LabelGroups
from peewit.solvers.row_ranges import Parallel

TELEPORT: Final = 0.05
"""Teleport probability, that of the density arm of `auto`: ten steps there and back where edges
join two kinds of nodes."""

_RTOL: Final = 1e-2
_EVERYWHERE: Final = 0.3
"""Added to densities, in units of a walk from anywhere, as `auto` does (K6)."""

_RARE: Final = 0.5
"""A class is rare whose share of the labels is below this part of an even share."""

_FIRST_LABELS: Final = 12
"""Fewest labels of the first folds, on which a combination may lose; then others are not asked."""

_CLEARLY: Final = 2.0
"""Standard errors that are allowed for when it loses."""

_LOSS_OF_BELIEF: Final = 3.0
"""Loss over all labels that leaves a combination a twentieth of the belief of the best."""


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

    def stages(self) -> list[list[int]]:
        """Folds that are judged together: few that tell clear losers, then the others."""
        sizes = np.bincount(self.fold[self.used], minlength=self.n_folds)
        first = int(np.searchsorted(np.cumsum(sizes), _FIRST_LABELS)) + 1
        stages = [list(range(min(first, self.n_folds))), list(range(first, self.n_folds))]
        return [folds for folds in stages if folds]

    def log_odds(
        self, pagerank: PersonalizedPageRank, folds: list[int], watch: Watch
    ) -> FloatArray:
        """(n_labeled, n_classes) log odds of the labels of some folds; others are nan."""
        labels, n_classes = self.labels, self.labels.n_classes
        root = pagerank.inverse_root / np.median(pagerank.inverse_root)
        block = np.zeros((pagerank.n_nodes, len(folds) * n_classes), np.float32)
        counts = np.empty((len(folds), n_classes))
        for place, fold in enumerate(folds):
            others = np.flatnonzero(self.fold != fold)
            nodes, classes = labels.nodes[others], labels.classes[others]
            block[nodes, place * n_classes + classes] = root[nodes]
            counts[place] = np.bincount(classes, minlength=n_classes)
        filtered = pagerank.filtered(block, TELEPORT, rtol=_RTOL, watch=watch)
        values = np.full((labels.n_labeled, n_classes), np.nan)
        volume = float((1.0 / np.square(root)).sum())
        for place, fold in enumerate(folds):
            own = np.flatnonzero(self.fold == fold)
            nodes = labels.nodes[own]
            columns = slice(place * n_classes, (place + 1) * n_classes)
            densities = volume * root[nodes, None] * filtered[nodes, columns] / counts[place]
            values[own] = log_odds(densities, _EVERYWHERE)
        return values

    def rare_classes(self) -> Int64Array:
        """Classes that few labels have."""
        counts = np.bincount(self.labels.classes[self.used], minlength=self.labels.n_classes)
        even = counts.sum() / max(self.labels.n_classes, 1)
        return np.flatnonzero((counts > 1) & (counts < _RARE * even))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judgement:
    """What left-out labels say of one graph."""

    values: FloatArray  # (n_labeled, n_classes) log odds; nan of labels that were not predicted
    log_losses: FloatArray  # (n_labeled,) after a fit; nan of the same
    losses: FloatArray  # and of labels of rare classes minus the log precision at their rank
    precision: float  # mean of these precisions; nan without rare classes
    is_whole: bool  # whether all labels were predicted: it did not clearly lose on some

    @property
    def loss(self) -> float:
        """Mean log loss."""
        return float(np.nanmean(self.log_losses))

    @property
    def total(self) -> float:
        """Sum of the losses; infinite unless all labels were predicted."""
        return float(np.nansum(self.losses)) if self.is_whole else np.inf


def judged(
    left_out: LeftOutLabels,
    graph: Graph,
    best: Judgement | None,
    watch: Watch,
    parallel: Parallel = map,
) -> Judgement:
    """The judgement of a graph, cut short where it clearly loses to ``best``.

    Raises `RunStopped`.
    """
    pagerank = PersonalizedPageRank.of_graph(graph, parallel)
    values = np.full((left_out.labels.n_labeled, left_out.labels.n_classes), np.nan)
    stages = left_out.stages()
    for place, folds in enumerate(stages):
        own = np.isin(left_out.fold, folds)
        values[own] = left_out.log_odds(pagerank, folds, watch)[own]
        is_last = place == len(stages) - 1
        judgement = _fitted(left_out, values, is_whole=is_last)
        if best is not None and _clearly_loses(judgement.losses, best.losses):
            break
    return judgement


def _fitted(left_out: LeftOutLabels, values: FloatArray, *, is_whole: bool) -> Judgement:
    """Losses of the labels that were predicted, with one weight and intercepts fitted to them."""
    labels = left_out.labels
    used = np.flatnonzero(np.isfinite(values).all(axis=1))
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
    log_losses = np.full(labels.n_labeled, np.nan)
    log_losses[used] = -np.log(probabilities[np.arange(used.size), classes])
    losses, precisions = log_losses.copy(), []
    for rare in left_out.rare_classes():
        is_rare = classes == rare
        if is_rare.any():
            precisions.append(precisions_of(probabilities[:, rare], is_rare))
            losses[used[is_rare]] -= np.log(precisions[-1])
    return Judgement(
        values=values.copy(),
        log_losses=log_losses,
        losses=losses,
        precision=float(np.mean([each.mean() for each in precisions])) if precisions else np.nan,
        is_whole=is_whole,
    )


def precisions_of(scores: FloatArray, is_of_class: BoolArray) -> FloatArray:
    """(n_of_class,) share of the class among the nodes ranked as high; equal scores share ranks."""
    own = scores[is_of_class]
    above = np.sort(scores), np.sort(own)
    n_all, n_own = (each.size - np.searchsorted(each, own, side="left") for each in above)
    return np.asarray(n_own / n_all)


def _clearly_loses(losses: FloatArray, best: FloatArray) -> bool:
    """Whether over all labels the losses would exceed those of the best by enough, very likely."""
    gaps = losses - best
    n_labels = np.count_nonzero(np.isfinite(best))
    gaps = gaps[np.isfinite(gaps)]
    if gaps.size < 2:
        return False
    least = gaps.mean() - _CLEARLY * gaps.std(ddof=1) / np.sqrt(gaps.size)
    return bool(n_labels * least > _LOSS_OF_BELIEF)


def agreement(left: FloatArray, right: FloatArray) -> float:
    """Cosine of log odds of the labels that both predict; nan where one says nothing."""
    both = np.isfinite(left).all(axis=1) & np.isfinite(right).all(axis=1)
    norm = np.linalg.norm(left[both]) * np.linalg.norm(right[both])
    return float(np.sum(left[both] * right[both]) / norm) if norm > 0 else float("nan")
