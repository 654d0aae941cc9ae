"""Small problems that linear machines are tested on, and their dense twins."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from peewit.solvers.features import FeatureRows
from peewit.solvers.graph import Graph
from peewit.solvers.linear.finite_newton import Hinges, LinearProblem
from peewit.solvers.linear.row_products import LinearRows, rows_of
from peewit.solvers.linear.row_scaling import RowScaling
from peewit.solvers.linear.transductive_problem import Transduction
from tests.reference.linear_machines import DenseMachine, DenseTransduction, formed


def in_memory(
    matrix: Any, *, is_unit: bool = True, constant: float = 1.0, parallel=map
) -> LinearRows:
    rows = FeatureRows.of(matrix, matrix.shape[0])
    form = RowScaling.fitted(rows, is_unit=is_unit, constant=constant)
    return rows_of(rows.values, form.scale(rows.values), form, parallel)


def no_graph(n_nodes: int) -> Graph:
    return Graph.from_edges([], [], [], n_nodes=n_nodes)


def sparse_points(
    n_rows: int, n_columns: int = 12, *, n_classes: int = 2, seed: int = 0, shift: float = 1.5
) -> tuple[sp.csr_array, np.ndarray]:
    """Rows of overlapping classes; every ninth is empty."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(n_classes, size=n_rows)
    points = rng.standard_normal((n_rows, n_columns)) + shift * np.eye(n_columns)[classes]
    points[np.abs(points) < 0.8] = 0.0
    points[::9] = 0.0
    return sp.csr_array(points), classes


@dataclass(frozen=True, kw_only=True)
class Small:
    """Rows of two overlapping classes, some labels, and what they cost."""

    matrix: Any
    is_unit: bool
    nodes: np.ndarray
    targets: np.ndarray
    costs: np.ndarray
    truth: np.ndarray

    @property
    def dense(self) -> np.ndarray:
        return formed(self.matrix, is_unit=self.is_unit, constant=1.0)

    def rows(self) -> LinearRows:
        return in_memory(self.matrix, is_unit=self.is_unit)

    def hinges(self) -> Hinges:
        """Of the labels; other rows cost nothing."""
        positive, negative = np.zeros((2, self.matrix.shape[0]))
        positive[self.nodes] = np.where(self.targets > 0, self.costs, 0)
        negative[self.nodes] = np.where(self.targets > 0, 0, self.costs)
        return Hinges(positive=positive, negative=negative)

    def task(
        self, *, share: float = 0.5, unlabeled_weight: float = 1.0, norm_penalty: float = 1e-2
    ) -> Transduction:
        return Transduction(
            problem=LinearProblem(rows=self.rows(), norm_penalty=norm_penalty),
            nodes=self.nodes,
            targets=self.targets,
            costs=self.costs,
            positive_share=share,
            unlabeled_weight=unlabeled_weight,
        )


def small(
    seed: int = 0,
    *,
    n_rows: int = 60,
    n_labeled: int = 16,
    n_columns: int = 8,
    is_sparse: bool = True,
    is_unit: bool = True,
    shift: float = 1.5,
) -> Small:
    matrix, classes = sparse_points(n_rows, n_columns, seed=seed, shift=shift)
    rng = np.random.default_rng(seed + 1000)
    nodes = np.sort(rng.choice(n_rows, n_labeled, replace=False))
    targets = np.where(classes[nodes] > 0, 1.0, -1.0)
    targets[0], targets[1] = 1.0, -1.0
    costs = rng.uniform(0.5, 2.0, n_labeled)
    return Small(
        matrix=matrix if is_sparse else matrix.toarray(),
        is_unit=is_unit,
        nodes=nodes,
        targets=targets,
        costs=costs / costs.sum(),
        truth=classes,
    )


def twin(problem: LinearProblem, hinges: Hinges, dense: np.ndarray, graph=None) -> DenseMachine:
    """The dense form of a problem."""
    return DenseMachine(
        rows=dense,
        norm_penalty=problem.norm_penalty,
        positive=hinges.positive,
        negative=hinges.negative,
        graph=None if graph is None else problem.graph_penalty * graph,
    )


def transductive_twin(task: Transduction, dense: np.ndarray) -> DenseTransduction:
    """The dense form of a task."""
    return DenseTransduction(
        rows=dense,
        nodes=task.nodes,
        targets=task.targets,
        costs=task.costs,
        norm_penalty=task.problem.norm_penalty,
        unlabeled_weight=task.unlabeled_weight,
    )
