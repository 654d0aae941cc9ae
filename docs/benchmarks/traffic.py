"""Bytes that a process sends to others of a dask cluster, counted where dask writes to sockets."""

from typing import Any

from distributed import Client
from distributed.comm.tcp import TCP

_plain_write = TCP.write
_n_bytes = 0


async def _counted_write(self: TCP, *arguments: Any, **named: Any) -> int:
    global _n_bytes  # noqa: PLW0603 - one count for each process
    n_bytes: int = await _plain_write(self, *arguments, **named)
    _n_bytes += n_bytes
    return n_bytes


def count_bytes() -> None:
    TCP.write = _counted_write


def bytes_sent() -> int:
    return _n_bytes


class Traffic:
    """Bytes sent since now: by this process (client and scheduler), and by all workers."""

    def __init__(self, client: Client) -> None:
        count_bytes()
        client.run(count_bytes)
        self._client = client
        self._before = self._read()

    def read(self) -> tuple[int, int]:
        now = self._read()
        return now[0] - self._before[0], now[1] - self._before[1]

    def _read(self) -> tuple[int, int]:
        return bytes_sent(), sum(self._client.run(bytes_sent).values())
