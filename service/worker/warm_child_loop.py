"""Warm child's process: read tasks from the pipe, answer each, work ahead in between."""

import os
import traceback
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Event, Lock, Thread
from time import monotonic
from typing import Final

import structlog
from structlog.contextvars import bound_contextvars

from peewit.service.database.disk_full_errors import is_disk_full
from peewit.service.tasks.job_kind import Child
from peewit.service.tasks.kind_list import kind_of
from peewit.service.tasks.tasks_and_messages import Advanced, Answer, Failed, Stop, Task
from peewit.service.tasks.warm_graphs import WarmGraphs
from peewit.solvers.kernels.compilation import load_numba, told_of_compilations
from peewit.streaming.cluster.cluster_error import ClusterError
from peewit.streaming.features.store import FeaturesNotFound
from peewit.streaming.nodes.index import NodeCollision
from peewit.streaming.nodes.segments import CorruptSegment
from peewit.streaming.snapshots.store import SnapshotNotFound

_PASSING: Final = (
    OSError,
    MemoryError,
    ClusterError,
    CorruptSegment,
    FeaturesNotFound,
    NodeCollision,
    SnapshotNotFound,
)
"""What another attempt, which captures and reads anew, may not meet again."""

_log = structlog.get_logger(__name__)


class _Mailbox:
    """Reads the parent's messages in a thread of its own, so that a running task can be stopped.

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
    """Answer tasks until the other end of the pipe is closed.

    Parameters
    ----------
    connection : multiprocessing.connection.Connection
        To the worker.
    memory_bytes, n_threads : int
        See `WarmGraphs`.
    """
    mailbox = _Mailbox(connection)
    graphs = WarmGraphs(memory_bytes=memory_bytes, n_threads=n_threads)
    sending = Lock()  # threads of a task compile, too
    stage: str | None = None

    def report(advanced: Advanced) -> None:
        nonlocal stage
        with sending:
            stage = advanced.stage
            connection.send(advanced)

    def tell_compiling(_kernel: str) -> None:
        report(Advanced(phase="compiling", stage=stage))

    child = Child(graphs=graphs, report=report, cancelled=mailbox.stop.is_set)
    load_numba()
    while True:
        _work_ahead(graphs, mailbox)
        task = mailbox.next_task()
        with bound_contextvars(job=task.job_id, attempt=task.attempt, graph_id=task.graph_id):
            began = monotonic()
            with told_of_compilations(tell_compiling):
                answer = _answer(task, child)
            _log.info(
                "task ended",
                task=type(task).__name__,
                answer=type(answer).__name__,
                seconds=round(monotonic() - began, 3),
            )
            connection.send(answer)


def _work_ahead(graphs: WarmGraphs, mailbox: _Mailbox) -> None:
    """Spend the time until the next task on what it may need."""
    try:
        while not mailbox.has_task() and graphs.work_ahead(mailbox.has_task):
            pass
    except Exception:  # noqa: BLE001 - nobody asked for it: the next task says what is wrong, if anything is
        _log.exception("could not work ahead")


def _answer(task: Task, child: Child) -> Answer:
    """How the task ended; what goes wrong is an answer too."""
    try:
        return kind_of(task.kind).run(task, child)
    except _PASSING as error:
        return Failed(
            error=_text(error),
            retry=True,
            trace=traceback.format_exc(),
            is_disk_full=is_disk_full(error),
        )
    except (ValueError, ArithmeticError) as error:
        return Failed(error=_text(error))
    except Exception as error:  # noqa: BLE001  the job fails, the child lives on
        return Failed(error=f"{type(error).__name__}: {error}", trace=traceback.format_exc())


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
