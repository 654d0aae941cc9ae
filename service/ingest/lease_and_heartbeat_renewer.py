"""Renewer: a child process that renews leases and heartbeats while its parent is blocked.

A factorization keeps the interpreter's lock, for minutes on a busy machine, and meanwhile no thread
of its process renews anything; the child has its own interpreter. It ends with its parent, and
renews nothing while that is stopped (SIGSTOP), so that another may take over. It also stores what
its parent does, and for how long that has made no progress.

A daemon has it only while a lease is held or a step lasts, and for some minutes more.
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
"""Less than a third of a lease, and of a worker's longest silence."""

PROGRESS_SECONDS: Final = 1.0
"""Shortest time between two reports of progress within a step."""

RESTART_SECONDS: Final = 30.0
"""Between two starts of a child that has ended, as when the system killed it for want of memory."""

LASTING_SECONDS: Final = 2.0
"""A step without progress for so long is stored."""

IDLE_SECONDS: Final = 300.0
"""How long a daemon keeps a child that it does not need."""

_log = structlog.get_logger(__name__)


class Renewer:
    """The child, seen from its parent; a context manager.

    The child opens the database itself. It starts after ``delay_seconds`` unless `start` comes
    before, so that short work needs none; with None it starts with the first lease, or by `tend`.
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
        """Start the child without waiting for it; the threads that renew begin as well."""
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
        """End the child."""
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
        """Start the child if a step lasts, and end it if it was not needed for long."""
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
        """Store a step in place of the key's last one; the same step again counts as progress.

        ``key`` tells the steps of this process apart. ``threads`` are native ids of the threads
        that do the step, empty for all. The others are as of
        `peewit.service.jobs.ingest_steps.StepNow`.
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
        """Note progress of the present step."""
        now = monotonic()
        if now - self._moved_at.get(key, now) >= PROGRESS_SECONDS:
            self._moved_at[key] = now
            with self._lock:
                self._send({"moved": key})

    def end(self, key: str) -> None:
        """Forget a step."""
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
        """Write an order; if the child has ended, start it anew with all standing orders."""
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
        """Whether the child took an order; without it the threads that renew go on."""
        try:
            if child.stdin is not None:
                child.stdin.write(json.dumps(order) + "\n")
                child.stdin.flush()
        except OSError as error:
            _log.warning("renewer has ended", error=str(error))
            return False
        return True


class Keep:
    """What the child renews and stores; it opens the database when it first renews."""

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
        """Renew everything; if the database is away, only a line is logged."""
        if is_stopped(self._parent):
            return
        try:
            self._database = self._database or open_database(self._url)
            self._renew(self._database)
        except (SQLAlchemyError, DatabaseNotOpened) as error:
            _log.warning("nothing renewed", error=redacted(str(error)))

    def close(self) -> None:
        """Close the database."""
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
    """Obey one order per line, the first of which names the database, until the lines end."""
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
