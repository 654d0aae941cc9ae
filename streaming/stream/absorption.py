"""Absorption: parts of a staged file become records of a relation and nodes of the index.

Holds what one relation has in memory: its sparsifier, its log, and the state to which a bad file
goes back. The only file written here is the log, where deletes are exact; `commitment` and
`publication` write the others. What all relations share is in `shared_work`.
"""

import math
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from peewit.solvers.arrays import Int32Array
from peewit.streaming.cluster.sparsified_shares import ShareSettings
from peewit.streaming.edges.blocks import BadEdges, EdgeBlock, RawBlock
from peewit.streaming.edges.operations import DELETE, DELETIONS_OFF, INSERT
from peewit.streaming.edges.parts import Part, StagedFile
from peewit.streaming.edges.reader import read_parts
from peewit.streaming.log.change_log import NO_NODES, LogWriter
from peewit.streaming.nodes.index import DenseNodes
from peewit.streaming.settings import StreamSettings
from peewit.streaming.sparsifier.repair import Repair
from peewit.streaming.sparsifier.runs import EMPTY_RUNS
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings, SparsifierState
from peewit.streaming.sparsifier.sparsifier import absorb, is_full, resparsify, thinned
from peewit.streaming.sparsifier.strikes import strike, strike_nodes
from peewit.streaming.stream.changes import Changes, n_pairs
from peewit.streaming.stream.exact_deletions import ExactDeletions
from peewit.streaming.stream.shared_work import SharedWork

if TYPE_CHECKING:
    from peewit.streaming.cluster.dask_ingest import Cluster

Absorbed: TypeAlias = tuple[Sequence[Part], float | None]
"""Parts of a group, and the seconds of the resparsification before it, if there was one."""


