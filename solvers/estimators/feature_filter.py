"""`filter_features`: features smoothed along a graph, for classifiers of other libraries."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from peewit.solvers.arguments import BadArgument
from peewit.solvers.arrays import Float32Array
from peewit.solvers.estimators.base import graph_of
from peewit.solvers.estimators.frames import node_features
from peewit.solvers.estimators.named_relations import names_of
from peewit.solvers.features import Rows, checked_rows
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import UNWATCHED, Watch
from peewit.solvers.laplacian.walks.personalized_pagerank import PersonalizedPageRank

_WIDTH = 32


def filter_features(
    graph: Any,
    features: Any,
    path: str | Path | None = None,
    *,
    teleport: float = 0.1,
    max_bytes: int = 1 << 30,
    watch: Watch = UNWATCHED,
) -> Float32Array:
    """Features smoothed along the edges by personalized PageRank, P X of (K1).

    Parameters
    ----------
    graph : Graph, what `sparsify` returns, or (n_nodes, n_nodes) array or scipy sparse matrix
    features : (n_nodes, n_features) array, numpy.memmap, scipy sparse matrix or data frame
        Not changed: neither scaled nor centered. Rows of a frame are those of the nodes that its
        index or its column ``node`` names, where the graph has names; others have zeros.
    path : str, Path or None
        Writes an ``.npy`` file in column order there, which appears when it is whole, and holds
        ``max_bytes`` of columns at once; None for an array in memory.
    teleport : float
        Part of the result that is a node's own, in (0, 1]; less reaches farther.
    max_bytes : int
        Memory of the columns that are read in one pass over the features, at least one.
    watch : Watch
        Told how many columns are done, and asked before every step whether to go on.

    Returns
    -------
    (n_nodes, n_features) float32
        Mapped from the file where there is one, and read-only.

    Raises
    ------
    TypeError, ValueError
        ``features`` do not fit the graph or are not finite; ``teleport`` or ``max_bytes`` breaks
        its rule.
    OSError
        The file cannot be written.
    RunStopped
        The caller asked for the run to end.

    References
    ----------
    Klicpera, Bojchevski and Guennemann, Predict then propagate: graph neural networks meet
    personalized PageRank, ICLR 2019.
    """
    if not 0.0 < teleport <= 1.0:
        raise BadArgument("teleport", f"must lie in (0, 1], got {teleport}")
    if max_bytes < 1:
        raise BadArgument("max_bytes", f"must be at least 1, got {max_bytes}")
    own = graph_of(graph)
    nodes = Graph.from_adjacency(graph) if own is None else own
    rows = checked_rows(node_features(features, names_of(graph)), nodes.n_nodes)
    blocks = _filter(nodes, rows, teleport, max_bytes, watch)
    if path is None:
        out = np.empty((nodes.n_nodes, rows.n_columns), np.float32)
        first = 0
        for block in blocks:
            out[:, first : first + block.shape[1]] = block
            first += block.shape[1]
        return out
    target = Path(path)
    part = target.with_name(f".{target.name}.{uuid4().hex}")
    try:
        with part.open("xb") as file:
            header = {
                "descr": np.lib.format.dtype_to_descr(np.dtype(np.float32)),
                "fortran_order": True,
                "shape": (nodes.n_nodes, rows.n_columns),
            }
            np.lib.format.write_array_header_1_0(file, header)
            for block in blocks:
                file.write(np.ascontiguousarray(block.T).data)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)  # of a run that came to nothing
    return np.asanyarray(np.load(target, mmap_mode="r"))


def _filter(
    graph: Graph, rows: Rows, teleport: float, max_bytes: int, watch: Watch
) -> Iterator[Float32Array]:
    """Some columns of the result after others."""
    pagerank = PersonalizedPageRank.of_graph(graph)
    step = max(1, max_bytes // (4 * max(1, graph.n_nodes)))
    for start in range(0, rows.n_columns, step):
        columns = _columns(rows, slice(start, min(start + step, rows.n_columns)), graph.n_nodes)
        for first in range(0, columns.shape[1], _WIDTH):
            watch.step("columns", start + first, rows.n_columns)
            some = columns[:, first : first + _WIDTH]
            yield pagerank.filtered(some, teleport, watch=watch)


def _columns(rows: Rows, some: slice, n_nodes: int) -> Float32Array:
    """Some columns of all nodes, dense, by one pass; 0 at nodes without features."""
    columns = np.zeros((n_nodes, some.stop - some.start), np.float32)
    for place, block in rows.blocks():
        owners = place if rows.nodes is None else rows.nodes[place]
        part = block[:, some]
        columns[owners] = part.toarray() if rows.is_sparse else part
    return columns
