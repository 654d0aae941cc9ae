"""Heartbeats of a worker, and the lease of the one worker that SQLite takes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic, sleep
from typing import Final

import structlog
from sqlalchemy.exc import DBAPIError

from peewit.service.database.engine import Database
from peewit.service.database.leases import Lease, LeaseExpired, LeaseStore
from peewit.service.jobs.queue import LEASE_SECONDS

HEARTBEAT_SECONDS: Final = 2.0
"""A third of a lease: two heartbeats may fail before a job is taken over. All processes of a
machine beat at the same moments, since each beat wakes those that wait for a commit."""

CANCEL_SECONDS: Final = 0.25
"""Interval of looking for cancels of running jobs."""

_POLL_SECONDS: Final = 0.2
_SOLE_WORKER: Final = "worker"

_log = structlog.get_logger(__name__)


class AnotherWorkerRunsError(RuntimeError):
    """SQLite takes one worker at a time."""


@contextmanager
def heartbeats(
    worker_id: str, see_cancels: Callable[[], None], *beats: Callable[[], None]
) -> Iterator[None]:
    """A thread that looks for cancels every `CANCEL_SECONDS` and beats every `HEARTBEAT_SECONDS`.

    If the database is away, a line is logged and the thread goes on.
    """
    ended = Event()

    def beat() -> None:
        last = monotonic() // HEARTBEAT_SECONDS
        while not ended.wait(CANCEL_SECONDS - monotonic() % CANCEL_SECONDS):
            present = monotonic() // HEARTBEAT_SECONDS
            try:
                if present == last:
                    see_cancels()
                    continue
                last = present
                for beat_once in beats:
                    beat_once()
            except DBAPIError as error:
                _log.warning("heartbeat not stored", worker=worker_id, error=str(error))

    thread = Thread(target=beat, name="heartbeats", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class SoleWorker:
    """The right to be the one worker of a SQLite database; PostgreSQL takes any number.

    ``is_displaced`` is set once another worker has the right.
    """

    def __init__(self, database: Database, worker_id: str) -> None:
        self.is_displaced = Event()
        self._leases = LeaseStore(database)
        self._is_needed = database.is_sqlite
        self._worker_id = worker_id
        self._lease: Lease | None = None

    @contextmanager
    def held(self, should_stop: Callable[[], bool]) -> Iterator[None]:
        """Hold the right; raises `AnotherWorkerRunsError` at either end if another has it."""
        if not self._is_needed:
            yield
            return
        self._lease = self._first_lease(should_stop)
        try:
            yield
        finally:
            self._leases.release(self._lease)
        if self.is_displaced.is_set():
            raise self._another_worker()

    def renew(self) -> None:
        """Keep the right for a while longer, or note that it is lost."""
        if self._lease is None:
            return
        try:
            self._leases.renew(self._lease)
        except LeaseExpired:  # this process was asleep
            lease = self._acquire()
            if lease is None:
                self.is_displaced.set()
            else:
                self._lease = lease

    def _first_lease(self, should_stop: Callable[[], bool]) -> Lease:
        """The lease, once that of a worker killed a moment ago has run out."""
        deadline = monotonic() + LEASE_SECONDS + 1.0
        while True:
            lease = self._acquire()
            if lease is not None:
                return lease
            if should_stop() or monotonic() > deadline:
                raise self._another_worker()
            sleep(_POLL_SECONDS)

    def _acquire(self) -> Lease | None:
        return self._leases.acquire(_SOLE_WORKER, self._worker_id, LEASE_SECONDS)

    def _another_worker(self) -> AnotherWorkerRunsError:
        return AnotherWorkerRunsError(
            f"worker {self._leases.holder(_SOLE_WORKER)} runs on this SQLite database already; "
            "stop it, or set PEEWIT_DATABASE_URL to PostgreSQL for more than one"
        )
