"""Failure of a command: what went wrong, as a line for people or as JSON, and its exit code."""

import json
import sys
import traceback
from typing import Any, Final

import structlog
import typer
from pydantic import ValidationError
from sqlalchemy.exc import DataError, DBAPIError, OperationalError

from peewit.service.cli.option_names import as_options
from peewit.service.cli.session import say
from peewit.service.database.leases import LeaseExpired
from peewit.service.logs import log_choice
from peewit.service.problems import DatabaseAway, InvalidArgument, details_of, type_of
from peewit.service.redaction import redacted
from peewit.service.settings import Settings
from peewit.service.validation_rules import rule_of, with_argument
from peewit.streaming.problems import Problem

_EXPECTED: Final = (ValueError, LookupError, OSError, RuntimeError, DBAPIError)
"""What our code raises for reasons that the user can act on."""

_BUGS: Final = (KeyError, IndexError, UnicodeError, NotImplementedError, RecursionError)
"""What Python raises for reasons that only a programmer can act on; keeps its traceback."""

_TAKEN_OVER: Final = 75
"""Exit code where another process has the lease now: EX_TEMPFAIL of sysexits.h, run it again."""

_log = structlog.get_logger(__name__)


def tell_failure(error: Exception, *, as_json: bool) -> int:
    """Say on stderr why the command ends; its exit code. Raises what only programmers can mend."""
    if isinstance(error, typer.TyperException):  # where typer itself does not tell
        return _tell_json(error, error.format_message(), error.exit_code)
    if isinstance(error, typer.Abort):
        return _tell_json(error, "stopped, as the question was not answered", 1)
    if not isinstance(error, _EXPECTED) or isinstance(error, _BUGS):
        raise error
    exit_code = _TAKEN_OVER if isinstance(error, LeaseExpired) else 1
    if as_json:
        return _tell_json(error, _one_line(error), exit_code)
    if log_choice().is_json:
        _log.critical("ended", error=_one_line(error), exc_info=_wants_traceback())
        return exit_code
    if _wants_traceback():
        say("".join(traceback.format_exception(error)).rstrip())
    say(f"peewit: {redacted(_one_line(error))}")
    return exit_code


def broken_rules(error: Any) -> str:
    """The rules of options that pydantic found broken."""
    return "; ".join(_with_value(rule_of(each), each["input"]) for each in error.errors())


def _tell_json(error: Exception, text: str, exit_code: int) -> int:
    """One line of JSON in the form that the HTTP API has for errors."""
    title = _title_of(error)
    body = {
        "type": type_of(title),
        "title": title,
        "exit_code": exit_code,
        **details_of(error),
        "detail": redacted(text),
    }
    if _wants_traceback():
        say("".join(traceback.format_exception(error)).rstrip())
    problem = {name: value for name, value in body.items() if value is not None}
    sys.stderr.write(json.dumps({"error": problem}) + "\n")
    return exit_code


def _title_of(error: Exception) -> str:
    match error:
        case Problem():
            return error.title
        case typer.TyperException(exit_code=2):
            return "Wrong usage"
        case DataError():
            return InvalidArgument.title
        case OperationalError():
            return DatabaseAway.title
        case _:
            return Problem.title


def _one_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(
            _with_value(with_argument(_variable(each["loc"]), rule_of(each)), each["input"])
            for each in error.errors()
        )
    if isinstance(error, DBAPIError):
        return f"the database refused: {' '.join(str(error.orig).split())}"
    return as_options(" ".join(str(error).split()))


def _with_value(rule: str, value: object) -> str:
    return rule if repr(value) in rule else f"{rule}, got {value!r}"


def _variable(location: tuple[int | str, ...]) -> str:
    return "_".join(["PEEWIT", *map(str, location)]).upper()


def _wants_traceback() -> bool:
    try:
        return Settings().log_level == "debug"
    except ValidationError:
        return False
