"""An item is held to the CPU seconds that it usually takes."""

import json
from pathlib import Path

import pytest

from tests.item_cost import is_unusual

SUITE = """
import os
import time

def test_busy():
    end = time.process_time() + float(os.environ["BUSY_SECONDS"])
    while time.process_time() < end:
        pass
"""
PLUGINS = ("-p", "tests.item_cost")
ITEM = "test_it.py::test_busy"


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    pytester.path.joinpath("test_it.py").write_text(SUITE)
    monkeypatch.setenv("BUSY_SECONDS", "0.05")
    return pytester


def usual(suite: pytest.Pytester) -> Path:
    return suite.path / ".pytest_cache" / "v" / "peewit" / "cpu_seconds"


def test_what_calls_take_is_kept_of_the_last_runs(suite: pytest.Pytester) -> None:
    suite.runpytest_inprocess(*PLUGINS).assert_outcomes(passed=1)
    first = json.loads(usual(suite).read_text())[ITEM]
    assert len(first) == 1
    usual(suite).write_text(json.dumps({ITEM: [0.1, 0.2, 0.3, 0.4, 0.5]}))
    suite.runpytest_inprocess(*PLUGINS).assert_outcomes(passed=1)
    kept = json.loads(usual(suite).read_text())[ITEM]
    assert kept[:-1] == [0.2, 0.3, 0.4, 0.5]
    assert 0.04 < kept[-1] < 10.0
    assert 0.04 < first[-1] < 10.0


@pytest.mark.parametrize(("scale", "outcome"), [(1e-4, "failed"), (1.0, "passed")])
def test_ten_times_the_usual_seconds_fail(
    suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, scale: float, outcome: str
) -> None:
    monkeypatch.setattr("tests.item_cost.ALWAYS_ALLOWED_SECONDS", 0.01)
    suite.runpytest_inprocess(*PLUGINS)
    usual(suite).write_text(json.dumps({ITEM: [0.05 * scale] * 3}))
    ran = suite.runpytest_inprocess(*PLUGINS)
    ran.assert_outcomes(**{outcome: 1})
    if outcome == "failed":
        ran.stdout.fnmatch_lines(f"*{ITEM} took * CPU seconds, usual are *make it cheaper*")


def test_the_dearest_are_printed_by_their_seconds(suite: pytest.Pytester) -> None:
    ran = suite.runpytest_inprocess(*PLUGINS, "--dearest", "1")
    ran.stdout.fnmatch_lines(["1 tests took * CPU seconds", f"*0.0*{ITEM}"])


@pytest.mark.parametrize(
    ("seconds", "earlier", "unusual"),
    [
        (50.0, [], False),
        (50.0, [1.0, 1.0], False),
        (50.0, [1.0, 1.0, 1.0], True),
        (50.0, [1.0, 9.0, 9.0], False),
        (2.9, [0.01, 0.01, 0.01], False),
    ],
)
def test_what_is_unusual_is_ten_times_the_median_and_seconds(
    seconds: float, earlier: list[float], unusual: bool
) -> None:
    assert is_unusual(seconds, earlier) is unusual
