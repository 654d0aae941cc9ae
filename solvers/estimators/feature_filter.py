"""`filter_features`: features smoothed along a graph, for classifiers of other libraries."""

from pathlib import Path
from typing import Any

import numpy as np

from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import Float32Array
from peewit.solvers.estimators.base import graph_of
from peewit.solvers.features import Rows, checked_rows
from peewit.solvers.graph import Graph
from peewit.solvers.laplacian.personalized_pagerank import PersonalizedPageRank

_WIDTH = 32


def filter_features(
    graph: Any,
    features: Any,
    path: str | Path | None = None,
    *,
    teleport: float = 0.1,
    max_bytes: int = 1 << 30,
) -> Float32Array:
    """Features smoothed along the edges by personalized PageRank, P X of (K1).

    Parameters
    ----------
    graph : Graph, what `sparsify` returns, or (n_nodes, n_nodes) array or scipy sparse matrix
    features : (n_nodes, n_features) array, numpy.memmap or scipy sparse matrix
        Not changed: neither scaled nor centred.
    path : str, Path or None
        Writes an ``.npy`` file in column order there, and holds ``max_bytes`` of columns at once;
        None for an array in memory.
    teleport : float
        Part of the result that is a node's own, in (0, 1]; less reaches farther.
    max_bytes : int
        Memory of the columns that are read in one pass over the features, at least one.

    Returns
    -------
    (n_nodes, n_features) float32
        Mapped from the file where there is one.

    Raises
    ------
    TypeError, ValueError
        ``features`` do not fit the graph or are not finite; ``teleport`` or ``max_bytes`` breaks
        its rule.
    OSError
        The file cannot be written.

    References
    ----------
    Klicpera, Bojchevski and Guennemann, Predict then propagate: graph neural networks meet
    personalized PageRank, ICLR 2019.
    """
    if not 0.0 < teleport <= 1.0:
        raise BadArgument("teleport", f"must lie in (0, 1], got {teleport}")
    if max_bytes < 1:
        raise BadArgument("max_bytes", f"must be at least 1, got {max_bytes}")
    given = graph_of(graph)
    nodes = Graph.from_adjacency(graph) if given is None else given
    rows = checked_rows(features, nodes.n_nodes)
    shape = nodes.n_nodes, rows.n_columns
    out: Float32Array
    if path is None:
        out = np.empty(shape, np.float32)
    else:
        out = np.lib.format.open_memmap(
            path, mode="w+", dtype=np.float32, shape=shape, fortran_order=True
        )
    pagerank = PersonalizedPageRank.of_graph(nodes)
    step = max(1, max_bytes // (4 * max(1, nodes.n_nodes)))
    for start in range(0, rows.n_columns, step):
        columns = _columns(rows, slice(start, min(start + step, rows.n_columns)), nodes.n_nodes)
        for first in range(0, columns.shape[1], _WIDTH):
            block = pagerank.filtered(columns[:, first : first + _WIDTH], teleport)
            out[:, start + first : start + first + block.shape[1]] = block
    return out


def _columns(rows: Rows, some: slice, n_nodes: int) -> Float32Array:
    """Some columns of all nodes, dense, by one pass; 0 at nodes without features."""
    columns = np.zeros((n_nodes, some.stop - some.start), np.float32)
    for place, block in rows.blocks():
        owners = place if rows.nodes is None else rows.nodes[place]
        part = block[:, some]
        columns[owners] = part.toarray() if rows.is_sparse else part
    return columns
