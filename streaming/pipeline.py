"""The stream of one graph: files in, snapshots out, resumable at any line.

Wires source, node index, sparsifier, checkpoints and snapshots. A file is the unit of commitment:
when a part of it proves bad, the state returns to the last file boundary on disk and what followed
is replayed without it. Files are absorbed in the order given and blocks are numbered over the good
files alone, so equal files in equal order give equal snapshots, whatever the threads, the
interruptions and the bad files between.
"""

import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from peewit.solvers.parallel import Parallel
from peewit.streaming.cluster.shares import ShareSettings
from peewit.streaming.edges.blocks import BadEdges, RawBlock
from peewit.streaming.edges.parts import CUTTING, EdgeFile, Part, StagedFile
from peewit.streaming.edges.reader import read_parts
from peewit.streaming.edges.staging import Staging
from peewit.streaming.events import (
    Committed,
    Duplicate,
    IngestEvent,
    Progress,
    Quarantined,
    StreamSummary,
)
from peewit.streaming.memory import LEAST_ROOM, MemoryLimitTooSmall
from peewit.streaming.nodes.index import Nodes, open_nodes
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.checkpoints import (
    AbsorbedFile,
    Checkpoint,
    CheckpointStore,
    FilePosition,
)
from peewit.streaming.snapshots.store import GraphPaths, SnapshotMeta, SnapshotStore
from peewit.streaming.sparsifier.records import SparsifierState
from peewit.streaming.sparsifier.sparsifier import (
    absorb,
    expected_epsilon,
    is_full,
    resparsify,
    thinned,
)

if TYPE_CHECKING:
    from peewit.streaming.cluster.distributed import Cluster


class Interrupted(Exception):
    """The caller asked to stop; what was not checkpointed will be replayed."""


class FileUnreadable(OSError):
    """A file cannot be read now, which is no fault of its content; the cause says why.

    What came before it stays: ``Stream.ingest`` of the other files goes on.

    Attributes
    ----------
    file : EdgeFile
        Which one.
    """

    def __init__(self, file: EdgeFile, reason: Exception) -> None:
        super().__init__(f"{file.path} cannot be read now: {reason}")
        self.file = file


class _AlreadyAbsorbed(Exception):
    """The whole content is in the graph under another name."""

    def __init__(self, digest: str, original: str) -> None:
        super().__init__(original)
        self.digest = digest
        self.original = original


class _OtherContent(Exception):
    """The half-absorbed file has other content than when it was begun."""


_FileKey = tuple[str, str]
_Absorbed = tuple[Sequence[Part], float | None]
"""Parts of a group, and the seconds of the resparsification that followed it, if one did."""


