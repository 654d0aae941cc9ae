"""Parts of a Parquet file: consecutive rows that are read, checked and absorbed together.

``open_staged`` cuts a file into parts by its footer alone, so part numbers are positions. A part is
some whole row groups, or a slice of a row group too large to be held at once. ``reader`` reads
them.
"""

import json
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Self, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from peewit.streaming.edges.arrow_faults import DAMAGED
from peewit.streaming.edges.blocks import BadEdges, excerpt
from peewit.streaming.edges.change_columns import LOOKED_AT
from peewit.streaming.edges.column_mapping import NO_COLUMN, PLAIN, EdgeColumns
from peewit.streaming.edges.partition_folders import require_no_folders
from peewit.streaming.edges.plain_types import is_text
from peewit.streaming.edges.relations import UNNAMED
from peewit.streaming.edges.table_formats import held_format

PART_ROWS = 1 << 20
"""Most rows of a part; part numbers mean nothing without it, so keep it with a position."""

CUTTING = 2
"""Version of the way files are cut into parts; part numbers of another one mean something else."""

PART_BYTES = 1 << 27
"""Most encoded bytes of a part, as the footer states them."""

RELATIONS_KEY = b"peewit.relations"
"""Where the footer of a copy says the relation of each row group, where a column names them."""

_BUFFER_BYTES = 1 << 20
_MAGIC_BYTES = 1 << 9
_LEAST_ROWS = 1 << 10  # of a slice, whatever size a footer claims
_MAX_GROUP_ROWS = 2**31 - 1

Stamp: TypeAlias = tuple[int, int, int, int]
"""Size, modification time in nanoseconds, inode and device of a local file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeFile:
    """One file of a source.

    ``storage_options`` are what fsspec needs to open it (keys, endpoints), no part of what the file
    is. ``pushed`` are digests of files whose edges came as pushes: this one is a duplicate of any.
    One that is meant ``again`` counts though its content came before from elsewhere. ``arrived`` is
    when it was listed or pushed, in seconds since 1970; None is when it is first read.
    """

    path: str  # local, or a URL with its protocol
    size: int  # bytes
    version: str  # changes with the content: modification time in nanoseconds, or entity tag
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    columns: EdgeColumns = PLAIN
    max_bad_rows: int = 0  # most rows that may be left out because they break a rule
    replaces: bool = False  # takes the place of an earlier version of its path
    replaces_siblings: bool = False  # takes the place of any file of its directory
    again: bool = False
    withheld: str | None = None  # digest of a retracted content, which is not to be taken
    pushed: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    arrived: float | None = field(default=None, compare=False)

    def takes_place_of(self, path: str) -> bool:
        """Whether an absorbed file of that path gives way to this one."""
        if self.replaces_siblings:
            return Path(path).parent == Path(self.path).parent
        return self.replaces and path == self.path


def content_of(digest: str) -> str:
    """The digest of the content alone, of a file that was meant again."""
    return digest.partition("+")[0]


def is_again(digest: str) -> bool:
    """Whether a file was absorbed though its content may have come before."""
    return digest != content_of(digest)


class FileUnreadable(OSError):
    """A file cannot be read now, which is no fault of its content; the cause says why.

    What came before it stays: ``Stream.ingest`` of the other files goes on.
    """

    def __init__(self, file: EdgeFile, reason: Exception) -> None:
        super().__init__(f"{file.path} cannot be read now: {reason}")
        self.file = file


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """A row that was left out."""

    row: int  # in the original, from 0
    reason: str  # the rule that it breaks
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Consecutive rows of a file: some whole row groups, or a slice of one."""

    number: int  # position in the file, from 0
    row_group: int  # the first one
    n_groups: int  # 1 for a slice
    skipped_rows: int  # rows of the row group before a slice; 0 for whole row groups
    is_slice: bool  # the row group holds further parts
    first_row: int  # within the file
    n_rows: int
    n_bytes: int  # encoded, of all columns, before compression; of a slice, its share
    relation: str = ""  # that its edges belong to


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """A file that can be read locally, cut into parts; leaving its ``with`` block releases it."""

    file: EdgeFile  # as it was when it was staged
    local_path: str
    is_copy: bool  # local_path is a copy that release deletes
    digest: str  # blake3: and the hexadecimal BLAKE3 of the content; of an again + and of its path
    byte_digest: str  # of its bytes: line ends and a byte order mark count, as they once did
    n_rows: int
    parts: tuple[Part, ...]  # in order; none for a file without rows
    stamp: Stamp  # what is_unchanged compares
    columns: EdgeColumns = PLAIN  # names of the columns at local_path
    bad_rows: tuple[BadRow, ...] = ()  # rows of the original that the copy lacks
    beside: tuple[str, ...] = ()  # further columns to read, which may ask for deletes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    @property
    def digests(self) -> tuple[str, ...]:
        """Each digest that this content may be known by."""
        return tuple(dict.fromkeys((self.digest, self.byte_digest)))

    def is_unchanged(self) -> bool:
        """Whether size, modification time and inode are still those of the staged content."""
        try:
            return file_stamp(self.local_path) == self.stamp
        except FileNotFoundError:
            return False

    @property
    def relations(self) -> tuple[str, ...]:
        """Names of the relations that the parts belong to, in their order."""
        return tuple(dict.fromkeys(part.relation for part in self.parts))

    def columns_of(self, part: Part) -> EdgeColumns:
        """Names of the columns of a part: of events, those of its relation's edges alone."""
        columns = self.columns
        if not columns.via:
            return columns
        number = self.file.columns.via_columns.index(part.relation)
        return replace(columns, via=columns.via[number : number + 1])

    def read_of(self, part: Part, names: Sequence[str], *, knows_src: bool) -> list[str]:
        """Columns to read of a part, without those of ``src`` where its nodes are known."""
        known = {self.columns.src, self.columns.src_kind_column} if knows_src else set()
        wanted = (*self.columns_of(part), *self.beside)
        return [name for name in wanted if name in names and name not in known]

    def without_parts(self) -> Self:
        """The file with no more than a reader of given parts needs elsewhere."""
        return replace(self, parts=(), file=replace(self.file, storage_options={}))

    def release(self) -> None:
        """Delete the copy, if it is one; its parts cannot be read after that."""
        if self.is_copy:
            Path(self.local_path).unlink(missing_ok=True)


