"""New points for a prediction: checked whole before the first is answered."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from peewit.service.catalog import GraphRecord
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.solvers.arrays import Int64Array
from peewit.streaming.edges.bad_table import BadUpload
from peewit.streaming.features.checked_tables import (
    EDGES,
    BadFeatures,
    dense_values,
    is_sparse_schema,
    sparse_values,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PointEdges:
    """Edges of some points to nodes.

    Attributes
    ----------
    nodes : (n_neighbors,) int64
        Dense ids, each once.
    weights : (n_points, n_neighbors) scipy.sparse.csr_array
    """

    nodes: Int64Array
    weights: Any


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PointBlock:
    """Some points.

    Attributes
    ----------
    features : (n_points, n_columns) float32 array or scipy.sparse.csr_array
    edges : PointEdges or None
        None where none of them has some.
    """

    features: Any
    edges: PointEdges | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbors:
    """Nodes that new points may have edges to.

    Attributes
    ----------
    graph : GraphRecord
        Whose nodes they are.
    nodes : KnownNodes
        Finds them.
    snapshot, n_nodes : int
        The model knows so many, those of this snapshot.
    """

    graph: GraphRecord
    nodes: KnownNodes
    snapshot: int
    n_nodes: int

    def edges(self, lists: pa.ListArray, first_row: int) -> PointEdges:
        """Edges to nodes that the model knows; parallel ones are added up.

        Raises
        ------
        BadUpload
            There is no such node, or it is newer than the snapshot; names the row.
        """
        ends = lists.flatten()
        rows = np.repeat(np.arange(len(lists)), lists.value_lengths().to_numpy())
        names = ends.field("node")
        dense = self.nodes.lookup(self.graph, names).astype(np.int64)
        lost = (dense < 0) | (dense >= self.n_nodes)
        if lost.any():
            entry = int(np.argmax(lost))
            place = f"graph {self.graph.settings.name}"
            if dense[entry] >= 0:
                place = f"snapshot {self.snapshot}, which the job solved"
            raise BadUpload(
                f"'edges' must lead to nodes of {place}",
                argument=EDGES,
                row=first_row + int(rows[entry]),
                value=names[entry].as_py(),
            )
        nodes, places = np.unique(dense, return_inverse=True)
        weight, shape = ends.field("weight").to_numpy(), (len(lists), nodes.size)
        weights = sp.coo_array((weight, (rows, places)), shape=shape).tocsr()  # adds up
        return PointEdges(nodes=nodes, weights=weights)


def checked_points(
    batches: Iterable[pa.RecordBatch],
    *,
    n_columns: int,
    model: str,
    neighbors: Neighbors | None = None,
) -> list[PointBlock]:
    """Blocks of points, each of ``n_columns`` numbers.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        From `peewit.service.tables.uploads.point_batches`.
    n_columns : int
        Numbers of each point that the model was trained on.
    model : str
        Its public name.
    neighbors : Neighbors, optional
        What points may have edges to; None where the model takes no edges.

    Returns
    -------
    list of PointBlock
        In order, none empty.

    Raises
    ------
    BadFeatures
        A column is missing, a row is of another length, or a value is not finite as a 32-bit
        float; names the row.
    BadUpload
        A point has edges and must have none, or one to a node that the model does not know.
    """
    blocks: list[PointBlock] = []
    first_row = 0
    for batch in batches:
        is_sparse = is_sparse_schema(batch.schema.names)
        if batch.num_rows:
            read = _sparse if is_sparse else _dense
            features = read(batch, first_row, n_columns)
            edges = _edges(batch, first_row, model, neighbors)
            blocks.append(PointBlock(features=features, edges=edges))
        first_row += batch.num_rows
    return blocks


def _edges(
    batch: pa.RecordBatch, first_row: int, model: str, neighbors: Neighbors | None
) -> PointEdges | None:
    if EDGES not in batch.schema.names:
        return None
    lists = batch.column(EDGES)
    if neighbors is not None:
        return neighbors.edges(lists, first_row)
    has_edges = lists.value_lengths().to_numpy() > 0
    if not has_edges.any():
        return None
    raise BadUpload(
        f"'edges' must be left out: {model} predicts new points by their features alone, "
        "filtered-ridge by both",
        argument=EDGES,
        row=first_row + int(np.argmax(has_edges)),
    )


def _dense(batch: pa.RecordBatch, first_row: int, n_columns: int) -> Any:
    values = dense_values(batch, first_row=first_row)
    if values.shape[1] != n_columns:
        raise BadFeatures(
            f"column 'features' must hold {n_columns} numbers, as those the model was trained on",
            argument="features",
            row=first_row,
            value=str(values.shape[1]),
        )
    return values


def _sparse(batch: pa.RecordBatch, first_row: int, n_columns: int) -> Any:
    values = sparse_values(batch, first_row=first_row)
    if values.shape[1] > n_columns:
        entry = int(np.argmax(values.indices >= n_columns))
        raise BadFeatures(
            f"column 'indices' must lie in [0, {n_columns - 1}], as those the model was trained on",
            argument="indices",
            row=first_row + int(np.searchsorted(values.indptr, entry, side="right")) - 1,
            value=str(values.indices[entry]),
        )
    values.resize((values.shape[0], n_columns))
    return values
