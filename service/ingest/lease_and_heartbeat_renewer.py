"""Renewer: a child process that renews leases and beats for a process that may be deaf for long.

A factorisation keeps the interpreter's lock, for minutes where cores are taken, and all that while
no thread of its process renews anything. The child has an interpreter of its own. It ends with its
parent, and renews nothing while that is stopped (SIGSTOP), so that another may take over. It also
stores what its parent does, and for how long that has made no progress.

A daemon has it only when it may be needed: while a lease is held, or a step lasts, and for some
minutes more.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from functools import partial
from queue import Empty, SimpleQueue
from socket import gethostname
from threading import Lock, Thread, Timer
from time import monotonic
from types import TracebackType
from typing import Any, Final, Self
from uuid import uuid4

import structlog
from sqlalchemy.exc import SQLAlchemyError

from peewit.service.database.engine import Database, DatabaseNotOpened, open_database
from peewit.service.database.lease_holders import is_stopped
from peewit.service.database.leases import Lease, LeaseExpired, LeaseStore
from peewit.service.ingest.step_watch import StepWatch, processor_seconds
from peewit.service.jobs.ingest_steps import IngestSteps
from peewit.service.jobs.worker_registry import WorkerRegistry
from peewit.service.logs import configure_logging, log_choice
from peewit.service.redaction import redacted

RENEW_SECONDS: Final = 2.0
"""Less than a third of what a lease lasts and a worker may be silent."""

PROGRESS_SECONDS: Final = 1.0
"""How often progress within a step is passed on."""

RESTART_SECONDS: Final = 30.0
"""Between two starts of a child that has ended, as when the system killed it for want of memory."""

LASTING_SECONDS: Final = 2.0
"""A step that has made no progress for so long is stored."""

IDLE_SECONDS: Final = 300.0
"""Once it is not needed, a daemon keeps the child for so long."""

_log = structlog.get_logger(__name__)


class Renewer:
    """The child, seen from its parent; a context manager.

    Parameters
    ----------
    database : Database
        Where the leases are; the child opens it by itself.
    delay_seconds : float, optional
        Time before the child starts, unless `start` is called: work that ends sooner needs none.
        With None it starts with the first lease, or by `tend`.
    """

    def __init__(self, database: Database, *, delay_seconds: float | None = 0.0) -> None:
        self._url = database.engine.url.render_as_string(hide_password=False)
        self._name = f"ingest:{gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        self._lock = Lock()
        self._child: subprocess.Popen[str] | None = None
        self._standing: dict[tuple[str, str], dict[str, Any]] = {}
        self._moved_at: dict[str, float] = {}
        self._started_at: float | None = None
        self._needed_at = 0.0
        self._is_closed = False
        self._delay_seconds = delay_seconds
        self._timer = Timer(delay_seconds or 0.0, self.start)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        """Start the child, and wait for nothing: the threads that renew begin as well."""
        if self._delay_seconds == 0.0:
            self.start()
        elif self._delay_seconds is not None:
            self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let the child end."""
        self._timer.cancel()
        with self._lock:
            self._is_closed = True
            self._end_child()

    def start(self) -> None:
        """Start the child now, unless it runs or has run."""
        with self._lock:
            if self._started_at is None and not self._is_closed:
                self._start_child()

    def tend(self) -> None:
        """Start the child where a step lasts, and end it where nothing has needed it for long."""
        now = monotonic()
        with self._lock:
            holds_leases = any(kind == "lease" for kind, _ in self._standing)
            if holds_leases or any(
                now - moved_at >= LASTING_SECONDS for moved_at in list(self._moved_at.values())
            ):
                self._needed_at = now
                if self._started_at is None and not self._is_closed:
                    self._start_child()
            elif self._child is not None and now - self._needed_at >= IDLE_SECONDS:
                self._end_child()
                self._started_at = None

    @contextmanager
    def holding(self, lease: Lease) -> Iterator[None]:
        """Have the lease renewed while the block runs."""
        self._keep_up("lease", lease.name, {"hold": asdict(lease)})
        if self._delay_seconds is None:
            self.start()
        try:
            yield
        finally:
            self._drop("lease", lease.name, {"drop": lease.name})

    def beat_for(self, worker_id: str) -> None:
        """Have the heartbeat of a registered worker renewed until this process ends."""
        self._keep_up("beat", worker_id, {"beat": worker_id})

    def begin(
        self,
        key: str,
        *,
        graph_id: str | None,
        source_id: str | None,
        step: str,
        file: str | None,
        threads: Sequence[int | None] = (),
    ) -> None:
        """Have a step stored, in place of the one of that key; the same again has moved on.

        Parameters
        ----------
        key : str
            Tells the steps of this process apart.
        graph_id, source_id, step, file
            See `peewit.service.jobs.ingest_steps.StepNow`.
        threads : sequence of int
            Numbers that the system gives to the threads that do it; all where none is named.
        """
        values = {
            "graph_id": graph_id,
            "source_id": source_id,
            "step": step,
            "file": file,
            "threads": list(threads),
        }
        present = self._standing.get(("step", key))
        if present is not None and values.items() <= present["begin"].items():
            self.move_on(key)
        else:
            self._moved_at[key] = monotonic()
            self._keep_up(
                "step", key, {"begin": values | {"key": key, "since": self._moved_at[key]}}
            )

    def move_on(self, key: str) -> None:
        """Have it noted that the present step makes progress."""
        now = monotonic()
        if now - self._moved_at.get(key, now) >= PROGRESS_SECONDS:
            self._moved_at[key] = now
            with self._lock:
                self._send({"moved": key})

    def end(self, key: str) -> None:
        """Have a step forgotten."""
        self._moved_at.pop(key, None)
        self._drop("step", key, {"end": key})

    def _keep_up(self, kind: str, name: str, order: dict[str, Any]) -> None:
        """Give an order that a child which is started later gets too."""
        with self._lock:
            self._standing[kind, name] = order
            self._send(order)

    def _drop(self, kind: str, name: str, order: dict[str, Any]) -> None:
        with self._lock:
            self._standing.pop((kind, name), None)
            self._send(order)

    def _send(self, order: dict[str, Any]) -> None:
        """Write an order, or start the child anew where it has ended; that gets what stands."""
        if self._child is not None and self._wrote(self._child, order):
            return
        if self._started_at is None or self._is_closed:
            return
        self._end_child()
        if monotonic() - self._started_at >= RESTART_SECONDS:
            self._start_child()

    def _start_child(self) -> None:
        self._started_at = monotonic()
        try:
            self._child = subprocess.Popen(  # noqa: S603 - nothing of it comes from outside
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                text=True,
                start_new_session=True,  # Ctrl-C is for the parent
            )
        except OSError as error:  # no memory for it: the threads that renew go on
            _log.warning("renewer not started", error=str(error))
            return
        logs = log_choice()
        first = {
            "url": self._url,
            "parent": os.getpid(),
            "name": self._name,
            "logs": (logs.level, logs.log_format),
        }
        for order in (first, *self._standing.values()):
            if not self._wrote(self._child, order):
                return

    def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()  # it holds nothing that an end could tear
            with suppress(OSError):  # what was not read by then
                child.communicate()

    @staticmethod
    def _wrote(child: subprocess.Popen[str], order: dict[str, Any]) -> bool:
        """Whether the child took an order; the threads that renew go on without it."""
        try:
            if child.stdin is not None:
                child.stdin.write(json.dumps(order) + "\n")
                child.stdin.flush()
        except OSError as error:
            _log.warning("renewer has ended", error=str(error))
            return False
        return True


class Keep:
    """What the child keeps up; it opens the database when it first renews."""

    def __init__(self, url: str, parent: int, name: str = "ingest") -> None:
        self._url = url
        self._name = name
        self._steps = StepWatch(partial(processor_seconds, parent))
        self._has_stored = False
        self._database: Database | None = None
        self._parent = parent
        self._held: dict[str, Lease] = {}
        self._beats: set[str] = set()

    def obey(self, order: dict[str, Any]) -> None:
        """Take up a lease, a heartbeat or a step, or drop one."""
        match order:
            case {"hold": lease}:
                self._held[lease["name"]] = Lease(**lease)
            case {"drop": name}:
                self._held.pop(name, None)
            case {"beat": worker_id}:
                self._beats.add(worker_id)
            case {"begin": step}:
                self._steps.begin(**step)
            case {"moved": key}:
                self._steps.move_on(key)
            case {"end": key}:
                self._steps.end(key)

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
        steps = self._steps.look()
        if steps or self._has_stored:
            IngestSteps(database).store(self._name, steps)
            self._has_stored = bool(steps)


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
    keep = Keep(start["url"], start["parent"], start["name"])
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
