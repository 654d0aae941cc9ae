"""Problems: errors that a person can act on, each class with the HTTP status and title that it has.

The API, commands and the client tell them by these; whoever catches one need not know of that. The
base of `Problem` stands first where a class has another, so that the API finds it first.
"""

from collections.abc import Mapping
from typing import Any, ClassVar


class Problem(Exception):
    """Something is wrong that the text, for people, says.

    ``retry_seconds``, where there are any, say when to try again.
    """

    status: ClassVar[int]
    title: ClassVar[str] = "Failed"
    retry_seconds: float | None = None

    @property
    def problem_members(self) -> Mapping[str, Any]:
        """What errors of the API and of commands say beside the text."""
        return {}

    @property
    def problem_headers(self) -> Mapping[str, str]:
        """Headers of the API's answer."""
        return {}


class NotFound(Problem, LookupError):
    """Nothing of this name is there."""

    status = 404


class Conflict(Problem):
    """What is there excludes what is asked."""

    status = 409


class Unprocessable(Problem, ValueError):
    """What is asked breaks a rule."""

    status = 422
