"""`peewit version`, and `health`, which containers call while they run."""

import platform
from http.client import HTTPException
from importlib.metadata import version as version_of
from socket import gethostname
from typing import Annotated, Literal
from urllib.request import urlopen

import typer
from sqlalchemy.exc import DBAPIError

from peewit.service.cli.session import (
    AsJson,
    command_group,
    open_home,
    print_fields,
    print_json,
    say,
)

app = command_group()

_SHOWN_PACKAGES = ("numpy", "scipy", "numba", "pyarrow", "dask", "approx-chol", "SQLAlchemy")
_TIMEOUT_SECONDS = 8.0

Role = Literal["api", "ingest", "worker"]


@app.command()
def version(json: AsJson = False) -> None:
    """Show versions."""
    versions = {"peewit": version_of("peewit"), "python": platform.python_version()}
    versions |= {name: version_of(name) for name in _SHOWN_PACKAGES}
    if json:
        print_json(versions)
    else:
        print_fields(versions)


@app.command(hidden=True)
def health(
    role: Annotated[Role, typer.Argument(help="What runs here.")],
    port: Annotated[int, typer.Option(help="Where the API listens.")] = 8000,
) -> None:
    """Exit 0 when a role of this machine is well, else 1 with the reason.

    Ingest is not well when it stands still. Sources that fail are named, but do not exit with 1: a
    new start would not mend them.
    """
    match role:
        case "api":
            reason = _api_fault(port)
        case "ingest":
            reason, notes = _ingest_fault()
            for note in notes:
                say(f"peewit: {note}")
        case "worker":
            reason = _heartbeat_fault(f"{gethostname()}-")
    if reason:
        say(f"peewit: {role} is not well: {reason}")
        raise typer.Exit(1)


def role_fault(role: Role) -> str:
    """What `peewit health` says of ingest or a worker, for the process that has the role."""
    try:
        return _ingest_fault()[0] if role == "ingest" else _heartbeat_fault(f"{gethostname()}-")
    except (OSError, DBAPIError) as error:
        return " ".join(str(error).split())


def _api_fault(port: int) -> str:
    """Why the API of this machine cannot serve; empty when it can."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=_TIMEOUT_SECONDS):
            return ""
    except (OSError, HTTPException) as error:
        return str(error)


def _heartbeat_fault(prefix: str) -> str:
    """Why processes named so seem dead; empty when one has a fresh heartbeat."""
    from peewit.service.jobs.worker_registry import WorkerRegistry  # noqa: PLC0415 - version needs none

    with open_home() as home:
        alive = WorkerRegistry(home.database).alive()
    return "" if any(each.id.startswith(prefix) for each in alive) else "no fresh heartbeat"


def _ingest_fault() -> tuple[str, list[str]]:
    """Why ingest on this machine seems dead or stuck, and what else fails or takes long."""
    from peewit.service.jobs.ingest_steps import IngestSteps  # noqa: PLC0415 - version needs none

    prefix = f"ingest:{gethostname()}:"
    with open_home() as home:
        store, stall_seconds = IngestSteps(home.database), home.settings.stall_seconds
        steps = [each for each in store.present() if each.process.startswith(prefix)]
        faults = store.faults(stall_seconds)
    stuck = [each for each in faults if each.process is not None]
    notes = [str(fault) for fault in faults if fault.error is not None]
    notes += [
        f"graph {step.graph}: {step.doing(stall_seconds)}"
        for step in steps
        if step.graph and stall_seconds <= step.step_seconds and not step.is_stuck(stall_seconds)
    ]
    mine = [str(each) for each in stuck if str(each.process).startswith(prefix)]
    if mine:
        return "; ".join(mine), notes
    # one pass of a command has no heartbeat
    return "" if steps else _heartbeat_fault(prefix), notes
