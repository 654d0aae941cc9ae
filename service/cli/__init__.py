"""Command line: parse, call, print; it decides nothing.

One module holds one group of commands. A module is imported when one of its commands runs, after
`prepare_environment`, so that numba reads the right settings and light commands start fast.
"""

import importlib
import sys
import traceback
from typing import Any, Final

import structlog
import typer
from pydantic import ValidationError
from sqlalchemy.exc import DBAPIError
from typer.core import TyperGroup

from peewit.service.database.leases import LeaseExpired
from peewit.service.logs import configure_logging, log_choice
from peewit.service.redaction import redacted
from peewit.service.settings import Settings, prepare_environment

_MODULE_OF: Final = {
    "demo": "demo",
    "serve": "roles",
    "api": "roles",
    "worker": "roles",
    "ingest": "ingest",
    "graph": "graphs",
    "source": "sources",
    "features": "features",
    "labels": "labels",
    "solve": "solve",
    "estimate": "solve",
    "certify": "certify",
    "tune": "tune",
    "predictions": "predictions",
    "predict": "predict",
    "evaluate": "predictions",
    "suggest": "suggest",
    "watch": "watch",
    "plot": "plot",
    "key": "keys",
    "backup": "backup",
    "restore": "backup",
    "doctor": "doctor",
    "version": "version_and_health",
    "warm": "warm",
    "health": "version_and_health",
}
"""In the order of ``peewit --help``."""

_log = structlog.get_logger(__name__)

_EXPECTED: Final = (ValueError, LookupError, OSError, RuntimeError, DBAPIError)
"""What our code raises for reasons that the user can act on."""

_TAKEN_OVER: Final = 75
"""Exit code where another process has the lease now: EX_TEMPFAIL of sysexits.h, run it again."""

_BUGS: Final = (KeyError, IndexError, UnicodeError, NotImplementedError, RecursionError)
"""What Python raises for reasons that only a programmer can act on; keeps its traceback."""


class _Commands(TyperGroup):
    """Commands by name, their modules imported at first use."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All names."""
        del ctx
        return list(_MODULE_OF)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of this name, or None."""
        del ctx
        if cmd_name not in _MODULE_OF:
            return None
        module = importlib.import_module(f"peewit.service.cli.{_MODULE_OF[cmd_name]}")
        found = typer.main.get_command(module.app)
        return found.commands.get(cmd_name, found) if isinstance(found, TyperGroup) else found

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command to run; the environment is prepared before its module is imported."""
        if "--help" not in args:
            prepare_environment(Settings())
            configure_logging("error")  # commands that stay say more
        return super().resolve_command(ctx, args)


_app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@_app.callback()
def _peewit() -> None:
    """Label a few nodes of a graph that does not fit in memory; get every other node's label."""


def main() -> None:
    """Run the command of ``sys.argv``; exit 0 done, 1 failed, 2 wrong usage, 75 taken over."""
    try:
        typer.main.get_command(_app)(prog_name="peewit")
    except _EXPECTED as error:
        if isinstance(error, _BUGS):
            raise
        _tell(error)
        sys.exit(_TAKEN_OVER if isinstance(error, LeaseExpired) else 1)


def _tell(error: Exception) -> None:
    """Why the command ends, on stderr; the traceback too where everything is wanted."""
    if log_choice().is_json:
        _log.critical("ended", error=_one_line(error), exc_info=_wants_traceback())
        return
    if _wants_traceback():
        traceback.print_exc()
    sys.stderr.write(f"peewit: {redacted(_one_line(error))}\n")


def _one_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(
            f"PEEWIT_{'_'.join(str(part) for part in each['loc']).upper()}: {each['msg']}, "
            f"got {each['input']!r}"
            for each in error.errors()
        )
    if isinstance(error, DBAPIError):
        return f"the database refused: {' '.join(str(error.orig).split())}"
    return " ".join(str(error).split())


def _wants_traceback() -> bool:
    try:
        return Settings().log_level == "debug"
    except ValidationError:
        return False
