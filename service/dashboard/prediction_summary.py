"""Summary of a prediction file: class sizes, margins, changes.

Files never change, so results are cached. A file is read a batch at a time.
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
"""Bins of the histogram of margins."""

_MAX_KEPT: Final = 64
_MAX_COUNTERS: Final = 1 << 16
_Label = str | int
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionSummary:
    """Class sizes and histogram of a prediction file."""

    n_nodes: int
    n_unreachable: int
    class_sizes: dict[_Label, int]  # largest first; empty of numbers
    edges: tuple[float, ...]  # bounds of the bins
    bins: tuple[int, ...]  # nodes by margin, or by predicted number
    mean: float | None  # of predicted numbers; None of classes


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionChange:
    """Nodes in both of two prediction files of a graph, and those whose label differs."""

    n_compared: int
    n_changed: int


class Summaries:
    """Cached summaries of files; thread-safe."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Any, Any] = OrderedDict()
        self._lock = Lock()

    def summary(self, file: PredictionFile) -> PredictionSummary:
        """Class sizes and histogram of a file."""
        return self._get(file.key, lambda: _summarize(file))

    def change(self, earlier: PredictionFile, later: PredictionFile) -> PredictionChange:
        """Number of nodes whose label differs in the later file."""
        return self._get((earlier.key, later.key), lambda: _compare(earlier, later))

    def sets(self, sets: LabelSets) -> SetsOfPredictions:
        """Cached `LabelSets.summary`."""
        return self._get(("sets", sets.file.key, sets.coverage), sets.summary)

    def abstention(
        self, file: PredictionFile, *, max_error: float, confidence: float
    ) -> Abstention:
        """Cached result of `peewit.service.predictions.abstention`."""
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
    """Edges of equal bins from the least to the greatest value; margins begin at 0."""
    low, high = np.inf, -np.inf
    for batch in file.batches():
        values = batch.column(name).drop_null().to_numpy()
        low = min(low, float(values.min(initial=np.inf)))
        high = max(high, float(values.max(initial=-np.inf)))
    if name == "margin" or low > high:
        low = 0.0
    return np.linspace(low, high if high > low else low + 1.0, N_BINS + 1)


def _count_labels(column: pa.Array) -> dict[_Label, int]:
    """Number of rows of each label; nulls do not count."""
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
    counted = pc.value_counts(values)
    return {each["values"]: each["counts"] for each in counted.to_pylist()}


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
