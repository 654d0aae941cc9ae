"""Findings, the patient that is checked, and the place for what might be data."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import Row, Select

from peewit.service.catalog import Catalog, GraphRecord
from peewit.service.database.engine import Database
from peewit.service.settings import Settings
from peewit.streaming.durable_files import TEMPORARY_PREFIX
from peewit.streaming.graph_paths import GraphPaths

LOST_AND_FOUND: Final = "lost+found"
GRACE_SECONDS: Final = 600.0
"""Files younger than this may belong to something under way."""


Repair = Callable[[], str]


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    INFORMATION = "information"
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check says of one thing.

    Attributes
    ----------
    level : Level
        Only a fault makes the command fail.
    text : str
        What was found.
    check : str
        Name of the check, which `examine` fills in.
    repair : callable, optional
        Puts it right and says what it did; None where nobody can do that safely.
    repaired : str
        What was done; empty where nothing was.
    """

    level: Level
    text: str
    check: str = ""
    repair: Repair | None = field(default=None, repr=False)
    repaired: str = ""

    def to_json(self) -> dict[str, object]:
        """What people and programs are shown."""
        return {
            "check": self.check,
            "level": self.level.value,
            "text": self.text,
            "can_repair": self.repair is not None,
            "repaired": self.repaired or None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Patient:
    """The installation to be looked at.

    Attributes
    ----------
    database : Database
        Open.
    settings : Settings
        Of this process.
    now : float
        Seconds since the epoch.
    """

    database: Database
    settings: Settings
    now: float

    def graphs(self) -> Sequence[GraphRecord]:
        """The graphs that are not deleted."""
        return Catalog(self.database).list()

    def rows(self, statement: Select[*tuple[Any, ...]]) -> Sequence[Row[*tuple[Any, ...]]]:
        """What the database answers."""
        with self.database.read() as connection:
            return connection.execute(statement).all()

    def paths(self, graph: GraphRecord) -> GraphPaths:
        """The files of a graph."""
        return GraphPaths(root=self.settings.graphs_directory / graph.id)

    def is_old(self, path: Path) -> bool:
        """Whether nothing that is under way can have made it."""
        try:
            return self.now - path.stat().st_mtime >= GRACE_SECONDS
        except FileNotFoundError:
            return False

    def old_below(self, directory: Path) -> list[Path]:
        """What lies in a directory, if there is one, and is finished and old."""
        if not directory.exists():
            return []
        return [
            path
            for path in directory.iterdir()
            if not path.name.startswith(TEMPORARY_PREFIX) and self.is_old(path)
        ]

    def put_aside(self, path: Path) -> str:
        """Move a file or directory to ``lost+found``; says so."""
        place = self.settings.home / LOST_AND_FOUND / f"{uuid4().hex[:8]}-{path.name}"
        place.parent.mkdir(exist_ok=True)
        path.rename(place)
        return f"moved to {place}"


def fault(text: str, repair: Repair | None = None) -> Finding:
    """Something is wrong."""
    return Finding(level=Level.FAULT, text=text, repair=repair)


def warning(text: str, repair: Repair | None = None) -> Finding:
    """Something may go wrong."""
    return Finding(level=Level.WARNING, text=text, repair=repair)


def information(text: str, repair: Repair | None = None) -> Finding:
    """Something is worth knowing."""
    return Finding(level=Level.INFORMATION, text=text, repair=repair)


Check = Callable[[Patient], Iterator[Finding]]
