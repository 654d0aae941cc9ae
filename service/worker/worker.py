"""Worker: claims jobs and has warm children run them, one child and one job at a time per lane.

The fast lane's child starts as soon as somebody works on a graph, the other one with its first job.
Until then this process loads little: what attempts need is loaded with the first of them.

An attempt: claim, capture inputs, run, publish, finish. A thread renews the leases of running jobs,
whatever the children do; the last write of an attempt is refused if the lease was lost.
"""

import os
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from secrets import token_hex
from threading import Event, Lock
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import structlog
from sqlalchemy.exc import DBAPIError, OperationalError
from structlog.contextvars import bound_contextvars

from peewit.service.catalog import GraphNotFound
from peewit.service.database.disk_full_errors import is_disk_full
from peewit.service.database.engine import Database
from peewit.service.database.revision import Revision
from peewit.service.home import Home
from peewit.service.jobs.auto_solve import renew_given_up
from peewit.service.jobs.job import LANES, Job, JobStatus, Lane, LeaseLost
from peewit.service.jobs.worker_registry import WorkerRegistry
from peewit.service.settings import Settings
from peewit.service.tasks.forecast import Forecast, last_equal
from peewit.service.tasks.tasks_and_messages import Advanced, Done, Failed, TaskOutcome, TaskStopped
from peewit.service.worker.attempt_span import AttemptSpan, attempt_span
from peewit.service.worker.heartbeats import SoleWorker, heartbeats
from peewit.service.worker.warm_child import WarmChild
from peewit.solvers.late_modules import LateModule

if TYPE_CHECKING:
    from peewit.service.worker.task_runner import TaskRunner
    from peewit.service.worker.worker_metrics import Outcome, WorkerMetrics

GRACE_SECONDS: Final = 5.0
"""How long running jobs may go on after the worker was told to stop."""

_POLL_SECONDS: Final = 0.1
"""Interval of looking for commits; only after one may a job wait."""

_LAPSE_SECONDS: Final = 0.2
"""Interval of looking for jobs that another worker left, while there are unfinished ones."""

_RETRY_SECONDS: Final = 1.0
_FULL_DISK_SECONDS: Final = 5.0
"""How long a lane rests after it found the disk full."""

kind_list: Final = LateModule("peewit.service.tasks.kind_list")

_log = structlog.get_logger(__name__)


class _Attempt:
    """A job that this worker runs, and why it may have to stop."""

    def __init__(self, job: Job, forecast: Forecast, traced: AttemptSpan) -> None:
        self.job = job
        self.forecast = forecast
        self.traced = traced
        self.is_cancelled = Event()
        self.is_lost = Event()


