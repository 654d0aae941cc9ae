"""Times of edges: timestamps, dates, numbers or text as microseconds since 1970 (UTC)."""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from peewit.solvers.arrays import AnyArray, BoolArray, Int64Array
from peewit.streaming.edges.blocks import BadEdges, excerpt
from peewit.streaming.edges.time_units import SECOND, TimeUnit

_MICROSECONDS: Final[dict[TimeUnit, float]] = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
_DAY: Final = 86_400
_TYPE: Final = pa.timestamp("us")
_GREATEST: Final = float(2**62)
_STRINGS: Final = (pa.string(), pa.large_string(), pa.string_view())


def read_times(
    column: pa.Array | pa.ChunkedArray,
    name: str,
    unit: TimeUnit,
    first_row: int,
    *,
    is_free: BoolArray | None = None,
) -> Int64Array:
    """(n_rows,) int64 microseconds since 1970-01-01 (UTC).

    The column holds timestamps (without a zone: of UTC), dates, numbers that count ``unit``, or
    text: ISO 8601, or numbers. Errors name it ``name`` and count rows of the file from
    ``first_row``. Rows marked by ``is_free``, (n_rows,) bool, need no time and get 0 without one.
    Raises `BadEdges` where the type does not fit, or a time is missing, not one, or too far from
    today.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        column = column.cast(pa.int64())
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
    if is_free is not None and column.null_count:
        zero = pa.scalar("0" if kind in _STRINGS else 0, kind)
        column = pc.if_else(pc.and_(column.is_null(), pa.array(is_free)), zero, column)
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise _fault(name, "must not be null", first_row + row, "null")
    if kind in _STRINGS:
        return _of_text(column, name, unit, first_row)
    if is_number:
        return _of_numbers(column.to_numpy(), name, unit, first_row)
    if pa.types.is_date32(kind):
        seconds = column.cast(pa.int32()).to_numpy().astype(np.int64) * _DAY
        return _of_numbers(seconds, name, "s", first_row)
    # those with a zone hold the wall clock of UTC
    counted = column.cast(pa.int64()).to_numpy()
    return _of_numbers(counted, name, "ms" if pa.types.is_date(kind) else kind.unit, first_row)


def moment(time: int) -> str:
    """A time as people read it; in seconds where it lies beyond the calendar."""
    try:
        return f"{np.datetime64(int(time) // SECOND, 's')}Z"
    except (OverflowError, ValueError):
        return f"{time // SECOND} s"


def _fault(name: str, rule: str, row: int, value: str) -> BadEdges:
    return BadEdges(f"column {name!r} {rule}", argument="time", row=row, value=value)


def _of_numbers(numbers: AnyArray, name: str, unit: TimeUnit, first_row: int) -> Int64Array:
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


def _of_text(column: pa.Array, name: str, unit: TimeUnit, first_row: int) -> Int64Array:
    text = pc.utf8_trim_whitespace(column)
    for wanted in (pa.int64(), pa.float64()):
        try:
            return _of_numbers(text.cast(wanted).to_numpy(), name, unit, first_row)
        except pa.ArrowInvalid:
            continue
    rule = "must hold times as ISO 8601 text, as 2026-03-01T12:00:00Z, or as numbers"
    moments = _moments(text)
    if moments is not None:
        return moments
    times = np.empty(len(text), np.int64)
    for row in range(len(text)):  # some have a zone, others have none
        own = _moments(text.slice(row, 1))
        if own is None:
            raise _fault(name, rule, first_row + row, excerpt(text[row].as_py()) or "''")
        times[row] = own[0]
    return times


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
