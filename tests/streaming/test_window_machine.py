"""The same with a window: edges leave by their time, rows come late, files bring many days."""

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.operations import DELETE
from peewit.streaming.edges.windows import Window
from tests.streaming import test_change_machine
from tests.streaming.test_change_machine import Changes

LENGTH = 3
MOST_LATE = 7
"""Buckets."""


class Windows(Changes):
    """A stream that forgets what lies more than three seconds before the latest edge."""

    columns = EdgeColumns(op="op", time="at", time_unit="ms")
    window = Window(length=LENGTH, width=1.0, allowed_ahead=1e9)
    buffer_edges = 300

    def __init__(self) -> None:
        super().__init__()
        self.watermark = self.horizon = -(10**9)

    def buckets(self, rows: list[tuple[int, int, int, int]]) -> list[int]:
        """A second for each file, with rows of some before."""
        return [self.n_files - (7 * u + 3 * v + weight) % MOST_LATE for u, v, weight, _ in rows]

    def timed(self, table: pa.Table, rows: list[tuple[int, int, int, int]]) -> pa.Table:
        """With times in milliseconds."""
        times = [1000 * bucket + (u + v) % 1000 for bucket, (u, v, *_) in self._timed(rows)]
        return table.append_column("at", pa.array(times, pa.int64()))

    def _timed(
        self, rows: list[tuple[int, int, int, int]]
    ) -> list[tuple[int, tuple[int, int, int, int]]]:
        return list(zip(self.buckets(rows), rows, strict=True))

    def _play(self, path: Path, rows: list[tuple[int, int, int, int]]) -> None:
        super()._play(path, rows)
        self.alive[str(path)] = [edge for edge in self.alive[str(path)] if edge[2] >= self.horizon]
        moments = [
            1000 * bucket + (u + v) % 1000
            for bucket, (u, v, _, op) in self._timed(rows)
            if op != DELETE  # a self-loop, or an edge that the file deletes again, was there
        ]
        self.watermark = max([self.watermark, *moments])
        self._leave((self.watermark - 1000 * LENGTH) // 1000)

    def _leave(self, horizon: int) -> None:
        self.horizon = max(self.horizon, horizon)
        self.alive = {
            path: [edge for edge in edges if edge[2] >= self.horizon]
            for path, edges in self.alive.items()
        }

    @precondition(lambda self: self.n_files)
    @rule(ahead=st.integers(-2, LENGTH))
    def expire(self, ahead: int) -> None:
        """By hand, up to what is there."""
        before = self.watermark // 1000 - LENGTH + ahead
        self.stream.expire(before)
        self._leave(before)


TestWindows = pytest.mark.slow(Windows.TestCase)
TestWindows.settings = settings(test_change_machine.TestChanges.settings, max_examples=6)


class WindowsOfRelations(Windows):
    """The same with relations, which forget together."""

    columns = EdgeColumns(op="op", time="at", time_unit="ms", relation_column="kind")
    relations = ("login", "card")
    buffer_edges = 400


TestWindowsOfRelations = pytest.mark.slow(WindowsOfRelations.TestCase)
TestWindowsOfRelations.settings = settings(test_change_machine.TestChanges.settings, max_examples=5)
