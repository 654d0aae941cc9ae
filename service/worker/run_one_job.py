"""Waiting for jobs: commands and the demo run them themselves while no worker is alive."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Event
from time import monotonic, sleep
from typing import Final

from peewit.service.database.engine import Database
from peewit.service.inbox.confinement import confine_redirects
from peewit.service.jobs.job import Job
from peewit.service.jobs.queue import JobQueue
from peewit.service.jobs.worker_registry import WorkerRegistry
from peewit.service.settings import Settings
from peewit.service.worker.task_runner import TaskRunner
from peewit.service.worker.warm_child import WarmChild
from peewit.service.worker.worker import Worker

_FIRST_POLL_SECONDS: Final = 0.02
_LAST_POLL_SECONDS: Final = 0.5


def run_until_finished(
    database: Database,
    settings: Settings,
    job_id: str,
    *,
    child: WarmChild | None = None,
    on_change: Callable[[Job], None] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Job:
    """Wait for a job, running it here if no worker is alive; see `run_all_until_finished`."""
    (job,) = run_all_until_finished(
        database, settings, [job_id], child=child, on_change=on_change, should_stop=should_stop
    )
    return job


def run_all_until_finished(
    database: Database,
    settings: Settings,
    job_ids: Sequence[str],
    *,
    child: WarmChild | None = None,
    on_change: Callable[[Job], None] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[Job]:
    """Wait for jobs, running them whenever no worker is alive: small ones here, others in a child.

    Jobs run in the given order, all of them in ``child`` if there is one, which goes on; by default
    large ones run in a child that ends with them. ``on_change`` is told the first unfinished job
    whenever it has changed. Once ``should_stop``, a job that runs here goes back to the queue and
    the wait ends; otherwise all jobs are finished. The pause between two looks is a quarter of the
    time waited so far, at most half a second. Raises `UnknownJob`.
    """
    queue = JobQueue(database)
    registry = WorkerRegistry(database)
    worker = Worker(database, settings)
    is_over = Event()
    waiting = list(job_ids)
    running: Future[None] | None = None
    seen: Job | None = None
    started = monotonic()
    with ThreadPoolExecutor(1, thread_name_prefix="one-job") as pool:
        try:
            while True:
                job = queue.get(waiting[0])
                if on_change is not None and job != seen:
                    on_change(job)
                seen = job
                if job.status.is_final and len(waiting) > 1:
                    del waiting[0]
                    continue
                if job.status.is_final or should_stop():
                    break
                if running is not None and running.done():
                    running.result()
                    running = None
                if running is None and not registry.alive(job.lane):
                    here = None if child is not None else _runner(settings)
                    running = pool.submit(
                        worker.run_some,
                        waiting[:],
                        child=child,
                        here=here,
                        should_stop=is_over.is_set,
                    )
                pause = max((monotonic() - started) / 4, _FIRST_POLL_SECONDS)
                pause = min(pause, _LAST_POLL_SECONDS)
                if running is None:
                    sleep(pause)
                else:
                    wait([running], pause)
        finally:
            is_over.set()
    return [queue.get(job_id) for job_id in job_ids]


def _runner(settings: Settings) -> TaskRunner:
    """Runs tasks in this process as a child would."""
    confine_redirects(settings.source_hosts)
    return TaskRunner(memory_bytes=settings.child_memory_bytes, n_threads=settings.n_threads)
