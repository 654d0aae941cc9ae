"""Lifetime of a process: it ends when told to stop, or when its parent is gone.

For every command that stays (serve, api, ingest, worker). Signal handlers only count and write one
byte to a pipe: a lock taken there could be held by the code that the signal interrupts.
"""

import logging
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import connection, parent_process
from pathlib import Path
from threading import Event, Thread
from types import FrameType
from typing import Any, Final, NoReturn, Self

GRACE_SECONDS: Final = 10.0
"""How long a process may take to stop before it is killed."""

_NICENESS: Final = 3
"""Half the time of a process that does not give way, when both want all of it.  Enough for servers,
which sleep most of the time and get a processor when they wake. Not so much that many busy
processes starve it."""

_AUTOGROUP: Final = Path("/proc/self/autogroup")
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_STOP: Final = b"s"
_CHILD: Final = b"c"


class StopSignal:
    """Remembers SIGTERM, SIGINT and SIGHUP instead of dying of them; a context manager.

    Calling it tells whether a signal has come, so it serves as ``should_stop``. Main thread only.
    With ``ends_waits_for_children``, `wait` also returns when a child process ends.
    """

    def __init__(self, *, ends_waits_for_children: bool = False) -> None:
        self.n_signals = 0
        self._notes: dict[int, Any] = dict.fromkeys(_SIGNALS, self._note)
        if ends_waits_for_children:
            self._notes[signal.SIGCHLD] = self._note_child
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Take over the signals."""
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        for number, note in self._notes.items():
            self._handlers[number] = signal.signal(number, note)
        return self

    def __exit__(self, *exception: object) -> None:
        """Give the signals back."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._read)
        os.close(self._write)

    def __call__(self) -> bool:
        """Whether a signal has come."""
        return self.n_signals > 0

    def wait(self, seconds: float, *, n_signals: int = 1) -> bool:
        """Whether that many signals have come in all before the time was over; waits for them."""
        deadline = time.monotonic() + seconds
        while self.n_signals < n_signals:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            is_written = select.select([self._read], [], [], remaining)[0]
            if is_written and os.read(self._read, 1) == _CHILD:
                break
        return self.n_signals >= n_signals

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.n_signals += 1
        self._tell(_STOP)

    def _note_child(self, _number: int, _frame: FrameType | None) -> None:
        self._tell(_CHILD)

    def _tell(self, what: bytes) -> None:
        with suppress(BlockingIOError):  # thousands of signals wait to be read already
            os.write(self._write, what)


@contextmanager
def exit_after_signal(
    seconds: float, *, at_exit: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Within the block, end this process at most so many seconds after the first signal.

    For work that may be interrupted anywhere, as it is replayed. ``at_exit`` is called, in another
    thread, before the process ends in the midst of it. The interpreter's own handler
    writes to a pipe that wakes a thread, so this works in the middle of a long computation too,
    where Python's handlers have to wait.
    """
    read, write = os.pipe()
    os.set_blocking(write, False)
    is_over = Event()

    def watch() -> None:
        is_signal = os.read(read, 1)
        os.close(read)
        if is_signal and not is_over.wait(seconds):
            at_exit()
            os._exit(128 + signal.SIGTERM)

    Thread(target=watch, name="exit-watch", daemon=True).start()
    before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    try:
        yield
    finally:
        is_over.set()
        signal.set_wakeup_fd(before)
        os.close(write)  # wakes the watcher with nothing to read, unless a signal did


def end_now(exit_code: int) -> NoReturn:
    """End this process without waiting for its other threads.

    For commands that a signal has stopped, once all that must be written is written: a thread that
    listens to a slow store would keep the interpreter from ending.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nobody reads it any more
            stream.flush()
    os._exit(exit_code)


def give_way() -> None:
    """From now on, leave the processors to others that want them.

    For long computations beside servers that answer in milliseconds. Linux may divide time among
    sessions (autogroup) before it divides it among processes. So where the parent leads the
    session, as a worker of `peewit serve` or of a service manager does, the whole session gives
    way; the session of somebody's shell does not.
    """
    os.nice(_NICENESS)
    if os.getsid(0) == os.getppid():
        with suppress(OSError):  # a system without such groups
            _AUTOGROUP.write_text(str(_NICENESS))


def stop_when_stdin_ends() -> None:
    """From now on, stop this process as by SIGTERM when standard input ends; then kill it.

    The parent holds the other end of that pipe and writes nothing, so the pipe ends when the parent
    does, however it dies.
    """
    _stop_after(lambda: os.read(0, 4096))


def stop_with_parent() -> None:
    """From now on, stop this process as by SIGTERM when its multiprocessing parent is gone.

    Does nothing in a process that multiprocessing has not started.
    """
    parent = parent_process()
    if parent is not None:
        sentinel = parent.sentinel
        _stop_after(lambda: None if connection.wait([sentinel]) else True)


def _stop_after(is_going_on: Callable[[], object]) -> None:
    """Call the function in a thread until it returns false; then stop this process."""

    def watch() -> None:
        while is_going_on():
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE_SECONDS)
        os.kill(os.getpid(), signal.SIGKILL)

    Thread(target=watch, name="parent-watch", daemon=True).start()
