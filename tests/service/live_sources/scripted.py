"""A live source that plays a script, and aborts where the script says so."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Self

import pyarrow as pa
import pytest

from peewit.service.live_sources.contract import Access, Chunk, Position, Refused
from peewit.service.live_sources.kinds import KINDS, Kind
from peewit.solvers.arguments import BadArgument


@dataclass
class Script:
    """What a source has at a URL, entry by entry; more may be appended while it is read.

    An entry is a table of rows, something that is refused, or an error that is raised once.
    """

    entries: list[pa.Table | Refused | Exception] = field(default_factory=list)
    n_opened: int = 0
    n_closed: int = 0


SCRIPTS: dict[str, Script] = {}
"""By URL."""


class ScriptedSource:
    """Plays the script of its URL; a position is the number of entries before it and a row."""

    unit: ClassVar[str] = "entries"

    def __init__(self, access: Access) -> None:
        self._script = SCRIPTS[access.url]
        self._script.n_opened += 1

    @classmethod
    def open(cls, access: Access) -> Self:
        return cls(access)

    @classmethod
    def start(cls, start: str) -> Position:
        if not start.isdecimal():
            raise BadArgument("start", f"must be the number of an entry, got {start!r}")
        return {"entry": int(start), "row": 0}

    def read(
        self, position: Position | None, *, most_rows: int, should_stop: Callable[[], bool]
    ) -> Iterator[Chunk]:
        place, row = (0, 0) if position is None else (position["entry"], position["row"])
        while place < len(self._script.entries):
            if should_stop():
                return
            entry, label = self._script.entries[place], f"entry-{place}-{row}"
            if isinstance(entry, Exception):
                del self._script.entries[place]
                raise entry
            if isinstance(entry, Refused):
                place, row = place + 1, 0
                yield Chunk(position=_at(place, row), label=label, refused=[entry])
                continue
            taken = entry.slice(row, most_rows)
            row += taken.num_rows
            if row == entry.num_rows:
                place, row = place + 1, 0
            yield Chunk(position=_at(place, row), label=label, table=taken)

    def lag(self, position: Position | None) -> int:
        return len(self._script.entries) - (0 if position is None else int(position["entry"]))

    def holds(self, ids: pa.Array) -> bool:
        names = set(ids.to_pylist())
        tables = [entry for entry in self._script.entries if isinstance(entry, pa.Table)]
        return any(
            names & set(each.column(name).to_pylist())
            for each in tables
            for name in ("src", "dst", "node")
            if name in each.column_names
        )

    def close(self) -> None:
        self._script.n_closed += 1


def _at(place: int, row: int) -> Position:
    return {"entry": place, "row": row}


def script(
    monkeypatch: pytest.MonkeyPatch, entries: Sequence[pa.Table | Refused | Exception]
) -> tuple[str, Script]:
    """The URL of a source of kind ``scripted`` that plays some entries, and its script."""
    monkeypatch.setitem(KINDS, "scripted", Kind(__name__, "ScriptedSource", "none"))
    url = f"scripted://{len(SCRIPTS)}"
    SCRIPTS[url] = Script(list(entries))
    return url, SCRIPTS[url]


def changes(*rows: tuple[str, str, float, str]) -> pa.Table:
    """Rows of (src, dst, weight, op)."""
    src, dst, weight, op = zip(*rows, strict=True)
    return pa.table({"src": src, "dst": dst, "weight": weight, "op": op})
