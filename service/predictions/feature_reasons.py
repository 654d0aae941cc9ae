"""Reasons by features: which of them speak for a class at a node, its own and those near it.

Where a prediction rests on features, labels on the way say little. A solve keeps the weights of its
ridge beside the predictions; the smoothed row of one node is a walk away (K5c).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from peewit.service.predictions.prediction_files import PredictionFile, features_path, write_arrays
from peewit.service.wire.predictions import FeatureReason
from peewit.solvers.arrays import BoolArray, FloatArray, Int64Array
from peewit.solvers.assessment.reasons import filter_row
from peewit.solvers.features import ColumnScaling, FeatureRows
from peewit.solvers.laplacian.walks.walk_rows import WalkRows
from peewit.solvers.linear.linear_functions import LinearFunctions
from peewit.solvers.linear.row_scaling import RowScaling
from peewit.solvers.models.linear.filtered_features import FunctionsByRelation
from peewit.streaming.edges.node_ids import nodes_of_kinds
from peewit.streaming.features.encoding import Encoding
from peewit.streaming.features.store import FeaturesNotFound, FeatureStore
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.relation_counts import CountsStore, RelationCounts
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.snapshots.walk_rows import walk_rows

LEAST_BELIEF: Final = 0.05
"""Belief in features below which they are no reason of an answer."""

_MOST_ROWS: Final = 4_096
"""Rows near a node that are looked at: those with most of its walks."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountsUsed:
    """Counts of relations among the features of a solve, after those of the table."""

    snapshot: int
    directed: tuple[str, ...]
    scaling: ColumnScaling


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureWeights:
    """Weights of filtered features, and how their rows were made."""

    weights: FloatArray
    """(1 + n_relations, n_columns, n_classes) of features smoothed along the graph, and along each
    of its relations, without the constant."""

    relations: tuple[str, ...]  # none where features are smoothed along the graph alone
    form: RowScaling
    teleport: float
    counts: CountsUsed | None

    @classmethod
    def of(
        cls,
        functions: LinearFunctions,
        teleport: float,
        counts: CountsUsed | None,
        relations: Iterable[str],
    ) -> Self:
        """The weights of functions of features, and of counts if there were some.

        ``relations`` are those that the graph is the sum of.
        """
        weights, along = functions.weights[None, :-1], tuple[str, ...]()
        if isinstance(functions, FunctionsByRelation):
            weights, along = functions.parts, tuple(relations)
        return cls(
            weights=weights, relations=along, form=functions.form, teleport=teleport, counts=counts
        )

    def write(self, path: Path) -> None:
        """Keep them beside a prediction file."""
        parts: dict[str, Any] = {
            "weights": self.weights,
            "relations": np.array(self.relations, np.str_),
            "center": self.form.center,
            "teleport": self.teleport,
        }
        if self.counts is not None:
            parts |= {
                "snapshot": self.counts.snapshot,
                "directed": np.array(self.counts.directed, np.str_),
                "count_center": self.counts.scaling.center,
                "count_factor": self.counts.scaling.factor,
            }
        write_arrays(features_path(path), parts)

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Those beside a prediction file; None where features were no part of the answer.

        So is it of files from before features were smoothed along relations.
        """
        try:
            parts = np.load(features_path(path), allow_pickle=False)
        except FileNotFoundError:
            return None
        with parts:
            if "relations" not in parts:
                return None
            counts = None
            if "snapshot" in parts:
                counts = CountsUsed(
                    snapshot=int(parts["snapshot"]),
                    directed=tuple(parts["directed"].tolist()),
                    scaling=ColumnScaling(
                        center=parts["count_center"], factor=parts["count_factor"]
                    ),
                )
            form = RowScaling(is_unit=True, constant=1.0, center=parts["center"], zeros_stay=True)
            return cls(
                weights=parts["weights"],
                relations=tuple(parts["relations"].tolist()),
                form=form,
                teleport=float(parts["teleport"]),
                counts=counts,
            )


def feature_reasons(
    paths: GraphPaths,
    file: PredictionFile,
    ids: pa.ChunkedArray,
    rows: WalkRows,
    node: int,
    supported: int,
    *,
    k: int,
) -> tuple[FeatureReason, ...]:
    """The features that add most to a class at a node, over what they add to all (K5c).

    ``ids``, (n_nodes,), are the external ones, and ``rows`` those of the graph that was solved on.
    Empty where features were no part of the answer, or are no longer there as it used them.
    """
    kept = FeatureWeights.read(file.path)
    if kept is None or supported < 0:
        return ()
    try:
        known = _KnownFeatures.of(paths, file, ids, kept)
    except FeaturesNotFound:  # replaced since
        return ()
    if known is None:
        return ()
    added = np.zeros(len(known.names))
    for relation, weights in zip((None, *kept.relations), kept.weights, strict=True):
        if weights.any():
            along = rows if relation is None else _rows_along(paths, file, relation)
            over_all = weights[:, supported] - weights.mean(axis=1)
            added += _smoothed_row(along, node, kept, known) * over_all
    whole = np.abs(added).sum()
    order = np.argsort(-np.abs(added), kind="stable")[:k]
    own = known.own_values(node)
    return tuple(
        FeatureReason(name=known.names[place], value=own[place], part=float(added[place] / whole))
        for place in order.tolist()
        if whole > 0.0 and added[place] != 0.0
    )


def _rows_along(paths: GraphPaths, file: PredictionFile, relation: str) -> WalkRows:
    """Walk rows of one relation of the snapshot that was solved on."""
    store = SnapshotStore(paths.snapshots)
    names = [each.name for each in store.meta(file.meta.snapshot).relations]
    return walk_rows(
        store.weighed({name: float(name == relation) for name in names}), file.meta.snapshot
    )


def _smoothed_row(
    rows: WalkRows, node: int, kept: FeatureWeights, known: "_KnownFeatures"
) -> FloatArray:
    """(n_columns,) features of a node, smoothed over those near it."""
    nodes, part = filter_row(rows, node, kept.teleport)
    largest = np.sort(np.argsort(-part, kind="stable")[:_MOST_ROWS])
    nodes, part = nodes[largest], part[largest]
    points, has_row = known.at(nodes)
    unit = (points - kept.form.center) * kept.form.scale(points)[:, None]
    smoothed: FloatArray = part[has_row] @ unit
    return smoothed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _KnownFeatures:
    """Features of nodes as a solve used them: a table's, counts, or both."""

    names: tuple[str, ...]
    table: FeatureRows | None
    encoding: Encoding | None
    counts: RelationCounts | None
    used: CountsUsed | None
    ids: pa.ChunkedArray
    answers: tuple[str, ...]  # kinds of the nodes that are counted where there is no table; or all

    @classmethod
    def of(
        cls, paths: GraphPaths, file: PredictionFile, ids: pa.ChunkedArray, kept: FeatureWeights
    ) -> Self | None:
        """Those of a prediction file; None where counts are of another snapshot by now."""
        names: list[str] = []
        table, encoding, counts = None, None, None
        if file.meta.features_version:
            store = FeatureStore(paths.features)
            meta = store.meta(file.meta.features_version)
            table = store.load(meta.version, file.n_nodes)
            encoding = None if meta.encoding is None else Encoding.from_json(meta.encoding)
            numbers = tuple(f"feature {place}" for place in range(meta.n_columns))
            names += meta.names or (encoding and encoding.names) or numbers  # sparse rows have none
        if kept.counts is not None:
            counts = CountsStore(paths).open()
            if counts is None or counts.meta.snapshot != kept.counts.snapshot:
                return None
            of_counts = zip(
                counts.names(kept.counts.directed), kept.counts.scaling.is_kept, strict=True
            )
            names += [name for name, stays in of_counts if stays]
        known = cls(
            names=tuple(names),
            table=table,
            encoding=encoding,
            counts=counts,
            used=kept.counts,
            ids=ids,
            answers=file.meta.answers,
        )
        return known if len(names) == kept.weights.shape[1] else None

    def at(self, nodes: Int64Array) -> tuple[FloatArray, BoolArray]:
        """(n_with_rows, n_columns) rows of the nodes that have some, and which these are."""
        places = nodes
        has_row: BoolArray = np.ones(nodes.size, bool)
        parts = []
        if self.table is not None:
            owners = self.table.nodes
            if owners is not None:
                places = np.searchsorted(owners, nodes).clip(max=owners.size - 1)
                has_row = owners[places] == nodes
                places = places[has_row]
            taken = self.table.take(places)
            parts.append(taken.toarray() if sp.issparse(taken) else taken)
        elif self.answers:
            has_row = nodes_of_kinds(self.ids.take(pa.array(nodes)), self.answers)
        if self.counts is not None and self.used is not None:
            counts = self.counts.rows(self.used.directed, nodes[has_row])
            parts.append(self.used.scaling.scaled(counts))
        return np.hstack(parts).astype(np.float64), has_row

    def own_values(self, node: int) -> Sequence[float | None]:
        """The node's own values as people know them; None of what it has none."""
        rows, has_row = self.at(np.array([node]))
        if not has_row.all():
            return [None] * len(self.names)
        values: list[float | None] = rows[0].tolist()
        if self.encoding is not None:
            values[: len(self.encoding.names)] = self.encoding.decoded(rows[0])
        if self.counts is not None and self.used is not None:
            (counts,) = self.counts.rows(self.used.directed, np.array([node]))
            own = np.expm1(counts[self.used.scaling.is_kept])
            values[len(values) - own.size :] = [float(f"{each:.4g}") for each in own]
        return values
