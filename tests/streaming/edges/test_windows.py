"""Windows against loops over rows."""

import math
from collections import defaultdict
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peewit.solvers.arguments import BadArgument
from peewit.streaming.edges.blocks import BadEdges, EdgeBlock, RawBlock, edges_of
from peewit.streaming.edges.operations import DELETE, INSERT
from peewit.streaming.edges.passing import WindowCheck
from peewit.streaming.edges.time_units import NEVER, SECOND
from peewit.streaming.edges.windows import Window, relation_lengths

Row = tuple[int, int, int, int]
"""Ends, time and operation."""

WINDOW = Window(length=3.0, width=1.0, allowed_ahead=2.0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"length": 0.0}, "window.length must lie"),
        ({"length": math.nan}, "window.length must lie"),
        ({"length": math.inf}, "window.length must lie"),
        ({"length": 1e13, "width": 1e12}, "window.length must lie"),
        ({"width": 0.0}, "window.width must lie"),
        ({"width": 3.1}, "window.length must be 1 to 4096 buckets"),
        ({"length": 4097.0}, "1 to 4096 buckets: .* got 4097"),
        ({"allowed_ahead": -1.0}, "window.allowed_ahead must lie"),
        ({"allowed_ahead": math.nan}, "window.allowed_ahead must lie"),
        ({"by": "size"}, "one of time, arrival, got 'size'"),
        ({"relations": {"login": 0.5}}, "1 to 4096 buckets: .* got 0.5 for the relation 'login'"),
        ({"relations": {"a=b": None}}, "window.relations must have 1 to 64 characters"),
        ({"relations": {f"r{each}": None for each in range(65)}}, "at most 64 relations, got 65"),
    ],
)
def test_windows_that_break_a_rule_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(WINDOW, **fields)  # type: ignore[arg-type]


def test_lengths_of_relations_are_read_as_they_are_written() -> None:
    assert relation_lengths("login=30d, card=none,=90m") == {
        "login": 2_592_000.0,
        "card": None,
        "": 5_400.0,
    }
    assert relation_lengths({"login": 2, "card": None}) == {"login": 2.0, "card": None}
    assert relation_lengths(" ") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("login", "must read relation=length,relation=length, got 'login'"),
        ("login=30d,login=none", "must name each relation once, got 'login' twice"),
        ("login=a month", "90m or 45s, or none, for the relation 'login', got 'a month'"),
        ("login=", "for the relation 'login', got ''"),
    ],
)
def test_other_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(BadArgument, match=message) as refused:
        relation_lengths(text)
    assert refused.value.argument == "window.relations"


def test_a_relation_leaves_by_its_own_length_and_the_latest_time_of_any() -> None:
    window = replace(WINDOW, relations={"card": None, "login": 1.0})
    found = [window.horizon(10 * SECOND, name) for name in ("message", "login", "card")]
    assert found == [7, 9, NEVER]


@pytest.mark.parametrize("length", [1.0, 4096.0])
def test_windows_may_have_one_bucket_and_thousands(length: float) -> None:
    assert replace(WINDOW, length=length).horizon(0) == -length


seconds = st.integers(1, 10**6).map(lambda thousandths: thousandths / 1_000)


@given(width=seconds, n_buckets=st.integers(1, 4_000), time=st.integers(-(10**15), 10**15))
def test_buckets_have_the_times_from_their_start_to_the_next(
    width: float, n_buckets: int, time: int
) -> None:
    window = Window(length=width * n_buckets, width=width, allowed_ahead=0.0)
    bucket = window.bucket(time)
    assert bucket == math.floor(Fraction(time, round(width * SECOND)))
    assert window.start(bucket) <= time < window.start(bucket + 1)
    assert window.bucket(window.start(bucket)) == bucket


@given(width=seconds, share=st.floats(1.0, 4_000.0), watermark=st.integers(-(10**15), 10**15))
def test_what_lies_before_the_horizon_is_older_than_the_window_is_long(
    width: float, share: float, watermark: int
) -> None:
    window = Window(length=width * share, width=width, allowed_ahead=0.0)
    oldest = watermark - round(window.length * SECOND)
    horizon = window.horizon(watermark)
    assert window.start(horizon) <= oldest  # the last microsecond before it is older
    assert window.start(horizon + 1) > oldest  # its bucket is not wholly older
    assert window.horizon(NEVER) == NEVER


# Files


@dataclass
class Twin:
    """One file, row by row."""

    window: Window
    horizon: int
    reached: float = -math.inf
    n_late: int = 0
    n_expired: int = 0
    lives: dict[int, list[tuple[int, int, float]]] = field(default_factory=dict)

    def play(self, rows: list[Row], weights: list[float]) -> None:
        width, length = self.window.width * SECOND, self.window.length * SECOND
        self.reached = max([self.reached, *(time for _, _, time, op in rows if op != DELETE)])
        least = self.horizon
        if self.reached > -math.inf:
            least = max(least, math.floor((self.reached - length) / width))
        found = defaultdict(list)
        for (u, v, time, op), weight in zip(rows, weights, strict=True):
            bucket = math.floor(time / width)
            if op == DELETE or u == v:
                continue
            if bucket < self.horizon:
                self.n_late += 1
            elif bucket < least:
                self.n_expired += 1
            else:
                found[bucket].append((u, v, weight))
        self.lives = dict(sorted(found.items()))


