"""Runs tasks, one after another, on graphs that stay in the memory of this process."""

import traceback
from threading import Lock
from time import monotonic
from typing import Final

import structlog
from structlog.contextvars import bound_contextvars

from peewit.service.database.disk_full_errors import is_disk_full
from peewit.service.tasks.job_kind import TaskContext
from peewit.service.tasks.kind_list import kind_of
from peewit.service.tasks.progress import Cancelled, Report
from peewit.service.tasks.tasks_and_messages import Advanced, Failed, Task, TaskOutcome
from peewit.service.tasks.warm_graphs import WarmGraphs
from peewit.solvers.kernels.compilation import told_of_compilations
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
"""Errors that another attempt, which captures and reads anew, may not meet."""

_log = structlog.get_logger(__name__)


class TaskRunner:
    """Runs tasks in the calling thread, one at a time.

    ``graphs`` are what earlier tasks left; the arguments are as of `WarmGraphs`.
    """

    def __init__(self, *, memory_bytes: int, n_threads: int) -> None:
        self.graphs = WarmGraphs(memory_bytes=memory_bytes, n_threads=n_threads)

    def run(self, task: Task, *, progress: Report, interrupted: Cancelled) -> TaskOutcome:
        """How a task ended.

        ``progress`` is called by one thread at a time; ``interrupted`` is asked often and stops the
        task.
        """
        reporting = Lock()  # threads of a task compile, too
        stage: str | None = None

        def tell(advanced: Advanced) -> None:
            nonlocal stage
            with reporting:
                stage = advanced.stage
                progress(advanced)

        def tell_compiling(_kernel: str) -> None:
            tell(Advanced(phase="compiling", stage=stage))

        context = TaskContext(graphs=self.graphs, report=tell, cancelled=interrupted)
        with bound_contextvars(job=task.job_id, attempt=task.attempt, graph_id=task.graph_id):
            began = monotonic()
            with told_of_compilations(tell_compiling):
                answer = run_task(task, context)
            _log.info(
                "task ended",
                task=type(task).__name__,
                answer=type(answer).__name__,
                seconds=round(monotonic() - began, 3),
            )
        return answer


def run_task(task: Task, context: TaskContext) -> TaskOutcome:
    """How the task ended; errors become `Failed`."""
    try:
        return kind_of(task.kind).run(task, context)
    except _PASSING as error:
        return Failed(
            error=_text(error),
            retry=True,
            trace=traceback.format_exc(),
            is_disk_full=is_disk_full(error),
        )
    except (ValueError, ArithmeticError) as error:
        return Failed(error=_text(error))
    except Exception as error:  # noqa: BLE001  the job fails, the process lives on
        return Failed(error=f"{type(error).__name__}: {error}", trace=traceback.format_exc())


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
