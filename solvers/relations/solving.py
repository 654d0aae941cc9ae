"""Models on several relations: those of one graph, run on combinations that labels chose."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

import numpy as np

from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array
from peewit.solvers.iteration_loop import Cancelled, Progress, RunStopped, Watch
from peewit.solvers.labels import Labels, RealLabels, Targets
from peewit.solvers.models.classes.macro_f1 import macro_f1_decision
from peewit.solvers.models.contract.model import KEPT_BYTES, Model, ScoreKind, as_classes, of_column
from peewit.solvers.models.left_out.bootstrapped_beliefs import bootstrapped_beliefs
from peewit.solvers.relations.choice import (
    Combination,
    RelationChoice,
    Weights,
    changed_part,
    choose,
    is_few,
)
from peewit.solvers.relations.relation_graphs import RelationGraphs
from peewit.solvers.relations.weight_texts import check_weights
from peewit.solvers.row_ranges import Parallel
from peewit.solvers.solution import LeftOut, Solution
from peewit.solvers.status import Status, first_failure

_LEAST: Final = 1e-6
"""Least probability whose change is carried over."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RelationSolution(Solution):
    """A solution, and the weights of relations that it is of."""

    choice: RelationChoice


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Pair:
    """Answers of the best two combinations to the same labels."""

    choice: RelationChoice
    used: tuple[Combination, ...]  # with beliefs of whole models
    labels: Labels
    first: Solution
    second: Solution

    def is_of(self, choice: RelationChoice, labels: Labels) -> bool:
        """Whether these combinations answered to nearly these labels."""
        is_same = self.choice is choice and self.labels.class_names == labels.class_names
        return is_same and is_few(changed_part(self.labels, labels))


