"""Times of files that are checked for a graph with a window: which are refused, which are late."""

import time
from collections import Counter
from collections.abc import Mapping
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

    The window is by a column of times; the watermark is that of the graph. ``horizons`` has the
    first bucket that lives of each relation that is known, ``horizon`` that of others without a
    window of their own.
    """

    def __init__(
        self,
        window: Window,
        *,
        watermark: int = NEVER,
        horizon: int = NEVER,
        horizons: Mapping[str, int] | None = None,
    ) -> None:
        self._window = window
        self._watermark, self._horizon = watermark, horizon
        self._horizons = dict(horizons or {})
        self._rows: Counter[tuple[str, int]] = Counter()
        self._latest = NEVER

    @classmethod
    def of(cls, graph: GraphRecord, graphs_directory: Path) -> Self | None:
        """Times of a graph as it is; None where no column tells when edges leave."""
        window = graph.settings.window
        if window is None or window.by != "time":
            return None
        newest = SnapshotStore(GraphPaths(root=graphs_directory / graph.id).snapshots).newest()
        if newest is None or newest.watermark is None or newest.horizon is None:
            return cls(window)

        def bucket(time: float | None) -> int:
            return NEVER if time is None else window.bucket(round(time * SECOND))

        return cls(
            window,
            watermark=round(newest.watermark * SECOND),
            horizon=bucket(newest.horizon),
            horizons={each.name: bucket(each.horizon) for each in newest.relations},
        )

    def look(self, block: RawBlock, relation: str = "") -> None:
        """Take in a block of the present file, of a relation.

        Raises BadEdges where a row lies too far ahead.
        """
        if block.time is None:
            return
        require_past(block, max(self._watermark, round(time.time() * SECOND)), self._window)
        times = block.time if block.op is None else block.time[block.op != DELETE]
        numbers, counts = np.unique(times // whole(self._window.width), return_counts=True)
        for bucket, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            self._rows[relation, bucket] += count
        self._latest = max(self._latest, int(times.max(initial=NEVER)))

    def end(self) -> dict[str, int]:
        """Rows of the file that would be left out: behind the window when the file ends.

        By relation, of those that have some.
        """
        self._watermark = max(self._watermark, self._latest)
        self._horizon = max(self._horizon, self._window.horizon(self._watermark))
        for name in {name for name, _ in self._rows} | self._horizons.keys():
            before = NEVER if name in self._window.relations else self._horizon
            before = max(before, self._horizons.get(name, NEVER))
            self._horizons[name] = max(before, self._window.horizon(self._watermark, name))
        late: Counter[str] = Counter()
        for (name, bucket), count in self._rows.items():
            late[name] += count if bucket < self._horizons[name] else 0
        self.forget_file()
        return dict(+late)

    def forget_file(self) -> None:
        """Forget the present file, as when it is refused."""
        self._rows.clear()
        self._latest = NEVER
