"""Total variation the slow way: conic programs over dense incidence matrices."""

from collections.abc import Callable
from dataclasses import dataclass

import clarabel
import numpy as np
import scipy.sparse as sp

from peewit.solvers.graph import Graph


def incidence(graph: Graph) -> tuple[sp.csr_matrix, np.ndarray]:
    """The incidence matrix, one row of 1 and -1 for each edge, and the weights."""
    u, v, weight = graph.edges()
    n_edges = weight.size
    rows = np.tile(np.arange(n_edges), 2)
    signs = np.repeat([1.0, -1.0], n_edges)
    matrix = sp.csr_matrix((signs, (rows, np.concatenate([u, v]))), shape=(n_edges, graph.n_nodes))
    return matrix, weight


def proximal_by_conic_program(
    graph: Graph, target: np.ndarray, penalty: float, pull: float, fixed: np.ndarray | None = None
) -> np.ndarray:
    """argmin penalty TV(g) + pull / 2 |g - target|^2; on the simplex where ``fixed`` is given."""
    matrix, weight = incidence(graph)
    n_nodes, n_columns = target.shape
    n_edges = weight.size
    n_values, n_slacks = n_nodes * n_columns, n_edges * n_columns
    differences = sp.kron(sp.eye(n_columns), matrix)  # columns one after the other
    identity = sp.eye(n_slacks)
    rows = [sp.hstack([differences, -identity]), sp.hstack([-differences, -identity])]
    bounds = [np.zeros(2 * n_slacks)]
    cones = [clarabel.NonnegativeConeT(2 * n_slacks)] if n_slacks else []
    if fixed is not None:
        rows.append(sp.hstack([-sp.eye(n_values), sp.csr_matrix((n_values, n_slacks))]))
        bounds.append(np.zeros(n_values))
        cones.append(clarabel.NonnegativeConeT(n_values))
        sums = sp.kron(np.ones((1, n_columns)), sp.eye(n_nodes))
        rows.append(sp.hstack([sums, sp.csr_matrix((n_nodes, n_slacks))]))
        bounds.append(np.ones(n_nodes))
        held = np.flatnonzero(fixed >= 0)
        places = fixed[held] * n_nodes + held
        pins = sp.csr_matrix(
            (np.ones(held.size), (np.arange(held.size), places)),
            shape=(held.size, n_values + n_slacks),
        )
        rows.append(pins)
        bounds.append(np.ones(held.size))
        cones.append(clarabel.ZeroConeT(n_nodes + held.size))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    program = clarabel.DefaultSolver(
        sp.csc_matrix(sp.diags(np.concatenate([np.full(n_values, pull), np.zeros(n_slacks)]))),
        np.concatenate([-pull * target.T.ravel(), np.tile(penalty * weight, n_columns)]),
        sp.csc_matrix(sp.vstack(rows)),
        np.concatenate(bounds),
        cones,
        settings,
    )
    solution = np.array(program.solve().x)[:n_values]
    return solution.reshape(n_columns, n_nodes).T


@dataclass(frozen=True, kw_only=True)
class Hinge:
    """weight sum max(0, 1 - y (f + offset + b) / margin); b is free where there is no offset."""

    nodes: np.ndarray
    targets: np.ndarray
    weight: float
    margin: float = 1.0
    offset: np.ndarray | None = None

    def value(self, values: np.ndarray, intercepts: np.ndarray) -> float:
        """The loss of functions, given with their intercepts."""
        offset = intercepts if self.offset is None else self.offset
        missed = 1.0 - self.targets * (values[self.nodes] + offset) / self.margin
        return float(self.weight * np.maximum(missed, 0.0).sum())


