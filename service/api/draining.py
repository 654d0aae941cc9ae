"""Shutdown of an API process, noticed by requests that would otherwise take long.

uvicorn stops listening as soon as it is told to stop. Load balancers need to know earlier, so the
signal reaches uvicorn only after a time in which /readyz already says no.
"""

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any, Final

from fastapi import Request

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Stopping:
    """Set by the first SIGTERM or SIGINT."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def __bool__(self) -> bool:
        """Whether a signal has come."""
        return self._event.is_set()

    @contextmanager
    def on_signal(self, drain_seconds: float) -> Iterator[None]:
        """Within the block, note signals and hand them to the server ``drain_seconds`` later.

        A second signal is handed on at once. Enter it in the event loop. Signals reach the main
        thread only: a server in another thread is stopped by whoever started it.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        handlers: dict[int, Any] = {}

        def note(number: int, frame: FrameType | None) -> None:
            hand_on = partial(handlers[number], number, frame)
            if self or drain_seconds == 0:
                self._event.set()
                hand_on()
            else:
                self._event.set()
                loop.call_soon_threadsafe(loop.call_later, drain_seconds, hand_on)

        for number in _SIGNALS:
            handlers[number] = signal.getsignal(number)
            signal.signal(number, note)
        try:
            yield
        finally:
            for number in _SIGNALS:
                signal.signal(number, handlers[number])


def stopping_of(request: Request) -> Stopping:
    """The `Stopping` of the request's application."""
    stopping: Stopping = request.app.state.stopping
    return stopping
