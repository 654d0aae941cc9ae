"""Estimate of a solve's memory and time before it runs, and refusal of one that cannot fit.

Memory of a Gram matrix is planned as in the solving process; memory of a graph follows from its
size. Time is that of the last equal job, or unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import psutil

from peewit.service.catalog import GraphRecord
from peewit.service.home import Home
from peewit.service.jobs.queue import JobQueue
from peewit.service.labels.store import LabelStore
from peewit.service.tasks.forecast import last_equal, seconds_by_stage
from peewit.service.tasks.newest_snapshot import NoSnapshot, newest_snapshot
from peewit.service.tasks.solving.counts import counts_bytes, wants_counts
from peewit.service.tasks.solving.solve_memory import (
    PROOF_COLUMNS,
    RESERVED_BYTES,
    graph_bytes,
    kept_bytes,
    refined_bytes,
    refusal,
)
from peewit.service.tasks.solving.solve_options import SolveOptions, validate_solve
from peewit.service.wire.jobs import Estimate
from peewit.solvers.features import FeatureRows
from peewit.solvers.gram.memory_plan import GramPlan, GramTooLarge
from peewit.solvers.models.contract.embedded_model import EmbeddedModel
from peewit.solvers.models.contract.feature_model import FEATURES, FeatureModel
from peewit.solvers.models.contract.kernel_space_model import KernelSpaceModel
from peewit.solvers.models.contract.model import Model
from peewit.solvers.models.contract.refinable_model import Refinable
from peewit.solvers.models.harmonic.label_shares import shares_bytes
from peewit.solvers.relations.weight_texts import parsed_weights
from peewit.streaming.container_limits import container_memory_bytes
from peewit.streaming.features.store import FeatureStore
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.problems import Unprocessable
from peewit.streaming.snapshots.provenance import SnapshotMeta
from peewit.streaming.snapshots.store import SnapshotStore

_GIB: Final = 2**30
_LEAST_CLASSES: Final = 2


class DoesNotFit(Unprocessable):
    """A job needs more memory than there is; the message says what would do."""

    title = "Does not fit the memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Need:
    """Memory of a solve; fields as of `Estimate`."""

    n_bytes: int | None
    limit_bytes: int
    fits: bool = True
    plan: GramPlan | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimator:
    """Estimates solves; ``memory_bytes`` is ``Settings.child_memory_bytes`` of the workers."""

    jobs: JobQueue
    labels: LabelStore
    graphs_directory: Path
    memory_bytes: int

    @classmethod
    def of(cls, home: Home) -> Self:
        """An estimator for the graphs of a home."""
        return cls(
            jobs=home.jobs,
            labels=home.labels,
            graphs_directory=home.settings.graphs_directory,
            memory_bytes=home.settings.child_memory_bytes,
        )

    def estimate(self, graph: GraphRecord, model: str, parameters: Mapping[str, Any]) -> Estimate:
        """Memory and time of a solve."""
        chosen, options = validate_solve(model, parameters)
        self.labels.require_column(graph.id, options.label_column)
        paths = GraphPaths(root=self.graphs_directory / graph.id)
        snapshot = SnapshotStore(paths.snapshots).meta(newest_snapshot(graph))
        if options.relations:
            parsed_weights(options.relations, [each.name for each in snapshot.relations])
        version = graph.features_version if chosen.uses_features else 0
        rows = None
        if version:
            rows = FeatureStore(paths.features).load(version, snapshot.n_nodes)
        points = _points(chosen, snapshot, rows)
        held = self._held_bytes(graph, chosen, options, snapshot)
        need = self._need(model, chosen, snapshot, points, rows, held)
        last = last_equal(self.jobs, graph.id, "solve", model, parameters)
        taken = seconds_by_stage(last)
        return Estimate(
            model=model,
            input=_input(chosen, rows),
            snapshot=snapshot.number,
            features_version=version,
            n_nodes=snapshot.n_nodes,
            n_edges=snapshot.edges_kept,
            n_points=None if points is None else points[0],
            n_features=None if points is None else points[1],
            gram=None if need.plan is None else need.plan.form,
            precision=None if need.plan is None else need.plan.dtype.name,
            gram_bytes=None if need.plan is None else need.plan.n_bytes,
            n_bytes=need.n_bytes,
            limit_bytes=need.limit_bytes,
            fits=need.fits,
            message=need.message,
            seconds=round(sum(taken.values()), 3) if taken else None,
            seconds_job=None if last is None else last.id,
            seconds_snapshot=None if last is None else last.snapshot,
        )

    def leaves_room(self, estimate: Estimate) -> bool:
        """Whether a solve takes at most half of a child's memory and of the free memory."""
        if estimate.n_bytes is None:
            return False
        free = psutil.virtual_memory().available
        least = min(self.memory_bytes, free, container_memory_bytes() or free)
        return 2 * estimate.n_bytes <= least

    def require_room(self, graph: GraphRecord, model: str, parameters: Mapping[str, Any]) -> None:
        """Raise `DoesNotFit` for a solve that cannot fit; a graph without a snapshot passes."""
        try:
            estimate = self.estimate(graph, model, parameters)
        except NoSnapshot:  # the job says so, unless one is there when it begins
            return
        if not estimate.fits:
            raise DoesNotFit(estimate.message)

    def _need(
        self,
        name: str,
        model: Model,
        snapshot: SnapshotMeta,
        points: tuple[int, int] | None,
        rows: FeatureRows | None,
        held_bytes: int,
    ) -> _Need:
        size = snapshot.n_nodes, snapshot.edges_kept
        least, n_bytes = (
            RESERVED_BYTES + graph_bytes(*size, copies) + held_bytes
            for copies in model.graph_copies
        )
        if isinstance(model, KernelSpaceModel) and points is not None:
            n_points, n_columns = points
            budget = kept_bytes(self.memory_bytes, model, snapshot)
            try:
                row_bytes = None if rows is None else rows.row_bytes
                plan = model.plan(n_points, n_columns, budget, row_bytes=row_bytes)
            except GramTooLarge as error:
                message = refusal(error, self.memory_bytes, snapshot)
                return _Need(
                    n_bytes=None, limit_bytes=self.memory_bytes, fits=False, message=message
                )
            n_bytes += plan.n_bytes
            return _Need(n_bytes=n_bytes, limit_bytes=self.memory_bytes, plan=plan)
        if isinstance(model, FeatureModel) and points is not None:
            n_points, n_columns = points
            row_bytes = 8 * n_columns if rows is None else rows.row_bytes
            working = model.working_bytes(n_points, n_columns, row_bytes)
            least, n_bytes = least + working, n_bytes + working
        here = psutil.virtual_memory().total
        limit = max(self.memory_bytes, min(here, container_memory_bytes() or here))
        if n_bytes <= limit:
            return _Need(n_bytes=n_bytes, limit_bytes=limit)
        fits = least <= limit
        needs = "needs" if not fits else "needs, where edges mix weakly,"
        message = (
            f"model {name} {needs} about {(n_bytes if fits else least) / _GIB:.2f} GiB for "
            f"{snapshot.n_nodes} nodes and {snapshot.edges_kept} edges, but this machine "
            f"has {limit / _GIB:.2f} GiB; set max_edges or a larger epsilon. If other "
            "machines solve, set PEEWIT_CHILD_MEMORY_BYTES to what they have"
        )
        return _Need(n_bytes=n_bytes, limit_bytes=limit, fits=fits, message=message)

    def _held_bytes(
        self, graph: GraphRecord, model: Model, options: SolveOptions, snapshot: SnapshotMeta
    ) -> int:
        """Bytes that a solve holds for edges and nodes, with as many labels as there are now."""
        n_nodes, n_edges = snapshot.n_nodes, snapshot.edges_kept
        again = graph_bytes(n_nodes, n_edges, model.graph_copies[1]) if options.replicas else 0
        is_counted = wants_counts(
            model,
            options,
            snapshot,
            directed=graph.settings.directed,
            features_version=graph.features_version,
        )
        if is_counted:
            again += counts_bytes(snapshot)
        has_features = bool(graph.features_version) or is_counted
        is_smoothed_along_each = model.smooths_by_relation and has_features
        # labels weigh relations, unless their weights are given
        if len(snapshot.relations) > 1 and (is_smoothed_along_each or not options.relations):
            copies = 2.0 if is_smoothed_along_each else 1.0  # numbered as near in memory, too
            again += graph_bytes(n_nodes, n_edges, 1.0)
            for each in snapshot.relations:
                again += graph_bytes(n_nodes, each.edges_kept, copies)

        def held(n_classes: int) -> int:
            for_nodes = n_nodes * model.node_bytes(n_nodes, n_classes)
            if (options.refine or options.prove) and isinstance(model, Refinable):
                is_real = options.target == "real"
                n_columns = 1 if is_real else model.full_columns(n_nodes, n_classes)
                n_columns += PROOF_COLUMNS if options.prove else 0
                for_nodes = max(for_nodes, refined_bytes(n_nodes, n_columns))
            return 2 * snapshot.edges_kept * model.entry_bytes(n_classes) + for_nodes

        if held(_LEAST_CLASSES) == 0 and not options.label_shares:
            return again  # classes cost a look at every label
        counts = self.labels.class_counts(graph.id, column=options.label_column)
        shares = shares_bytes(n_nodes, sum(counts.values())) if options.label_shares else 0
        return again + shares + held(max(_LEAST_CLASSES, len(counts)))


def _input(model: Model, rows: FeatureRows | None) -> str:
    if not isinstance(model, FeatureModel):
        return "graph"
    return model.of_graph if rows is None else FEATURES


def _points(
    model: Model, snapshot: SnapshotMeta, rows: FeatureRows | None
) -> tuple[int, int] | None:
    """Number of points of a model of points, and their dimension; None for other models."""
    if isinstance(model, EmbeddedModel) and not model.needs_points(rows is not None):
        return None
    if rows is not None:
        return rows.n_rows, rows.n_columns
    if isinstance(model, EmbeddedModel):
        return snapshot.n_nodes, min(model.n_dimensions, snapshot.n_nodes)
    return None
