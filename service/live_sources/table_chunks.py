"""Chunks of table formats: pieces of a version, read in order.

A *piece* is a data file that a version of the table added or removed. A position within a version
is the number of the piece in its order and the row of that file; and what columns that nobody reads
held so far.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, Final, Literal, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from peewit.service.live_sources.chunk_rows import as_text, holds_ids
from peewit.service.live_sources.contract import UNREAD, Access, ChangesLost, Chunk, Position
from peewit.service.live_sources.node_columns import PLACE, NodeColumns
from peewit.service.redaction import shown_url
from peewit.streaming.edges.bad_table import BadUpload
from peewit.streaming.edges.change_columns import (
    LOOKED_AT,
    UnreadColumns,
    is_state_column,
    require_no_deletes,
)
from peewit.streaming.edges.columns import check_valid
from peewit.streaming.edges.node_ids import in_kind
from peewit.streaming.edges.plain_types import is_text

Effect = Literal["insert", "delete", "feed deletes", "feed inserts"]
"""What the rows of a file do; for a file of a change data feed, which of its rows count."""

ROW: Final = "_row"
"""Column of a batch with the number of each row in its file."""

BATCH_ROWS: Final = 1 << 16
"""Most rows read at once."""

MOST_ANEW: Final = 1 << 21
"""Most nodes of a version that are remembered, about 100 bytes each, to ignore their deletes.

