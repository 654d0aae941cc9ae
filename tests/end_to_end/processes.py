"""Real `peewit` processes for end-to-end tests: started, watched, killed, never left behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil

from peewit.service.client import Client

REPOSITORY = Path(__file__).parents[2]
PEEWIT: Final = (sys.executable, "-m", "peewit")
START_SECONDS = 60.0
"""A first run on a new machine compiles."""

RUN_SECONDS = 300.0
"""Of a command that may have to compile all kernels, beside others."""


def eventually(
    is_so: Callable[[], bool], seconds: float = START_SECONDS, *, pause_seconds: float = 0.02
) -> None:
    """Wait until something is so; fail when it is not in time."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"not so within {seconds:g} s"
        time.sleep(pause_seconds)


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def is_gone(pid: int) -> bool:
    """Whether a process has ended; a zombie has."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class Home:
    """A home directory and the commands that run on it.

    ``program`` is what `run` starts; all that is started to be watched or killed is the real one.
    """

    def __init__(
        self, directory: Path, *, program: Sequence[str] = PEEWIT, **environment: str
    ) -> None:
        self.directory = directory
        self.program = program
        self.environment = {
            **{name: value for name, value in os.environ.items() if "PEEWIT" not in name},
            "PEEWIT_HOME": str(directory),
            "PEEWIT_SOURCE_ROOTS": str(directory.parent),
            "NUMBA_CACHE_DIR": os.environ.get("NUMBA_CACHE_DIR", str(REPOSITORY / ".numba-cache")),
            **environment,
        }
        self._started: list[subprocess.Popen[str]] = []
        self._clients: list[Client] = []

    def start(self, *arguments: object, **options: Any) -> subprocess.Popen[str]:
        """Start ``peewit <arguments>`` and return at once."""
        return self._start([*PEEWIT, *map(str, arguments)], **options)

    def _start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command, env=self.environment, cwd=REPOSITORY, text=True, **options
        )
        self._started.append(process)
        return process

    def run(self, *arguments: object, exit_code: int = 0) -> str:
        """Run ``peewit <arguments>`` to its end; what it printed on stdout."""
        command = [*self.program, *map(str, arguments)]
        process = self._start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = process.communicate(timeout=RUN_SECONDS)
        assert process.returncode == exit_code, err
        return out

    def said(self, *arguments: object) -> tuple[int, str]:
        """Exit code of ``peewit <arguments>``, and what it printed on stdout and stderr."""
        command = [*self.program, *map(str, arguments)]
        process = self._start(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        out, _ = process.communicate(timeout=RUN_SECONDS)
        return process.returncode, out

    def json(self, *arguments: object) -> Any:
        """What ``peewit <arguments> --json`` printed."""
        return json.loads(self.run(*arguments, "--json"))

    def closing(self, client: Client) -> Client:
        """A client that is closed at the end."""
        self._clients.append(client)
        return client

    def end(self) -> None:
        """Kill whatever still runs, with all that it started."""
        for client in self._clients:
            client.close()
        for process in self._started:
            if process.poll() is None:
                kill_tree(process.pid)
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


def descendants(pid: int) -> list[psutil.Process]:
    """All processes below one, at this moment."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def kill_tree(pid: int) -> None:
    """Kill a process and what it started."""
    below = descendants(pid)
    for each in (pid, *(process.pid for process in below)):
        try:
            os.kill(each, signal.SIGKILL)
        except ProcessLookupError:
            continue


class Server:
    """A command that serves on a free port of loopback, ready when this is made."""

    def __init__(self, home: Home, *command: object, **options: Any) -> None:
        self.home = home
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = home.closing(Client(self.url, timeout_seconds=60))
        self.process = home.start(*(command or ("serve",)), "--port", self.port, **options)
        eventually(self.is_ready)

    def is_ready(self) -> bool:
        """Whether the API answers and all roles are there."""
        assert self.process.poll() is None, "the server has ended"
        return self.client.is_ready()

    def get(self, path: str) -> tuple[int, Any]:
        """Status and JSON of a GET, for tests of the raw form; users have `client`."""
        return self.call("GET", path)

    def call(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Status and JSON of a request; a body that is not bytes is sent as JSON."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        kind = {} if body is None else {"Content-Type": "application/json"}
        request = Request(
            self.url + path, data=data, headers=kind | dict(headers or {}), method=method
        )
        try:
            with urlopen(request, timeout=60) as answer:
                return answer.status, _parsed(answer.read())
        except HTTPError as error:
            with error:
                return error.code, _parsed(error.read())

    def roles(self) -> dict[str, psutil.Process]:
        """The supervised processes by the name of their command."""
        return {
            process.cmdline()[3]: process
            for process in psutil.Process(self.process.pid).children()
            if len(process.cmdline()) > 3
        }


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body
