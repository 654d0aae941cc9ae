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
from peewit.streaming.passes.delete_matching import Survey, match_deletes
from peewit.streaming.passes.edge_folds import Span
from peewit.streaming.passes.expiry import expired_edges
from peewit.streaming.passes.log_folds import live_at, log_spans, rebuilt
from peewit.streaming.sparsifier.degrees import is_whole
from peewit.streaming.sparsifier.repair import Repair, ThrowAll, repair, resolved
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings, SparsifierState
from peewit.streaming.sparsifier.strikes import expire, retract

_ROUNDING: Final = 2.0**-40
"""Share of a sum of weights that rounding may leave where nothing is left."""

MOST_DEAD: Final = 0.2
"""A file of the log is rewritten when a larger share of it is dead."""


class ExactDeletions:
    """The log of one graph, which knows what lives.

    ``replaces``: a further edge of a pair replaces the others. ``has_buckets``: the graph has a
    window. ``on_block`` is called after every block of the log that was read; what it raises ends
    the work. ``guard`` is called before every change on disk; it raises where this process may no
    longer write.
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
        """Log a file; it is published when the context ends without an exception."""
        return self._log.writing(digest, replaces=self._replaces, has_buckets=self._has_buckets)

    def repair_after_deletes(
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
        """State repaired after everything that was deleted from some files.

        ``state`` is at a file boundary, and released where nobody else holds it. ``digests`` are
        the graph's files in order, ``retracted`` those of them that leave, ``erased`` the nodes
        whose edges leave now and for good. With ``everything`` all edges are sampled anew, needed
        or not. A ``cluster`` changes the result, within the error asked, where it throws all edges
        anew; threads do not.
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
            spans = log_spans(
                self._log, left, dead, n_edges=held[0].n_live, n_nodes=held[0].n_nodes
            )
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
        """State without the edges of buckets before the horizon; to be repaired before a snapshot.

        ``state`` is at a file boundary. ``digests`` are the files of which edges may live, in
        order; ``remaining`` those of which edges may still live with the new ``horizon``, the first
        bucket that stays. The result does not depend on ``parallel``.
        """
        if state.n_unresolved:  # what a delete found must not be counted twice
            executor = ThreadExecutor(1)
            state, _ = self._resolved(state, digests, parallel=parallel, executor=executor)
        dead = self._log.dead(state.log_version)
        expired = expired_edges(
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
            left -= expired.degree
            # sums round: what is left of a node that lost everything is less than any weight
            left[left <= _ROUNDING * expired.degree] = 0.0
            degree, is_isolated = left, left == 0.0
            is_isolated = is_isolated if is_isolated.any() else None
        version = state.log_version + 1
        self._log.publish_dead(version, dead.of(remaining).since(horizon))
        self._worn &= frozenset(remaining)  # the others go as a whole
        return replace(
            resolved(expire(state, horizon, is_isolated), degree=degree, killed=expired.degree),
            horizon=horizon,
            log_version=version,
            n_resolved_files=len(remaining),
            n_dead=state.n_dead + expired.n_edges,
            n_expired=state.n_expired + expired.n_edges,
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
        """State after all deletes, by the log's next version; and components, where needed."""
        matched = match_deletes(
            self._log,
            digests,
            n_resolved=min(state.n_resolved_files, len(digests))
            if state.n_unresolved
            else len(digests),
            version=state.log_version,
            n_nodes=state.n_nodes,
            n_edges=state.n_rows_seen,
            retracted=retracted,
            erased=None if erased is None else _mask(erased, state.n_nodes),
            survey=_due(state),
            parallel=parallel,
            executor=executor,
            on_block=self._on_block,
        )
        n_live = state.n_live - matched.n_killed
        if matched.n_live != n_live:
            raise LogDamaged(
                f"the log must hold the {n_live:,} edges that live, got {matched.n_live:,}"
            )
        left = [digest for digest in digests if digest not in retracted]
        most = MOST_DEAD if erased is None else 0.0
        self._worn = frozenset(file for file in left if matched.dead_share.get(file, 0.0) > most)
        version = state.log_version + 1
        self._log.publish_dead(version, matched.dead.of(left))
        state = replace(
            resolved(state, degree=matched.degree, killed=matched.killed),
            log_version=version,
            n_unresolved=0,
            n_resolved_files=len(left),
            n_dead=state.n_dead + matched.n_killed,
            n_unmatched=state.n_unmatched + matched.n_unmatched,
        )
        return state, matched.component

    @property
    def is_worn(self) -> bool:
        """Whether there is something to `compact`."""
        return bool(self._worn)

    def compact(self, version: int, *, parallel: Parallel) -> None:
        """Rewrite files of which much is dead by the last repair, or that hold erased nodes.

        What lives in ``version``, which they belong to from now on, is the same.
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
        """Remove other files and versions, see `ChangeLog.retain`."""
        self._log.retain(digests, version, also=also)


def _due(state: SparsifierState) -> Survey:
    """What only the log can compute.

    The records have both where every edge is kept. Components are known where no edge has left a
    sparsifier that fell apart without it (``torn`` is None).
    """
    is_sampled = not is_whole(state)
    return Survey(degree=is_sampled, component=is_sampled and state.torn is not None)


def _mask(nodes: Int32Array, n_nodes: int) -> BoolArray:
    is_among = np.zeros(n_nodes, bool)
    is_among[nodes] = True
    return is_among
