"""Columns of `auto` on all edges: systems, and what is prepared from their solutions."""

from dataclasses import dataclass, replace

import numpy as np

from peewit.solvers.arrays import FloatArray
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.laplacian.unsparsified_system import FullDegrees, FullSystem
from peewit.solvers.laplacian.walks.walk_rows import looped_degrees
from peewit.solvers.models.auto.density_arm import DENSITY_RTOL, TELEPORT, density_maker
from peewit.solvers.models.auto.point_arms import points_of_all_edges
from peewit.solvers.models.auto.poisson_arm import Potentials, center, mean_degree
from peewit.solvers.models.auto.preparation import (
    LARGEST,
    AllEdges,
    NodePoints,
    PreparedAuto,
    indicators,
)
from peewit.solvers.models.contract.refinable_model import FullGraph
from peewit.solvers.models.left_out.label_groups import GroupColumns, LabelGroups


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ColumnsOfAllEdges:
    """The systems of potentials and densities, and points of nodes."""

    prepared: PreparedAuto  # of the edges kept
    groups: LabelGroups
    degrees: FullDegrees  # of all edges
    potentials: FullSystem
    densities: FullSystem
    points: dict[str, NodePoints] | None = None

    @classmethod
    def of(
        cls, prepared: PreparedAuto, poisson: Potentials, degrees: FullDegrees, watch: Watch
    ) -> "ColumnsOfAllEdges":
        """Begun with the columns of the edges kept; raises `RunStopped`."""
        graph, groups = prepared.graph, poisson.groups
        sources: FloatArray = np.asarray(
            indicators(groups.members(), graph.n_nodes, np.float64), np.float64
        )
        potentials = FullSystem(
            sparsifier=graph,
            scale=1.0,
            shift=np.zeros(graph.n_nodes),
            zero_mean=False,
            rhs=sources,
            start=poisson.columns.T.astype(np.float64),
            rtol=DENSITY_RTOL,
            parallel=prepared.base.parallel,
        )
        begun = prepared.density_columns.of(groups, density_maker(prepared, watch))
        # (K6) is vol a ((1 - a) L + a D)^-1, since D - A is L with and without loops
        densities = replace(
            potentials,
            scale=1.0 - TELEPORT,
            shift=TELEPORT * looped_degrees(*degrees),
            rhs=TELEPORT * sources,
            start=begun.T.astype(np.float64),
        )
        return cls(
            prepared=prepared,
            groups=groups,
            degrees=degrees,
            potentials=potentials,
            densities=densities,
        )

    @property
    def volume(self) -> float:
        """Unit of densities, in solutions of their system (K6)."""
        return float(looped_degrees(*self.degrees).sum())

    @property
    def unit(self) -> float:
        """Unit of potentials: the mean degree."""
        return float(self.degrees.weight.mean()) or 1.0

    def with_points(self, full: FullGraph) -> "ColumnsOfAllEdges":
        """With points of nodes from all edges."""
        return replace(self, points=points_of_all_edges(full.times, self.degrees, full.watch))

    def read(
        self, potentials: FloatArray, densities: FloatArray, all_edges: AllEdges
    ) -> PreparedAuto:
        """What arms are made from, by the solutions of both systems."""
        whole = replace(self.prepared.graph, degree=self.degrees.weight)
        columns = np.clip(self.volume * densities.T, 0.0, LARGEST).astype(np.float32)
        return replace(
            self.prepared,
            all_edges=all_edges,
            potential_columns=GroupColumns.holding(
                self.groups, center(potentials, whole, mean_degree(whole))
            ),
            density_columns=GroupColumns.holding(self.groups, columns),
            points=self.points,
            has_full_points=True,
            walk_cache=None,
            harmonic_cache=None,
        )
