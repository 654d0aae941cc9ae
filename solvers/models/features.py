"""Node features: their checks, distances between rows in blocks, and label means per component.

Dense rows and scipy CSR rows are served alike; no array of size n_nodes x n_nodes is made.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import euclidean_distances

from solvers.arrays import BoolArray, FloatArray, Int64Array, IntArray
from solvers.graph import Graph
from solvers.iterate import Cancelled, Progress, ProgressReport
from solvers.labels import Labels
from solvers.solution import Solution, Status

GIVEN = "features"
"""What the stats say of a solve that had features."""

_BLOCK_ENTRIES = 1 << 22

Value = TypeVar("Value")


class Stopped(Exception):
    """The caller asked for the run to end; what it holds is the answer so far, if any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Who is told and who is asked while a model works."""

    progress: Progress | None
    cancelled: Cancelled | None

    def step(self, phase: str, n_done: int, n_steps: int) -> None:
        """Tell that ``n_done`` of ``n_steps`` are done.

        Raises
        ------
        Stopped
            The caller asked for the run to end.
        """
        if self.cancelled is not None and self.cancelled():
            raise Stopped
        if self.progress is not None:
            fraction = min(n_done / n_steps, 1.0) if n_steps else 1.0
            self.progress(
                ProgressReport(phase=phase, n_iter=n_done, max_iter=n_steps, fraction=fraction)
            )


@dataclass(slots=True)
class Latest(Generic[Value]):
    """The value made last, with the settings it was made for."""

    _key: object = None
    _values: list[Value] = field(default_factory=list)

    def get(self, key: object, make: Callable[[], Value]) -> Value:
        """The value for ``key``, made now unless it was the last one made."""
        if not self._values or self._key != key:
            self._values.clear()
            self._values.append(make())
            self._key = key
        return self._values[0]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Centring:
    """Labels centred with the mean of their component, as in the harmonic models.

    Attributes
    ----------
    centred : (n_labeled, n_classes) float64
        One-hot targets minus the mean of their component.
    baseline : (n_nodes, n_classes) float64
        That mean; the class prior where no label is.
    reachable : (n_nodes,) bool
        Whether the node's component has a label.
    """

    centred: FloatArray
    baseline: FloatArray
    reachable: BoolArray

    @classmethod
    def of_labels(cls, labels: Labels, component: IntArray) -> "Centring":
        """Centred labels of nodes in the numbered components ``component``."""
        targets, at = labels.targets(), component[labels.nodes]
        counts = np.bincount(at, minlength=int(component.max()) + 1)
        means = np.tile(labels.class_prior(), (counts.size, 1))
        sums = np.zeros_like(means)
        np.add.at(sums, at, targets)
        np.divide(sums, counts[:, None], out=means, where=counts[:, None] > 0)
        return cls(
            centred=targets - means[at],
            baseline=means[component],
            reachable=counts[component] > 0,
        )

    def solution(
        self, scores: FloatArray, status: Status, stats: dict[str, float | int | str]
    ) -> Solution:
        """``scores`` where a label reaches, the class prior elsewhere."""
        kept = np.where(self.reachable[:, None], scores, self.baseline)
        return Solution(scores=kept, reachable=self.reachable, status=status, stats=stats)


def checked_features(features: Any, n_nodes: int) -> Any:
    """``features`` as float64: a C-contiguous array, or scipy CSR.

    Raises
    ------
    TypeError
        The entries are not real numbers.
    ValueError
        Not one row for each node, no column, or an entry that is not finite.
    """
    rows: Any = sp.csr_array(features) if sp.issparse(features) else np.asarray(features)
    if rows.dtype.kind not in "buif":
        raise TypeError(f"features must be real numbers, got dtype {rows.dtype}")
    if rows.ndim != 2 or rows.shape[0] != n_nodes or rows.shape[1] < 1:
        raise ValueError(
            f"features must have one row for each of the {n_nodes} nodes and at least one column, "
            f"got shape {rows.shape}"
        )
    if sp.issparse(rows):
        rows = rows.astype(np.float64)
        rows.sum_duplicates()
        values = rows.data
    else:
        rows = np.ascontiguousarray(rows, dtype=np.float64)
        values = rows.ravel()
    finite = np.isfinite(values)
    if not finite.all():
        first = int(np.argmin(finite))
        row = (
            int(np.searchsorted(rows.indptr, first, side="right")) - 1
            if sp.issparse(rows)
            else first // rows.shape[1]
        )
        raise ValueError(f"features must be finite, got {values[first]} in row {row}")
    return rows


def all_together(n_nodes: int) -> IntArray:
    """Components of nodes with features: a label reaches every one."""
    return np.zeros(n_nodes, np.int32)


def components(graph: Graph, features: Any) -> IntArray:
    """Those of the graph, or a single one where there are features."""
    return graph.component if features is None else all_together(graph.n_nodes)


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
    """Median of the values above 0; 1 where there is none, so that it may divide."""
    above = values[values > 0]
    return float(np.median(above)) if above.size else 1.0
