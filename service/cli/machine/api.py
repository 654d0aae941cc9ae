"""`peewit api`: answers HTTP requests."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Final

import uvicorn
from uvicorn.supervisors import Multiprocess

from peewit.service.api.port import allow_open_files, server_options
from peewit.service.api.request_metrics import shared_metrics
from peewit.service.cli.machine.role_options import Host, Port, UntilStdinEnds, Workers, check_start
from peewit.service.cli.session import command_group
from peewit.service.logs import configure_logging
from peewit.service.process_lifetime import StopSignal, stop_when_stdin_ends
from peewit.service.settings import Settings

app = command_group()

_TICK_SECONDS: Final = 1.0


class _Server(uvicorn.Server):
    """uvicorn's process, which wakes once a second, for the date of answers, or at a signal.

    Only for a single process: `Multiprocess` starts servers of uvicorn's own class.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._wake: Callable[[], object] = lambda: None

    async def main_loop(self) -> None:
        """Wait until told to stop."""
        is_told = asyncio.Event()
        self._wake = partial(asyncio.get_running_loop().call_soon_threadsafe, is_told.set)
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(is_told.wait(), _TICK_SECONDS)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Note a signal."""
        super().handle_exit(sig, frame)
        self._wake()


class _Processes(Multiprocess):
    """uvicorn's processes of one port, which refuse connections as soon as they all do."""

    def terminate_all(self) -> None:
        """Tell them to stop; the parent's own socket would hold connections that nobody takes."""
        for each in self.sockets:
            each.close()
        super().terminate_all()


@app.command()
def api(
    host: Host = "127.0.0.1",
    port: Port = 8000,
    workers: Workers = 1,
    until_stdin_ends: UntilStdinEnds = False,
) -> None:
    """Answer HTTP requests."""
    settings = Settings()
    configure_logging(settings.log_level, settings.log_format)
    with StopSignal(), shared_metrics(workers):  # uvicorn hands the signal on once it has stopped
        if until_stdin_ends:
            stop_when_stdin_ends()
        check_start(settings, host, port)
        allow_open_files(settings.max_streams)
        config = uvicorn.Config(
            "peewit.service.cli.machine.uvicorn_app:application",
            factory=True,
            host=host,
            port=port,
            workers=workers,
            **server_options(settings),
        )
        if workers == 1:
            _Server(config).run()
        else:
            _Processes(config, [config.bind_socket()]).run()
