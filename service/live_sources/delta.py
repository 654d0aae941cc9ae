"""Delta tables as live sources: the whole table first, then version after version.

A position is a version that is read whole, and how far the next one is read: the number of the
piece in its order, and the row of that file.
"""

from collections.abc import Callable, Iterator
from typing import ClassVar, Self

import pyarrow as pa

from peewit.service.live_sources.contract import Access, ChangesLost, Chunk, Position
from peewit.service.live_sources.delta_log import DeltaLog
from peewit.service.live_sources.table_chunks import holds_any, read_versions
from peewit.service.redaction import shown_url
from peewit.solvers.arguments import BadArgument


class DeltaSource:
    """A Delta table followed by version; credentials come from the environment."""

    unit: ClassVar[str] = "versions"

    def __init__(self, access: Access) -> None:
        self._access = access
        self._log: DeltaLog | None = None

    @classmethod
    def open(cls, access: Access) -> Self:
        """The table at a path or object-store URL; raises ValueError for others."""
        if access.url.startswith(("http://", "https://")) or "::" in access.url:
            raise BadArgument(
                "url",
                "must be a local path or the URL of an object store for a Delta table, got "
                f"{shown_url(access.url)!r}",
            )
        return cls(access)

    @classmethod
    def start(cls, start: str) -> Position:
        """The position after the version with this number."""
        if not start.isdecimal():
            raise BadArgument("start", f"must be the number of a version, got {start!r}")
        return {"version": int(start)}

    def read(
        self, position: Position | None, *, most_rows: int, should_stop: Callable[[], bool]
    ) -> Iterator[Chunk]:
        """The whole table, or what versions after the position changed.

        Raises `ChangesLost` where next files or versions are gone, or a version changes rows and
        the graph accepts no changes; `UnreadableTable` for unsupported features; and
        `peewit.streaming.edges.bad_table.BadTable` for a missing column.
        """
        log = self._newest()
        self._access.columns.check(log.schema.names)
        at = dict(position or {"table": log.version})
        self._require_same(log, at)
        yield from read_versions(
            log, self._access, at, called="version", most_rows=most_rows, should_stop=should_stop
        )

    def lag(self, position: Position | None) -> int:
        """Versions not read whole; a table that was never read counts as one."""
        log = self._log or self._newest()
        at = position or {"table": log.version}
        done: int = at["table"] - 1 if "table" in at else at["version"]
        return max(0, log.version - done)

    def holds(self, ids: pa.Array) -> bool:
        """Whether any of some nodes is in the newest version."""
        log = DeltaLog(self._access)
        return holds_any(log, log.whole(log.version), log.version, self._access, ids)

    def close(self) -> None:
        """Forget the table; the next read opens it anew."""
        self._log = None

    def _newest(self) -> DeltaLog:
        """The table at its newest version; the log is read once, then continued."""
        if self._log is None:
            self._log = DeltaLog(self._access)
        else:
            self._log.refresh()
        return self._log

    def _require_same(self, log: DeltaLog, at: Position) -> None:
        """Raise `ChangesLost` unless the position is of this table."""
        reached = at.get("table", at.get("version"))
        if at.get("id", log.id) != log.id or reached > log.version:
            raise ChangesLost(
                f"version {reached} must be one of {shown_url(self._access.url)}. Its log was "
                f"made anew, or ends at {log.version}: make the graph anew from the whole "
                "table, or begin after one of its versions with --from"
            )
