"""Absorption: parts of a staged file become records of the sparsifier and nodes of the index.

Holds what is in memory: the state, the node index, the threads or the cluster that work on them,
and the state to which a bad file goes back. The only file written here is the log, where deletes
are exact; `commitment` and `publication` write the others.
"""

import math
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa

from peewit.solvers.arrays import Int32Array
from peewit.solvers.row_ranges import Parallel
from peewit.streaming.cluster.sparsified_shares import ShareSettings
from peewit.streaming.edges.blocks import BadEdges, EdgeBlock, RawBlock
from peewit.streaming.edges.operations import DELETIONS_OFF, INSERT
from peewit.streaming.edges.parts import Part, StagedFile
from peewit.streaming.edges.passing import WindowCheck
from peewit.streaming.edges.reader import read_parts
from peewit.streaming.edges.time_units import NEVER
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.log.change_log import NO_NODES, LogWriter
from peewit.streaming.memory import LEAST_ROOM, MemoryLimitTooSmall
from peewit.streaming.nodes.index import DenseNodes, Nodes, open_nodes
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.checkpoints import AbsorbedFile, Checkpoint, living
from peewit.streaming.sparsifier.repair import Repair
from peewit.streaming.sparsifier.runs import EMPTY_RUNS
from peewit.streaming.sparsifier.settings_and_state import SparsifierState
from peewit.streaming.sparsifier.sparsifier import absorb, is_full, resparsify, thinned
from peewit.streaming.sparsifier.strikes import strike, strike_nodes
from peewit.streaming.steps import Steps
from peewit.streaming.stream.changes import Changes
from peewit.streaming.stream.exact_deletions import ExactDeletions

if TYPE_CHECKING:
    from peewit.streaming.cluster.dask_ingest import Cluster

_BUDGET_ROOM: Final = 1.1
"""Room over the records to keep, for the budget that an error advises; above `LEAST_ROOM`."""

Absorbed: TypeAlias = tuple[Sequence[Part], float | None]
"""Parts of a group, and the seconds of the resparsification before it, if there was one."""