def file_stamp(path: str | int) -> Stamp:
    """Size, modification time, inode and device of a path or descriptor."""
    status = os.stat(path)  # noqa: PTH116 - a Path takes no descriptor
    return status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev


def open_staged(
    file: EdgeFile,
    local_path: str,
    *,
    digest: str,
    byte_digest: str,
    is_copy: bool,
    stamp: Stamp,
    part_rows: int,
    bad_rows: tuple[BadRow, ...] | None = None,
) -> StagedFile:
    """A local file cut into parts, by its footer.

    With ``bad_rows`` the local file is what `conversion.convert` made of the original. Raises
    `BadEdges` where it is not a whole Parquet file, or lacks a column.
    """
    with (
        content_faults(f"{file.path} is not a readable Parquet file"),
        open_parquet(local_path) as parquet,
    ):
        names, metadata = parquet.schema_arrow.names, parquet.metadata
        columns = file.columns
        if bad_rows is None:
            require_no_folders(file.path, columns, names)
        else:
            columns = EdgeColumns(
                via=columns_of_copy(columns)[1:] if columns.via else (),
                may_lack_dst=columns.may_lack_dst,
                op=columns.op and "op",
                time=columns.time and "time",
                time_unit="us",
                missing_ids=columns.missing_ids,
            )
        columns.check(names)
        if columns.op not in {NO_COLUMN, *names}:
            columns = replace(columns, op=None, needs_op=False)
        read = columns.to_read(first_rows_of(parquet)) if bad_rows is None else ()
        groups = _groups_of_relations(metadata, file.columns)
        parts = tuple(_cut(metadata, part_rows, groups))
    return StagedFile(
        file=file,
        local_path=local_path,
        is_copy=is_copy,
        digest=digest,
        byte_digest=byte_digest,
        n_rows=sum(part.n_rows for part in parts),
        parts=parts,
        stamp=stamp,
        columns=columns,
        bad_rows=bad_rows or (),
        beside=tuple(name for name in read if name not in list(columns)),
    )


def first_rows_of(parquet: pq.ParquetFile) -> pa.Table:
    """First rows of the columns that may be operations, the others all null."""
    names, schema = Counter(parquet.schema_arrow.names), parquet.schema_arrow
    texts = [each.name for each in schema if is_text(each.type) and names[each.name] == 1]
    some = next(parquet.iter_batches(LOOKED_AT, columns=texts, use_threads=False), None)
    held = {} if some is None else dict(zip(some.schema.names, some.columns, strict=True))
    n_rows = 0 if some is None else some.num_rows
    columns = [held.get(name, pa.nulls(n_rows, pa.int64())) for name in schema.names]
    return pa.Table.from_arrays(columns, names=schema.names)


def open_parquet(
    local_path: str, metadata: pq.FileMetaData | None = None, *, dictionaries: Sequence[str] = ()
) -> pq.ParquetFile:
    """A file opened so that memory stays bounded; ``metadata`` saves reading its footer again.

    ``dictionaries`` are columns of text with few values, whose rows are never expanded.

    Not memory-mapped: a file that is cut while it is mapped kills the process. A small buffer
    without ``pre_buffer`` reads a large row group in little memory, as fast as mapped.
    """
    if metadata is None:
        _require_parquet(local_path)
    return pq.ParquetFile(
        local_path,
        metadata=metadata,
        read_dictionary=dictionaries,
        memory_map=False,
        pre_buffer=False,
        buffer_size=_BUFFER_BYTES,
        page_checksum_verification=True,
        coerce_int96_timestamp_unit="us",  # nanoseconds wrap beyond 2262
    )


