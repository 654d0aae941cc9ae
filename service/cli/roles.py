"""`peewit serve`, `api` and `worker`: the processes that stay."""

from functools import partial
from typing import Annotated

import structlog
import typer
import uvicorn
from uvicorn.supervisors import Multiprocess

from peewit.service.api.port import allow_open_files, check_binding, server_options
from peewit.service.api.request_metrics import shared_metrics
from peewit.service.cli.session import command_group, given, open_session, say
from peewit.service.cli.version_and_health import role_fault
from peewit.service.logs import configure_logging, log_choice
from peewit.service.process_lifetime import GRACE_SECONDS, StopSignal, stop_when_stdin_ends
from peewit.service.settings import Settings
from peewit.service.supervisor import Supervisor, peewit_roles, sole_supervisor
from peewit.service.tracing.spans import start_tracing

app = command_group()

_log = structlog.get_logger(__name__)

Host = Annotated[str, typer.Option(help="Address to listen on; beyond loopback a key is needed.")]
Port = Annotated[int, typer.Option(help="Port to listen on.", min=1, max=65535)]
Workers = Annotated[int, typer.Option(help="Processes of the API.", min=1)]
MetricsPort = Annotated[
    int | None, typer.Option(help="Show metrics on this port of loopback.", min=1, max=65535)
]
UntilStdinEnds = Annotated[bool, typer.Option("--until-stdin-ends", hidden=True)]
"""Given by the supervisor, so that a child ends when the supervisor does."""

_SPARE_SECONDS = 2.0
"""What an API that uses all its time to stop may take beyond it before it is killed."""


class _Processes(Multiprocess):
    """uvicorn's processes of one port, which refuse connections as soon as they all do."""

    def terminate_all(self) -> None:
        """Tell them to stop; the parent's own socket would hold connections that nobody takes."""
        for each in self.sockets:
            each.close()
        super().terminate_all()


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
    configure_logging(settings.log_level, settings.log_format)
    with StopSignal(), shared_metrics(workers):  # uvicorn hands the signal on once it has stopped
        if until_stdin_ends:
            stop_when_stdin_ends()
        _check(settings, host, port)
        allow_open_files(settings.max_streams)
        config = uvicorn.Config(
            "peewit.service.cli.uvicorn_app:application",
            factory=True,
            host=host,
            port=port,
            workers=workers,
            **server_options(settings),
        )
        if workers == 1:
            uvicorn.Server(config).run()
        else:
            _Processes(config, [config.bind_socket()]).run()


@app.command()
def worker(metrics_port: MetricsPort = None, until_stdin_ends: UntilStdinEnds = False) -> None:
    """Run the jobs that wait in the queue."""
    from peewit.service.worker.worker import Worker  # noqa: PLC0415 - others load no solvers

    settings = Settings(**given(metrics_port=metrics_port))
    configure_logging(settings.log_level, settings.log_format)
    start_tracing("worker")
    with StopSignal() as stop, open_session(settings) as session:
        if until_stdin_ends:
            stop_when_stdin_ends()
        Worker(session.database, settings).run(stop, partial(role_fault, "worker"))


def run_serve(settings: Settings, host: str, port: int, n_api_processes: int) -> None:
    """Supervise the roles with these settings until a signal comes."""
    configure_logging(settings.log_level, settings.log_format)
    roles = peewit_roles(settings, host=host, port=port, n_api_processes=n_api_processes)
    with StopSignal() as stop:
        _check(settings, host, port)
        with sole_supervisor(settings.database):
            if log_choice().is_json:
                _log.info("starting roles", url=f"http://{host}:{port}")
            else:
                say(
                    f"Peewit starts, and answers on http://{host}:{port} in some seconds "
                    "(documentation at /docs); Ctrl-C stops it"
                )
            stop_seconds = settings.drain_seconds + settings.finish_seconds + _SPARE_SECONDS
            Supervisor(roles, grace_seconds=max(GRACE_SECONDS, stop_seconds)).run(stop)


def _check(settings: Settings, host: str, port: int) -> None:
    with open_session(settings) as session:
        check_binding(host, port, settings=settings, database=session.database)
