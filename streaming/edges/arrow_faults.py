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

_CSV_ROW: Final = re.compile(r"Row #(?P<line>\d+): (?P<rest>.*)", re.DOTALL)


@contextmanager
def named_faults(rule: str, *, argument: str | None = None, first_line: int = 2) -> Iterator[None]:
    """Turn Arrow's errors about a file or column that it cannot read into `BadUpload`.

    ``first_line`` is the line of the first row of CSV; Arrow counts lines from 1.
    """
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, *DAMAGED) as error:
        if "UTF8" in str(error):
            rule = "text must be in UTF-8, which `iconv -f LATIN1 -t UTF-8` makes of other text"
        match = _CSV_ROW.search(str(error))
        if match is None:
            raise BadUpload(f"{rule} ({excerpt(error, 200)})", argument=argument) from error
        row = int(match["line"]) - first_line
        raise BadUpload(f"{rule} ({excerpt(match['rest'], 200)})", row=row) from error
