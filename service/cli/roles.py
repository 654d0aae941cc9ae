"""`lapwing serve`, `api` and `worker`: the processes that stay."""

from typing import Annotated

import typer
import uvicorn

from service.binding import check_binding
from service.cli.session import command_group, open_session, say
from service.lifetime import StopSignal, stop_when_stdin_ends
from service.logs import configure_logging
from service.settings import Settings
from service.supervisor import Supervisor, lapwing_roles
from service.worker import Worker

app = command_group()

Host = Annotated[str, typer.Option(help="Address to listen on; beyond loopback a key is needed.")]
Port = Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)]
Workers = Annotated[int, typer.Option(help="Processes of the API.", min=1)]
UntilStdinEnds = Annotated[bool, typer.Option("--until-stdin-ends", hidden=True)]
"""Given by the supervisor, so that a child ends when the supervisor does."""

_DRAIN_SECONDS = 5
"""How long requests in hand may take once the API is told to stop."""


@app.command()
def serve(host: Host = "127.0.0.1", port: Port = 8000, workers: Workers = 1) -> None:
    """Run api, ingest and worker on this machine.

    Ctrl-C or SIGTERM stops all three; one that dies is started again.
    """
    run_serve(Settings(), host, port, workers)


@app.command()
def api(
    host: Host = "127.0.0.1",
    port: Port = 8000,
    workers: Workers = 1,
    until_stdin_ends: UntilStdinEnds = False,
) -> None:
    """Answer HTTP requests."""
    settings = Settings()
    configure_logging(settings.log_level)
    with StopSignal():  # uvicorn hands the signal on once it has stopped
        if until_stdin_ends:
            stop_when_stdin_ends()
        _check(settings, host, port)
        uvicorn.run(
            "service.cli.application:application",
            factory=True,
            host=host,
            port=port,
            workers=workers,
            log_config=None,
            timeout_graceful_shutdown=_DRAIN_SECONDS,
        )


@app.command()
def worker(until_stdin_ends: UntilStdinEnds = False) -> None:
    """Run the jobs that wait in the queue."""
    settings = Settings()
    configure_logging(settings.log_level)
    with StopSignal() as stop, open_session(settings) as session:
        if until_stdin_ends:
            stop_when_stdin_ends()
        Worker(session.database, settings).run(stop)


def run_serve(settings: Settings, host: str, port: int, n_api_processes: int) -> None:
    """Supervise the roles with these settings until a signal comes."""
    configure_logging(settings.log_level)
    roles = lapwing_roles(settings, host=host, port=port, n_api_processes=n_api_processes)
    with StopSignal() as stop:
        _check(settings, host, port)
        say(f"Lapwing listens on http://{host}:{port} (documentation at /docs); Ctrl-C stops it")
        Supervisor(roles).run(stop)


def _check(settings: Settings, host: str, port: int) -> None:
    with open_session(settings) as session:
        check_binding(host, port, settings=settings, database=session.database)
