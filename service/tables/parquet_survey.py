"""Decoded size of a Parquet file, from its footer and its page headers.

Nothing is decompressed. A footer may be wrong; page headers may not, since the decoder follows
them. So every page of the columns that will be read is visited. Thrift has no references, so names
and metadata are bounded by the footer. The Arrow schema that writers keep there has references, and
is surveyed as Arrow streams are.
"""

import base64
import binascii
import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

from peewit.service.tables.arrow_survey import UnboundedArrow, survey_arrow

_MAGIC: Final = b"PAR1"
_MAX_FOOTER_BYTES: Final = 4 << 20
_MAX_ROW_GROUPS: Final = 4096
_MAX_STRUCTURES: Final = 1 << 18
"""Most structures and lists of a footer; as Python values they take a hundred times their bytes."""

_MAX_PAGES: Final = 1 << 18
_HEADER_BYTES: Final = 1 << 14
"""Most bytes of a page header; it is short unless a writer puts long statistics into it."""

_MAX_HEADER_BYTES: Final = 1 << 20
_MAX_DEPTH: Final = 16
_BYTES_PER_VALUE: Final = 8
"""Bytes of a decoded value besides its page content: the widest number, or a string's offset."""

_ARROW_SCHEMA: Final = b"ARROW:schema"
"""Key of the footer's metadata for Arrow's own schema, in base64."""

_DICTIONARY_PAGE: Final = 2
_DATA_PAGES: Final = {0: 5, 3: 8}
"""Types of pages with values, each with the header field that counts them."""

_DELTA_BYTE_ARRAY: Final = 7
_BYTE_ARRAY: Final = 6

_DAMAGE: Final = (LookupError, TypeError, AttributeError, OverflowError, struct.error)
"""Exceptions of reading fields that are missing, of another type, or out of range."""

Struct = dict[int, Any]
"""A thrift structure: values by field number."""


