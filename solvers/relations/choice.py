"""The choice of weights of relations by labels that cheap densities predict when left out.

Candidates are two scalings, all relations as they come or of equal volume; each relation alone; and
from the best so far one relation left out or damped, greedily. A candidate's belief (K19) is that
of Bayesian bootstraps of the left-out labels, so that few labels tell little; all candidates that
differ from a scaling by relations have together the prior mass of one scaling, so that many of them
do not win by chance. Densities stand for whole models here: these run on the best two, and say by
the labels that they leave out themselves how much each of both counts.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from peewit.solvers.arrays import Int64Array
from peewit.solvers.graph import LEAST_ORDERED, Graph
from peewit.solvers.iteration_loop import UNWATCHED, Watch
from peewit.solvers.labels import Labels
from peewit.solvers.models.left_out.bootstrapped_beliefs import bootstrapped_beliefs
from peewit.solvers.relations.left_out_densities import Judgement, LeftOutLabels, agreement, judged
from peewit.solvers.relations.relation_graphs import RelationGraphs
from peewit.solvers.relations.weight_texts import weights_text
from peewit.solvers.row_ranges import Parallel

Weights = tuple[float, ...]

AS_THEY_COME: Final = "as they come"
EQUAL_VOLUME: Final = "equal volume"
GIVEN: Final = "given"
_SCALINGS: Final = (AS_THEY_COME, EQUAL_VOLUME)

MOST_CANDIDATES: Final = 12
"""Candidates of several relations; as many relations are judged alone."""

_DAMPED: Final = 0.1

_DIGITS: Final = 3
"""Digits of chosen weights, all of which are told: what is told can be asked for."""

_CLEARLY: Final = 3.0
"""Change of loss over all labels, a factor of 20 of belief, that says where a relation belongs: all
of it or none."""

_WORTH_A_SOLVE: Final = 0.2
"""Mean loss beyond that of the best up to which a second combination is worth a solve: densities
are one arm of several, and tell the losses of whole models no nearer, by however many labels."""

_FEW_CHANGED: Final = 0.1
"""Part of the labels up to which changed ones leave a choice as it is."""

_MANY_CHANGED: Final = 0.5
"""Part of the labels from which an earlier choice is that of other labels, and counts nothing."""

_KEPT_MASS: Final = 4.0
"""Prior mass of what was chosen before: labels must speak against it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """Weights of the relations, and what left-out labels say of them."""

    reading: str  # such as ``equal volume, without message``
    weights: Weights
    loss: float = float("nan")  # mean log loss of left-out labels; nan where none can be left out
    precision: float = float("nan")  # average precision of rare classes; nan where none is rare
    belief: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationReport:
    """What the labels say of one relation; nan of what was not judged."""

    name: str
    weight: float  # in the best combination
    reading: str  # of the weight: `as they come`, `equal volume`, `damped`, `left out` or `given`
    loss_alone: float = float("nan")  # mean log loss of left-out labels by this relation alone
    loss_without: float = float("nan")  # by the others, in the better scaling
    overlap: float = float("nan")  # cosine of what it says alone and what the others say


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RelationChoice:
    """Combinations of relations that models run on, and how they were chosen.

    Iterates over the reports of the relations.
    """

    relations: tuple[RelationReport, ...]
    used: tuple[Combination, ...]  # one or two; beliefs sum to 1, after a solve by whole models
    candidates: tuple[Combination, ...]  # as tried, with beliefs among all; none of given weights
    labels: Labels | None  # that chose

    def __repr__(self) -> str:
        names = [report.name for report in self.relations]
        return f"{type(self).__name__}({weights_text(self.best.weights, names)})"

    def __iter__(self) -> Iterator[RelationReport]:
        return iter(self.relations)

    def __len__(self) -> int:
        return len(self.relations)

    @classmethod
    def given(cls, weights: Weights, names: tuple[str, ...]) -> "RelationChoice":
        """Weights that were asked for."""
        reports = tuple(
            RelationReport(name=name, weight=weight, reading=GIVEN)
            for name, weight in zip(names, weights, strict=True)
        )
        used = (Combination(reading=GIVEN, weights=weights),)
        return cls(relations=reports, used=used, candidates=(), labels=None)

    @property
    def best(self) -> Combination:
        """The combination that densities predict best by."""
        return self.used[0]

    @property
    def stats(self) -> dict[str, float | str]:
        """Entries of a solution's stats: the weights, as they can be asked for, and beliefs."""
        names = [report.name for report in self.relations]
        stats: dict[str, float | str] = {"relations": weights_text(self.best.weights, names)}
        for other in self.used[1:]:
            stats["relations_second"] = weights_text(other.weights, names)
            stats["belief_relations"] = round(self.best.belief, 4)
        return stats

    def is_near(self, labels: Labels) -> bool:
        """Whether few labels are not those that chose."""
        return is_few(self.changed(labels))

    def changed(self, labels: Labels) -> float:
        """Part of the labels that are not those that chose, or are no more."""
        if self.labels is None or self.labels.class_names != labels.class_names:
            return 1.0
        return changed_part(self.labels, labels)


