"""Formats of tables, by media types and file names, and the compression of files."""

import io
import lzma
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path, PurePath
from typing import BinaryIO, Final, cast

import pyarrow as pa

from peewit.streaming.edges.bad_table import BadUpload

ROWS_PER_BATCH: Final = 1 << 16
BYTES_PER_BATCH: Final = 1 << 24
"""Most bytes of a batch that is read from a file, as far as can be told beforehand."""


class Format(StrEnum):
    """Format of a table."""

    ARROW = "arrow"
    """Arrow IPC stream."""
    PARQUET = "parquet"
    """One Parquet file."""
    CSV = "csv"
    """With a header line, in UTF-8; null is an empty field without quotes."""
    NDJSON = "ndjson"
    """One JSON object per line."""

    @property
    def media_type(self) -> str:
        """What `Content-Type` says."""
        return _MEDIA_TYPES[self][0]

    @property
    def suffix(self) -> str:
        """Suffix of a file of this format, with the dot."""
        return _SUFFIXES[self][0]

    @classmethod
    def of_media_type(cls, media_type: str) -> "Format | None":
        """The format of a media type without parameters, or None."""
        name = media_type.strip().lower()
        return next((kind for kind in cls if name in _MEDIA_TYPES[kind]), None)

    @classmethod
    def of_path(cls, path: PurePath) -> "Format":
        """The format of a file's suffix; ValueError where it has none."""
        suffix = path.suffix.lower()
        for kind in cls:
            if suffix in _SUFFIXES[kind]:
                return kind
        known = ", ".join(suffix for suffixes in _SUFFIXES.values() for suffix in suffixes)
        raise ValueError(f"a table's file name must end in one of {known}, got {path.name!r}")


_MEDIA_TYPES: Final[dict[Format, tuple[str, ...]]] = {
    Format.ARROW: ("application/vnd.apache.arrow.stream",),
    Format.PARQUET: (
        "application/vnd.apache.parquet",
        "application/parquet",
        "application/x-parquet",
    ),
    Format.CSV: ("text/csv", "application/csv"),
    Format.NDJSON: ("application/x-ndjson", "application/ndjson", "application/jsonl"),
}
_SUFFIXES: Final[dict[Format, tuple[str, ...]]] = {
    Format.ARROW: (".arrows", ".arrow"),
    Format.PARQUET: (".parquet", ".pq"),
    Format.CSV: (".csv",),
    Format.NDJSON: (".ndjson", ".jsonl"),
}

_COMPRESSIONS: Final = {
    ".gz": "gzip",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".bz2": "bz2",
    ".xz": "xz",
    ".zip": "zip",
}
_BEGINS: Final = {
    "gzip": b"\x1f\x8b",
    "zstd": b"\x28\xb5\x2f\xfd",
    "bz2": b"BZh",
    "xz": b"\xfd7zXZ\x00",
    "zip": b"PK",
}
"""How compressed files begin."""

_READ: Final = {suffix: kind for kind, suffixes in _SUFFIXES.items() for suffix in suffixes} | {
    ".ipc": Format.ARROW,
    ".feather": Format.ARROW,
    ".tsv": Format.CSV,
    ".tab": Format.CSV,
    ".txt": Format.CSV,
    ".edgelist": Format.CSV,
    ".edges": Format.CSV,
    ".el": Format.CSV,
    ".mtx": Format.CSV,
    ".json": Format.NDJSON,
}
"""Suffixes of files before that of a compression; CSV has whatever separator its header shows."""

_MAGIC: Final = {b"PAR1": Format.PARQUET, b"ARROW1": Format.ARROW}
"""How files begin whose name tells nothing."""


_EXCEL: Final = "an Excel workbook; save the sheet as CSV UTF-8, and give that"
_PART_OF_EXCEL: Final = "[Content_Types].xml"
_HELD: Final = {
    b"PAR1": "Parquet; give it the ending .parquet",
    b"ARROW1": "Arrow; give it the ending .arrow",
    b"\xff\xff\xff\xff": "an Arrow stream; give it the ending .arrows",
    b"\xd0\xcf\x11\xe0": _EXCEL,
    b"SQLite format 3": "an SQLite database; write its table as CSV, and give that",
} | {
    magic: f"compressed ({name}); put {suffix} behind its ending, or unpack it"
    for suffix, name in reversed(_COMPRESSIONS.items())
    for magic in (_BEGINS[name],)
}
"""What files hold that begin so."""


def held_format(beginning: bytes) -> str | None:
    """What a file holds by its first bytes, and what to do; None of those that may be text."""
    if beginning.startswith(_BEGINS["zip"]) and _PART_OF_EXCEL.encode() in beginning:
        return _EXCEL
    return next((what for magic, what in _HELD.items() if beginning.startswith(magic)), None)