In a version that sets more, deletes count until its sets are read as well.
"""

_OPERATIONS: Final[dict[Effect, str]] = {
    "insert": "insert",
    "delete": "delete",
    "feed deletes": "delete",
    "feed inserts": "set",
}


class TableUnavailable(OSError):
    """The table cannot be opened now, or there is none."""


class UnreadableTable(ValueError):
    """The table uses a feature that is not supported."""


class Piece(Protocol):
    """A data file of the table or of its feed."""

    @property
    def effect(self) -> Effect:
        """What its rows do."""

    @property
    def name(self) -> str:
        """Name of the file, for people."""


Piece_contra = TypeVar("Piece_contra", bound=Piece, contravariant=True)


class PieceReader(Protocol[Piece_contra]):
    """A table whose pieces can be read."""

    id: str  # made with the table
    schema: pa.Schema

    def batches(
        self,
        piece: Piece_contra,
        version: int,
        columns: Sequence[str],
        *,
        first_row: int,
        most_rows: int = BATCH_ROWS,
    ) -> Iterator[tuple[int, pa.Table]]:
        """Batches of a piece from row ``first_row`` of its file, each with the row that follows it.

        Tables hold the columns and `ROW`; a column that the file lacks is null. ``version`` is for
        errors. Raises `ChangesLost` where the file is gone.
        """


_Piece = TypeVar("_Piece", bound=Piece)


class VersionedTable(PieceReader[_Piece], Protocol[_Piece]):
    """A table that can be read whole, and by what each later version changed."""

    def whole(self, version: int, /) -> Sequence[_Piece]:
        """What the table holds at a version, in order."""

    def after(self, version: int, /) -> Iterable[int]:
        """The later versions, in order."""

    def changes(self, version: int, /) -> Sequence[_Piece]:
        """What a version changed, in order: deletes come first."""


def read_rows(
    file: pa.parquet.ParquetFile, columns: Sequence[str], *, first_row: int, most_rows: int
) -> Iterator[tuple[int, pa.Table]]:
    """Batches of a file with `ROW`, from a row on, each with the row that follows it."""
    row = 0
    for group in range(file.num_row_groups):
        n_rows = file.metadata.row_group(group).num_rows
        if row + n_rows <= first_row:
            row += n_rows
            continue
        for batch in file.iter_batches(
            min(BATCH_ROWS, most_rows), row_groups=[group], columns=columns
        ):
            begin, row = row, row + batch.num_rows
            if row > first_row:
                table = pa.Table.from_batches([batch])
                table = table.append_column(ROW, pa.array(np.arange(begin, row)))
                yield row, table.slice(max(0, first_row - begin))


def require_taken(
    pieces: Sequence[Piece], access: Access, names: Sequence[str], *, version: str
) -> None:
    """Raise `ChangesLost` unless the graph accepts what a version changed.

    ``names`` are the columns of the table; ``version`` is for errors, such as ``version 41``.
    """
    has_rows = access.columns.op in names
    if not has_rows and access.takes_changes:
        return
    if any(piece.effect != "insert" for piece in pieces):
        reason = (
            f"column {access.columns.op!r} says what its rows do"
            if has_rows
            else "the graph takes no changes: make one by `peewit graph create NAME "
            "--deletions exact --parallel replace`"
        )
        raise ChangesLost(
            f"{version} of {shown_url(access.url)} must only add rows, it deletes or updates "
            f"some, and {reason}"
        )


def read_versions(
    table: VersionedTable[_Piece],
    access: Access,
    position: Position,
    *,
    called: str,
    most_rows: int,
    should_stop: Callable[[], bool],
) -> Iterator[Chunk]:
    """Chunks of the rest of the whole table, if the position is within it, then of each version.

    In ``position``, the key ``table`` names the version that is read whole, and the key that
    ``called`` names the last version that is read; ``called`` is also the word for versions in
    errors. Raises `ChangesLost` where a version changes rows and the graph accepts no changes.
    """
    at = dict(position)
    chunks = partial(
        read_chunks,
        table,
        access=access,
        unread=UnreadColumns(at.pop(UNREAD, None)),
        most_rows=most_rows,
        should_stop=should_stop,
    )
    if "table" in at:
        version = at["table"]
        within, done = {"table": version}, {called: version}
        yield from chunks(table.whole(version), at=at, within=within, done=done)
        at = done
    for version in table.after(at[called]):
        if should_stop():
            return
        pieces = table.changes(version)
        require_taken(pieces, access, table.schema.names, version=f"{called} {version}")
        within, done = {called: at[called]}, {called: version}
        yield from chunks(pieces, at=at, within=within, done=done)
        at = done


def read_chunks(
    reader: PieceReader[Piece_contra],
    pieces: Sequence[Piece_contra],
    access: Access,
    *,
    unread: UnreadColumns,
    at: Mapping[str, Any],
    within: Mapping[str, int],
    done: Mapping[str, int],
    most_rows: int,
    should_stop: Callable[[], bool],
) -> Iterator[Chunk]:
    """Chunks of a version from a position within it; the last chunk ends at the version.

    A chunk ends at ``most_rows``. ``within`` is the position while the version is not read whole,
    to which piece and row are added; ``done`` is the one after it.
    """
    for name in access.columns.nodes:
        if not holds_ids(kind := reader.schema.field(name).type):
            rule = f"column {name!r} must hold ids, as text or integers, got type {kind}"
            raise BadUpload(rule, argument=name)
    ((word, version),) = done.items()
    columns = _columns_to_read(reader, pieces, version, access)
    waiting: list[pa.Table] = []
    n_rows, number, first_row = 0, at.get("file", 0), at.get("row", 0)
    anew = _set_anew(reader, pieces, version, access) if any(map(_deletes, pieces[number:])) else ()
    for place, piece in enumerate(pieces[number:], number):
        start = first_row if place == number else 0
        for row, table in reader.batches(
            piece, version, columns, first_row=start, most_rows=most_rows
        ):
            if piece.effect == "insert":
                _require_no_deletes(table, access, unread, reader.schema.names)
            rows = _rows(table, piece, access, reader.schema.names, f"{word} {version}")
            if anew and _deletes(piece):
                counts = [node not in anew for node in _names(rows, "node")]
                rows = rows.filter(pa.array(counts, pa.bool_()))
            waiting.append(rows)
            n_rows += rows.num_rows
            if should_stop():
                return
            if n_rows >= most_rows:
                position = {**within, "file": place, "row": row, "id": reader.id, **_kept(unread)}
                label = f"{word}-{version}-file-{place}-row-{row}"
                yield Chunk(position=position, label=label, table=_concatenate(waiting))
                waiting, n_rows = [], 0
    position = {**done, "id": reader.id, **_kept(unread)}
    yield Chunk(position=position, label=f"{word}-{version}", table=_concatenate(waiting))


def _columns_to_read(
    reader: PieceReader[Piece_contra], pieces: Sequence[Piece_contra], version: int, access: Access
) -> list[str]:
    """Columns of the table that are read, and those that may say that a row is a delete.

    These are known by their names, or by the first rows that a version adds, as of a file.
    """
    columns, schema = access.columns, reader.schema
    texts = [name for name in columns.beside(schema.names) if is_text(schema.field(name).type)]
    first = next((each for each in pieces if each.effect == "insert"), None)
    held: Mapping[str, pa.ChunkedArray] = {}
    if texts and first is not None:
        batches = reader.batches(first, version, texts, first_row=0, most_rows=LOOKED_AT)
        _, some = next(batches, (0, pa.table({name: pa.nulls(0, pa.string()) for name in texts})))
        held = {name: some.column(name) for name in texts}
    n_rows = max(map(len, held.values()), default=0)
    nothing = pa.nulls(n_rows, pa.int64())
    rows = pa.table({name: held.get(name, nothing) for name in schema.names})
    return list(dict.fromkeys((*columns.to_read(rows), *columns.states(schema.names))))


def _require_no_deletes(
    table: pa.Table, access: Access, unread: UnreadColumns, names: Sequence[str]
) -> None:
    """Raise `BadEdges` with the first row that asks for a delete in a column that nobody reads."""
    columns = access.columns
    held = {name: table.column(name) for name in columns.beside(table.column_names) if name != ROW}
    first_row = table.column(ROW)[0].as_py() if table.num_rows else 0
    for name, column in held.items():
        check_valid(column, name, first_row)
    unread.look(held, names)
    for name, column in held.items():
        if not is_state_column(name):
            way, known = columns.way_of_deletes(name), unread.of(name)
            require_no_deletes(column, name, first_row, way=way, known=known)


def _kept(unread: UnreadColumns) -> dict[str, Any]:
    return {UNREAD: unread.kept} if unread.kept else {}


def holds_any(
    reader: PieceReader[Piece_contra],
    pieces: Sequence[Piece_contra],
    version: int,
    access: Access,
    ids: pa.Array,
) -> bool:
    """Whether any of some nodes is in the pieces of a version."""
    named = access.columns
    of_rows = () if isinstance(named, NodeColumns) else named.kind_columns
    nodes = list(zip_longest(named.nodes, named.kinds, of_rows))
    columns = [*named.nodes, *filter(None, of_rows)]
    texts = ids.cast(pa.large_string())
    for piece in pieces:
        for _, table in reader.batches(piece, version, columns, first_row=0):
            for name, of_kind, column in nodes:
                kind = _texts(table, column) if column else of_kind
                found = in_kind(_texts(table, name), kind)
                if pc.any(pc.is_in(found, value_set=texts)).as_py():
                    return True
    return False


def _set_anew(
    reader: PieceReader[Piece_contra], pieces: Sequence[Piece_contra], version: int, access: Access
) -> Collection[bytes | None]:
    """Nodes that a version sets: deletes of them in the same version do not count.

    Otherwise rewritten files would remove what they say until it is read again. Empty where there
    are more than `MOST_ANEW`.
    """
    nodes: set[bytes | None] = set()
    if not isinstance(access.columns, NodeColumns):
        return nodes
    (name,) = access.columns.nodes
    for piece in pieces:
        if _deletes(piece):
            continue
        for _, table in reader.batches(piece, version, [name], first_row=0):
            nodes.update(_names(table, name))
            if len(nodes) > MOST_ANEW:
                return ()
    return nodes


def _names(table: pa.Table, name: str) -> list[bytes | None]:
    """Nodes of a column as UTF-8 bytes."""
    names: list[bytes | None] = _texts(table, name).cast(pa.large_binary()).to_pylist()
    return names


def _deletes(piece: Piece) -> bool:
    return _OPERATIONS[piece.effect] == "delete"


def _texts(table: pa.Table, name: str) -> pa.Array:
    return as_text(table.column(name)).combine_chunks()


def _rows(
    table: pa.Table, piece: Piece, access: Access, names: Sequence[str], version: str
) -> pa.Table:
    """Rows of the table as rows of a chunk."""
    named = access.columns
    places = named.by_argument if isinstance(named, NodeColumns) else named.by_place
    columns = {place: table.column(name) for place, name in places if name in names}
    if "op" not in columns and access.takes_changes:
        operation = _OPERATIONS[piece.effect]
        columns["op"] = pa.chunked_array([pa.repeat(operation, table.num_rows)])
    if isinstance(access.columns, NodeColumns):
        row = table.column(ROW).cast(pa.string())
        columns[PLACE] = pc.binary_join_element_wise(f"{version} row", row, f"of {piece.name}", " ")
    return pa.table(columns)


def _concatenate(tables: Sequence[pa.Table]) -> pa.Table | None:
    filled = [table for table in tables if table.num_rows]
    return pa.concat_tables(filled, promote_options="permissive") if filled else None
