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
"""Younger files may belong to work in progress."""


Repair = Callable[[], str]


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    INFORMATION = "information"
    WARNING = "warning"
    FAULT = "fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check says of one thing; only a fault makes the command fail."""

    level: Level
    text: str
    check: str = ""  # its name, filled in by `examine`
    repair: Repair | None = field(default=None, repr=False)  # None where none is safe
    repaired: str = ""  # what was done

    def to_json(self) -> dict[str, object]:
        """The finding as people and programs see it."""
        return {
            "check": self.check,
            "level": self.level.value,
            "text": self.text,
            "can_repair": self.repair is not None,
            "repaired": self.repaired or None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Patient:
    """The installation to check, with an open database."""

    database: Database
    settings: Settings
    now: float  # seconds since the epoch

    def graphs(self) -> Sequence[GraphRecord]:
        """The graphs that are not deleted."""
        return Catalog(self.database).list()

    def rows(self, statement: Select[*tuple[Any, ...]]) -> Sequence[Row[*tuple[Any, ...]]]:
        """Rows of a query."""
        with self.database.read() as connection:
            return connection.execute(statement).all()

    def paths(self, graph: GraphRecord) -> GraphPaths:
        """Paths of the files of a graph."""
        return GraphPaths(root=self.settings.graphs_directory / graph.id)

    def is_old(self, path: Path) -> bool:
        """Whether a file is too old to belong to work in progress."""
        try:
            return self.now - path.stat().st_mtime >= GRACE_SECONDS
        except FileNotFoundError:
            return False

    def old_below(self, directory: Path) -> list[Path]:
        """Finished and old entries of a directory, which may not exist."""
        if not directory.exists():
            return []
        return [
            path
            for path in directory.iterdir()
            if not path.name.startswith(TEMPORARY_PREFIX) and self.is_old(path)
        ]

    def put_aside(self, path: Path) -> str:
        """Move a file or directory to ``lost+found``; a message that says so."""
        place = self.settings.home / LOST_AND_FOUND / f"{uuid4().hex[:8]}-{path.name}"
        place.parent.mkdir(exist_ok=True)
        path.rename(place)
        return f"moved to {place}"


def fault(text: str, repair: Repair | None = None) -> Finding:
    """A finding that something is wrong."""
    return Finding(level=Level.FAULT, text=text, repair=repair)


def warning(text: str, repair: Repair | None = None) -> Finding:
    """A finding that something may go wrong."""
    return Finding(level=Level.WARNING, text=text, repair=repair)


def information(text: str, repair: Repair | None = None) -> Finding:
    """A finding that is worth knowing."""
    return Finding(level=Level.INFORMATION, text=text, repair=repair)


Check = Callable[[Patient], Iterator[Finding]]
