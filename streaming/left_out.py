"""Rows that are read and make no edge, counted by reason.

Bad rows are none of these: a file may have only so many as it allows, and the stream never sees
them.
"""

from dataclasses import astuple, dataclass, fields
from typing import Final

_WORDS: Final = {
    "self_loops": "self-loops",
    "zero_weights": "rows of weight 0",
    "empty_cells": "empty cells of via columns",
    "too_old": "rows older than the window",
}


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Rows that made no edge, by reason; one of weight 0 counts as that alone.

    A row of events is one for each of its columns. Rows that are too old are edges, which have left
    the window by the end of their file.
    """

    self_loops: int = 0
    zero_weights: int = 0
    empty_cells: int = 0
    too_old: int = 0  # than the window, when they came

    def __add__(self, other: "LeftOut") -> "LeftOut":
        """The rows of both."""
        return LeftOut(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def __sub__(self, other: "LeftOut") -> "LeftOut":
        """The rows since ``other``."""
        return LeftOut(*(a - b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def total(self) -> int:
        """Rows that were no edges; those that are too old are some that have left."""
        return self.self_loops + self.zero_weights + self.empty_cells

    @property
    def by_reason(self) -> dict[str, int]:
        """Rows by what they are called: self-loops always, others where there are some."""
        counts = {_WORDS[each.name]: getattr(self, each.name) for each in fields(self)}
        return {
            words: count
            for words, count in counts.items()
            if count or words == _WORDS["self_loops"]
        }


NO_ROWS: Final = LeftOut()
"""None left out."""
