"""History of an Iceberg table: what each snapshot of its branch main changed, as pieces.

A snapshot that only rewrites files (``replace``) has no pieces. Of one that removes files and adds
others, as copy-on-write engines do, the removed rows are deleted before the added ones come.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import (
    DataFile,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import NestedField

from peewit.service.live_sources.contract import Access, ChangesLost
from peewit.service.live_sources.iceberg_places import LoadedTable
from peewit.service.live_sources.table_chunks import (
    BATCH_ROWS,
    ROW,
    Effect,
    UnreadableTable,
    read_rows,
)
from peewit.service.redaction import shown_url

_FIELD_ID: Final = b"PARQUET:field_id"
_ANEW: Final = (
    "make the graph anew from the whole table, or begin after a later snapshot with --from, "
    "without the changes before it"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Piece:
    """A data file that a snapshot added or removed; ``effect`` is ``insert`` or ``delete``."""

    file: DataFile
    effect: Effect

    @property
    def name(self) -> str:
        """Name of the file, for people."""
        return str(self.file.file_path).rpartition("/")[2]


class IcebergLog:
    """One table at one moment; ``id`` and ``schema`` are the table's.

    ``newest`` is the snapshot of the branch main, None for a table that was never written to.
    """

    def __init__(self, access: Access, table: LoadedTable) -> None:
        self._shown = shown_url(access.url)
        self._metadata, self._files = table
        current = self._metadata.current_snapshot()
        self.newest = None if current is None else current.snapshot_id
        self.id = str(self._metadata.table_uuid)
        self.schema = schema_to_pyarrow(self._metadata.schema(), include_field_ids=False)

    def after(self, snapshot: int) -> list[int]:
        """Snapshots after one, up to the newest.

        Raises `ChangesLost` where the newest does not descend from it or some between have expired.
        """
        snapshots: list[int] = []
        at = self.newest
        while at != snapshot:
            known = None if at is None else self._metadata.snapshot_by_id(at)
            if known is None:
                raise self._lost(snapshot, snapshots[-1] if snapshots else None)
            snapshots.append(known.snapshot_id)
            at = known.parent_snapshot_id
        return snapshots[::-1]

    def whole(self, snapshot: int) -> Sequence[Piece]:
        """The files that are the table at a snapshot, the earliest first.

        Raises `ChangesLost` where the snapshot has expired, and `UnreadableTable` where deleted
        rows are still in their files.
        """
        live = [
            entry
            for manifest in self._snapshot(snapshot).manifests(self._files)
            for entry in self._entries(manifest, snapshot, but=ManifestEntryStatus.DELETED)
        ]
        live.sort(key=lambda entry: (entry.sequence_number or 0, entry.data_file.file_path))
        return [Piece(file=entry.data_file, effect="insert") for entry in live]

    def changes(self, snapshot: int) -> Sequence[Piece]:
        """What a snapshot changed; raises as `whole` does."""
        known = self._snapshot(snapshot)
        if known.summary is not None and known.summary.operation is Operation.REPLACE:
            return []
        own = [
            entry
            for manifest in known.manifests(self._files)
            if manifest.added_snapshot_id in (snapshot, None)
            for entry in self._entries(manifest, snapshot, but=ManifestEntryStatus.EXISTING)
            if entry.snapshot_id == snapshot
        ]
        own.sort(key=lambda entry: entry.status is ManifestEntryStatus.ADDED)
        return [
            Piece(
                file=entry.data_file,
                effect="insert" if entry.status is ManifestEntryStatus.ADDED else "delete",
            )
            for entry in own
        ]

    def batches(
        self,
        piece: Piece,
        version: int,
        columns: Sequence[str],
        *,
        first_row: int,
        most_rows: int = BATCH_ROWS,
    ) -> Iterator[tuple[int, pa.Table]]:
        """Rows of a piece; see `PieceReader`."""
        path, form = piece.file.file_path, piece.file.file_format
        if form is not FileFormat.PARQUET:
            raise UnreadableTable(
                f"files of {self._shown} must be Parquet, snapshot {version} has "
                f"{shown_url(path)!r}; set write.format.default to parquet and rewrite the files"
            )
        try:
            source = self._files.data_file(path).open()
        except FileNotFoundError as error:
            raise ChangesLost(
                f"snapshot {version} of {self._shown} needs {shown_url(path)}, which is gone, as "
                f"after snapshots have expired; {_ANEW}"
            ) from error
        with source, pa.parquet.ParquetFile(source) as file:
            fields = [self._metadata.schema().find_field(name) for name in columns]
            held = self._names(file.schema_arrow, path)
            read = [held[field.field_id] for field in fields if field.field_id in held]
            for row, table in read_rows(file, read, first_row=first_row, most_rows=most_rows):
                yield row, self._complete(table, fields, held, piece.file)

    def _complete(
        self,
        table: pa.Table,
        fields: Sequence[NestedField],
        held: Mapping[int, str],
        file: DataFile,
    ) -> pa.Table:
        """Columns by the table's names; those the file lacks come from partition or default.

        A partition value counts only where the partition is the column itself (``identity``).
        """
        columns: dict[str, pa.ChunkedArray | pa.Array] = {ROW: table.column(ROW)}
        for field in fields:
            if field.field_id in held:
                columns[field.name] = table.column(held[field.field_id])
            else:
                value = pa.scalar(self._value(field, file), self.schema.field(field.name).type)
                columns[field.name] = pa.repeat(value, table.num_rows)
        return pa.table(columns)

    def _value(self, field: NestedField, file: DataFile) -> Any:
        spec = self._metadata.specs()[file.spec_id]
        for place, part in enumerate(spec.fields):
            if part.source_id == field.field_id and isinstance(part.transform, IdentityTransform):
                return file.partition[place]
        return field.initial_default

    def _names(self, schema: pa.Schema, path: str) -> dict[int, str]:
        """Column names in a file by field id."""
        by_name = {
            name: mapped.field_id
            for mapped in self._metadata.name_mapping() or ()
            for name in mapped.names
        }
        names = {}
        for field in schema:
            number = (field.metadata or {}).get(_FIELD_ID, by_name.get(field.name))
            if number is not None:
                names[int(number)] = field.name
        if not names:
            raise UnreadableTable(
                f"{shown_url(path)!r} must have ids of its columns, or {self._shown} the property "
                "schema.name-mapping.default"
            )
        return names

    def _snapshot(self, snapshot: int) -> Snapshot:
        known = self._metadata.snapshot_by_id(snapshot)
        if known is None:
            raise ChangesLost(f"snapshot {snapshot} of {self._shown} has expired; {_ANEW}")
        return known

    def _entries(
        self, manifest: ManifestFile, snapshot: int, *, but: ManifestEntryStatus
    ) -> Iterator[ManifestEntry]:
        """Entries for data files except those of a status; raises where rows are deleted apart."""
        for entry in manifest.fetch_manifest_entry(self._files, discard_deleted=False):
            if entry.status is but:
                continue
            if manifest.content is ManifestContent.DATA:
                yield entry
            elif entry.status is not ManifestEntryStatus.DELETED:
                raise UnreadableTable(
                    f"snapshot {snapshot} of {self._shown} deletes rows that it leaves in their "
                    "files (merge on read), which is not read; set write.delete.mode, "
                    "write.update.mode and write.merge.mode to copy-on-write, rewrite the files "
                    f"that have deletes, then {_ANEW}"
                )

    def _lost(self, snapshot: int, first: int | None) -> ChangesLost:
        if self._metadata.snapshot_by_id(snapshot) is None:
            return ChangesLost(
                f"snapshot {snapshot} of {self._shown} has expired, or never was, as its "
                f"history begins with {first}; {_ANEW}"
            )
        return ChangesLost(
            f"snapshot {snapshot} must be one that the newest of {self._shown}, {self.newest}, "
            f"descends from, as it does not after a rollback; {_ANEW}"
        )
