"""Warm children: one process per lane that keeps prepared graphs in memory between jobs.

Numerics run outside the worker so that it can always heartbeat, cancel and clean up after a crash.
A child is spawned, never forked, and dies with its parent, whose end of the pipe closes.
"""

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from math import inf
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from time import monotonic
from typing import Final

from peewit.service.logs import LogChoice, configure_logging, log_choice
from peewit.service.process_lifetime import give_way
from peewit.service.settings import Settings, prepare_environment
from peewit.service.tasks.tasks_and_messages import (
    Advanced,
    Failed,
    Stop,
    Task,
    TaskOutcome,
    TaskStopped,
)

KILL_AFTER_SECONDS: Final = 1.0
"""How long a child that was told to stop may run before it is killed."""

_POLL_SECONDS: Final = 0.05
_GROUP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals to a whole process group; the worker acts on them and ends its children itself."""

_SPAWN: Final = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Running:
    """A process and our end of its pipe."""

    process: BaseProcess
    connection: Connection

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.process.close()
        self.connection.close()


class WarmChild:
    """Runs one task at a time in a process that stays, and restarts it after it died.

    One thread at a time may use it. ``name`` is for lists of processes; ``settings`` give the
    child's environment and memory; ``on_start`` is called at every start of the process.
    """

    def __init__(
        self, name: str, settings: Settings, *, on_start: Callable[[], None] = lambda: None
    ) -> None:
        self._name = name
        self._settings = settings
        self._on_start = on_start
        self._running: _Running | None = None

    @property
    def pid(self) -> int | None:
        """Id of the process, None while there is none."""
        return None if self._running is None else self._running.process.pid

    def start(self) -> None:
        """Start the process unless it runs; it loads its libraries while it waits for a task."""
        self._ensure_started()

    def run(
        self, task: Task, *, progress: Callable[[Advanced], None], interrupted: Callable[[], bool]
    ) -> TaskOutcome:
        """How a task ended; `Failed` with ``retry`` if the process died.

        ``interrupted`` is asked often; once true the child is told to stop, and killed if it has
        not stopped `KILL_AFTER_SECONDS` later.
        """
        running = self._ensure_started()
        try:
            running.connection.send(task)
            return self._answer(running.connection, progress, interrupted)
        except (EOFError, OSError):  # the pipe broke
            return Failed(error=self._cause_of_death(running), retry=True)
        except BaseException:
            self.stop()  # it would answer the next task with this one's result
            raise

    def stop(self) -> None:
        """End the process at once, if there is one."""
        running, self._running = self._running, None
        if running is not None:
            running.kill()

    def _ensure_started(self) -> _Running:
        if self._running is not None and self._running.process.is_alive():
            return self._running
        self.stop()
        ours, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(
            target=_child_main,
            args=(theirs, self._settings, log_choice()),
            name=f"peewit-{self._name}",
        )
        with _block_signals():
            process.start()
        theirs.close()  # so that the pipe breaks when the child dies
        self._running = _Running(process=process, connection=ours)
        self._on_start()
        return self._running

    def _answer(
        self,
        connection: Connection,
        progress: Callable[[Advanced], None],
        interrupted: Callable[[], bool],
    ) -> TaskOutcome:
        deadline = inf
        while True:
            if deadline == inf and interrupted():
                connection.send(Stop())
                deadline = monotonic() + KILL_AFTER_SECONDS
            if monotonic() > deadline:
                self.stop()
                return TaskStopped()
            if not connection.poll(_POLL_SECONDS):
                continue
            message: Advanced | TaskOutcome = connection.recv()
            if not isinstance(message, Advanced):
                return message
            if deadline == inf:
                progress(message)

    def _cause_of_death(self, running: _Running) -> str:
        """Why the process is gone, now that its pipe has broken."""
        running.process.join(KILL_AFTER_SECONDS)
        code = running.process.exitcode
        self.stop()
        if code is None:
            return "the solving process closed its pipe"
        if code >= 0:
            return f"the solving process exited with code {code}"
        name = signal.Signals(-code).name
        hint = ", perhaps for want of memory" if -code == signal.SIGKILL else ""
        return f"the solving process was killed by {name}{hint}"


@contextmanager
def _block_signals() -> Iterator[None]:
    """Start a process with signals to its group blocked.

    Otherwise it would die of one, with a traceback, in the second before it can ignore them.
    """
    resource_tracker.ensure_running()  # its own start would let the signals through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _GROUP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _child_main(connection: Connection, settings: Settings, logs: LogChoice) -> None:
    """Main of the new process; imports late, as numba reads the environment at import."""
    from peewit.service.inbox.confinement import confine_redirects  # noqa: PLC0415 - not the parent's

    for number in _GROUP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # which also drops one that has come meanwhile
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _GROUP_SIGNALS)
    give_way()
    configure_logging(logs.level, logs.log_format)
    prepare_environment(settings)
    confine_redirects(settings.source_hosts)  # certificates and refining read sources again
    import_module("peewit.service.worker.warm_child_loop").serve(
        connection, memory_bytes=settings.child_memory_bytes, n_threads=settings.n_threads
    )