class Stream:
    """One graph's stream, opened for writing by one process at a time.

    Parameters
    ----------
    paths : GraphPaths
        Where the graph lives; created when missing.
    settings : StreamSettings
        Kind of ids, sampling, threads.
    on_event : callable
        Receives every IngestEvent, in order.
    should_stop : callable
        Asked between groups and during solves; once true, ``ingest`` raises Interrupted.
    guard : callable
        Called before every change on disk; raises where this process may not write any more.
    clock, wall_clock : callable
        Monotonic seconds for intervals, and seconds since the epoch for ``created_at``.
    """

    _state: SparsifierState
    _position: FilePosition | None
    _n_indexed: int
    _is_dirty: bool
    _parallel: Parallel = map
    _is_usable: bool = True
    _file_start: SparsifierState | None = None
    """State at the start of the file in hand, while going back to it costs nothing."""

    def __init__(
        self,
        paths: GraphPaths,
        settings: StreamSettings,
        *,
        on_event: Callable[[IngestEvent], None] = lambda _event: None,
        should_stop: Callable[[], bool] = lambda: False,
        guard: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        for directory in (paths.nodes, paths.staging, paths.checkpoints, paths.snapshots):
            directory.mkdir(parents=True, exist_ok=True)
        self._paths = paths
        self._unlimited = settings
        self._on_event = on_event
        self._should_stop = should_stop
        self._guard = guard
        self._clock = clock
        self._wall_clock = wall_clock
        self._checkpoints = CheckpointStore(paths.checkpoints)
        self._checkpoints.clear()
        self._snapshots = SnapshotStore(paths.snapshots)
        newest = self._checkpoints.newest()
        self._plan_memory(newest.n_nodes)
        self._nodes: Nodes = open_nodes(
            paths.nodes,
            kind=settings.node_kind,
            n_nodes=newest.n_nodes,
            max_nodes=settings.max_nodes,
            writable=True,
        )
        self._reported: set[_FileKey] = set()
        self._connections = ExitStack()
        self._cluster: Cluster | None = None
        self._adopt(newest)
        self._is_dirty = not newest.is_clean
        self._checkpoint_time = clock()
        latest = self._snapshots.latest()
        self._note_snapshot(None if latest is None else self._snapshots.meta(latest))

    def _plan_memory(self, n_nodes: int) -> None:
        """Size the buffer for the nodes expected, times the power of 1.1 that so many need.

        A stream that is opened again makes the plan that it had.
        """
        self._planned_nodes = self._unlimited.sparsifier.expected_nodes
        while self._planned_nodes < n_nodes:
            self._planned_nodes = self._planned_nodes * 11 // 10 + 1
        self._settings = self._unlimited.within_memory(self._planned_nodes)

    @property
    def state(self) -> SparsifierState:
        """Present state of the sparsifier."""
        return self._state

    @property
    def files(self) -> tuple[AbsorbedFile, ...]:
        """Files absorbed so far, in order."""
        return tuple(self._absorbed.values())

    @property
    def n_nodes(self) -> int:
        """Number of nodes known."""
        return self._nodes.n_nodes

    def summary(self) -> StreamSummary:
        """Present counters."""
        return StreamSummary(
            n_nodes=self._nodes.n_nodes,
            edges_seen=self._state.n_edges,
            self_loops=self._state.n_self_loops,
            n_records=self._state.n_records,
            n_resparsifications=self._state.n_resparsifications,
            snapshot=self._snapshots.latest(),
        )

    def ingest(self, files: Sequence[EdgeFile]) -> StreamSummary:
        """Absorb files in order, commit them, publish a snapshot.

        Every file ends in exactly one event: Committed, Duplicate or Quarantined. Files that are
        absorbed already (a run that was killed and started again) are reported as Committed. A file
        that was half absorbed when the last run ended comes first.

        Raises
        ------
        Interrupted
            ``should_stop`` was true. Open the stream anew: ``ingest`` of the same files goes on
            from the newest checkpoint and ends as the unbroken run would have.
        FileUnreadable
            A file could not be staged, as when its store does not answer.
        """
        if not self._is_usable:
            raise RuntimeError("this stream was interrupted in a resparsification; open it anew")
        settled: set[_FileKey] = set()
        self._reported.clear()
        self._unreported.clear()
        with (
            self._connections,
            self._threads(),
            Staging(
                self._paths.staging, part_rows=self._settings.part_rows, check=self._stop_if_asked
            ) as staging,
        ):
            while not self._pass_over(files, settled, staging):
                self._unreported.clear()
            self._commit(publish=True)
        return self.summary()

    @property
    def is_between_files(self) -> bool:
        """Whether no file is half absorbed, as `adding_nodes` needs."""
        return self._position is None

    @contextmanager
    def adding_nodes(self) -> Iterator[Nodes]:
        """Index of the nodes, to add some that no edge brings (`NodeIndex.add`).

        When the block ends they are committed, and a snapshot that has them is published; no event
        tells of it. If the block raises, none of them was added.

        Raises
        ------
        RuntimeError
            A file is half absorbed: going back from it would forget the nodes.
        """
        if not (self._is_usable and self.is_between_files):
            raise RuntimeError("nodes can be added only between files, to a stream that is usable")
        n_before = self._nodes.n_nodes
        try:
            yield self._nodes
        except BaseException:
            self._nodes.truncate(n_before)
            raise
        n_nodes = self._nodes.n_nodes
        if n_nodes > n_before:
            self._n_indexed = n_nodes
            self._state = replace(self._state, n_nodes=n_nodes)
            self._is_dirty = True
            if n_nodes > self._planned_nodes:
                self._plan_memory(n_nodes)
        with self._threads():
            self._save_clean(publish=True)

    @contextmanager
    def _threads(self) -> Iterator[None]:
        """Threads for the work on the buffer."""
        with ThreadPoolExecutor(self._settings.n_threads, thread_name_prefix="sparsify") as pool:
            self._parallel = pool.map
            try:
                yield
            finally:
                self._parallel = map

    def _pass_over(
        self, files: Sequence[EdgeFile], settled: set[_FileKey], staging: Staging
    ) -> bool:
        """Take every file once; False when the state went back and all must be looked at again."""
        position = self._position
        if position is not None and all(file.path != position.path for file in files):
            self._return_to_clean()
        # Stable: the half-absorbed file first, the others in the order given.
        ordered = sorted(files, key=lambda file: not self._is_in_hand(file))
        for number, file in enumerate(ordered):
            key = (file.path, file.version)
            if key in settled:
                continue
            absorbed = self._absorbed.get(file.path)
            if absorbed is not None and absorbed.version == file.version:
                if key not in self._reported:
                    self._unreported.append(absorbed)
                continue
            try:
                following = (
                    later for later in ordered[number + 1 :] if self._is_new(later, settled)
                )
                self._take(file, staging, next(following, None))
            except _AlreadyAbsorbed as duplicate:
                settled.add(key)
                self._on_event(
                    Duplicate(file=file, digest=duplicate.digest, original=duplicate.original)
                )
            except (BadEdges, FileNotFoundError) as error:
                settled.add(key)
                self._on_event(_quarantined(file, error))
                if not self._forget_file_in_hand():
                    return False
            except _OtherContent:
                self._return_to_clean()
                return False
        return True

    def _is_in_hand(self, file: EdgeFile) -> bool:
        return self._position is not None and self._position.path == file.path

    def _is_new(self, file: EdgeFile, settled: set[_FileKey]) -> bool:
        absorbed = self._absorbed.get(file.path)
        is_absorbed = absorbed is not None and absorbed.version == file.version
        return not is_absorbed and (file.path, file.version) not in settled

    def _take(self, file: EdgeFile, staging: Staging, following: EdgeFile | None) -> None:
        """Absorb one file whole, while the one that follows is staged."""
        self._file_start = self._state if self._position is None else None
        with self._staged(file, staging, following) as staged:
            in_hand = self._position
            if in_hand is not None and not self._is_continued(in_hand, staged):
                raise _OtherContent
            if staged.digest in self._digests:
                raise _AlreadyAbsorbed(staged.digest, self._digests[staged.digest])
            if file.path in self._absorbed:
                raise BadEdges("an earlier version of this path is already in the graph")
            self_loops_before = self._absorb_parts(staged)
            if not staged.is_unchanged():
                raise BadEdges("the content changed while it was read")
        self._finish_file(
            AbsorbedFile(
                path=file.path,
                version=file.version,
                digest=staged.digest,
                n_rows=staged.n_rows,
                n_self_loops=self._state.n_self_loops - self_loops_before,
            )
        )

    def _is_continued(self, position: FilePosition, staged: StagedFile) -> bool:
        """Whether the parts that a position counts are those of the staged file."""
        given = position.digest, position.part_rows, position.cutting
        return given == (staged.digest, self._settings.part_rows, CUTTING)

    def _staged(self, file: EdgeFile, staging: Staging, following: EdgeFile | None) -> StagedFile:
        try:
            return staging.take(file, following)
        except (BadEdges, FileNotFoundError, Interrupted):
            raise
        except Exception as error:  # file systems raise what they like
            raise FileUnreadable(file, error) from error

    def _absorb_parts(self, staged: StagedFile) -> int:
        """Absorb what is left of a file; returns the self-loops of the stream before it."""
        parts = staged.parts
        start = FilePosition(
            path=staged.file.path,
            digest=staged.digest,
            part_rows=self._settings.part_rows,
            next_part=0,
            self_loops_before=self._state.n_self_loops,
            cutting=CUTTING,
        )
        if self._position is not None:
            start = self._position
            parts = parts[start.next_part :]
        absorbing = (
            self._absorb_here(staged, parts)
            if self._settings.scheduler is None
            else self._absorb_on_cluster(staged, next_part=start.next_part)
        )
        started = self._clock()
        with closing(absorbing) as groups:
            for group, resparsify_seconds in groups:
                seconds = self._clock() - started
                self._position = replace(start, next_part=group[-1].number + 1)
                if self._clock() - self._checkpoint_time >= self._settings.checkpoint_seconds:
                    self._save()
                self._report_progress(staged, group, seconds, resparsify_seconds)
                started = self._clock()
        return start.self_loops_before

    def _absorb_here(
        self, staged: StagedFile, parts: Sequence[Part]
    ) -> Generator[_Absorbed, None, None]:
        """Absorb parts in threads of this process; yields each group once it is absorbed."""
        reading = read_parts(
            [(staged, part) for part in parts],
            node_kind=self._settings.node_kind,
            max_nodes=self._settings.max_nodes,
            n_threads=self._settings.n_readers,
        )
        with closing(reading) as blocks:
            for group in _groups(parts, self._settings.blocks_per_group):
                self._stop_if_asked()
                yield (
                    group,
                    self._absorb_group(_good(block) for block in islice(blocks, len(group))),
                )

    def _absorb_on_cluster(
        self, staged: StagedFile, *, next_part: int
    ) -> Generator[_Absorbed, None, None]:
        """Absorb parts on the dask cluster; yields the parts of each wave once it is absorbed."""
        cluster = self._connected()
        while wave := cluster.next_wave(self._state, staged, next_part=next_part):
            self._stop_if_asked()
            state = cluster.absorb_wave(
                self._state,
                self._nodes,
                staged,
                wave,
                cancelled=self._should_stop,
                parallel=self._parallel,
            )
            self._stop_if_asked()
            if state.n_resparsifications > self._state.n_resparsifications:
                self._file_start = None  # it would keep the old buffer in memory
            self._state = state
            self._n_indexed = self._nodes.n_nodes
            next_part = wave[-1][-1].number + 1
            yield [part for share in wave for part in share], None

    def _connected(self) -> "Cluster":
        """Connection to the dask cluster, until ``ingest`` ends."""
        if self._cluster is None:
            from peewit.streaming.cluster.distributed import Cluster  # noqa: PLC0415 - slow; only clusters need it

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
                    stop_if_asked=self._stop_if_asked,
                )
            )
            self._connections.callback(self._disconnected)
        return self._cluster

    def _disconnected(self) -> None:
        self._cluster = None

    def _absorb_group(self, raw_blocks: Iterable[RawBlock]) -> float | None:
        """Absorb a group; seconds of the resparsification, None where there was none."""
        state = absorb(
            self._state,
            self._settings.sparsifier,
            (self._nodes.map_block(raw) for raw in raw_blocks),
            n_nodes=0,
            parallel=self._parallel,
        )
        self._n_indexed = n_nodes = self._nodes.n_nodes
        self._state = replace(state, n_nodes=n_nodes)
        del state  # the one that resparsifies must hold the only reference
        if n_nodes > self._planned_nodes:
            self._plan_memory(n_nodes)
        if not is_full(self._state, self._settings.sparsifier):
            return None
        started = self._clock()
        self._resparsify()
        return self._clock() - started

    def _resparsify(self) -> None:
        """Resparsify, with no other hand on the old buffer than the function that replaces it."""
        self._file_start = None
        held = [self._state]
        self._is_usable = False
        self._state = SparsifierState()
        self._state = resparsify(
            held.pop(),
            self._settings.sparsifier,
            cancelled=self._should_stop,
            parallel=self._parallel,
        )
        self._stop_if_asked()
        cap = self._settings.sparsifier.buffer_edges
        if cap is not None and LEAST_ROOM * self._state.n_records > cap:
            raise MemoryLimitTooSmall(
                f"memory_limit leaves room for {cap:,} edges in the buffer, where "
                f"{self._state.n_records:,} must be kept; raise it, raise epsilon, or set max_edges"
            )
        self._is_usable = True

    def _finish_file(self, file: AbsorbedFile) -> None:
        self._remember(file)
        self._unreported.append(file)
        self._position = None
        self._is_dirty = True
        snapshot_is_due = self._snapshot_is_due()
        checkpoint_age = self._clock() - self._checkpoint_time
        if snapshot_is_due or checkpoint_age >= self._settings.checkpoint_seconds:
            self._commit(publish=snapshot_is_due)

    def _snapshot_is_due(self) -> bool:
        edges, seconds = self._settings.snapshot_edges, self._settings.snapshot_seconds
        enough_edges = edges is not None and self._state.n_edges - self._snapshot_edges >= edges
        enough_time = seconds is not None and self._clock() - self._snapshot_time >= seconds
        return enough_edges or enough_time

    def _commit(self, *, publish: bool) -> None:
        """Write a clean checkpoint, publish a snapshot if asked, report what is now durable."""
        is_published = self._save_clean(publish=publish)
        if self._unreported or is_published:
            files = tuple(self._unreported)
            self._unreported.clear()
            self._reported.update((file.path, file.version) for file in files)
            self._on_event(Committed(files=files, summary=self.summary()))

    def _save_clean(self, *, publish: bool) -> bool:
        """Write a checkpoint, publish a snapshot if asked; whether there was news to publish."""
        if self._is_dirty:
            self._save()
        is_news = (self._state.n_blocks, self._state.n_nodes) != self._snapshot_position
        if publish and is_news:
            self._publish()
        return publish and is_news

    def _save(self) -> None:
        self._guard()
        self._nodes.publish()
        self._checkpoints.save(
            Checkpoint(
                state=self._state,
                n_nodes=self._nodes.n_nodes,
                files=tuple(self._absorbed.values()),
                position=self._position,
            ),
            guard=self._guard,
        )
        self._checkpoint_time = self._clock()
        if self._position is None:
            self._is_dirty = False
        else:
            self._file_start = None  # what is on disk goes further

    def _publish(self) -> None:
        """Publish a snapshot of the present state, which stays as it is."""
        settings = self._settings.sparsifier
        state = thinned(self._state, settings, cancelled=self._should_stop, parallel=self._parallel)
        self._stop_if_asked()
        smallest = state.smallest_constant
        meta = SnapshotMeta(
            number=(self._snapshots.latest() or 0) + 1,
            node_kind=self._settings.node_kind,
            n_nodes=state.n_nodes,
            edges_seen=state.n_edges,
            edges_kept=0,  # counted while they are written
            n_records=state.n_records,
            self_loops=state.n_self_loops,
            epsilon_asked=settings.epsilon,
            epsilon_expected=expected_epsilon(state, settings),
            sampling_constant=None if math.isinf(smallest) else smallest,
            max_edges_bound=math.isfinite(state.constant),
            n_resparsifications=state.n_resparsifications,
            n_failed_embeddings=state.n_failed_embeddings,
            n_blocks=state.n_blocks,
            n_files=len(self._absorbed),
            seed=settings.seed,
            created_at=self._wall_clock(),
        )
        self._note_snapshot(self._snapshots.publish_records(meta, state.chunks, guard=self._guard))

    def _forget_file_in_hand(self) -> bool:
        """Undo what a bad file did; False when that meant going back to the clean checkpoint."""
        if self._file_start is None:
            self._return_to_clean()
            return False
        self._state = self._file_start
        self._n_indexed = self._state.n_nodes
        self._nodes.truncate(self._n_indexed)
        self._position = None
        return True

    def _return_to_clean(self) -> None:
        self._guard()
        clean = self._checkpoints.return_to_clean()
        self._nodes.truncate(clean.n_nodes)
        self._adopt(clean)

    def _adopt(self, checkpoint: Checkpoint) -> None:
        self._state = checkpoint.state
        self._n_indexed = checkpoint.n_nodes
        self._position = checkpoint.position
        self._is_dirty = False
        self._unreported: list[AbsorbedFile] = []
        self._absorbed: dict[str, AbsorbedFile] = {}
        self._digests: dict[str, str] = {}
        for file in checkpoint.files:
            self._remember(file)

    def _remember(self, file: AbsorbedFile) -> None:
        self._absorbed[file.path] = file
        self._digests[file.digest] = file.path

    def _note_snapshot(self, meta: SnapshotMeta | None) -> None:
        self._snapshot_position = (meta.n_blocks, meta.n_nodes) if meta else (0, 0)
        self._snapshot_edges = meta.edges_seen if meta else 0
        self._snapshot_time = self._clock()

    def _report_progress(
        self,
        staged: StagedFile,
        group: Sequence[Part],
        seconds: float,
        resparsify_seconds: float | None,
    ) -> None:
        self._on_event(
            Progress(
                path=staged.file.path,
                n_rows=sum(part.n_rows for part in group),
                n_bytes=sum(part.n_bytes for part in group),
                summary=self.summary(),
                n_blocks=len(group),
                block_seconds=seconds - (resparsify_seconds or 0.0),
                resparsify_seconds=resparsify_seconds,
            )
        )

    def _stop_if_asked(self) -> None:
        if self._should_stop():
            raise Interrupted


def _groups(parts: Sequence[Part], size: int) -> Iterator[Sequence[Part]]:
    """Consecutive groups of at most ``size`` parts of one file."""
    for start in range(0, len(parts), size):
        yield parts[start : start + size]


def _quarantined(file: EdgeFile, error: BadEdges | FileNotFoundError) -> Quarantined:
    if isinstance(error, BadEdges):
        return Quarantined(file=file, reason=error.reason, row=error.row, value=error.value)
    return Quarantined(file=file, reason="the file is gone", row=None, value=None)


def _good(block: RawBlock | BadEdges) -> RawBlock:
    if isinstance(block, BadEdges):
        raise block
    return block
