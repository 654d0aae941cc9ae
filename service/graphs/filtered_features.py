"""Features of a graph's nodes, smoothed along its edges, with external ids, a batch at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from peewit.service.catalog import GraphRecord
from peewit.service.graphs.known_nodes import KnownNodes
from peewit.solvers.arrays import Float32Array
from peewit.solvers.estimators.feature_filter import filter_features
from peewit.streaming.features.store import FeaturesNotFound, FeatureStore
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.snapshots.store import SnapshotNotFound, SnapshotStore

_BATCH_BYTES = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FilteredNodes:
    """Smoothed features, ready to be written.

    Attributes
    ----------
    snapshot, features_version : int
        What they were made of.
    values : (n_nodes, n_columns) float32
        Of every node, mapped from a file.
    """

    snapshot: int
    features_version: int
    values: Float32Array
    _names: pa.ChunkedArray

    def schema(self, *, is_flat: bool) -> pa.Schema:
        """``node`` and a list ``features``, or a column ``f0``, ``f1``, ... for each number."""
        node = pa.field("node", self._names.type)
        n_columns = self.values.shape[1]
        if is_flat:
            return pa.schema([node, *((f"f{at}", pa.float32()) for at in range(n_columns))])
        return pa.schema([node, ("features", pa.list_(pa.float32(), n_columns))])

    def batches(self, *, is_flat: bool) -> Iterator[pa.RecordBatch]:
        """All nodes in the order in which they came."""
        schema, (n_nodes, n_columns) = self.schema(is_flat=is_flat), self.values.shape
        step = max(1, _BATCH_BYTES // (4 * n_columns))
        for start in range(0, n_nodes, step):
            rows = np.ascontiguousarray(self.values[start : start + step])
            names = self._names.slice(start, len(rows)).combine_chunks()
            if is_flat:
                numbers = [pa.array(column) for column in rows.T]
            else:
                numbers = [pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), n_columns)]
            yield pa.record_batch([names, *numbers], schema=schema)


def filtered_nodes(
    graph: GraphRecord,
    graphs_directory: Path,
    nodes: KnownNodes,
    path: Path,
    *,
    teleport: float,
) -> FilteredNodes:
    """The present features, smoothed along the edges of the newest snapshot.

    Parameters
    ----------
    graph : GraphRecord
        Which graph.
    graphs_directory : Path
        ``Settings.graphs_directory``.
    nodes : KnownNodes
        Tells the external ids.
    path : Path
        An ``.npy`` file to write them to.
    teleport : float
        As in `peewit.solvers.estimators.feature_filter.filter_features`.

    Raises
    ------
    peewit.streaming.snapshots.store.SnapshotNotFound, FeaturesNotFound
        There is none.
    ValueError
        ``teleport`` breaks its rule.
    OSError
        The file cannot be written.
    """
    name, paths = graph.settings.name, GraphPaths(root=graphs_directory / graph.id)
    snapshots = SnapshotStore(paths.snapshots)
    number = snapshots.latest()
    if number is None:
        raise SnapshotNotFound(f"{name} has no snapshot yet; bring edges with `peewit ingest`")
    if graph.features_version == 0:
        raise FeaturesNotFound(f"{name} has no features yet; bring them with `peewit features`")
    snapshot = snapshots.load(number)
    rows = FeatureStore(paths.features).load(graph.features_version, snapshot.meta.n_nodes)
    return FilteredNodes(
        snapshot=number,
        features_version=graph.features_version,
        values=filter_features(snapshot.graph, rows, path, teleport=teleport),
        _names=nodes.external_ids(graph, snapshot.meta.n_nodes),
    )
