"""`peewit certify`: measure a snapshot against its raw edges."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from peewit.service.cli.labels.table_files import parsed_settings
from peewit.service.cli.session import AsJson, GraphName, command_group, given, print_fields, say
from peewit.service.cli.solving.submission import require_valid, run_job
from peewit.service.tasks.kind_list import KINDS

app = command_group()

_KIND: Final = KINDS["certify"]


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
    values = parsed_settings(parameters) | given(snapshot=snapshot, passes=passes)
    require_valid(_KIND, None, values)
    run_job(name, _KIND, values, _tell_result, json=json)


def _tell_result(result: Mapping[str, Any]) -> None:
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
