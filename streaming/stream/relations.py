"""Relations of one stream: a sparsifier and a log for each kind of edges, over one node index.

A relation is there from the first file that has edges of it: deletes alone make none. Each throws
coins of its own, so that every non-negative combination of relations keeps the guarantee (B29). One
budget holds for all together; the nodes are those of the graph, and so is the latest time, by which
edges of each relation leave its window.
"""

from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

import pyarrow as pa

from peewit.solvers.arrays import Int32Array
from peewit.solvers.relations.relation_names import MOST_RELATIONS
from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.edges.parts import StagedFile
from peewit.streaming.edges.time_units import NEVER
from peewit.streaming.edges.windows import Window
from peewit.streaming.graph_paths import GraphPaths
from peewit.streaming.memory import HELD_BYTES, LEAST_ROOM, RECORD_BYTES, MemoryLimitTooSmall
from peewit.streaming.snapshots.checkpoints import AbsorbedFile, Checkpoint, living
from peewit.streaming.sparsifier.budget_shares import budget_shares
from peewit.streaming.sparsifier.degrees import Damage, joined_damage
from peewit.streaming.sparsifier.merge_tree import united
from peewit.streaming.sparsifier.repair import Repair
from peewit.streaming.sparsifier.settings_and_state import SparsifierSettings, SparsifierState
from peewit.streaming.sparsifier.sparsifier import buffer_cap
from peewit.streaming.stream.absorption import Absorbed, Absorption
from peewit.streaming.stream.shared_work import SharedWork

_BUDGET_ROOM: Final = 1.1
"""Room over the records to keep, for the budget that an error advises; above `LEAST_ROOM`."""

_SEED_STEP: Final = 0x9E3779B97F4A7C15
"""Between the seeds of two relations: the golden ratio of the 64-bit numbers."""


