"""Small problems that kernel machines are tested on, and their dense twins."""

from dataclasses import dataclass

import numpy as np

from peewit.solvers.features import FeatureRows
from peewit.solvers.gram.kernel_functions import KernelFunction
from peewit.solvers.gram.kernel_spaces import DenseGram
from peewit.solvers.graph import Graph
from peewit.solvers.laplacian.iterated_laplacian import IteratedLaplacian
from peewit.solvers.svm.regularized_problem import Problem
from tests.reference.kernel_machines import DenseProblem, laplacian_power

WIDTH = 2.0


@dataclass(frozen=True, kw_only=True)
class Small:
    """Points of two overlapping classes, a sparse graph of near ones, and some labels."""

    points: np.ndarray
    graph: Graph
    nodes: np.ndarray
    targets: np.ndarray

    @property
    def rows(self) -> FeatureRows:
        return FeatureRows.of(self.points, len(self.points))

    def kernel(self, name: str = "gaussian") -> KernelFunction:
        return KernelFunction.fitted(name, self.rows, width=WIDTH, degree=3)

    def space(self, name: str = "gaussian") -> DenseGram:
        return DenseGram.of(self.kernel(name), self.rows, np.float64)

    def problem(self, *, laplacian: str = "normalized", power: int = 2, **settings) -> Problem:
        given = {
            "space": self.space(),
            "laplacian": IteratedLaplacian.of_graph(self.graph, name=laplacian, power=power),
            "norm_penalty": 1e-2,
            "graph_penalty": 1e-1,
            "nodes": self.nodes,
            "targets": self.targets,
        }
        return Problem(**(given | settings))


def small(seed: int = 0, *, n_nodes: int = 60, n_labeled: int = 16, n_functions: int = 1) -> Small:
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((n_nodes, 4))
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    weight = np.exp(-(distance**2)) * (rng.random((n_nodes, n_nodes)) < 0.4)
    weight = weight + weight.T
    np.fill_diagonal(weight, 0)
    weight[0] = weight[:, 0] = 0  # an isolated node
    nodes = np.sort(rng.choice(n_nodes, n_labeled, replace=False))
    noisy = points[nodes] @ rng.standard_normal((4, n_functions))
    noisy += rng.standard_normal(noisy.shape)
    targets = np.where(noisy > 0.2, 1.0, -1.0)
    targets[0], targets[1] = 1.0, -1.0
    return Small(points=points, graph=Graph.from_adjacency(weight), nodes=nodes, targets=targets)


def twin(problem: Problem, graph: Graph, column: int, laplacian: str, power: int) -> DenseProblem:
    """The dense form of one function's problem."""
    return DenseProblem(
        gram=problem.space.values(np.eye(problem.space.n_rows)),
        laplacian=laplacian_power(graph, laplacian, power),
        norm_penalty=problem.norm_penalty,
        graph_penalty=problem.graph_penalty,
        nodes=problem.nodes,
        target=problem.targets[:, column],
        bias=problem.bias,
        loss=problem.loss,
    )


def objectives(problem: Problem, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    """(n_functions,) values of (E4), or of (E1) for the hinge."""
    values = problem.space.values(coef)
    inside = values + intercept if problem.bias == "penalized" else values
    missed = problem.targets - (values[problem.nodes] + intercept)
    slack = missed if problem.loss == "squared" else np.maximum(0.0, problem.targets * missed)
    losses = (slack if problem.loss == "hinge" else np.square(slack)).sum(axis=0)
    energy = np.einsum("ij,ij->j", inside, problem.laplacian.product(inside))
    norm = problem.space.inner(coef, coef, values)
    scale = 1.0 if problem.loss == "hinge" else 0.5  # (E1) has no half, (E4) has one
    return scale * (losses + problem.norm_penalty * norm + problem.graph_penalty * energy)
