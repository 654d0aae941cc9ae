"""The stream of one graph: files in, snapshots out, resumable at any line.

Here is the order of the steps; `stream` has the steps: absorption, commitment, publication. A file
is the unit of commitment: when a part of it proves bad, the state returns to the last file boundary
on disk and what followed is replayed without it. Files are absorbed in the order given and blocks
are numbered over the good files alone, so equal files in equal order give equal snapshots, whatever
the threads, the interruptions and the bad files between.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace

import pyarrow as pa

from peewit.solvers.arrays import Int32Array
from peewit.streaming.durable_files import publish_json
from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.edges.conversion import is_read_in_place, with_count
from peewit.streaming.edges.parts import EdgeFile, FileUnreadable, StagedFile
from peewit.streaming.edges.staging import Staging
from peewit.streaming.edges.time_units import NEVER, SECOND
from peewit.streaming.events import (
    Committed,
    Duplicate,
    IngestEvent,
    Progress,
    Quarantined,
    Repaired,
    Retracted,
    StreamSummary,
    Withheld,
)
from peewit.streaming.graph_paths import GraphPaths, bad_rows_name
from peewit.streaming.nodes.index import Nodes
from peewit.streaming.passes.edge_passes import RawEdgesGone
from peewit.streaming.passes.raw_edge_passes import present_file, require_files
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.checkpoints import AbsorbedFile, CheckpointStore, FilePosition
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.degrees import is_whole
from peewit.streaming.sparsifier.repair import Repair
from peewit.streaming.sparsifier.settings_and_state import SparsifierState
from peewit.streaming.steps import Steps
from peewit.streaming.stream.commitment import Commitment
from peewit.streaming.stream.publication import Publication
from peewit.streaming.stream.relations import Relations
from peewit.streaming.stream.shared_work import SharedWork


class Interrupted(Exception):
    """The caller asked to stop; what was not checkpointed will be replayed."""


class NotRetractable(ValueError):
    """A file cannot be taken out of the graph."""

    def __init__(self, file: AbsorbedFile, reason: str) -> None:
        super().__init__(f"{file.path} cannot be retracted: {reason}")
        self.file = file
        self.reason = reason


class _AlreadyAbsorbed(Exception):
    """The whole content is in the graph under another name; an earlier version may be out."""

    def __init__(self, digest: str, original: str, replaced: AbsorbedFile | None) -> None:
        super().__init__(original)
        self.digest = digest
        self.original = original
        self.replaced = replaced


class _ContentRetracted(Exception):
    """The content was retracted."""

    def __init__(self, digest: str) -> None:
        super().__init__(digest)
        self.digest = digest


class _OtherContent(Exception):
    """The half-absorbed file has other content than when it was begun."""


_FileKey = tuple[str, str]


class Stream:
    """One graph's stream, opened for writing by one process at a time; a new graph is created.

    ``on_event`` receives every IngestEvent, in order. ``should_stop`` is called between groups and
    during solves; once it is true, ``ingest`` raises Interrupted. ``guard`` is called before every
    change on disk; it raises where this process may no longer write. ``clock`` gives monotonic
    seconds, ``wall_clock`` seconds since the epoch for ``created_at``.
    """

    def __init__(
        self,
        paths: GraphPaths,
        settings: StreamSettings,
        *,
        on_event: Callable[[IngestEvent], None] = lambda _event: None,
        should_stop: Callable[[], bool] = lambda: False,
        guard: Callable[[], None] = lambda: None,
        steps: Steps | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        for directory in (paths.nodes, paths.staging, paths.checkpoints, paths.snapshots):
            directory.mkdir(parents=True, exist_ok=True)
        self._staging_directory = paths.staging
        self._bad_rows = paths.bad_rows
        self._settings = settings
        self._on_event = on_event
        self._steps = steps = steps or Steps()
        self._should_stop = should_stop
        self._clock = clock
        self._wall_clock = wall_clock
        checkpoints = CheckpointStore(paths.checkpoints)
        checkpoints.clear()
        newest = checkpoints.newest()
        self._work = SharedWork(
            paths,
            settings,
            n_nodes=newest.n_nodes,
            should_stop=should_stop,
            raise_if_stopped=self._raise_if_stopped,
            guard=guard,
            steps=steps,
            clock=clock,
        )
        self._relations = Relations(newest, paths, self._work)
        self._commitment = Commitment(
            checkpoints,
            newest,
            part_rows=self._work.settings.part_rows,
            parallel_edges=settings.parallel_edges,
            window=settings.window,
            checkpoint_seconds=settings.checkpoint_seconds,
            guard=guard,
            steps=steps,
            clock=clock,
        )
        self._publication = Publication(
            SnapshotStore(paths.snapshots),
            settings,
            guard=guard,
            steps=steps,
            clock=clock,
            wall_clock=wall_clock,
        )

    @property
    def state(self) -> SparsifierState:
        """Present state of the sparsifiers of all relations together, see `united`."""
        return self._relations.state

    @property
    def states(self) -> dict[str, SparsifierState]:
        """Present state of the sparsifier of each relation."""
        return self._relations.states

    @property
    def files(self) -> tuple[AbsorbedFile, ...]:
        """Files absorbed so far, in order."""
        return self._commitment.files

    @property
    def n_nodes(self) -> int:
        """Number of nodes known."""
        return self._work.nodes.n_nodes

    def summary(self) -> StreamSummary:
        """Present counters."""
        return StreamSummary(
            n_nodes=self.n_nodes,
            edges_seen=self.state.n_rows_seen,
            left_out=self.state.left_out,
            n_records=self.state.n_records,
            n_resparsifications=self.state.n_resparsifications,
            snapshot=self._publication.latest,
            newest=self._publication.newest,
        )

    def ingest(
        self, files: Sequence[EdgeFile], *, is_enough: Callable[[], bool] = lambda: False
    ) -> StreamSummary:
        """Absorb files in order, commit them, publish a snapshot.

        Every file ends in exactly one event: Committed, Duplicate, Withheld or Quarantined. Files
        that are absorbed already (a run that was killed and started again) are reported as
        Committed. A file that was half absorbed when the last run ended comes first; it is undone
        where it is none of ``files``. Once ``is_enough()`` is true, called between files, the
        others are left for another call.

        After `Interrupted`, open the stream anew: ``ingest`` of the same files goes on from the
        newest checkpoint and ends as the unbroken run would have.
        """
        if not self._relations.is_usable:
            raise RuntimeError(
                "this stream was interrupted while its state was replaced; open it anew"
            )
        ended: set[_FileKey] = set()
        self._commitment.begin_run()
        with self._work.workers(), self._staging() as staging:
            if self.is_between_files:
                # the window may have become shorter
                self._commitment.is_dirty |= self._expire()
            while not self._take_each(files, ended, staging, is_enough):
                self._commitment.begin_pass()
            self._commit(publish=True)
        return self.summary()

    @property
    def is_between_files(self) -> bool:
        """Whether no file is half absorbed, as `adding_nodes` needs."""
        return self._commitment.position is None

    @contextmanager
    def adding_nodes(self) -> Iterator[Nodes]:
        """Index of the nodes, to add some that no edge brings (`NodeIndex.add`).

        When the block ends they are committed, and a snapshot that has them is published, without
        an event. If the block raises, none of them was added. Raises RuntimeError while a file is
        half absorbed: going back from it would forget the nodes.
        """
        if not (self._relations.is_usable and self.is_between_files):
            raise RuntimeError("nodes can be added only between files, to a stream that is usable")
        nodes = self._work.nodes
        n_before = nodes.n_nodes
        try:
            yield nodes
        except BaseException:
            nodes.truncate(n_before)
            raise
        if nodes.n_nodes > n_before:
            self._commitment.is_dirty = True
            self._relations.take_nodes()
        with self._work.workers():
            self._repair_and_save(publish=True)

    def retract(self, path: str, *, inserts_only: bool = False) -> AbsorbedFile:
        """Take all edges of a file out of the graph again, and publish a snapshot without them.

        Nodes stay known. The same content may be ingested anew, and the path with another content.
        With ``inserts_only`` a file that deleted or set edges of others loses what it inserted;
        those edges are not brought back.

        `NotRetractable` tells that deletions are off, or that the file removed edges of others.
        """
        (result,) = self.retract_all({path: inserts_only})
        if isinstance(result, NotRetractable):
            raise result
        return result

    def retract_all(self, wanted: Mapping[str, bool]) -> list[AbsorbedFile | NotRetractable]:
        """Retract files as `retract` does, with one checkpoint, snapshot and event for all.

        ``wanted`` has ``inserts_only`` by the path of an absorbed file. Returns, in its order, each
        file that is out, or why it stays; the event Retracted has the former.
        """
        if not (self._relations.is_usable and self.is_between_files):
            raise RuntimeError("files can be retracted only between files, of a usable stream")
        files = [self._file_of(path) for path in wanted]
        results: list[AbsorbedFile | NotRetractable] = []
        with self._work.workers():
            for file, inserts_only in zip(files, wanted.values(), strict=True):
                reason = self._why_not_retractable(file, inserts_only=inserts_only)
                results.append(file if reason is None else NotRetractable(file, reason))
            gone = tuple(file for file in results if isinstance(file, AbsorbedFile))
            if gone:
                self._take_out(gone)
                self._repair_and_save(publish=True)
        if gone:
            self._on_event(Retracted(files=gone, summary=self.summary()))
        return results

    def _file_of(self, path: str) -> AbsorbedFile:
        file = self._commitment.file_of(path)
        if file is None:
            raise KeyError(path)
        return file

    def _take_out(self, files: Sequence[AbsorbedFile]) -> None:
        self._retract(files)
        for file in files:
            self._commitment.remove(file)

    def _retract(self, files: Sequence[AbsorbedFile]) -> None:
        self._steps.begin("retracting", files[0].path)
        started = self._clock()
        gone = {file.digest for file in files}
        self._report_repair(
            self._relations.repair_after_deletes(self.files, retracted=gone), started
        )

    @property
    def current_path(self) -> str | None:
        """Path of the file that is half absorbed."""
        position = self._commitment.position
        return None if position is None else position.path

    def lookup(self, ids: pa.Array) -> Int32Array:
        """Dense ids of external ones that are in the graph, -1 of others; see `NodeIndex.lookup`.

        Ids found between files are on disk: a checkpoint is written first where need be.
        """
        if self.is_between_files:
            self._repair_and_save(publish=False)
        return self._work.nodes.lookup(ids)

    def erase(self, nodes: Int32Array) -> None:
        """Erase nodes: their edges leave the graph and their external ids the index.

        ``nodes`` are dense ids, each once, from `lookup` between files. They are retired: `n_nodes`
        stays, and an external id that comes again is a new node. Killed at any line, it can be done
        again with the same dense ids. Published snapshots and features keep theirs, until
        `SnapshotStore.erase` and `FeatureStore.publish_without`. Raises RuntimeError while a file
        is half absorbed, or where the stream is not usable.
        """
        if not (self._relations.is_usable and self.is_between_files):
            raise RuntimeError("nodes can be erased only between files, of a usable stream")
        with self._work.workers():
            started = self._clock()
            self._report_repair(self._relations.strike_nodes(nodes, self.files), started)
            self._commitment.is_dirty = True
            self._repair_and_save(publish=True)
        self._work.nodes.erase(nodes)

    def expire(self, before: float) -> None:
        """Take out all edges of buckets that lie wholly before a time, and publish the rest.

        Relations without a window keep theirs. ``before`` is in seconds since 1970. Raises
        ValueError where the graph has no window, RuntimeError while a file is half absorbed or
        where the stream is not usable.
        """
        if self._settings.window is None:
            raise ValueError("before must be left out of a graph without a window")
        if not (self._relations.is_usable and self.is_between_files):
            raise RuntimeError("edges can expire only between files, of a usable stream")
        with self._work.workers():
            self._expire(before=round(before * SECOND))
            self._commitment.is_dirty = True
            self._repair_and_save(publish=True)

    def _expire(self, *, before: int = NEVER) -> bool:
        """Take out edges that have left the window; returns whether a horizon has moved.

        Buckets that lie wholly before ``before``, in microseconds since 1970, leave too.
        """
        window = self._settings.window
        if window is None:
            return False
        bucket = NEVER if before == NEVER else window.bucket(before)
        return self._relations.expire(self.files, window, before=bucket)

    def repair(self, *, everything: bool = False) -> None:
        """Repair the sparsifier now, and publish what has changed.

        With ``everything`` all edges are sampled anew in any case: from the log, or, where
        deletions are off, from all files. Where these are missing, changed or unreadable, raises
        `RawEdgesGone` or `FileUnreadable`, and the graph is as before. Raises RuntimeError while a
        file is half absorbed, or where the stream is not usable.
        """
        if not (self._relations.is_usable and self.is_between_files):
            raise RuntimeError("a graph can be repaired only between files, of a usable stream")
        with self._work.workers():
            if everything and self._settings.deletions == "off":
                started = self._clock()
                self._report_repair(self._read_again(), started)
            else:
                started = self._clock()
                repair = self._relations.repair_after_deletes(self.files, everything=everything)
                self._report_repair(repair, started)
                self._commitment.is_dirty |= repair is not None
            self._repair_and_save(publish=True)

    def _read_again(self) -> Repair | None:
        """Absorb all files anew, as a stream with the present settings would have.

        Where the state holds every edge nothing is read.
        """
        if is_whole(self.state):
            self._commitment.is_dirty |= self._relations.lift_bound()
            return None
        if self.state.n_erased:
            raise RawEdgesGone([("all files", "they may still hold nodes that were erased")])
        require_files(self.files)
        self._repair_and_save(publish=False)  # what it goes back to
        self._relations.begin_again()
        try:
            with self._staging() as staging:
                for file in self.files:
                    self._absorb_again(file, staging)
        except BaseException:
            self._return_to_clean()
            raise
        self._relations.end_again()
        self._commitment.is_dirty = True
        n_edges = self.state.n_rows_seen - self.state.left_out.total
        return Repair(kind="all", n_edges=n_edges)

    def _absorb_again(self, file: AbsorbedFile, staging: Staging) -> None:
        """Absorb a file that was absorbed before, with the content that it had."""
        try:
            with self._stage(present_file(file), staging, None) as staged:
                if file.digest not in staged.digests:
                    raise BadEdges("its content has changed since it was ingested")
                with closing(self._relations.groups(staged, next_part=0)) as groups:
                    for _ in groups:
                        pass
        except BadEdges as error:
            raise RawEdgesGone([(file.path, str(error))]) from error
        except FileNotFoundError as error:
            raise RawEdgesGone([(file.path, "it is missing")]) from error

    def _why_not_retractable(self, file: AbsorbedFile, *, inserts_only: bool) -> str | None:
        if self._settings.deletions == "off":
            return "deletions of the graph are off"
        if file.has_removals and not inserts_only:
            return (
                "it deleted or set edges of other files, which are not brought back; ask for its "
                "inserts only"
            )
        return None

    def _take_each(
        self,
        files: Sequence[EdgeFile],
        ended: set[_FileKey],
        staging: Staging,
        is_enough: Callable[[], bool],
    ) -> bool:
        """Take every file once; False when the state went back and all must be looked at again."""
        commitment = self._commitment
        if not (self.is_between_files or any(map(commitment.is_current, files))):
            self._return_to_clean()
        # Stable: the half-absorbed file first, the others in the order given.
        ordered = sorted(files, key=lambda file: not commitment.is_current(file))
        for number, file in enumerate(ordered):
            key = (file.path, file.version)
            if key in ended:
                continue
            if commitment.has(file):
                commitment.report(file)
                continue
            if self.is_between_files and is_enough():
                break
            following = (
                later
                for later in ordered[number + 1 :]
                if not commitment.has(later) and (later.path, later.version) not in ended
            )
            try:
                self._take(file, staging, next(following, None))
            except _AlreadyAbsorbed as duplicate:
                ended.add(key)
                if duplicate.replaced is not None:
                    self._commit(publish=False)
                self._on_event(
                    Duplicate(
                        file=file,
                        digest=duplicate.digest,
                        original=duplicate.original,
                        replaced=duplicate.replaced,
                    )
                )
            except _ContentRetracted as retracted:
                ended.add(key)
                self._on_event(Withheld(file=file, digest=retracted.digest))
            except (BadEdges, FileNotFoundError) as error:
                ended.add(key)
                self._on_event(_quarantine(file, error))
                if not self._undo_file():
                    return False
            except _OtherContent:
                self._return_to_clean()
                return False
        return True

    def _take(self, file: EdgeFile, staging: Staging, following: EdgeFile | None) -> None:
        """Absorb one file whole, while the one that follows is staged."""
        if self.is_between_files:
            self._relations.begin_file()
        else:
            self._relations.forget_file_start()
        with self._stage(file, staging, following) as staged:
            if not self._commitment.is_continued(staged):
                raise _OtherContent
            paths = map(self._commitment.path_of, staged.digests)
            original = next((path for path in paths if path is not None), None)
            is_pushed = not file.pushed.isdisjoint(staged.digests)
            if original is None and self.is_between_files and is_pushed:
                original = "a push"
            earlier = self._commitment.earlier_than(file)
            if original is not None:
                leaving = None if file.takes_place_of(original) else earlier
                if leaving is not None and file.takes_place_of(leaving.path):
                    self._require_replaceable(leaving)
                    self._take_out([leaving])
                    raise _AlreadyAbsorbed(staged.digest, original, leaving)
                raise _AlreadyAbsorbed(staged.digest, original, None)
            if file.withheld in staged.digests and self.is_between_files:
                raise _ContentRetracted(staged.digest)
            if earlier is not None:
                if not file.takes_place_of(earlier.path):
                    raise BadEdges(
                        "an earlier version of this path is already in the graph; to take "
                        "this one in its place, where deletions are exact, use `peewit "
                        "ingest --replace`. To have both, give it another name"
                    )
                self._require_replaceable(earlier)
                if self.is_between_files:  # a half-absorbed version has struck it before
                    self._retract([earlier])
            try:
                start = self._absorb_parts(staged)
            except BadEdges as error:
                raise self._with_count(error, staged) from error
            if not staged.is_unchanged():
                raise BadEdges("the content changed while it was read")
        if staged.bad_rows:
            self._report_bad_rows(staged)
        has_removals = self.state.n_removals > start.removals_before
        self._commitment.finish(
            AbsorbedFile(
                path=file.path,
                version=file.version,
                digest=staged.digest,
                n_rows=staged.n_rows,
                left_out=self.state.left_out - start.left_out_before,
                n_bad_rows=len(staged.bad_rows),
                columns=file.columns,
                max_bad_rows=file.max_bad_rows,
                has_removals=has_removals,
                last_bucket=self._end_window(has_removals=has_removals),
                relations=self._relations.taken(staged),
            ),
            earlier=earlier,
        )
        self._expire()
        snapshot_is_due = self._publication.is_due(self.state)
        if snapshot_is_due or self._commitment.is_due():
            self._commit(publish=snapshot_is_due)

    def _end_window(self, *, has_removals: bool) -> int | None:
        """Advance the watermark to the ended file; returns the bucket until which it is needed.

        None where the graph has no window. ``has_removals``: whether the file deletes edges, which
        is resolved before anything else leaves.
        """
        check, reached = self._work.window_check, self._work.reached
        self._work.window_check = None
        self._relations.end_file(reached=reached)
        if check is None:
            return None
        needed = self.state.watermark if has_removals else reached
        return NEVER if needed == NEVER else check.window.bucket(needed)

    def _with_count(self, fault: BadEdges, staged: StagedFile) -> BadEdges:
        """The fault of a file that is read in place, with the number of its bad rows."""
        if not is_read_in_place(staged.file, staged.local_path):
            return fault
        return with_count(
            *(fault, staged.file, staged.local_path, self._staging_directory / "counted.parquet"),
            node_kind=self._settings.node_kind,
            max_nodes=self._settings.max_nodes,
            check=self._raise_if_stopped,
        )

    def _require_replaceable(self, earlier: AbsorbedFile) -> None:
        reason = self._why_not_retractable(earlier, inserts_only=False)
        if reason is not None:
            raise BadEdges(f"an earlier version cannot be replaced: {reason}")

    def _report_bad_rows(self, staged: StagedFile) -> None:
        """Write what was left out beside the graph, before the file counts as absorbed."""
        self._bad_rows.mkdir(exist_ok=True)
        publish_json(
            self._bad_rows / bad_rows_name(staged.digest),
            {"path": staged.file.path, "rows": [asdict(row) for row in staged.bad_rows]},
        )

    def _staging(self) -> Staging:
        return Staging(
            self._staging_directory,
            node_kind=self._settings.node_kind,
            max_nodes=self._settings.max_nodes,
            part_rows=self._work.settings.part_rows,
            check=self._raise_if_stopped,
            on_progress=self._steps.move_on,
        )

    def _stage(self, file: EdgeFile, staging: Staging, following: EdgeFile | None) -> StagedFile:
        self._steps.begin("reading", file.path)
        try:
            return staging.take(file, following)
        except (BadEdges, FileNotFoundError, Interrupted):
            raise
        except Exception as error:  # file systems raise what they like
            raise FileUnreadable(file, error) from error

    def _absorb_parts(self, staged: StagedFile) -> FilePosition:
        """Absorb what is left of a file; returns where it began."""
        arrived = staged.file.arrived
        now = self._wall_clock() if arrived is None else arrived
        start = self._commitment.start(staged, self.state, arrived=round(now * SECOND))
        seen = self.state
        self._work.begin_window(
            watermark=seen.watermark, arrived=start.arrived, reached=start.reached
        )
        started = self._clock()
        with closing(self._relations.groups(staged, next_part=start.next_part)) as groups:
            for group, resparsify_seconds in groups:
                seconds = self._clock() - started
                self._commitment.position = replace(
                    start, next_part=group[-1].number + 1, reached=self._work.reached
                )
                if self._commitment.is_due(before_long_work=self._relations.is_full):
                    self._save()
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
                started = self._clock()
        return start

    def _commit(self, *, publish: bool) -> None:
        """Write a clean checkpoint, publish a snapshot if asked, report what is now durable."""
        is_published = self._repair_and_save(publish=publish)
        files = self._commitment.take_unreported()
        if files or is_published:
            self._on_event(Committed(files=files, summary=self.summary()))

    def _repair_and_save(self, *, publish: bool) -> bool:
        """Repair after deletes if a snapshot is due, save, publish; whether one was due."""
        n_removed = self._commitment.n_removed_files
        is_due = publish and self._publication.is_outdated(self.state, n_removed_files=n_removed)
        if is_due and (self.state.n_unresolved or self.state.n_unrepaired):
            started = self._clock()
            repair = self._relations.repair_after_deletes(self.files)
            self._report_repair(repair, started)
            self._commitment.is_dirty |= repair is not None
        if self._commitment.is_dirty:
            self._save()
        if is_due:
            self._publication.publish(
                self._relations.thinned(),
                self._relations.kept_by,
                files=self.files,
                n_removed_files=n_removed,
                horizon=self._relations.shared_horizon,
                damage=self._relations.damage(),
                log_bytes=self._relations.log_bytes(self.files),
            )
            self._retain_log()
        return is_due

    def _report_repair(self, repair: Repair | None, started: float) -> None:
        """Report a repair, if there was one."""
        if repair is not None:
            seconds = self._clock() - started
            self._publication.note_repair(repair, seconds)
            self._on_event(Repaired(repair=repair, seconds=seconds))

    def _retain_log(self) -> None:
        """Remove what neither the clean checkpoint nor the newest snapshot needs of the log."""
        self._relations.compact_log()
        self._relations.retain_log(self.files, self._publication.log_versions)

    def _save(self) -> None:
        self._commitment.save(self._relations.states, self._work.nodes)
        if not self.is_between_files:
            self._relations.forget_file_start()  # what is on disk goes further

    def _undo_file(self) -> bool:
        """Undo what a bad file did; False when that meant going back to the clean checkpoint."""
        if self._relations.undo_file():
            self._commitment.position = None
            return True
        self._return_to_clean()
        return False

    def _return_to_clean(self) -> None:
        self._relations.adopt(self._commitment.return_to_clean(self._work.nodes))

    def _raise_if_stopped(self) -> None:
        if self._should_stop():
            raise Interrupted


def _quarantine(file: EdgeFile, error: BadEdges | FileNotFoundError) -> Quarantined:
    if isinstance(error, BadEdges):  # its path stands beside the reason
        reason = error.reason.replace(file.path, "the file")
        return Quarantined(file=file, reason=reason, row=error.row, value=error.value)
    return Quarantined(file=file, reason="the file is gone", row=None, value=None)
