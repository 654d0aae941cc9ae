"""The module that networkx calls: conversions, whether to run, and the two functions.

Each function solves one linear system with an M-matrix and gives each node the class of its largest
score. networkx iterates towards the same scores from zero. That iteration decides here too where
the two largest scores of a node differ by less than the solver's error, as for ties.
"""

import warnings
from typing import Any, Final

import networkx as nx
import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from peewit.solvers.arrays import BoolArray, FloatArray, IntArray
from peewit.solvers.graph import Graph
from peewit.solvers.laplacian.solver import LaplacianSolver
from peewit.solvers.networkx_backend.converted_graph import ConvertedGraph
from peewit.solvers.status import Status

LEAST_EDGES: Final = 30_000
"""Number of edges from which a solve is faster than networkx's 30 steps (measured)."""

_DISTINCT: Final = 1e3
"""Scores of harmonic functions are told apart if they differ by more than this times ``rtol``."""

__all__ = [
    "can_run",
    "convert_from_nx",
    "convert_to_nx",
    "harmonic_function",
    "local_and_global_consistency",
    "should_run",
]


def convert_from_nx(graph: Any, **options: Any) -> ConvertedGraph:
    """The graph with its matrix; all attributes are preserved, as the source graph is kept."""
    del options
    return graph if isinstance(graph, ConvertedGraph) else ConvertedGraph(graph)


def convert_to_nx(result: Any, *, name: str | None = None) -> Any:
    """A copy of the source networkx graph; any other result as it is."""
    del name
    return result.source.copy() if isinstance(result, ConvertedGraph) else result


def can_run(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | str:
    """True, or the reason why a function cannot run on these arguments."""
    del name
    graph = args[0] if args else kwargs["G"]
    return "directions of edges count in networkx" if graph.is_directed() else True


def should_run(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | str:
    """True, or the reason why networkx should run it itself."""
    del name
    graph = args[0] if args else kwargs["G"]
    if isinstance(graph, ConvertedGraph) or graph.number_of_edges() >= LEAST_EDGES:
        return True
    return f"networkx is faster on graphs of fewer than {LEAST_EDGES} edges"


def harmonic_function(
    G: ConvertedGraph, max_iter: int = 30, label_name: str = "label", *, rtol: float = 1e-10
) -> list[Any]:
    """Class of each node by the harmonic function of the labels (D1).

    ``max_iter`` limits the solver's iterations, and networkx's for nodes that those decide. Raises
    `networkx.NetworkXNotImplemented` for directed graphs, `networkx.NetworkXError` if no node has a
    label, and ValueError for arguments out of range.
    """
    _check(G, max_iter)
    nodes, codes, classes = G.labels(label_name)
    one_hot = _one_hot(nodes, codes, len(G), classes.size)
    graph = G.graph
    free = np.ones(graph.n_nodes, bool)
    free[nodes] = False
    pull = (graph.adjacency @ one_hot)[free]  # A_US y_S
    scores = one_hot.copy()
    scores[free] = _solve(
        graph.subgraph(np.flatnonzero(free)), 1.0, pull.sum(axis=1), pull, max_iter, rtol
    )
    close = free & _are_close(scores, _DISTINCT * rtol)
    walk = sp.diags_array(free / G.degree) @ G.matrix
    return _name_nodes(G, classes, scores, close, walk, one_hot, max_iter)


def local_and_global_consistency(
    G: ConvertedGraph,
    alpha: float = 0.99,
    max_iter: int = 30,
    label_name: str = "label",
    *,
    rtol: float = 1e-10,
) -> list[Any]:
    """Class of each node by the limit of label spreading, (1 - alpha) (I - alpha S)^-1 Y.

    ``max_iter`` and the errors are those of `harmonic_function`. Raises ValueError also for
    ``alpha`` outside [0, 1), where the iteration has no limit.
    """
    _check(G, max_iter)
    if not 0.0 <= alpha < 1.0:
        raise ValueError(
            f"alpha must lie in [0, 1), got {alpha}: from 1 on the iteration has no limit; "
            "backend='networkx' takes steps of it all the same"
        )
    nodes, codes, classes = G.labels(label_name)
    sources = (1.0 - alpha) * _one_hot(nodes, codes, len(G), classes.size)
    root = np.sqrt(G.degree)[:, None]
    halved = sp.diags_array(1.0 / root[:, 0])
    spread = alpha * (halved @ G.matrix @ halved)
    scores = sources.copy()
    if alpha > 0.0:  # (alpha L + (1 - alpha) D) x = sqrt(D) Y, and the scores are sqrt(D) x
        shift = (1.0 - alpha) * G.degree
        scores = root * _solve(G.graph, alpha, shift, root * sources, max_iter, rtol)
    left = np.linalg.norm(sources + spread @ scores - scores, axis=0).max()
    close = _are_close(scores, 2.0 * left / (1.0 - alpha))  # no eigenvalue is below 1 - alpha
    return _name_nodes(G, classes, scores, close, spread, sources, max_iter)


def _check(G: ConvertedGraph, max_iter: int) -> None:
    if G.is_directed():
        raise nx.NetworkXNotImplemented("not implemented for directed type")
    if max_iter < 1:
        raise ValueError(f"max_iter must be at least 1, got {max_iter}")


def _one_hot(nodes: IntArray, codes: IntArray, n_nodes: int, n_classes: int) -> FloatArray:
    one_hot = np.zeros((n_nodes, n_classes))
    one_hot[nodes, codes] = 1.0
    return one_hot


def _solve(
    graph: Graph, scale: float, shift: FloatArray, rhs: FloatArray, max_iter: int, rtol: float
) -> FloatArray:
    """The solution x of (scale L + diag(shift)) x = rhs; warns if it did not converge."""
    if graph.n_nodes == 0:
        return rhs
    solver = LaplacianSolver(graph, scale=scale, shift=shift, rtol=rtol, max_iter=max_iter)
    solution = solver.solve(rhs)
    if solution.status is not Status.CONVERGED:
        warnings.warn(
            f"{solution.n_iter} iterations left a residual of {solution.residual.max():.1e}, rtol "
            f"asks for {rtol:.1e}; scores are those of the last iteration. Raise max_iter or "
            f"rtol ({solution.status.message})",
            ConvergenceWarning,
            stacklevel=3,
        )
    return np.asarray(solution.x, np.float64)


def _are_close(scores: FloatArray, difference: float) -> BoolArray:
    """Whether the two largest scores of each node differ by at most ``difference``."""
    if scores.shape[1] == 1:
        return np.zeros(scores.shape[0], bool)
    second, first = np.partition(scores, -2, axis=1)[:, -2:].T
    return np.asarray(first - second <= difference)


def _name_nodes(
    G: ConvertedGraph,
    classes: Any,
    scores: FloatArray,
    close: BoolArray,
    step: Any,
    sources: FloatArray,
    max_iter: int,
) -> list[Any]:
    """The class of each node; that of ``close`` nodes by steps F <- step F + given."""
    reached = np.zeros(G.graph.n_components, bool)
    reached[G.graph.component[sources.any(axis=1)]] = True
    best = scores.argmax(axis=1)
    best[~reached[G.graph.component]] = 0  # argmax of zeros, as in networkx
    close &= reached[G.graph.component]
    if close.any():
        iterated = np.zeros_like(sources)
        for _ in range(max_iter):
            iterated = step @ iterated + sources
        best[close] = iterated[close].argmax(axis=1)
    named: list[Any] = classes[best].tolist()
    return named
