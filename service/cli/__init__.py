"""Command line: parse, call, print; it decides nothing.

One module holds one group of commands, or those of a group that load alike. It is imported when
one of its commands runs, after `prepare_environment`, so that numba reads the right settings and
light commands start fast.
"""

import sys
import traceback
from typing import Any, Final

import structlog
import typer
from pydantic import ValidationError
from sqlalchemy.exc import DBAPIError

from peewit.service.cli.lazy_group import LazyGroup, Member
from peewit.service.logs import configure_logging, log_choice
from peewit.service.redaction import redacted
from peewit.service.settings import Settings, prepare_environment

_MEMBERS: Final = {
    "demo": Member("demo", "Label 1,797 digits from 100 labels."),
    "serve": Member("roles", "Run api, ingest and worker on this machine."),
    "api": Member("roles", "Answer HTTP requests."),
    "worker": Member("roles", "Run the jobs that wait in the queue."),
    "ingest": Member("ingest", "Bring edges into a graph."),
    "graph": Member("graphs", "Graphs and their settings."),
    "source": Member("sources", "What the ingest daemon reads."),
    "features": Member(
        "features", "Give nodes features; nodes that the graph does not know are created."
    ),
    "labels": Member("labels", "Labels of nodes."),
    "solve": Member(
        "solve",
        "Predict every node's label: a class, or with --model hfs --set target=real a number.",
    ),
    "estimate": Member(
        "solve", "Say what a solve would take, and whether it fits; exit with 1 where it does not."
    ),
    "jobs": Member("jobs", "Jobs of the queue."),
    "certify": Member(
        "certify", "Measure how far a snapshot is from the raw edges that it stands for."
    ),
    "tune": Member("tune", "Choose hyperparameters by cross-validation over the present labels."),
    "predictions": Member("predictions", "Write the latest predictions."),
    "predict": Member(
        "predict",
        "Predict points that are no nodes of the graph, by a model that was solved on features.",
    ),
    "evaluate": Member("predictions", "Compare predictions with true labels."),
    "suggest": Member(
        "suggest", "Say which nodes to label next: those whose label would help most."
    ),
    "watch": Member(
        "watch", "Watch a graph: ingest, backlog, refused files and jobs, until Ctrl-C."
    ),
    "plot": Member(
        "plot", "Draw the largest component of the newest snapshot, coloured by predicted class."
    ),
    "key": Member("keys", "Keys of the HTTP API."),
    "backup": Member(
        "backup",
        "Copy all graphs, labels, jobs, predictions and keys into DIR, while everything runs.",
    ),
    "restore": Member(
        "backup", "Bring a backup into an empty PEEWIT_HOME and an empty database, of either kind."
    ),
    "doctor": Member(
        "doctor",
        "Look at machine, database and files, also while everything runs; exit 1 for a fault.",
    ),
    "version": Member("version_and_health", "Show versions."),
    "warm": Member("warm", None),
    "health": Member("version_and_health", None),
}
"""In the order of ``peewit --help``."""

_log = structlog.get_logger(__name__)

_EXPECTED: Final = (ValueError, LookupError, OSError, RuntimeError, DBAPIError)
"""What our code raises for reasons that the user can act on."""

_TAKEN_OVER: Final = 75
"""Exit code where another process has the lease now: EX_TEMPFAIL of sysexits.h, run it again."""

_BUGS: Final = (KeyError, IndexError, UnicodeError, NotImplementedError, RecursionError)
"""What Python raises for reasons that only a programmer can act on; keeps its traceback."""


class _Commands(LazyGroup):
    """All commands and groups."""

    members = _MEMBERS

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command to run; the environment is prepared before its module is imported."""
        if "--help" not in args and not ctx.resilient_parsing:
            prepare_environment(Settings())
            configure_logging("error")  # commands that stay say more
        return super().resolve_command(ctx, args)


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
    """Run the command of ``sys.argv``; exit 0 done, 1 failed, 2 wrong usage, 75 taken over."""
    try:
        typer.main.get_command(_app)(prog_name="peewit")
    except _EXPECTED as error:
        if isinstance(error, _BUGS):
            raise
        _tell(error)
        sys.exit(_TAKEN_OVER if _is_taken_over(error) else 1)


def _is_taken_over(error: Exception) -> bool:
    from peewit.service.database.leases import LeaseExpired  # noqa: PLC0415 - only errors need it

    return isinstance(error, LeaseExpired)


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
