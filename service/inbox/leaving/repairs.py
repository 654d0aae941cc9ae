"""Repairs that somebody asked for: ingest makes them between two files.

Ingest makes a repair without being asked before a snapshot that deletes have spoiled.
"""

from typing import Literal, TypeAlias

from sqlalchemy import select, update

from peewit.service.catalog import lock_graph
from peewit.service.database.engine import Database
from peewit.service.database.leases import Lease, confirm
from peewit.service.database.tables import graphs
from peewit.streaming.problems import Conflict

WantedRepair: TypeAlias = Literal["due", "all"]
"""Due: what deletes have spoiled is sampled again. All: all edges are."""


class RepairRefused(Conflict, RuntimeError):
    """The graph has no log by which it could be repaired."""

    title = "Graph cannot be repaired"


class Repairs:
    """Repairs by graph."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def want(self, graph_id: str, kind: WantedRepair) -> None:
        """Make ingest repair a graph; ``all`` holds until it is done, even if less is asked later.

        Raises `GraphNotFound`, or `RepairRefused` where deletions are off and less than all is
        asked.
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

    def wanted(self, graph_id: str, *, failed: bool = True) -> WantedRepair | None:
        """The repair that ingest has to make; without ``failed`` none whose last try failed."""
        statement = select(graphs.c.repair_wanted).where(graphs.c.id == graph_id)
        if not failed:
            statement = statement.where(graphs.c.repair_fault.is_(None))
        with self._database.read() as connection:
            kind: WantedRepair | None = connection.execute(statement).scalar()
        return kind

    def fault(self, graph_id: str) -> str | None:
        """Why the last try of the wanted repair failed; None where it did not."""
        statement = select(graphs.c.repair_fault).where(graphs.c.id == graph_id)
        with self._database.read() as connection:
            fault: str | None = connection.execute(statement).scalar()
        return fault

    def failed(self, graph_id: str, fault: str, *, lease: Lease) -> None:
        """Store why a repair could not be made; it stays wanted. Raises `LeaseExpired`."""
        mine = graphs.c.id == graph_id, graphs.c.repair_wanted.is_not(None)
        with self._database.write() as connection:
            confirm(connection, lease)
            connection.execute(update(graphs).where(*mine).values(repair_fault=fault))

    def done(
        self,
        graph_id: str,
        kind: WantedRepair,
        *,
        epsilon: float | None,
        max_edges: int | None,
        lease: Lease,
    ) -> None:
        """Note that a repair was made with these settings; raises `LeaseExpired`.

        It stays wanted where more was asked meanwhile, or other settings came, with which it was
        asked.
        """
        mine = (
            graphs.c.id == graph_id,
            graphs.c.repair_wanted == kind,
            graphs.c.epsilon.is_not_distinct_from(epsilon),
            graphs.c.max_edges.is_not_distinct_from(max_edges),
        )
        with self._database.write() as connection:
            confirm(connection, lease)
            connection.execute(
                update(graphs).where(*mine).values(repair_wanted=None, repair_fault=None)
            )
