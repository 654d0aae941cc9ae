"""`peewit version`, and `health`, which containers call while they run."""

import platform
from http.client import HTTPException
from importlib.metadata import version as version_of
from socket import gethostname
from typing import Annotated, Literal
from urllib.request import urlopen

import typer

from peewit.service.cli.session import (
    AsJson,
    command_group,
    open_session,
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
    """Exit 0 when a role of this machine is well, else 1 with the reason."""
    reason = _api_fault(port) if role == "api" else _heartbeat_fault(role)
    if reason:
        say(f"peewit: {role} is not well: {reason}")
        raise typer.Exit(1)


def _api_fault(port: int) -> str:
    """Why the API of this machine cannot serve; empty when it can."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=_TIMEOUT_SECONDS):
            return ""
    except (OSError, HTTPException) as error:
        return str(error)


def _heartbeat_fault(role: Role) -> str:
    """Why the role seems dead on this machine; empty when its heartbeat is fresh."""
    from peewit.service.jobs.worker_registry import WorkerRegistry  # noqa: PLC0415 - version needs none

    prefix = f"ingest:{gethostname()}:" if role == "ingest" else f"{gethostname()}-"
    with open_session() as session:
        alive = WorkerRegistry(session.database).alive()
    return "" if any(each.id.startswith(prefix) for each in alive) else "no fresh heartbeat"
