"""The processes of the service, each of which can be killed and is started again at once."""

import os
import subprocess
import time
from pathlib import Path

import psutil

from tests.end_to_end.crashing.cluster import Cluster
from tests.end_to_end.processes import Home, descendants, free_port, is_gone

SETTINGS = {
    "PEEWIT_CHECKPOINT_SECONDS": "0",
    "PEEWIT_LIST_SECONDS": "0.3",
    "PEEWIT_SETTLE_SECONDS": "0.2",
    "PEEWIT_UNFINISHED_SECONDS": "1",
    "PEEWIT_THREADS": "1",
}


class System:
    """API, ingest and workers on one home, with or without `peewit serve` above them.

    The database is SQLite, and then there is one worker, where no cluster is given. With
    ``is_supervised`` kills hit `peewit serve`, or what it has started.
    """

    def __init__(
        self, directory: Path, *, cluster: Cluster | None, is_supervised: bool = False
    ) -> None:
        self.directory = directory
        self.cluster = cluster
        self.is_supervised = is_supervised
        self.inbox, self.exports = directory / "inbox", directory / "exports"
        self.versions = directory / "versions"
        for each in (self.inbox, self.exports, self.versions):
            each.mkdir(parents=True)
        database = {} if cluster is None else {"PEEWIT_DATABASE_URL": cluster.url}
        self.home = Home(directory / "home", **SETTINGS, **database)
        self.port = free_port()
        n_workers = 1 if cluster is None else 2
        listen = ("--port", self.port)
        self._commands: dict[str, tuple[object, ...]] = (
            {"serve": ("serve", *listen)}
            if is_supervised
            else {"api": ("api", *listen), "ingest": ("ingest", "--follow")}
            | {f"worker-{number}": ("worker",) for number in range(1, n_workers + 1)}
        )
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._orphans: list[psutil.Process] = []

    def start(self) -> None:
        """Compile what is not compiled yet, then start everything."""
        self.home.run("warm")
        for name in self._commands:
            self._start(name)

    @property
    def names(self) -> list[str]:
        """What can be killed."""
        roles = ["role"] if self.is_supervised else []
        database = [] if self.cluster is None else ["database"]
        return [*self._commands, *roles, "child", *database]

    def worker_pids(self) -> list[int]:
        """Of the workers that run now; those below `serve` are looked for."""
        if not self.is_supervised:
            return [process.pid for name, process in self._processes.items() if "worker" in name]
        return [
            process.pid
            for process in descendants(self._processes["serve"].pid)
            if _command(process)[3:4] == ["worker"]
        ]

    def kill(self, name: str, choice: float) -> str:
        """Kill at once and start again; says what was killed.

        ``choice`` in [0, 1) picks among several ways, or children, to kill.
        """
        if name == "database":
            return self._kill_database(at_once=choice < 0.5)
        if name == "child":
            return self._kill_child(choice)
        if name == "role":
            return self._kill_role(choice)
        process = self._processes[name]
        below = descendants(process.pid)
        process.kill()
        process.wait()
        self._orphans += below
        self._start(name)
        return name

    def orphans(self) -> list[psutil.Process]:
        """What killed processes had started and still runs; it must end by itself soon."""
        return [each for each in self._orphans if each.is_running() and not is_gone(each.pid)]

    def ended(self) -> list[str]:
        """Processes that ended by themselves, which are started again."""
        found = [
            f"{name} (exit status {process.returncode})"
            for name, process in self._processes.items()
            if process.poll() is not None
        ]
        for name, process in list(self._processes.items()):
            if process.poll() is not None:
                self._start(name)
        return found

    def stop(self) -> None:
        """Have every process end as it would be asked to."""
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.wait(timeout=60)

    def end(self) -> None:
        """Kill whatever still runs."""
        self.home.end()

    def logs(self) -> list[Path]:
        """What the processes have written."""
        own = [] if self.cluster is None else [self.cluster.log]
        return [*sorted(self.directory.glob("*.log")), *own]

    def _start(self, name: str) -> None:
        with (self.directory / f"{name}.log").open("a") as log:
            process = self.home.start(*self._commands[name], stdout=log, stderr=log)
            log.write(f"==== {name} {process.pid} started at {time.time():.3f}\n")
        self._processes[name] = process

    def _kill_child(self, choice: float) -> str:
        """Kill one of the processes that solve; its worker starts another one when it needs it."""
        children = [
            process
            for pid in self.worker_pids()
            for process in descendants(pid)
            if "spawn_main" in " ".join(_command(process))
        ]
        if not children:
            return ""
        children[int(choice * len(children))].kill()
        return "child"

    def _kill_role(self, choice: float) -> str:
        """Kill what `peewit serve` has started; it starts it again."""
        roles = psutil.Process(self._processes["serve"].pid).children()
        if not roles:
            return ""
        role = roles[int(choice * len(roles))]
        name = " ".join(_command(role)[3:4]) or "role"
        self._orphans += descendants(role.pid)
        role.kill()
        return name

    def _kill_database(self, *, at_once: bool) -> str:
        if self.cluster is None:
            raise ValueError("SQLite has no server to kill")
        self.cluster.kill(at_once=at_once)
        self.cluster.start()
        self.cluster.wait()
        return "database"


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


def tail(path: Path, n_bytes: int = 20_000) -> str:
    """The end of a log."""
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - n_bytes))
        return file.read().decode(errors="replace")
