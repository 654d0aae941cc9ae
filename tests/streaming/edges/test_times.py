"""Times of every type of column and file against Python's datetime."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.edges.column_mapping import EdgeColumns
from peewit.streaming.edges.parts import BadRow
from peewit.streaming.edges.reader import read_part
from peewit.streaming.edges.sources import EdgeFiles
from peewit.streaming.edges.staging import stage
from peewit.streaming.edges.time_units import SECOND, TimeUnit
from peewit.streaming.edges.times import moment, read_times

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = [
    datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    EPOCH + timedelta(days=90),
    datetime(1677, 10, 1, 4, 5, tzinfo=UTC),
    datetime(2262, 1, 1, 0, 0, 0, 7, tzinfo=UTC),
    datetime(2026, 10, 25, 1, 30, tzinfo=UTC),  # an hour that Berlin has twice
]
UNITS: tuple[TimeUnit, ...] = ("s", "ms", "us", "ns")
COARSE = {"s": SECOND, "ms": 1_000, "us": 1, "ns": 1}
"""Microseconds that a unit cannot tell apart."""


def micro(when: datetime) -> int:
    return (when - EPOCH) // timedelta(microseconds=1)


def counts(unit: TimeUnit) -> list[int]:
    return [
        micro(when) * 1_000 if unit == "ns" else micro(when) // COARSE[unit] for when in MOMENTS
    ]


def cut(unit: TimeUnit) -> list[int]:
    return [micro(when) // COARSE[unit] * COARSE[unit] for when in MOMENTS]


def read(column: pa.Array | pa.ChunkedArray, unit: TimeUnit = "s") -> list[int]:
    return read_times(column, "at", unit, 0).tolist()


@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Kolkata", "Europe/Berlin"])
@pytest.mark.parametrize("unit", UNITS)
def test_timestamps(unit: TimeUnit, zone: str | None) -> None:
    column = pa.array(counts(unit), pa.int64()).cast(pa.timestamp(unit, zone))
    assert read(column) == cut(unit)


def test_timestamps_with_a_zone_are_the_moments_that_python_means() -> None:
    there = [when.astimezone(ZoneInfo("Europe/Berlin")) for when in MOMENTS]
    assert read(pa.array(there, pa.timestamp("us", "Europe/Berlin"))) == list(map(micro, MOMENTS))


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_dates_are_their_midnight(kind: pa.DataType) -> None:
    days = [date(2026, 3, 1), date(1969, 12, 31), date(1, 1, 2), date(9999, 12, 30)]
    midnights = [datetime(day.year, day.month, day.day, tzinfo=UTC) for day in days]
    assert read(pa.array(days, kind)) == list(map(micro, midnights))


@pytest.mark.parametrize("unit", UNITS)
def test_numbers_count_what_the_unit_says(unit: TimeUnit) -> None:
    assert read(pa.array(counts(unit), pa.int64()), unit) == cut(unit)
    assert read(pa.array([str(each) for each in counts(unit)]), unit) == cut(unit)
    after = [count for count in counts(unit) if count >= 0]
    assert read(pa.array(after, pa.uint64()), unit) == [each for each in cut(unit) if each >= 0]
    quarters = [1_772_366_400.25, -0.75, 1e-4, 3.0]  # halves of halves, which floats hold
    per = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}[unit]
    floored = [int(np.floor(each * per)) for each in quarters]
    assert read(pa.array(quarters), unit) == floored
    assert read(pa.array(list(map(str, quarters))), unit) == floored


def test_narrow_numbers_are_widened_first() -> None:
    for kind in (pa.int8(), pa.uint8(), pa.int16(), pa.uint32(), pa.float16(), pa.float32()):
        column = pa.array([0, 100, 7]).cast(kind)
        assert read(column) == [0, 100 * SECOND, 7 * SECOND], kind
        assert read(column, "ns") == [0, 0, 0], kind
    assert read(pa.array([1_772_366_464.0], pa.float32())) == [1_772_366_464 * SECOND]
    assert read(pa.array([2**64 - 1], pa.uint64()), "ns") == [(2**64 - 1) // 1_000]


EAST = timezone(timedelta(hours=5, minutes=30))
TEXTS: dict[str, Callable[[datetime], str]] = {
    "without a zone": lambda when: when.replace(tzinfo=None).isoformat(),
    "with blanks": lambda when: f" {when:%Y-%m-%d %H:%M:%S.%f} ",
    "of UTC": lambda when: when.replace(tzinfo=None).isoformat() + "Z",
    "of the east": lambda when: when.astimezone(EAST).isoformat(),
    "of any zone": lambda when: when.astimezone(EAST if when.year % 4 else UTC).isoformat(),
    "with and without": lambda when: (
        when if when.year % 4 else when.replace(tzinfo=None)
    ).isoformat(),
}


@pytest.mark.parametrize("how", TEXTS)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_iso_text(how: str, kind: pa.DataType) -> None:
    column = pa.array([TEXTS[how](when) for when in MOMENTS]).cast(kind)
    assert read(column) == list(map(micro, MOMENTS))


def test_days_and_minutes_are_text_enough() -> None:
    assert read(pa.array(["2026-03-01", "2026-03-01 10:20"])) == [
        micro(datetime(2026, 3, 1, tzinfo=UTC)),
        micro(datetime(2026, 3, 1, 10, 20, tzinfo=UTC)),
    ]


def test_dictionaries_and_chunks_are_as_what_they_hold() -> None:
    text = pa.array([when.isoformat() for when in MOMENTS])
    whole = list(map(micro, MOMENTS))
    assert read(text.dictionary_encode()) == whole
    assert read(pa.chunked_array([text[:2], text[2:2], text[2:]])) == whole
    numbers = pa.chunked_array([pa.array([], pa.int64()), pa.array(whole)])
    assert read(numbers, "us") == read(numbers.dictionary_encode(), "us") == whole
    assert read(pa.chunked_array([], pa.string())) == []
    assert read(pa.array([], pa.null())) == []


DAY = pa.array(["2026-03-01"])
BAD: dict[str, tuple[pa.Array, int | None, str | None, str]] = {
    "null": (pa.array([1, None, 2]), 1, "null", "not be null"),
    "null text": (pa.array(["2026-03-01", "2026-03-02", None]), 2, "null", "not be null"),
    "nothing but nulls": (pa.array([None, None]), 0, "null", "not be null"),
    "bool": (pa.array([True, False]), None, None, "got type bool"),
    "list": (pa.array([[1]]), None, None, "got type list"),
    "nan": (pa.array([0.0, float("nan")]), 1, "nan", "or empty"),
    "nan text": (pa.array(["0", "nan"]), 1, "nan", "or empty"),
    "word among numbers": (pa.array(["0", "NA", "1"]), 1, "NA", "or empty"),
    "empty among numbers": (pa.array(["0", "1", ""]), 2, "''", "or empty"),
    "typo among numbers": (pa.array(["0", "1", "n.n."]), 2, "n.n.", "another way"),
    "text among numbers": (pa.array(["0", "1", "2026-03-01"]), 2, "2026-03-01", "not both"),
    "zone by name": (pa.array(["2026-03-01 10:00:00 CET"]), 0, "2026-03-01 10:00:00 CET", "offset"),
    "infinite": (pa.array([float("-inf")]), 0, "-inf", "64 bits"),
    "beyond doubles": (pa.array([1e305]), 0, "1e+305", "64 bits"),
    "large": (pa.array([0, 2**50]), 1, str(2**50), "64 bits"),
    "large text": (pa.array(["0", "9" * 40]), 1, "1e+40", "64 bits"),
    "large unsigned": (pa.array([2**64 - 1], pa.uint64()), 0, str(2**64 - 1), "64 bits"),
    "late seconds": (pa.array([2**53], pa.timestamp("s")), 0, str(2**53), "64 bits"),
    "late": (pa.array([0, 2**62], pa.timestamp("us", "UTC")), 1, str(2**62), "64 bits"),
    "early": (pa.array([-(2**62)], pa.timestamp("us")), 0, str(-(2**62)), "64 bits"),
    "late days": (pa.array([2**31 - 1], pa.date32()), 0, str((2**31 - 1) * 86_400), "64 bits"),
    "no text": (pa.array(["2026-03-01", "yesterday"]), 1, "yesterday", "ISO 8601"),
    "no day": (pa.array(["2026-02-30", "2026-03-01"]), 0, "2026-02-30", "ISO 8601"),
    "empty": (pa.array(["2026-03-01", " "]), 1, "''", "or empty"),
    "number among text": (pa.array(["2026-03-01", "12"]), 1, "12", "ISO 8601"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_time_is_refused_with_its_row_and_value(name: str) -> None:
    column, row, value, reason = BAD[name]
    with pytest.raises(BadEdges, match=reason) as caught:
        read_times(column, "at", "s", 100)
    assert "'at'" in caught.value.reason
    assert caught.value.argument == "time"
    assert caught.value.row == (None if row is None else 100 + row)
    assert caught.value.value == value


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.timestamp(unit, zone) for unit in UNITS for zone in (None, "UTC")),
        *(pa.date32(), pa.date64(), pa.int8(), pa.uint64(), pa.float32(), pa.null()),
        *(pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())),
    ],
    ids=str,
)
def test_rows_that_need_no_time_have_0_where_there_is_none(kind: pa.DataType) -> None:
    column = pa.array([None, None], kind)
    free = np.array([True, True])
    assert read_times(column, "at", "s", 0, is_free=free).tolist() == [0, 0]
    with pytest.raises(BadEdges, match="null") as caught:
        read_times(column, "at", "s", 5, is_free=np.array([True, False]))
    assert caught.value.row == 6


def test_empty_times_alone_are_bad_among_numbers(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    rows = [f"a{k},b{k},{'' if k % 50 == 7 else k}\n" for k in range(5_000)]
    path.write_text("from,to,at\n" + "".join(rows))
    columns = replace(COLUMNS, time_unit="s")
    with pytest.raises(BadEdges, match=r"100 rows are bad, .*'at' must not be null or empty"):
        times_of(path, columns, max_bad_rows=20)
    found, bad = times_of(path, columns, max_bad_rows=100)
    assert found == [k * SECOND for k in range(5_000) if k % 50 != 7]
    assert [each.row for each in bad] == list(range(7, 5_000, 50))


def test_rows_that_need_no_time_keep_what_they_have() -> None:
    free = np.array([True, False, True])
    column = pa.array([3, 4, None])
    assert read_times(column, "at", "s", 0, is_free=free).tolist() == [3 * SECOND, 4 * SECOND, 0]


def test_moments_are_shown_as_people_read_them() -> None:
    assert moment(micro(datetime(2026, 3, 1, 12, 0, 5, 999, tzinfo=UTC))) == "2026-03-01T12:00:05Z"
    assert moment(-1) == "1969-12-31T23:59:59Z"
    assert moment(2**62).endswith("Z")


# Through files

COLUMNS = EdgeColumns(src="from", dst="to", time="at")
SHOWN = [when.isoformat() for when in MOMENTS]


def write(path: Path, times: pa.Array) -> None:
    """A file of edges in the format of its name."""
    ends = [f"n{row}" for row in range(len(times) + 1)]
    table = pa.table({"from": ends[:-1], "to": ends[1:], "at": times})
    match path.suffix:
        case ".csv":
            rows = zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
            lines = [
                "from,to,at",
                *(",".join("" if c is None else str(c) for c in r) for r in rows),
            ]
            path.write_text("\n".join(lines) + "\n")
        case ".ndjson":
            path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
        case ".arrow":
            with pa.ipc.new_file(str(path), table.schema) as writer:
                writer.write_table(table)
        case _:
            pq.write_table(table, path, row_group_size=2)


def times_of(
    path: Path, columns: EdgeColumns = COLUMNS, *, max_bad_rows: int = 0
) -> tuple[list[int], tuple[BadRow, ...]]:
    (file,) = EdgeFiles(path, columns=columns, max_bad_rows=max_bad_rows).list()
    found: list[int] = []
    with stage(file, path.parent / "staging", node_kind="string") as staged:
        for part in staged.parts:
            block = read_part(staged, part, node_kind="string", max_nodes=100)
            found += [] if block.time is None else block.time.tolist()
        return found, staged.bad_rows


FORMATS = ["e.csv", "e.ndjson", "e.arrow", "e.parquet"]


@pytest.mark.parametrize("max_bad_rows", [0, 1])
@pytest.mark.parametrize("name", FORMATS)
def test_files_of_every_format_keep_their_times(
    tmp_path: Path, name: str, max_bad_rows: int
) -> None:
    path, expected = tmp_path / name, list(map(micro, MOMENTS))
    write(path, pa.array(SHOWN))
    assert times_of(path, max_bad_rows=max_bad_rows) == (expected, ())
    for unit in ("us", "ns"):
        write(path, pa.array(counts(unit)))
        columns = replace(COLUMNS, time_unit=unit)
        assert times_of(path, columns, max_bad_rows=max_bad_rows) == (expected, ())


@pytest.mark.parametrize("max_bad_rows", [0, 1])
def test_timestamps_in_files_keep_their_moments(tmp_path: Path, max_bad_rows: int) -> None:
    for name in FORMATS[2:]:
        for kind in (pa.timestamp("us", "Asia/Kolkata"), pa.timestamp("us")):
            write(tmp_path / name, pa.array(list(map(micro, MOMENTS))).cast(kind))
            found, _ = times_of(tmp_path / name, max_bad_rows=max_bad_rows)
            assert found == list(map(micro, MOMENTS))


@pytest.mark.parametrize("name", FORMATS)
def test_a_column_of_times_that_is_missing_is_named(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, pa.array(SHOWN))
    with pytest.raises(BadEdges, match="'when'") as caught:
        times_of(tmp_path / name, EdgeColumns(src="from", dst="to", time="when"))
    assert caught.value.argument == "time"
    with pytest.raises(BadEdges, match="'AT'"):
        times_of(tmp_path / name, EdgeColumns(src="from", dst="to", time="AT"))


@pytest.mark.parametrize("name", FORMATS)
def test_bad_times_are_left_out_where_that_is_allowed(tmp_path: Path, name: str) -> None:
    dirty = [SHOWN[0], "soon", SHOWN[1], None, SHOWN[2]]
    write(tmp_path / name, pa.array(dirty))
    found, bad = times_of(tmp_path / name, max_bad_rows=2)
    assert found == list(map(micro, MOMENTS[:3]))
    assert [each.row for each in bad] == [1, 3]
    assert bad[0].value == "soon"
    for allowed in (0, 1):
        with pytest.raises(BadEdges) as caught:
            times_of(tmp_path / name, max_bad_rows=allowed)
        assert caught.value.row in {1, 3}


@pytest.mark.parametrize("text", ["0001-01-01", "1970-01-01T00:00:00Z", "9999-12-31 23:59:59"])
@pytest.mark.parametrize("name", FORMATS)
def test_what_programs_write_where_there_is_no_time_is_no_time(
    tmp_path: Path, name: str, text: str
) -> None:
    write(tmp_path / name, pa.array(["2026-03-01 00:00:00", text]))
    with pytest.raises(BadEdges, match="what programs write where there is none") as caught:
        times_of(tmp_path / name)
    assert caught.value.row == 1
    assert len(times_of(tmp_path / name, max_bad_rows=1)[0]) == 1
    assert len(times_of(tmp_path / name, replace(COLUMNS, time_unit="us"))[0]) == 2


def test_json_has_text_and_numbers_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "e.ndjson"
    for bad in (True, [1], {"a": 1}):
        rows = [{"from": "a", "to": "b", "at": each} for each in (1, 2.5, bad)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        with pytest.raises(BadEdges, match="text or numbers") as caught:
            times_of(path, replace(COLUMNS, time_unit="s"))
        assert caught.value.row == 2
        found, _ = times_of(path, replace(COLUMNS, time_unit="s"), max_bad_rows=1)
        assert found == [SECOND, 5 * SECOND // 2]
    path.write_text(json.dumps({"from": "a", "to": "b", "at": 10**40}) + "\n")
    with pytest.raises(BadEdges, match="64 bits") as caught:
        times_of(path, replace(COLUMNS, time_unit="s"))
    assert caught.value.row == 0


@pytest.mark.parametrize(
    ("column", "time_format"),
    [
        (pa.array(["20260230"]), "%Y%m%d"),
        (pa.array(["31/02/2026"]), "%d/%m/%Y"),
        (pa.array([60101]), "%y%m%d"),
        (pa.array([1012026]), "%d%m%Y"),
    ],
)
def test_a_format_reads_what_is_written(column: pa.Array, time_format: str) -> None:
    with pytest.raises(BadEdges, match="of the format"):
        read_times(column, "at", None, 0, time_format=time_format)


def test_a_format_may_lack_zeros_in_text_and_know_offsets() -> None:
    for text, time_format in (("1/3/2026", "%d/%m/%Y"), ("01.03.2026 +0000", "%d.%m.%Y %z")):
        read = read_times(pa.array([text]), "at", None, 0, time_format=time_format)
        assert moment(read[0]) == "2026-03-01T00:00:00Z"
    for code in ("%Z", "%f"):
        with pytest.raises(ValueError, match=code):
            EdgeColumns(time="at", time_format=f"%Y {code}")


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1_790_000_000], pa.timestamp("ms")),
        pa.array([1_790_000_000], pa.timestamp("us", "UTC")),
        pa.array(["1970-01-21T17:13:20"]),
    ],
)
def test_moments_that_all_lie_in_the_first_days_are_refused(column: pa.Array) -> None:
    with pytest.raises(BadEdges, match="January of 1970"):
        read_times(column, "at", None, 0)
    assert read_times(column, "at", "us", 0)[0] > 0


@pytest.mark.parametrize(
    ("number", "way"),
    [
        (260102, "time_format='%y%m%d'"),
        (202601, "time_format='%Y%m'"),
        (202601021530, "time_format='%Y%m%d%H%M'"),
        (46_000, "days - 25569"),
        (1_790_000_000_000, "time_unit='ms'"),
    ],
)
def test_numbers_that_are_no_seconds_are_told_what_they_may_be(number: int, way: str) -> None:
    with pytest.raises(BadEdges) as caught:
        read_times(pa.array([number]), "at", None, 0)
    assert way in str(caught.value)


def test_int96_counts_beyond_2262(tmp_path: Path) -> None:
    far = pa.array([datetime(9999, 1, 1)], pa.timestamp("us"))  # noqa: DTZ001 - as INT96 has it
    table = pa.table({"from": ["a"], "to": ["b"], "at": far})
    pq.write_table(table, tmp_path / "e.parquet", use_deprecated_int96_timestamps=True)
    (time,), _ = times_of(tmp_path / "e.parquet")
    assert moment(time) == "9999-01-01T00:00:00Z"


def test_times_that_nobody_asks_for_are_not_read(tmp_path: Path) -> None:
    write(tmp_path / "e.csv", pa.array(["never"]))
    assert times_of(tmp_path / "e.csv", EdgeColumns(src="from", dst="to")) == ([], ())


def test_units_are_checked() -> None:
    with pytest.raises(ValueError, match="time_unit"):
        EdgeColumns(time="at", time_unit="min")  # type: ignore[arg-type]
