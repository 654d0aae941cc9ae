"""Problems (RFC 9457): how the API and commands with ``--json`` describe an exception."""

import re
from collections.abc import Mapping
from typing import Any, Final

from peewit.streaming.problems import Problem, Unprocessable

RETRY_SECONDS: Final = 5
"""When to try again what waits for room, for the database or for another process."""


class InvalidArgument(Unprocessable):
    """An argument breaks a rule that a store knows."""

    title = "Invalid argument"

    def __init__(self, message: str, *, argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument


class DatabaseAway(Problem):
    """The database does not answer."""

    status = 503
    title = "Database out of reach"
    retry_seconds = RETRY_SECONDS


def type_of(title: str) -> str:
    """The type of a problem: ``urn:peewit:problem:`` and the words of its title."""
    words = re.sub(r"[^a-z]+", "-", title.lower()).strip("-")
    return f"urn:peewit:problem:{words}"


def details_of(error: Exception) -> Mapping[str, Any]:
    """The text of an exception, its argument, and its ``problem_members``."""
    members = getattr(error, "problem_members", {})
    return {"detail": str(error), "argument": getattr(error, "argument", None), **members}
