"""An item is held to the CPU seconds that it usually takes."""

import gc
import json
import time
from pathlib import Path

import pytest

from tests.item_cost import ALWAYS_ALLOWED_SECONDS, USUAL_COSTS, is_unusual

SUITE = """
import os
import time

import pytest

def test_busy():
    end = time.process_time() + float(os.environ["BUSY_SECONDS"])
    while time.process_time() < end:
        pass
    if "OUTCOME" in os.environ:
        getattr(pytest, os.environ["OUTCOME"])("as it was told")
"""
PLUGINS = ("-p", "tests.item_cost")
ITEM = "test_it.py::test_busy"


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    pytester.path.joinpath("test_it.py").write_text(SUITE)
    monkeypatch.setenv("BUSY_SECONDS", "0.05")
    for name in ("PEEWIT_ITEM_COSTS", "HYPOTHESIS_PROFILE", "NUMBA_DISABLE_JIT"):
        monkeypatch.delenv(name, raising=False)
    # where the other workers compile, a call would count as one that compiles
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(pytester.path / "kernels"))
    table = pytester.path / "table.json"
    table.write_text("{}")
    monkeypatch.setattr("tests.item_cost.USUAL_COSTS", table)
    return pytester


@pytest.fixture
def nothing_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.item_cost.ALWAYS_ALLOWED_SECONDS", 0.01)


def usual(suite: pytest.Pytester) -> Path:
    return suite.path / ".pytest_cache" / "d" / "peewit" / "cpu_seconds.json"


def set_usual(suite: pytest.Pytester, *seconds: float) -> None:
    usual(suite).parent.mkdir(parents=True, exist_ok=True)
    usual(suite).write_text(json.dumps({ITEM: seconds}))


def get_usual(suite: pytest.Pytester) -> list[float]:
    seconds: list[float] = json.loads(usual(suite).read_text())[ITEM]
    return seconds


def test_what_calls_take_is_kept_of_the_last_runs(suite: pytest.Pytester) -> None:
    suite.runpytest_inprocess(*PLUGINS).assert_outcomes(passed=1)
    (first,) = get_usual(suite)
    set_usual(suite, 0.1, 0.2, 0.3, 0.4, 0.5)
    suite.runpytest_inprocess(*PLUGINS).assert_outcomes(passed=1)
    *earlier, last = get_usual(suite)
    assert earlier == [0.2, 0.3, 0.4, 0.5]
    assert 0.04 < last < 10.0
    assert 0.04 < first < 10.0


@pytest.mark.usefixtures("nothing_allowed")
def test_ten_times_the_usual_seconds_fail_in_every_run(suite: pytest.Pytester) -> None:
    set_usual(suite, 0.001)
    for _ in range(2):
        ran = suite.runpytest_inprocess(*PLUGINS)
        ran.assert_outcomes(failed=1)
        ran.stdout.fnmatch_lines(f"*{ITEM} took * CPU seconds, usual are *make it cheaper*")
    assert get_usual(suite) == [0.001]
    set_usual(suite, 0.05)
    suite.runpytest_inprocess(*PLUGINS).assert_outcomes(passed=1)


@pytest.mark.parametrize(("outcome", "counted"), [("fail", "failed"), ("skip", "skipped")])
def test_only_what_passed_is_usual(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, outcome: str, counted: str
) -> None:
    monkeypatch.setenv("OUTCOME", outcome)
    suite.runpytest_inprocess(*PLUGINS).assert_outcomes(**{counted: 1})
    assert not usual(suite).exists()


