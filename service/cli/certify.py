"""`peewit certify`: measure a snapshot against its raw edges."""

from typing import Annotated, Any

import typer

from peewit.service.cli.session import (
    AsJson,
    GraphName,
    command_group,
    open_session,
    print_fields,
    print_json,
    say,
)
from peewit.service.cli.submission import print_failure, run_job
from peewit.service.cli.tables import parsed_settings
from peewit.service.jobs.job import Job, JobSpec, JobStatus
from peewit.service.tasks.certify import validate_certify

app = command_group()


@app.command()
def certify(
    name: GraphName,
    snapshot: Annotated[
        int | None, typer.Option(help="Which; the newest when the job starts by default.")
    ] = None,
    passes: Annotated[int | None, typer.Option(help="Most passes over the raw edges.")] = None,
    parameters: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="gap, probability, ...; repeatable."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Measure how far a snapshot is from the raw edges that it stands for.

    The job goes through the queue and reads all edges a dozen times or more. While no worker is
    alive this command runs it itself.
    """
    given: dict[str, Any] = {"snapshot": snapshot, "passes": passes}
    values = {field: value for field, value in given.items() if value is not None}
    values = parsed_settings(parameters) | values
    try:
        validate_certify(values)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    with open_session() as session:
        spec = JobSpec(
            graph_id=session.graph(name).id,
            kind="certify",
            model=None,
            parameters=values,
            lane="heavy",
        )
        job = run_job(session, spec, is_quiet=json)
    if json:
        print_json(job)
    else:
        _tell_outcome(job)
    if job.status is not JobStatus.SUCCEEDED:
        raise typer.Exit(1)


def _tell_outcome(job: Job) -> None:
    if job.result is None:
        print_failure(job)
        return
    result = job.result
    print_fields(
        {
            "snapshot": result["snapshot"],
            "epsilon certified": result["epsilon_certified"],
            "no epsilon below": result["epsilon_least"],
            "probability": result["probability"],
            "raw edges": result["n_edges"],
            "passes": result["n_passes"],
            "seconds": result["seconds"],
            "status": result["status"],
        }
    )
    if result["status"] != "converged":
        say(f"note: {result['message']}")
