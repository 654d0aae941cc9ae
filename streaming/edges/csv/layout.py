"""Layout of CSV: separator, header, comments and first row follow from the first lines.

Lines that begin with ``#`` or ``%`` before the header are comments; ``sep=;`` is what Excel writes
there. Text without a header line is read where all columns that are wanted are positions, ``#1``
being the first. MatrixMarket has src, dst and weight. Lines that are no rows are refused: types,
sizes or features where rows begin.
"""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.solvers.arrays import BoolArray
from peewit.streaming.edges.arrow_faults import named_faults
from peewit.streaming.edges.bad_table import BadUpload, excerpt
from peewit.streaming.edges.column_mapping import seen_name
from peewit.streaming.edges.csv.strays import require_no_features, require_rows_below
from peewit.streaming.edges.reading_options import Quote
from peewit.streaming.edges.table_formats import held_format

SEPARATORS: Final = ",\t;| "
_HEAD_BYTES: Final = 1 << 20
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_PREFERRED: Final = " ,|;\t"
"""Where several cut alike: names hold blanks and commas rather than tabs."""

_DECIMAL: Final = re.compile(r"[+-]?[0-9]+,[0-9]+")
_PRINTED: Final = re.compile(r"\{'[^']*': |\s*[(\[][^()\[\]]+,[^()\[\]]+[)\]]")
"""Attributes as networkx writes them behind an edge, or a pair as Python prints it."""

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
    n_rows: int | None = None  # where the file says so
    n_nodes: int | None = None  # of a matrix
    is_symmetric: bool = False  # a matrix of which one triangle stands there
    quotes: bool = True  # whether the first lines hold a quote; blanks count only where they do


def layout_of(
    file: BinaryIO, wanted: Sequence[str], quote: Quote | None = None
) -> tuple[Layout, bytes]:
    """Layout of a file that stands at its beginning, and the bytes that were read of it."""
    with named_faults("the CSV is damaged"):
        head = file.read(_HEAD_BYTES)
    held = held_format(head)
    if held is not None:
        raise BadUpload(f"it must be CSV, and is {held}")
    if len(head) == _HEAD_BYTES and b"\n" not in head:
        raise BadUpload(f"a line must have at most {_HEAD_BYTES} bytes", row=0)
    lines = head.removeprefix(_BYTE_ORDER_MARK).splitlines()
    n_before, has_comments, named = 0, False, None
    while n_before < len(lines):
        line = lines[n_before].strip()
        said = _SEPARATOR_LINE.fullmatch(lines[n_before])  # of a tab, too
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
    if b"\0" in lines[n_before] or not _is_utf8(lines[n_before]):
        is_wide = head.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in head[:2]
        encoding = "UTF-16" if is_wide else "LATIN1"
        raise BadUpload(
            "it must be CSV in UTF-8, with a header line; convert other text by `iconv -f "
            f"{encoding} -t UTF-8`",
            value=excerpt(lines[n_before]),
        )
    looked_at = islice(lines, n_before, n_before + _LINES_LOOKED_AT)
    sample = [line.decode(errors="replace") for line in looked_at]
    has_header = not (wanted and wanted[0].startswith("#"))
    printed = _PRINTED.search(sample[0])
    if not has_header and printed and (printed[0].startswith("{") or not printed.start()):
        raise BadUpload(
            "a row must have plain fields, not values as Python prints them; write edges with "
            "`nx.write_weighted_edgelist`, or as columns of CSV",
            row=0,
            value=excerpt(sample[0]),
        )
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
    names = [name if name in wanted else seen_name(name) for name in fields[separator]]
    if has_header and not any(name in names for name in wanted) and _is_data(names):
        rule = (
            "the first line must name the columns (of edges or labels without such a line, say "
            "which are meant by their places: src='#1', dst='#2', or node='#1', label='#2')"
        )
        raise BadUpload(rule, value=excerpt(sample[0]))
    rows = [_fields(line, separator, quote) for line in sample if line.strip()]
    if has_header:
        require_rows_below(rows[1:])
    else:
        require_no_features(rows)
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


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


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
    said = sizes.split()
    if len(said) != 3 or said[0] != said[1] or not said[2].isdigit():
        raise BadUpload(
            "the first line of a MatrixMarket file behind its comments must hold three "
            "numbers: rows, columns (as many, since both are the nodes) and entries",
            value=excerpt(sizes.decode(errors="replace")),
        )
    names = ["src", "dst"] if words[3] == "pattern" else ["src", "dst", "weight"]
    if wanted and wanted[0].startswith("#"):
        names = [f"#{number}" for number in range(1, len(names) + 1)]
    return Layout(
        names=names,
        separator=" ",
        first_line=n_before + 2,
        n_rows=int(said[2]),
        n_nodes=int(said[0]),
        is_symmetric=words[4] in {"symmetric", "skew-symmetric"},
    )