class Absorption:
    """State of a stream in memory, and the work that takes files into it.

    ``raise_if_stopped`` raises where ``should_stop()`` is true. ``guard`` is called before every
    change of the log; it raises where this process may no longer write. ``deletions`` is the log,
    None unless deletes are exact. ``is_usable`` becomes False when a resparsification or a repair
    is interrupted, which loses the state.
    """

    state: SparsifierState
    _settings: StreamSettings
    _planned_nodes: int
    _file_start: SparsifierState | None = None
    """State at the start of the file in hand, while going back to it costs nothing."""

    def __init__(
        self,
        newest: Checkpoint,
        paths: GraphPaths,
        settings: StreamSettings,
        *,
        should_stop: Callable[[], bool],
        raise_if_stopped: Callable[[], None],
        guard: Callable[[], None],
        steps: Steps,
        clock: Callable[[], float],
    ) -> None:
        self._unlimited = settings
        self._should_stop = should_stop
        self._raise_if_stopped = raise_if_stopped
        self._steps = steps
        self._clock = clock
        self._planned_nodes = settings.sparsifier.expected_nodes
        self._plan_memory(newest.n_nodes)
        self.nodes: Nodes = open_nodes(
            paths.nodes,
            kind=settings.node_kind,
            n_nodes=newest.n_nodes,
            max_nodes=settings.max_nodes,
            writable=True,
        )
        self.state = newest.state
        if newest.files and self.state.n_rows_seen:
            if (self.state.watermark != NEVER) != (settings.window is not None):
                raise ValueError("window must be there from the first edge or never")
            if (self.state.runs is not None) != (settings.deletions == "exact"):
                raise ValueError("deletions must be exact from the first edge or never")
        self.is_usable = True
        self.deletions: ExactDeletions | None = None
        if settings.deletions == "exact":
            if self.state.runs is None:
                self.state = replace(self.state, runs=EMPTY_RUNS)
            self.deletions = ExactDeletions(
                paths.log,
                replaces=settings.parallel_edges == "replace",
                has_buckets=settings.window is not None,
                on_block=self._note_progress,
                cancelled=self._is_cancelled,
                guard=guard,
            )
        self._log: LogWriter | None = None
        self._window_check: WindowCheck | None = None
        self._parallel: Parallel = map
        self._connections = ExitStack()
        self._cluster: Cluster | None = None

    def _plan_memory(self, n_nodes: int) -> None:
        """Size the buffer for the nodes expected, times the power of 1.1 that so many need.

        A stream that is opened again makes the plan that it had.
        """
        while self._planned_nodes < n_nodes:
            self._planned_nodes = self._planned_nodes * 11 // 10 + 1
        self._settings = self._unlimited.within_memory(self._planned_nodes)

    @property
    def part_rows(self) -> int:
        """Most rows of a part."""
        return self._settings.part_rows

    @contextmanager
    def workers(self) -> Iterator[None]:
        """Threads for the work on the buffer, and the cluster once it is needed."""
        n_threads = self._settings.n_threads
        with (
            self._connections,
            ThreadPoolExecutor(n_threads, thread_name_prefix="sparsify") as pool,
        ):
            self._parallel = pool.map
            try:
                yield
            finally:
                self._parallel = map

    @property
    def is_full(self) -> bool:
        """Whether the next group begins with a resparsification, which may take long."""
        return is_full(self.state, self._settings.sparsifier)

    def begin_file(self) -> None:
        """Keep the present state for `undo_file`, as long as that costs nothing."""
        self._file_start = self.state

    def begin_window(self, *, arrived: int, reached: int = NEVER) -> None:
        """Start the window's check of a file's edges, where the graph has a window.

        ``arrived`` is when the file was listed or pushed, ``reached`` the latest time among those
        of its rows that are in the state; both in microseconds since 1970.
        """
        if self._settings.window is not None:
            self._window_check = WindowCheck(
                window=self._settings.window,
                watermark=self.state.watermark,
                horizon=self.state.horizon,
                arrived=arrived,
                reached=reached,
            )

    @property
    def reached(self) -> int:
        """The latest time of the file in hand so far, where the graph has a window."""
        return NEVER if self._window_check is None else self._window_check.reached

    def end_window(self, *, has_removals: bool) -> int | None:
        """Advance the watermark to the ended file; returns the bucket until which it is needed.

        None where the graph has no window. ``has_removals``: whether the file deletes edges, which
        is resolved before anything else leaves.
        """
        window_check, self._window_check = self._window_check, None
        if window_check is None:
            return None
        self.state = replace(self.state, watermark=max(self.state.watermark, window_check.reached))
        needed = self.state.watermark if has_removals else window_check.reached
        return NEVER if needed == NEVER else window_check.window.bucket(needed)

    def expire(self, files: Sequence[AbsorbedFile], *, before: int = NEVER) -> bool:
        """Take out edges that have left the window; returns whether the horizon has moved.

        ``files`` are the graph's, in order. Buckets that lie wholly before ``before``, in
        microseconds since 1970, leave too.
        """
        window = self._settings.window
        if window is None or self.deletions is None:
            return False
        bucket = NEVER if before == NEVER else window.bucket(before)
        horizon = max(window.horizon(self.state.watermark), bucket)
        if horizon <= self.state.horizon:  # it never goes back
            return False
        self._steps.begin("expiring edges")
        self._file_start = None
        self.state = self.deletions.expire(
            self.state,
            living(files, self.state.horizon),
            horizon=horizon,
            remaining=living(files, horizon),
            parallel=self._parallel,
        )
        return True

    def groups(self, staged: StagedFile, *, next_part: int) -> Generator[Absorbed, None, None]:
        """Absorb a file from a part on; yields each group of parts once it is absorbed.

        Where deletes are exact the file is in the log once the last group is taken.
        """
        if self.deletions is None:
            yield from self._absorb_parts(staged, next_part)
            return
        with self.deletions.writing(staged.digest) as log:
            if self._is_for_cluster(staged):  # workers read it, which have no log
                yield from self._absorb_parts(staged, next_part)
                self._log_again(log, staged, staged.parts)
                return
            self._log_again(log, staged, staged.parts[:next_part])
            self._log = log
            try:
                yield from self._absorb_parts(staged, next_part)
            finally:
                self._log = None

    def repair_after_deletes(
        self,
        digests: Sequence[str],
        *,
        retracted: Collection[str] = (),
        erased: Int32Array | None = None,
        everything: bool = False,
    ) -> Repair | None:
        """Repair the sparsifier after deletes, where they are exact and there were some.

        With ``everything`` all edges are sampled anew in any case.
        """
        has_changes = self.state.n_unresolved or self.state.n_unrepaired
        is_due = has_changes or retracted or erased is not None or everything
        if self.deletions is None or not is_due:
            return None
        cluster = None if self._settings.scheduler is None else self._connect()
        self._steps.begin("repairing after deletes")
        self._file_start = None
        # hand over the only reference: the old buffer is freed part by part
        held = [self.state]
        self.is_usable = False
        self.state = SparsifierState()
        self.state, report = self.deletions.repair_after_deletes(
            held.pop(),
            self._settings.sparsifier,
            digests,
            retracted=retracted,
            erased=erased,
            everything=everything,
            group_blocks=self._settings.blocks_per_group,
            n_threads=self._settings.n_readers,
            parallel=self._parallel,
            cluster=cluster,
        )
        self._raise_if_stopped()
        self.is_usable = True
        return report

    def begin_again(self) -> None:
        """Drop all records: the files are to come again, to the same nodes."""
        self._file_start = None
        self.state = SparsifierState(n_nodes=self.state.n_nodes)

    def end_again(self, *, n_rebuilds: int) -> None:
        """Count that all files have come again."""
        self.take_nodes()
        self.state = replace(self.state, n_rebuilds=n_rebuilds)

    def lift_bound(self) -> bool:
        """Forget the sampling constant that a budget set, of a state that holds every edge.

        Returns whether there was one.
        """
        is_bound = math.isfinite(self.state.constant)
        self.state = replace(self.state, constant=math.inf)
        return is_bound

    def compact_log(self) -> None:
        """Rewrite the parts of the log of which much is dead, if there are any."""
        if self.deletions is not None and self.deletions.is_worn:
            self._steps.begin("compacting the log")
            self.deletions.compact(self.state.log_version, parallel=self._parallel)

    def strike_nodes(self, nodes: Int32Array, digests: Sequence[str]) -> Repair | None:
        """Take the edges of nodes out for good; done again, they count once.

        Where deletes are exact they also leave the log, in all files ``digests``.
        """
        ids = self.nodes.external_ids()
        n_new = nodes.size - ids.take(pa.array(nodes)).null_count
        state = strike_nodes(self.state, nodes, parallel=self._parallel)
        self.state = replace(state, n_erased=ids.null_count + n_new)
        return self.repair_after_deletes(digests, erased=nodes)

    def take_nodes(self) -> None:
        """Count the nodes that the index has now."""
        n_nodes = self.nodes.n_nodes
        self.state = replace(self.state, n_nodes=n_nodes)
        if n_nodes > self._planned_nodes:
            self._plan_memory(n_nodes)

    def thinned(self) -> SparsifierState:
        """State to publish; the present one stays as it is."""
        self._steps.begin("thinning")
        state = thinned(
            self.state,
            self._settings.sparsifier,
            cancelled=self._is_cancelled,
            parallel=self._parallel,
        )
        self._raise_if_stopped()
        return state

    def forget_file_start(self) -> None:
        """Drop the state before the file in hand, as when more than that is on disk."""
        self._file_start = None

    def undo_file(self) -> bool:
        """Go back to the state before the file in hand; False where that is no longer kept."""
        if self._file_start is None:
            return False
        self.state = self._file_start
        self.nodes.truncate(self.state.n_nodes)
        return True

    def _absorb_parts(self, staged: StagedFile, next_part: int) -> Generator[Absorbed, None, None]:
        if self._is_for_cluster(staged):
            return self._absorb_on_cluster(staged, next_part=next_part)
        return self._absorb_here(staged, staged.parts[next_part:])

    def _is_for_cluster(self, staged: StagedFile) -> bool:
        return self._settings.scheduler is not None and not self._needs_order(staged)

    def _log_again(self, log: LogWriter, staged: StagedFile, parts: Sequence[Part]) -> None:
        """Log parts that are absorbed already: all of their nodes are known."""
        window_check = (
            None if self._window_check is None else replace(self._window_check, reached=NEVER)
        )
        with closing(self._reading(staged, parts)) as blocks:
            for raw in blocks:
                self._note_progress()
                u = v = NO_NODES
                if self._is_changing(raw):
                    changes = self._changes_of(raw)
                    added, u, v = changes.added, changes.u, changes.v
                else:
                    added = self.nodes.map_block(raw)
                edges = [added]
                if window_check is not None:
                    window_check, edges = window_check.take(added, raw)
                log.append_all(edges, u, v)

    def _reading(
        self, staged: StagedFile, parts: Sequence[Part]
    ) -> Generator[RawBlock, None, None]:
        return read_parts(
            [(staged, part) for part in parts],
            node_kind=self._settings.node_kind,
            max_nodes=self._settings.max_nodes,
            n_threads=self._settings.n_readers,
        )

    def _absorb_here(
        self, staged: StagedFile, parts: Sequence[Part]
    ) -> Generator[Absorbed, None, None]:
        with closing(self._reading(staged, parts)) as blocks:
            for group in _groups(parts, self._settings.blocks_per_group):
                self._raise_if_stopped()
                seconds = self._make_room()
                self._steps.begin("adding edges", staged.file.path)
                self._absorb_group(islice(blocks, len(group)), staged)
                yield group, seconds

    def _absorb_on_cluster(
        self, staged: StagedFile, *, next_part: int
    ) -> Generator[Absorbed, None, None]:
        """Absorb parts on the dask cluster; a group is a wave."""
        cluster = self._connect()
        while wave := cluster.next_wave(self.state, staged, next_part=next_part):
            self._raise_if_stopped()
            self._steps.begin("waiting for the cluster", staged.file.path)
            state = cluster.absorb_wave(
                self.state,
                self.nodes,
                staged,
                wave,
                cancelled=self._is_cancelled,
                parallel=self._parallel,
            )
            self._raise_if_stopped()
            if state.n_resparsifications > self.state.n_resparsifications:
                self._file_start = None  # it would keep the old buffer in memory
            self.state = state
            next_part = wave[-1][-1].number + 1
            yield [part for share in wave for part in share], None

    def _connect(self) -> "Cluster":
        """Connection to the dask cluster, until `workers` ends."""
        if self._cluster is None:
            from peewit.streaming.cluster.dask_ingest import Cluster  # noqa: PLC0415 - slow; only clusters need it

            settings = ShareSettings(
                node_kind=self._settings.node_kind,
                max_nodes=self._settings.max_nodes,
                sparsifier=self._settings.sparsifier,
                group_blocks=self._settings.blocks_per_group,
            )
            self._cluster = self._connections.enter_context(
                Cluster(
                    self._settings.scheduler or "",
                    settings,
                    wave_shares=self._settings.wave_shares,
                    raise_if_stopped=self._note_progress,
                )
            )
            self._connections.callback(self._forget_cluster)
        return self._cluster

    def _forget_cluster(self) -> None:
        self._cluster = None

    def _note_progress(self) -> None:
        """Count a look at the cluster as progress: dask watches its workers."""
        self._steps.move_on()
        self._raise_if_stopped()

    def _is_cancelled(self) -> bool:
        """Whether to stop; solves call it between iterations, each of which counts as progress."""
        self._steps.move_on()
        return self._should_stop()

    def _map_blocks(self, raw_blocks: Iterable[RawBlock]) -> Iterator[EdgeBlock]:
        for raw in raw_blocks:
            self._steps.move_on()
            edges = self._split_by_bucket(self.nodes.map_block(raw), raw)
            if self._log is not None:
                self._log.append_all(edges, NO_NODES, NO_NODES)
            yield from edges

    def _split_by_bucket(self, block: EdgeBlock, raw: RawBlock) -> list[EdgeBlock]:
        """Edges of a block that live, one block per bucket, where the graph has a window."""
        if self._window_check is None:
            return [block]
        self._window_check, edges = self._window_check.take(block, raw)
        return edges

    def _count_late_and_expired(self) -> None:
        """Count what the window has let pass since the last time."""
        window_check = self._window_check
        if window_check is not None and (window_check.n_late or window_check.n_expired):
            self.state = replace(
                self.state,
                n_dead=self.state.n_dead + window_check.n_late + window_check.n_expired,
                n_late=self.state.n_late + window_check.n_late,
                n_expired=self.state.n_expired + window_check.n_expired,
            )
            self._window_check = replace(window_check, n_late=0, n_expired=0)

    def _needs_order(self, staged: StagedFile) -> bool:
        """Whether workers cannot absorb it: order matters, or rows may name erased numbers."""
        if self._settings.window is not None:
            return True
        has_changes = staged.columns.op is not None or self._settings.parallel_edges == "replace"
        return has_changes or (isinstance(self.nodes, DenseNodes) and self.nodes.erased.size > 0)

    def _absorb_group(self, raw_blocks: Iterable[RawBlock], staged: StagedFile) -> None:
        remaining = iter(raw_blocks)
        added: list[EdgeBlock] = []
        while True:
            changing: list[RawBlock] = []
            blocks = chain(added, self._map_blocks(self._until_changes(remaining, changing)))
            first = next(blocks, None)
            if first is not None:
                self._absorb(chain((first,), blocks), staged)
            if not changing:
                return
            added = self._apply_changes(changing[0])

    def _until_changes(
        self, raw_blocks: Iterator[RawBlock], changing: list[RawBlock]
    ) -> Iterator[RawBlock]:
        """Blocks that only add edges; the first other one is put into ``changing``."""
        for raw in raw_blocks:
            if self._is_changing(raw):
                changing.append(raw)
                return
            yield raw

    def _is_changing(self, raw: RawBlock) -> bool:
        return raw.op is not None or self._settings.parallel_edges == "replace"

    def _changes_of(self, raw: RawBlock) -> Changes:
        return Changes.of(raw, self.nodes, replaces=self._settings.parallel_edges == "replace")

    def _apply_changes(self, raw: RawBlock) -> list[EdgeBlock]:
        """Strike what a block deletes; returns the edges that it adds."""
        self._steps.move_on()
        if raw.op is not None and self._settings.deletions == "off":
            row = raw.first_row + int((raw.op != INSERT).argmax())
            raise BadEdges(DELETIONS_OFF, argument="op", row=row)
        changes = self._changes_of(raw)
        added = self._split_by_bucket(changes.added, raw)
        if self._log is not None:
            self._log.append_all(added, changes.u, changes.v)
        self.take_nodes()
        n_struck = self.state.n_struck
        self.state = replace(
            strike(self.state, changes.u, changes.v, parallel=self._parallel),
            n_deletes=self.state.n_deletes + changes.n_deletes,
            n_removals=self.state.n_removals + changes.u.size,
            n_unresolved=self.state.n_unresolved + changes.u.size,
            n_dead=self.state.n_dead + changes.n_undone,
        )
        if self.state.n_struck > n_struck:
            self._file_start = None  # it would keep the old buffer in memory
        return added

    def _absorb(self, blocks: Iterable[EdgeBlock], staged: StagedFile) -> None:
        self.state = absorb(
            self.state,
            self._settings.keeping,
            blocks,
            n_nodes=0,
            run=staged.digest,
            parallel=self._parallel,
        )
        self._count_late_and_expired()
        self.take_nodes()

    def _make_room(self) -> float | None:
        """Resparsify if the buffer is full; the seconds it took, None where there was room."""
        if not self.is_full:
            return None
        started = self._clock()
        self._resparsify()
        return self._clock() - started

    def _resparsify(self) -> None:
        """Resparsify; only the function that replaces the old buffer holds it meanwhile."""
        self._steps.begin("thinning")
        self._file_start = None
        held = [self.state]
        self.is_usable = False
        self.state = SparsifierState()
        self.state = resparsify(
            held.pop(),
            self._settings.keeping,
            cancelled=self._is_cancelled,
            parallel=self._parallel,
        )
        self._raise_if_stopped()
        cap = self._settings.sparsifier.buffer_edges
        if cap is not None and LEAST_ROOM * self.state.n_records > cap:
            if self._settings.sparsifier.epsilon is None:
                most = int(cap / (_BUDGET_ROOM * self._settings.keeping.room))
                way_out = f"raise it, or set max_edges to {most:,} or less"
            else:
                way_out = "raise it, raise epsilon, or set a lower max_edges"
            raise MemoryLimitTooSmall(
                f"memory_limit leaves room for {cap:,} edges in the buffer, where "
                f"{self.state.n_records:,} must be kept; {way_out}"
            )
        self.is_usable = True


def _groups(parts: Sequence[Part], size: int) -> Iterator[Sequence[Part]]:
    """Consecutive groups of at most ``size`` parts of one file."""
    for start in range(0, len(parts), size):
        yield parts[start : start + size]