class UnboundedParquet(ValueError):
    """The decoded size of the file is unknown, or the file is damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetSurvey:
    """Columns of a file, and rows and decoded bytes of the surveyed ones."""

    n_columns: int  # all leaf columns
    n_rows: int  # as the row groups claim
    decoded_bytes: int  # upper bound, each string of a dictionary counted once
    largest_page_bytes: int  # decompressed
    dictionary_columns: frozenset[str]  # columns of strings with dictionaries


def survey_parquet(file: BinaryIO, columns: tuple[str, ...] | None = None) -> ParquetSurvey:
    """Survey of some top-level columns of a file, or of all; missing columns are skipped.

    The file is seekable, and its position is restored. Raises `UnboundedParquet` where the file is
    damaged or encrypted, its footer or pages are too large, or an encoding lets a short page hold
    any amount.
    """
    start = file.tell()
    try:
        footer = _footer(file)
        return _survey(file, footer, columns)
    except _DAMAGE as error:
        raise UnboundedParquet(f"footer or page headers are damaged ({error!r})") from error
    finally:
        file.seek(start)


def _survey(file: BinaryIO, footer: Struct, columns: tuple[str, ...] | None) -> ParquetSurvey:
    n_rows = largest = n_pages = 0
    decoded_bytes = _arrow_schema_bytes(footer)
    dictionaries = set()
    leaves, groups = _leaves(footer[2]), footer.get(4, [])
    if len(groups) > _MAX_ROW_GROUPS:
        raise UnboundedParquet(
            f"a file must have at most {_MAX_ROW_GROUPS} row groups, got {len(groups)}"
        )
    for group in groups:
        n_rows += max(group[3], 0)
        if len(group[1]) != len(leaves):
            raise UnboundedParquet(
                f"a row group must have {len(leaves)} columns as the schema, got {len(group[1])}"
            )
        for (name, is_nested), chunk in zip(leaves, group[1], strict=True):
            meta = chunk[3]
            if columns is not None and name not in columns:
                continue
            for page in _pages(file, meta):
                n_pages += 1
                if n_pages > _MAX_PAGES:
                    raise UnboundedParquet(f"a file must have at most {_MAX_PAGES} pages")
                size, n_values, is_dictionary = page
                largest = max(largest, size)
                decoded_bytes += size + n_values * _BYTES_PER_VALUE
                if is_dictionary and meta[1] == _BYTE_ARRAY and not is_nested:
                    dictionaries.add(name)
    return ParquetSurvey(
        n_columns=len(leaves),
        n_rows=n_rows,
        decoded_bytes=decoded_bytes,
        largest_page_bytes=largest,
        dictionary_columns=frozenset(dictionaries),
    )


def _arrow_schema_bytes(footer: Struct) -> int:
    """Bytes of names and metadata in the Arrow schemas of a footer."""
    total, n_elements = 0, len(footer[2])
    for entry in footer.get(5, []):
        if entry[1] != _ARROW_SCHEMA:
            continue
        try:
            content = base64.b64decode(entry[2], validate=True)
            survey = survey_arrow(io.BytesIO(content), max_columns=2 * n_elements)
        except (binascii.Error, UnboundedArrow) as error:
            raise UnboundedParquet(f"{_ARROW_SCHEMA.decode()} is damaged ({error})") from error
        if survey.n_columns > 2 * n_elements:
            raise UnboundedParquet(
                f"{_ARROW_SCHEMA.decode()} must have the columns of the file, got more than "
                f"{2 * n_elements} of {n_elements}"
            )
        total += survey.decoded_bytes
    return total


def _leaves(elements: list[Struct]) -> list[tuple[str, bool]]:
    """Top-level column of each leaf of the schema, and whether the leaf is nested.

    The decoder takes the chunks of a row group in this order, whatever path they claim.
    """
    leaves = []
    name, n_open = "", 0
    for element in elements[1:]:
        is_nested = n_open > 0
        if not is_nested:
            name, n_open = element[4].decode(errors="replace"), 1
        n_children = element.get(5, 0)
        n_open += n_children - 1
        if n_children == 0:
            leaves.append((name, is_nested))
    return leaves


def _pages(file: BinaryIO, meta: Struct) -> Iterator[tuple[int, int, bool]]:
    """Decompressed bytes and number of values of each page, and whether it is a dictionary."""
    position = meta[9]
    if 0 < meta.get(11, 0) < position:
        position = meta[11]
    n_wanted, n_seen = meta[5], 0
    while n_seen < n_wanted:
        header, length = _page_header(file, position)
        size, stored = header[2], header[3]
        if size < 0 or stored < 0:
            raise UnboundedParquet(f"a page must not have a negative size, got {size}, {stored}")
        kind = header[1]
        if kind in _DATA_PAGES:
            values = header[_DATA_PAGES[kind]]
            encoding = values[2] if kind == 0 else values[4]
            if encoding == _DELTA_BYTE_ARRAY:
                raise UnboundedParquet(
                    "columns must not have the encoding DELTA_BYTE_ARRAY, in which short pages "
                    "hold any amount; write them plain or with a dictionary"
                )
            n_seen += max(values[1], 0)
            yield size, max(values[1], 0), False
        else:
            yield size, 0, kind == _DICTIONARY_PAGE
        position += length + stored


def _page_header(file: BinaryIO, position: int) -> tuple[Struct, int]:
    if position < 0:
        raise UnboundedParquet(f"a page must lie in the file, got position {position}")
    n_bytes = _HEADER_BYTES
    while True:
        file.seek(position)
        content = file.read(n_bytes)
        reader = _Compact(content)
        try:
            return reader.struct(), reader.position
        except (IndexError, struct.error):
            if len(content) < n_bytes or n_bytes >= _MAX_HEADER_BYTES:
                raise
            n_bytes = _MAX_HEADER_BYTES


def _footer(file: BinaryIO) -> Struct:
    end = file.seek(0, 2)
    file.seek(max(end - 8, 0))
    tail = file.read(8)
    if tail[4:] != _MAGIC:
        raise UnboundedParquet("it does not end as a Parquet file does")
    (length,) = struct.unpack("<I", tail[:4])
    if length > min(end - 12, _MAX_FOOTER_BYTES):
        raise UnboundedParquet(
            f"the footer must have at most {_MAX_FOOTER_BYTES} bytes and lie in the file, "
            f"got {length}"
        )
    file.seek(end - 8 - length)
    return _Compact(file.read(length)).struct()


class _Compact:
    """Reader of Thrift's compact protocol, which Parquet's footer and page headers use."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.position = 0
        self._n_structures = 0

    def struct(self, depth: int = 0) -> Struct:
        """The structure at the current position."""
        self._count()
        fields: Struct = {}
        number = 0
        while kind_and_step := self._byte():
            step, kind = kind_and_step >> 4, kind_and_step & 15
            number = number + step if step else self._zigzag()
            fields[number] = self._field(kind, depth)
        return fields

    def _field(self, kind: int, depth: int) -> Any:
        if kind in {1, 2}:  # the kind is the boolean itself
            return kind == 1
        return self._value(kind, depth)

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise UnboundedParquet("footer and page headers must not nest so deeply")
        match kind:
            case 1 | 2 | 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._zigzag()
            case 7:
                return self._take(8)
            case 8:
                return self._take(self._varint())
            case 9 | 10:
                return self._list(depth)
            case 12:
                return self.struct(depth + 1)
            case _:
                raise UnboundedParquet(f"footer or page headers are damaged (kind {kind})")

    def _list(self, depth: int) -> list[Any]:
        self._count()
        size_and_kind = self._byte()
        size, kind = size_and_kind >> 4, size_and_kind & 15
        if size == 15:
            size = self._varint()
        if size > len(self._content):
            raise UnboundedParquet(f"footer or page headers are damaged (a list of {size})")
        return [self._value(kind, depth + 1) for _ in range(size)]

    def _count(self) -> None:
        self._n_structures += 1
        if self._n_structures > _MAX_STRUCTURES:
            raise UnboundedParquet(
                f"footer and page headers must have at most {_MAX_STRUCTURES} structures"
            )

    def _byte(self) -> int:
        value = self._content[self.position]
        self.position += 1
        return value

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise UnboundedParquet("footer or page headers are damaged (a long integer)")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _take(self, n_bytes: int) -> bytes:
        if self.position + n_bytes > len(self._content):
            raise IndexError(f"{n_bytes} bytes are not there")
        taken = self._content[self.position : self.position + n_bytes]
        self.position += n_bytes
        return taken
