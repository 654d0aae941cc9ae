"""Graphs, their settings, snapshots and certificates."""

from dataclasses import field, replace
from datetime import datetime
from typing import Any, Literal, Self

from peewit.service.wire.features import Features
from peewit.service.wire.records import Ongoing, described, record
from peewit.service.wire.sources_and_pushes import FileStatus
from peewit.solvers.notebook_html import shown
from peewit.streaming.left_out import LeftOut

NodeKind = Literal["string", "int64", "dense", "typed"]


def edges_text(
    *,
    n_nodes: int,
    n_edges: int,
    n_kept: int,
    expected: float | None,
    n_live: int | None = None,
    asked: float | None = None,
    max_edges: int | None = None,
    n_relations: int = 0,
) -> str:
    """What is kept of a graph's edges, in words.

    ``n_edges`` are edges that came, ``n_live`` those that are still there if some may have left,
    ``n_kept`` those of the newest snapshot; self-loops are not counted. ``expected`` and ``asked``
    are spectral errors; 0 is expected if every edge is kept. ``max_edges`` is the budget. A pair
    counts once in several relations.
    """
    if expected is None:
        return "none yet" if max_edges is None else f"none yet, at most {max_edges:,} kept"
    if n_live is not None:
        n_edges = n_live
    if expected == 0.0:
        text = f"all {n_kept:,} edges kept"
        if n_edges != n_kept:
            over = ", counted once over all relations" if n_relations > 1 else ""
            text = f"{n_edges:,} rows, {n_kept:,} different pairs{over}, all kept"
        return text
    bound = ""
    if max_edges is not None:
        rule = ", whatever comes"
        if n_kept > max_edges:  # if these are no forest, the budget was lowered since
            rule = " from the next snapshot on"
            if n_kept < n_nodes:
                rule = ", but for a spanning forest, which always stays"
        bound = f"at most {max_edges:,}{rule}; "
    return f"{n_kept:,} of {n_edges:,} edges kept ({bound}{epsilon_text(asked, expected)})"


def epsilon_text(asked: float | None, expected: float | None) -> str:
    """The spectral error that is asked and the one to expect, in words."""
    if expected == 0.0:
        return "every edge is kept"
    text = "no error is known yet" if expected is None else f"epsilon {expected:.2f} expected"
    if expected is not None and expected >= 1.0:
        text = "so few that no spectral error is promised"
    return text if asked is None else f"{text}, {asked:g} asked"


@record
class Settings:
    """Settings of a graph, as described where one is created."""

    node_ids: NodeKind
    epsilon: float | None
    max_edges: int | None
    expected_nodes: int
    max_nodes: int
    seed: int
    keep_raw: bool
    deletions: Literal["off", "exact"]
    parallel: Literal["sum", "replace"]
    window: dict[str, Any] | None = described(
        "Length, width of a bucket and allowed_ahead in seconds, by, time_unit, and the lengths of "
        "relations that have their own, null for ever."
    )
    snapshot_every: dict[str, Any] | None
    auto_solve: dict[str, Any] | None
    answers: tuple[str, ...] = ()
    directed: tuple[str, ...] = ()
    columns: dict[str, str] = field(default_factory=dict)


@record
class Graph:
    """A graph: settings, and what is in it as of the last committed file."""

    name: str
    id: str
    settings: Settings
    nodes: int
    edges_seen: int = described("Rows of committed files.")
    edges_kept: int
    left_out: LeftOut = described("How many of these rows made no edge, by reason.")
    n_live: int | None = described(
        "Edges that live as of the newest snapshot, self-loops not counted; null where deletions "
        "are off, and before the first snapshot."
    )
    epsilon_asked: float | None = described("Null where every edge is kept within max_edges.")
    epsilon_expected: float | None = described(
        "That of the newest snapshot; 0 where it has all edges."
    )
    snapshot: int | None = described("Number of the newest.")
    n_failed_embeddings: int = described(
        "Thinnings up to it that dropped nothing, as resistances did not converge."
    )
    labels_seq: int = described("Number of the last label event.")
    features_version: int
    created_at: datetime

    @property
    def edges_text(self) -> str:
        """What is kept of the edges, in words."""
        return edges_text(
            n_nodes=self.nodes,
            n_edges=self.edges_seen - self.left_out.total,
            n_kept=self.edges_kept,
            n_live=self.n_live,
            expected=self.epsilon_expected,
            asked=self.epsilon_asked,
            max_edges=self.settings.max_edges,
        )

    def _repr_html_(self) -> str:
        """What a notebook shows of it."""
        facts = {
            "nodes": self.nodes,
            "edges": self.edges_text,
            "snapshot": self.snapshot,
            "labels_seq": self.labels_seq,
        }
        return shown(f"Graph {self.name}", facts)


