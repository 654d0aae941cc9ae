"""Whether everybody has got on since the last kill, as the stores and the clients tell it."""

from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.exc import OperationalError

from peewit.service.database.engine import Database
from peewit.service.database.tables import files, jobs
from tests.end_to_end.crashing.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far things are.

    ``attempts`` are, by the id of a worker, those it has begun and brought as far as what to work
    on.
    """

    n_answers: int
    n_ended_files: int
    n_solved: int
    attempts: dict[str, int]


class Watch:
    """Looks at one graph."""

    def __init__(self, database: Database, graph_id: str, record: Record) -> None:
        self._database = database
        self._graph_id = graph_id
        self._record = record

    def standing(self) -> Standing | None:
        """How far things are now; None while the database does not answer."""
        committed = select(func.count()).where(
            files.c.graph_id == self._graph_id, files.c.finished_at.is_not(None)
        )
        solved = select(func.count()).where(jobs.c.kind == "solve", jobs.c.status == "succeeded")
        attempts = (
            select(jobs.c.worker_id, func.sum(jobs.c.attempt))
            .where(jobs.c.snapshot.is_not(None), jobs.c.worker_id.is_not(None))
            .group_by(jobs.c.worker_id)
        )
        try:
            with self._database.read() as connection:
                return Standing(
                    n_answers=self._record.n_answers,
                    n_ended_files=connection.execute(committed).scalar_one(),
                    n_solved=connection.execute(solved).scalar_one(),
                    attempts={row[0]: int(row[1]) for row in connection.execute(attempts)},
                )
        except OperationalError:
            return None

    def is_running(self) -> bool:
        """Whether a job is being worked on at this moment."""
        running = select(jobs.c.id).where(jobs.c.status == "running", jobs.c.snapshot.is_not(None))
        try:
            with self._database.read() as connection:
                return connection.execute(running.limit(1)).first() is not None
        except OperationalError:
            return False


def missing(before: Standing, now: Standing | None, worker_pids: list[int]) -> list[str]:
    """Who has not got on yet between two moments."""
    if now is None:
        return ["database"]
    late = [
        name
        for name, was, is_now in (
            ("api", before.n_answers, now.n_answers),
            ("ingest", before.n_ended_files, now.n_ended_files),
            ("child", before.n_solved, now.n_solved),
        )
        if is_now <= was
    ]
    late += [
        f"worker {pid}"
        for pid in worker_pids
        if not any(
            n_attempts > before.attempts.get(worker, 0)
            for worker, n_attempts in now.attempts.items()
            if f"-{pid}-" in worker
        )
    ]
    return late if worker_pids else [*late, "worker"]
