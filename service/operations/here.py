"""Where an operation runs: a home, and who asks."""

from collections.abc import Callable
from dataclasses import dataclass

from peewit.service.home import Home
from peewit.service.key_store import Scope


def _allowed(scope: Scope) -> None:
    del scope


def _nobody_reads(note: str) -> None:
    del note


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """A home and a caller; a command of this machine has no key and sees everything."""

    home: Home
    is_local: bool = False  # a person at the command line, who may shorten ids and read notes
    owner: str | None = None  # noted with what they make
    only: str | None = None  # the owner whose things they see; None where they see all
    require: Callable[[Scope], None] = _allowed  # refuses what their key must allow, and does not
    note: Callable[[str], None] = _nobody_reads  # tells a person what an answer has no field for
