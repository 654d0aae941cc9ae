"""Reasons of one prediction: the labels that support it, and the way from the node to each."""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from peewit.service.catalog import GraphRecord
from peewit.service.predictions.feature_reasons import LEAST_BELIEF, feature_reasons
from peewit.service.predictions.kept_labels import KeptLabels
from peewit.service.predictions.prediction_files import PredictionFile, features_path
from peewit.service.predictions.reader import PredictionReader
from peewit.service.predictions.thresholds import class_place
from peewit.service.tables.formats import json_integer
from peewit.service.tables.uploads import NodeId, node_array
from peewit.service.wire.predictions import ClassSupport, LabelReason, NodeReasons
from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import BoolArray, Int64Array
from peewit.solvers.assessment.reasons import Reasons, likeliest_ways, reasons, shared_reasons
from peewit.solvers.laplacian.walks.walk_rows import WalkRows
from peewit.solvers.models.auto.point_arms import POINT_ARMS
from peewit.solvers.models.catalogue import CATALOGUE, DEFAULT_MODEL
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.harmonic.label_shares import LinearModel
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.problems import Conflict
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.snapshots.walk_rows import walk_rows

MAX_REASONS: Final = 100
_CLASSES_SHOWN: Final = 5


class ReasonsNotKept(Conflict, LookupError):
    """The job did not keep what reasons are made from."""

    title = "No reasons kept"
    argument: ClassVar[str] = "job"


def node_reasons(
    reader: PredictionReader,
    paths: GraphPaths,
    graph: GraphRecord,
    file: PredictionFile,
    node: NodeId,
    *,
    k: int,
    label: str | None = None,
) -> NodeReasons:
    """The labels that most support a class at a node, and those for other classes.

    ``label`` is the class as text; by default the predicted one.

    Raises ValueError where numbers are predicted or ``k`` is not in [1, `MAX_REASONS`];
    `NodeNotFound`, `NodeNotPredicted` and `NodeNotAsked`; `ReasonsNotKept` for a job whose labels
    are not there; `SnapshotNotFound` where the snapshot is no longer kept.
    """
    if not 1 <= k <= MAX_REASONS:
        raise BadArgument("k", f"must lie in [1, {MAX_REASONS}], got {k}")
    if file.meta.score == "value":
        raise BadArgument("model", "must predict classes to have reasons, got numbers")
    prediction = reader.one(graph, file, node)
    dense = int(reader.nodes.lookup(graph, node_array([node], graph.settings.node_ids))[0])
    solve_labels = _kept_labels(file)
    nodes, classes, shares = solve_labels.nodes, solve_labels.classes, solve_labels.shares
    snapshots = SnapshotStore(paths.snapshots).weighed(file.meta.relation_weights)
    rows = walk_rows(snapshots, file.meta.snapshot)
    names, is_whole = file.meta.class_names, True
    if shares is not None:
        evidence = shared_reasons(shares[dense, solve_labels.places], classes, n_classes=len(names))
    else:
        densities = solve_labels.densities
        is_whole = densities is not None
        evidence = reasons(rows, dense, nodes, classes, n_classes=len(names), densities=densities)
    predicted = next(
        (place for place, name in enumerate(names) if str(name) == str(prediction["label"])), -1
    )
    supported = predicted if label is None else class_place(file.meta, label)
    is_for = classes[evidence.places] == supported
    named_reasons = _NamedReasons(
        file=file,
        snapshots=snapshots,
        ids=reader.nodes.external_ids(graph, file.n_nodes),
        rows=rows,
        node=dense,
        nodes=nodes,
        classes=classes,
        evidence=evidence,
    )
    rivals = np.flatnonzero(~is_for & (evidence.added > 0.0))
    labels, against = named_reasons.reasons([np.flatnonzero(is_for), rivals], k)
    features = feature_reasons(paths, file, named_reasons.ids, rows, dense, supported, k=k)
    belief = _belief_in_features(file)
    largest = np.argsort(-evidence.support, kind="stable")[:_CLASSES_SHOWN]
    return NodeReasons(
        node=prediction["node"],
        label=prediction["label"],
        score=float(prediction["score"]),
        by="walks" if shares is None else "shares",
        classes=tuple(
            ClassSupport(label=names[place], support=float(evidence.support[place]))
            for place in largest.tolist()
        ),
        labels=labels,
        features=features,
        belief_features=belief,
        carried=sum(reason.part for reason in labels),
        against=against,
        followed=evidence.followed,
        is_whole=is_whole,
        note=_note(
            file, evidence, predicted, solve_labels, lost_features=0.0 if features else belief
        ),
    )


