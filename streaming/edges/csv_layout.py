"""Layout of CSV: separator, header, comments and first row follow from the first lines.

Lines that begin with ``#`` or ``%`` before the header are comments; ``sep=;`` is what Excel writes
there. Text without a header line is read where all columns that are wanted are positions, ``#1``
being the first. MatrixMarket has src, dst and weight.
"""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO, Final, Literal

from peewit.streaming.edges.arrow_faults import named_faults
from peewit.streaming.edges.bad_table import BadUpload, excerpt
from peewit.streaming.edges.reading_options import Quote

SEPARATORS: Final = ",\t;| "
_HEAD_BYTES: Final = 1 << 20
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_PREFERRED: Final = " ,|;\t"
"""Where several cut alike: names hold blanks and commas rather than tabs."""

_DECIMAL: Final = re.compile(r"[+-]?[0-9]+,[0-9]+")
_LINES_LOOKED_AT: Final = 100
_SEPARATOR_LINE: Final = re.compile(rb"sep=(.)", re.IGNORECASE)
_MATRIX: Final = b"%%matrixmarket"
_MATRIX_KINDS: Final = ("pattern", "real", "integer", "double")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a CSV is written."""

    names: list[str]  # columns, by position where there is no header line
    separator: str
    first_line: int  # line of the first row, from 1: after comments and header
    has_comments: bool = False  # above the header; further ones are refused, as of joined files
    quotes: bool = True  # whether the first lines hold a quote; blanks count only where they do


def layout_of(
    file: BinaryIO, wanted: Sequence[str], quote: Quote | None = None
) -> tuple[Layout, bytes]:
    """Layout of a file that stands at its beginning, and the bytes that were read of it."""
    with named_faults("the CSV is damaged"):
        head = file.read(_HEAD_BYTES)
    if len(head) == _HEAD_BYTES and b"\n" not in head:
        raise BadUpload(f"a line must have at most {_HEAD_BYTES} bytes", row=0)
    lines = head.removeprefix(_BYTE_ORDER_MARK).splitlines()
    n_before, has_comments, named = 0, False, None
    while n_before < len(lines):
        line = lines[n_before].strip()
        said = _SEPARATOR_LINE.fullmatch(line)
        if said is not None:
            named = said[1].decode(errors="replace")
        elif line[:1] in {b"#", b"%"}:
            has_comments = True
        elif line:
            break
        n_before += 1
    if n_before == len(lines):
        raise BadUpload("it must be CSV with a header line, and is empty")
    if lines[0].lower().startswith(_MATRIX):
        return _matrix(lines[0], lines[n_before], n_before, wanted), head
    try:
        lines[n_before].decode()
    except UnicodeDecodeError as error:
        rule = "it must be CSV in UTF-8, with a header line"
        raise BadUpload(rule, value=excerpt(lines[n_before])) from error
    looked_at = islice(lines, n_before, n_before + _LINES_LOOKED_AT)
    sample = [line.decode(errors="replace") for line in looked_at]
    has_header = not (wanted and wanted[0].startswith("#"))
    tried = SEPARATORS if named is None else named
    fields = {mark: _fields(sample[0], mark, quote) for mark in tried}
    if has_header:
        separator = max(
            tried,
            key=lambda mark: (
                sum(name in fields[mark] for name in wanted),
                len(fields[mark]) if mark != " " else 0,
            ),
        )
    else:
        separator = max(tried, key=lambda mark: _fit(sample, mark, quote))
        if len(fields[separator]) == 1 and named is None:
            separator = " "
    names = fields[separator]
    if has_header and not any(name in names for name in wanted) and _is_data(names):
        rule = (
            "the first line must name the columns (of a file without such a line, say which "
            "columns are the ends by their places: src='#1', dst='#2')"
        )
        raise BadUpload(rule, value=excerpt(sample[0]))
    if not has_header:
        names = [f"#{number}" for number in range(1, len(names) + 1)]
    if has_header and n_before + 1 == len(lines) and not head.endswith((b"\n", b"\r")):
        head += b"\n"  # a header alone is a table without rows; Arrow skips whole lines only
    first_line = 1 + n_before + has_header
    layout = Layout(
        names=names,
        separator=separator,
        first_line=first_line,
        has_comments=has_comments,
        quotes=quote != "none" and any('"' in line for line in sample),
    )
    return layout, head


def _fields(line: str, separator: str, quote: Quote | None) -> list[str]:
    """The fields of a line, without blanks around; none where it cannot be cut by a separator."""
    if separator == " " and '"' not in line:
        return line.split()
    quoting: Literal[0, 3] = csv.QUOTE_NONE if quote == "none" else csv.QUOTE_MINIMAL
    try:
        read = csv.reader([line], delimiter=separator, quoting=quoting)
        return [field.strip() for field in next(read, [])]
    except csv.Error:  # a field longer than any name
        return []


def _fit(lines: Sequence[str], separator: str, quote: Quote | None) -> tuple[bool, int, int]:
    """How well a separator cuts rows: into equally many fields, none of which looks cut itself."""
    rows = [_fields(line, separator, quote) for line in lines if line.strip()]
    is_even = len({len(row) for row in rows}) == 1 and len(rows[0]) > 1
    is_decimal = separator == "," and all(
        _DECIMAL.fullmatch(field) for line in lines for field in line.split() if "," in field
    )
    is_even &= not (is_decimal and all(len(line.split()) > 1 for line in lines if line.strip()))
    return is_even, _PREFERRED.find(separator) if is_even else 0, len(rows[0])


def _is_data(fields: Sequence[str]) -> bool:
    """Whether numbers stand where names should."""
    try:
        list(map(float, fields))
    except ValueError:
        return False
    return True


def _matrix(banner: bytes, sizes: bytes, n_before: int, wanted: Sequence[str]) -> Layout:
    """Layout of MatrixMarket: entries follow the line of sizes, which is no row."""
    words = [*banner.decode(errors="replace").lower().split(), "", "", ""]
    if words[1:3] != ["matrix", "coordinate"] or words[3] not in _MATRIX_KINDS:
        rule = (
            "a MatrixMarket file must hold a sparse matrix of numbers: matrix coordinate with "
            f"{', '.join(_MATRIX_KINDS)}"
        )
        raise BadUpload(rule, value=excerpt(banner.decode(errors="replace")))
    if len(sizes.split()) != 3:
        raise BadUpload(
            "the first line of a MatrixMarket file behind its comments must hold its sizes: rows, "
            "columns, entries",
            value=excerpt(sizes.decode(errors="replace")),
        )
    names = ["src", "dst"] if words[3] == "pattern" else ["src", "dst", "weight"]
    if wanted and wanted[0].startswith("#"):
        names = [f"#{number}" for number in range(1, len(names) + 1)]
    return Layout(names=names, separator=" ", first_line=n_before + 2)
