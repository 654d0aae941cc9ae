"""Decoding budget: most bytes of tables that a process decodes at a time."""

import ctypes
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import anyio
import pyarrow as pa

from peewit.service.api.throttling import TooBusy

_RETRY_SECONDS: Final = 5.0
_MUCH: Final = 64 << 20
_trim: Final = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc alone


class DecodingBudget:
    """Bytes held while a table is decoded; if too few are left callers wait, first come first.

    A table that wants more than ``n_bytes`` is decoded alone. Nobody waits longer than
    ``patience_seconds``.
    """

    def __init__(self, n_bytes: int, *, patience_seconds: float = 10.0) -> None:
        self._n_bytes = n_bytes
        self._patience_seconds = patience_seconds
        self._left = n_bytes
        self._decoded_bytes = 0  # since memory was released
        self._waiting: deque[tuple[int, anyio.Event]] = deque()

    @asynccontextmanager
    async def held(self, n_bytes: int) -> AsyncIterator[None]:
        """Hold some bytes within the block; raises `TooBusy` if none are free in time."""
        wanted = min(n_bytes, self._n_bytes)
        await self._take(wanted)
        try:
            yield
        finally:
            self._give_back(wanted)

    async def _take(self, wanted: int) -> None:
        turn = wanted, anyio.Event()
        self._waiting.append(turn)
        self._serve()
        try:
            with anyio.move_on_after(self._patience_seconds):
                await turn[1].wait()
        except BaseException:
            self._leave(turn)
            raise
        if not turn[1].is_set():
            self._leave(turn)
            raise TooBusy(
                f"PEEWIT_MAX_DECODING_BYTES must be kept, {self._n_bytes} bytes of tables at a "
                f"time, this one needs {wanted}",
                _RETRY_SECONDS,
            )

    def _leave(self, turn: tuple[int, anyio.Event]) -> None:
        if turn[1].is_set():
            self._give_back(turn[0])
        else:
            self._waiting.remove(turn)
            self._serve()

    def _give_back(self, n_bytes: int) -> None:
        self._left += n_bytes
        self._decoded_bytes += n_bytes
        self._serve()
        if self._left == self._n_bytes and self._decoded_bytes >= _MUCH:
            self._decoded_bytes = 0
            _release_memory()

    def _serve(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._left:
            wanted, has_come = self._waiting.popleft()
            self._left -= wanted
            has_come.set()


def _release_memory() -> None:
    """Give memory that Arrow and the C library keep (190 MB were seen) back to the system."""
    pa.default_memory_pool().release_unused()
    if _trim is not None:
        _trim(0)
