"""Ingest history of each graph, a point about once a second, for charts and live figures.

Old points are thinned out, so that a graph never has more than `MAX_POINTS`. Nothing depends on
them: a point that cannot be stored is left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Select, delete, func, select

from peewit.service.database.engine import Database, insert_into
from peewit.service.database.tables import ingest_points
from peewit.service.database.timestamps import now

MAX_POINTS: Final = 1_000
"""Of a graph; beyond it every second point goes, but for the newest hundred."""

_RECENT_POINTS: Final = 100
_THIN_EVERY: Final = 100
_RATE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestPoint:
    """A graph at one moment of its ingest."""

    at: datetime  # UTC, by the database's clock
    n_nodes: int
    edges_seen: int  # rows read, also of files that are not committed yet
    edges_kept: int  # in the newest snapshot
    n_records: int  # in the sparsifier's buffer, which is thinned when it is full
    memory_bytes: int  # resident, of the ingesting process


class IngestHistory:
    """Points of all graphs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._n_noted = 0

    def note(
        self,
        graph_id: str,
        *,
        n_nodes: int,
        edges_seen: int,
        edges_kept: int,
        n_records: int,
        memory_bytes: int,
    ) -> None:
        """Store the present state of a graph; raises what the database raises."""
        self._n_noted += 1
        with self._database.write() as connection:
            point = insert_into(connection, ingest_points).values(
                graph_id=graph_id,
                n_nodes=n_nodes,
                edges_seen=edges_seen,
                edges_kept=edges_kept,
                n_records=n_records,
                memory_bytes=memory_bytes,
            )
            connection.execute(point.on_conflict_do_nothing())  # one of this millisecond will do
            if self._n_noted % _THIN_EVERY == 1:
                mine = ingest_points.c.graph_id == graph_id
                surplus = ingest_points.c.at.in_(_surplus(graph_id))
                connection.execute(delete(ingest_points).where(mine, surplus))

    def now(self) -> datetime:
        """The present by the clock of the points."""
        with self._database.read() as connection:
            moment: datetime = connection.execute(select(now())).scalar_one()
            return moment

    def points(self, graph_id: str) -> Sequence[IngestPoint]:
        """All points that are kept, oldest first."""
        statement = _of(graph_id).order_by(ingest_points.c.at)
        with self._database.read() as connection:
            return [_point(row) for row in connection.execute(statement)]

    def latest(self, graph_id: str, n_points: int = 20) -> Sequence[IngestPoint]:
        """The newest points, oldest first."""
        statement = _of(graph_id).order_by(ingest_points.c.at.desc()).limit(n_points)
        with self._database.read() as connection:
            return [_point(row) for row in reversed(connection.execute(statement).all())]


def edges_per_second(points: Sequence[IngestPoint], at: datetime) -> float:
    """Speed over the points of the last ten seconds; 0 where there are too few.

    Points are oldest first; ``at`` is the present, by the database's clock.
    """
    recent = [point for point in points if (at - point.at).total_seconds() <= _RATE_SECONDS]
    if len(recent) < 2:
        return 0.0
    seconds = (recent[-1].at - recent[0].at).total_seconds()
    return max(recent[-1].edges_seen - recent[0].edges_seen, 0) / max(seconds, 1e-3)


def _of(graph_id: str) -> Select[Any]:
    return select(ingest_points).where(ingest_points.c.graph_id == graph_id)


def _surplus(graph_id: str) -> Select[Any]:
    """Times of every second point but the newest, where there are too many."""
    points = ingest_points.c
    mine = points.graph_id == graph_id
    n_points = select(func.count()).where(mine).scalar_subquery()
    ranked = (
        select(points.at, func.row_number().over(order_by=points.at.desc()).label("age"))
        .where(mine)
        .subquery()
        .c
    )
    return select(ranked.at).where(
        n_points > MAX_POINTS, ranked.age > _RECENT_POINTS, ranked.age % 2 == 1
    )


def _point(row: Any) -> IngestPoint:
    return IngestPoint(**{column.name: getattr(row, column.name) for column in fields(IngestPoint)})
