"""Limits of connections: the time for the head of a request, and their number.

uvicorn has neither limit: it forgets its timer of idle connections with the first byte, and
``limit_concurrency`` keeps connections and refuses everybody's requests.
`peewit.service.api.bodies` limits what comes after the head.
"""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

MAX_HEAD_BYTES: Final = 1 << 16
"""Most bytes of an incomplete request line with headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits of the connections of one process, and those that have not sent a whole head.

    One connection above ``max_connections`` replaces the one that has waited longest without a
    whole head, and is refused if there is none.
    """

    head_seconds: float  # from the connection or the head's first byte on
    max_connections: int
    headless: "dict[LimitedProtocol, asyncio.TimerHandle]" = field(default_factory=dict)

    def protocol(self) -> "partial[LimitedProtocol]":
        """Protocol factory for uvicorn; child processes get a copy of the limits."""
        return partial(LimitedProtocol, limits=self)


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits that the connections of a process share."""

    def __init__(self, *args: Any, limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits = limits
        self._is_in_head = True
        self._is_in_message = False
        self._n_head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head, if there is room for the connection."""
        super().connection_made(transport)
        self._wait_for_head()
        if len(self.connections) > self._limits.max_connections:
            next(iter(self._limits.headless)).close_late()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting for a head."""
        self._have_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Let uvicorn read, and check whether a head is still incomplete after it."""
        was_without_head = self._is_without_head()
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._is_without_head():
            if was_without_head:  # or these bytes ended a body that had been refused before
                self._n_head_bytes += len(data)
            self._wait_for_head()
            if self._n_head_bytes > MAX_HEAD_BYTES:
                self.send_400_response(
                    f"The head of a request must have at most {MAX_HEAD_BYTES} bytes."
                )
        else:
            self._have_head()

    def on_message_begin(self) -> None:
        """Note that a head begins."""
        self._is_in_head = self._is_in_message = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Note that the head is complete."""
        self._is_in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that the request is complete."""
        self._is_in_message = False
        super().on_message_complete()

    def close_late(self) -> None:
        """Close a connection without a whole head, unless an earlier request is being answered."""
        self._have_head()
        if self._is_answering():
            self._wait_for_head()
        else:
            self.transport.abort()

    def _is_without_head(self) -> bool:
        is_idle = not self._is_in_message and not self._is_answering()  # after an empty line
        return self._is_in_head or is_idle

    def _is_answering(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _wait_for_head(self) -> None:
        if self not in self._limits.headless:
            self._limits.headless[self] = self.loop.call_later(
                self._limits.head_seconds, self.close_late
            )

    def _have_head(self) -> None:
        self._n_head_bytes = 0
        timer = self._limits.headless.pop(self, None)
        if timer is not None:
            timer.cancel()
