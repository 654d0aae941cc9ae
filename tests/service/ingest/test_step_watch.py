"""Work that takes long is told from work that stands still."""

import os
import threading
import time
from dataclasses import dataclass, field

import psutil
import pytest

from peewit.service.ingest.step_watch import StepWatch, processor_seconds

STALL_SECONDS = 45.0


@dataclass
class Watched:
    """A process that computes and reports as a test says, looked at every two seconds."""

    now: float = 1000.0
    computed: float = 0.0
    watch: StepWatch = field(init=False)

    def __post_init__(self) -> None:
        self.watch = StepWatch(lambda _threads: self.computed, clock=lambda: self.now)

    def begin(self, step: str) -> None:
        self.watch.begin(
            "", graph_id="g", source_id=None, step=step, file=None, threads=[], since=self.now
        )

    def quiet(self, seconds: float, *, share: float = 0.0, reports_every: float = 1e9) -> float:
        """For how long the step is quiet after some seconds with so much of a processor."""
        report_at = self.now + reports_every
        for _ in range(round(seconds / 2.0)):
            self.now += 2.0
            self.computed += 2.0 * share
            if self.now >= report_at:
                self.watch.move_on("")
                report_at = self.now + reports_every
            (step,) = self.watch.look()
        return step.quiet_seconds


@pytest.mark.parametrize("share", [0.03, 0.1, 1.0, 2.0])
def test_a_step_that_computes_is_slow_and_never_quiet_for_long(share: float) -> None:
    watched = Watched()
    watched.begin("thinning")
    assert watched.quiet(3600.0, share=share) < STALL_SECONDS
    assert watched.watch.look()[0].step_seconds == 3600.0


@pytest.mark.parametrize("share", [0.0, 0.005])
def test_a_step_without_progress_and_processor_is_quiet_whatever_heartbeats_take(
    share: float,
) -> None:
    watched = Watched()
    watched.begin("reading")
    assert watched.quiet(STALL_SECONDS + 3.0, share=share) >= STALL_SECONDS
    assert watched.quiet(3600.0, share=share) > 3600.0


def test_what_is_reported_is_progress_though_nothing_is_computed() -> None:
    watched = Watched()
    watched.begin("writing a checkpoint")
    assert watched.quiet(600.0, reports_every=30.0) <= 32.0
    watched.begin("publishing a snapshot")
    assert watched.quiet(10.0) == 10.0
    watched.watch.end("")
    assert watched.watch.look() == []


def test_what_was_computed_before_a_report_is_no_progress_after_it() -> None:
    watched = Watched()
    watched.begin("thinning")
    watched.quiet(60.0, share=1.0)
    watched.watch.move_on("")
    assert watched.quiet(50.0) == 50.0


def test_processor_time_is_that_of_the_threads_that_are_named() -> None:
    stop, busy_id, idle_id = threading.Event(), [0], [0]

    def compute() -> None:
        busy_id[0] = threading.get_native_id()
        while not stop.is_set():
            sum(range(1000))

    def wait() -> None:
        idle_id[0] = threading.get_native_id()
        stop.wait(60.0)

    threads = [threading.Thread(target=compute), threading.Thread(target=wait)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + 60.0
    while processor_seconds(os.getpid(), frozenset(busy_id)) < 0.2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    idle = processor_seconds(os.getpid(), frozenset(idle_id))
    everything = processor_seconds(os.getpid(), frozenset())
    stop.set()
    for thread in threads:
        thread.join()
    assert idle < 0.1
    assert everything > 0.2


def test_a_process_that_is_gone_computes_nothing() -> None:
    pid = max(psutil.pids()) + 100_000
    assert processor_seconds(pid, frozenset()) == processor_seconds(pid, frozenset({1})) == 0.0
