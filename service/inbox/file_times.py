"""Times of files that are checked for a graph with a window: which are refused, which are late."""

import time
from collections import Counter
from pathlib import Path
from typing import Self

import numpy as np

from peewit.service.catalog import GraphRecord
from peewit.streaming.edges.blocks import RawBlock
from peewit.streaming.edges.operations import DELETE
from peewit.streaming.edges.passing import require_past
from peewit.streaming.edges.time_units import NEVER, SECOND
from peewit.streaming.edges.windows import Window, whole
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.snapshots.store import SnapshotStore


class FileTimes:
    """Times of one file after the other, as ingest would meet them.

    The window is by a column of times; watermark and horizon are those of the graph.
    """

    def __init__(self, window: Window, *, watermark: int, horizon: int) -> None:
        self._window = window
        self._watermark, self._horizon = watermark, horizon
        self._rows: Counter[int] = Counter()
        self._latest = NEVER

    @classmethod
    def of(cls, graph: GraphRecord, graphs_directory: Path) -> Self | None:
        """Times of a graph as it is; None where no column tells when edges leave."""
        window = graph.settings.window
        if window is None or window.by != "time":
            return None
        newest = SnapshotStore(GraphPaths(root=graphs_directory / graph.id).snapshots).newest()
        watermark = horizon = NEVER
        if newest is not None and newest.watermark is not None and newest.horizon is not None:
            watermark = round(newest.watermark * SECOND)
            horizon = window.bucket(round(newest.horizon * SECOND))
        return cls(window, watermark=watermark, horizon=horizon)

    def look(self, block: RawBlock) -> None:
        """Take in a block of the present file; raises BadEdges where a row lies too far ahead."""
        if block.time is None:
            return
        require_past(block, max(self._watermark, round(time.time() * SECOND)), self._window)
        times = block.time if block.op is None else block.time[block.op != DELETE]
        numbers, counts = np.unique(times // whole(self._window.width), return_counts=True)
        self._rows.update(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))
        self._latest = max(self._latest, int(times.max(initial=NEVER)))

    def end(self) -> int:
        """Rows of the file that would be left out: behind the window when the file ends."""
        self._watermark = max(self._watermark, self._latest)
        self._horizon = max(self._horizon, self._window.horizon(self._watermark))
        n_late = sum(count for bucket, count in self._rows.items() if bucket < self._horizon)
        self.forget_file()
        return n_late

    def forget_file(self) -> None:
        """Forget the present file, as when it is refused."""
        self._rows.clear()
        self._latest = NEVER
