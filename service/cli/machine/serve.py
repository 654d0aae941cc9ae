"""`peewit serve`: all roles on this machine.

It loads little: the roles are processes of their own, and this one only watches them.
"""

import structlog

from peewit.service.cli.machine.role_options import Host, Port, Workers, check_start
from peewit.service.cli.session import command_group, say
from peewit.service.logs import configure_logging, log_choice
from peewit.service.process_lifetime import GRACE_SECONDS, StopSignal
from peewit.service.settings import Settings
from peewit.service.supervisor import Supervisor, peewit_roles, sole_supervisor

app = command_group()

_log = structlog.get_logger(__name__)

_SPARE_SECONDS = 2.0
"""Time beyond its own to stop before an API is killed."""


@app.command()
def serve(host: Host = "127.0.0.1", port: Port = 8000, workers: Workers = 1) -> None:
    """Run the service and its page on this machine.

    That is api, ingest and worker. Ctrl-C or SIGTERM stops all three; one that dies is started
    again.
    """
    run_serve(Settings(), host, port, workers)


def run_serve(settings: Settings, host: str, port: int, n_api_processes: int) -> None:
    """Supervise the roles with these settings until a signal comes."""
    configure_logging(settings.log_level, settings.log_format)
    roles = peewit_roles(settings, host=host, port=port, n_api_processes=n_api_processes)
    with StopSignal(ends_waits_for_children=True) as stop:
        check_start(settings, host, port)
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
