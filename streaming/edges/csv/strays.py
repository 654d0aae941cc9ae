"""Strays: lines of CSV that cannot be rows, as joined files and printed tables have them.

They are refused where they would become rows: names once more, lines of dashes, types below the
names, comments and footers. Where ids begin as comments do, many of them do.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.solvers.arrays import BoolArray, Int32Array, UInt8Array
from peewit.streaming.edges.bad_table import BadUpload, excerpt
from peewit.streaming.edges.column_mapping import obvious_ends

_MARK_IN_TEXT: Final = "\ufeff"
_LINES_LOOKED_AT: Final = 100
_WHOLE: Final = r"^-?[0-9]+$"
LEAVE_OUT: Final = "take such lines out, or leave them out with max_bad_rows"

_BEGINS: Final = np.isin(np.arange(256), list(b"#%/-=+|:("))
_RULE: Final = r"^(:?-{2,}:?|={2,}|[-+|=]{3,})$"
_MARK: Final = r"^(#|%|//)"
_COMMENT: Final = rf"{_MARK}([\s#%/]|$)"
_FOOTER: Final = r"^\(?[0-9][0-9,]* rows?( in set| affected| selected|\)|$)"
_TYPE: Final = re.compile(
    r"((Nullable|LowCardinality)\()*(U?Int(8|16|32|64|128|256)|Float(32|64)|String|Bool|UUID|"
    r"FixedString\([0-9]+\)|Date(32)?|DateTime(64)?(\([^()]*\))?|Decimal\([^()]*\)|IPv[46]|"
    r"(Enum|Array|Map|Tuple)[0-9]*\(.*\)|varchar|bigint|u?int(32|64)|float64)\)*"
)
_OF_LIBSVM: Final = re.compile(r"[0-9]+:[+-]?[0-9.]+([eE][+-]?[0-9]+)?")


def require_no_strays(
    by_name: Mapping[str, pa.Array], pair: Sequence[str], first_row: int, *, way: str = LEAVE_OUT
) -> None:
    """Raise BadUpload with the first row of a pair of columns that cannot be one.

    By their places they are edges, whose first row must not look as if it named them.
    """
    one, other = (by_name[name] for name in pair)
    if not len(one):
        return
    if not pair[0].startswith("#"):
        _require_no_names(one, other, pair, first_row, way)
    elif first_row == 0 and way is LEAVE_OUT:
        _require_first_edge(one, other, pair)
    begins = by_name[next(name for name in by_name if name in pair)]
    rows = np.flatnonzero(_may_be_strays(begins))
    if not rows.size:
        return
    places, n_rows = pa.array(rows), len(one)
    begins, one, other = (column.take(places) for column in (begins, one, other))
    for rule, is_stray in _strays(begins, one, other, n_rows=n_rows).items():
        place = pc.index(is_stray, value=True).as_py()
        if place >= 0:
            raise BadUpload(
                f"a row must not be {rule}; {way}",
                argument=pair[0],
                row=first_row + int(rows[place]),
                value=excerpt(f"{one[place]}, {other[place]}"),
            )


def _strays(begins: pa.Array, one: pa.Array, other: pa.Array, n_rows: int) -> dict[str, pa.Array]:
    """What rows cannot be, and which of some rows are that; ``n_rows`` were looked at."""
    is_line = pc.and_(_match(one, _RULE), _match(other, _RULE))
    is_cut = pc.and_(_match(one, r"^\([0-9,]+$"), _match(other, r"^rows?\)$"))
    is_comment, n_marked = _match(begins, _COMMENT), pc.sum(_match(begins, _MARK)).as_py()
    if n_marked > 1 and 2 * n_marked >= n_rows:  # so begin the ids
        is_comment = pc.and_(is_comment, False)
    return {
        "a line between the names and the rows": is_line,
        "the count of rows below a table that was printed": pc.or_(_match(begins, _FOOTER), is_cut),
        "a comment, which stands above the names alone (where ids begin so, give them as Parquet "
        "or NDJSON)": is_comment,
    }


def _match(column: pa.Array, pattern: str) -> pa.Array:
    return pc.match_substring_regex(column, pattern)


def _may_be_strays(begins: pa.Array) -> BoolArray:
    """(n_rows,) where a column begins as strays do, or tells of rows."""
    is_odd = np.array(pc.match_substring(begins, " row"))
    offsets, codes = text_of(begins)
    some = offsets[1:] > offsets[:-1]
    is_odd[some] |= _BEGINS[codes[offsets[:-1][some]]]
    return is_odd


def text_of(column: pa.Array) -> tuple[Int32Array, UInt8Array]:
    """(n_rows + 1,) places where the values of a column of strings begin, and its bytes."""
    _, ends, data = column.buffers()
    offsets = np.frombuffer(ends, np.int32)[column.offset : column.offset + len(column) + 1]
    return offsets, np.frombuffer(b"" if data is None else data, np.uint8)


def _require_no_names(
    one: pa.Array, other: pa.Array, pair: Sequence[str], first_row: int, way: str
) -> None:
    """Raise BadUpload with the first row that names the pair in whatever order and case."""
    first, second = ([name.lower(), _MARK_IN_TEXT + name.lower()] for name in pair)
    is_header = pc.or_(_are_called(one, first), _are_called(one, second))
    if not pc.any(is_header).as_py():
        return
    straight = pc.and_(_are_called(one, first), _are_called(other, second[:1]))
    turned = pc.and_(_are_called(one, second), _are_called(other, first[:1]))
    row = pc.index(pc.or_(straight, turned), value=True).as_py()
    if row >= 0:
        rule = f"a row must not name the columns again, as in files that were joined; {way}"
        raise BadUpload(
            rule, argument=pair[0], row=first_row + row, value=f"{one[row]}, {other[row]}"
        )


def _are_called(column: pa.Array, names: Sequence[str]) -> pa.Array:
    return pc.is_in(pc.utf8_lower(column), value_set=pa.array(names))


def _require_first_edge(one: pa.Array, other: pa.Array, pair: Sequence[str]) -> None:
    """Raise BadUpload where the first row of columns read by their places names them.

    Or where one of them holds what stands between two nodes, as an arrow.
    """
    first = str(one[0]).removeprefix(_MARK_IN_TEXT), str(other[0])
    are_whole = [
        pc.match_substring_regex(column.slice(0, _LINES_LOOKED_AT), _WHOLE).to_pylist()
        for column in (one, other)
    ]
    for name, column in zip(pair, (one, other), strict=True):
        word = str(column[0])
        if (
            len(column) > 1
            and not re.search(r"\w", word)
            and pc.all(pc.equal(column, word)).as_py()
        ):
            rule = f"column {name!r} holds the same mark in every row; say another place"
            raise BadUpload(rule, argument=name, row=0, value=word)
    is_alone = len(one) > 2 and all(not whole[0] and all(whole[1:]) for whole in are_whole)
    if is_alone or (len(first[0]) > 1 and obvious_ends(first) is not None):
        rule = (
            f"the first row must be an edge, and seems to name columns; say src={first[0]!r}, "
            f"dst={first[1]!r}, or leave it out with max_bad_rows. If it is an edge, put a "
            "line of names above it"
        )
        raise BadUpload(rule, row=0, value=", ".join(first))


def require_rows_below(rows: Sequence[Sequence[str]]) -> None:
    """Raise BadUpload where the first fields below the names are types, or stand for a line."""
    if not rows or not rows[0]:
        return
    first = rows[0]
    are_types = all(map(_TYPE.fullmatch, first))
    if are_types and not any(_TYPE.fullmatch(field) for row in rows[1:] for field in row):
        raise BadUpload(
            "the line below the names must be a row, and holds types; take it out, or write the "
            "table without, as ClickHouse does with CSVWithNames and TSVWithNames",
            row=0,
            value=excerpt(", ".join(first)),
        )
    if all(re.fullmatch(_RULE, field) for field in first if field) and any(first):
        raise BadUpload(
            "a row must not be a line between the names and the rows; take it out",
            row=0,
            value=excerpt(", ".join(first)),
        )


def require_no_features(rows: Sequence[Sequence[str]]) -> None:
    """Raise BadUpload where rows without names are of LibSVM, a class and NUMBER:VALUE each."""
    cells = [field for row in rows for field in row[1:]]
    is_told = any("." in field for field in cells) or any(len(row) > 2 for row in rows)
    if cells and is_told and all(map(_OF_LIBSVM.fullmatch, cells)):
        raise BadUpload(
            "rows must be edges, and these are features as LibSVM has them, which `peewit features "
            "--from-libsvm` reads; where they are edges, put a line of names above them",
            row=0,
            value=excerpt(" ".join(rows[0])),
        )
