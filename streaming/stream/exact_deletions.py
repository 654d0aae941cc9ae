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
from peewit.streaming.passes.expiry import expired_edges
from peewit.streaming.passes.log_folds import live_at, log_spans, rebuilt
from peewit.streaming.passes.resolution import Survey, resolve
from peewit.streaming.sparsifier.degrees import is_whole
from peewit.streaming.sparsifier.repair import Repair, ThrowAll, repair, resolved
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings, SparsifierState
from peewit.streaming.sparsifier.strikes import expire, retract

_ROUNDING: Final = 2.0**-40
"""Of a sum of weights, what rounding may leave where nothing is left."""

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
    has_buckets : bool
        Whether the graph has a window.
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
        has_buckets: bool,
        on_block: Callable[[], None],
        cancelled: Callable[[], bool],
        guard: Callable[[], None],
    ) -> None:
        self._log = ChangeLog(directory, guard=guard)
        self._replaces = replaces
        self._has_buckets = has_buckets
        self._on_block = on_block
        self._cancelled = cancelled
        self._worn: frozenset[str] = frozenset()

    def writing(self, digest: str) -> AbstractContextManager[LogWriter]:
        """Log a file: it is there when the context ends well."""
        return self._log.writing(digest, replaces=self._replaces, has_buckets=self._has_buckets)

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
        left = [digest for digest in digests if digest not in retracted]
        if state.n_unresolved or retracted or erased is not None or state.torn is not None:
            state, component = self._resolved(
                state,
                digests,
                retracted=retracted,
                erased=erased,
                parallel=parallel,
                executor=cluster or ThreadExecutor(n_threads),
            )
        else:  # what left the window is known, and the records tell the components
            component = None
        held = [replace(state, n_unrepaired=0)]
        del state  # only `repair` has it now, and lets it go
        dead = self._log.dead(held[0].log_version).of(left)
        throw_all: ThrowAll | None = None
        spans: Sequence[Span] = ()
        if cluster is not None:
            n_live = held[0].n_edges - held[0].n_self_loops - held[0].n_dead
            spans = log_spans(self._log, left, dead, n_edges=n_live, n_nodes=held[0].n_nodes)
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
            component=component,
            group_blocks=group_blocks,
            throw_all=throw_all,
            everything=everything,
            cancelled=self._cancelled,
            parallel=parallel,
        )
        if report.has_failed:  # the next snapshot tries again
            repaired = replace(repaired, n_unresolved=1)
        return repaired, report

    def expire(
        self,
        state: SparsifierState,
        digests: Sequence[str],
        *,
        horizon: int,
        remaining: Sequence[str],
        parallel: Parallel,
    ) -> SparsifierState:
        """State without the edges of buckets before the horizon; to be settled before a snapshot.

        Parameters
        ----------
        state : SparsifierState
            Of the stream, at a file boundary.
        digests : sequence of str
            Files of the graph of which edges may live, in order.
        horizon : int
            The first bucket that stays.
        remaining : sequence of str
            Those of the files of which edges may live then.
        parallel : callable
            Runs independent tasks; the result does not depend on it.
        """
        if state.n_unresolved:  # what a delete found must not be counted twice
            executor = ThreadExecutor(1)
            state, _ = self._resolved(state, digests, parallel=parallel, executor=executor)
        dead = self._log.dead(state.log_version)
        found = expired_edges(
            self._log,
            digests,
            dead,
            horizon=horizon,
            n_nodes=state.n_nodes,
            parallel=parallel,
            on_block=self._on_block,
        )
        degree, is_isolated = state.degree, None
        if degree is not None:
            left = np.zeros(state.n_nodes)
            left[: degree.size] = degree
            left -= found.degree
            # sums round: what is left of a node that lost everything is less than any weight
            left[left <= _ROUNDING * found.degree] = 0.0
            degree, is_isolated = left, left == 0.0
            is_isolated = is_isolated if is_isolated.any() else None
        version = state.log_version + 1
        self._log.publish_dead(version, dead.of(remaining).since(horizon))
        self._worn &= frozenset(remaining)  # the others go as a whole
        return replace(
            resolved(expire(state, horizon, is_isolated), degree=degree, killed=found.degree),
            horizon=horizon,
            log_version=version,
            n_resolved_files=len(remaining),
            n_dead=state.n_dead + found.n_edges,
            n_expired=state.n_expired + found.n_edges,
            n_unrepaired=state.n_unrepaired + 1,
        )

    def _resolved(
        self,
        state: SparsifierState,
        digests: Sequence[str],
        *,
        retracted: Collection[str] = (),
        erased: Int32Array | None = None,
        parallel: Parallel,
        executor: FoldExecutor,
    ) -> tuple[SparsifierState, Int32Array | None]:
        """State that knows what lives of all that was deleted; components, where they are needed.

        From now on that is the next version of the log.
        """
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
            executor=executor,
            on_block=self._on_block,
        )
        n_live = state.n_edges - state.n_self_loops - state.n_dead - found.n_killed
        if found.n_live != n_live:
            raise LogDamaged(
                f"the log must hold the {n_live:,} edges that live, got {found.n_live:,}"
            )
        left = [digest for digest in digests if digest not in retracted]
        most = MOST_DEAD if erased is None else 0.0
        self._worn = frozenset(each for each in left if found.dead_share.get(each, 0.0) > most)
        version = state.log_version + 1
        self._log.publish_dead(version, found.dead.of(left))
        state = replace(
            resolved(state, degree=found.degree, killed=found.killed),
            log_version=version,
            n_unresolved=0,
            n_resolved_files=len(left),
            n_dead=state.n_dead + found.n_killed,
            n_unmatched=state.n_unmatched + found.n_unmatched,
        )
        return state, found.component

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
