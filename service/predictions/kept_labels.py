"""Labels that predictions were made from, and what explains each score, in files beside them.

A job writes these files before its predictions; they are removed together
(`peewit.service.predictions.store`). What an erased node has in them is overwritten. All else keeps
its place, since shares count by the place of a label.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from peewit.service.predictions.prediction_files import (
    densities_path,
    labels_path,
    shares_path,
    write_arrays,
)
from peewit.solvers.arrays import Float32Array, Int64Array
from peewit.solvers.labels import Labels
from peewit.streaming.durable_files import publish_file, reserved_array

_NO_NODE = -1
_NO_PLACES = np.empty(0, np.int64)
_ROWS_AT_ONCE = 1 << 16


def write_labels(path: Path, labels: Labels) -> None:
    """Write the labels that predictions were made from beside the prediction file."""
    write_arrays(labels_path(path), {"nodes": labels.nodes, "classes": labels.classes})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptLabels:
    """Labels that predictions were made from, without those of nodes erased since.

    ``shares`` hold what each label of the solve adds to the score of a node, memory-mapped.
    """

    nodes: Int64Array  # (n_labels,) dense ids
    classes: Int64Array  # (n_labels,) places in ``PredictionMeta.class_names``
    places: Int64Array  # (n_labels,) columns in ``shares``
    densities: Float32Array | None  # (n_nodes, n_classes), memory-mapped; few models keep them
    shares: Float32Array | None  # (n_nodes, n_solved) part of each score by each label
    has_lost_nodes: bool  # nodes were erased since the solve

    @classmethod
    def read(cls, path: Path) -> Self:
        """The labels beside a prediction file; raises FileNotFoundError where none were kept."""
        with np.load(labels_path(path), allow_pickle=False) as parts:
            nodes, classes = parts["nodes"], parts["classes"]
            has_lost_nodes = "has_lost_nodes" in parts
        places = np.flatnonzero(nodes != _NO_NODE)
        return cls(
            nodes=nodes[places],
            classes=classes[places],
            places=places,
            densities=_map_array(densities_path(path)),
            shares=_map_array(shares_path(path)),
            has_lost_nodes=has_lost_nodes,
        )


def erase_labels(path: Path, nodes: Int64Array) -> None:
    """Overwrite what is kept of some dense ids; safe to repeat after a crash.

    Columns of shares go first, since the labels say which columns to overwrite. Raises
    FileNotFoundError where no labels are kept.
    """
    with np.load(labels_path(path), allow_pickle=False) as parts:
        labeled, classes = parts["nodes"], parts["classes"]
        is_marked = "has_lost_nodes" in parts
    is_erased = np.isin(labeled, nodes)
    _erase_rows(densities_path(path), nodes, _NO_PLACES)
    _erase_rows(shares_path(path), nodes, np.flatnonzero(is_erased))
    if is_erased.any() or not is_marked:
        labels = {
            "nodes": np.where(is_erased, _NO_NODE, labeled),
            "classes": np.where(is_erased, 0, classes),
        }
        write_arrays(labels_path(path), labels | {"has_lost_nodes": True})


def _erase_rows(path: Path, nodes: Int64Array, places: Int64Array) -> None:
    """Rewrite an array, if there is one, with zeros in some rows and columns."""
    array = _map_array(path)
    if array is None:
        return
    rows = nodes[nodes < len(array)]
    if not (places.size or array[rows].any()):
        return

    def write(temporary: Path) -> None:
        written = reserved_array(temporary, array.shape, array.dtype)
        for start in range(0, len(array), _ROWS_AT_ONCE):
            written[start : start + _ROWS_AT_ONCE] = array[start : start + _ROWS_AT_ONCE]
        written[rows] = 0.0
        written[:, places] = 0.0
        written.flush()

    publish_file(path, write)


def _map_array(path: Path) -> Float32Array | None:
    try:
        array: Float32Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        return None
    return array