class Relations:
    """The relations of one stream, in the order in which they came; at least one.

    Built from the newest checkpoint. ``is_usable`` becomes False when work that replaces a state is
    interrupted, which loses the state.
    """

    def __init__(self, newest: Checkpoint, paths: GraphPaths, shared: SharedWork) -> None:
        self._paths = paths
        self._shared = shared
        self._is_out_of_room = False
        self._by_name: dict[str, Absorption] = {}
        self._at_file_start = self._by_name
        settings = shared.settings
        states = newest.states
        if newest.files and any(state.n_rows_seen for state in states.values()):
            has_window = any(state.watermark != NEVER for state in states.values())
            if has_window != (settings.window is not None):
                raise ValueError("window must be there from the first edge or never")
            has_log = settings.deletions == "exact"
            if any((state.runs is not None) != has_log for state in states.values()):
                raise ValueError("deletions must be exact from the first edge or never")
        self.adopt(states)

    def adopt(self, states: Mapping[str, SparsifierState]) -> None:
        """Go on from the states of a checkpoint, by the names of their relations."""
        known = list(self._by_name.values())
        self._by_name = {}
        for number, (name, state) in enumerate(states.items()):
            if number < len(known):
                known[number].state = state
                self._by_name[name] = known[number]
            else:
                self._by_name[name] = self._absorption(number, state)

    def _absorption(self, number: int, state: SparsifierState) -> Absorption:
        seed = self._shared.settings.sparsifier.seed
        return Absorption(
            state,
            self._shared,
            log=self._paths.relation_log(number),
            seed=(seed + number * _SEED_STEP) % 2**63,
            make_room=self._make_room,
        )

    def _relation(self, name: str) -> Absorption:
        """The relation of that name; a graph that has seen no edge takes the name for its only one.

        Raises BadEdges where a graph would have too many.
        """
        if name in self._by_name:
            return self._by_name[name]
        seen, number = self.state, len(self._by_name)
        if number == 1 and not seen.n_rows_seen:
            self._by_name = {name: self.only}
            return self._by_name[name]
        if number == MOST_RELATIONS:
            raise BadEdges(
                f"a graph has at most {MOST_RELATIONS} relations, and {name!r} would be one more; "
                "join some under one name",
                argument="relation",
            )
        window = self._shared.settings.window
        fresh = SparsifierState(
            n_nodes=seen.n_nodes,
            n_erased=seen.n_erased,
            watermark=seen.watermark,
            horizon=NEVER if window is None else self._horizon(window, name),
        )
        self._by_name = {**self._by_name, name: self._absorption(number, fresh)}
        return self._by_name[name]

    @property
    def only(self) -> Absorption:
        """The first relation, of a graph that has one alone."""
        return next(iter(self._by_name.values()))

    @property
    def states(self) -> dict[str, SparsifierState]:
        """State of each relation."""
        return {name: each.state for name, each in self._by_name.items()}

    @property
    def state(self) -> SparsifierState:
        """Counters and buffers of all relations together, see `united`."""
        return united(list(self.states.values()))

    @property
    def is_usable(self) -> bool:
        """Whether every state is what was absorbed."""
        return not self._is_out_of_room and all(each.is_usable for each in self._by_name.values())

    @property
    def has_log(self) -> bool:
        """Whether deletes are exact."""
        return self.only.deletions is not None

    def begin_file(self) -> None:
        """Keep the present states for `undo_file`, as long as that costs nothing."""
        self._at_file_start = self._by_name
        for each in self._by_name.values():
            each.begin_file()

    def forget_file_start(self) -> None:
        """Drop the states before the file in hand, as when more than that is on disk."""
        self._at_file_start = self._by_name
        for each in self._by_name.values():
            each.forget_file_start()

    def undo_file(self) -> bool:
        """Go back to the states before the file in hand; False where one is no longer kept."""
        before = self._at_file_start
        if not all(each.can_undo for each in before.values()):
            return False
        self._by_name = before
        for each in before.values():
            each.undo_file()
        self._shared.nodes.truncate(self.state.n_nodes)
        return True

    def groups(self, staged: StagedFile, *, next_part: int) -> Generator[Absorbed, None, None]:
        """Absorb a file from a part on; yields each group of parts once it is absorbed.

        Where deletes are exact the file is in the log of a relation once its last group is taken,
        and again where the file is gone on with.
        """
        if not staged.parts:
            yield from self.only.groups(staged, (), next_part=next_part)
        with self._shared.entities_of(staged):
            for name, grouped in groupby(staged.parts, lambda part: part.relation):
                parts = list(grouped)
                if self._has_edges(name) or self.only.adds(staged, parts):
                    relation = self._relation(name)
                    self._shared.begin_relation(name, relation.state.horizon)
                    yield from relation.groups(staged, parts, next_part=next_part)
                else:
                    yield from self.only.pass_over(staged, parts, next_part=next_part)

    def taken(self, staged: StagedFile) -> tuple[str, ...]:
        """Relations of an absorbed file, without those that it would only have deleted from."""
        return tuple(name for name in staged.relations if self._has_edges(name))

    def _has_edges(self, name: str) -> bool:
        """Whether edges of a relation have come, whatever became of them."""
        return name in self._by_name and self._by_name[name].state.n_rows_seen > 0

    def end_file(self, *, reached: int) -> None:
        """Count nodes and the latest time that a file has brought, in every relation."""
        for each in self._by_name.values():
            if reached > each.state.watermark:
                each.state = replace(each.state, watermark=reached)
            each.take_nodes()

    def _horizon(self, window: Window, name: str) -> int:
        """First bucket of a relation that lives by the latest time of the graph.

        Relations without a window of their own share one horizon, which never goes back.
        """
        horizon = window.horizon(self.state.watermark, name)
        return horizon if name in window.relations else max(horizon, self.shared_horizon)

    @property
    def shared_horizon(self) -> int:
        """First bucket that lives of the relations without a window of their own."""
        window = self._shared.settings.window
        if window is None:
            return NEVER
        shared = [
            each.state.horizon
            for name, each in self._by_name.items()
            if name not in window.relations
        ]
        return max(shared) if shared else window.horizon(self.state.watermark)

    def expire(self, files: Sequence[AbsorbedFile], window: Window, *, before: int = NEVER) -> bool:
        """Take out edges that have left the window; returns whether a horizon has moved.

        Those of buckets before ``before`` leave too, where their relation has a window. ``files``
        are the graph's, in order.
        """
        has_moved = False
        for name, each in self._by_name.items():
            horizon = self._horizon(window, name)
            if window.length_of(name) is not None:
                horizon = max(horizon, before)
            if horizon > each.state.horizon:  # it never goes back
                has_moved = True
                digests = living(files, each.state.horizon, name)
                each.expire(digests, living(files, horizon, name), horizon)
        return has_moved

    def repair_after_deletes(
        self,
        files: Sequence[AbsorbedFile],
        *,
        retracted: Collection[str] = (),
        everything: bool = False,
    ) -> Repair | None:
        """Repair the sparsifiers after deletes, where they are exact and there were some.

        ``retracted`` are digests of ``files`` that leave. With ``everything`` all edges are sampled
        anew in any case.
        """
        repairs = []
        for name, each in self._by_name.items():
            digests = living(files, each.state.horizon, name)
            gone = set(retracted).intersection(digests)
            repairs.append(
                each.repair_after_deletes(digests, retracted=gone, everything=everything)
            )
        return _joined(repairs)

    def strike_nodes(self, nodes: Int32Array, files: Sequence[AbsorbedFile]) -> Repair | None:
        """Take the edges of nodes out of every relation for good; done again, they count once."""
        ids = self._shared.nodes.external_ids()
        n_erased = ids.null_count + nodes.size - ids.take(pa.array(nodes)).null_count
        return _joined(
            [
                each.strike_nodes(nodes, living(files, each.state.horizon, name), n_erased=n_erased)
                for name, each in self._by_name.items()
            ]
        )

    def begin_again(self) -> None:
        """Drop all records: the files are to come again, to the same nodes."""
        for each in self._by_name.values():
            each.begin_again()

    def end_again(self) -> None:
        """Count that all files have come again."""
        for each in self._by_name.values():
            each.end_again()

    def lift_bound(self) -> bool:
        """Forget the sampling constants that a budget set, of states that hold every edge.

        Returns whether there was one.
        """
        lifted = [each.lift_bound() for each in self._by_name.values()]
        return any(lifted)

    def compact_log(self) -> None:
        """Rewrite the parts of the logs of which much is dead, if there are any."""
        for each in self._by_name.values():
            each.compact_log()

    def retain_log(self, files: Sequence[AbsorbedFile], published: Mapping[str, int]) -> None:
        """Remove what neither ``files`` nor the newest snapshot needs of the logs.

        ``published`` are the versions that the snapshot was made of, by relation.
        """
        for name, each in self._by_name.items():
            if each.deletions is not None:
                digests = living(files, each.state.horizon, name)
                also = [published.get(name, 0)]
                each.deletions.retain(digests, each.state.log_version, also=also)

    def log_bytes(self, files: Sequence[AbsorbedFile]) -> int | None:
        """Bytes of all logs; None where there are none."""
        if not self.has_log:
            return None
        return sum(
            each.deletions.n_bytes(living(files, each.state.horizon, name), each.state.log_version)
            for name, each in self._by_name.items()
            if each.deletions is not None
        )

    def take_nodes(self) -> None:
        """Count the nodes that the index has now."""
        for each in self._by_name.values():
            each.take_nodes()

    def thinned(self) -> dict[str, SparsifierState]:
        """States to publish, by relation; the present ones stay as they are."""
        self._share_budget()
        return {name: each.thinned() for name, each in self._by_name.items()}

    @property
    def kept_by(self) -> dict[str, SparsifierSettings]:
        """What decides which edges stay, by relation, with its share of the budget."""
        return {name: each.kept_by for name, each in self._by_name.items()}

    def damage(self) -> Damage | None:
        """Damage of all relations together, each node counted in each; None without a log."""
        if not self.has_log:
            return None
        return joined_damage([each.state for each in self._by_name.values()])

    @property
    def is_full(self) -> bool:
        """Whether the next group begins with a resparsification, which may take long.

        Of several relations one is thinned at a time, and only its records need what a thinning
        takes on top. So without an epsilon the buffers of all may hold more than that of a single
        relation in the same memory, and fewer resparsifications are needed.
        """
        if len(self._by_name) == 1:
            return self.only.is_full
        settings = self._shared.settings.keeping
        sizes = [each.state.n_records for each in self._by_name.values()]
        if settings.buffer_edges is not None and sum(sizes) > settings.buffer_edges:
            return True
        if settings.epsilon is not None:
            return any(each.is_full for each in self._by_name.values())
        needed = HELD_BYTES * sum(sizes) + (RECORD_BYTES - HELD_BYTES) * max(sizes)
        return needed > RECORD_BYTES * buffer_cap(self.state, settings)

    def _make_room(self) -> float | None:
        """Resparsify if the buffers are full; the seconds it took, None where there was room.

        Those relations first that have most beyond their shares, and no more than need be: each
        takes a walk over all of its nodes, however few of its records it drops.
        """
        if not self.is_full:
            return None
        started = self._shared.clock()
        shares = self._share_budget()
        waiting = list(self._by_name.values())
        while waiting and self.is_full:
            largest = max(
                waiting, key=lambda each: (each.is_full, each.state.n_records - shares.get(each, 0))
            )
            waiting.remove(largest)
            largest.resparsify()
        self._require_room()
        return self._shared.clock() - started

    def _share_budget(self) -> dict[Absorption, int]:
        """Share the budget of edges among relations; the shares, none where one has it all."""
        budget = self._shared.settings.sparsifier.max_edges
        relations = list(self._by_name.values())
        if budget is None or len(relations) == 1:
            return {}
        shares = budget_shares([each.state for each in relations], budget)
        for each, share in zip(relations, shares, strict=True):
            each.share_budget(share)
        return dict(zip(relations, shares, strict=True))

    def _require_room(self) -> None:
        """Raise MemoryLimitTooSmall where what must be kept fills the buffer."""
        settings = self._shared.settings
        cap, n_records = settings.sparsifier.buffer_edges, self.state.n_records
        if cap is None or LEAST_ROOM * n_records <= cap:
            return
        self._is_out_of_room = True
        if settings.sparsifier.epsilon is None:
            most = int(cap / (_BUDGET_ROOM * settings.keeping.room))
            way_out = f"raise it, or set max_edges to {most:,} or less"
        else:
            way_out = "raise it, raise epsilon, or set a lower max_edges"
        raise MemoryLimitTooSmall(
            f"memory_limit leaves room for {cap:,} edges in the buffer, where "
            f"{n_records:,} must be kept; {way_out}"
        )


def _joined(repairs: Sequence[Repair | None]) -> Repair | None:
    """What was done to several relations as one repair; None where there was none."""
    done = [each for each in repairs if each is not None]
    if len(done) < 2:
        return done[0] if done else None
    kinds = {each.kind for each in done}
    return Repair(
        kind=next(kind for kind in ("all", "part", "none") if kind in kinds),
        n_damaged=sum(each.n_damaged for each in done),
        n_edges=sum(each.n_edges for each in done),
        has_failed=any(each.has_failed for each in done),
    )
