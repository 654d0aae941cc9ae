"""Horizons that somebody asked for: ingest drops all edges before them, between two files.

A window moves by itself as edges come; a horizon moves it where none do.
"""

from datetime import UTC, datetime

from sqlalchemy import select, update

from peewit.service.catalog import lock_graph
from peewit.service.database.engine import Database
from peewit.service.database.leases import Lease, confirm
from peewit.service.database.tables import graphs
from peewit.solvers.arguments import BadArgument
from peewit.streaming.problems import Conflict


def moment(seconds: float) -> str:
    """A time in ISO 8601 with a Z."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


class HorizonRefused(Conflict, RuntimeError):
    """The graph has no window."""

    title = "Graph has no window"


class Horizons:
    """Horizons that are wanted, by graph."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def want(self, graph_id: str, before: float, *, latest: float | None) -> None:
        """Make ingest drop edges before a time; of several requests the latest time holds.

        ``before`` is in seconds since 1970, and edges of the bucket that holds it stay. ``latest``
        is the latest time of an edge in the newest snapshot. Raises `GraphNotFound`,
        `HorizonRefused`, or BadArgument where nothing would be left, as a wrong year may ask for.
        """
        with self._database.write() as connection:
            graph = lock_graph(connection, graph_id)
            if graph.window is None:
                raise HorizonRefused(
                    f"{graph.name} must have a window for edges to leave by their time, it has none"
                )
            if latest is None or before > latest:
                known = "there are none" if latest is None else f"{moment(latest)} is the latest"
                rule = f"must not lie beyond all edges, of which {known}, got {moment(before)}"
                raise BadArgument("before", rule)
            wanted = max(before, graph.horizon_wanted or before)
            mine = update(graphs).where(graphs.c.id == graph_id)
            connection.execute(mine.values(horizon_wanted=wanted))

    def wanted(self, graph_id: str) -> float | None:
        """The horizon that ingest has to apply, in seconds since 1970; None without one."""
        statement = select(graphs.c.horizon_wanted).where(graphs.c.id == graph_id)
        with self._database.read() as connection:
            before: float | None = connection.execute(statement).scalar()
        return before

    def done(self, graph_id: str, before: float, *, lease: Lease) -> None:
        """Note that a horizon is applied; a later one stays wanted. Raises `LeaseExpired`."""
        mine = graphs.c.id == graph_id, graphs.c.horizon_wanted <= before
        with self._database.write() as connection:
            confirm(connection, lease)
            connection.execute(update(graphs).where(*mine).values(horizon_wanted=None))
