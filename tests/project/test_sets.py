"""What `make test` and `make test-all` leave out, in a small suite of its own."""

import pytest

SUITE = """
import pytest

def test_plain():
    pass

@pytest.mark.slow
def test_slow():
    pass

@pytest.mark.usefixtures("processes")
def test_spawning():
    pass

@pytest.mark.nightly
def test_sweep():
    pass

@pytest.mark.thinned(3)
@pytest.mark.parametrize("number", range(6))
def test_product(number):
    assert number % 3 == 1

@pytest.mark.sweep(3)
@pytest.mark.parametrize("number", range(6))
def test_checks(number):
    assert number % 3 == 2
"""
WALKS = """
import pytest

@pytest.mark.usefixtures("processes")
def test_walk():
    pass
"""
SETTINGS = """
[pytest]
testpaths = tests
markers =
    nightly
    slow
    spawns
    sweep(step)
    thinned(step)
"""
PLUGINS = ("-p", "tests.process_guard", "-p", "tests.sets")


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makefile(".ini", pytest=SETTINGS)
    pytester.mkdir("tests").joinpath("test_it.py").write_text(SUITE)
    pytester.mkdir("tests/end_to_end").joinpath("test_walks.py").write_text(WALKS)
    return pytester


def test_what_is_left_out_is_counted_by_reason(suite: pytest.Pytester) -> None:
    ran = suite.runpytest_inprocess(*PLUGINS, "--quick")
    ran.assert_outcomes(passed=5, deselected=11)
    ran.stdout.fnmatch_lines(
        "left out tests/end_to_end and 11 tests (1 that take long, 1 that start processes, "
        "1 that are sweeps, 8 that repeat one path); `make test-nightly` runs everything"
    )


def test_all_but_sweeps_run_where_nothing_is_said(suite: pytest.Pytester) -> None:
    ran = suite.runpytest_inprocess(*PLUGINS)
    ran.assert_outcomes(passed=8, failed=4, deselected=5)
    ran.stdout.fnmatch_lines("left out 5 tests (1 that are sweeps, 4 that repeat one path);*")


@pytest.mark.parametrize(
    "choice", [["--nightly"], ["--quick", "tests"], ["--quick", "-k", "test"], ["-m", "not none"]]
)
def test_nothing_is_left_out_of_what_was_chosen(suite: pytest.Pytester, choice: list[str]) -> None:
    ran = suite.runpytest_inprocess(*PLUGINS, *choice)
    ran.assert_outcomes(passed=9, failed=8)
    ran.stdout.no_fnmatch_line("left out*")


@pytest.mark.usefixtures("processes")
def test_workers_tell_what_they_left_out(suite: pytest.Pytester) -> None:
    ran = suite.runpytest_inprocess(*PLUGINS, "--quick", "-n", "1")
    ran.assert_outcomes(passed=5)
    ran.stdout.fnmatch_lines("left out tests/end_to_end and 11 tests*")


@pytest.mark.usefixtures("processes")
def test_workers_leave_nothing_out_of_what_was_chosen(suite: pytest.Pytester) -> None:
    ran = suite.runpytest_inprocess(*PLUGINS, "--quick", "-n", "1", "tests")
    ran.assert_outcomes(passed=9, failed=8)