def changed_part(before: Labels, labels: Labels) -> float:
    """Part of the labels of the same classes that are new, changed, or no more."""
    old, new = (
        set(zip(each.nodes.tolist(), each.classes.tolist(), strict=True))
        for each in (before, labels)
    )
    return max(len(old - new), len(new - old)) / max(len(old), len(new), 1)


def equal_volumes(relations: RelationGraphs) -> Weights:
    """Weights by which relations with edges have equal volumes, and the whole keeps its own."""
    volumes = relations.volumes
    mean = volumes.sum() / max(np.count_nonzero(volumes), 1)
    scaled = np.divide(mean, volumes, out=np.ones_like(volumes), where=volumes > 0)
    return tuple(_rounded(weight) for weight in scaled)


def is_few(part: float) -> bool:
    """Whether so small a part of the labels leaves what was chosen by them as it is."""
    return part <= _FEW_CHANGED


def choose(
    relations: RelationGraphs,
    labels: Labels,
    *,
    previous: RelationChoice | None = None,
    parallel: Parallel = map,
    watch: Watch = UNWATCHED,
) -> RelationChoice:
    """Weights chosen by labels; those of an earlier choice while few labels have changed.

    Later on what was chosen is a candidate, of a larger prior mass. Raises `RunStopped`.
    """
    if previous is not None and previous.is_near(labels):
        return previous
    left_out = LeftOutLabels.of(labels, relations.n_nodes)
    trial = _Trial(relations=relations, left_out=left_out, parallel=parallel, watch=watch)
    if left_out.n_folds == 0:
        return trial.unjudged()
    if previous is not None and previous.changed(labels) < _MANY_CHANGED:
        trial.kept = previous.best
    trial.run()
    return trial.choice()


