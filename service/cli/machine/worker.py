"""`peewit worker`: runs jobs."""

from functools import partial
from typing import Annotated

import typer

from peewit.service.cli.machine.role_options import UntilStdinEnds
from peewit.service.cli.machine.version_and_health import role_fault
from peewit.service.cli.session import command_group, given, open_home
from peewit.service.logs import configure_logging
from peewit.service.process_lifetime import StopSignal, stop_when_stdin_ends
from peewit.service.settings import Settings
from peewit.service.tracing.spans import start_tracing
from peewit.service.worker.worker import Worker

app = command_group()

MetricsPort = Annotated[
    int | None, typer.Option(help="Show metrics on this port of loopback.", min=1, max=65535)
]


@app.command()
def worker(metrics_port: MetricsPort = None, until_stdin_ends: UntilStdinEnds = False) -> None:
    """Run the jobs that wait in the queue."""
    settings = Settings(**given(metrics_port=metrics_port))
    configure_logging(settings.log_level, settings.log_format)
    start_tracing("worker")
    with StopSignal() as stop, open_home(settings) as home:
        if until_stdin_ends:
            stop_when_stdin_ends()
        Worker(home.database, settings).run(stop, partial(role_fault, "worker"))
