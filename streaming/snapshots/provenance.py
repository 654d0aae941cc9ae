"""Provenance of snapshots: what each was made of, and how accurate it is meant to be."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, Self

from peewit.solvers.late_modules import LateModule
from peewit.streaming.edges.node_kinds import NodeKind
from peewit.streaming.edges.time_units import SECOND
from peewit.streaming.left_out import LeftOut
from peewit.streaming.sparsifier.degrees import Damage

times: Final = LateModule("peewit.streaming.edges.times")

_LEAST_SHARE = 0.8
"""A budget that binds leaves at least this share of itself; coins make it uneven."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRepair:
    """When edges were last sampled anew: those of damaged nodes ("part"), or all."""

    kind: Literal["part", "all"]
    n_edges: int  # sampled anew
    seconds: float  # with the reading of the log
    snapshot: int  # number of the first one after it


def failed_thinnings_text(n_failed: int) -> str:
    """Warning that a graph may grow past its bound; empty where no thinning has failed."""
    if not n_failed:
        return ""
    return (
        f"resistances did not converge in {n_failed:,} thinnings, which dropped nothing: the graph "
        "may grow past its limit. Weights that differ by many powers of ten do this; cap or scale "
        "them before you ingest"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationMeta:
    """Provenance of one relation of a snapshot; what has the same name is as in `SnapshotMeta`."""

    name: str
    edges_seen: int
    edges_kept: int
    n_records: int
    left_out: LeftOut
    n_nodes: int  # with an edge
    volume: float  # twice the weight of its edges, as kept
    epsilon_expected: float
    sampling_constant: float | None
    n_live: int | None = None
    log_version: int = 0
    n_expired: int = 0
    n_late: int = 0
    watermark: float | None = None  # the latest time of its own edges
    horizon: float | None = None  # None while it keeps all

    @property
    def n_left(self) -> int:
        """Edges that were in the graph and left the window: none that was too old as it came."""
        return self.n_expired + self.n_late - self.left_out.too_old

    @property
    def n_edges(self) -> int:
        """Edges that live, where a log tells, or else that came; parallel ones count each."""
        return self.edges_seen - self.left_out.total if self.n_live is None else self.n_live


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotMeta:
    """Provenance of one snapshot.

    ``n_nodes`` are the first entries of the node index. ``epsilon_asked`` is None where edges are
    kept while they are within ``max_edges``; ``epsilon_expected`` follows from what was kept
    ((B10'), (B19)). ``watermark`` and ``horizon``, in graphs with a window, are the latest time of
    the edges and the time since which edges live of relations without a window of their own, in
    seconds since 1970. ``n_split`` counts components beyond those before, where nothing tells
    whether the graph has them.
    """

    number: int  # counts from 1 in each graph
    node_kind: NodeKind
    n_nodes: int
    edges_seen: int  # rows of all committed files, those without an edge included
    edges_kept: int  # parallel records summed
    n_records: int  # behind those edges
    left_out: LeftOut  # of these rows
    epsilon_asked: float | None
    epsilon_expected: float
    sampling_constant: float | None  # least of any record; None while every edge is kept
    max_edges_bound: bool  # whether max_edges won over epsilon, or threw edges away
    n_resparsifications: int  # of the buffer
    n_failed_embeddings: int  # resparsifications refused for want of convergence
    n_blocks: int  # absorbed, as n_files: the position in the stream
    n_files: int
    seed: int  # of coins and probes
    created_at: float  # seconds since the epoch
    n_deletes: int = 0  # rows that deleted a pair of nodes
    n_removals: int = 0  # pairs that were deleted or set
    n_struck: int = 0  # records that left as their edges were deleted
    n_split: int = 0
    n_live: int | None = None  # not deleted, not expired, no self-loops; None without a log
    n_unmatched: int = 0  # deleted pairs without an edge, by the log; again if deleted again
    log_version: int = 0  # of the log's dead rows
    n_repairs: int = 0  # of a part of the edges, after deletes
    n_rebuilds: int = 0  # of all edges, after deletes
    damage: Damage | None = None  # of nodes since their edges were sampled; None without a log
    last_repair: LastRepair | None = None
    log_bytes: int | None = None  # before it was compacted; None without a log
    n_expired: int = 0  # edges that left the window
    n_late: int = 0  # edges that came when the window was past them
    watermark: float | None = None
    horizon: float | None = None
    n_erased: int = 0  # nodes, before it was published or since
    n_removed_files: int = 0  # how often a file was retracted or replaced before
    files_digest: str | None = None  # `digest_of_files`; None in snapshots that do not say
    max_edges: int | None = None  # budget that it was made for
    relations: tuple[RelationMeta, ...] = ()  # of a graph that names some, in order

    @classmethod
    def read(cls, text: str) -> Self:
        """The provenance on a page, as `asdict` gave it."""
        values = json.loads(text)
        values["left_out"] = LeftOut(**values["left_out"])
        parts: dict[str, type[Damage | LastRepair]] = {"damage": Damage, "last_repair": LastRepair}
        for name, kind in parts.items():
            if values.get(name) is not None:
                values[name] = kind(**values[name])
        values["relations"] = tuple(
            RelationMeta(left_out=LeftOut(**each.pop("left_out")), **each)
            for each in values.get("relations", ())
        )
        return cls(**values)

    @property
    def log_versions(self) -> dict[str, int]:
        """Version of the log of each relation, by name."""
        return {each.name: each.log_version for each in self.relations} or {"": self.log_version}

    @property
    def has_log(self) -> bool:
        """Whether a log tells which edges live."""
        return self.n_live is not None

    @property
    def n_edges(self) -> int:
        """Edges that live, where a log tells, or else that came; parallel ones count each."""
        return self.edges_seen - self.left_out.total if self.n_live is None else self.n_live

    @property
    def n_merged(self) -> int | None:
        """Edges that were added to one of their pair; None where edges left uncounted."""
        is_counted = self.is_whole and (self.has_log or not self.n_erased)
        return self.n_edges - self.edges_kept if is_counted else None

    @property
    def n_deleted(self) -> int | None:
        """Edges that were deleted; None where no log tells."""
        if self.n_live is None:
            return None
        passed = self.n_expired + self.n_late
        return self.edges_seen - self.left_out.total - self.n_live - passed

    @property
    def n_gone(self) -> int:
        """Edges that were deleted, or left the window, as far as a log tells."""
        return 0 if self.n_deleted is None else self.n_deleted + self.n_expired

    @property
    def is_whole(self) -> bool:
        """Whether it holds every edge, none thrown away by a coin."""
        return self.sampling_constant is None

    def differs_from(self, *, epsilon: float | None, max_edges: int | None) -> bool:
        """Whether this epsilon or budget may make another snapshot of the same edges."""
        if (epsilon, max_edges) == (self.epsilon_asked, self.max_edges):
            return False
        fits = max_edges is None or self.edges_kept <= max_edges
        return epsilon != self.epsilon_asked or not (self.is_whole and fits)

    @property
    def _is_short(self) -> bool:
        """Whether far fewer edges are kept than its budget allows."""
        return self.max_edges is not None and self.n_records < _LEAST_SHARE * self.max_edges

    @property
    def note(self) -> str:
        """Warning where the expected spectral error is not the one asked, or is not known."""
        notes = []
        epsilon, expected = self.epsilon_asked, self.epsilon_expected
        if epsilon is None:
            if not self.is_whole:
                n_all = (
                    self.edges_seen - self.left_out.total if self.n_live is None else self.n_live
                )
                bound = "as many as max_edges allows"
                if self.max_edges is not None and self.edges_kept > self.max_edges:
                    bound = f"more than max_edges={self.max_edges:,}"
                    if self.edges_kept < self.n_nodes:
                        bound += ", as a spanning forest always stays"
                way_to_more = "with memory to spare raise max_edges, which reads them again"
                if self._is_short:
                    bound = (
                        f"fewer than max_edges={self.max_edges:,} allows: the others were "
                        "dropped when it was lower, or before edges left, and were not "
                        "read again"
                    )
                    way_to_more = "`peewit repair --rebuild` reads them again"
                notes.append(
                    f"{self.edges_kept:,} of {n_all:,} edges are kept, {bound}. Each solve "
                    "says about how many predictions hang on that; keep the input files: "
                    f"{way_to_more}"
                )
        elif expected > epsilon and self.max_edges_bound:
            notes.append(
                f"edges were dropped for max_edges: epsilon {epsilon:g} asked, {expected:.2f} "
                "expected; raise max_edges if it is set, or else have `peewit repair --rebuild` "
                "read all edges again"
                if self.max_edges is None
                else f"max_edges raised the spectral error: epsilon {epsilon:g} asked, "
                f"{expected:.2f} expected; raise max_edges for the epsilon asked"
            )
        elif expected > epsilon and self.n_struck:
            notes.append(
                f"epsilon {epsilon:g} asked, {expected:.2f} expected: edges were deleted, and what "
                "is left was sampled when they were there"
            )
        elif expected > epsilon:
            notes.append(
                f"epsilon {epsilon:g} asked, {expected:.2f} expected: some node keeps few edges; "
                "lower epsilon for a tighter graph"
            )
        if failed := failed_thinnings_text(self.n_failed_embeddings):
            notes.append(failed)
        for each in self.relations:
            if each.n_live == 0 and each.n_expired and each.watermark is not None:
                latest = times.moment(round(each.watermark * SECOND))
                notes.append(
                    f"no edge of {each.name or 'the relation without a name'} lives: the latest is "
                    f"of {latest}, which its window has passed"
                )
        if self.n_split:
            notes.append(
                f"deleted edges left {self.n_split:,} more components. The graph may not "
                "have them: edges that would join them may have been dropped"
            )
        return "; ".join(notes)


def weighed_meta(meta: SnapshotMeta, weights: Mapping[str, float]) -> SnapshotMeta:
    """Provenance of the weighed sum of relations: of those alone that have a weight."""
    if not weights:
        return meta
    used = [each for each in meta.relations if weights.get(each.name, 1.0) > 0.0]
    constants = [each.sampling_constant for each in used if each.sampling_constant is not None]
    return replace(
        meta,
        epsilon_expected=max((each.epsilon_expected for each in used), default=0.0),
        sampling_constant=min(constants, default=None),
    )
