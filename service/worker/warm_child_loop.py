"""Warm child's process: read tasks from the pipe, answer each, work ahead in between."""

import os
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Event, Thread

import structlog

from peewit.service.tasks.tasks_and_messages import Stop, Task
from peewit.service.tasks.warm_graphs import WarmGraphs
from peewit.service.worker.task_runner import TaskRunner
from peewit.solvers.kernels.compilation import load_numba

_log = structlog.get_logger(__name__)


class _Mailbox:
    """Reads the parent's messages in its own thread, so that a running task can be stopped.

    When the parent is gone its end of the pipe closes, and this process ends at once.
    """

    def __init__(self, connection: Connection) -> None:
        self.stop = Event()
        self._connection = connection
        self._tasks: SimpleQueue[Task] = SimpleQueue()
        Thread(target=self._listen, name="mailbox", daemon=True).start()

    def next_task(self) -> Task:
        """The next task, once there is one."""
        return self._tasks.get()

    def has_task(self) -> bool:
        """Whether a task waits."""
        return not self._tasks.empty()

    def _listen(self) -> None:
        while True:
            try:
                message = self._connection.recv()
            except (EOFError, OSError):
                os._exit(0)
            if isinstance(message, Stop):
                self.stop.set()
            else:
                self.stop.clear()
                self._tasks.put(message)


def serve(connection: Connection, *, memory_bytes: int, n_threads: int) -> None:
    """Answer tasks until the worker closes its end of the pipe; limits as of `WarmGraphs`."""
    mailbox = _Mailbox(connection)
    runner = TaskRunner(memory_bytes=memory_bytes, n_threads=n_threads)
    load_numba()
    while True:
        _work_ahead(runner.graphs, mailbox)
        task = mailbox.next_task()
        connection.send(runner.run(task, progress=connection.send, interrupted=mailbox.stop.is_set))


def _work_ahead(graphs: WarmGraphs, mailbox: _Mailbox) -> None:
    """Work ahead until the next task."""
    try:
        while not mailbox.has_task() and graphs.work_ahead(mailbox.has_task):
            pass
    except Exception:  # noqa: BLE001 - nobody asked for it: the next task says what is wrong, if anything is
        _log.exception("could not work ahead")
