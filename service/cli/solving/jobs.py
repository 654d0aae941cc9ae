"""`peewit jobs`: the queue, seen and stopped by people."""

from dataclasses import asdict
from typing import Annotated

import typer

from peewit.service.cli.operation_commands import add_command
from peewit.service.cli.session import (
    AsJson,
    command_group,
    open_home,
    print_fields,
    print_json,
    print_rows,
    say,
)
from peewit.service.jobs.job import LABEL_COLUMN, SHORT_ID, JobStatus
from peewit.service.operations.answers import answer_of
from peewit.service.operations.jobs import ID_DOC, cancel_job, get_job, list_jobs
from peewit.service.wire.jobs import Job, JobList

app = command_group("List, show, await and cancel jobs.")


def show_jobs(answer: JobList, **_: object) -> None:
    """A line for each, by the end of its id."""
    print_rows(
        ("job", "kind", "model", "label column", "status", "created"),
        (
            (
                each.id[-SHORT_ID:],
                each.kind,
                each.model,
                each.parameters.get(LABEL_COLUMN),
                each.status,
                each.created_at,
            )
            for each in answer.jobs
        ),
    )
    if answer.next_page is not None:
        say(f"`--page {answer.next_page}` goes on")


def show_job(job: Job, **_: object) -> None:
    """All that is known of it."""
    print_fields(asdict(job))


def show_cancelled(job: Job, **_: object) -> None:
    """How it stands, and what follows where it still runs."""
    asked = f", asked to stop; `peewit jobs wait {job.id[-SHORT_ID:]}` says when it has"
    say(f"job {job.id} {job.status}{asked if job.status == 'running' else ''}")


add_command(app, list_jobs, "list", show=show_jobs)
add_command(app, get_job, "show", show=show_job)
add_command(app, cancel_job, "cancel", show=show_cancelled)


@app.command()
def wait(
    job_id: Annotated[str, typer.Argument(metavar="JOB", help=ID_DOC)], json: AsJson = False
) -> None:
    """Wait until a job has ended; exit with 1 unless it succeeded.

    A signal ends the waiting, not the job. While no worker is alive the job runs here.
    """
    from peewit.service.cli.solving.submission import print_failure, wait_for_job  # noqa: PLC0415 - slow; the other commands do not need it

    with open_home() as home:
        queue = home.jobs
        job = queue.get(queue.full_id(job_id))
        if not job.status.is_final:
            job = wait_for_job(home, job, is_quiet=json, cancels=False)
    if json:
        print_json(asdict(answer_of(Job, job)))
    elif job.status is JobStatus.SUCCEEDED:
        say(f"job {job.id} {job.status}")
    else:
        print_failure(job)
    if job.status is not JobStatus.SUCCEEDED:
        raise typer.Exit(1)
