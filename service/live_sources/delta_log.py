"""Transaction log of a Delta table: what each version changed, as pieces to be read in order.

A version with a change data feed is read from the feed, others from the files that they added and
removed; a version that only moves rows between files (``dataChange`` false) has no pieces. Deletes
come before inserts, since the feed does not order the rows of a version.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedReader
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler

from peewit.service.live_sources.contract import Access, ChangesLost
from peewit.service.live_sources.table_chunks import (
    BATCH_ROWS,
    Effect,
    TableUnavailable,
    UnreadableTable,
    read_rows,
)
from peewit.service.redaction import shown_url
from peewit.streaming.edges.change_columns import is_change_column

_MOST_LINE_BYTES: Final = 1 << 24
_CHANGE: Final = "_change_type"
_DELETING: Final = pa.array(["delete", "update_preimage"])
_COLOR: Final = re.compile(r"\x1b\[[0-9;]*m")
_TRACE: Final = re.compile(r"\n\s*0: ")
"""Where a trace of the library begins in the text of an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A data file of the table or of its change data feed."""

    path: str  # as the log has it, percent-encoded
    effect: Effect
    partition: Mapping[str, str | None] = field(default_factory=dict)  # columns the file lacks

    @property
    def name(self) -> str:
        """Name of the file, for people."""
        return self.path.rpartition("/")[2]


class DeltaLog:
    """One table at the newest ``version`` found; ``id`` and ``schema`` are the table's."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._shown = shown_url(access.url)
        self._options = _options()
        self._table = self._at(None)
        self._files = pa.fs.PyFileSystem(DeltaStorageHandler(self._table.table_uri, self._options))
        self._look()

    def refresh(self) -> None:
        """Look for newer versions."""
        with self._explain_errors():
            self._table.update_incremental()
        self._look()

    def _look(self) -> None:
        self.version: int = self._table.version()
        self.schema = pa.schema(self._table.schema().to_arrow())
        metadata = self._table.metadata()
        self._require_unmapped(metadata.configuration)
        self.id = str(metadata.id)

    def _require_unmapped(self, configuration: Mapping[str, str]) -> None:
        mode = configuration.get("delta.columnMapping.mode", "none")
        if mode != "none":
            raise UnreadableTable(
                f"delta.columnMapping.mode must be none in {self._shown}, got {mode!r}"
            )

    def whole(self, version: int) -> Sequence[Piece]:
        """The files that are the table at a version.

        Raises `ChangesLost` where the log does not reach back to it, and `UnreadableTable` where
        deleted rows are still in their files.
        """
        table = self._table
        if version != self.version:
            self._require_log(version)
            table = self._at(version)
        if "deletionVectors" in (table.protocol().reader_features or ()) and any(
            batch.num_rows for batch in table.deletion_vectors()
        ):
            raise self._vectors(version)
        actions = pa.table(table.get_add_actions(flatten=False))
        listed = actions.select(
            [name for name in ("path", "partition") if name in actions.schema.names]
        )
        return [
            Piece(path=row["path"], effect="insert", partition=row.get("partition") or {})
            for row in sorted(listed.to_pylist(), key=lambda row: row["path"])
        ]

    def after(self, version: int) -> range:
        """The later versions, in order."""
        return range(version + 1, self.version + 1)

    def changes(self, version: int) -> Sequence[Piece]:
        """What a version changed; raises as `whole` does.

        A version that lacks columns, which others before and after it have, would be read as null:
        it raises `ChangesLost`.
        """
        added: list[dict[str, Any]] = []
        removed: list[dict[str, Any]] = []
        fed: list[dict[str, Any]] = []
        for action in self._actions(version):
            if (metadata := action.get("metaData")) is not None:
                self._require_columns(version, metadata)
            for name, actions in (("add", added), ("remove", removed), ("cdc", fed)):
                if (file := action.get(name)) is None:
                    continue
                if file.get("deletionVector"):
                    raise self._vectors(version)
                if name == "cdc" or file["dataChange"]:
                    actions.append(file)
        if fed:
            return [
                *(_piece(file, "feed deletes") for file in fed),
                *(_piece(file, "feed inserts") for file in fed),
            ]
        return [
            *(_piece(file, "delete") for file in removed),
            *(_piece(file, "insert") for file in added),
        ]

    def _require_columns(self, version: int, metadata: Mapping[str, Any]) -> None:
        self._require_unmapped(metadata.get("configuration") or {})
        names = {field["name"] for field in json.loads(metadata["schemaString"])["fields"]}
        columns = self._access.columns
        watched = filter(is_change_column, columns.beside(self.schema.names))
        lacking = {*columns, *watched}.intersection(self.schema.names) - names
        if lacking and version:
            before = pa.schema(self._at(version - 1).schema().to_arrow()).names
            if lost := sorted(lacking & set(before)):
                raise self._unnamed(f"version {version}", lost)

    def _unnamed(self, what: str, columns: Sequence[str]) -> ChangesLost:
        return ChangesLost(
            f"{what} of {self._shown} must have the columns "
            f"{', '.join(map(repr, columns))}, which were renamed or dropped; make the "
            "graph anew from the whole table. Or begin with --from after a version that "
            "has them again, without the changes before it"
        )

    def batches(
        self,
        piece: Piece,
        version: int,
        columns: Sequence[str],
        *,
        first_row: int,
        most_rows: int = BATCH_ROWS,
    ) -> Iterator[tuple[int, pa.Table]]:
        """Rows of a piece, see `PieceReader`; those of a feed with ``_change_type``."""
        path = unquote(piece.path)
        if "://" in path or path.startswith("/"):
            raise UnreadableTable(f"files of {self._shown} must lie in the table, got {path!r}")
        self._require_allowed(path)
        try:
            source = self._files.open_input_file(path)
        except FileNotFoundError as error:
            raise ChangesLost(
                f"version {version} of {self._shown} needs {path}, which is gone, as after "
                "VACUUM; make the graph anew from the whole table. Or begin with --from "
                "after a later version, without the changes before it"
            ) from error
        is_feed = piece.effect.startswith("feed")
        with source, pa.parquet.ParquetFile(source) as file:
            held = [name for name in columns if name in file.schema_arrow.names]
            lost = set(self._access.columns.nodes) & set(columns) - {*held, *piece.partition}
            if lost:
                raise self._unnamed(f"file {piece.name!r} in version {version}", sorted(lost))
            read = [*held, _CHANGE] if is_feed else held
            for row, table in read_rows(file, read, first_row=first_row, most_rows=most_rows):
                meant = _meant(_without_views(table), piece.effect)
                yield row, self._complete(meant, columns, piece)

    def first_version(self) -> int | None:
        """The first version from which the log is complete; None without one."""
        files = self._files.get_file_info(pa.fs.FileSelector("_delta_log"))
        names = [file.base_name.partition(".") for file in files]
        versions = {int(stem) for stem, _, end in names if end == "json" and stem.isdecimal()}
        first = self.version
        while first - 1 in versions:
            first -= 1
        return first if first in versions else None

    def _at(self, version: int | None) -> DeltaTable:
        """The table at a version, by default its newest."""
        with self._explain_errors():
            return DeltaTable(self._access.url, version=version, storage_options=self._options)

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Raise errors of the library as one line."""
        try:
            yield
        except (DeltaError, OSError) as error:
            reason = " ".join(_TRACE.split(_COLOR.sub("", str(error)), 1)[0].split())
            raise TableUnavailable(f"{self._shown} cannot be opened: {reason}") from error

    def _complete(self, table: pa.Table, columns: Sequence[str], piece: Piece) -> pa.Table:
        """The table with the columns that the file lacks: of its partition, or null."""
        for name in columns:
            if name not in table.column_names:
                kind = self.schema.field(name).type
                value = pa.scalar(piece.partition.get(name), pa.string()).cast(kind)
                table = table.append_column(name, pa.repeat(value, table.num_rows))
        return table

    def _actions(self, version: int) -> Iterator[dict[str, Any]]:
        self._require_log(version)
        path = _commit(version)
        self._require_allowed(path)
        with self._files.open_input_stream(path) as file, BufferedReader(file) as lines:
            while line := lines.readline(_MOST_LINE_BYTES + 1):
                if len(line) > _MOST_LINE_BYTES:
                    raise UnreadableTable(
                        f"lines of {path} of {self._shown} must have at most {_MOST_LINE_BYTES:,} "
                        "bytes, one has more"
                    )
                if line.strip():
                    yield json.loads(line)

    def _require_log(self, version: int) -> None:
        """Raise `ChangesLost` unless the log has the version."""
        info = self._files.get_file_info(_commit(version))
        if info.type != pa.fs.FileType.File:
            first = self.first_version()
            has = "has no version" if first is None else f"begins at version {first}"
            raise ChangesLost(
                f"version {version} of {self._shown} is not in its log any more, which "
                f"{has}; make the graph anew from the whole table. Or begin with --from "
                "after a later version, without the changes before it"
            )

    def _require_allowed(self, path: str) -> None:
        full = f"{self._access.url.rstrip('/')}/{path}"
        if not self._access.allows(full):
            raise UnreadableTable(f"{shown_url(full)!r} must lie where the source may read")

    def _vectors(self, version: int) -> UnreadableTable:
        return UnreadableTable(
            f"version {version} of {self._shown} has deletion vectors, which are not read; set "
            "delta.enableDeletionVectors to false and run REORG TABLE ... APPLY (PURGE)"
        )


def _options() -> dict[str, str]:
    """Options that the library does not read from the environment itself.

    An ``http`` endpoint allows plain HTTP, as in other clients. Few retries, since whoever reads
    tries again later.
    """
    options = {"max_retries": "2"}
    if os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://"):
        options["aws_allow_http"] = "true"
    return options


def _piece(action: Mapping[str, Any], effect: Effect) -> Piece:
    partition = action.get("partitionValues") or {}
    return Piece(path=action["path"], effect=effect, partition=partition)


def _without_views(table: pa.Table) -> pa.Table:
    """The table with plain strings; feeds hold views, which cannot be filtered and joined."""
    fields = [
        field.with_type(pa.string()) if field.type == pa.string_view() else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def _meant(table: pa.Table, effect: Effect) -> pa.Table:
    """Those rows of a feed that the effect means; of other files all rows."""
    if effect not in ("feed deletes", "feed inserts"):
        return table
    deletes = pc.is_in(table.column(_CHANGE), value_set=_DELETING)
    return table.filter(deletes if effect == "feed deletes" else pc.invert(deletes))


def _commit(version: int) -> str:
    return f"_delta_log/{version:020d}.json"