@dataclass(slots=True, kw_only=True, eq=False)
class _Trial:
    """Candidates as they are tried, and their judgements."""

    relations: RelationGraphs
    left_out: LeftOutLabels
    parallel: Parallel
    watch: Watch
    kept: Combination | None = None  # chosen before
    readings: dict[Weights, str] = field(default_factory=dict)
    judgements: dict[Weights, Judgement] = field(default_factory=dict)
    scaling: Weights = ()  # the better one
    order: Int64Array | None = None  # of nodes in memory, the same for all candidates

    @property
    def ones(self) -> Weights:
        return (1.0,) * len(self.relations)

    @property
    def best(self) -> Weights:
        """The candidate of least loss."""
        return min(self.judgements, key=lambda weights: self.judgements[weights].total)

    def run(self) -> None:
        """Judge all candidates; raises `RunStopped`."""
        self._try(AS_THEY_COME, self.ones)
        self._try(EQUAL_VOLUME, equal_volumes(self.relations))
        self.scaling = self.best
        if self.kept is not None:
            self._try(self.kept.reading, self.kept.weights)
        base = None
        while base != self.best:
            base = self.best
            for reading, weights in self._neighbors(base):
                if len(self.judgements) < MOST_CANDIDATES:
                    self._try(f"{self.readings[base]}, {reading}", weights)
        for place in self._largest_first(self.ones)[:MOST_CANDIDATES]:
            if self._reaches_labels(place):
                self._try("alone", self._alone(place))

    def choice(self) -> RelationChoice:
        """The choice among the candidates that were judged."""
        beliefs = self._beliefs()
        candidates = tuple(
            Combination(
                reading=self.readings[weights],
                weights=weights,
                loss=judgement.loss,
                precision=judgement.precision,
                belief=beliefs[weights],
            )
            for weights, judgement in self.judgements.items()
        )
        used = _best_two(candidates)
        reports = tuple(self._report(place, used[0]) for place in range(len(self.relations)))
        return RelationChoice(
            relations=reports, used=used, candidates=candidates, labels=self.left_out.labels
        )

    def unjudged(self) -> RelationChoice:
        """Both scalings alike, as no label can be left out."""
        scalings = {AS_THEY_COME: self.ones, EQUAL_VOLUME: equal_volumes(self.relations)}
        n_used = len(set(scalings.values()))
        used = tuple(
            Combination(reading=reading, weights=weights, belief=1.0 / n_used)
            for reading, weights in list(scalings.items())[:n_used]
        )
        self.scaling = self.ones
        reports = tuple(self._report(place, used[0]) for place in range(len(self.relations)))
        return RelationChoice(
            relations=reports, used=used, candidates=used, labels=self.left_out.labels
        )

    def _try(self, reading: str, weights: Weights) -> None:
        if weights in self.judgements:
            return
        graph = self._graph(weights)
        self.judgements[weights] = judged(self.left_out, graph, self.watch, self.parallel)
        places = np.flatnonzero(weights)
        is_alone = places.size == 1
        self.readings[weights] = f"{self.relations.names[places[0]]} alone" if is_alone else reading

    def _graph(self, weights: Weights) -> Graph:
        graph = self.relations.combined(weights)
        if graph.n_nodes < LEAST_ORDERED or any(graph is own for own in self.relations.graphs):
            return graph  # those of the caller find an order of their own
        if self.order is not None:
            graph.keep_near(self.order)
        elif graph.near_in_memory is not None:
            self.order = graph.known_order
        return graph

    def _neighbors(self, weights: Weights) -> Iterator[tuple[str, Weights]]:
        """Combinations with one relation less, or with one damped of which labels say little."""
        places = self._largest_first(weights)
        if len(places) < 2:
            return
        for place in places:
            yield f"without {self.relations.names[place]}", self._scaled(weights, place, 0.0)
        for place in places:
            without = self.judgements.get(self._scaled(weights, place, 0.0))
            if without is None or weights[place] < self.scaling[place]:
                continue  # damped before
            if abs(without.total - self.judgements[weights].total) <= _CLEARLY:
                reading = f"damped {self.relations.names[place]}"
                yield reading, self._scaled(weights, place, _DAMPED)

    def _scaled(self, weights: Weights, place: int, factor: float) -> Weights:
        changed = list(weights)
        changed[place] = _rounded(factor * changed[place])
        used = [other for other, weight in enumerate(changed) if weight > 0]
        return self._alone(used[0]) if len(used) == 1 else tuple(changed)

    def _alone(self, place: int) -> Weights:
        return tuple(float(other == place) for other in range(len(self.relations)))

    def _largest_first(self, weights: Weights) -> list[int]:
        """Places of relations with edges, one of which may be left out, the largest first."""
        volumes = np.array(weights) * self.relations.volumes
        used = np.flatnonzero(volumes)
        return [int(place) for place in used[np.argsort(-volumes[used], kind="stable")]]

    def _reaches_labels(self, place: int) -> bool:
        degree = self.relations.graphs[place].degree
        return bool((degree[self.left_out.labels.nodes] > 0).any())

    def _masses(self) -> dict[Weights, float]:
        """Prior mass of every candidate."""
        scalings = {self.ones, equal_volumes(self.relations)}
        n_others = max(len(self.judgements.keys() - scalings), 1)
        masses = {
            weights: 1.0 if weights in scalings else 1.0 / n_others for weights in self.judgements
        }
        if self.kept is not None and self.kept.weights in masses:
            masses[self.kept.weights] = _KEPT_MASS
        return masses

    def _beliefs(self) -> dict[Weights, float]:
        masses = self._masses()
        losses = np.stack([self.judgements[weights].losses for weights in masses])
        beliefs = bootstrapped_beliefs(losses, np.array(list(masses.values())))
        return dict(zip(masses, beliefs.tolist(), strict=True))

    def _report(self, place: int, used: Combination) -> RelationReport:
        name, weight = self.relations.names[place], used.weights[place]
        scaling = EQUAL_VOLUME if used.reading.startswith(EQUAL_VOLUME) else AS_THEY_COME
        base = (equal_volumes(self.relations) if scaling == EQUAL_VOLUME else self.ones)[place]
        reading = "left out" if weight == 0 else scaling if weight == base else "damped"
        alone = self.judgements.get(self._alone(place))
        without = None
        if sum(map(bool, self.scaling)) > 1:
            without = self.judgements.get(self._scaled(self.scaling, place, 0.0))
        losses = [float("nan") if each is None else each.loss for each in (alone, without)]
        overlap = float("nan")
        if alone is not None and without is not None:
            overlap = agreement(alone, without)
        return RelationReport(
            name=name,
            weight=weight,
            reading=reading,
            loss_alone=losses[0],
            loss_without=losses[1],
            overlap=overlap,
        )


def _best_two(candidates: tuple[Combination, ...]) -> tuple[Combination, ...]:
    """The likeliest, and a second one of another sort if one is worth a solve.

    That is a scaling, if it can be: no label has chosen these, and answers of what differs from one
    by relations are much like its own. Sorts are either scaling, what differs from one, and
    relations alone.
    """
    first = max(candidates, key=lambda each: each.belief)
    others = [
        each
        for each in candidates
        if _sort(each) != _sort(first) and each.loss <= first.loss + _WORTH_A_SOLVE
    ]
    if not others:
        return (replace(first, belief=1.0),)
    second = max(others, key=lambda each: (_sort(each) in _SCALINGS, each.belief))
    both = first.belief + second.belief
    return tuple(replace(each, belief=each.belief / both) for each in (first, second))


def _sort(candidate: Combination) -> str:
    if candidate.reading in _SCALINGS:
        return candidate.reading
    return "alone" if np.count_nonzero(candidate.weights) == 1 else "changed"


def _rounded(weight: float) -> float:
    return float(f"{weight:.{_DIGITS}g}")
