"""Publication: snapshots of the stream, when one is due and what its description says."""

import math
from collections.abc import Callable, Mapping, Sequence

from peewit.streaming.edges.time_units import NEVER, SECOND
from peewit.streaming.settings import StreamSettings
from peewit.streaming.snapshots.checkpoints import AbsorbedFile, digest_of_files
from peewit.streaming.snapshots.provenance import LastRepair, RelationMeta, SnapshotMeta
from peewit.streaming.snapshots.store import SnapshotStore
from peewit.streaming.sparsifier.degrees import Damage
from peewit.streaming.sparsifier.merge_tree import united
from peewit.streaming.sparsifier.repair import Repair
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings, SparsifierState
from peewit.streaming.sparsifier.sparsifier import expected_epsilon
from peewit.streaming.sparsifier.strikes import n_split
from peewit.streaming.steps import Steps


class Publication:
    """Snapshots of one graph, and the provenance of the newest one.

    ``guard`` is called before every change on disk; it raises where this process may no longer
    write. ``clock`` gives monotonic seconds, ``wall_clock`` seconds since the epoch for
    ``created_at``.
    """

    newest: SnapshotMeta | None

    def __init__(
        self,
        snapshots: SnapshotStore,
        settings: StreamSettings,
        *,
        guard: Callable[[], None],
        steps: Steps,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        self._snapshots = snapshots
        self._settings = settings
        self._guard = guard
        self._steps = steps
        self._clock = clock
        self._wall_clock = wall_clock
        self._note(snapshots.newest())

    def _note(self, newest: SnapshotMeta | None) -> None:
        self.newest = newest
        self._last_repair = newest.last_repair if newest else None
        self._position: tuple[int, ...] = (0,) * 9
        if newest is not None:
            self._position = (*_moment(newest), newest.n_removed_files)
        self._n_changes = newest.edges_seen + newest.n_removals if newest else 0
        self._time = self._clock()

    @property
    def log_versions(self) -> dict[str, int]:
        """Versions of the logs that the newest snapshot was made of, by relation."""
        return self.newest.log_versions if self.newest else {}

    def note_repair(self, repair: Repair, seconds: float) -> None:
        """Record a repair in the next snapshot, if anything was sampled anew."""
        if repair.kind != "none":
            self._last_repair = LastRepair(
                kind=repair.kind,
                n_edges=repair.n_edges,
                seconds=round(seconds, 3),
                snapshot=(self.latest or 0) + 1,
            )

    @property
    def latest(self) -> int | None:
        """Number of the newest snapshot."""
        return self._snapshots.latest()

    def is_due(self, state: SparsifierState) -> bool:
        """Whether enough edges, deleted ones counted, or seconds have passed since the newest."""
        edges, seconds = self._settings.snapshot_edges, self._settings.snapshot_seconds
        n_changes = state.n_rows_seen + state.n_removals - self._n_changes
        enough_edges = edges is not None and n_changes >= edges
        enough_time = seconds is not None and self._clock() - self._time >= seconds
        return enough_edges or enough_time

    def is_outdated(self, state: SparsifierState, *, n_removed_files: int) -> bool:
        """Whether the newest snapshot lacks blocks, nodes or removals of the state.

        So it does where another epsilon or budget makes another snapshot of the same edges.
        """
        if (*_moment(state), n_removed_files) != self._position:
            return True
        settings = self._settings.sparsifier
        return self.newest is not None and self.newest.differs_from(
            epsilon=settings.epsilon, max_edges=settings.max_edges
        )

    def publish(
        self,
        states: Mapping[str, SparsifierState],
        kept_by: Mapping[str, SparsifierSettings],
        *,
        files: Sequence[AbsorbedFile],
        n_removed_files: int,
        horizon: int,
        damage: Damage | None,
        log_bytes: int | None,
    ) -> None:
        """Publish the thinned states of the relations of some files as the next snapshot.

        ``kept_by`` has what decided which edges stay, by relation; ``horizon`` is that of the
        relations without a window of their own.
        """
        self._steps.begin("publishing a snapshot")
        settings, window = self._settings.sparsifier, self._settings.window
        state = united(list(states.values()))
        epsilons = {name: expected_epsilon(each, kept_by[name]) for name, each in states.items()}
        has_window = window is not None and state.watermark != NEVER
        smallest = state.smallest_constant
        meta = SnapshotMeta(
            number=(self.latest or 0) + 1,
            node_kind=self._settings.node_kind,
            n_nodes=state.n_nodes,
            edges_seen=state.n_rows_seen,
            edges_kept=0,  # counted while they are written
            n_records=state.n_records,
            left_out=state.left_out,
            epsilon_asked=settings.epsilon,
            max_edges=settings.max_edges,
            epsilon_expected=max(epsilons.values()),
            sampling_constant=None if math.isinf(smallest) else smallest,
            max_edges_bound=math.isfinite(state.constant),
            n_resparsifications=state.n_resparsifications,
            n_failed_embeddings=state.n_failed_embeddings,
            n_blocks=state.n_blocks,
            n_files=len(files),
            seed=settings.seed,
            created_at=self._wall_clock(),
            n_deletes=state.n_deletes,
            n_removals=state.n_removals,
            n_split=sum(n_split(each) for each in states.values()),
            n_struck=state.n_struck,
            n_live=None if self._settings.deletions == "off" else state.n_live,
            n_unmatched=state.n_unmatched,
            log_version=state.log_version,
            n_repairs=state.n_repairs,
            n_rebuilds=state.n_rebuilds,
            damage=damage,
            last_repair=self._last_repair,
            log_bytes=log_bytes,
            n_expired=state.n_expired,
            n_late=state.n_late,
            watermark=state.watermark / SECOND if has_window else None,
            horizon=self._time_of(horizon) if has_window else None,
            n_erased=state.n_erased,
            n_removed_files=n_removed_files,
            files_digest=digest_of_files(files),
            relations=()
            if list(states) == [""]
            else tuple(self._relation(name, each, epsilons[name]) for name, each in states.items()),
        )
        self._note(
            self._snapshots.publish_records(
                meta,
                state.chunks,
                relations=[each.chunks for each in states.values()],
                guard=self._guard,
                on_flushed=self._steps.move_on,
            )
        )

    def _relation(self, name: str, state: SparsifierState, epsilon: float) -> RelationMeta:
        """Provenance of a relation; edges, nodes and volume are counted while they are written."""
        smallest = state.smallest_constant
        return RelationMeta(
            name=name,
            edges_seen=state.n_rows_seen,
            edges_kept=0,
            n_records=state.n_records,
            left_out=state.left_out,
            n_nodes=0,
            volume=0.0,
            epsilon_expected=epsilon,
            sampling_constant=None if math.isinf(smallest) else smallest,
            n_live=None if self._settings.deletions == "off" else state.n_live,
            log_version=state.log_version,
            n_expired=state.n_expired,
            n_late=state.n_late,
            watermark=None if state.latest == NEVER else state.latest / SECOND,
            horizon=self._time_of(state.horizon),
        )

    def _time_of(self, bucket: int) -> float | None:
        """Seconds since 1970 at which a bucket of the window begins; None of `NEVER`."""
        window = self._settings.window
        return None if window is None or bucket == NEVER else window.start(bucket) / SECOND


def _moment(of: SparsifierState | SnapshotMeta) -> tuple[int, ...]:
    """What differs between two states that each deserve a snapshot."""
    return (
        *(of.n_blocks, of.n_nodes, of.n_struck, of.log_version),
        *(of.n_expired, of.n_erased, of.n_rebuilds, of.n_deletes),
    )
