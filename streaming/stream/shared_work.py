"""Shared work: what the relations of one stream share while edges are absorbed.

One index numbers the nodes of all relations, one plan of memory holds their buffers, one window
says which edges live, and one set of threads works on them.
"""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final

from peewit.solvers.row_ranges import Parallel
from peewit.streaming.edges.parts import StagedFile
from peewit.streaming.edges.passing import WindowCheck
from peewit.streaming.edges.time_units import NEVER
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.nodes.index import NodeIndex, Nodes, open_nodes
from peewit.streaming.settings import StreamSettings
from peewit.streaming.steps import Steps
from peewit.streaming.stream.entities import Entities

_MOST_ENTITY_BYTES: Final = 1 << 26
_ENTITY_SHARE: Final = 1 / 64
"""Share of a memory limit, less than a plan leaves."""


class SharedWork:
    """Node index, memory plan, window check and threads of one stream.

    ``raise_if_stopped`` raises where ``should_stop()`` is true. ``guard`` is called before every
    change of a log; it raises where this process may no longer write. ``settings`` are those of the
    stream with a buffer as large as memory allows.
    """

    settings: StreamSettings
    window_check: WindowCheck | None = None
    """Of the file in hand, where the graph has a window."""
    replayed: WindowCheck | None = None
    """Of its parts that are absorbed already, while they are logged again."""
    entities: Entities | None = None
    """Of the file in hand, where it is a table of events that are only added."""

    def __init__(
        self,
        paths: GraphPaths,
        settings: StreamSettings,
        *,
        n_nodes: int,
        should_stop: Callable[[], bool],
        raise_if_stopped: Callable[[], None],
        guard: Callable[[], None],
        steps: Steps,
        clock: Callable[[], float],
    ) -> None:
        self._unlimited = settings
        self._should_stop = should_stop
        self.raise_if_stopped = raise_if_stopped
        self.guard = guard
        self.steps = steps
        self.clock = clock
        self._planned_nodes = 0
        self.plan_memory(n_nodes)
        self.nodes: Nodes = open_nodes(
            paths.nodes,
            kind=settings.node_kind,
            n_nodes=n_nodes,
            max_nodes=settings.max_nodes,
            writable=True,
        )
        self.parallel: Parallel = map
        self.connections = ExitStack()

    def plan_memory(self, n_nodes: int) -> None:
        """Size the buffer for the nodes expected, times the power of 1.1 that so many need.

        A stream that is opened again makes the plan that it had.
        """
        if self._planned_nodes and n_nodes <= self._planned_nodes:
            return
        self._planned_nodes = self._planned_nodes or self._unlimited.sparsifier.expected_nodes
        while self._planned_nodes < n_nodes:
            self._planned_nodes = self._planned_nodes * 11 // 10 + 1
        self.settings = self._unlimited.within_memory(self._planned_nodes)

    @contextmanager
    def entities_of(self, staged: StagedFile) -> Iterator[None]:
        """Keep the entities of a file in the block, where each of its rows is added as it comes."""
        are_added = staged.columns.op is None and self.settings.parallel_edges == "sum"
        if are_added and staged.columns.via and isinstance(self.nodes, NodeIndex):
            limit = self.settings.memory_limit
            most = math.inf if limit is None else _ENTITY_SHARE * limit
            most_bytes = int(min(most, _MOST_ENTITY_BYTES))
            self.entities = Entities(staged, self.nodes, most_bytes=most_bytes)
        try:
            yield
        finally:
            self.entities = None

    @contextmanager
    def workers(self) -> Iterator[None]:
        """Threads for the work on the buffers, and the cluster once it is needed."""
        n_threads = self.settings.n_threads
        with self.connections, ThreadPoolExecutor(n_threads, thread_name_prefix="sparsify") as pool:
            self.parallel = pool.map
            try:
                yield
            finally:
                self.parallel = map

    def begin_window(self, *, watermark: int, arrived: int, reached: int) -> None:
        """Start the window's check of a file's edges, where the graph has a window.

        ``arrived`` is when the file was listed or pushed, ``reached`` the latest time among those
        of its rows that are absorbed already; all in microseconds since 1970.
        """
        if self.settings.window is not None:
            self.replayed = WindowCheck(
                window=self.settings.window, watermark=watermark, arrived=arrived
            )
            self.window_check = replace(self.replayed, reached=reached)

    def begin_relation(self, name: str, horizon: int) -> None:
        """Go on with rows of a relation in the file in hand; ``horizon`` is its own."""
        if self.window_check is not None and self.replayed is not None:
            self.window_check = self.window_check.of(name, horizon)
            self.replayed = self.replayed.of(name, horizon)

    @property
    def reached(self) -> int:
        """The latest time of the file in hand so far, where the graph has a window."""
        return NEVER if self.window_check is None else self.window_check.reached

    def take_passed(self) -> WindowCheck | None:
        """What the window has seen, with the rows that it has let pass since the last time."""
        check = self.window_check
        if check is not None:
            self.window_check = replace(check, n_late=0, n_expired=0)
        return check

    def note_progress(self) -> None:
        """Count a look at others' work as progress: dask watches its workers."""
        self.steps.move_on()
        self.raise_if_stopped()

    def is_cancelled(self) -> bool:
        """Whether to stop; solves call it between iterations, each of which counts as progress."""
        self.steps.move_on()
        return self._should_stop()