def blocks_of(rows: list[Row], *, has_ops: bool, first_row: int = 0) -> tuple[EdgeBlock, RawBlock]:
    """The edges that rows add, and the rows; the first weighs 1, the second 2."""
    u, v, time, op = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    weight = np.arange(1, len(rows) + 1, dtype=np.float32)
    raw = RawBlock(
        src=pa.array(u),
        dst=pa.array(v),
        weight=weight,
        first_row=first_row,
        op=op.astype(np.uint8) if has_ops else None,
        time=time,
    )
    adds = op != DELETE
    ends = (each[adds].astype(np.int32) for each in (u, v))
    return edges_of(*ends, weight[adds], time=time[adds]), raw


def listed(block: EdgeBlock) -> list[tuple[int, int, float]]:
    columns = (block.u.tolist(), block.v.tolist(), block.weight.tolist())
    return list(zip(*columns, strict=True))


times = st.integers(-6 * SECOND, 9 * SECOND) | st.integers(-6, 9).map(lambda each: each * SECOND)
files = st.lists(  # blocks of rows
    st.lists(
        st.tuples(
            st.integers(0, 3), st.integers(0, 3), times, st.sampled_from([INSERT, INSERT, DELETE])
        ),
        min_size=1,
        max_size=12,
    ),
    min_size=1,
    max_size=4,
)


@given(
    file=files,
    has_ops=st.booleans(),
    horizon=st.sampled_from([NEVER, -4, 0, 3]),
    width=st.sampled_from([0.5, 1.0, 3.0]),
)
def test_what_lives_of_a_file_is_what_a_loop_finds(
    file: list[list[Row]], has_ops: bool, horizon: int, width: float
) -> None:
    window = replace(WINDOW, width=width, allowed_ahead=20.0)
    window_check = WindowCheck(window=window, watermark=NEVER, horizon=horizon, arrived=0)
    twin = Twin(window, horizon)
    for given_rows in file:
        rows = given_rows if has_ops else [(u, v, time, INSERT) for u, v, time, _ in given_rows]
        twin.play(rows, list(range(1, len(rows) + 1)))
        block, raw = blocks_of(rows, has_ops=has_ops)
        window_check, parts = window_check.take(block, raw)
        assert {part.bucket: listed(part) for part in parts if part.u.size} == twin.lives
        assert [part.bucket for part in parts if part.u.size] == sorted(twin.lives)
        assert len(parts) == max(1, len(twin.lives))
        assert all(part.time is None for part in parts)
        assert sum(part.n_rows for part in parts) == block.n_rows
        assert sum(part.left_out.self_loops for part in parts) == block.left_out.self_loops
        assert (window_check.n_late, window_check.n_expired) == (twin.n_late, twin.n_expired)
        assert window_check.reached == max(twin.reached, NEVER)


def test_a_block_of_one_bucket_is_not_copied() -> None:
    block, raw = blocks_of([(0, 1, 5, INSERT), (1, 2, 3, INSERT)], has_ops=False)
    window_check = WindowCheck(window=WINDOW, watermark=0, horizon=-3, arrived=0)
    _, (part,) = window_check.take(block, raw)
    assert part.u is block.u
    assert part.weight is block.weight


@pytest.mark.parametrize(("watermark", "arrived"), [(10, 4), (4, 10), (NEVER, 10)])
def test_rows_may_lie_a_little_ahead_and_no_more(watermark: int, arrived: int) -> None:
    watermark = watermark if watermark == NEVER else watermark * SECOND
    window_check = WindowCheck(
        window=WINDOW, watermark=watermark, horizon=NEVER, arrived=arrived * SECOND
    )
    last = 12 * SECOND
    rows = [(0, 1, last, INSERT), (1, 2, 11 * SECOND, INSERT), (2, 3, last + 1, INSERT)]
    block, raw = blocks_of(rows[:2], has_ops=False)
    assert window_check.take(block, raw)[0].reached == last
    block, raw = blocks_of(rows, has_ops=False, first_row=100)
    with pytest.raises(BadEdges, match="1970-01-01T00:00:12Z") as caught:
        window_check.take(block, raw)
    assert (caught.value.argument, caught.value.row) == ("time", 102)
    assert caught.value.value == "1970-01-01T00:00:12Z"


def test_what_a_file_reached_is_no_measure_of_what_may_follow_in_it() -> None:
    window_check = WindowCheck(window=WINDOW, watermark=0, horizon=-3, arrived=0)
    window_check, _ = window_check.take(*blocks_of([(0, 1, 2 * SECOND, INSERT)], has_ops=False))
    with pytest.raises(BadEdges, match="ahead"):
        window_check.take(*blocks_of([(0, 1, 3 * SECOND, INSERT)], has_ops=False))


@pytest.mark.parametrize("by", ["arrival", "time"])
def test_edges_without_a_time_belong_to_the_arrival_of_their_file(by: str) -> None:
    """By arrival nobody looks at a time that is there."""
    window = replace(WINDOW, by=by)
    block, raw = blocks_of([(0, 1, 10**12, INSERT), (1, 1, 0, INSERT)], has_ops=False)
    if by == "time":
        block, raw = replace(block, time=None), replace(raw, time=None)
    arrived = 7 * SECOND + 5
    window_check = WindowCheck(window=window, watermark=0, horizon=-3, arrived=arrived)
    passed, (part,) = window_check.take(block, raw)
    assert (part.bucket, listed(part), part.time) == (7, [(0, 1, 1.0)], None)
    assert (part.n_rows, part.left_out.self_loops) == (2, 1)
    assert (passed.reached, passed.n_late, passed.n_expired) == (arrived, 0, 0)
    late, (part,) = replace(window_check, horizon=8).take(block, raw)
    assert (listed(part), part.n_rows, part.left_out.self_loops) == ([], 2, 1)
    assert (late.n_late, late.n_expired) == (1, 0)
