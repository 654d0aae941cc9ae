"""Kernel machines with a graph penalty written out densely: objective, gradient, Newton."""

from dataclasses import dataclass

import numpy as np

from peewit.solvers.graph import Graph


def kernel_matrix(name: str, rows: np.ndarray, others: np.ndarray, width: float, degree: int = 3):
    """The Gram matrix, entry by entry."""
    gram = np.empty((len(rows), len(others)))
    for i, x in enumerate(rows):
        for j, z in enumerate(others):
            if name == "gaussian":
                gram[i, j] = np.exp(-np.sum((x - z) ** 2) / (2 * width**2))
            elif name == "polynomial":
                gram[i, j] = ((1 + x @ z / width**2) / 2) ** degree
            else:
                gram[i, j] = x @ z / width**2
    return gram


def laplacian_power(graph: Graph, name: str, power: int) -> np.ndarray:
    """L^power, formed."""
    weight = graph.adjacency.toarray()
    degree = weight.sum(axis=1)
    laplacian = np.diag(degree) - weight
    if name == "normalized":
        inverse = np.array([1 / np.sqrt(d) if d > 0 else 0.0 for d in degree])
        laplacian = laplacian * np.outer(inverse, inverse)
    return np.linalg.matrix_power(laplacian, power)


@dataclass(frozen=True, kw_only=True)
class DenseProblem:
    """One function; the unknowns are [intercept, coef]."""

    gram: np.ndarray
    laplacian: np.ndarray
    norm_penalty: float
    graph_penalty: float
    nodes: np.ndarray
    target: np.ndarray
    bias: str = "none"
    loss: str = "squared-hinge"

    def objective(self, unknowns: np.ndarray) -> float:
        intercept, coef = unknowns[0], unknowns[1:]
        values = self.gram @ coef
        inside = values + intercept if self.bias == "penalized" else values
        norm, energy = coef @ values, inside @ self.laplacian @ inside
        miss = self.target - values[self.nodes] - intercept
        if self.loss != "squared":
            miss = np.maximum(0, self.target * miss)
        if self.loss == "hinge":
            return miss.sum() + self.norm_penalty * norm + self.graph_penalty * energy
        return 0.5 * (miss @ miss + self.norm_penalty * norm + self.graph_penalty * energy)

    def gradient(self, unknowns: np.ndarray) -> np.ndarray:
        """(E5), and its form for a penalized intercept."""
        intercept, coef = unknowns[0], unknowns[1:]
        values = self.gram @ coef
        inside = values + intercept if self.bias == "penalized" else values
        miss = values[self.nodes] + intercept - self.target
        if self.loss == "squared-hinge":
            miss = np.where(self.target * (values[self.nodes] + intercept) < 1, miss, 0)
        residual = self.graph_penalty * self.laplacian @ inside
        residual[self.nodes] += miss
        by_coef = self.gram @ (residual + self.norm_penalty * coef)
        if self.bias == "none":
            return np.concatenate([[0.0], by_coef])
        return np.concatenate(
            [[residual.sum() if self.bias == "penalized" else miss.sum()], by_coef]
        )

    def newton(self, max_iter: int = 50) -> np.ndarray:
        """(E7), one factorisation a step, until the active labels repeat; without a line search."""
        n_nodes = len(self.gram)
        active = np.ones(len(self.nodes), bool)
        for _ in range(max_iter):
            unknowns = self._newton_step(n_nodes, active)
            outputs = self.gram[self.nodes] @ unknowns[1:] + unknowns[0]
            before, active = active, self.target * outputs < 1
            if self.loss == "squared" or (before == active).all():
                return unknowns
        raise ArithmeticError("the active labels do not repeat")

    def _newton_step(self, n_nodes: int, active: np.ndarray) -> np.ndarray:
        own = self.nodes[active]
        marked = np.zeros(n_nodes)
        marked[own] = 1
        right = np.zeros(n_nodes)
        right[own] = self.target[active]
        inside = self.graph_penalty * self.laplacian
        block = marked[:, None] * self.gram + self.norm_penalty * np.eye(n_nodes)
        block += inside @ self.gram
        if self.bias == "none":
            return np.concatenate([[0.0], np.linalg.solve(block, right)])
        matrix = np.zeros((n_nodes + 1, n_nodes + 1))
        matrix[0, 0] = len(own)
        matrix[0, 1:] = marked @ self.gram
        matrix[1:, 0] = marked
        matrix[1:, 1:] = block
        if self.bias == "penalized":
            ones = np.ones(n_nodes)
            matrix[0, 0] += ones @ inside @ ones
            matrix[0, 1:] += ones @ inside @ self.gram
            matrix[1:, 0] += inside @ ones
        return np.linalg.solve(matrix, np.concatenate([[right.sum()], right]))
