import pytest

from peewit.solvers.iteration_loop import ProgressReport, iterate
from peewit.solvers.status import Status


class CountDown:
    """Ends after a number of steps."""

    def __init__(self, n_steps: int) -> None:
        self.n_steps = n_steps

    def init(self) -> int:
        return 0

    def step(self, state: int) -> int:
        return state + 1

    def terminate(self, state: int) -> Status | None:
        return Status.CONVERGED if state == self.n_steps else None

    def fraction(self, state: int) -> float:
        return state / self.n_steps


def test_a_method_runs_until_it_terminates() -> None:
    outcome = iterate(CountDown(5), max_iter=10, phase="count")
    assert (outcome.state, outcome.status, outcome.n_iter) == (5, Status.CONVERGED, 5)


def test_a_method_that_is_done_takes_no_step() -> None:
    assert iterate(CountDown(0), max_iter=10, phase="count").n_iter == 0


def test_the_limit_ends_a_run_with_its_own_status() -> None:
    outcome = iterate(CountDown(5), max_iter=3, phase="count")
    assert (outcome.state, outcome.status) == (3, Status.MAX_ITER)


def test_converging_in_the_last_step_allowed_counts() -> None:
    assert iterate(CountDown(5), max_iter=5, phase="count").status is Status.CONVERGED


def test_progress_is_told_after_every_step() -> None:
    reports: list[ProgressReport] = []
    iterate(CountDown(4), max_iter=9, phase="count", progress=reports.append)
    assert [report.n_iter for report in reports] == [1, 2, 3, 4]
    assert [report.fraction for report in reports] == [0.25, 0.5, 0.75, 1.0]
    assert {(report.phase, report.max_iter) for report in reports} == {("count", 9)}


def test_cancellation_is_asked_before_every_step() -> None:
    answers = iter([False, False, True])
    outcome = iterate(CountDown(9), max_iter=9, phase="count", cancelled=lambda: next(answers))
    assert (outcome.state, outcome.status) == (2, Status.CANCELLED)


def test_an_exception_in_progress_reaches_the_caller() -> None:
    def fail(report: ProgressReport) -> None:
        raise LookupError(report.phase)

    with pytest.raises(LookupError, match="count"):
        iterate(CountDown(4), max_iter=9, phase="count", progress=fail)


def test_every_status_says_what_happened_and_failures_what_to_try() -> None:
    for status in Status:
        assert status.message
        assert bool(status.advice) == (status is not Status.CONVERGED)
        assert Status(status.value) is status