@record
class Backlog:
    """What waits to be ingested."""

    n_files: int
    n_bytes: int
    pushed_bytes: int


@record
class Certificate:
    """The measured spectral error of a snapshot, from the extreme eigenvalues of L_H^+ L_G."""

    snapshot: int
    status: str = described("Converged, max-passes, inexact or components-differ.")
    epsilon_certified: float | None = described(
        "Holds with the probability given; null where nothing can be certified."
    )
    epsilon_least: float | None = described("No smaller epsilon holds.")
    ritz_min: float | None = described("Inside the spectrum, as ritz_max.")
    ritz_max: float | None
    residual_min: float | None
    residual_max: float | None
    outer_min: float | None = described("Outside the spectrum, as outer_max.")
    outer_max: float | None
    probability: float
    n_edges: int = described("Raw edges.")
    n_passes: int
    seconds: float
    created_at: datetime


@record
class Damage:
    """What nodes have lost since their edges were sampled, of those with edges that live."""

    n_nodes: int = described("Nodes that have lost more than a hundredth of their weight.")
    weight_share: float = described("Part of the live weight that is at them.")
    largest: float = described("The largest part that any node has lost.")


@record
class LastRepair:
    """When edges were last sampled anew."""

    kind: Literal["part", "all"] = described("Edges of damaged nodes, or all.")
    n_edges: int = described("Edges that were sampled anew.")
    seconds: float = described("How long it took, with the reading of the log.")
    snapshot: int = described("Number of the first snapshot after it.")


@record
class RepairState(Ongoing):
    """The repair that a graph waits for, and the one that was made."""

    wanted: Literal["due", "all"] | None = described(
        "What ingest is to sample anew: what deletes have spoiled, or all edges. Null once it is "
        "done."
    )
    snapshot: int | None = described("Number of the newest.")
    repair: LastRepair | None = described(
        "The last; in the answer to who asks for one, only what was made since: null where nothing "
        "was due."
    )
    fault: str | None = described(
        "Why it could not be made when ingest last tried, as where files are missing; it is tried "
        "again. Null otherwise.",
        default=None,
    )

    @property
    def is_settled(self) -> bool:
        """Whether none is asked for, or it could not be made."""
        return self.wanted is None or self.fault is not None

    @property
    def is_done(self) -> bool:
        """Whether none is asked for; one that could not be made is tried again."""
        return self.wanted is None

    def since(self, first: Self) -> Self:
        """The same, with the last repair only where it was made since."""
        is_new = self.repair is not None and self.repair.snapshot > (first.snapshot or 0)
        return self if is_new else replace(self, repair=None)


@record
class HorizonState(Ongoing):
    """Since when edges live, and the time that somebody asked for."""

    wanted: datetime | None = described(
        "Edges before it are to leave; null once they have, or where nothing is asked for."
    )
    snapshot: int | None = described("Number of the newest.")
    horizon: datetime | None = described(
        "Edges before this time have left the newest snapshot. Null before the first, and "
        "without a window."
    )
    relations: dict[str, datetime | None] = described(
        "As horizon, of relations that have a window of their own; null for those that keep all.",
        default_factory=dict,
    )
    n_live: int | None = described("Edges that live in the newest snapshot.", default=None)
    n_expired: int | None = described("Edges that have left the newest snapshot.", default=None)

    @property
    def is_settled(self) -> bool:
        """Whether no other time is asked for."""
        return self.wanted is None


@record
class WindowState:
    """What the window of a graph has let through, as of the newest snapshot."""

    horizon: datetime | None = described("Since when edges live; null before the first.")
    watermark: datetime | None = described("The latest time of an edge.")
    n_live: int = described("Edges that live.")
    n_expired: int = described("Edges that have left.")
    n_late: int = described("Edges that came when the window was past them, and were left out.")


@record
class DeletedEdges:
    """What was deleted and what came of it, as of the newest snapshot."""

    n_deletes: int = described("Rows that deleted a pair, whether it was there or not.")
    n_live: int = described("Edges that are not deleted, self-loops not counted.")
    n_deleted: int = described("Edges that were deleted or retracted.")
    n_unmatched: int = described("Deleted pairs of which no edge was there, as the log tells.")
    damage: Damage
    n_repairs: int = described("How often edges of damaged nodes had been sampled anew.")
    n_rebuilds: int = described("How often all edges had been sampled anew after deletes.")
    last_repair: LastRepair | None = described("Null before the first.")
    log_bytes: int = described("Bytes of the log on disk.")


