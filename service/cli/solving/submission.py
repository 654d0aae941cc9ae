"""Submission of a job: wait for it, and print its state."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import typer
from rich.text import Text

from peewit.service.cli.progress import LiveLine
from peewit.service.cli.session import INTERRUPTED, open_home, print_json, say, stderr_console
from peewit.service.home import Home
from peewit.service.jobs.job import Job, JobStatus
from peewit.service.operations.answers import answer_of
from peewit.service.process_lifetime import StopSignal
from peewit.service.tasks.job_kind import Kind
from peewit.service.tasks.solving.solve_columns import submit_columns
from peewit.service.wire import jobs as wire
from peewit.service.worker.run_one_job import run_all_until_finished


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
    """Run a job of a graph to its end and print its result; exit with 1 unless it succeeded."""
    with open_home() as home:
        graph = home.graph(name)
        spec = kind.spec(graph.id, model=model, parameters=values, priority=priority)
        kind.admit(spec, graph, home)
        job = wait_for_job(home, home.jobs.submit(spec), is_quiet=json)
    if json:
        print_json(answer_of(wire.Job, job))
    else:
        _tell_end(job, tell_result)
    if job.status is not JobStatus.SUCCEEDED:
        raise typer.Exit(1)


def run_columns(
    name: str,
    columns: Sequence[str],
    values: Mapping[str, Any],
    tell_result: Callable[[str, Mapping[str, Any]], None],
    *,
    model: str,
    priority: int,
    json: bool,
) -> None:
    """Solve several label columns as `run_job` runs one job; ``tell_result`` takes the column."""
    with open_home() as home:
        submitted = submit_columns(
            home, home.graph(name), columns, model=model, parameters=values, priority=priority
        )
        jobs = wait_for_jobs(home, submitted, is_quiet=json)
    if json:
        answers = [answer_of(wire.Job, each) for each in jobs]
        print_json(wire.JobList(jobs=answers, next_page=None))
    else:
        for column, job in zip(columns, jobs, strict=True):
            say(f"label column {column!r}:" if column else "labels without a column's name:")
            _tell_end(job, partial(tell_result, column))
    if any(job.status is not JobStatus.SUCCEEDED for job in jobs):
        raise typer.Exit(1)


def _tell_end(job: Job, tell_result: Callable[[Mapping[str, Any]], None]) -> None:
    if job.result is None:
        print_failure(job)
    else:
        tell_result(job.result)


def require_valid(
    kind: Kind[Any], model: str | None, values: Mapping[str, Any], *, hint: str | None = None
) -> None:
    """Wrong usage if a job of the kind cannot have these parameters."""
    try:
        kind.check(model, values)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=hint) from error


def wait_for_job(home: Home, job: Job, *, is_quiet: bool, cancels: bool = True) -> Job:
    """Wait until a submitted job is finished; it runs here while no worker is alive.

    A signal ends the command, and with ``cancels`` the job.
    """
    (ended,) = wait_for_jobs(home, [job], is_quiet=is_quiet, cancels=cancels)
    return ended


def require_success(home: Home, job: Job, *, is_quiet: bool) -> None:
    """Wait for a job that must succeed first; else end the command."""
    ended = wait_for_job(home, job, is_quiet=is_quiet)
    if ended.status is not JobStatus.SUCCEEDED:
        print_failure(ended)
        raise typer.Exit(1)


def wait_for_jobs(
    home: Home, jobs: Sequence[Job], *, is_quiet: bool, cancels: bool = True
) -> list[Job]:
    """Wait for several jobs, one after another, as `wait_for_job` does."""
    with StopSignal() as stop, _StatePrinter() as teller:
        ended = run_all_until_finished(
            home.database,
            home.settings,
            [job.id for job in jobs],
            on_change=None if is_quiet else teller,
            should_stop=stop,
        )
    unfinished = [job for job in ended if not job.status.is_final]
    for job in unfinished:
        if cancels:
            home.jobs.cancel(job.id)
            say(f"stopped; job {job.id} is cancelled")
        else:
            say(f"stopped waiting; job {job.id} is {job.status}")
    if unfinished:
        raise typer.Exit(INTERRUPTED)
    return ended


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
    parts = [] if job.progress is None else [f"{job.progress:.0%} done"]
    if job.expected_end_at is not None:
        seconds = (job.expected_end_at - datetime.now(UTC)).total_seconds()
        parts.append(f"about {max(seconds, 0.0):.0f} s left")
    return ", ".join(parts)
