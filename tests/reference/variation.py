"""Total variation the slow way: conic programs over dense incidence matrices."""

import clarabel
import numpy as np
import scipy.sparse as sp

from solvers.graph import Graph


def incidence(graph: Graph) -> tuple[sp.csr_matrix, np.ndarray]:
    """The incidence matrix, one row of 1 and -1 for each edge, and the weights."""
    u, v, weight = graph.edges()
    n_edges = weight.size
    rows = np.tile(np.arange(n_edges), 2)
    signs = np.repeat([1.0, -1.0], n_edges)
    matrix = sp.csr_matrix((signs, (rows, np.concatenate([u, v]))), shape=(n_edges, graph.n_nodes))
    return matrix, weight


def proximal_by_conic_program(
    graph: Graph,
    target: np.ndarray,
    penalty: float,
    pull: float,
    fixed: np.ndarray | None = None,
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