class Absorption:
    """State of one relation of a stream in memory, and the work that takes edges into it.

    ``log`` is the directory of its log, ``seed`` that of its coins. ``make_room`` is called before
    each group; it returns the seconds that it took, None where there was room. ``deletions`` is the
    log, None unless deletes are exact. ``is_usable`` becomes False when a resparsification or a
    repair is interrupted, which loses the state.
    """

    state: SparsifierState
    _file_start: SparsifierState | None = None
    """State at the start of the file in hand, while going back to it costs nothing."""

    def __init__(
        self,
        state: SparsifierState,
        shared: SharedWork,
        *,
        log: Path,
        seed: int,
        make_room: Callable[[], float | None],
    ) -> None:
        self._shared = shared
        self._seed = seed
        self._most_edges: int | None = None
        self._make_room = make_room
        self._steps = shared.steps
        self._raise_if_stopped = shared.raise_if_stopped
        self._is_cancelled = shared.is_cancelled
        self._note_progress = shared.note_progress
        self.state = state
        self.is_usable = True
        self.deletions: ExactDeletions | None = None
        settings = shared.settings
        if settings.deletions == "exact":
            if self.state.runs is None:
                self.state = replace(self.state, runs=EMPTY_RUNS)
            self.deletions = ExactDeletions(
                log,
                replaces=settings.parallel_edges == "replace",
                has_buckets=settings.window is not None,
                on_block=self._note_progress,
                cancelled=self._is_cancelled,
                guard=shared.guard,
            )
        self._log: LogWriter | None = None
        self._cluster: Cluster | None = None

    def share_budget(self, most_edges: int | None) -> None:
        """Keep at most so many edges from now on, as other relations take their part."""
        self._most_edges = most_edges

    @property
    def kept_by(self) -> SparsifierSettings:
        """What decides which edges stay."""
        return self._settings.sparsifier

    @property
    def _settings(self) -> StreamSettings:
        settings = self._shared.settings
        if self._most_edges is None and self._seed == settings.sparsifier.seed:
            return settings
        most = settings.sparsifier.max_edges if self._most_edges is None else self._most_edges
        sparsifier = replace(settings.sparsifier, seed=self._seed, max_edges=most)
        return replace(settings, sparsifier=sparsifier)

    @property
    def is_full(self) -> bool:
        """Whether the next group begins with a resparsification, which may take long."""
        return is_full(self.state, self._settings.keeping)

    def begin_file(self) -> None:
        """Keep the present state for `undo_file`, as long as that costs nothing."""
        self._file_start = self.state

    def expire(self, digests: Sequence[str], remaining: Sequence[str], horizon: int) -> None:
        """Take out the edges of buckets before a horizon.

        ``digests`` are the files of which edges lived, ``remaining`` those of which some still may.
        """
        if self.deletions is None:
            raise RuntimeError("edges expire by the log, which a graph with a window has")
        self._steps.begin("expiring edges")
        self._file_start = None
        self.state = self.deletions.expire(
            self.state,
            digests,
            horizon=horizon,
            remaining=remaining,
            parallel=self._shared.parallel,
        )

    def groups(
        self, staged: StagedFile, parts: Sequence[Part], *, next_part: int
    ) -> Generator[Absorbed, None, None]:
        """Absorb some parts of a file, those from ``next_part`` on; yields each group once it is.

        Where deletes are exact they are in the log once the last group is taken.
        """
        new = [part for part in parts if part.number >= next_part]
        if self.deletions is None:
            yield from self._absorb_parts(staged, new)
            return
        with self.deletions.writing(staged.digest) as log:
            if self._is_for_cluster(staged):  # workers read it, which have no log
                yield from self._absorb_parts(staged, new)
                self._log_again(log, staged, parts)
                return
            self._log_again(log, staged, [part for part in parts if part.number < next_part])
            self._log = log
            try:
                yield from self._absorb_parts(staged, new)
            finally:
                self._log = None

    def adds(self, staged: StagedFile, parts: Sequence[Part]) -> bool:
        """Whether parts hold an edge; those that do not delete are not looked at."""
        if self.deletions is None or staged.columns.op is None:
            return True
        with closing(self._reading(staged, parts)) as blocks:
            return any(raw.op is None or bool((raw.op != DELETE).any()) for raw in blocks)

    def pass_over(
        self, staged: StagedFile, parts: Sequence[Part], *, next_part: int
    ) -> Generator[Absorbed, None, None]:
        """Count parts that delete from a relation without edges; yields as `groups`."""
        new = [part for part in parts if part.number >= next_part]
        with closing(self._reading(staged, new)) as blocks:
            for part, raw in zip(new, blocks, strict=True):
                self._raise_if_stopped()
                self.state = replace(
                    self.state,
                    n_deletes=self.state.n_deletes + raw.n_rows,
                    n_unmatched=self.state.n_unmatched + n_pairs(raw.src, raw.dst),
                )
                yield [part], None

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
            parallel=self._shared.parallel,
            cluster=cluster,
        )
        self._raise_if_stopped()
        self.is_usable = True
        return report

    def begin_again(self) -> None:
        """Drop all records: the files are to come again, to the same nodes."""
        self._n_rebuilds = self.state.n_rebuilds
        self._file_start = None
        self.state = SparsifierState(n_nodes=self.state.n_nodes)

    def end_again(self) -> None:
        """Count that all files have come again."""
        self.take_nodes()
        self.state = replace(self.state, n_rebuilds=self._n_rebuilds + 1)

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
            self.deletions.compact(self.state.log_version, parallel=self._shared.parallel)

    def strike_nodes(
        self, nodes: Int32Array, digests: Sequence[str], *, n_erased: int
    ) -> Repair | None:
        """Take the edges of nodes out for good; done again, they count once.

        Where deletes are exact they also leave the log, in all files ``digests``. ``n_erased``
        nodes are erased then.
        """
        state = strike_nodes(self.state, nodes, parallel=self._shared.parallel)
        self.state = replace(state, n_erased=n_erased)
        return self.repair_after_deletes(digests, erased=nodes)

    def take_nodes(self) -> None:
        """Count the nodes that the index has now."""
        n_nodes = self._shared.nodes.n_nodes
        self.state = replace(self.state, n_nodes=n_nodes)
        self._shared.plan_memory(n_nodes)

    def thinned(self) -> SparsifierState:
        """State to publish; the present one stays as it is."""
        self._steps.begin("thinning")
        state = thinned(
            self.state,
            self._settings.sparsifier,
            cancelled=self._is_cancelled,
            parallel=self._shared.parallel,
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
        return True

    @property
    def can_undo(self) -> bool:
        """Whether `undo_file` would go back."""
        return self._file_start is not None

    def _absorb_parts(
        self, staged: StagedFile, parts: Sequence[Part]
    ) -> Generator[Absorbed, None, None]:
        if parts and self._is_for_cluster(staged):
            return self._absorb_on_cluster(staged, next_part=parts[0].number)
        return self._absorb_here(staged, parts)

    def _is_for_cluster(self, staged: StagedFile) -> bool:
        if self._settings.scheduler is None or self._needs_order(staged):
            return False
        return len(staged.relations) == 1  # shares are cut from the whole file

    def _log_again(self, log: LogWriter, staged: StagedFile, parts: Sequence[Part]) -> None:
        """Log parts that are absorbed already: all of their nodes are known."""
        with closing(self._reading(staged, parts)) as blocks:
            for raw in blocks:
                self._note_progress()
                u = v = NO_NODES
                if self._is_changing(raw):
                    changes = self._changes_of(raw)
                    added, u, v = changes.added, changes.u, changes.v
                else:
                    added = self._shared.nodes.map_block(raw)
                edges = [added]
                if self._shared.replayed is not None:
                    self._shared.replayed, edges = self._shared.replayed.take(added, raw)
                log.append_all(edges, u, v)

    def _reading(
        self, staged: StagedFile, parts: Sequence[Part], *, knows_src: bool = False
    ) -> Generator[RawBlock, None, None]:
        return read_parts(
            [(staged, part) for part in parts],
            node_kind=self._settings.node_kind,
            max_nodes=self._settings.max_nodes,
            n_threads=self._settings.n_readers,
            knows_src=knows_src,
        )

    def _absorb_here(
        self, staged: StagedFile, parts: Sequence[Part]
    ) -> Generator[Absorbed, None, None]:
        entities = self._shared.entities
        knows_src = entities is not None and entities.are_known
        with closing(self._reading(staged, parts, knows_src=knows_src)) as blocks:
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
                self._shared.nodes,
                staged,
                wave,
                cancelled=self._is_cancelled,
                parallel=self._shared.parallel,
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
            self._cluster = self._shared.connections.enter_context(
                Cluster(
                    self._settings.scheduler or "",
                    settings,
                    wave_shares=self._settings.wave_shares,
                    raise_if_stopped=self._note_progress,
                )
            )
            self._shared.connections.callback(self._forget_cluster)
        return self._cluster

    def _forget_cluster(self) -> None:
        self._cluster = None

    def _map_blocks(self, raw_blocks: Iterable[RawBlock]) -> Iterator[EdgeBlock]:
        entities = self._shared.entities
        map_block = self._shared.nodes.map_block if entities is None else entities.map_block
        for raw in raw_blocks:
            self._steps.move_on()
            edges = self._split_by_bucket(map_block(raw), raw)
            if self._log is not None:
                self._log.append_all(edges, NO_NODES, NO_NODES)
            yield from edges

    def _split_by_bucket(self, block: EdgeBlock, raw: RawBlock) -> list[EdgeBlock]:
        """Edges of a block that live, one block per bucket, where the graph has a window."""
        if self._shared.window_check is None:
            return [block]
        self._shared.window_check, edges = self._shared.window_check.take(block, raw)
        return edges

    def _count_passed(self) -> None:
        """Count what the window has seen and let pass since the last time."""
        passed = self._shared.take_passed()
        if passed is not None:
            self.state = replace(
                self.state,
                n_dead=self.state.n_dead + passed.n_late + passed.n_expired,
                n_late=self.state.n_late + passed.n_late,
                n_expired=self.state.n_expired + passed.n_expired,
                latest=max(self.state.latest, passed.latest),
            )

    def _needs_order(self, staged: StagedFile) -> bool:
        """Whether workers cannot absorb it: order matters, or rows may name erased numbers."""
        if self._settings.window is not None:
            return True
        has_changes = staged.columns.op is not None or self._settings.parallel_edges == "replace"
        return has_changes or (
            isinstance(self._shared.nodes, DenseNodes) and self._shared.nodes.erased.size > 0
        )

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
        return Changes.of(
            raw, self._shared.nodes, replaces=self._settings.parallel_edges == "replace"
        )

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
            strike(self.state, changes.u, changes.v, parallel=self._shared.parallel),
            n_deletes=self.state.n_deletes + changes.n_deletes,
            n_unmatched=self.state.n_unmatched + changes.n_unknown,
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
            parallel=self._shared.parallel,
        )
        self._count_passed()
        self.take_nodes()

    def resparsify(self) -> None:
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
            parallel=self._shared.parallel,
        )
        self._raise_if_stopped()
        self.is_usable = True


def _groups(parts: Sequence[Part], size: int) -> Iterator[Sequence[Part]]:
    """Consecutive groups of at most ``size`` parts of one file."""
    for start in range(0, len(parts), size):
        yield parts[start : start + size]
