"""Colors of a map: predicted classes and doubts of its nodes, in its order, kept in memory.

Context: a tile must be there in a fifth of a second, and gathering predictions in the order of a
map of ten million nodes takes longer. Decision: the columns of tiles are joined once for each
prediction file, 3 bytes a node. Consequence: a solve or a label changes colors and never the map,
and tiles read contiguous memory.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from peewit.service.predictions.prediction_files import PredictionFile
from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.streaming.passes.node_map import NodeMap

HIDDEN: Final = -2
"""Color of an erased node; -1 is the color of nodes without a class."""

N_RANGES: Final = 5
"""Number of ranges that predicted numbers are divided into."""

MAX_CLASSES: Final = 1 << 15
"""Most classes that have colors of their own."""

_SURE_QUANTILE: Final = 0.95
_SAMPLED: Final = 100_000

Int16Array = npt.NDArray[np.int16]
UInt8Array = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Colors:
    """What is predicted of the nodes of a map, in its order.

    Attributes
    ----------
    kind : "classes", "numbers" or "nothing"
        What is predicted; ranges stand for numbers.
    class_sizes : tuple of int
        Nodes of each color.
    color : (n_nodes,) int16
        Place in ``class_names``, -1 or `HIDDEN`.
    doubt : (n_nodes,) uint8
        255 (1 - margin). Class scores divide the margin by the one that 95 % of the nodes stay
        below. 0 where no label reaches, and for numbers.
    edges : (n_ranges + 1,) float64, optional
        Bounds of the ranges of numbers.
    """

    kind: Literal["classes", "numbers", "nothing"]
    class_names: tuple[str, ...]
    class_sizes: tuple[int, ...]
    color: Int16Array
    doubt: UInt8Array
    edges: FloatArray | None = None

    @property
    def parts(self) -> FloatArray:
        """(n_classes + 2,): part of each color in the map, after those of -2 and -1."""
        sizes = np.array([0, self.color.size - sum(self.class_sizes), *self.class_sizes], float)
        return sizes / max(self.color.size, 1)


def colors_of(node_map: NodeMap, file: PredictionFile | None, erased: Int64Array) -> Colors:
    """Colors of the nodes of a map by a prediction file; erased dense ids are hidden."""
    n_nodes = node_map.meta.n_nodes
    color, doubt = np.full(n_nodes, -1, np.int16), np.zeros(n_nodes, np.uint8)
    names: tuple[str, ...] = ()
    edges: FloatArray | None = None
    kind: Literal["classes", "numbers", "nothing"] = "nothing"
    if file is not None:
        if file.meta.score == "value":
            kind = "numbers"
            by_node, names, edges = _numbers(file)
        else:
            kind = "classes"
            by_node, names = _classes(file)
        doubts = _doubts(file, by_node)
        n_both = min(n_nodes, file.n_nodes)
        color[:n_both], doubt[:n_both] = by_node[:n_both], doubts[:n_both]
    erased = erased[erased < n_nodes]
    color[erased], doubt[erased] = HIDDEN, 0
    return Colors(
        kind=kind,
        class_names=names,
        class_sizes=tuple(np.bincount(color[color >= 0], minlength=len(names)).tolist()),
        color=color[node_map.node],
        doubt=doubt[node_map.node],
        edges=edges,
    )


def _classes(file: PredictionFile) -> tuple[Int16Array, tuple[str, ...]]:
    """Class of each node, as a place among the classes of the file, and the classes."""
    names = file.meta.class_names[:MAX_CLASSES]
    place_of = pa.array([str(name) for name in names])
    parts = []
    for batch in file.batches():
        label = batch.column("label")
        if pa.types.is_dictionary(label.type):
            of_dictionary = pc.index_in(label.dictionary.cast(pa.string()), place_of)
            place = of_dictionary.take(label.indices)
        elif pa.types.is_integer(label.type):
            place = pc.index_in(label, pa.array(names, label.type))
        else:
            place = pc.index_in(label.cast(pa.string()), place_of)
        parts.append(place.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int16))
    return np.concatenate(parts), tuple(str(name) for name in names)


def _numbers(file: PredictionFile) -> tuple[Int16Array, tuple[str, ...], FloatArray]:
    """Range of each node's number, among equal ranges; their names and their edges."""
    values = np.concatenate(
        [batch.column("label").to_numpy(zero_copy_only=False) for batch in file.batches()]
    ).astype(np.float64)
    is_known = np.isfinite(values)
    low, high = (values[is_known].min(), values[is_known].max()) if is_known.any() else (0.0, 1.0)
    edges = np.linspace(low, high if high > low else low + 1.0, N_RANGES + 1)
    names = tuple(f"{a:.4g} to {b:.4g}" for a, b in pairwise(edges.tolist()))
    return range_of(values, edges), names, edges


def range_of(values: FloatArray, edges: FloatArray) -> Int16Array:
    """Range that each number lies in, or the nearest one; -1 for nan and infinite values."""
    place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, edges.size - 2)
    return np.where(np.isfinite(values), place, -1).astype(np.int16)


def _doubts(file: PredictionFile, color: Int16Array) -> UInt8Array:
    if file.meta.score == "value":
        return np.zeros(file.n_nodes, np.uint8)
    margin = np.concatenate([batch.column("margin").to_numpy() for batch in file.batches()])
    sure = 1.0
    if file.meta.score == "class score":
        known = margin[color >= 0][:: max(1, margin.size // _SAMPLED)]
        sure = float(np.quantile(known, _SURE_QUANTILE)) if known.size else 1.0
    doubt = 255.0 * (1.0 - np.clip(margin / (sure if sure > 0 else 1.0), 0.0, 1.0))
    return np.where(color >= 0, doubt, 0.0).astype(np.uint8)