class Worker:
    """Runs jobs of one database; ``settings`` are handed to its children."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.id = f"{socket.gethostname()}-{os.getpid()}-{token_hex(3)}"
        self._database = database
        self._settings = settings
        self._home = Home(database, settings)
        self._queue = self._home.jobs
        self._metrics: WorkerMetrics | None = None
        self._sole = SoleWorker(database, self.id)
        self._attempts: list[_Attempt] = []
        self._lock = Lock()
        self._is_worked_on = Event()
        self._bells: dict[Lane, Event] = {lane: Event() for lane in LANES}
        self._is_stopping = Event()
        self._gives_up = Event()

    def run(self, should_stop: Callable[[], bool], fault: Callable[[], str]) -> None:
        """Run jobs until told to stop; then let them end, or give them back after a grace time.

        ``should_stop`` is asked ten times a second. ``fault`` tells the metrics port why this
        worker is not well; empty when it is. Raises `AnotherWorkerRunsError` if another worker runs
        on the same SQLite database.
        """
        registry = WorkerRegistry(self._database)
        with (
            self._shown_metrics(fault) as port,
            self._sole.held(should_stop),
            self._heartbeats(
                lambda: registry.beat(self.id), self._sole.renew, self._renew_given_up
            ),
        ):
            registry.register(self.id, LANES)
            _log.info("worker started", worker=self.id, lanes=LANES, metrics_port=port)
            try:
                self._run_lanes(should_stop)
            finally:
                registry.remove(self.id)
                _log.info("worker stopped", worker=self.id)

    def run_one(
        self,
        job_id: str,
        *,
        child: WarmChild | None = None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Job:
        """The job after it ran to its end in ``child``, by default one that ends with it.

        The job is unchanged if another worker runs it, or an equal one, and queued if this was told
        to stop.
        """
        self.run_some([job_id], child=child, should_stop=should_stop)
        return self._queue.get(job_id)

    def run_some(
        self,
        job_ids: Sequence[str],
        *,
        child: WarmChild | None = None,
        here: "TaskRunner | None" = None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """Run some jobs, one after another, in one child, as `run_one` does.

        Small jobs run ``here``, in this process, if given. Their later attempts run in the child,
        which may die without harm to this process.
        """
        own = WarmChild("one-job", self._settings) if child is None else child
        with self._heartbeats():
            try:
                for job_id in job_ids:
                    while not should_stop():
                        job = self._queue.claim(self.id, LANES, job_id=job_id)
                        if job is None:
                            break
                        place: WarmChild | TaskRunner = own
                        if here is not None and job.attempt == 1 and self._is_small(job):
                            place = here
                        self._run_job(job, place, should_stop)
            finally:
                if child is None:
                    own.stop()

    def _is_small(self, job: Job) -> bool:
        """Whether this process may run the job."""
        try:
            graph = self._home.catalog.get_by_id(job.graph_id)
            kind = kind_list.KINDS.get(job.kind)
            return kind is not None and bool(kind.is_small(job, graph, self._home))
        except Exception as error:  # noqa: BLE001 - the attempt meets it again and fails the job
            _log.warning("size of a job unknown", job=job.id, error=str(error))
            return False

    def _run_lanes(self, should_stop: Callable[[], bool]) -> None:
        has_ended = Event()  # of a lane, which never ends by itself unless it is broken
        with ThreadPoolExecutor(len(LANES), thread_name_prefix="lane") as pool:
            lanes = [pool.submit(self._run_lane, lane) for lane in LANES]
            for future in lanes:
                future.add_done_callback(lambda _: has_ended.set())
            try:
                self._ring_bells(lambda: should_stop() or has_ended.is_set(), has_ended.wait)
            finally:
                self._is_stopping.set()
                for bell in self._bells.values():
                    bell.set()
                wait(lanes, timeout=GRACE_SECONDS)
                self._gives_up.set()
        for future in lanes:
            future.result()

    def _ring_bells(
        self, should_stop: Callable[[], bool], pause: Callable[[float], object]
    ) -> None:
        """Wake the lanes of unfinished jobs, as soon as something was committed."""
        rung: set[Lane] = set()
        rests_until = looked_at = 0.0
        catalog = self._home.catalog
        stamp: tuple[Any, ...] | None = None
        with closing(Revision(self._database)) as revision:
            while not should_stop() and not self._sole.is_displaced.is_set():
                present = monotonic()
                may_lapse = bool(rung) and present >= looked_at + _LAPSE_SECONDS
                try:
                    if present >= rests_until and (revision.has_changed() or may_lapse):
                        looked_at = present
                        rung = self._queue.unfinished_lanes()
                        if not self._is_worked_on.is_set():
                            before, stamp = stamp, catalog.stamp()
                            if before not in (None, stamp):
                                self._is_worked_on.set()
                                self._bells["fast"].set()
                        for lane in rung:
                            self._bells[lane].set()
                except DBAPIError as error:
                    _log.warning(_trouble(error), error=str(error))
                    rests_until = monotonic() + _RETRY_SECONDS
                    rung = set(LANES)  # what has changed was not seen
                pause(_POLL_SECONDS)

    def _run_lane(self, lane: Lane) -> None:
        child = WarmChild(lane, self._settings, on_start=partial(self._note_start, lane))
        bell = self._bells[lane]
        try:
            while True:
                bell.clear()
                if self._is_stopping.is_set():
                    break
                try:
                    if lane == "fast" and self._is_worked_on.is_set():
                        child.start()  # of long work the start of a process is a small part
                        kind_list.kind_of("solve")  # loads what attempts need
                    job = self._queue.claim(self.id, (lane,))
                    if job is None:
                        bell.wait()
                    else:
                        child.start()  # it loads its libraries while this process does
                        self._run_job(job, child, self._gives_up.is_set, waits_for_room=True)
                except DBAPIError as error:
                    _log.warning(_trouble(error), lane=lane, error=str(error))
                    self._is_stopping.wait(_RETRY_SECONDS)
        finally:
            child.stop()

    def _run_job(
        self,
        job: Job,
        child: "WarmChild | TaskRunner",
        gives_up: Callable[[], bool],
        *,
        waits_for_room: bool = False,
    ) -> None:
        """Make one attempt from its capture to its last write; log lines name it.

        With ``waits_for_room`` an attempt that found the disk full does not count.
        """
        with (
            bound_contextvars(
                job=job.id, attempt=job.attempt, lane=job.lane, graph_id=job.graph_id
            ),
            attempt_span(job) as traced,
        ):
            self._run_attempt(job, child, gives_up, traced, waits_for_room=waits_for_room)

    def _run_attempt(
        self,
        job: Job,
        child: "WarmChild | TaskRunner",
        gives_up: Callable[[], bool],
        traced: AttemptSpan,
        *,
        waits_for_room: bool,
    ) -> None:
        _log.info("attempt started", kind=job.kind, model=job.model)
        last = last_equal(self._queue, job.graph_id, job.kind, job.model, job.parameters)
        attempt = _Attempt(job, Forecast(last), traced)
        with self._lock:
            self._attempts.append(attempt)
        began = monotonic()
        outcome: Outcome = "lost"
        try:
            answer = self._outcome_of(attempt, child, gives_up)
            if waits_for_room and isinstance(answer, Failed) and answer.is_disk_full:
                _log.error("disk full", error=answer.error, again_in_seconds=_FULL_DISK_SECONDS)
                self._is_stopping.wait(_FULL_DISK_SECONDS)
                answer = TaskStopped()
            traced.stages.begin("publishing")
            ended = self._concluded(attempt, answer, gives_up)
            outcome = _outcome(ended, answer)
            traced.note_outcome(outcome)
            if self._metrics and isinstance(answer, Done) and "warm" in answer.result:
                self._metrics.note_solve(job, is_warm=answer.result["warm"])
            _log.info("attempt ended", status=ended.status, error=ended.error)
            if job.kind in kind_list.KINDS:  # another release may have submitted it
                kind_list.KINDS[job.kind].sweep(job.graph_id, self._home)
        except LeaseLost:
            _log.warning("attempt dropped, its lease was lost")
        except (KeyboardInterrupt, SystemExit):
            self._queue.release(job.id, job.attempt)
            outcome = "released"
            raise
        finally:
            if self._metrics:
                self._metrics.note_attempt(job, outcome, monotonic() - began)
            with self._lock:
                self._attempts.remove(attempt)

    def _outcome_of(
        self, attempt: _Attempt, child: "WarmChild | TaskRunner", gives_up: Callable[[], bool]
    ) -> TaskOutcome:
        job = attempt.job
        attempt.traced.stages.begin("capturing")
        try:
            graph = self._home.catalog.get_by_id(job.graph_id)
            task = kind_list.kind_of(job.kind).capture(job, graph, self._home)
        except (ValueError, GraphNotFound) as error:
            return Failed(error=str(error))

        def interrupted() -> bool:
            return attempt.is_lost.is_set() or attempt.is_cancelled.is_set() or gives_up()

        return child.run(task, progress=partial(self._note, attempt), interrupted=interrupted)

    def _note(self, attempt: _Attempt, advanced: Advanced) -> None:
        """Store the progress; learn whether to stop."""
        job, forecast = attempt.job, attempt.forecast
        if advanced.stage is not None:
            attempt.traced.stages.begin(advanced.stage)
        forecast.take(advanced)
        try:
            if self._queue.progress(
                job.id,
                job.attempt,
                phase=advanced.phase,
                fraction=forecast.fraction_done,
                seconds_left=forecast.seconds_left,
            ):
                attempt.is_cancelled.set()
        except LeaseLost:
            attempt.is_lost.set()
        except DBAPIError as error:
            _log.warning("progress not stored", error=str(error))

    def _concluded(
        self, attempt: _Attempt, answer: TaskOutcome, gives_up: Callable[[], bool]
    ) -> Job:
        """Make the last write, retried while the database is away, so that no work is lost."""
        while True:
            try:
                return self._conclude(attempt, answer)
            except OperationalError as error:
                if gives_up():
                    raise
                _log.warning("end not stored yet", job=attempt.job.id, error=str(error.orig))
            self._gives_up.wait(_RETRY_SECONDS)

    def _conclude(self, attempt: _Attempt, answer: TaskOutcome) -> Job:
        """Make the last write of the attempt."""
        job = attempt.job
        match answer:
            case Done(result=result):
                published: Job = kind_list.kind_of(job.kind).publish(job, result, self._home)
                return published
            case Failed(error=error, retry=retry, trace=trace):
                if trace:
                    _log.error("attempt failed", exception=trace)
                return self._queue.fail(job.id, job.attempt, error, retry=retry)
            case TaskStopped() if attempt.is_cancelled.is_set():
                return self._queue.cancelled(job.id, job.attempt)
            case TaskStopped():
                return self._queue.release(job.id, job.attempt)

    def _shown_metrics(self, fault: Callable[[], str]) -> AbstractContextManager[int | None]:
        """Count, and serve the metrics, if a port is set."""
        settings = self._settings
        if settings.metrics_port is None:
            return nullcontext()
        from peewit.service.metrics.store_metrics import metrics_server  # noqa: PLC0415 - see the module
        from peewit.service.worker.worker_metrics import WorkerMetrics  # noqa: PLC0415

        self._metrics = WorkerMetrics(self._database, settings)
        return metrics_server(
            self._metrics.registry, settings.metrics_port, settings.metrics_host, fault
        )

    def _note_start(self, lane: Lane) -> None:
        if self._metrics:
            self._metrics.note_start(lane)

    def _heartbeats(self, *others: Callable[[], None]) -> AbstractContextManager[None]:
        """Renew the leases of running jobs, call the others and see cancels, in a thread."""
        return heartbeats(self.id, self._see_cancels, self._renew, *others)

    def _renew_given_up(self) -> None:
        for job in renew_given_up(self._database):
            _log.warning("given up and asked for again", job=job.id, graph_id=job.graph_id)

    def _running(self) -> list[_Attempt]:
        with self._lock:
            return list(self._attempts)

    def _see_cancels(self) -> None:
        running = {attempt.job.id: attempt for attempt in self._running()}
        if running:
            for job_id in self._queue.asked_to_stop(running):
                running[job_id].is_cancelled.set()

    def _renew(self) -> None:
        for attempt in self._running():
            try:
                if self._queue.heartbeat(attempt.job.id, attempt.job.attempt):
                    attempt.is_cancelled.set()
            except LeaseLost:
                attempt.is_lost.set()


def _outcome(ended: Job, answer: TaskOutcome) -> "Outcome":
    """How the attempt counts."""
    match ended.status:
        case JobStatus.SUCCEEDED:
            return "succeeded"
        case JobStatus.FAILED:
            return "failed"
        case JobStatus.CANCELLED:
            return "cancelled"
        case _:
            return "retried" if isinstance(answer, Failed) else "released"


def _trouble(error: DBAPIError) -> str:
    return "disk full" if is_disk_full(error) else "database out of reach"
