"""Iceberg tables as live sources: the whole table first, then snapshot after snapshot.

A position is a snapshot that is read whole, and how far the next one is read: the number of the
piece in its order, and the row of that file.
"""

from collections.abc import Callable, Iterator
from typing import ClassVar, Self

import pyarrow as pa

from peewit.service.live_sources.contract import Access, ChangesLost, Chunk, Position
from peewit.service.live_sources.iceberg_log import IcebergLog
from peewit.service.live_sources.iceberg_places import Place, place_of
from peewit.service.live_sources.table_chunks import holds_any, read_versions
from peewit.service.redaction import shown_url
from peewit.solvers.arguments import BadArgument


class IcebergSource:
    """An Iceberg table followed by snapshot; credentials come from the environment."""

    unit: ClassVar[str] = "snapshots"

    def __init__(self, access: Access, place: Place) -> None:
        self._access = access
        self._place = place
        self._log: IcebergLog | None = None

    @classmethod
    def open(cls, access: Access) -> Self:
        """The table of a catalog or in a directory; raises ValueError for other URLs."""
        return cls(access, place_of(access))

    @classmethod
    def start(cls, start: str) -> Position:
        """The position after the snapshot with this number."""
        if not start.isdecimal():
            raise BadArgument("start", f"must be the number of a snapshot, got {start!r}")
        return {"snapshot": int(start)}

    def read(
        self, position: Position | None, *, most_rows: int, should_stop: Callable[[], bool]
    ) -> Iterator[Chunk]:
        """The whole table, or what snapshots after the position changed.

        Raises `ChangesLost` where next files or snapshots are gone, or a snapshot changes rows and
        the graph accepts no changes; `UnreadableTable` for unsupported features; and
        `peewit.streaming.edges.bad_table.BadTable` for a missing column.
        """
        log = self._look()
        self._access.columns.check(log.schema.names)
        if position is None:
            if log.newest is None:
                return
            position = {"table": log.newest}
        self._require_same(log, position)
        yield from read_versions(
            log,
            self._access,
            position,
            called="snapshot",
            most_rows=most_rows,
            should_stop=should_stop,
        )

    def lag(self, position: Position | None) -> int:
        """Snapshots not read whole; a table that was never read counts as one."""
        log = self._log or self._look()
        if position is None:
            return 0 if log.newest is None else 1
        if "table" in position:
            return 1 + len(log.after(position["table"]))
        return len(log.after(position["snapshot"]))

    def holds(self, ids: pa.Array) -> bool:
        """Whether any of some nodes is in the newest snapshot."""
        log = IcebergLog(self._access, self._place.look())
        if log.newest is None:
            return False
        return holds_any(log, log.whole(log.newest), log.newest, self._access, ids)

    def close(self) -> None:
        """Forget the table; the next read looks at it anew."""
        self._log = None

    def _look(self) -> IcebergLog:
        self._log = IcebergLog(self._access, self._place.look())
        return self._log

    def _require_same(self, log: IcebergLog, at: Position) -> None:
        """Raise `ChangesLost` unless the position is of this table."""
        if at.get("id", log.id) != log.id:
            raise ChangesLost(
                f"{shown_url(self._access.url)} must be the table that was read, it was "
                "made anew; make the graph anew from the whole table, or begin after one "
                "of its snapshots with --from"
            )
