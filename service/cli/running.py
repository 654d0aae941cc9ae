"""Submit a job and wait for it, telling what it is doing."""

import typer

from service.cli.session import INTERRUPTED, Session, say
from service.job_queue import DatabaseJobQueue
from service.jobs import Job, JobSpec
from service.lifetime import StopSignal
from service.worker import run_until_finished


def finished(session: Session, spec: JobSpec, *, is_quiet: bool) -> Job:
    """The job once it is finished; it runs here while no worker is alive.

    A signal cancels it and ends the command.
    """
    queue = DatabaseJobQueue(session.database)
    job = queue.submit(spec)
    with StopSignal() as stop:
        job = run_until_finished(
            session.database,
            session.settings,
            job.id,
            on_change=None if is_quiet else _Teller(),
            should_stop=stop,
        )
    if not job.status.is_final:
        queue.cancel(job.id)
        say(f"stopped; job {job.id} is cancelled")
        raise typer.Exit(INTERRUPTED)
    return job


def tell_failure(job: Job) -> None:
    """Why a job has no result."""
    say(f"lapwing: job {job.id} {job.status}" + (f": {job.error}" if job.error else ""))


class _Teller:
    """Says each new state of a job once, on stderr."""

    def __init__(self) -> None:
        self._said = ""

    def __call__(self, job: Job) -> None:
        state = str(job.status) if job.phase is None else f"{job.status}: {job.phase}"
        if state != self._said and not job.status.is_final:
            say(f"job {job.id} {state}")
        self._said = state
