"""The one outer loop: step, stop test, progress, cancellation.

A method is only init, step, terminate; counting, limits and reporting exist here once.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from peewit.solvers.status import Status

State = TypeVar("State")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressReport:
    """Progress of a run."""

    phase: str  # what is being computed, in words
    n_iter: int  # steps done
    max_iter: int  # most steps
    fraction: float  # estimated share of the phase that is done, in [0, 1]


Progress = Callable[[ProgressReport], None]
Cancelled = Callable[[], bool]


class RunStopped(Exception):
    """The caller asked for the run to end; carries the answer so far, if any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Callbacks of a run: whom to tell of progress, and whom to ask whether to go on."""

    progress: Progress | None = None
    cancelled: Cancelled | None = None

    def step(self, phase: str, n_done: int, n_steps: int) -> None:
        """Report ``n_done`` of ``n_steps``, for work that is no `IterativeMethod`.

        Raises `RunStopped` if the run is cancelled.
        """
        self.check()
        if self.progress is not None:
            fraction = min(n_done / n_steps, 1.0) if n_steps else 1.0
            self.progress(
                ProgressReport(phase=phase, n_iter=n_done, max_iter=n_steps, fraction=fraction)
            )

    def within(self, phase: str) -> "Watch":
        """A watch of a phase that begins now; what runs in it is reported as this phase.

        Raises `RunStopped` if the run is cancelled.
        """
        self.step(phase, 0, 1)
        tell = self.progress
        if tell is None:
            return self
        return Watch(
            progress=lambda report: tell(replace(report, phase=phase)), cancelled=self.cancelled
        )

    def check(self) -> None:
        """Raise `RunStopped` if the run is cancelled."""
        if self.is_cancelled():
            raise RunStopped

    def is_cancelled(self) -> bool:
        """Whether the caller asked for the run to end."""
        return self.cancelled is not None and self.cancelled()

    def silent(self) -> "Watch":
        """A watch with the same cancellation and without progress."""
        return Watch(cancelled=self.cancelled)

    def step_of(self, phase: str) -> "OnStep":
        """`step` of one phase."""
        return partial(self.step, phase)

    def run(
        self, method: "IterativeMethod[State]", *, max_iter: int, phase: str
    ) -> "Outcome[State]":
        """`iterate` with this watch."""
        progress, cancelled = self.progress, self.cancelled
        return iterate(
            method, max_iter=max_iter, phase=phase, progress=progress, cancelled=cancelled
        )


UNWATCHED: Final = Watch()

OnStep = Callable[[int, int], None]
"""Called with the steps done and the number of steps; may raise `RunStopped`."""


def ignore_step(n_done: int, n_steps: int) -> None:
    """An `OnStep` that does nothing."""


class IterativeMethod(Protocol[State]):
    """A method as the loop sees it."""

    def init(self) -> State:
        """The state before the first step."""

    def step(self, state: State) -> State:
        """The state after one more step; arrays in it may be reused."""

    def terminate(self, state: State) -> Status | None:
        """The final status, or None to go on."""

    def fraction(self, state: State) -> float:
        """Estimated share of the work that is done, in [0, 1]."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[State]):
    """The last state of a run, how it ended and after how many steps."""

    state: State
    status: Status
    n_iter: int


def iterate(
    method: IterativeMethod[State],
    *,
    max_iter: int,
    phase: str,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> Outcome[State]:
    """Run ``method`` until it terminates, ``max_iter`` steps are done or ``cancelled()`` is true.

    ``cancelled`` is asked before every step and ``progress`` is told after it. An exception in
    either ends the run and reaches the caller.
    """
    state = method.init()
    n_iter = 0
    while True:
        status = method.terminate(state)
        if status is None and cancelled is not None and cancelled():
            status = Status.CANCELLED
        if status is None and n_iter >= max_iter:
            status = Status.MAX_ITER
        if status is not None:
            return Outcome(state, status, n_iter)
        state = method.step(state)
        n_iter += 1
        if progress is not None:
            progress(
                ProgressReport(
                    phase=phase,
                    n_iter=n_iter,
                    max_iter=max_iter,
                    fraction=min(1.0, max(0.0, method.fraction(state))),
                )
            )
