"""Problems of keys: each answer challenges the caller to send another (RFC 6750)."""

from collections.abc import Mapping
from typing import Final

from peewit.service.key_store import Scope
from peewit.streaming.problems import Problem

_CHALLENGE: Final = 'Bearer realm="peewit"'


class _KeyProblem(Problem, PermissionError):
    status = 401
    challenge = _CHALLENGE

    @property
    def problem_headers(self) -> Mapping[str, str]:
        return {"WWW-Authenticate": self.challenge}


class KeyMissing(_KeyProblem):
    """The request carries no key and comes from where one is needed."""

    title = "Key missing"


class KeyRefused(_KeyProblem):
    """The key is unknown, wrong or revoked."""

    title = "Key refused"
    challenge = f'{_CHALLENGE}, error="invalid_token"'


class KeyRevoked(KeyRefused):
    """The key was revoked while the call waited."""


class ScopeMissing(_KeyProblem):
    """The key lacks the scope."""

    status = 403
    title = "Scope missing"

    def __init__(self, prefix: str, scope: Scope) -> None:
        super().__init__(
            f"the key must have the scope {scope}, key {prefix} has not; use another key"
        )
        self.challenge = f'{_CHALLENGE}, error="insufficient_scope", scope="{scope}"'