class Seams:
    """Looks in bytes that pass for the end of a Parquet or Arrow file and the begin of another.

    Whoever reads the last footer alone would pass over all files before it.
    """

    def __init__(self) -> None:
        self._seam: bytes | None = None
        self._tail = b""

    def look(self, piece: bytes | bytearray, n_bytes: int) -> None:
        """Look at the first bytes of a piece; raises `BadUpload` at a seam."""
        if not self._tail:
            self._seam = next((2 * magic for magic in _MAGIC if piece.startswith(magic)), None)
        if self._seam is None:
            self._tail = b"-"
            return
        begin = self._tail + bytes(piece[: min(n_bytes, len(self._seam))])
        if self._seam in begin or piece.find(self._seam, 0, n_bytes) >= 0:
            raise BadUpload(
                "it must be one file, and is several, one after the other. Only the last "
                "would be read: give each by itself, or write them into one with pyarrow"
            )
        self._tail = (self._tail + bytes(piece[max(0, n_bytes - 16) : n_bytes]))[-16:]


def require_no_seam(file: BinaryIO) -> None:
    """Look at the rest of a file as `Seams` do, and go back to where it stood."""
    start, seams = file.tell(), Seams()
    while piece := file.read(BYTES_PER_BATCH):
        seams.look(piece, len(piece))
    file.seek(start)


def require_stream_end(rest: bytes) -> None:
    """Raise `BadUpload` where bytes follow the end of an Arrow stream, as of another one."""
    if rest:
        raise BadUpload(
            "an Arrow stream must end the table, and bytes follow its end; give each of several "
            "streams by itself, or write their batches into one"
        )


def format_of_file(name: str) -> tuple[Format, str | None]:
    """Format of a file by its name, and its compression as Arrow calls it.

    Raises ValueError where the name ends in no suffix of a table.
    """
    path = PurePath(name)
    compression = _COMPRESSIONS.get(path.suffix.lower())
    if compression is not None:
        path = path.with_suffix("")
    kind = _READ.get(path.suffix.lower())
    if kind is None:
        raise ValueError(
            f"a table's file name must end in one of {', '.join(_READ)}, with "
            f"{', '.join(_COMPRESSIONS)} behind it where it is compressed, got "
            f"{PurePath(name).name!r}"
        )
    return kind, compression


def packed_otherwise(path: str) -> set[str]:
    """Paths of the same table unpacked, or packed in another way."""
    plain = next((path.removesuffix(end) for end in _COMPRESSIONS if path.endswith(end)), path)
    return {plain, *(plain + end for end in _COMPRESSIONS)} - {path}


def is_table(name: str) -> bool:
    """Whether a file of a directory is taken for a table: `.txt` and `.json` are so seldom one."""
    try:
        format_of_file(name)
    except ValueError:
        return False
    return not {".txt", ".json"} & set(PurePath(name.lower()).suffixes[-2:])


def open_table(path: str, compression: str | None) -> BinaryIO:
    """A file opened for reading from its start, decompressed on the way.

    Raises `BadUpload` where it is not compressed as its name says.
    """
    if compression is not None:
        with pa.input_stream(path, compression=None) as stored:
            beginning = stored.read(8)
        if beginning and not beginning.startswith(_BEGINS[compression]):
            raise BadUpload(
                f"its name says that it is compressed ({compression}), and it is not; give it the "
                f"ending of what it holds: {', '.join(_READ)}"
            )
    if compression == "zip":
        archive, member = _only_member(path)
        try:
            return cast("BinaryIO", archive.open(member))
        except RuntimeError as error:  # it has a password, or is packed in a way of its own
            raise BadUpload(f"the ZIP archive cannot be unpacked ({error})") from error
    if compression == "xz":
        return cast("BinaryIO", io.BufferedReader(lzma.LZMAFile(path), 1 << 20))
    return io.BufferedReader(pa.input_stream(path, compression=compression), 1 << 20)


def _only_member(path: str) -> tuple[zipfile.ZipFile, zipfile.ZipInfo]:
    """A ZIP archive and the one file that it holds; BadUpload where there are several, or none."""
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise BadUpload("the ZIP archive is damaged") from error
    members = [each for each in archive.infolist() if not each.is_dir()]
    if any(each.filename == _PART_OF_EXCEL for each in members):
        raise BadUpload(f"it is {_EXCEL}")
    if len(members) != 1:
        raise BadUpload(
            "a ZIP archive must hold one file; unpack it and read its files",
            value=f"{len(members)} files",
        )
    return archive, members[0]


def format_of_content(path: str) -> tuple[Format, str | None] | None:
    """Format and compression of a file whose name tells nothing; None where its bytes do not.

    A ZIP archive is what its one file is.
    """
    with pa.input_stream(path, compression=None) as stored:
        beginning = stored.read(8)
    if beginning.startswith(_BEGINS["zip"]):
        archive, member = _only_member(path)
        archive.close()
        try:
            return format_of_file(member.filename)[0], "zip"
        except ValueError as error:
            raise BadUpload(f"of the ZIP archive: {error}") from error
    for magic, kind in _MAGIC.items():
        if beginning.startswith(magic):
            return kind, None
    return None


@contextmanager
def unpacked(path: Path, compression: str | None) -> Iterator[BinaryIO]:
    """A file opened for reading anywhere in it, for tables that have to be looked at before."""
    if compression is None:
        with path.open("rb") as file:
            yield file
        return
    with tempfile.TemporaryFile() as content:
        with open_table(str(path), compression) as packed:
            shutil.copyfileobj(packed, content)
        content.seek(0)
        yield content
