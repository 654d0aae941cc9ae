"""Columns among features that describe no node: numbers of the rows, and labels by their names."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from peewit.solvers.arrays import AnyArray, BoolArray, FloatArray

_ROW_NAMES: Final = {"", "index", "level_0", "row", "row_number", "unnamed: 0"}
_LABEL_NAMES: Final = {"class", "label", "labels", "target", "y"}
_LEAST_ROWS: Final = 3
"""Fewer may count from 0 or 1 by chance."""

_SHOWN: Final = 3

_UNLIKE: Final = 1_000.0
"""Ratio of spreads from which the wider column is nearly all that distances and penalties see."""


class DoubtfulColumns:
    """Looks through rows of features, block by block, for columns that count them from 0 or 1."""

    def __init__(self, names: Sequence[str] | None = None) -> None:
        self._names = None if names is None else list(names)  # also of an array
        self._counts: BoolArray | None = None  # (2, n_columns), from 0 and from 1
        self._n_rows = 0

    def look(self, block: AnyArray) -> None:
        """Take the next rows, (n_some, n_columns)."""
        if self._counts is None:
            self._counts = np.ones((2, block.shape[1]), np.bool_)
        for start in range(len(self._counts) if len(block) else 0):
            first = self._n_rows + start
            numbers = np.arange(first, first + len(block)).astype(block.dtype)
            self._counts[start] &= block[0] == numbers[0]
            for column in np.flatnonzero(self._counts[start]):
                self._counts[start, column] = np.array_equal(block[:, column], numbers)
        self._n_rows += len(block)

    def note(
        self, own_labels: Sequence[str] = (), sources: Mapping[str, str] = MappingProxyType({})
    ) -> str | None:
        """What to leave out, if not meant; ``own_labels`` are further names of labels.

        ``sources`` are the columns that some were made of, which have names of their own.
        """
        names = None if self._names is None else [sources.get(each, each) for each in self._names]
        lower = [name.strip().lower() for name in names or ()]
        labels = _LABEL_NAMES | {name.lower() for name in own_labels}
        labels -= {"y"} if "x" in lower else set()  # of a place
        counting = {number for number, name in enumerate(lower) if name in _ROW_NAMES}
        if self._counts is not None and self._n_rows >= _LEAST_ROWS:
            counting |= set(np.flatnonzero(self._counts.any(axis=0)).tolist())
        doubts = dict.fromkeys(sorted(counting), "counts the rows")
        for number, name in enumerate(lower):
            if name in labels:
                doubts.setdefault(number, "is called as labels are")
        if not doubts:
            return None
        sentences = list(
            dict.fromkeys(
                f"column {number if names is None else repr(names[number])} {why}"
                for number, why in doubts.items()
            )
        )
        more = f" and {len(sentences) - _SHOWN:,} more do" if len(sentences) > _SHOWN else ""
        return (
            f"{', '.join(sentences[:_SHOWN])}{more}; leave out of features what describes no node"
        )


class UnlikeScales:
    """Looks through rows of named numbers, block by block, for columns that outweigh others."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._n_rows = 0
        self._sums: FloatArray = np.zeros(len(self._names))
        self._squares: FloatArray = np.zeros(len(self._names))

    def look(self, block: AnyArray) -> None:
        """Take the next rows, (n_some, n_columns)."""
        values = np.asarray(block, np.float64)
        self._n_rows += len(values)
        self._sums += values.sum(axis=0)
        self._squares += np.square(values).sum(axis=0)

    def note(self) -> str | None:
        """That one column spreads far wider than another, and what to do about it."""
        means = self._sums / max(self._n_rows, 1)
        variance = np.maximum(self._squares / max(self._n_rows, 1) - np.square(means), 0.0)
        spread = np.sqrt(variance)
        varies = np.flatnonzero(spread > 1e-6 * np.abs(means))
        if not varies.size:
            return None
        widest, narrowest = (varies[pick(spread[varies])] for pick in (np.argmax, np.argmin))
        ratio = spread[widest] / spread[narrowest]
        if ratio < _UNLIKE:
            return None
        return (
            f"numbers alone count as they are, and {self._names[widest]!r} spreads "
            f"{ratio:,.0f} times as far as {self._names[narrowest]!r}, so that it outweighs "
            "it; give a table in Parquet, whose columns are scaled"
        )
