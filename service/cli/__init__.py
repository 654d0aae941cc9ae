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

from peewit.service.cli.command_words import HELP
from peewit.service.cli.lazy_group import LazyGroup

_MAIN_WAY: Final = {
    "try": "machine.try_files",
    "demo": "machine.demo",
    "serve": "machine.serve",
    "graph": "graphs.group",
    "ingest": "edges.ingest",
    "labels": "labels.group",
    "solve": "solving.solve",
    "predictions": "solving.predictions",
    "why": "solving.judging",
    "suggest": "labels.suggest",
    "jobs": "solving.jobs",
}

_OTHERS: Final = {
    "Bring more": {
        "features": "edges.features",
        "source": "edges.sources",
        "labelstudio": "labels.label_studio",
    },
    "Let go": {
        "delete": "edges.delete_edges",
        "erase": "edges.leaving",
        "retract": "edges.retract",
        "expire": "edges.leaving",
        "repair": "edges.leaving",
    },
    "Judge answers": {
        "evaluate": "solving.judging",
        "sets": "solving.judging",
        "abstain": "solving.judging",
        "threshold": "solving.judging",
        "certify": "graphs.certify",
    },
    "New points": {"predict": "solving.predict"},
    "Plan and watch": {
        "estimate": "solving.solve",
        "tune": "solving.tune",
        "watch": "graphs.watch",
        "map": "graphs.map",
    },
    "Run for others": {
        "api": "machine.api",
        "worker": "machine.worker",
        "mcp": "machine.mcp",
        "key": "machine.keys",
        "backup": "machine.backup",
        "restore": "machine.backup",
        "doctor": "machine.doctor",
        "version": "machine.version_and_health",
    },
}

_HIDDEN: Final = {"warm": "machine.warm", "health": "machine.version_and_health"}

_MEMBERS: Final = {
    name: module
    for some in (_MAIN_WAY, *_OTHERS.values(), _HIDDEN)
    for name, module in some.items()
}
"""In the order of ``peewit --help``."""


_ROLES: Final = frozenset({"serve", "api", "worker", "ingest"})


class _Commands(LazyGroup):
    """All commands and groups."""

    members = _MEMBERS

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the main way with its lines of help, and the names of the others."""
        del ctx
        with formatter.section("The main way"):
            formatter.write_dl([(name, HELP[name].rstrip(".")) for name in _MAIN_WAY])
        with formatter.section("Other commands, each with its --help"):
            formatter.write_dl([(title, ", ".join(names)) for title, names in _OTHERS.items()])

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