def _belief_in_features(file: PredictionFile) -> float:
    """How much of the answers is by features."""
    stats = file.meta.stats
    if "belief_features" in stats:
        return float(stats["belief_features"])
    return float(features_path(file.path).exists())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _NamedReasons:
    """Reasons expressed in external ids."""

    file: PredictionFile
    snapshots: SnapshotStore  # of the relations as the file weighs them
    ids: pa.ChunkedArray  # of all nodes of the file, null for erased ones
    rows: WalkRows
    node: int
    nodes: Int64Array
    classes: Int64Array
    evidence: Reasons

    def reasons(self, kinds: list[Int64Array], k: int) -> list[tuple[LabelReason, ...]]:
        """The first ``k`` of each kind whose node is not erased, by one search for all ways."""
        shown = [self._readable(which)[:k] for which in kinds]
        targets = self.nodes[self.evidence.places[np.concatenate(shown)]].tolist()
        ways = likeliest_ways(self.rows, self.node, targets)
        steps = [list(pairwise(way or ())) for way in ways]
        joining = iter(
            self.snapshots.relations_of_pairs(
                self.file.meta.snapshot, [step for way in steps for step in way]
            )
        )
        joined = [tuple(next(joining) for _ in way) for way in steps]
        told = zip(ways, joined, strict=True)
        return [tuple(self._reason(place, *next(told)) for place in kind) for kind in shown]

    def _readable(self, which: Int64Array) -> Int64Array:
        """Those of some reasons whose node is not erased."""
        nodes = self.nodes[self.evidence.places[which]]
        is_shown: BoolArray = self.ids.take(pa.array(nodes)).is_valid().to_numpy()
        return which[is_shown]

    def _reason(
        self, place: int, way: list[int] | None, relations: tuple[tuple[str, ...], ...]
    ) -> LabelReason:
        label = self.evidence.places[place]
        code = self.classes[label]
        named = None if way is None else self._names(way)
        is_shown = named is not None and None not in named
        return LabelReason(
            node=self._names([self.nodes[label]])[0],
            label=self.file.meta.class_names[code],
            part=float(self.evidence.added[place] / self.evidence.whole[code]),
            way=tuple(named) if named is not None and is_shown else None,
            relations=relations if is_shown and any(relations) else None,
        )

    def _names(self, nodes: list[int]) -> list[NodeId]:
        """External ids; None for erased nodes."""
        names = self.ids.take(pa.array(nodes)).to_pylist()
        return [json_integer(each) if isinstance(each, int) else each for each in names]


def _kept_labels(file: PredictionFile) -> KeptLabels:
    try:
        return KeptLabels.read(file.path)
    except FileNotFoundError:
        raise ReasonsNotKept(
            f"job {file.meta.job_id} has no labels left to tell reasons from; solve again"
        ) from None


def _note(
    file: PredictionFile,
    evidence: Reasons,
    predicted: int,
    solve_labels: KeptLabels,
    *,
    lost_features: float,
) -> str | None:
    if predicted < 0:
        return "no label reaches the node"
    sentences, is_walked = [], solve_labels.shares is None
    if solve_labels.has_lost_nodes:
        sentences.append(
            "nodes were erased since the solve, and these reasons leave them out; solve "
            "again for an answer without them"
        )
    if lost_features >= LEAST_BELIEF:
        sentences.append(
            f"features are {lost_features:.0%} of the answer, and none of them can be "
            "shown: the node has none near it, or they were made anew since. Solve again "
            "in that case"
        )
    belief = sum(float(file.meta.stats.get(f"belief_{name}", 0.0)) for name in POINT_ARMS)
    if belief >= LEAST_BELIEF:
        sentences.append(
            f"{belief:.0%} of the answer is what kind of neighbors the node has, not which labels "
            "are near it: belief_spectral and belief_structural in the job's stats"
        )
    if file.meta.stats.get("arm") == "points":
        sentences.append(
            "what kind of neighbors the node has counts beside its features, not which labels are "
            "near it: arm in the job's stats"
        )
    model, names = file.meta.model, file.meta.class_names
    favoured = int(evidence.support.argmax())
    differs = favoured != predicted and evidence.support[favoured] > 0.0
    if is_walked and model != DEFAULT_MODEL:
        is_linear = issubclass(CATALOGUE.get(model, Model), LinearModel)
        instead = "; solve with label_shares=true for what they add to its scores"
        sentences.append(
            f"{model} weighs labels in its own way; these are the ones that walks from the node "
            f"find{instead if is_linear else ''}"
        )
    if differs and is_walked:
        others = "other parts of auto" if model == DEFAULT_MODEL else "the model"
        if file.meta.decision is not None:
            others += f", or the objective {file.meta.objective},"
        sentences.append(
            f"walks from the node speak for {names[favoured]!r}: {others} decided for "
            f"{names[predicted]!r}"
        )
    if differs and not is_walked:
        sentences.append(
            f"the labels of {names[favoured]!r} add most: what puts classes right, such as "
            f"class_mass or class_balance, decided for {names[predicted]!r}"
        )
    return "; ".join(sentences) or None
