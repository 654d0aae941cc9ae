"""Node embedding of a snapshot by effective resistances, kept in one file for each graph.

Context: which nodes to label next depends on what is close to what, which takes minutes to compute
on a large snapshot and changes little from one to the next. Decision: one embedding for each graph,
with the snapshot it is of, replaced whole when it is made again. Consequence: it outlives its
snapshot, and costs 256 bytes of disk a node at most.
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
"""The same of a graph with so many nodes that 64 would take more than half a gibibyte."""

RTOL: Final = 0.1
"""Relative error allowed in every direction."""

_MOST_NUMBERS: Final = 1 << 27
_FILE: Final = "embedding.arrow"
_FORMAT: Final = 1


class EmbeddingStopped(RuntimeError):
    """The embedding was given up because somebody asked for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingMeta:
    """Provenance of an embedding.

    Attributes
    ----------
    snapshot : int
        Number of the snapshot.
    n_nodes, edges_seen : int
        Its nodes, and the rows it was made from.
    n_deleted : int
        Edges that had been deleted.
    n_coordinates : int
        Numbers of each node.
    status : str
        Of the linear solves.
    preconditioner : str
        What they were solved with.
    n_iter : int
        Most steps of any.
    """

    snapshot: int
    n_nodes: int
    edges_seen: int
    n_coordinates: int
    status: str
    preconditioner: str
    n_iter: int
    n_deleted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeEmbedding:
    """An embedding, memory-mapped.

    Attributes
    ----------
    meta : EmbeddingMeta
        What it is of.
    points : (n_nodes, n_coordinates) float32
        Centred on the origin in each component; squared distances estimate effective resistances
        but for the part that degrees tell.
    component : (n_nodes,) int32
        Connected component of each node.
    """

    meta: EmbeddingMeta
    points: Float32Array
    component: Int32Array


class EmbeddingStore(ReplacedTable):
    """The embedding of one graph.

    Parameters
    ----------
    paths : GraphPaths
        Of the graph.
    """

    def __init__(self, paths: GraphPaths) -> None:
        super().__init__(paths.embedding / _FILE, _FORMAT)

    def open(self) -> NodeEmbedding | None:
        """The embedding; None while there is none, or none that this version can read."""
        found = self._read()
        if found is None:
            return None
        provenance, batch = found
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

    Parameters
    ----------
    paths : GraphPaths
        The graph.
    number : int
        The snapshot.
    on_phase : callable
        Told what begins: loading, embedding, writing.
    cancelled : callable
        Asked often.
    progress : callable, optional
        Told how far the equations are, see `peewit.solvers.iteration_loop.iterate`.
    parallel : callable
        ``map`` of a thread pool; the result does not depend on it.

    Raises
    ------
    SnapshotNotFound
        No such snapshot is kept.
    EmbeddingStopped
        ``cancelled()`` was true; what was there before stays.
    OSError
        A file cannot be read or written.
    """
    on_phase("loading")
    snapshot = SnapshotStore(paths.snapshots).load(number)
    graph, made_of = snapshot.graph, snapshot.meta
    if cancelled():
        raise EmbeddingStopped
    on_phase("embedding")
    found = locate(
        graph, seed=made_of.seed, cancelled=cancelled, progress=progress, parallel=parallel
    )
    if found.status is Status.CANCELLED:
        raise EmbeddingStopped
    on_phase("writing")
    meta = EmbeddingMeta(
        snapshot=number,
        n_nodes=graph.n_nodes,
        edges_seen=made_of.edges_seen,
        n_deleted=made_of.n_gone,
        n_coordinates=found.n_probes,
        status=found.status.value,
        preconditioner=str(found.stats["preconditioner"]),
        n_iter=int(found.stats["n_iter"]),
    )
    EmbeddingStore(paths).publish(
        NodeEmbedding(meta=meta, points=found.vectors, component=found.component)
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
    """Points of the nodes of a graph, around the origin in each component.

    Parameters
    ----------
    graph : Graph
    seed : int
        Of the projection.
    cancelled, progress, parallel : callable
        As in `embed`.
    """
    u, v, weight = graph.edges()
    found = resistance_embedding(
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
    return replace(found, vectors=_center(found.vectors, found.component))


def _center(vectors: Float32Array, component: Int32Array) -> Float32Array:
    """The same around the origin of each component, where only nearly so before."""
    n_components = int(component.max(initial=-1)) + 1
    size = np.bincount(component, minlength=n_components)
    points = np.empty_like(vectors)
    for column in range(vectors.shape[1]):
        mean = np.bincount(component, vectors[:, column], n_components) / np.maximum(size, 1)
        points[:, column] = vectors[:, column] - mean[component]
    return points
