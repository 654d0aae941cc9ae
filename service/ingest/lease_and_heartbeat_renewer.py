"""Renewer: a child process that renews leases and beats for a process that may be deaf for long.

A factorisation keeps the interpreter's lock, for minutes where cores are taken, and all that while
no thread of its process renews anything. The child has an interpreter of its own. It ends with its
parent, and renews nothing while that is stopped (SIGSTOP), so that another may take over.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from time import monotonic
from types import TracebackType
from typing import Any, Final, Self

import structlog
from sqlalchemy.exc import SQLAlchemyError

from peewit.service.database.engine import Database, DatabaseNotOpened, open_database
from peewit.service.database.lease_holders import is_stopped
from peewit.service.database.leases import Lease, LeaseExpired, LeaseStore
from peewit.service.jobs.worker_registry import WorkerRegistry
from peewit.service.logs import configure_logging, log_choice
from peewit.service.redaction import redacted

RENEW_SECONDS: Final = 2.0
"""Less than a third of what a lease lasts and a worker may be silent."""

_log = structlog.get_logger(__name__)


class Renewer:
    """The child, seen from its parent; a context manager.

    Parameters
    ----------
    database : Database
        Where the leases are; the child opens it by itself.
    """

    def __init__(self, database: Database) -> None:
        self._url = database.engine.url.render_as_string(hide_password=False)
        self._lock = Lock()

    def __enter__(self) -> Self:
        """Start the child, and wait for nothing: the threads that renew begin as well."""
        self._child = subprocess.Popen(  # noqa: S603 - nothing of it comes from outside
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl-C is for the parent
        )
        logs = log_choice()
        self._tell(url=self._url, parent=os.getpid(), logs=(logs.level, logs.log_format))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let the child end."""
        self._child.kill()  # it holds nothing that an end could tear
        self._child.communicate()

    @contextmanager
    def holding(self, lease: Lease) -> Iterator[None]:
        """Have the lease renewed while the block runs."""
        self._tell(hold=asdict(lease))
        try:
            yield
        finally:
            self._tell(drop=lease.name)

    def beat_for(self, worker_id: str) -> None:
        """Have the heartbeat of a registered worker renewed until this process ends."""
        self._tell(beat=worker_id)

    def _tell(self, **order: Any) -> None:
        stream = self._child.stdin
        with self._lock:
            try:
                if stream is not None:
                    stream.write(json.dumps(order) + "\n")
                    stream.flush()
            except OSError as error:  # the threads that renew go on
                _log.warning("renewer has ended", error=str(error))


class Keep:
    """What the child keeps up; it opens the database when it first renews."""

    def __init__(self, url: str, parent: int) -> None:
        self._url = url
        self._database: Database | None = None
        self._parent = parent
        self._held: dict[str, Lease] = {}
        self._beats: set[str] = set()

    def obey(self, order: dict[str, Any]) -> None:
        """Take up a lease or a heartbeat, or drop one."""
        match order:
            case {"hold": lease}:
                self._held[lease["name"]] = Lease(**lease)
            case {"drop": name}:
                self._held.pop(name, None)
            case {"beat": worker_id}:
                self._beats.add(worker_id)

    def renew(self) -> None:
        """Renew everything; a database that is away costs a line in the log."""
        if is_stopped(self._parent):
            return
        try:
            self._database = self._database or open_database(self._url)
            self._renew(self._database)
        except (SQLAlchemyError, DatabaseNotOpened) as error:
            _log.warning("nothing renewed", error=redacted(str(error)))

    def close(self) -> None:
        """Let the database go."""
        if self._database is not None:
            self._database.close()

    def _renew(self, database: Database) -> None:
        workers, leases = WorkerRegistry(database), LeaseStore(database)
        for worker_id in self._beats:
            workers.beat(worker_id)
        for lease in list(self._held.values()):
            try:
                leases.renew(lease)
            except LeaseExpired:  # given back or taken; its holder will see
                del self._held[lease.name]


def run(lines: Iterable[str]) -> None:
    """Obey one order a line, the first of which names the database, until the lines end."""
    orders = SimpleQueue[str | None]()

    def listen() -> None:
        for line in lines:
            orders.put(line)
        orders.put(None)

    Thread(target=listen, name="orders", daemon=True).start()
    first = orders.get()
    if first is None:
        return
    start = json.loads(first)
    configure_logging(*start["logs"])
    keep = Keep(start["url"], start["parent"])
    renew_at = monotonic()
    with closing(keep):
        while True:
            try:
                order = orders.get(timeout=max(0.0, renew_at - monotonic()))
            except Empty:
                keep.renew()
                renew_at = monotonic() + RENEW_SECONDS
                continue
            if order is None:
                return
            keep.obey(json.loads(order))


if __name__ == "__main__":
    run(sys.stdin)
