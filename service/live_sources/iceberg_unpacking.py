"""Metadata and manifests of Iceberg tables, bounded by what they unpack to before they are parsed.

The library unpacks and parses them whole, and whoever writes a table is not who runs this process:
a few megabytes may hold gigabytes.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from io import BytesIO
from typing import BinaryIO, Final

import pyarrow as pa
from pyiceberg.io import InputFile

from peewit.service.live_sources.table_chunks import UnreadableTable
from peewit.service.redaction import shown_url

MOST_METADATA_BYTES: Final = 1 << 25
"""Of a metadata file; parsing takes up to some twenty times as much."""

MOST_MANIFEST_BYTES: Final = 1 << 27
"""Of a manifest or a list of manifests."""

_PACKED: Final = ".gz.metadata.json"
_MAGIC: Final = b"Obj\x01"
_MARKER_BYTES: Final = 16
_GZIP: Final = 31
_RAW: Final = -15
"""Formats of zlib."""

_CODEC: Final = b"avro.codec"


class ReadFile(InputFile):  # type: ignore[misc]  # the library has no types here
    """A file in memory."""

    def __init__(self, location: str, content: bytes) -> None:
        super().__init__(location)
        self._content = content

    def __len__(self) -> int:
        return len(self._content)

    def exists(self) -> bool:
        """True: it was read."""
        return True

    def open(self, seekable: bool = True) -> BytesIO:
        """The content, from its start."""
        del seekable  # it always is
        return BytesIO(self._content)


def read_metadata(file: InputFile) -> ReadFile:
    """A metadata file, unpacked; raises `UnreadableTable` where it is too large."""
    location, most = file.location, MOST_METADATA_BYTES
    content = _read(file, most)
    if not location.endswith(_PACKED):
        return ReadFile(location, content)
    try:
        content = zlib.decompressobj(_GZIP).decompress(content, most + 1)
    except zlib.error as error:
        raise UnreadableTable(f"{shown_url(location)!r} must be packed by gzip: {error}") from error
    _require(len(content), most, location)
    return ReadFile(f"{location.removesuffix(_PACKED)}.metadata.json", content)


def read_manifest(file: InputFile) -> ReadFile:
    """A file of Avro as it is; raises `UnreadableTable` where it unpacks to too much."""
    location, most = file.location, MOST_MANIFEST_BYTES
    content = _read(file, most)
    n_bytes = 0
    try:
        for n_more in _sizes_unpacked(content, most):
            n_bytes += n_more
            if n_bytes > most:
                break
    except (ValueError, EOFError, OSError, zlib.error) as error:
        raise UnreadableTable(f"{shown_url(location)!r} must be a file of Avro: {error}") from error
    _require(n_bytes, most, location)
    return ReadFile(location, content)


def _read(file: InputFile, most: int) -> bytes:
    with file.open() as stream:
        content: bytes = stream.read(most + 1)
    _require(len(content), most, file.location)
    return content


def _require(n_bytes: int, most: int, location: str) -> None:
    if n_bytes > most:
        raise UnreadableTable(
            f"{shown_url(location)!r} must unpack to at most {most:,} bytes, got more; expire old "
            "snapshots and rewrite the manifests of the table"
        )


def _sizes_unpacked(content: bytes, most: int) -> Iterator[int]:
    """Bytes that the blocks of an Avro file unpack to, up to one more than ``most`` of each."""
    stream = BytesIO(content)
    if stream.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("it begins otherwise")
    codec = _header(stream).get(_CODEC, b"null").decode()
    if codec not in _SIZES:
        raise ValueError(f"its codec must be one of {', '.join(_SIZES)}, got {codec!r}")
    stream.read(_MARKER_BYTES)
    while stream.tell() < len(content):
        _long(stream)
        yield _SIZES[codec](_bytes(stream), most + 1)
        stream.read(_MARKER_BYTES)


def _header(stream: BinaryIO) -> Mapping[bytes, bytes]:
    values: dict[bytes, bytes] = {}
    while n_items := _long(stream):
        if n_items < 0:  # its size follows
            n_items = -n_items
            _long(stream)
        for _ in range(n_items):
            name = _bytes(stream)
            values[name] = _bytes(stream)
    return values


def _long(stream: BinaryIO) -> int:
    """A number as Avro writes it: zigzag, seven bits a byte."""
    number = shift = 0
    while True:
        (byte,) = stream.read(1) or (None,)
        if byte is None:
            raise EOFError("it ends within a number")
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1)


def _bytes(stream: BinaryIO) -> bytes:
    n_bytes = _long(stream)
    content = stream.read(n_bytes) if n_bytes >= 0 else b""
    if len(content) != n_bytes:
        raise EOFError("it ends within a value")
    return content


def _size_by_stream(packed: bytes, most: int, *, compression: str) -> int:
    with pa.input_stream(pa.py_buffer(packed), compression=compression) as stream:
        return len(stream.read(most))


def _snappy_size(packed: bytes, _most: int) -> int:
    """As the block says, which the library believes: seven bits a byte."""
    number = 0
    for place, byte in enumerate(packed[:5]):
        number |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            break
    return number


_SIZES: Final[Mapping[str, Callable[[bytes, int], int]]] = {
    "null": lambda content, _most: len(content),
    "deflate": lambda packed, most: len(zlib.decompressobj(_RAW).decompress(packed, most)),
    "zstandard": partial(_size_by_stream, compression="zstd"),
    "bzip2": partial(_size_by_stream, compression="bz2"),
    "snappy": _snappy_size,
}
"""What a block unpacks to, at most so much, by the codec's name."""
