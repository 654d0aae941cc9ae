"""Times of edges: timestamps, dates, numbers or text as microseconds since 1970 (UTC)."""

import re
from datetime import UTC, datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.solvers.arrays import AnyArray, BoolArray, Int64Array
from peewit.solvers.missing_words import MISSING_WORDS
from peewit.streaming.edges.blocks import BadEdges, excerpt
from peewit.streaming.edges.plain_types import plain_column
from peewit.streaming.edges.time_units import SECOND, TimeUnit

_MICROSECONDS: Final[dict[TimeUnit, float]] = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
_DAY: Final = 86_400
_GREATEST: Final = float(2**62)
_STRINGS: Final = (pa.string(), pa.large_string())
_EARLIEST: Final = 631_152_000 * SECOND
"""1990 began. Numbers whose unit nobody has named lie after it, and before next year ends."""

_DEFAULTS: Final = np.array(
    ["0001-01-01", "1970-01-01", "9999-12-31", "9999-12-31T23:59:59", "9999-12-31T23:59:59.999999"],
    "datetime64[us]",
).astype(np.int64)
"""Moments that programs write where there is none."""

_WORDS: Final = pa.array(["", *sorted(MISSING_WORDS)])
_LONGEST_WORD: Final = max(map(len, MISSING_WORDS))

_NUMERIC: Final = r"\A[+-]?[0-9]+(\.[0-9]*)?\z"
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_WAY_OF_ISO: Final = "zones are offsets there, as +01:00, and parts of a second follow a point"
_WAY_OF_OTHERS: Final = "say time_format='%d/%m/%Y' where they are written in another way"
_FORMATS: Final = ("%Y%m%d", "%Y%m%d%H%M%S", "%Y%m%d%H%M", "%Y%m", "%y%m%d", "%Y")
"""What numbers may be."""

_DAYS_TO_COUNT: Final = 2**15, 2**16
"""Numbers between these may be days of spreadsheets since 1900."""

_SCALED_END: Final = 31 * _DAY * SECOND
"""Before it all of our times lie that were read in a unit a thousand times too small."""


def read_times(
    column: pa.Array | pa.ChunkedArray,
    name: str,
    unit: TimeUnit | None,
    first_row: int,
    *,
    is_free: BoolArray | None = None,
    time_format: str | None = None,
) -> Int64Array:
    """(n_rows,) int64 microseconds since 1970-01-01 (UTC).

    The column holds timestamps (without a zone: of UTC), dates, numbers that count ``unit``, or
    text: ISO 8601, or numbers. With ``time_format`` numbers and text are read as strptime does.
    Without ``unit`` numbers are seconds, between 1990 and the end of next year. Errors name the
    column ``name`` and count rows of the file from ``first_row``. Rows marked by ``is_free``,
    (n_rows,) bool, need no time and get 0 without one. Raises `BadEdges` where the type does not
    fit, or a time is missing, not one, or too far from today.
    """
    column = plain_column(column)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_null(column.type):
        column = column.cast(pa.int64())
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    if column.type in _STRINGS:
        column = column.cast(pa.large_string())
    kind = column.type
    is_moment = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if not (is_moment or is_number or kind in _STRINGS):
        raise BadEdges(
            f"column {name!r} must hold timestamps, dates, numbers or ISO 8601 text, "
            f"got type {excerpt(kind)}",
            argument="time",
        )
    is_missing = _missing(column)
    if is_free is not None and is_missing.any():
        rows = np.flatnonzero(~(is_free & is_missing))
        times = np.zeros(len(column), np.int64)
        try:
            times[rows] = read_times(
                column.take(pa.array(rows)), name, unit, 0, time_format=time_format
            )
        except BadEdges as error:
            error.row = None if error.row is None else first_row + int(rows[error.row])
            raise
        return times
    if is_missing.any():
        row = int(np.argmax(is_missing))
        value, rule = column[row].as_py(), "must not be null"
        if value is None:
            raise _fault(name, rule, first_row + row, "null")
        raise _fault(name, f"{rule} or empty", first_row + row, excerpt(str(value).strip()) or "''")
    if time_format is not None and not is_moment:
        return _of_format(column, name, time_format, first_row)
    if kind in _STRINGS:
        return _of_text(column, name, unit, first_row)
    if is_number:
        return _of_numbers(column.to_numpy(), name, unit, first_row)
    if pa.types.is_date32(kind):
        seconds = column.cast(pa.int32()).to_numpy().astype(np.int64) * _DAY
        return _of_our_days(_of_numbers(seconds, name, "s", first_row), name, unit, first_row)
    # those with a zone hold the wall clock of UTC
    counted = column.cast(pa.int64()).to_numpy()
    times = _of_numbers(counted, name, "ms" if pa.types.is_date(kind) else kind.unit, first_row)
    return _of_our_days(times, name, unit, first_row)