def _require_parquet(local_path: str) -> None:
    """Raise ArrowInvalid where a file begins as none of Parquet does, with what it may be."""
    with Path(local_path).open("rb") as file:
        beginning = file.read(_MAGIC_BYTES)
    if b"PAR1".startswith(beginning[:4]):
        return
    held = held_format(beginning)
    if held is None and b"\0" not in beginning:
        held = "text; give it the ending .csv or .ndjson"
    if held is not None:
        raise pa.ArrowInvalid(f"it is {held}")


@contextmanager
def content_faults(what: str) -> Iterator[None]:
    """Faults of the content as BadEdges; an OSError with a number is the disk's and passes."""
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError, *DAMAGED) as error:
        raise BadEdges(f"{what}: {excerpt(error)}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise BadEdges(f"{what}: {excerpt(error)}") from error


def columns_of_copy(columns: EdgeColumns) -> tuple[str, ...]:
    """Names of the columns of nodes in a copy that `conversion.convert` writes."""
    return tuple(place for place, _ in columns.by_place[: len(columns.nodes)])


def _groups_of_relations(
    metadata: pq.FileMetaData, columns: EdgeColumns
) -> list[tuple[str, Sequence[int]]]:
    """Relations in their order, each with its row groups."""
    everything = range(metadata.num_row_groups)
    if columns.via:
        return [(name, everything) for name in columns.via_columns]
    if columns.relation_column is None:
        return [(columns.relation or UNNAMED, everything)]
    said = json.loads(metadata.metadata[RELATIONS_KEY])
    return [
        (relation, [group for group in everything if said["of_groups"][group] == number])
        for number, relation in enumerate(said["relations"])
    ]


def _cut(
    metadata: pq.FileMetaData, part_rows: int, groups: Sequence[tuple[str, Sequence[int]]]
) -> list[Part]:
    """Parts of a file: small row groups together, large ones in slices of even size."""
    parts: list[Part] = []
    sizes = [_group_size(metadata, group) for group in range(metadata.num_row_groups)]
    first_rows = [0, *accumulate(n_rows for n_rows, _ in sizes)]
    if first_rows[-1] != metadata.num_rows:
        raise BadEdges(
            f"the row groups must hold the file's {metadata.num_rows} rows, got {first_rows[-1]}"
        )
    for relation, row_group in ((relation, each) for relation, of in groups for each in of):
        n_rows, n_bytes = sizes[row_group]
        first_row = first_rows[row_group]
        most_rows = min(part_rows, max(_LEAST_ROWS, PART_BYTES * n_rows // max(n_bytes, 1)))
        last = parts[-1] if parts else None
        if (
            last is not None
            and not last.is_slice
            and (last.relation, last.row_group + last.n_groups) == (relation, row_group)
            and last.n_rows + n_rows <= part_rows
            and last.n_bytes + n_bytes <= PART_BYTES
        ):
            parts[-1] = replace(
                last,
                n_groups=last.n_groups + 1,
                n_rows=last.n_rows + n_rows,
                n_bytes=last.n_bytes + n_bytes,
            )
        else:
            n_slices = max(math.ceil(n_rows / most_rows), 1)
            slice_rows = max(math.ceil(n_rows / n_slices), 1)
            for skipped_rows in range(0, n_rows, slice_rows):
                size = min(slice_rows, n_rows - skipped_rows)
                part = Part(
                    number=len(parts),
                    row_group=row_group,
                    n_groups=1,
                    skipped_rows=skipped_rows,
                    is_slice=n_rows > most_rows,
                    first_row=first_row + skipped_rows,
                    n_rows=size,
                    n_bytes=n_bytes * size // n_rows,
                    relation=relation,
                )
                parts.append(part)
    return parts


def _group_size(metadata: pq.FileMetaData, row_group: int) -> tuple[int, int]:
    """Rows of a row group, and encoded bytes of all its columns.

    Those of single columns take ``group.column(i)``, which ends the process at a damaged footer in
    pyarrow 26.
    """
    group = metadata.row_group(row_group)
    if not 0 <= group.num_rows <= _MAX_GROUP_ROWS:
        raise BadEdges(
            f"row group {row_group} must hold between 0 and {_MAX_GROUP_ROWS} rows, "
            f"got {group.num_rows}"
        )
    return group.num_rows, max(group.total_byte_size, 0)
