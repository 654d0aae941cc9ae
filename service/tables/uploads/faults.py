"""Faults of a table that was sent: unreadable, or too large."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from peewit.streaming.edges.faults import BadTable

_CSV_ROW: Final = re.compile(r"Row #(?P<line>\d+): (?P<rest>.*)", re.DOTALL)
_MAX_SHOWN: Final = 80


class BadUpload(BadTable):
    """What was sent cannot be read as the table it should be; nothing of it is taken."""

    def __init__(
        self,
        reason: str,
        *,
        argument: str | None = None,
        row: int | None = None,
        value: object = None,
    ) -> None:
        text = None if value is None else excerpt(value) or "''"
        super().__init__(reason, argument=argument, row=row, value=text)


class TableTooLarge(BadUpload):
    """The table takes more once it is decoded than the server allows."""


@contextmanager
def named_faults(rule: str, *, argument: str | None = None) -> Iterator[None]:
    """Turn Arrow's errors about a file that it cannot read into `BadUpload`."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        match = _CSV_ROW.search(str(error))
        if match is None:
            raise BadUpload(f"{rule} ({excerpt(error, 200)})", argument=argument) from error
        # Arrow counts lines from 1 and the header is the first.
        row = int(match["line"]) - 2
        raise BadUpload(f"{rule} ({excerpt(match['rest'], 200)})", row=row) from error


def excerpt(value: object, limit: int = _MAX_SHOWN) -> str:
    """A value from outside, cut to a length that errors can hold."""
    text = str(value)
    return text if len(text) <= limit else text[:limit] + "..."