def _missing(column: pa.Array) -> BoolArray:
    """(n_rows,) where there is nothing, or what means that."""
    is_missing = np.array(pc.is_null(column, nan_is_null=True))
    if column.type in _STRINGS:
        is_short = pc.less_equal(pc.binary_length(column), _LONGEST_WORD).fill_null(False)
        rows = np.flatnonzero(is_short)
        some = pc.utf8_lower(pc.utf8_trim_whitespace(column.take(pa.array(rows))))
        is_missing[rows] = pc.is_in(some, value_set=_WORDS.cast(some.type))
    return is_missing


def moment(time: int) -> str:
    """A time as people read it; in seconds where it lies beyond the calendar."""
    try:
        return f"{np.datetime64(int(time) // SECOND, 's')}Z"
    except (OverflowError, ValueError):
        return f"{time // SECOND} s"


def _fault(name: str, rule: str, row: int, value: str) -> BadEdges:
    return BadEdges(f"column {name!r} {rule}", argument="time", row=row, value=value)


def _of_our_days(times: Int64Array, name: str, unit: TimeUnit | None, first_row: int) -> Int64Array:
    """The times; refused where one stands for none, unless a unit is named.

    So are those that lie all in the first days of 1970: they were read in too small a unit.
    """
    if unit is None and len(times) and times.min() > 0 and times.max() < _SCALED_END:
        rule = (
            "must hold times of our days, and all lie in January of 1970, as if the unit "
            "were too small; write them again. If they are right, say time_unit='us'"
        )
        raise _fault(name, rule, first_row, moment(times[0]))
    stands_for_none = np.isin(times, _DEFAULTS)
    if unit is None and stands_for_none.any():
        row = int(np.argmax(stands_for_none))
        rule = (
            "must hold times, not what programs write where there is none; leave such rows out "
            "with max_bad_rows, or say time_unit='us' where it is meant"
        )
        raise _fault(name, rule, first_row + row, moment(int(times[row])))
    return times


def _of_format(column: pa.Array, name: str, time_format: str, first_row: int) -> Int64Array:
    text = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
    read = pc.strptime(text, format=time_format, unit="us", error_is_null=True)
    if read.null_count:
        row = int(np.argmax(read.is_null().to_numpy(zero_copy_only=False)))
        rule = f"must hold times of the format {time_format!r}"
        raise _fault(name, rule, first_row + row, excerpt(text[row].as_py()))
    _require_same_days(text, read, name, time_format, first_row, is_text=column.type in _STRINGS)
    return np.asarray(read.cast(pa.int64()))


def _require_same_days(
    text: pa.Array, read: pa.Array, name: str, time_format: str, first_row: int, *, is_text: bool
) -> None:
    """Refuse what is read as another time than it says, as February 30 or 60101 for 060101."""
    if "%z" in time_format:
        return
    said = pc.utf8_lower(pc.strftime(read.cast(pa.timestamp("s"), safe=False), time_format))
    is_other = pc.not_equal(said.cast(text.type), pc.utf8_lower(text))
    if is_text:  # which may lack zeros
        is_other = pc.and_(is_other, pc.equal(pc.utf8_length(said), pc.utf8_length(text)))
    row = pc.index(is_other, value=True).as_py()
    if row >= 0:
        rule = f"must hold times of the format {time_format!r} with all digits"
        raise _fault(name, rule, first_row + row, excerpt(text[row].as_py()))


