"""Repairs that somebody asked for: ingest makes them between two files.

Before a snapshot that deletes have spoiled it makes one by itself.
"""

from typing import Literal, TypeAlias

from sqlalchemy import select, update

from peewit.service.catalog import lock_graph
from peewit.service.database.engine import Database
from peewit.service.database.leases import Lease, confirm
from peewit.service.database.tables import graphs

WantedRepair: TypeAlias = Literal["due", "all"]
"""What deletes have spoiled is sampled anew, or all edges are."""


class RepairRefused(RuntimeError):
    """The graph has no log by which it could be repaired."""


class Repairs:
    """Repairs by graph."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def want(self, graph_id: str, kind: WantedRepair) -> None:
        """Have ingest repair a graph; ``all`` holds until it is done, whoever wants less.

        Raises
        ------
        GraphNotFound
            There is no such graph.
        RepairRefused
            Its deletions are off, and not all edges are wanted anew.
        """
        with self._database.write() as connection:
            graph = lock_graph(connection, graph_id)
            if graph.deletions == "off" and kind != "all":
                raise RepairRefused(
                    f"deletions of {graph.name} must be exact to repair it, they are off: no log "
                    "tells which edges live"
                )
            if graph.repair_wanted != "all":
                mine = update(graphs).where(graphs.c.id == graph_id)
                connection.execute(mine.values(repair_wanted=kind))

    def wanted(self, graph_id: str) -> WantedRepair | None:
        """What ingest is to do, if anything."""
        statement = select(graphs.c.repair_wanted).where(graphs.c.id == graph_id)
        with self._database.read() as connection:
            kind: WantedRepair | None = connection.execute(statement).scalar()
        return kind

    def done(self, graph_id: str, kind: WantedRepair, *, lease: Lease) -> None:
        """Note that a repair was made; one that is wanted more since is wanted still.

        Raises
        ------
        LeaseExpired
            Another process may write this graph.
        """
        mine = graphs.c.id == graph_id, graphs.c.repair_wanted == kind
        with self._database.write() as connection:
            confirm(connection, lease)
            connection.execute(update(graphs).where(*mine).values(repair_wanted=None))
