"""The same with a window: edges leave by their time, rows come late, files bring many days."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.operations import DELETE
from peewit.streaming.edges.windows import Window
from peewit.streaming.graph_stream import Stream
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
        self.watermark = -(10**9)
        self.lengths: dict[str, int | None] = {}
        self.horizons: dict[str, int] = {}
        """First bucket that lives of each relation that has had an edge."""

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
        for row in rows:
            if row[3] != DELETE:
                self.horizons.setdefault(self.relation(row), self._horizon(self.relation(row)))
        self._leave()
        moments = [
            1000 * bucket + (u + v) % 1000
            for bucket, (u, v, _, op) in self._timed(rows)
            if op != DELETE  # a self-loop, or an edge that the file deletes again, was there
        ]
        self.watermark = max([self.watermark, *moments])
        self._move()

    def _horizon(self, relation: str) -> int:
        """First bucket that lives by the present lengths."""
        length = self.lengths.get(relation, LENGTH)
        horizon = -(10**9) if length is None else self.watermark // 1000 - length
        if relation in self.lengths:
            return horizon
        shared = [each for name, each in self.horizons.items() if name not in self.lengths]
        return max([horizon, *shared])

    def _move(self, by_hand: int = -(10**9)) -> None:
        """Let the windows go on."""
        for name, before in self.horizons.items():
            asked = before if self.lengths.get(name, LENGTH) is None else by_hand
            self.horizons[name] = max(before, self._horizon(name), asked)
        self._leave()

    def _leave(self) -> None:
        self.alive = {
            path: [edge for edge in edges if edge[2] >= self.horizons[edge[3]]]
            for path, edges in self.alive.items()
        }

    @precondition(lambda self: self.n_files)
    @rule(ahead=st.integers(-2, LENGTH))
    def expire(self, ahead: int) -> None:
        """By hand, up to what is there."""
        before = self.watermark // 1000 - LENGTH + ahead
        self.stream.expire(before)
        self._move(before)


TestWindows = pytest.mark.slow(Windows.TestCase)
TestWindows.settings = settings(test_change_machine.TestChanges.settings, max_examples=6)


class WindowsOfRelations(Windows):
    """The same with relations, which forget together."""

    columns = EdgeColumns(op="op", time="at", time_unit="ms", relation_column="kind")
    relations = ("login", "card")
    buffer_edges = 400


TestWindowsOfRelations = pytest.mark.slow(WindowsOfRelations.TestCase)
TestWindowsOfRelations.settings = settings(test_change_machine.TestChanges.settings, max_examples=5)

_lengths = st.sampled_from([None, 1, LENGTH, 9])


class OwnWindows(WindowsOfRelations):
    """The same where relations forget by themselves, by lengths that change."""

    relations = ("login", "card", "message")
    buffer_edges = 500

    @precondition(lambda self: self.n_files)
    @rule(lengths=st.dictionaries(st.sampled_from(["login", "card"]), _lengths))
    def change_lengths(self, lengths: dict[str, int | None]) -> None:
        self.lengths = lengths
        window = replace(self.window, relations=lengths)
        self.settings = replace(self.settings, window=window)
        self.stream = Stream(self.paths, self.settings)
        self.stream.ingest([])
        self._move()


TestOwnWindows = pytest.mark.slow(OwnWindows.TestCase)
TestOwnWindows.settings = settings(test_change_machine.TestChanges.settings, max_examples=8)