def _of_numbers(numbers: AnyArray, name: str, unit: TimeUnit | None, first_row: int) -> Int64Array:
    if unit is None:
        _require_recent(numbers, name, first_row)
        unit = "s"
    factor = _MICROSECONDS[unit]
    with np.errstate(over="ignore"):
        scaled = numbers.astype(np.float64) * factor
    is_fitting = np.abs(scaled) < _GREATEST  # False of NaN, too
    if not is_fitting.all():
        row = int(np.argmin(is_fitting))
        rule = f"must hold times that 64 bits can count in microseconds (the unit is {unit!r})"
        raise _fault(name, rule, first_row + row, str(numbers[row]))
    if numbers.dtype.kind == "f":
        return np.floor(scaled).astype(np.int64)
    whole = numbers.astype(np.uint64 if numbers.dtype.kind == "u" else np.int64)
    return (whole // 1000 if factor < 1.0 else whole * int(factor)).astype(np.int64)


def _require_recent(numbers: AnyArray, name: str, first_row: int) -> None:
    """Refuse numbers that are no seconds of our days; say what they seem to be."""
    is_recent = _are_recent(numbers, "s")
    if is_recent.all():
        return
    row = int(np.argmin(is_recent))
    units = [unit for unit in _MICROSECONDS if _are_recent(numbers, unit).all()]
    patterns = [pattern for pattern in _FORMATS if _are_recent_as(numbers, pattern)]
    ways = [f"say time_unit={unit!r}" for unit in units]
    ways += [f"say time_format={pattern!r}" for pattern in patterns]
    if ((numbers > _DAYS_TO_COUNT[0]) & (numbers < _DAYS_TO_COUNT[1])).all():
        ways.append("take (days - 25569) * 86400 of days that spreadsheets count")
    ways = ways or ["say time_unit='s' where they are, or say their time_format='%Y%m%d'"]
    rule = (
        "must hold seconds since 1970 between 1990 and the end of next year where no unit is "
        f"named; {' or '.join(ways)}"
    )
    raise _fault(name, rule, first_row + row, str(numbers[row]))


def _are_recent(numbers: AnyArray, unit: TimeUnit) -> BoolArray:
    with np.errstate(over="ignore"):
        scaled = numbers.astype(np.float64) * _MICROSECONDS[unit]
    end = datetime(datetime.now(UTC).year + 2, 1, 1, tzinfo=UTC).timestamp() * SECOND
    return (scaled >= _EARLIEST) & (scaled < end)


def _are_recent_as(numbers: AnyArray, pattern: str) -> bool:
    """Whether the least and the greatest of some numbers are dates of our days in a format."""
    ends = [str(int(end)) for end in (numbers.min(), numbers.max()) if np.isfinite(end)]
    try:
        times = [datetime.strptime(end, pattern).replace(tzinfo=UTC) for end in ends]
    except ValueError:
        return False
    is_written = [time.strftime(pattern) for time in times] == ends
    return is_written and all(1990 <= time.year <= datetime.now(UTC).year + 1 for time in times)


def _of_text(column: pa.Array, name: str, unit: TimeUnit | None, first_row: int) -> Int64Array:
    text = pc.utf8_trim_whitespace(column)
    for wanted in (pa.int64(), pa.float64()):
        try:
            return _of_numbers(text.cast(wanted).to_numpy(), name, unit, first_row)
        except pa.ArrowInvalid:
            continue
    rule = "must hold times as ISO 8601 text, as 2026-03-01T12:00:00Z, or as numbers; "
    moments = _moments(text)
    if moments is not None:
        return _of_our_days(moments, name, unit, first_row)
    times = np.empty(len(text), np.int64)
    is_number = np.array(pc.match_substring_regex(text, _NUMERIC))
    for row in np.flatnonzero(~is_number).tolist():  # some have a zone, others have none
        own = _moments(text.slice(row, 1))
        if own is None:
            cell = text[row].as_py()
            rule += _WAY_OF_ISO if _DATE.match(cell) else _WAY_OF_OTHERS
            raise _fault(name, rule, first_row + row, excerpt(cell))
        times[row] = own[0]
    if is_number.any():  # the rarer of both are told
        row = int(np.argmax(is_number if 2 * is_number.sum() <= len(text) else ~is_number))
        rule = "must hold ISO 8601 text in all rows or numbers in all rows, not both"
        raise _fault(name, rule, first_row + row, excerpt(text[row].as_py()))
    return _of_our_days(times, name, unit, first_row)


def _moments(text: pa.Array) -> Int64Array | None:
    """Times of ISO 8601 text; None where one is none.

    Arrow reads a zone only where one is expected, and then in every row, and nine digits of a
    second only as nanoseconds.
    """
    for unit in ("us", "ns"):
        for zone in (None, "UTC"):
            try:
                read = text.cast(pa.timestamp(unit, zone))
            except pa.ArrowInvalid:
                continue
            return np.asarray(read.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64()))
    return None
