"""New points for a prediction: all are checked before the first is answered."""

from collections.abc import Iterable, Sequence
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
    names_of,
    order_of,
    sparse_values,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PointEdges:
    """Edges from a block of points to nodes."""

    nodes: Int64Array  # (n_neighbors,) dense ids, each once
    weights: Any  # (n_points, n_neighbors) scipy.sparse.csr_array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PointBlock:
    """A block of points; ``edges`` is None where no point of the block has any."""

    features: Any  # (n_points, n_columns) float32, dense or scipy.sparse.csr_array
    edges: PointEdges | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbors:
    """Nodes that new points may have edges to: the ``n_nodes`` of the model's snapshot."""

    graph: GraphRecord
    nodes: KnownNodes
    snapshot: int
    n_nodes: int

    def edges(self, lists: pa.ListArray, first_row: int) -> PointEdges:
        """Edges to nodes that the model knows; weights of parallel edges are added up.

        Raises `BadUpload` with the row whose node is unknown or newer than the snapshot.
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
    names: Sequence[str] | None = None,
    neighbors: Neighbors | None = None,
) -> list[PointBlock]:
    """Blocks of points, each of ``n_columns`` numbers, in order and none empty.

    ``batches`` come from `peewit.service.tables.uploads.point_batches`; columns of ``names`` are
    matched by them where a table has names. ``neighbors`` is None where the model takes no edges.
    Raises, with the row, `BadFeatures` for a missing column, a wrong length or a value that is not
    finite as float32, and `BadUpload` for edges that are not allowed or lead to a node that the
    model does not know.
    """
    blocks: list[PointBlock] = []
    first_row = 0
    for batch in batches:
        is_sparse = is_sparse_schema(batch.schema.names)
        if batch.num_rows:
            read = _sparse if is_sparse else _dense
            own = names_of(batch)
            order = None if names is None or own is None else order_of(own, names)
            features = read(batch, first_row, n_columns)
            features = features if order is None else features[:, order]
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
