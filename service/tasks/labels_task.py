"""Tasks with labels; the labels as dense nodes of a snapshot and their classes or numbers."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.service.predictions.prediction_files import label_values
from peewit.service.tables.uploads import id_type
from peewit.service.tasks.tasks_and_messages import Task
from peewit.solvers.arrays import BoolArray
from peewit.solvers.labels import Labels, RealLabels
from peewit.streaming.edges.node_ids import kinds_of, nodes_of_kinds
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.nodes.index import Nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsTask(Task):
    """Work with a model on one snapshot and one set of labels.

    ``snapshot``, ``labels_seq`` and ``features_version`` are as captured when the attempt began.
    """

    snapshot: int
    labels_seq: int
    features_version: int
    model: str  # public name
    parameters: Mapping[str, Any]
    nodes: pa.LargeStringArray  # external ids, as text
    labels: Sequence[str | int | float]  # of the nodes
    origins: pa.StringArray  # of the labels, each a `LabelOrigin`
    answers: Sequence[str] = ()  # kinds of nodes that are asked about; none: those of the labels
    directed: Sequence[str] = ()  # relations of which each way counts apart
    keep_raw: bool = True  # whether the graph keeps raw edges
    n_threads: int = 1  # that read raw edges
    scheduler: str | None = None  # address of dask, whose workers read raw edges instead
    is_automatic: bool = False  # follows a change by itself; nobody waits for it

    @property
    def answer_kinds(self) -> Sequence[str]:
        """Kinds of nodes of a typed graph that are asked about."""
        return self.answers or kinds_of(self.nodes)


class Origins(NamedTuple):
    """(n_labeled,) each, by node: labels of suggested nodes, and of nodes drawn at random."""

    is_suggested: BoolArray
    is_random: BoolArray


def labels_in_snapshot(
    task: LabelsTask, nodes: Nodes, kind: NodeKind, target: str
) -> tuple[Labels | RealLabels, Origins, int]:
    """Labels of nodes in the snapshot, their origins, and the number of other labels.

    Raises ValueError for labels of another kind than the target, none in the snapshot, or class
    names that look alike.
    """
    _check_target(task, target)
    dense = nodes.lookup(task.nodes.cast(id_type(kind)))
    is_known = dense >= 0
    n_known = int(np.count_nonzero(is_known))
    if n_known == 0:
        raise ValueError(
            f"none of the {len(task.nodes)} labeled nodes is in snapshot {task.snapshot}; "
            "label nodes that it has, or wait until their edges are ingested"
        )
    n_waiting = len(task.nodes) - n_known
    values = [label for label, known in zip(task.labels, is_known, strict=True) if known]
    order = np.argsort(dense[is_known])
    is_suggested, is_random = (
        pc.equal(task.origins, origin).to_numpy(zero_copy_only=False)[is_known][order]
        for origin in ("suggested", "random")
    )
    origins = Origins(is_suggested=is_suggested, is_random=is_random)
    if target == "real":
        real = RealLabels.from_pairs(dense[is_known], np.array(values, np.float64))
        return real, origins, n_waiting
    labels = Labels.from_pairs(dense[is_known], np.array(values, dtype=object))
    if kind == "typed":
        names = nodes.external_ids()
        is_asked = nodes_of_kinds(names, task.answer_kinds)
        if not is_asked.any():
            raise ValueError(
                f"answers must be kinds that the graph has, {', '.join(kinds_of(names))}, got "
                f"{', '.join(task.answer_kinds)}; `graph set --answers` names others"
            )
        labels = replace(labels, among=is_asked)
    label_values(labels.class_names)  # refuses names that show alike, before the work and not after
    return labels, origins, n_waiting


def _is_number(label: str | float) -> bool:
    """Whether a label is a number, also one that is kept as text, as 1.10."""
    with suppress(ValueError):
        return math.isfinite(float(label))
    return False


def _check_target(task: LabelsTask, target: str) -> None:
    """Raise ValueError, with the first node, for labels of another kind than the target."""
    is_real = target == "real"
    rule = (
        "labels must all be numbers where target is 'real'"
        if is_real
        else "labels are real numbers; set target=real to predict them"
    )
    for row, label in enumerate(task.labels):
        if not _is_number(label) if is_real else isinstance(label, float):
            if target != "real" and any(isinstance(each, str) for each in task.labels):
                rule = "labels must all be text or all numbers; give those of one kind anew"
            raise ValueError(f"{rule}: node {task.nodes[row].as_py()!r} has {label!r}")
