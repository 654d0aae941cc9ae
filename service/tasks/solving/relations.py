"""Weighing relations: the weighed sum of a graph's relations that a solve runs on."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from peewit.service.tasks.labels_task import LabelsTask
from peewit.service.tasks.progress import StageTimer
from peewit.service.tasks.solving.solve_options import SolveOptions
from peewit.service.tasks.warm_graphs import WarmGraph, WarmGraphs, names_with_edges
from peewit.solvers.labels import Labels, Targets
from peewit.solvers.models.contract.model import Model
from peewit.solvers.relations.choice import RelationChoice, choose
from peewit.solvers.relations.solving import PreparedRelations, RelationModel
from peewit.solvers.relations.weight_texts import check_weights, parsed_weights, weights_text
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.snapshots.store import SnapshotStore


def first_choice(
    graphs: WarmGraphs, task: LabelsTask, options: SolveOptions
) -> RelationChoice | None:
    """What was asked for, or else chosen by earlier labels; None where labels are to choose.

    Raises `BadArgument` for weights of relations that the snapshot lacks.
    """
    store = SnapshotStore(GraphPaths(root=task.graph_directory).snapshots)
    meta = store.meta(task.snapshot)
    names = names_with_edges(meta)
    if options.relations:
        known_names = [each.name for each in meta.relations]
        asked = dict(zip(known_names, parsed_weights(options.relations, known_names), strict=True))
        weights = tuple(asked[name] for name in names)
        check_weights("relations", weights, names)
        return RelationChoice.given(weights, names)
    known: RelationChoice | None = graphs.kept.get(_key(task, options))
    return known if known is not None and _names(known) == names else None


def final_choice(
    graphs: WarmGraphs,
    task: LabelsTask,
    options: SolveOptions,
    graph: WarmGraph,
    labels: Targets,
    first: RelationChoice | None,
    stages: StageTimer,
) -> RelationChoice | None:
    """What labels choose, unless weights were asked for; None where there is nothing to weigh."""
    names = names_with_edges(graph.snapshot.meta)
    if options.relations or len(names) < 2 or not isinstance(labels, Labels):
        return first
    if first is not None and first.is_near(labels):
        return first
    parts = graphs.relations(task, graph)
    choice = choose(parts, labels, previous=first, parallel=graphs.parallel, watch=stages.watch)
    graphs.kept[_key(task, options)] = choice
    return choice


def runs_on_two(model: Model, options: SolveOptions, choice: RelationChoice | None) -> bool:
    """Whether a model averages the answers of two combinations.

    Options that look at one graph, or at solves without some labels on it, take the best alone.
    """
    looks_at_one = (
        *(options.cross_validate, options.refine, options.prove, options.variance),
        *(options.label_shares, options.replicas),
    )
    return (
        choice is not None
        and len(choice.used) > 1
        and model.is_calibrated
        and not any(looks_at_one)
    )


def prepared_on_two(
    graphs: WarmGraphs, task: LabelsTask, graph: WarmGraph, model: Model, choice: RelationChoice
) -> tuple[PreparedRelations, bool]:
    """What the model prepared on both combinations, and whether it was there."""
    key = task.graph_id, ("prepared on two", model.preparation or type(model).__name__)
    known: _PreparedOnTwo | None = graphs.kept.get(key)
    of = task.snapshot, _names(choice), graph.made_of(task)
    is_present = known is not None and known.of == of
    if known is None or not is_present:
        value = graphs.prepared_alone(
            task, graphs.relations(task, graph), RelationModel(model=model), graph
        )
        known = _PreparedOnTwo(of=of, value=value)
        graphs.kept[key] = known
    known.value.choice = choice
    return known.value, is_present


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _PreparedOnTwo:
    """Preparations on two combinations of a snapshot, with some features."""

    of: Hashable
    value: PreparedRelations


def weights_of(choice: RelationChoice | None) -> Mapping[str, float]:
    """Weights of relations by name; none where all are as they come."""
    if choice is None:
        return {}
    return dict(zip(_names(choice), choice.best.weights, strict=True))


def stats_of(choice: RelationChoice | None) -> dict[str, Any]:
    """Figures of each relation for the job's stats, and the weights as they can be asked for."""
    if choice is None:
        return {}
    figures = [
        {
            "name": each.name,
            "weight": each.weight,
            "reading": each.reading,
            "loss_alone": _told(each.loss_alone),
            "loss_without": _told(each.loss_without),
            "overlap": _told(each.overlap),
        }
        for each in choice.relations
    ]
    text = weights_text(choice.best.weights, _names(choice))
    return {"relations": figures, "relation_weights": text}


def _names(choice: RelationChoice) -> tuple[str, ...]:
    return tuple(each.name for each in choice.relations)


def _told(value: float) -> float | None:
    """A figure for JSON, which has no NaN."""
    return round(value, 4) if isfinite(value) else None


def _key(task: LabelsTask, options: SolveOptions) -> tuple[str, tuple[str, str]]:
    return task.graph_id, ("relations", options.label_column)