@pytest.mark.usefixtures("nothing_allowed")
@pytest.mark.parametrize(
    ("name", "value"), [("HYPOTHESIS_PROFILE", "thorough"), ("NUMBA_DISABLE_JIT", "1")]
)
def test_runs_that_take_longer_by_design_neither_fail_nor_are_usual(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    set_usual(suite, 0.001)
    suite.runpytest_inprocess(*PLUGINS).assert_outcomes(passed=1)
    assert get_usual(suite) == [0.001]


@pytest.mark.usefixtures("nothing_allowed")
def test_what_is_usual_may_lie_in_a_file_of_any_name(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = suite.path / "beside" / "costs.json"
    monkeypatch.setenv("PEEWIT_ITEM_COSTS", str(file))
    suite.runpytest_inprocess(*PLUGINS).assert_outcomes(passed=1)
    assert list(json.loads(file.read_text())) == [ITEM]
    assert not usual(suite).exists()
    file.write_text(json.dumps({ITEM: [0.001]}))
    suite.runpytest_inprocess(*PLUGINS).assert_outcomes(failed=1)


@pytest.mark.usefixtures("nothing_allowed")
@pytest.mark.parametrize(
    ("table", "options", "outcome"),
    [
        ({}, (), "passed"),
        ({}, ("--quick",), "failed"),
        ({ITEM: 0.001}, (), "failed"),
        ({ITEM: 0.05}, ("--quick",), "passed"),
    ],
)
def test_a_clone_that_has_run_nothing_is_held_to_the_table(
    suite: pytest.Pytester, table: dict[str, float], options: tuple[str, ...], outcome: str
) -> None:
    suite.path.joinpath("table.json").write_text(json.dumps(table))
    ran = suite.runpytest_inprocess(*PLUGINS, "-p", "tests.sets", *options)
    ran.assert_outcomes(**{outcome: 1})


@pytest.mark.usefixtures("nothing_allowed")
def test_a_dear_item_that_the_table_lacks_fails_where_it_has_run_before(
    suite: pytest.Pytester,
) -> None:
    set_usual(suite, 0.05)
    ran = suite.runpytest_inprocess(*PLUGINS, "-p", "tests.sets", "--quick")
    ran.assert_outcomes(failed=1)


@pytest.mark.parametrize(
    ("earlier", "table"),
    [
        ({ITEM: [9.0, 1.234, 0.1], "test_other.py::test_it": [8.0]}, {ITEM: 1.23}),
        ({ITEM: [0.2]}, {}),
        ({}, {ITEM: 5.0}),
    ],
)
def test_the_table_is_written_of_the_dear_ones_that_are_collected(
    suite: pytest.Pytester, earlier: dict[str, list[float]], table: dict[str, float]
) -> None:
    written = suite.path / "table.json"
    written.write_text(json.dumps({ITEM: 5.0, "test_gone.py::test_it": 8.0}))
    set_usual(suite)
    usual(suite).write_text(json.dumps(earlier))
    suite.runpytest_inprocess(*PLUGINS, "--collect-only", "--write-usual-costs")
    assert json.loads(written.read_text()) == table


def test_the_table_names_dear_items_in_order() -> None:
    table = json.loads(USUAL_COSTS.read_text())
    assert table
    assert list(table) == sorted(table)


def test_collections_of_garbage_are_not_counted(suite: pytest.Pytester) -> None:
    suite.path.joinpath("test_it.py").write_text(
        "import gc\n\ndef test_busy():\n    for _ in range(20):\n        gc.collect()\n"
    )
    alive = [[] for _ in range(300_000)]  # takes a while to look at
    began = time.process_time()
    for _ in range(20):
        gc.collect()
    collecting = time.process_time() - began
    suite.runpytest_inprocess(*PLUGINS).assert_outcomes(passed=1)
    assert len(alive) == 300_000
    assert get_usual(suite)[0] < collecting / 2


def test_the_dearest_are_printed_by_their_seconds(suite: pytest.Pytester) -> None:
    ran = suite.runpytest_inprocess(*PLUGINS, "--dearest", "1")
    ran.stdout.fnmatch_lines(["1 tests took * CPU seconds", f"*0.0*{ITEM}"])


@pytest.mark.parametrize(
    ("seconds", "usual", "unusual"),
    [
        (50.0, None, False),
        (50.0, 4.9, True),
        (50.0, 5.1, False),
        (3.1, 0.0, True),
        (2.9, 0.01, False),
    ],
)
def test_what_is_unusual_is_ten_times_the_usual_and_seconds(
    seconds: float, usual: float | None, unusual: bool
) -> None:
    assert is_unusual(seconds, usual, ALWAYS_ALLOWED_SECONDS) is unusual