@dataclass(slots=True, kw_only=True, eq=False)
class PreparedRelations:
    """Relations, and preparations of the combinations that are in use."""

    relations: RelationGraphs
    features: Any
    parallel: Parallel
    kept_bytes: int
    choice: RelationChoice | None = None  # of the last labels
    by_weights: dict[Weights, Any] = field(default_factory=dict)
    pair: _Pair | None = None

    def of(self, model: Model, weights: Weights) -> Any:
        """What the model prepares of a combination."""
        if weights not in self.by_weights:
            self.by_weights[weights] = model.prepare(
                self.relations.combined(weights),
                self.features,
                parallel=self.parallel,
                kept_bytes=self.kept_bytes // 2,
            )
        return self.by_weights[weights]

    def keep(self, *choices: RelationChoice | None) -> None:
        """Forget preparations of combinations that none of the choices uses."""
        used = {each.weights for choice in choices if choice is not None for each in choice.used}
        self.by_weights = {
            weights: prepared for weights, prepared in self.by_weights.items() if weights in used
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationModel(Model):
    """A model of one graph on several relations.

    Labels choose the weights, unless these are given. A model whose scores are calibrated
    probabilities runs on the best two combinations, and its probabilities are averaged by how well
    they predict labels that it leaves out; others run on the best alone, and numbers on relations
    as they come. While few labels change the choice stays; the second combination then is not
    solved anew: its log probabilities change as those of the first do. One relation is solved as a
    graph.
    """

    weighs_labels: ClassVar[bool] = True  # the model itself refuses what it cannot heed
    uses_features: ClassVar[bool] = True

    model: Model
    weights: Weights | None = None

    def __post_init__(self) -> None:
        """Nothing to check: the model has checked itself, and weights need the relations."""

    @property
    def score_kind(self) -> ScoreKind:
        """That of the model."""
        return self.model.score_kind

    @property
    def for_validation(self) -> "RelationModel":
        """With the model that cross-validation judges."""
        return replace(self, model=self.model.for_validation)

    @property
    def shows_start(self) -> bool:
        """Whether the model does."""
        return self.model.shows_start

    def entry_bytes(self, n_classes: int) -> int:
        """Those of the model."""
        return self.model.entry_bytes(n_classes)

    def node_bytes(self, n_nodes: int, n_classes: int) -> int:
        """Those of the model, and the answers of two combinations."""
        return self.model.node_bytes(n_nodes, n_classes) + 3 * 8 * n_classes

    def prepare(  # type: ignore[override] # of relations instead of a graph
        self,
        graph: RelationGraphs,
        features: Any = None,
        *,
        parallel: Parallel = map,
        kept_bytes: int = KEPT_BYTES,
    ) -> PreparedRelations:
        """The relations; combinations are prepared once labels or weights tell them.

        `BadArgument` for weights that are not one for each relation. Errors of the model's own
        preparation come with the first solve, except those of one relation.
        """
        if self.weights is not None:
            check_weights("weights", self.weights, graph.names)
        prepared = PreparedRelations(
            relations=graph, features=features, parallel=parallel, kept_bytes=kept_bytes
        )
        fixed = self._fixed(graph)
        if fixed is not None:
            prepared.choice = fixed
            prepared.of(self.model, fixed.best.weights)
        return prepared

    def solve_watched(
        self, prepared: PreparedRelations, labels: Targets, start: Solution | None, watch: Watch
    ) -> Solution:
        """Scores of every node; see `Model.solve`."""
        try:
            choice = self._choice(prepared, labels, watch)
        except RunStopped:
            return _stopped(prepared.relations.n_nodes, labels)
        prepared.choice = choice
        prepared.keep(choice)
        first = self._solved(prepared, choice.best, labels, start, watch)
        used = self._used(choice)
        if len(used) == 1 or not isinstance(labels, Labels) or first.status is Status.CANCELLED:
            prepared.pair = None
            return _of_choice(first, choice)
        pair = prepared.pair
        if pair is not None and pair.is_of(choice, labels) and self._keeps:
            second = _carried(pair, first, labels)
            mixed = _mixed((first, second), pair.used, labels)
            return _of_choice(mixed, replace(choice, used=pair.used))
        second = self._solved(prepared, used[1], labels, None, watch)
        prepared.pair, used = None, _believed((first, second), used, labels)
        if second.status is not Status.CANCELLED:
            prepared.pair = _Pair(
                choice=choice, used=used, labels=labels, first=first, second=second
            )
        return _of_choice(_mixed((first, second), used, labels), replace(choice, used=used))

    def _solved(
        self,
        prepared: PreparedRelations,
        combination: Combination,
        labels: Targets,
        start: Solution | None,
        watch: Watch,
    ) -> Solution:
        return self.model.solve(
            prepared.of(self.model, combination.weights),
            labels,
            start=start,
            progress=watch.progress,
            cancelled=watch.cancelled,
        )

    def solve_many(
        self,
        prepared: PreparedRelations,
        columns: Sequence[Targets],
        *,
        progress: Progress | None = None,
        cancelled: Cancelled | None = None,
    ) -> list[Solution]:
        """Each column chooses for itself; see `Model.solve_many`."""
        solutions: list[Solution] = []
        for place, labels in enumerate(columns):
            if cancelled is not None and solutions and cancelled():
                break
            prepared.choice = prepared.pair = None
            with of_column(place):
                solutions.append(
                    self.solve(prepared, labels, progress=progress, cancelled=cancelled)
                )
        return solutions

    def solve_without(
        self,
        prepared: PreparedRelations,
        labels: Labels | RealLabels,
        fold: Int64Array,
        number: int,
        *,
        start: Solution | None = None,
        progress: Progress | None = None,
        cancelled: Cancelled | None = None,
    ) -> Solution:
        """With weights chosen by the other labels, too; see `Model.solve_without`."""
        others = labels.subset(np.flatnonzero(fold != number))
        try:
            choice = self._fixed(prepared.relations) or _chosen(
                prepared, others, None, Watch(cancelled=cancelled)
            )
        except RunStopped:
            return _stopped(prepared.relations.n_nodes, labels)
        prepared.keep(prepared.choice, choice)
        used = self._used(choice)
        solutions = tuple(
            self.model.solve_without(
                prepared.of(self.model, each.weights),
                labels,
                fold,
                number,
                start=start,
                progress=progress,
                cancelled=cancelled,
            )
            for each in used
        )
        if isinstance(others, Labels):
            used = _believed(solutions, used, others)
        return _of_choice(_mixed(solutions, used, others), replace(choice, used=used))

    def work_ahead(self, prepared: PreparedRelations, *, cancelled: Cancelled) -> bool:
        """That of the model on every combination in use."""
        prepared_each = prepared.by_weights.values()
        return any(self.model.work_ahead(each, cancelled=cancelled) for each in prepared_each)

    @property
    def _keeps(self) -> bool:
        """Whether an answer may depend on earlier labels; `auto` is told by ``walks``."""
        return getattr(self.model, "walks", "repeated") == "repeated"

    def _fixed(self, relations: RelationGraphs) -> RelationChoice | None:
        """The choice that labels have no say in, if there is one."""
        if self.weights is not None:
            return RelationChoice.given(self.weights, relations.names)
        return RelationChoice.given((1.0,), relations.names) if len(relations) == 1 else None

    def _choice(self, prepared: PreparedRelations, labels: Targets, watch: Watch) -> RelationChoice:
        previous = prepared.choice if self._keeps else None
        return self._fixed(prepared.relations) or _chosen(prepared, labels, previous, watch)

    def _used(self, choice: RelationChoice) -> tuple[Combination, ...]:
        return choice.used if self.model.is_calibrated else choice.used[:1]


def _chosen(
    prepared: PreparedRelations, labels: Any, previous: RelationChoice | None, watch: Watch
) -> RelationChoice:
    relations = prepared.relations
    if not isinstance(labels, Labels):
        return RelationChoice.given((1.0,) * len(relations), relations.names)
    return choose(relations, labels, previous=previous, parallel=prepared.parallel, watch=watch)


def _of_choice(solution: Solution, choice: RelationChoice) -> Solution:
    """The solution with its choice; that of one relation as it is."""
    if len(choice.relations) == 1 and choice.best.weights == (1.0,):
        return solution
    parts = {name: getattr(solution, name) for name in Solution.__dataclass_fields__}
    parts["stats"] = {**solution.stats, **choice.stats}
    return RelationSolution(choice=choice, **parts)


def _mixed(
    solutions: tuple[Solution, ...], used: tuple[Combination, ...], labels: Targets
) -> Solution:
    """The first solution with probabilities averaged by belief, where labels reach both."""
    if len(solutions) == 1:
        return solutions[0]
    first, second = solutions
    beliefs = used[0].belief, used[1].belief
    left_out = None
    if first.left_out is not None and second.left_out is not None:
        left_out = _mixed_left_out(first.left_out, second.left_out, beliefs)
    mixed = replace(
        first,
        scores=_averaged(
            (first.scores, second.scores), (first.reachable, second.reachable), beliefs
        ),
        reachable=first.reachable | second.reachable,
        status=first_failure(first.status, second.status),
        left_out=left_out,
    )
    if first.decision is None:
        return mixed
    return replace(mixed, decision=macro_f1_decision(mixed, as_classes(labels)))


def _believed(
    solutions: tuple[Solution, ...], used: tuple[Combination, ...], labels: Labels
) -> tuple[Combination, ...]:
    """The combinations with beliefs by labels that models left out; even ones without any."""
    left_out = [solution.left_out for solution in solutions]
    if len(used) == 1:
        return used
    losses = [
        -np.log(each.scores[np.arange(each.places.size), labels.classes[each.places]].clip(_LEAST))
        for each in left_out
        if each is not None and each.places.size
    ]
    beliefs = np.full(len(used), 1.0 / len(used))
    if len(losses) == len(used):
        beliefs = bootstrapped_beliefs(np.stack(losses), beliefs)
    return tuple(
        replace(each, belief=belief) for each, belief in zip(used, beliefs.tolist(), strict=True)
    )


def _averaged(
    scores: tuple[FloatArray, FloatArray],
    reachable: tuple[BoolArray, BoolArray],
    beliefs: tuple[float, float],
) -> FloatArray:
    """(n_rows, n_classes) means by belief; of the one that is reached, where only one is."""
    only_first, only_second = reachable[0] & ~reachable[1], reachable[1] & ~reachable[0]
    share = np.where(only_first, 1.0, np.where(only_second, 0.0, beliefs[0]))[:, None]
    averaged: FloatArray = share * scores[0] + (1.0 - share) * scores[1]
    return averaged


def _mixed_left_out(first: LeftOut, second: LeftOut, beliefs: tuple[float, float]) -> LeftOut:
    """Of the labels that the first left out; those that only it left out as they are there."""
    scores, reachable = np.zeros_like(first.scores), np.zeros_like(first.reachable)
    place = np.searchsorted(second.places, first.places).clip(max=second.places.size - 1)
    is_in_both = second.places[place] == first.places
    scores[is_in_both] = second.scores[place[is_in_both]]
    reachable[is_in_both] = second.reachable[place[is_in_both]]
    return LeftOut(
        places=first.places,
        scores=_averaged((first.scores, scores), (first.reachable, reachable), beliefs),
        reachable=first.reachable | reachable,
    )


def _carried(pair: _Pair, first: Solution, labels: Labels) -> Solution:
    """The second answer with the changes in log probability that the first has had since."""
    change = first.scores.clip(min=_LEAST) / pair.first.scores.clip(min=_LEAST)
    scores = pair.second.scores.clip(min=_LEAST) * change
    scores /= scores.sum(axis=1, keepdims=True)
    left_out = pair.second.left_out
    if left_out is not None:
        nodes = pair.labels.nodes[left_out.places]
        is_there = np.isin(nodes, labels.nodes)
        left_out = LeftOut(
            places=np.searchsorted(labels.nodes, nodes[is_there]),
            scores=left_out.scores[is_there],
            reachable=left_out.reachable[is_there],
        )
    return replace(pair.second, scores=scores, left_out=left_out, status=first.status)


def _stopped(n_nodes: int, labels: Targets) -> Solution:
    """Scores that prefer no class, of a choice that was cancelled."""
    return Solution(
        scores=np.tile(labels.mean_target(), (n_nodes, 1)),
        reachable=np.zeros(n_nodes, bool),
        status=Status.CANCELLED,
        stats={"n_iter": 0},
    )
