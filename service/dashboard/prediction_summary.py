"""Summary of a file of predictions: sizes of classes, margins, changes.

Files never change, so that what was counted once is kept. A file is read a batch at a time.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.service.predictions.abstention import abstention
from peewit.service.predictions.filtered_rows import numbered_batches
from peewit.service.predictions.label_sets import LabelSets
from peewit.service.predictions.prediction_files import PredictionFile
from peewit.service.wire.evaluations import Abstention
from peewit.service.wire.predictions import SetsOfPredictions

N_BINS: Final = 20
"""Of the histogram of margins."""

_MAX_KEPT: Final = 64
_MAX_COUNTERS: Final = 1 << 16
_Label = str | int
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionSummary:
    """Sizes of the classes and histogram of a file of predictions.

    Attributes
    ----------
    n_nodes, n_unreachable : int
        All nodes, and those that no label reaches.
    class_sizes : dict
        Nodes predicted of each class, largest first; empty where numbers are predicted.
    edges : tuple of float
        Bounds of the bins.
    bins : tuple of int
        Nodes by margin; by the number predicted where there are no classes.
    mean : float, optional
        Of the numbers predicted; None of classes.
    """

    n_nodes: int
    n_unreachable: int
    class_sizes: dict[_Label, int]
    edges: tuple[float, ...]
    bins: tuple[int, ...]
    mean: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionChange:
    """Differences between two files of predictions of one graph.

    Attributes
    ----------
    n_compared, n_changed : int
        Nodes in both, and those of them whose label differs.
    """

    n_compared: int
    n_changed: int


class Summaries:
    """Summaries of files, kept for those asked for last; any number of threads may ask."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Any, Any] = OrderedDict()
        self._lock = Lock()

    def summary(self, file: PredictionFile) -> PredictionSummary:
        """A file in a few numbers."""
        return self._get(file.key, lambda: _summarize(file))

    def change(self, earlier: PredictionFile, later: PredictionFile) -> PredictionChange:
        """What is different in the later one."""
        return self._get((earlier.key, later.key), lambda: _compare(earlier, later))

    def sets(self, sets: LabelSets) -> SetsOfPredictions:
        """What sets promise, and how large they are."""
        return self._get(("sets", sets.file.key, sets.coverage), sets.summary)

    def abstention(
        self, file: PredictionFile, *, max_error: float, confidence: float
    ) -> Abstention:
        """As of `peewit.service.predictions.abstention`."""
        return self._get(
            ("abstention", file.key, max_error, confidence),
            lambda: abstention(file, max_error=max_error, confidence=confidence),
        )

    def _get(self, key: object, make: Callable[[], _Value]) -> _Value:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                value: _Value = self._kept[key]
                return value
        value = make()
        with self._lock:
            self._kept[key] = value
            while len(self._kept) > _MAX_KEPT:
                self._kept.popitem(last=False)
        return value


def _summarize(file: PredictionFile) -> PredictionSummary:
    is_value = file.meta.score == "value"
    edges = _bounds(file, "label" if is_value else "margin")
    sizes: Counter[_Label] = Counter()
    bins, n_unreachable, total = np.zeros(N_BINS, np.int64), 0, 0.0
    for batch in file.batches():
        reachable = batch.column("reachable")
        column = batch.column("label" if is_value else "margin")
        values = column.to_numpy(zero_copy_only=False)
        if reachable.true_count < batch.num_rows:
            n_unreachable += batch.num_rows - reachable.true_count
            values = values[reachable.to_numpy(zero_copy_only=False)]
        place = ((values - edges[0]) * (N_BINS / (edges[-1] - edges[0]))).astype(np.int32)
        bins += np.bincount(np.clip(place, 0, N_BINS - 1), minlength=N_BINS)
        if is_value:
            total += float(values.sum())
        else:
            sizes.update(_count_labels(batch.column("label")))
    n_reached = file.n_nodes - n_unreachable
    return PredictionSummary(
        n_nodes=file.n_nodes,
        n_unreachable=n_unreachable,
        class_sizes=dict(sizes.most_common()),
        edges=tuple(edges.tolist()),
        bins=tuple(bins.tolist()),
        mean=total / n_reached if is_value and n_reached else None,
    )


def _bounds(file: PredictionFile, name: str) -> Any:
    """Equal bins from the least to the greatest value; margins begin at 0."""
    low, high = np.inf, -np.inf
    for batch in file.batches():
        values = batch.column(name).drop_null().to_numpy()
        low = min(low, float(values.min(initial=np.inf)))
        high = max(high, float(values.max(initial=-np.inf)))
    if name == "margin" or low > high:
        low = 0.0
    return np.linspace(low, high if high > low else low + 1.0, N_BINS + 1)


def _count_labels(column: pa.Array) -> dict[_Label, int]:
    """Rows of each label; nulls are no label."""
    if pa.types.is_dictionary(column.type):
        places = column.indices.drop_null().to_numpy()
        names = column.dictionary.to_pylist()
        counts = np.bincount(places, minlength=len(names)).tolist()
        return {name: count for name, count in zip(names, counts, strict=True) if count}
    values = column.drop_null()
    if pa.types.is_integer(values.type) and len(values):
        numbers = values.to_numpy()
        least, most = int(numbers.min()), int(numbers.max())
        if most - least < _MAX_COUNTERS:
            counts = np.bincount(numbers - least)
            return {least + place: int(counts[place]) for place in np.flatnonzero(counts).tolist()}
    found = pc.value_counts(values)
    return {each["values"]: each["counts"] for each in found.to_pylist()}


def _compare(earlier: PredictionFile, later: PredictionFile) -> PredictionChange:
    n_compared = min(earlier.n_nodes, later.n_nodes)
    n_changed = 0
    for (start, left), right in zip(numbered_batches(earlier), later.batches(), strict=False):
        n_rows = min(left.num_rows, right.num_rows, n_compared - start)
        before, after = (batch.column("label").slice(0, n_rows) for batch in (left, right))
        both = pa.types.is_dictionary(before.type) and pa.types.is_dictionary(after.type)
        if both and before.dictionary.equals(after.dictionary):
            before, after = before.indices, after.indices
        if before.type != after.type or not pa.types.is_integer(before.type):
            before, after = before.cast(pa.string()), after.cast(pa.string())
        is_same = pc.equal(before, after).fill_null(False)
        both_null = pc.and_(before.is_null(), after.is_null())
        n_changed += n_rows - (pc.sum(pc.or_(is_same, both_null)).as_py() or 0)
    return PredictionChange(n_compared=n_compared, n_changed=n_changed)
