"""Registry of live workers: each writes a heartbeat, and one that is silent counts as gone."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import bindparam, delete, insert, select, update

from peewit.service.database.engine import Database
from peewit.service.database.tables import workers
from peewit.service.database.timestamps import now
from peewit.service.jobs.job import Lane

SILENT_AFTER_SECONDS: Final = 8.0
"""Longer than a few heartbeats, so that one slow transaction is no death."""

_FORGOTTEN_AFTER_SECONDS: Final = 86_400.0
_BEAT: Final = update(workers).where(workers.c.id == bindparam("worker")).values(heartbeat_at=now())


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRecord:
    """A worker that was alive a moment ago."""

    id: str  # host, process and a random part
    started_at: datetime  # UTC, by the database's clock
    heartbeat_at: datetime
    lanes: tuple[Lane, ...]


class WorkerRegistry:
    """The table of workers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def register(self, worker_id: str, lanes: tuple[Lane, ...]) -> None:
        """Add a worker, and forget those that died long ago."""
        with self._database.write() as connection:
            connection.execute(
                delete(workers).where(workers.c.heartbeat_at < now(-_FORGOTTEN_AFTER_SECONDS))
            )
            connection.execute(insert(workers).values(id=worker_id, lanes=list(lanes)))

    def beat(self, worker_id: str) -> None:
        """Note that the worker is alive."""
        with self._database.write() as connection:
            connection.execute(_BEAT, {"worker": worker_id})

    def remove(self, worker_id: str) -> None:
        """Remove a worker that has stopped; does nothing when it is not there."""
        with self._database.write() as connection:
            connection.execute(delete(workers).where(workers.c.id == worker_id))

    def alive(self, lane: Lane | None = None) -> list[WorkerRecord]:
        """Workers with a fresh heartbeat, of one lane or of any; the longest-running first."""
        statement = (
            select(workers)
            .where(workers.c.heartbeat_at >= now(-SILENT_AFTER_SECONDS))
            .order_by(workers.c.started_at)
        )
        with self._database.read() as connection:
            rows = connection.execute(statement).all()
        records = [WorkerRecord(**row._asdict() | {"lanes": tuple(row.lanes)}) for row in rows]
        return [record for record in records if lane is None or lane in record.lanes]
