"""Base of the total variation family: labels as targets, and the kernel's space."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal

import numpy as np

from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import FloatArray
from peewit.solvers.gram.feature_spaces import FeatureMap, GramFactor
from peewit.solvers.gram.kernel_spaces import DenseGram
from peewit.solvers.gram.memory_plan import GramPlan
from peewit.solvers.hyperparameters import Rule, hyperparameter
from peewit.solvers.iteration_loop import Watch
from peewit.solvers.labels import Labels, one_against_rest
from peewit.solvers.models.contract.inductive_model import InductiveModel
from peewit.solvers.models.contract.kernel_space_model import KernelSpaceModel
from peewit.solvers.models.contract.point_model import PointProblem, Points
from peewit.solvers.solution import Solution
from peewit.solvers.status import Status
from peewit.solvers.variation.penalty_inverses import SpaceInverse

_DENSE_ROWS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class VariationalModel(KernelSpaceModel, InductiveModel):
    """A model with weights for the labels, the norm of functions and the graph.

    Edge weights are in units of the mean degree, so that their scale changes nothing. With a norm
    of functions of features, those functions predict new points (G2a).
    """

    of_graph: ClassVar[str] = "graph"

    auto_norm_penalty: ClassVar[float] = 0.1
    """What 'auto' is if there are features."""

    gram: Literal["auto", "dense", "landmarks"] = hyperparameter(
        "auto",
        Rule(
            doc="How the Gram matrix is held: in memory, or approximated on landmarks. 'auto' is "
            "landmarks above 1,000 nodes; a linear kernel then needs none.",
            kind=str,
            words=("auto", "dense", "landmarks"),
        ),
    )
    n_landmarks: int = hyperparameter(
        1_000, Rule(doc="Nodes that the kernel is approximated on.", kind=int, minimum=1)
    )
    norm_penalty: float | Literal["auto"] = hyperparameter(
        "auto",
        Rule(
            doc="Weight of the squared norm of functions of the features, lambda; 0 leaves the "
            "kernel out, and no embedding or Gram matrix is made. 'auto' is 0 without features.",
            minimum=0.0,
            words=("auto",),
        ),
    )

    def plan(
        self, n_rows: int, n_columns: int, budget_bytes: int, *, row_bytes: int | None = None
    ) -> GramPlan:
        """As `KernelSpaceModel.plan`; 'auto' is on landmarks above 1,000 nodes.

        The penalty is factored, so that a Gram matrix made block by block does not serve.
        """
        if self.gram != "auto" or self.kernel == "linear":
            return KernelSpaceModel.plan(self, n_rows, n_columns, budget_bytes, row_bytes=row_bytes)
        resolved = replace(self, gram="dense" if n_rows <= _DENSE_ROWS else "landmarks")
        return resolved.plan(n_rows, n_columns, budget_bytes, row_bytes=row_bytes)

    def needs_points(self, has_features: bool) -> bool:
        """Whether functions have a norm."""
        return self.norm_penalty != 0.0 and (has_features or self.norm_penalty != "auto")

    def _has_norm(self, prepared: Points) -> bool:
        return self.needs_points(prepared.rows is not None)

    def solve_watched(
        self, prepared: Points, labels: Labels, start: Solution | None, watch: Watch
    ) -> Solution:
        """Scores of every node; see `Model.solve`.

        Without a norm features are not used, and nodes without any take part like the others.
        """
        if prepared.rows is not None and not self._has_norm(prepared):
            points = prepared
            prepared = points.latest(
                "without features",
                None,
                lambda: replace(points, graph=points.whole, rows=None, nodes=None, _made={}),
            )
        return KernelSpaceModel.solve_watched(self, prepared, labels, start, watch)

    def predict(self, prepared: Points, solution: Solution, features: Any) -> FloatArray:
        """Class scores of new points; see `InductiveModel.predict`.

        Raises ValueError if the functions have no norm, too: values at nodes are all there is.
        """
        if prepared.rows is not None and not self._has_norm(prepared):
            raise BadArgument(
                "norm_penalty", "must be above 0 where new points are predicted, got 0"
            )
        return InductiveModel.predict(self, prepared, solution, features)

    def _points_status(self, prepared: Points, watch: Watch) -> Status:
        """Status of making the points of the kernel."""
        if not self._has_norm(prepared):
            return Status.CONVERGED
        return self._points(prepared, watch).status

    def _feature_map(self, problem: PointProblem) -> FeatureMap:
        """The space as explicit features: a Gram matrix is factored once."""
        prepared, watch = problem.prepared, problem.watch
        space = self._space(prepared, self._points(prepared, watch).rows, watch, problem.stats)
        if isinstance(space, DenseGram):
            return prepared.latest("gram factor", id(space), lambda: GramFactor(space))
        if isinstance(space, FeatureMap):
            return space
        raise TypeError(f"nothing is factored of a {type(space).__name__}")

    def _inverse(
        self,
        problem: PointProblem,
        *,
        graph_penalty: float,
        pull: float,
        name: Literal["inverse", "tied inverse"] = "inverse",
    ) -> SpaceInverse:
        """The inverse of the norm and the other quadratic terms, kept for the next solve."""
        norm_penalty = self.norm_penalty
        if norm_penalty == "auto":
            norm_penalty = self.auto_norm_penalty
        features = self._feature_map(problem)
        return problem.prepared.latest(
            name,
            ("variational", id(features), norm_penalty, graph_penalty, pull),
            lambda: SpaceInverse.of(
                features,
                problem.prepared.graph,
                norm_penalty=norm_penalty,
                graph_penalty=graph_penalty,
                pull=pull,
                on_step=problem.watch.step_of("factoring"),
            ),
        )


def mean_degree(prepared: Points) -> float:
    """Mean degree of the nodes that have edges; 1 if there are none."""
    degree = prepared.graph.degree
    n_joined = int(np.count_nonzero(degree))
    return float(degree.sum()) / n_joined if n_joined else 1.0


def targets_of(labels: Labels) -> FloatArray:
    """One column of 1 and -1 for two classes, else one-hot rows."""
    return one_against_rest(labels) if labels.n_classes == 2 else labels.targets()