@dataclass(frozen=True, kw_only=True)
class Composite:
    """sum_k f_k' Q f_k / 2 - c_k' f_k + penalty TV(f_k), perhaps + hinges, perhaps on the simplex.

    ``quadratic`` is Q, (n_nodes, n_nodes); ``linear`` holds the columns c_k.
    """

    graph: Graph
    quadratic: np.ndarray
    linear: np.ndarray
    penalty: float = 0.0
    hinge: Hinge | None = None
    on_simplex: bool = False

    def value(self, values: np.ndarray, intercepts: np.ndarray | None = None) -> float:
        """The objective; values off the simplex are not told apart."""
        matrix, weight = incidence(self.graph)
        total = 0.5 * np.sum(values * (self.quadratic @ values)) - np.sum(self.linear * values)
        total += self.penalty * np.sum(weight[:, None] * np.abs(matrix @ values))
        if self.hinge is not None:
            zero = np.zeros(values.shape[1])
            total += self.hinge.value(values, zero if intercepts is None else intercepts)
        return float(total)

    def solution(self) -> tuple[np.ndarray, np.ndarray]:
        """(n_nodes, n_columns) minimum and (n_columns,) intercepts, by one conic program."""
        matrix, weight = incidence(self.graph)
        n_nodes, n_columns = self.linear.shape
        hinge = self.hinge
        n_labeled = 0 if hinge is None else hinge.nodes.size
        has_intercepts = hinge is not None and hinge.offset is None
        sizes = [n_nodes, weight.size if self.penalty else 0, n_labeled, int(has_intercepts)]
        sizes = [size * n_columns for size in sizes]
        rows, bounds = [], []

        def less(blocks: list, bound: np.ndarray) -> None:
            """Rows with blocks for values, slacks of TV and of hinges, and intercepts."""
            n_rows = bound.size
            some = zip(blocks, sizes, strict=True)
            full = [sp.csr_matrix((n_rows, size)) if one is None else one for one, size in some]
            rows.append(sp.hstack(full))
            bounds.append(bound)

        identity = sp.eye(n_columns)
        if self.penalty:
            differences, slack = sp.kron(identity, matrix), -sp.eye(sizes[1])
            less([differences, slack, None, None], np.zeros(sizes[1]))
            less([-differences, slack, None, None], np.zeros(sizes[1]))
        if hinge is not None:
            own = sp.csr_matrix(np.eye(n_nodes)[hinge.nodes])
            signs = sp.diags(hinge.targets.T.ravel() / hinge.margin)
            constant = signs @ sp.kron(identity, np.ones((n_labeled, 1)))
            offset = np.zeros(n_columns) if hinge.offset is None else hinge.offset
            less(
                [
                    -signs @ sp.kron(identity, own),
                    None,
                    -sp.eye(sizes[2]),
                    -constant if has_intercepts else None,
                ],
                constant @ offset - 1.0,
            )
            less([None, None, -sp.eye(sizes[2]), None], np.zeros(sizes[2]))
        if self.on_simplex:
            less([-sp.eye(sizes[0]), None, None, None], np.zeros(sizes[0]))
        n_less = sum(bound.size for bound in bounds)
        cones = [clarabel.NonnegativeConeT(n_less)] if n_less else []
        if self.on_simplex:
            sums = sp.kron(np.ones((1, n_columns)), sp.eye(n_nodes))
            less([sums, None, None, None], np.ones(n_nodes))
            cones.append(clarabel.ZeroConeT(n_nodes))
        n_rest = sum(sizes[1:])
        quadratic = sp.block_diag(
            [sp.kron(identity, sp.csr_matrix(self.quadratic)), sp.csr_matrix((n_rest, n_rest))]
        )
        cost = [
            -self.linear.T.ravel(),
            np.tile(self.penalty * weight, n_columns)[: sizes[1]],
            np.full(sizes[2], 0.0 if hinge is None else hinge.weight),
            np.zeros(sizes[3]),
        ]
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
        program = clarabel.DefaultSolver(
            sp.csc_matrix(sp.triu(quadratic)),
            np.concatenate(cost),
            sp.csc_matrix(sp.vstack(rows) if rows else sp.csr_matrix((0, sum(sizes)))),
            np.concatenate([*bounds, np.zeros(0)]),
            cones,
            settings,
        )
        found = np.array(program.solve().x)
        values = found[: sizes[0]].reshape(n_columns, n_nodes).T
        if not has_intercepts:
            return values, np.zeros(n_columns)
        return values, found[-n_columns:]


def bisected_intercept(
    values: np.ndarray, targets: np.ndarray, pull: float, label_weight: float
) -> tuple[float, float]:
    """Ends of the interval of b where sum_i y_i clip(r (1 - y_i (e_i + b)), 0, mu) is zero."""

    def excess(intercept: float) -> float:
        missed = 1.0 - targets * (values + intercept)
        return float(np.sum(targets * np.clip(pull * missed, 0.0, label_weight)))

    tiny = 1e-12 * label_weight * targets.size
    reach = 2.0 + np.abs(values).max() + label_weight / pull

    def last(holds: Callable[[float], bool]) -> float:
        low, high = -reach, reach
        for _ in range(200):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if holds(middle) else (low, middle)
        return low

    return last(lambda b: excess(b) > tiny), last(lambda b: excess(b) >= -tiny)
