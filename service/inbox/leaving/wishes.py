"""Wishes for a whole graph: edges before a time leave (horizon), edges are sampled anew (repair).

Ingest carries them out between two files. Each is a value of the graph's row, as several requests
become one; files to be retracted and nodes to be erased have rows of their own (`retractions`,
`erasures`). `Manifest.work` tells ingest which wishes there are.
"""

from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from sqlalchemy import ColumnElement, select, update

from peewit.service.catalog import lock_graph, writing
from peewit.service.database.engine import Database
from peewit.service.database.leases import Lease
from peewit.service.database.tables import files, graphs
from peewit.service.database.timestamps import now
from peewit.solvers.arguments import BadArgument
from peewit.streaming.problems import Conflict

WantedRepair: TypeAlias = Literal["due", "all"]
"""Due: what deletes have spoiled is sampled again. All: all edges are."""


class HorizonRefused(Conflict, RuntimeError):
    """The graph has no window."""

    title = "Graph has no window"


class RepairRefused(Conflict, RuntimeError):
    """The graph has no log by which it could be repaired."""

    title = "Graph cannot be repaired"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a graph waits for."""

    horizon_wanted: float | None  # seconds since 1970
    repair_wanted: WantedRepair | None
    repair_fault: str | None  # why the last try of the wanted repair failed
    arrivals_fault: str | None  # why files wait whose arrival a wrong clock may have stamped
    clock_right_at: datetime | None  # when somebody said last that the clock is right


class Wishes:
    """Wishes by graph; methods that take a lease raise `LeaseExpired`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, graph_id: str) -> Wanted:
        """What a graph waits for; nothing where it is deleted."""
        names = [each.name for each in fields(Wanted)]
        statement = select(*(graphs.c[name] for name in names)).where(graphs.c.id == graph_id)
        with self._database.read() as connection:
            row = connection.execute(statement).one_or_none()
        return Wanted(**dict.fromkeys(names) if row is None else row._mapping)

    def want_horizon(self, graph_id: str, before: float, *, latest: float | None) -> None:
        """Make ingest drop edges before a time; of several requests the latest time holds.

        A window moves by itself as edges come; this moves it where none do. ``before`` is in
        seconds since 1970, and edges of the bucket that holds it stay. ``latest`` is the latest
        time of an edge in the newest snapshot. Raises `GraphNotFound`, `HorizonRefused`, or
        BadArgument where nothing would be left, as a wrong year may ask for.
        """
        with self._database.write() as connection:
            graph = lock_graph(connection, graph_id)
            if graph.window is None:
                raise HorizonRefused(
                    f"{graph.name} must have a window for edges to leave by their time, it has none"
                )
            if latest is None or before > latest:
                known = "there are none" if latest is None else f"{_moment(latest)} is the latest"
                rule = f"must not lie beyond all edges, of which {known}, got {_moment(before)}"
                raise BadArgument("before", rule)
            wanted = max(before, graph.horizon_wanted or before)
            mine = update(graphs).where(graphs.c.id == graph_id)
            connection.execute(mine.values(horizon_wanted=wanted))

    def want_repair(self, graph_id: str, kind: WantedRepair) -> None:
        """Make ingest repair a graph; ``all`` holds until it is done, even if less is asked later.

        Raises `GraphNotFound`, or `RepairRefused` where deletions are off and less than all is
        asked. Ingest repairs by itself before a snapshot that deletes have spoiled.
        """
        with self._database.write() as connection:
            graph = lock_graph(connection, graph_id)
            if graph.deletions == "off" and kind != "all":
                raise RepairRefused(
                    f"deletions of {graph.name} must be exact to repair it, they are off: no log "
                    "tells which edges live"
                )
            wanted = "all" if graph.repair_wanted == "all" else kind
            connection.execute(
                update(graphs)
                .where(graphs.c.id == graph_id)
                .values(repair_wanted=wanted, repair_fault=None)  # so that it is tried at once
            )

    def confirm_clock(self, graph_id: str) -> None:
        """Say that the clock is right now, so that files go on which wait as it may be wrong.

        What came later than now, as the clock was wrong before, counts as arrived now. Raises
        `GraphNotFound`, or `HorizonRefused` without a window by arrival.
        """
        with self._database.write() as connection:
            graph = lock_graph(connection, graph_id)
            if graph.window is None or graph.window["by"] != "arrival":
                raise HorizonRefused(
                    f"{graph.name} must have a window by arrival for a clock to matter to it"
                )
            connection.execute(
                update(files)
                .where(
                    files.c.graph_id == graph_id,
                    files.c.status == "pending",
                    files.c.created_at > now(),
                )
                .values(created_at=now())
            )
            mine = update(graphs).where(graphs.c.id == graph_id)
            connection.execute(mine.values(clock_right_at=now(), arrivals_fault=None))

    def note_arrivals(self, graph_id: str, fault: str | None, *, lease: Lease) -> None:
        """Store why files wait whose arrival a wrong clock may have stamped, or that none does."""
        self._note(
            graph_id, lease, graphs.c.arrivals_fault.is_distinct_from(fault), arrivals_fault=fault
        )

    def horizon_reached(self, graph_id: str, before: float, *, lease: Lease) -> None:
        """Note that a horizon is applied; a later one stays wanted."""
        self._note(graph_id, lease, graphs.c.horizon_wanted <= before, horizon_wanted=None)

    def repair_failed(self, graph_id: str, fault: str, *, lease: Lease) -> None:
        """Store why a repair could not be made; it stays wanted."""
        self._note(graph_id, lease, graphs.c.repair_wanted.is_not(None), repair_fault=fault)

    def repair_made(
        self,
        graph_id: str,
        kind: WantedRepair,
        *,
        epsilon: float | None,
        max_edges: int | None,
        lease: Lease,
    ) -> None:
        """Note that a repair was made with these settings.

        It stays wanted where more was asked meanwhile, or other settings came, with which it was
        asked.
        """
        is_it = (
            (graphs.c.repair_wanted == kind)
            & graphs.c.epsilon.is_not_distinct_from(epsilon)
            & graphs.c.max_edges.is_not_distinct_from(max_edges)
        )
        self._note(graph_id, lease, is_it, repair_wanted=None, repair_fault=None)

    def _note(self, graph_id: str, lease: Lease, rule: ColumnElement[bool], **values: Any) -> None:
        """Write to the graph's row where it satisfies a rule."""
        with writing(self._database, graph_id, lease) as connection:
            connection.execute(update(graphs).where(graphs.c.id == graph_id, rule).values(**values))


def _moment(seconds: float) -> str:
    """A time in ISO 8601 with a Z."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
