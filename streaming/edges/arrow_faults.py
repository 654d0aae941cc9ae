"""Faults that Arrow finds in a table, as faults of that table."""

import lzma
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from peewit.streaming.edges.bad_table import BadUpload, excerpt

DAMAGED: Final = (EOFError, lzma.LZMAError, zlib.error, zipfile.BadZipFile)
"""What unpacking raises besides OSError and Arrow's own, where a file breaks off or is damaged."""

_UNPACKING: Final = re.compile(r"(zlib|zstd|ZSTD|bz2|BZ2)[^:]* (failed|decompress\S*)[^:]*(: .*)?")
_CSV_ROW: Final = re.compile(r"Row #(?P<line>\d+): (?P<rest>.*)", re.DOTALL)
_FIELDS: Final = re.compile(
    r"Expected (?P<expected>\d+) columns, got (?P<actual>\d+): (?P<text>.*)", re.DOTALL
)


def fields_rule(expected: object, actual: object) -> str:
    """That a line of CSV has another number of fields than there are columns."""
    return f"a row must have {expected} fields, got {actual}"


@contextmanager
def named_faults(rule: str, *, argument: str | None = None, first_line: int = 2) -> Iterator[None]:
    """Turn Arrow's errors about a file or column that it cannot read into `BadUpload`.

    ``first_line`` is the line of the first row of CSV; Arrow counts lines from 1.
    """
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, *DAMAGED) as error:
        match = _CSV_ROW.search(str(error))
        why = f" ({excerpt(_plain(str(error) if match is None else match['rest']), 200)})"
        if "UTF8" in str(error):
            rule = "text must be in UTF-8, which `iconv -f LATIN1 -t UTF-8` makes of other text"
            why = ""
        if match is None:
            raise BadUpload(f"{rule}{why}", argument=argument) from error
        if fields := _FIELDS.fullmatch(match["rest"]):
            raise BadUpload(
                fields_rule(fields["expected"], fields["actual"]),
                row=int(match["line"]) - first_line,
                value=excerpt(fields["text"]),
            ) from error
        raise BadUpload(f"{rule}{why}", row=int(match["line"]) - first_line) from error


def _plain(message: str) -> str:
    """A message without the words of libraries that nobody has called."""
    return _UNPACKING.sub("what is packed breaks off or is damaged", message)
