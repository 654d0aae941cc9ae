"""Supervisor of `peewit serve`: keeps api, ingest and worker running, and leaves none behind.

Each child has a session of its own, so that Ctrl-C reaches the supervisor alone and a child's own
children can be ended with it. Its standard input is a pipe that the supervisor holds: when the
supervisor dies, even by SIGKILL, the pipe ends and the child stops.
"""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog
from sqlalchemy import URL

from peewit.service.database.engine import SERVE_LOCK
from peewit.service.process_lifetime import GRACE_SECONDS, StopSignal
from peewit.service.settings import Settings

FIRST_DELAY_SECONDS: Final = 1.0
LONGEST_DELAY_SECONDS: Final = 30.0
STEADY_SECONDS: Final = 60.0
"""A child that has run this long restarts without delay, and its earlier deaths are forgotten."""

LAST_PORT: Final = 65535

_POLL_SECONDS: Final = 0.1
_CALM_SECONDS: Final = 2.0
"""Pause while all roles run; SIGCHLD ends it early."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """A child process to keep running."""

    name: str  # as in logs
    command: tuple[str, ...]  # must stop at SIGTERM
    environment: Mapping[str, str] = field(default_factory=dict)  # where it differs from ours


def peewit_roles(
    settings: Settings, *, host: str, port: int, n_api_processes: int
) -> tuple[Role, ...]:
    """The roles of one machine, run by this interpreter: the API, ingest and a worker.

    They get ``settings``, whatever the environment says. Raises a ValueError where
    ``settings.metrics_port`` leaves no port for the worker's metrics.
    """
    environment = {
        f"PEEWIT_{name.upper()}": _as_variable(value)
        # what nobody set stays so: a memory that is a default limits no budget of edges
        for name, value in settings.model_dump(exclude_unset=True).items()
    }
    listen = ("--host", host, "--port", str(port), "--workers", str(n_api_processes))
    own: dict[str, dict[str, str]] = {}
    if settings.metrics_port is not None:
        if settings.metrics_port == LAST_PORT:
            raise ValueError(
                f"metrics_port must be below {LAST_PORT}, since the worker takes the next one, "
                f"got {settings.metrics_port}"
            )
        own["worker"] = {"PEEWIT_METRICS_PORT": str(settings.metrics_port + 1)}
    commands = {"api": ("api", *listen), "ingest": ("ingest", "--follow"), "worker": ("worker",)}
    start = (sys.executable, "-m", "peewit")
    return tuple(
        Role(
            name=name,
            command=(*start, *command, "--until-stdin-ends"),
            environment=environment | own.get(name, {}),
        )
        for name, command in commands.items()
    )


def restart_delay(n_quick_deaths: int) -> float:
    """Seconds before the next start: 0, then 1, 2, 4 and so on up to 30."""
    if n_quick_deaths == 0:
        return 0.0
    return min(FIRST_DELAY_SECONDS * 2.0 ** (n_quick_deaths - 1), LONGEST_DELAY_SECONDS)


def _as_variable(value: object) -> str:
    match value:
        case None:
            return ""
        case tuple():
            separator = os.pathsep if any(isinstance(each, Path) for each in value) else ","
            return separator.join(map(str, value))
        case _:
            return str(value)


class AlreadyServedError(RuntimeError):
    """Another supervisor runs on the same SQLite database."""


@contextmanager
def sole_supervisor(database: URL) -> Iterator[None]:
    """The right to serve a SQLite database, which takes one worker; PostgreSQL takes any number.

    A system lock on a file beside the database, so it ends with this process, however that ends.
    Raises `AlreadyServedError` where another process has it.
    """
    if database.get_backend_name() != "sqlite":
        yield
        return
    with Path(f"{database.database}{SERVE_LOCK}").open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise AlreadyServedError(
                f"`peewit serve` ({file.read().strip()}) runs on {database.database} already; "
                "stop it, or give this one another PEEWIT_HOME"
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()}")
        file.flush()
        yield


class Supervisor:
    """Runs roles until told to stop.

    Roles start in the given order. ``grace_seconds`` lie between SIGTERM and SIGKILL at the end.
    """

    def __init__(
        self,
        roles: Sequence[Role],
        *,
        grace_seconds: float = GRACE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._children = [_Child(role, clock) for role in roles]
        self._grace_seconds = grace_seconds

    def run(self, stop: StopSignal) -> None:
        """Keep every role running; returns after a signal, when all of them have ended.

        A second signal cuts the grace time short.
        """
        try:
            while not stop():
                for child in self._children:
                    child.keep_running()
                is_calm = all(child.is_running() for child in self._children)
                stop.wait(_CALM_SECONDS if is_calm else _POLL_SECONDS)
            _log.info("stopping")
            self._stop(stop)
        finally:
            for child in self._children:
                child.kill()

    def _stop(self, stop: StopSignal) -> None:
        for child in self._children:
            child.terminate()
        deadline = time.monotonic() + self._grace_seconds
        while any(child.is_running() for child in self._children):
            if time.monotonic() > deadline:
                return
            if stop.wait(_POLL_SECONDS, n_signals=2):
                return


class _Child:
    def __init__(self, role: Role, clock: Callable[[], float]) -> None:
        self._role = role
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._start_at = clock()
        self._n_quick_deaths = 0

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def keep_running(self) -> None:
        """Note a death, and start the process when it is due."""
        if self.is_running():
            return
        if self._process is not None:
            self._bury(self._process)
        if self._clock() >= self._start_at:
            self._start()

    def terminate(self) -> None:
        if self._process is not None and self.is_running():
            self._process.terminate()

    def kill(self) -> None:
        """Kill the process and all that it has started."""
        if self._process is None:
            return
        if self.is_running():
            _log.warning("killed: it did not stop in time", role=self._role.name)
        self._end_group(self._process)

    def _start(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 -- our own command, no shell
            self._role.command,
            stdin=subprocess.PIPE,
            start_new_session=True,
            env=os.environ | self._role.environment,
        )
        self._start_at = self._clock()
        _log.info("started", role=self._role.name, pid=self._process.pid)

    def _bury(self, process: subprocess.Popen[bytes]) -> None:
        self._end_group(process)
        self._process = None
        ran_seconds = self._clock() - self._start_at
        self._n_quick_deaths = 0 if ran_seconds >= STEADY_SECONDS else self._n_quick_deaths + 1
        delay = restart_delay(self._n_quick_deaths)
        self._start_at = self._clock() + delay
        _log.error(
            "ended by itself, will be started again",
            role=self._role.name,
            exit_status=process.returncode,
            ran_seconds=round(ran_seconds, 1),
            delay_seconds=delay,
        )

    def _end_group(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the rest of the session, reap the process and close our end of its stdin."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