@record
class GraphDetails(Graph):
    """A graph with the state of its files, its features and its newest certificate."""

    epsilon_certified: float | None = described(
        "That of the newest snapshot that was certified: see certificate."
    )
    certificate: Certificate | None = described("Says which snapshot it is of.")
    n_merged: int | None = described(
        "Edges of the newest snapshot that were added to another edge of their pair. "
        "edges_seen is the sum of edges_kept, n_merged and left_out where none were "
        "deleted or came too late. Null where not every edge is kept, and while files are "
        "committed that it lacks."
    )
    n_bad_rows: int = described(
        "Rows left out because they break a rule, refused ones of live sources too; edges_seen "
        "lacks them."
    )
    features: Features
    backlog: Backlog
    files: dict[FileStatus, int] = described("Files by status.")
    deleted: DeletedEdges | None = described(
        "Null where deletions are off, and before the first snapshot."
    )
    window: WindowState | None = described(
        "Null in graphs without a window, and before the first snapshot."
    )
    repair_fault: str | None = described(
        "Why edges that are wanted again, as after max_edges was raised, could not be read when "
        "ingest last tried: bring the files back. Null otherwise.",
        default=None,
    )


@record
class GraphList:
    """All graphs, by name."""

    graphs: list[Graph]


@record
class Snapshot:
    """Provenance of a snapshot."""

    number: int
    n_nodes: int
    edges_seen: int
    edges_kept: int
    left_out: LeftOut
    epsilon_asked: float | None = described("Null where every edge is kept within max_edges.")
    epsilon_expected: float = described("0 where it has all edges.")
    max_edges: int | None = described("The budget that it was made for.")
    n_failed_embeddings: int = described(
        "Thinnings that dropped nothing, as resistances did not converge."
    )
    note: str = described("What to know before its labels are trusted; empty where nothing is.")
    n_files: int
    n_deletes: int = described("Rows that deleted a pair, whether it was there or not.")
    n_split: int = described(
        "Components more for want of deleted edges, where nothing tells whether the graph has them."
    )
    n_live: int | None = described(
        "Edges that are not deleted and have not left a window, self-loops not counted; null where "
        "deletions are off."
    )
    n_unmatched: int = described("Deleted pairs of which no edge was there, as the log tells.")
    n_expired: int = described("Edges that had left the window of the graph.")
    n_late: int = described("Edges that had come when the window was past them.")
    watermark: datetime | None = described("The latest time of an edge; null without a window.")
    horizon: datetime | None = described("Since when edges live; null without a window.")
    n_repairs: int = described("How often edges of damaged nodes had been sampled anew.")
    n_rebuilds: int = described("How often all edges had been sampled anew after deletes.")
    damage: Damage | None = described("Null unless deletions are exact.")
    last_repair: LastRepair | None = described("Null before the first.")
    log_bytes: int | None = described("Bytes of the log on disk; null unless deletions are exact.")
    seed: int
    created_at: datetime
    certificate: Certificate | None = described("Null until it is certified.")


@record
class Relation:
    """A kind of edges in the newest snapshot."""

    name: str = described("Empty where no table names its relation.")
    edges_seen: int = described("Rows, those without an edge included.")
    n_edges: int = described("Edges that live; parallel ones count each.")
    edges_kept: int = described("Parallel ones summed.")
    n_nodes: int = described("Nodes that it joins.")
    volume: float = described("Twice the weight of its edges.")
    epsilon_expected: float = described("Its spectral error; 0 where it has all edges.")
    is_directed: bool = described("Whether its edges go from src to dst: see `directed` of graphs.")
    window: float | None = described("Seconds that its edges live; null for ever.", default=None)
    horizon: datetime | None = described(
        "Since when its edges live; null where it keeps all.", default=None
    )
    watermark: datetime | None = described(
        "The latest time of its own edges; null without a window of the graph, by whose latest "
        "edge those of all relations leave.",
        default=None,
    )
    n_left: int = described(
        "Edges that have left its window; those too old when they came are left out.", default=0
    )
    left_out: LeftOut | None = described(
        "How many of its rows made no edge, by reason.", default=None
    )


@record
class RelationList:
    """Relations in the order in which they came, and the snapshot that has them."""

    relations: list[Relation]
    snapshot: int | None = described("Null before the first.")


@record
class SnapshotList:
    """The snapshots that are kept, newest first."""

    snapshots: list[Snapshot]
