"""Where an operation runs: a home, and who asks."""

from collections.abc import Callable
from dataclasses import dataclass, field

from peewit.service.home import Home
from peewit.service.jobs.job import IdempotencyConflict
from peewit.service.key_store import Scope
from peewit.service.labels.annotators import annotator_name, holder_of


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
    annotator: str | None = None  # who gives the labels of a call that names nobody
    key: str | None = None  # name of their key
    door: str = "command"  # what a page reserves no program of the same key holds
    require: Callable[[Scope], None] = _allowed  # refuses what their key must allow, and does not
    note: Callable[[str], None] = _nobody_reads  # tells a person what an answer has no field for
    headers: dict[str, str] = field(default_factory=dict)  # tell it to a program

    def job_id(self, text: str) -> str:
        """The id of a job, which a person may have shortened."""
        return self.home.jobs.full_id(text) if self.is_local else text

    def require_own(self, owner: str | None) -> None:
        """Raise `IdempotencyConflict` for an Idempotency-Key of an owner they do not see."""
        if self.only is not None and owner != self.only:
            raise IdempotencyConflict(
                "the Idempotency-Key must not be one that another caller has used; use a new one"
            )

    def given_by(self, name: str | None) -> str | None:
        """Who gives the labels of a call, which may name somebody."""
        return self.annotator if name is None else annotator_name(name)

    def holder_for(self, name: str | None) -> str:
        """For whom nodes are reserved: a key, and whom a program of it names."""
        return holder_of(self.door, self.owner, name)
