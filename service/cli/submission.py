"""Submission of a job: wait for it, and print its state."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import typer
from rich.text import Text

from peewit.service.cli.progress import LiveLine
from peewit.service.cli.session import (
    INTERRUPTED,
    Session,
    open_session,
    print_json,
    say,
    stderr_console,
)
from peewit.service.jobs.job import Job, JobStatus
from peewit.service.jobs.queue import JobQueue
from peewit.service.process_lifetime import StopSignal
from peewit.service.tasks.job_kind import Kind
from peewit.service.tasks.stores import JobStores
from peewit.service.worker.run_one_job import run_until_finished


def run_job(
    name: str,
    kind: Kind[Any],
    values: Mapping[str, Any],
    tell_result: Callable[[Mapping[str, Any]], None],
    *,
    model: str | None = None,
    priority: int = 0,
    json: bool,
) -> None:
    """Run a job of a graph to its end and say what came out; exit with 1 unless it succeeded."""
    with open_session() as session:
        graph = session.graph(name)
        spec = kind.spec(graph.id, model=model, parameters=values, priority=priority)
        kind.admit(spec, graph, JobStores.create(session.database, session.settings))
        job = wait_for_job(session, JobQueue(session.database).submit(spec), is_quiet=json)
    if json:
        print_json(job)
    elif job.result is None:
        print_failure(job)
    else:
        tell_result(job.result)
    if job.status is not JobStatus.SUCCEEDED:
        raise typer.Exit(1)


def require_valid(
    kind: Kind[Any], model: str | None, values: Mapping[str, Any], *, hint: str | None = None
) -> None:
    """Wrong usage where a job of the kind may not be asked this."""
    try:
        kind.check(model, values)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=hint) from error


def wait_for_job(session: Session, job: Job, *, is_quiet: bool, cancels: bool = True) -> Job:
    """Wait until a submitted job is finished; it runs here while no worker is alive.

    A signal ends the command, and the job unless it is another's.
    """
    with StopSignal() as stop, _StatePrinter() as teller:
        job = run_until_finished(
            session.database,
            session.settings,
            job.id,
            on_change=None if is_quiet else teller,
            should_stop=stop,
        )
    if not job.status.is_final and not cancels:
        say(f"stopped waiting; job {job.id} is {job.status}")
        raise typer.Exit(INTERRUPTED)
    if not job.status.is_final:
        JobQueue(session.database).cancel(job.id)
        say(f"stopped; job {job.id} is cancelled")
        raise typer.Exit(INTERRUPTED)
    return job


def print_failure(job: Job) -> None:
    """Print why a job has no result."""
    say(f"peewit: job {job.id} {job.status}" + (f": {job.error}" if job.error else ""))


class _StatePrinter(LiveLine):
    """Prints each new state of a job once, on stderr; on a terminal, its progress, too."""

    def __init__(self) -> None:
        super().__init__(stderr_console())
        self._said = ""

    def __call__(self, job: Job) -> None:
        if job.status.is_final:
            return
        state = str(job.status) if job.phase is None else f"{job.status}: {job.phase}"
        if state != self._said:
            self._say(f"job {job.id} {state}")
            self._said = state
        if self._live.is_started:
            self._live.update(Text(_how_far(job)), refresh=True)


def _how_far(job: Job) -> str:
    """Part of the job that is done, and the time left."""
    told = [] if job.progress is None else [f"{job.progress:.0%} done"]
    if job.expected_end_at is not None:
        seconds = (job.expected_end_at - datetime.now(UTC)).total_seconds()
        told.append(f"about {max(seconds, 0.0):.0f} s left")
    return ", ".join(told)
