"""`peewit jobs`: the queue, seen and stopped by people."""

from dataclasses import asdict
from typing import Annotated

import typer

from peewit.service.cli.session import (
    AsJson,
    command_group,
    open_home,
    print_fields,
    print_json,
    print_rows,
    tell,
)
from peewit.service.jobs.job import LABEL_COLUMN, JobStatus

app = command_group("Jobs of the queue.")

JobId = Annotated[str, typer.Argument(metavar="JOB", help="Its id, or the end of it.")]


@app.command("list")
def list_jobs(
    graph: Annotated[str | None, typer.Option(help="Name of a graph; of all by default.")] = None,
    status: Annotated[JobStatus | None, typer.Option(help="Where they stand.")] = None,
    kind: Annotated[str | None, typer.Option(help="What they do: solve, tune, certify ...")] = None,
    n_jobs: Annotated[int, typer.Option("-n", min=1, help="Most jobs.")] = 50,
    json: AsJson = False,
) -> None:
    """List jobs, newest first, by the end of their ids."""
    with open_home() as home:
        graph_id = None if graph is None else home.graph(graph).id
        page = home.jobs.list(graph_id=graph_id, status=status, kind=kind, limit=n_jobs)
    found = page.jobs
    if json:
        print_json(found)
        return
    print_rows(
        ("job", "kind", "model", "label column", "status", "created"),
        (
            (
                each.short_id,
                each.kind,
                each.model,
                each.parameters.get(LABEL_COLUMN),
                str(each.status),
                each.created_at,
            )
            for each in found
        ),
    )


@app.command()
def show(job_id: JobId, json: AsJson = False) -> None:
    """Show one job."""
    with open_home() as home:
        queue = home.jobs
        job = queue.get(queue.resolve(job_id))
    if json:
        print_json(job)
    else:
        print_fields(asdict(job))


@app.command()
def cancel(job_id: JobId, json: AsJson = False) -> None:
    """Cancel a waiting job at once, ask a running one to stop."""
    with open_home() as home:
        queue = home.jobs
        job = queue.cancel(queue.resolve(job_id))
    tell(f"job {job.id} {job.status}", job, as_json=json)


@app.command()
def wait(job_id: JobId, json: AsJson = False) -> None:
    """Wait until a job has ended; exit with 1 unless it succeeded.

    A signal ends the waiting, not the job. While no worker is alive the job runs here.
    """
    from peewit.service.cli.submission import print_failure, wait_for_job  # noqa: PLC0415 - slow; the other commands do not need it

    with open_home() as home:
        queue = home.jobs
        job = queue.get(queue.resolve(job_id))
        if not job.status.is_final:
            job = wait_for_job(home, job, is_quiet=json, cancels=False)
    if json:
        print_json(job)
    elif job.status is JobStatus.SUCCEEDED:
        tell(f"job {job.id} {job.status}", job, as_json=False)
    else:
        print_failure(job)
    if job.status is not JobStatus.SUCCEEDED:
        raise typer.Exit(1)
