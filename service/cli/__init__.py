"""Command line: parse, call, print; it decides nothing.

One module holds one group of commands, or those of a group that load alike. It is imported when one
of its commands runs, after `prepare_environment`, so that numba reads the right settings and light
commands start fast.
"""

import io
import os
import sys
from typing import Any, Final

import typer

from peewit.service.cli.lazy_group import LazyGroup

_MEMBERS: Final = {
    "demo": "machine.demo",
    "serve": "machine.serve",
    "api": "machine.api",
    "worker": "machine.worker",
    "ingest": "edges.ingest",
    "delete": "edges.delete_edges",
    "erase": "edges.leaving",
    "retract": "edges.retract",
    "expire": "edges.leaving",
    "repair": "edges.leaving",
    "graph": "graphs.group",
    "source": "edges.sources",
    "features": "edges.features",
    "labels": "labels.group",
    "solve": "solving.solve",
    "estimate": "solving.solve",
    "jobs": "solving.jobs",
    "certify": "graphs.certify",
    "tune": "solving.tune",
    "predictions": "solving.predictions",
    "predict": "solving.predict",
    "evaluate": "solving.judging",
    "abstain": "solving.judging",
    "sets": "solving.judging",
    "threshold": "solving.judging",
    "why": "solving.judging",
    "suggest": "labels.suggest",
    "labelstudio": "labels.label_studio",
    "mcp": "machine.mcp",
    "map": "graphs.map",
    "watch": "graphs.watch",
    "key": "machine.keys",
    "backup": "machine.backup",
    "restore": "machine.backup",
    "doctor": "machine.doctor",
    "version": "machine.version_and_health",
    "warm": "machine.warm",
    "health": "machine.version_and_health",
}
"""In the order of ``peewit --help``."""


_ROLES: Final = frozenset({"serve", "api", "worker", "ingest"})


class _Commands(LazyGroup):
    """All commands and groups."""

    members = _MEMBERS

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command to run; the environment is prepared before its module is imported."""
        if "--help" not in args and not ctx.resilient_parsing:
            from peewit.service.logs import configure_logging  # noqa: PLC0415 - help starts fast
            from peewit.service.settings import Settings, prepare_environment  # noqa: PLC0415
            from peewit.service.tracing.spans import start_tracing  # noqa: PLC0415

            prepare_environment(Settings())
            configure_logging("error")  # commands that stay say more
            if args[0] not in _ROLES:  # of which api and worker do it once they log
                start_tracing("command")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; errors of options are worded as our own."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            if hasattr(error.__cause__, "errors"):  # pydantic, by which typer reads options
                from peewit.service.cli.failure import broken_rules  # noqa: PLC0415 - rare

                error.message = broken_rules(error.__cause__)
            raise


_app = typer.Typer(
    cls=_Commands,
    add_completion=True,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@_app.callback()
def _peewit() -> None:
    """Label a few nodes of a graph that does not fit in memory; get every other node's label."""


def main() -> None:
    """Run the command of ``sys.argv``; exit 0 done, 1 failed, 2 wrong usage, 75 taken over.

    With ``--json`` the last line on stderr is the error, as JSON.
    """
    as_json = "--json" in sys.argv
    for stream in (sys.stdout, sys.stderr):  # of a terminal that cannot show all names
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        exit_code = typer.main.get_command(_app)(prog_name="peewit", standalone_mode=not as_json)
    except BrokenPipeError:  # `head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        exit_code = 0
    except Exception as error:  # noqa: BLE001 - `tell_failure` raises the unexpected again
        from peewit.service.cli.failure import tell_failure  # noqa: PLC0415 - only errors need it

        exit_code = tell_failure(error, as_json=as_json)
    sys.exit(exit_code)
