"""Lease keeper: a lease held while a block of code runs; a thread renews it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import structlog
from sqlalchemy.exc import SQLAlchemyError

from peewit.service.database.engine import Database
from peewit.service.database.lease_holders import holder_name, is_dead
from peewit.service.database.leases import Lease, LeaseExpired, LeaseStore

LEASE_SECONDS: Final = 12.0
RENEW_SECONDS: Final = 3.0

_log = structlog.get_logger(__name__)


class LeaseHeld(RuntimeError):
    """Another process has the lease and does the work."""

    def __init__(self, purpose: str, holder: str | None) -> None:
        super().__init__(f"another process {purpose}: {holder or 'it has just ended'}")


class LeaseKeeper:
    """Renews a lease in a thread of its own until told to stop."""

    def __init__(self, store: LeaseStore, lease: Lease) -> None:
        self.lease = lease
        self.is_lost = False
        self._store = store
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._thread.start()

    def confirm(self) -> None:
        """Renew now; raises `LeaseExpired` when another process may hold the lease."""
        self._store.renew(self.lease)

    def stop(self) -> None:
        """Stop renewing, and release the lease."""
        self._stopped.set()
        self._thread.join()
        self._store.release(self.lease)

    def _renew(self) -> None:
        while not self._stopped.wait(RENEW_SECONDS):
            try:
                self._store.renew(self.lease)
            except LeaseExpired:
                self.is_lost = True
                return
            except SQLAlchemyError as error:
                # The lease runs out by itself if this lasts; every write asks for it anyway.
                _log.warning("lease not renewed", lease=self.lease.name, error=str(error))


@contextmanager
def held_lease(database: Database, name: str, *, purpose: str) -> Iterator[LeaseKeeper]:
    """Hold a lease for a purpose such as ``ingests this graph``; raises `LeaseHeld`."""
    store = LeaseStore(database)
    keeper = LeaseKeeper(store, _acquire(store, name, purpose))
    try:
        yield keeper
    finally:
        keeper.stop()


def _acquire(store: LeaseStore, name: str, purpose: str) -> Lease:
    mine = holder_name()
    lease = store.acquire(name, mine, LEASE_SECONDS)
    if lease is not None:
        return lease
    other = store.holder(name)
    if other is None:  # it ran out, or was given back, since it was refused
        lease = store.acquire(name, mine, LEASE_SECONDS)
    elif is_dead(other):
        _log.info("taking over from a process that has died", lease=name, holder=other)
        lease = store.acquire(name, mine, LEASE_SECONDS, dead=other)
    if lease is None:
        raise LeaseHeld(purpose, other)
    return lease
