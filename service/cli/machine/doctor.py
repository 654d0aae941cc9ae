"""`peewit doctor`: faults, and repair of those that are safe to repair."""

import time
from typing import Annotated

import typer
from sqlalchemy.exc import DBAPIError

from peewit.service.cli.session import AsJson, command_group, open_home, print_json, print_rows, say
from peewit.service.database.engine import DatabaseNotOpened
from peewit.service.database.migrations import DatabaseVersionError
from peewit.service.upkeep.doctor import Finding, Level, Patient, examine

app = command_group()


@app.command()
def doctor(
    repair: Annotated[bool, typer.Option("--repair", help="Put right what is safe.")] = False,
    json: AsJson = False,
) -> None:
    """Look at machine, database and files, also while everything runs; exit 1 for a fault.

    What might be data is never deleted: --repair moves it to lost+found in PEEWIT_HOME.
    """
    try:
        with open_home() as home:
            patient = Patient(database=home.database, settings=home.settings, now=time.time())
            findings = examine(patient, repair=repair)
    except (DBAPIError, DatabaseNotOpened, DatabaseVersionError) as error:
        reason = error.orig if isinstance(error, DBAPIError) else error
        text = " ".join(str(reason).split())
        if not isinstance(error, DatabaseVersionError):
            text = f"cannot be reached: {text}"
        findings = [Finding(check="database", level=Level.FAULT, text=text)]
    n_faults = sum(finding.level is Level.FAULT for finding in findings)
    if json:
        shown = [finding.to_json() for finding in findings]
        print_json({"healthy": n_faults == 0, "findings": shown})
    else:
        print_rows(
            ("check", "", "finding", "repaired"),
            ((each.check, each.level.value, each.text, each.repaired) for each in findings),
        )
        if any(each.repair and not each.repaired for each in findings):
            say("`peewit doctor --repair` can put some of this right")
    raise typer.Exit(1 if n_faults else 0)
