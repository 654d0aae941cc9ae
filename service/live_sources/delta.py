"""Delta tables as live sources: the table as it is, then version after version.

A position is a version that is read whole, and how far the next one is: the number of the piece in
its order and the row of that file.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from peewit.service.live_sources.contract import Access, ChangesLost, Chunk, Position
from peewit.service.live_sources.delta_log import ROW, DeltaLog, Piece
from peewit.service.live_sources.node_columns import PLACE, NodeColumns
from peewit.service.redaction import shown_url
from peewit.solvers.arguments import BadArgument

_OPERATIONS: Final = {
    "insert": "insert",
    "delete": "delete",
    "feed deletes": "delete",
    "feed inserts": "set",
}


class DeltaSource:
    """A Delta table that is followed by version; credentials come from the environment."""

    unit: ClassVar[str] = "versions"

    def __init__(self, access: Access) -> None:
        self._access = access
        self._log: DeltaLog | None = None

    @classmethod
    def open(cls, access: Access) -> Self:
        """The table at a path or at the URL of an object store; raises ValueError for others."""
        if access.url.startswith(("http://", "https://")) or "::" in access.url:
            raise BadArgument(
                "url",
                "must be a local path or the URL of an object store for a Delta table, got "
                f"{shown_url(access.url)!r}",
            )
        return cls(access)

    @classmethod
    def start(cls, start: str) -> Position:
        """After the version that a number names."""
        if not start.isdecimal():
            raise BadArgument("start", f"must be the number of a version, got {start!r}")
        return {"version": int(start)}

    def read(
        self, position: Position | None, *, most_rows: int, should_stop: Callable[[], bool]
    ) -> Iterator[Chunk]:
        """The table as it is, or from a version on what later ones changed.

        Raises
        ------
        ChangesLost
            Files or versions that come next are gone; or a version changes rows and the graph does
            not take changes.
        peewit.service.live_sources.delta_log.UnreadableTable
            It uses a feature that is not read.
        peewit.streaming.edges.bad_table.BadTable
            It lacks a column.
        """
        log = self._newest()
        self._access.columns.check(log.schema.names)
        at = dict(position or {"table": log.version})
        self._require_same(log, at)
        if "table" in at:
            version = at["table"]
            pieces = log.whole(version)
            yield from self._chunks(
                log, version, pieces, at, {"table": version}, most_rows, should_stop
            )
            at = {"version": version}
        for version in range(at["version"] + 1, log.version + 1):
            if should_stop():
                return
            pieces = self._taken(log, version)
            done = {"version": version - 1}
            yield from self._chunks(log, version, pieces, at, done, most_rows, should_stop)
            at = {"version": version}

    def lag(self, position: Position | None) -> int:
        """Versions that are not read whole; a table that is not read yet counts as one."""
        log = self._log or self._newest()
        at = position or {"table": log.version}
        done: int = at["table"] - 1 if "table" in at else at["version"]
        return max(0, log.version - done)

    def holds(self, ids: pa.Array) -> bool:
        """Whether any of some nodes stands in the newest version."""
        log = DeltaLog(self._access)
        nodes = self._access.columns.nodes
        texts = ids.cast(pa.string())
        for piece in log.whole(log.version):
            for _, table in log.batches(piece, log.version, nodes, first_row=0):
                for name in nodes:
                    found = pc.is_in(table.column(name).cast(pa.string()), value_set=texts)
                    if pc.any(found).as_py():
                        return True
        return False

    def close(self) -> None:
        """Forget the table, which is opened anew when it is read again."""
        self._log = None

    def _newest(self) -> DeltaLog:
        """The table at its newest version; the log is read once, and then on."""
        if self._log is None:
            self._log = DeltaLog(self._access)
        else:
            self._log.refresh()
        return self._log

    def _require_same(self, log: DeltaLog, at: Position) -> None:
        """Raise ChangesLost unless the position is one of this table."""
        reached = at.get("table", at.get("version"))
        if at.get("id", log.id) != log.id or reached > log.version:
            raise ChangesLost(
                f"version {reached} must be one of {shown_url(self._access.url)}, which was made "
                f"anew or goes to {log.version}; make the graph anew from the whole table, or "
                "begin after a version of it with --from"
            )

    def _taken(self, log: DeltaLog, version: int) -> Sequence[Piece]:
        """What a version changed, if the graph takes such changes."""
        pieces = log.changes(version)
        has_rows = self._access.columns.op in log.schema.names
        if (has_rows or not self._access.takes_changes) and any(
            piece.effect != "insert" for piece in pieces
        ):
            reason = (
                f"column {self._access.columns.op!r} says what its rows do"
                if has_rows
                else "the graph takes no changes: make one by `peewit graph create NAME "
                "--deletions exact --parallel replace`"
            )
            raise ChangesLost(
                f"version {version} of {shown_url(self._access.url)} must only add rows, it "
                f"deletes or updates some, and {reason}"
            )
        return pieces

    def _chunks(
        self,
        log: DeltaLog,
        version: int,
        pieces: Sequence[Piece],
        at: dict[str, Any],
        within: dict[str, int],
        most_rows: int,
        should_stop: Callable[[], bool],
    ) -> Iterator[Chunk]:
        """Pieces of a version from a position within it; the last chunk ends at the version."""
        names = self._access.columns.of(log.schema.names)
        anew = self._set_anew(log, version, pieces)
        waiting: list[pa.Table] = []
        n_rows, number, first_row = 0, at.get("file", 0), at.get("row", 0)
        for place, piece in enumerate(pieces[number:], number):
            start = first_row if place == number else 0
            for row, table in log.batches(
                piece, version, names, first_row=start, most_rows=most_rows
            ):
                rows = self._rows(table, piece, log.schema.names, version)
                if anew is not None and _deletes(piece):
                    is_anew = pc.is_in(_texts(rows, "node"), value_set=anew)
                    rows = rows.filter(pc.invert(is_anew))
                waiting.append(rows)
                n_rows += rows.num_rows
                if should_stop():
                    return
                if n_rows >= most_rows:
                    position = {**within, "file": place, "row": row, "id": log.id}
                    label = f"version-{version}-file-{place}-row-{row}"
                    yield Chunk(position=position, label=label, table=_joined(waiting))
                    waiting, n_rows = [], 0
        done = {"version": version, "id": log.id}
        yield Chunk(position=done, label=f"version-{version}", table=_joined(waiting))

    def _set_anew(self, log: DeltaLog, version: int, pieces: Sequence[Piece]) -> pa.Array | None:
        """Nodes that a version sets after it deletes rows: what is deleted of them does not count.

        Else files that are written anew would take back what they say, until it is read again.
        """
        inserting = [each for each in pieces if not _deletes(each)]
        is_of_nodes = isinstance(self._access.columns, NodeColumns)
        if not is_of_nodes or not inserting or len(inserting) == len(pieces):
            return None
        (name,) = self._access.columns.nodes
        found = [
            _texts(table, name)
            for piece in inserting
            for _, table in log.batches(piece, version, [name], first_row=0)
        ]
        return pa.concat_arrays([pa.array([], pa.string()), *found])

    def _rows(self, table: pa.Table, piece: Piece, names: Sequence[str], version: int) -> pa.Table:
        """Rows of the table as rows of a chunk."""
        columns = {
            argument: table.column(name)
            for argument, name in self._access.columns.by_argument
            if name in names
        }
        if "op" not in columns and self._access.takes_changes:
            operation = _OPERATIONS[piece.effect]
            columns["op"] = pa.chunked_array([pa.repeat(operation, table.num_rows)])
        if isinstance(self._access.columns, NodeColumns):
            row, name = table.column(ROW).cast(pa.string()), piece.path.rpartition("/")[2]
            columns[PLACE] = pc.binary_join_element_wise(
                f"version {version} row", row, f"of {name}", " "
            )
        return pa.table(columns)


def _deletes(piece: Piece) -> bool:
    return _OPERATIONS[piece.effect] == "delete"


def _texts(table: pa.Table, name: str) -> pa.Array:
    return table.column(name).cast(pa.string()).combine_chunks()


def _joined(tables: Sequence[pa.Table]) -> pa.Table | None:
    filled = [each for each in tables if each.num_rows]
    return pa.concat_tables(filled, promote_options="permissive") if filled else None
