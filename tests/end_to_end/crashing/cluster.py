"""A PostgreSQL cluster of its own, which may be killed: fsync is on, so what it committed stays."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import psycopg

from tests.end_to_end.processes import free_port, is_gone

_OWNER = "postgres"
_START_SECONDS = 60.0


def programs() -> Path | None:
    """Directory of the newest PostgreSQL on this machine, None where there is none."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3])
    )
    on_path = shutil.which("initdb")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


class Cluster:
    """One cluster on a free port of loopback, running once this is made.

    PostgreSQL refuses to run as root, so that root needs an account ``postgres``.
    """

    def __init__(self) -> None:
        found = programs()
        if found is None:
            raise FileNotFoundError("needs PostgreSQL, got no initdb on this machine")
        self._programs = found
        self._account: dict[str, Any] = {}
        self.directory = Path(tempfile.mkdtemp(prefix="peewit-cluster-"))
        if os.getuid() == 0:
            self._account = {"user": _OWNER, "group": _OWNER, "extra_groups": []}
            shutil.chown(self.directory, _OWNER, _OWNER)
        self.log = self.directory / "server.log"
        self.port = free_port()
        self.url = f"postgresql://peewit@127.0.0.1:{self.port}/postgres"
        subprocess.run(
            [
                *(found / "initdb", "-D", self.directory / "data", "--username=peewit"),
                *("--auth=trust", "--encoding=UTF8", "--locale=C"),
            ],
            check=True,
            cwd=self.directory,
            stdout=subprocess.DEVNULL,
            **self._account,
        )
        self.start()
        self.wait()

    def start(self) -> None:
        """Start the server and return at once."""
        with self.log.open("ab") as log:
            self._server = subprocess.Popen(
                [
                    *(self._programs / "postgres", "-D", self.directory / "data"),
                    *("-p", str(self.port), "-k", self.directory),
                    *("-c", "listen_addresses=127.0.0.1", "-c", "fsync=on"),
                ],
                cwd=self.directory,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._account,
            )

    def wait(self) -> None:
        """Wait until it answers."""
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def kill(self, *, at_once: bool) -> None:
        """SIGKILL for the server and all its processes, or else what ``-m immediate`` sends."""
        below = psutil.Process(self._server.pid).children(recursive=True)
        self._server.send_signal(signal.SIGKILL if at_once else signal.SIGQUIT)
        if at_once:
            for process in below:
                try:
                    process.kill()
                except psutil.NoSuchProcess:
                    continue
        self._server.wait()
        while not all(is_gone(process.pid) for process in below):
            time.sleep(0.01)

    def remove(self) -> None:
        """End the server and remove the cluster."""
        if self._server.poll() is None:
            self.kill(at_once=False)
        shutil.rmtree(self.directory)
