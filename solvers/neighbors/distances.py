"""Distances of all rows to all others, by scikit-learn, at once or in blocks.

Rows are dense or scipy CSR.

Context: every command and job starts a process, and importing scikit-learn takes a third of the
rest of its start. Decision: modules imported at the start do not import it; functions that call it
do, here those for distances.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from peewit.solvers.arrays import FloatArray, Int64Array
from peewit.solvers.iteration_loop import Watch

_BLOCK_ENTRIES = 1 << 22


def euclidean_distances(rows: Any, others: Any = None) -> FloatArray:
    """(n_rows, n_others) distances; of the rows to each other if ``others`` is None."""
    from sklearn.metrics import pairwise  # noqa: PLC0415 - see above

    distances: FloatArray = pairwise.euclidean_distances(rows, others)
    return distances


def distance_blocks(
    rows: Any, others: Any, watch: Watch, phase: str
) -> Iterator[tuple[slice, FloatArray]]:
    """Euclidean distances from ``rows`` to ``others``, for some rows at a time."""
    n_rows, n_others = rows.shape[0], others.shape[0]
    step = max(1, _BLOCK_ENTRIES // max(n_others, 1))
    for start in range(0, n_rows, step):
        watch.step(phase, start, n_rows)
        place = slice(start, min(start + step, n_rows))
        yield place, euclidean_distances(rows[place], others)
    watch.step(phase, n_rows, n_rows)


def nearest_rows(
    rows: Any, others: Any, k: int, watch: Watch, phase: str
) -> tuple[Int64Array, FloatArray]:
    """The k nearest of ``others`` to each row, nearest first, and their distances."""
    near = np.empty((rows.shape[0], k), np.int64)
    far = np.empty((rows.shape[0], k))
    for place, distance in distance_blocks(rows, others, watch, phase):
        chosen = np.argpartition(distance, k - 1, axis=1)[:, :k]
        values = np.take_along_axis(distance, chosen, axis=1)
        order = np.lexsort((chosen, values), axis=1)
        near[place] = np.take_along_axis(chosen, order, axis=1)
        far[place] = np.take_along_axis(values, order, axis=1)
    return near, far


def positive_median(values: FloatArray) -> float:
    """Median of the values above 0; 1 if there are none, so that it can divide."""
    above = values[values > 0]
    return float(np.median(above)) if above.size else 1.0
