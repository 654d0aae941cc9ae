"""Node embedding of a snapshot by effective resistances, kept in one file for each graph.

Context: which nodes to label next depends on distances, which take minutes to compute on a large
snapshot and change little from one to the next. Decision: one embedding for each graph, marked with
its snapshot, replaced whole when it is made again. Consequence: it outlives its snapshot, and costs
at most 256 bytes of disk a node.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from peewit.solvers.arrays import Float32Array, Int32Array
from peewit.solvers.graph import Graph
from peewit.solvers.iteration_loop import Progress
from peewit.solvers.laplacian.effective_resistance import Embedding, resistance_embedding
from peewit.solvers.row_ranges import Parallel
from peewit.solvers.status import Status
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.passes.replaced_table import ReplacedTable
from peewit.streaming.snapshots.store import SnapshotStore

N_PROBES: Final = 64
"""Coordinates of a node; distances have a standard deviation of 18 %."""

N_PROBES_LARGE: Final = 32
"""Coordinates of a node where 64 of each would take more than half a gibibyte."""

RTOL: Final = 0.1
"""Relative error allowed in every direction."""

_MOST_NUMBERS: Final = 1 << 27
_FILE: Final = "embedding.arrow"
_FORMAT: Final = 1


class EmbeddingStopped(RuntimeError):
    """The embedding was cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingMeta:
    """Provenance of an embedding."""

    snapshot: int  # its number
    n_nodes: int
    edges_seen: int  # rows that the snapshot was made from
    n_coordinates: int
    status: str  # of the linear solves
    preconditioner: str
    n_iter: int  # most of any solve
    n_deleted: int = 0  # edges deleted before the snapshot


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeEmbedding:
    """An embedding, memory-mapped.

    Squared distances between points estimate effective resistances, except for the part that
    degrees tell.
    """

    meta: EmbeddingMeta
    points: Float32Array  # (n_nodes, n_coordinates), centered in each component
    component: Int32Array  # (n_nodes,), connected component of each node


class EmbeddingStore(ReplacedTable):
    """The embedding of one graph."""

    def __init__(self, paths: GraphPaths) -> None:
        super().__init__(paths.embedding / _FILE, _FORMAT)

    def open(self) -> NodeEmbedding | None:
        """The embedding; None while there is none, or none that this version can read."""
        stored = self._read()
        if stored is None:
            return None
        provenance, batch = stored
        meta = EmbeddingMeta(**provenance)
        points = batch.column("point").flatten().to_numpy()
        return NodeEmbedding(
            meta=meta,
            points=points.reshape(meta.n_nodes, meta.n_coordinates),
            component=batch.column("component").to_numpy(),
        )

    def publish(self, embedding: NodeEmbedding) -> None:
        """Replace the embedding, whole or not at all; raises OSError."""
        points = pa.FixedSizeListArray.from_arrays(
            pa.array(embedding.points.ravel()), embedding.meta.n_coordinates
        )
        columns = {"point": points, "component": pa.array(embedding.component)}
        self._publish(asdict(embedding.meta), columns)


def embed(
    paths: GraphPaths,
    number: int,
    *,
    on_phase: Callable[[str], None] = lambda _phase: None,
    cancelled: Callable[[], bool] = lambda: False,
    progress: Progress | None = None,
    parallel: Parallel = map,
) -> EmbeddingMeta:
    """Embed the nodes of a snapshot, and keep that as the embedding of the graph.

    ``on_phase`` takes what begins: loading, embedding, writing; ``progress`` is as in
    `peewit.solvers.iteration_loop.iterate`. The result does not depend on ``parallel``. Raises
    `SnapshotNotFound`, OSError, and `EmbeddingStopped` once ``cancelled()`` is true; then the
    embedding before stays.
    """
    on_phase("loading")
    snapshot = SnapshotStore(paths.snapshots).load(number)
    graph, made_of = snapshot.graph, snapshot.meta
    if cancelled():
        raise EmbeddingStopped
    on_phase("embedding")
    embedding = locate(
        graph, seed=made_of.seed, cancelled=cancelled, progress=progress, parallel=parallel
    )
    if embedding.status is Status.CANCELLED:
        raise EmbeddingStopped
    on_phase("writing")
    meta = EmbeddingMeta(
        snapshot=number,
        n_nodes=graph.n_nodes,
        edges_seen=made_of.edges_seen,
        n_deleted=made_of.n_gone,
        n_coordinates=embedding.n_probes,
        status=embedding.status.value,
        preconditioner=str(embedding.stats["preconditioner"]),
        n_iter=int(embedding.stats["n_iter"]),
    )
    EmbeddingStore(paths).publish(
        NodeEmbedding(meta=meta, points=embedding.vectors, component=embedding.component)
    )
    return meta


def locate(
    graph: Graph,
    *,
    seed: int,
    cancelled: Callable[[], bool] = lambda: False,
    progress: Progress | None = None,
    parallel: Parallel = map,
) -> Embedding:
    """Points of the nodes of a graph, centered in each component; ``seed`` draws the projection.

    Other arguments are as in `embed`.
    """
    u, v, weight = graph.edges()
    embedding = resistance_embedding(
        u,
        v,
        weight.astype(np.float32),
        np.arange(u.size, dtype=np.uint32),
        n_nodes=graph.n_nodes,
        n_probes=N_PROBES if graph.n_nodes * N_PROBES <= _MOST_NUMBERS else N_PROBES_LARGE,
        seed=seed,
        rtol=RTOL,
        cancelled=cancelled,
        progress=progress,
        parallel=parallel,
    )
    return replace(embedding, vectors=_center(embedding.vectors, embedding.component))


def _center(vectors: Float32Array, component: Int32Array) -> Float32Array:
    """Vectors centered in each component, where they were only nearly so."""
    n_components = int(component.max(initial=-1)) + 1
    size = np.bincount(component, minlength=n_components)
    points = np.empty_like(vectors)
    for column in range(vectors.shape[1]):
        mean = np.bincount(component, vectors[:, column], n_components) / np.maximum(size, 1)
        points[:, column] = vectors[:, column] - mean[component]
    return points
