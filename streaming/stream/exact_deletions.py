"""Exact deletions: the log of a stream, and the sparsifier repaired by it after deletes."""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from peewit.solvers.arrays import BoolArray, Int32Array
from peewit.solvers.row_ranges import Parallel
from peewit.streaming.cluster.ordered_folds import FoldExecutor, ThreadExecutor
from peewit.streaming.edges.blocks import EdgeBlock
from peewit.streaming.log.change_log import ChangeLog, LogWriter
from peewit.streaming.log.live_edges import compacted, live_blocks
from peewit.streaming.log.logged_files import LogDamaged
from peewit.streaming.passes.edge_folds import Span
from peewit.streaming.passes.log_folds import live_at, log_spans, rebuilt
from peewit.streaming.passes.resolution import Survey, resolve
from peewit.streaming.sparsifier.degrees import is_whole
from peewit.streaming.sparsifier.repair import Repair, ThrowAll, repair, resolved
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings, SparsifierState
from peewit.streaming.sparsifier.strikes import retract

MOST_DEAD: Final = 0.2
"""A file of the log of which more is dead is written anew without it."""


class ExactDeletions:
    """The log of one graph, which knows what lives.

    Parameters
    ----------
    directory : Path
        Of the log.
    replaces : bool
        Whether a further edge of a pair takes the place of the others.
    on_block : callable
        Called after every block of the log that was read; what it raises ends the work.
    cancelled : callable
        Asked between iterations of solves.
    guard : callable
        Called before every change on disk; raises where this process may not write any more.
    """

    def __init__(
        self,
        directory: Path,
        *,
        replaces: bool,
        on_block: Callable[[], None],
        cancelled: Callable[[], bool],
        guard: Callable[[], None],
    ) -> None:
        self._log = ChangeLog(directory, guard=guard)
        self._replaces = replaces
        self._on_block = on_block
        self._cancelled = cancelled
        self._worn: frozenset[str] = frozenset()

    def writing(self, digest: str) -> AbstractContextManager[LogWriter]:
        """Log a file: it is there when the context ends well."""
        return self._log.writing(digest, replaces=self._replaces)

    def settle(
        self,
        state: SparsifierState,
        settings: SparsifierSettings,
        digests: Sequence[str],
        *,
        retracted: Collection[str] = (),
        erased: Int32Array | None = None,
        everything: bool = False,
        group_blocks: int,
        n_threads: int,
        parallel: Parallel,
        cluster: FoldExecutor | None,
    ) -> tuple[SparsifierState, Repair]:
        """State that was repaired after everything that was deleted from some files.

        Parameters
        ----------
        state, settings
            Of the stream, at a file boundary; the state is let go where nobody else holds it.
        digests : sequence of str
            Files of the graph, in order.
        retracted : collection of str
            Some of them, which go.
        erased : (n_erased,) int32, optional
            Nodes whose edges go, now and for good.
        everything : bool
            Whether all edges are sampled anew though it may not be necessary.
        group_blocks : int
            Most blocks that are scored together.
        n_threads : int
            Threads that look through the log, where no cluster does.
        parallel : callable
            Runs independent tasks; the result does not depend on it.
        cluster : FoldExecutor or None
            Looks through the log, and throws all edges anew where that is due; only this changes
            the result, within the error asked.
        """
        for digest in retracted:
            state = retract(state, digest)
        found = resolve(
            self._log,
            digests,
            n_resolved=min(state.n_resolved_files, len(digests))
            if state.n_unresolved
            else len(digests),
            version=state.log_version,
            n_nodes=state.n_nodes,
            n_edges=state.n_edges,
            retracted=retracted,
            erased=None if erased is None else _mask(erased, state.n_nodes),
            survey=_due(state),
            parallel=parallel,
            executor=cluster or ThreadExecutor(n_threads),
            on_block=self._on_block,
        )
        n_live = state.n_edges - state.n_self_loops - state.n_dead - found.n_killed
        if found.n_live != n_live:
            raise LogDamaged(
                f"the log must hold the {n_live:,} edges that live, got {found.n_live:,}"
            )
        left = [digest for digest in digests if digest not in retracted]
        dead = found.dead.of(left)
        most = MOST_DEAD if erased is None else 0.0
        self._worn = frozenset(each for each in left if found.dead_share.get(each, 0.0) > most)
        version = state.log_version + 1
        self._log.publish_dead(version, dead)
        held = [
            replace(
                resolved(state, degree=found.degree, killed=found.killed),
                log_version=version,
                n_unresolved=0,
                n_resolved_files=len(left),
                n_dead=state.n_dead + found.n_killed,
                n_unmatched=state.n_unmatched + found.n_unmatched,
            )
        ]
        del state  # only `repair` has it now, and lets it go
        throw_all: ThrowAll | None = None
        spans: Sequence[Span] = ()
        if cluster is not None:
            spans = log_spans(self._log, left, dead, n_edges=found.n_live, n_nodes=held[0].n_nodes)
            throw_all = partial(
                rebuilt,
                cluster,
                spans,
                group_blocks=group_blocks,
                on_block=self._on_block,
                cancelled=self._cancelled,
                parallel=parallel,
            )

        def live(at: BoolArray | None) -> Iterable[tuple[str, EdgeBlock]]:
            if cluster is not None and at is not None:
                return live_at(cluster, spans, at, self._on_block)
            return live_blocks(
                self._log, left, dead, at=at, parallel=parallel, on_block=self._on_block
            )

        repaired, report = repair(
            held.pop(),
            settings,
            live,
            component=found.component,
            group_blocks=group_blocks,
            throw_all=throw_all,
            everything=everything,
            cancelled=self._cancelled,
            parallel=parallel,
        )
        if report.has_failed:  # the next snapshot tries again
            repaired = replace(repaired, n_unresolved=1)
        return repaired, report

    @property
    def is_worn(self) -> bool:
        """Whether there is something to `compact`."""
        return bool(self._worn)

    def compact(self, version: int, *, parallel: Parallel) -> None:
        """Write files anew of which much is dead by what was settled last, or of erased nodes.

        What lives in the version, which they are a part of from now on, is the same.
        """
        dead = compacted(
            self._log,
            self._worn,
            self._log.dead(version),
            generation=version,
            parallel=parallel,
            on_block=self._on_block,
        )
        self._log.publish_dead(version, dead)
        self._worn = frozenset()

    def n_bytes(self, digests: Collection[str], version: int) -> int:
        """Bytes of the log, see `ChangeLog.n_bytes`."""
        return self._log.n_bytes(digests, version)

    def retain(self, digests: Collection[str], version: int, *, also: Collection[int]) -> None:
        """Remove what others need, see `ChangeLog.retain`."""
        self._log.retain(digests, version, also=also)


def _due(state: SparsifierState) -> Survey:
    """What the log alone can tell.

    The records do of graphs of which every edge is kept; and where none of them left a sparsifier
    that fell apart without it, its components are those of what lives.
    """
    is_sampled = not is_whole(state)
    return Survey(degree=is_sampled, component=is_sampled and state.torn is not None)


def _mask(nodes: Int32Array, n_nodes: int) -> BoolArray:
    is_among = np.zeros(n_nodes, bool)
    is_among[nodes] = True
    return is_among