class MatrixCheck:
    """Looks at the entries of a matrix, whose sizes and kind the file says."""

    def __init__(self, layout: Layout) -> None:
        self._n_nodes = layout.n_nodes
        self._is_symmetric = layout.is_symmetric
        self._n_rows = 0
        self._triangles: set[bool] = set()

    def look(self, batch: pa.RecordBatch) -> None:
        """Raise BadUpload at an entry outside, or in the other triangle of a symmetric matrix."""
        if self._n_nodes is None:
            return
        try:
            one, other = (column.cast(pa.int64()).to_numpy() for column in batch.columns[:2])
        except (pa.ArrowInvalid, ValueError):  # told where the ids are read
            return
        least, most = np.minimum(one, other), np.maximum(one, other)
        self._refuse(
            batch,
            (least < 1) | (most > self._n_nodes),
            f"rows and columns of the matrix must lie between 1 and {self._n_nodes:,}, as its "
            "sizes say",
        )
        if self._is_symmetric:
            self._triangles |= {bool(each) for each in np.unique((one > other)[one != other])}
            if len(self._triangles) > 1:
                self._refuse(
                    batch,
                    (one < other) if (one < other).any() else (one > other),
                    "a symmetric matrix must have the entries of one triangle, since the "
                    "other is implied. If each edge stands once, call the matrix general "
                    "in the first line",
                )
        self._n_rows += batch.num_rows

    def _refuse(self, batch: pa.RecordBatch, is_bad: BoolArray, rule: str) -> None:
        if is_bad.any():
            row = int(np.argmax(is_bad))
            value = " ".join(str(column[row]) for column in batch.columns[:2])
            raise BadUpload(rule, row=self._n_rows + row, value=value)


class RowCount:
    """Counts rows, against what the first line says of them where it may hold sizes."""

    def __init__(self, names: Sequence[str], n_said: int | None) -> None:
        self._n_said = n_said
        self._may_be_sizes = names == ["#1", "#2"]
        self._sizes: tuple[int, int] | None = None
        self.n_rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the rows of a batch of text."""
        if self._may_be_sizes and batch.num_columns == 2 and batch.num_rows:
            self._look(batch)
        self.n_rows += batch.num_rows

    def _look(self, batch: pa.RecordBatch) -> None:
        try:
            columns = [column.cast(pa.int64()) for column in batch.columns]
        except pa.ArrowInvalid:
            self._may_be_sizes = False
            return
        if self._sizes is None:
            self._sizes = columns[0][0].as_py(), columns[1][0].as_py()
            columns = [column.slice(1) for column in columns]
        greatest = max(pc.max(column).as_py() or 0 for column in columns)
        self._may_be_sizes = greatest <= self._sizes[0]

    def end(self) -> None:
        """Raise BadUpload where rows are not as many as the sizes say, or the first is these."""
        if self._n_said is not None and self.n_rows != self._n_said:
            raise BadUpload(
                f"the file says that it has {self._n_said:,} entries; it breaks off, or was "
                "joined with others",
                value=f"{self.n_rows:,}",
            )
        n_follow = self.n_rows - 1
        if self._may_be_sizes and self._sizes and self._sizes[1] == n_follow >= 2:
            raise BadUpload(
                f"the first line seems to hold numbers of nodes and edges, as {n_follow:,} "
                "rows follow; take it out. If it is an edge, put a line above it that "
                "names the columns",
                row=0,
                value=f"{self._sizes[0]} {self._sizes[1]}",
            )
