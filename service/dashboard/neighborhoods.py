"""Neighborhood of one node of a snapshot, read from its file without loading the graph.

Edges are sorted by their smaller end: those to larger neighbors are contiguous; the others are
found by scanning one column, some ten milliseconds for ten million edges.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.streaming.snapshots.store import SnapshotStore


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Neighborhood:
    """The strongest edges of a node, and the edges among those neighbors."""

    node: int  # dense id
    n_neighbors: int  # all, not only the strongest
    degree: float  # sum of the weights of all edges
    neighbors: Int64Array  # (n,) dense ids, strongest first
    weights: FloatArray  # (n,)
    relations: Sequence[Mapping[str, float]]  # weights of the relations of each, if they have names
    pairs: Int64Array  # (m, 2) places in ``neighbors``, joined by an edge
    pair_weights: FloatArray  # (m,)


def neighborhood(
    snapshots: SnapshotStore,
    number: int,
    node: int,
    *,
    without: Int64Array | None = None,
    n_strongest: int = 12,
) -> Neighborhood:
    """Neighborhood of dense id ``node`` in snapshot ``number``.

    ``without`` (n_erased,) are dense ids that must not be shown. Raises `SnapshotNotFound`.
    """
    batches = snapshots.edges(number).to_batches()
    others, weights = _edges_of(batches, node)
    if without is not None and without.size:
        is_shown = ~np.isin(others, without)
        others, weights = others[is_shown], weights[is_shown]
    order = np.lexsort((others, -weights))[:n_strongest]
    chosen = others[order]
    pairs, pair_weights = _among(batches, chosen)
    return Neighborhood(
        node=node,
        n_neighbors=int(others.size),
        degree=float(weights.sum()),
        neighbors=chosen,
        weights=weights[order],
        relations=snapshots.weights_of_pairs(number, [(node, each) for each in chosen.tolist()]),
        pairs=pairs,
        pair_weights=pair_weights,
    )


def _edges_of(batches: list[pa.RecordBatch], node: int) -> tuple[Int64Array, FloatArray]:
    others, weights = [], []
    for batch in batches:
        u, v = batch.column("u").to_numpy(), batch.column("v").to_numpy()
        if u.size == 0 or u[0] > node:  # all further edges have larger ends
            break
        weight = batch.column("weight").to_numpy()
        run = _run(batch, node)
        back = np.flatnonzero(v == node)
        others += [v[run], u[back]]
        weights += [weight[run], weight[back]]
    if not others:
        return np.zeros(0, np.int64), np.zeros(0)
    return np.concatenate(others).astype(np.int64), np.concatenate(weights)


def _among(batches: list[pa.RecordBatch], nodes: Int64Array) -> tuple[Int64Array, FloatArray]:
    place = {int(node): index for index, node in enumerate(nodes)}
    pairs, weights = [], []
    for batch in batches:
        u = batch.column("u").to_numpy()
        for node in nodes.tolist():
            if u.size == 0 or not u[0] <= node <= u[-1]:
                continue
            run = _run(batch, node)
            others = batch.column("v").to_numpy()[run]
            for row in np.flatnonzero(np.isin(others, nodes)).tolist():
                pairs.append((place[node], place[int(others[row])]))
                weights.append(float(batch.column("weight").to_numpy()[run][row]))
    return np.array(pairs, np.int64).reshape(-1, 2), np.array(weights, np.float64)


def _run(batch: pa.RecordBatch, node: int) -> slice:
    """Rows of the edges whose smaller end is the node."""
    start, stop = np.searchsorted(batch.column("u").to_numpy(), (node, node + 1))
    return slice(int(start), int(stop))
