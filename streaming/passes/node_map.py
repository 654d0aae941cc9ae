"""Map of a snapshot: where each node lies in the plane, kept in one file for each graph.

Context: a layout takes seconds to minutes, predictions change with every label. Decision: a map has
only the places of nodes; classes are joined when a part of it is looked at. Nodes stand in the
order of a curve through the square, so that a part is a slice. Each graph has one map, replaced
whole. Consequence: it outlives its snapshot and any number of solves, at 12 bytes of disk a node.
"""

from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from peewit.solvers.arrays import Float32Array, Int32Array, Int64Array
from peewit.solvers.iteration_loop import UNWATCHED, Watch
from peewit.solvers.laplacian.multigrid.layout import layout
from peewit.solvers.row_ranges import Parallel
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.kernels.map_cells import BITS, codes_of
from peewit.streaming.passes.replaced_table import ReplacedTable
from peewit.streaming.snapshots.store import Snapshot

TILE_POINTS: Final = 4096
"""A tile with more nodes than this is drawn by cells."""

CELL_BITS: Final = 7
"""A tile has 2 ** CELL_BITS cells a side."""

LAST_ZOOM: Final = BITS - CELL_BITS

_FILE: Final = "map.arrow"
_FORMAT: Final = 1

UInt64Array = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapMeta:
    """Provenance of a map; each component is drawn apart."""

    snapshot: int  # its number
    n_nodes: int
    n_edges: int
    n_components: int
    max_zoom: int  # first with at most `TILE_POINTS` nodes in each tile, or `LAST_ZOOM`
    made_at: float  # seconds since the epoch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodeMap:
    """A map, memory-mapped."""

    meta: MapMeta
    code: UInt64Array  # (n_nodes,), places as `kernels.map_cells` counts them, increasing
    node: Int32Array  # (n_nodes,), dense ids in the order of ``code``

    def tile(self, zoom: int, column: int, line: int) -> slice:
        """The nodes of one of the 4 ** zoom equal squares."""
        bounds = self.cells(zoom, column, line, 0)
        return slice(int(bounds[0]), int(bounds[1]))

    def cells(self, zoom: int, column: int, line: int, bits: int = CELL_BITS) -> Int64Array:
        """First node of each of a tile's 4 ** bits cells, along the curve, and the tile's end."""
        first = _interleaved(column, line) << 2 * bits
        prefix = np.arange(first, first + (1 << 2 * bits) + 1, dtype=np.uint64)
        return np.searchsorted(self.code, prefix << np.uint64(2 * (BITS - zoom - bits)))


class MapStore(ReplacedTable):
    """The map of one graph."""

    def __init__(self, paths: GraphPaths) -> None:
        super().__init__(paths.map / _FILE, _FORMAT)

    def open(self) -> NodeMap | None:
        """The map; None while there is none, or none that this version can read."""
        stored = self._read()
        if stored is None:
            return None
        provenance, batch = stored
        return NodeMap(
            meta=MapMeta(**provenance),
            code=batch.column("code").to_numpy(),
            node=batch.column("node").to_numpy(),
        )

    def publish(self, node_map: NodeMap) -> None:
        """Replace the map, whole or not at all; raises OSError."""
        columns = {"code": pa.array(node_map.code), "node": pa.array(node_map.node)}
        self._publish(asdict(node_map.meta), columns)


def snapshot_layout(
    snapshot: Snapshot, *, watch: Watch = UNWATCHED, parallel: Parallel = map
) -> Float32Array:
    """Points of a snapshot's nodes: its layout, by its own seed."""
    return layout(snapshot.graph, seed=snapshot.meta.seed, watch=watch, parallel=parallel)


def map_of(points: Float32Array, snapshot: Snapshot, *, made_at: float) -> NodeMap:
    """The map of a snapshot with its nodes at points of the unit square.

    ``made_at`` is in seconds since the epoch.
    """
    graph = snapshot.graph
    return in_order(
        points,
        snapshot=snapshot.meta.number,
        n_edges=graph.n_edges,
        n_components=graph.n_components,
        made_at=made_at,
    )


def in_order(
    points: Float32Array, *, snapshot: int, n_edges: int, n_components: int, made_at: float
) -> NodeMap:
    """The map with nodes at points of the unit square; other arguments as of `MapMeta`."""
    code = np.empty(len(points), np.uint64)
    codes_of(points, code)
    order = np.argsort(code, kind="stable").astype(np.int32)
    code = code[order]
    meta = MapMeta(
        snapshot=snapshot,
        n_nodes=len(points),
        n_edges=n_edges,
        n_components=n_components,
        max_zoom=_max_zoom(code),
        made_at=made_at,
    )
    return NodeMap(meta=meta, code=code, node=order)


def _max_zoom(code: UInt64Array) -> int:
    """By the least difference of codes that stand `TILE_POINTS` apart."""
    if code.size <= TILE_POINTS:
        return 0
    for zoom in range(1, LAST_ZOOM):
        prefix = code >> np.uint64(2 * (BITS - zoom))
        if not (prefix[TILE_POINTS:] == prefix[:-TILE_POINTS]).any():
            return zoom
    return LAST_ZOOM


def _interleaved(column: int, line: int) -> int:
    return sum(
        (column >> bit & 1) << 2 * bit | (line >> bit & 1) << 2 * bit + 1 for bit in range(BITS)
    )
