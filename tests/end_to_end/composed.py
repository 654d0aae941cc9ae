"""docker/compose.yaml as plain processes of this machine: its commands, users, variables, checks.

No container engine is needed. `Composed.substitutions` is the whole table of what differs; with an
image, whose files and configuration these processes then have, ports and names of hosts alone do.
"""

import json
import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import yaml
from psycopg import sql

from tests.end_to_end.image import Image
from tests.end_to_end.processes import REPOSITORY, eventually, free_port, kill_tree

COMPOSE = yaml.safe_load((REPOSITORY / "docker/compose.yaml").read_text())
DOCKERFILE = (REPOSITORY / "docker/Dockerfile").read_text()
HEALTHY_SECONDS = 300.0
_IMAGE = DOCKERFILE.rpartition("\nFROM ")[2]


def postgres_programs() -> Path | None:
    """Directory of PostgreSQL's programs, the newest where there are several."""
    found = [*Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    newest = max(found, key=lambda path: int(path.parts[-3]), default=None)
    on_path = shutil.which("initdb")
    return newest.parent if newest else Path(on_path).parent if on_path else None


def in_dockerfile(line: str) -> str:
    """What the group of the pattern matches in the image's part of the Dockerfile."""
    return re.findall(rf"^\s*{line}$", _IMAGE, flags=re.MULTILINE)[-1]


def interpolated(value: Any, environment: Mapping[str, str]) -> Any:
    """A value of the file with its ${NAME:-default} filled in, as compose does."""
    match value:
        case str():
            return re.sub(
                r"\$\{(\w+):-([^}]*)\}", lambda found: environment.get(found[1]) or found[2], value
            )
        case list():
            return [interpolated(each, environment) for each in value]
        case dict():
            return {name: interpolated(each, environment) for name, each in value.items()}
        case _:
            return value


def seconds(text: str) -> float:
    """A duration such as 20s."""
    return float(text.removesuffix("s"))


@dataclass(kw_only=True)
class Running:
    """A replica of a service."""

    service: str
    process: subprocess.Popen[bytes]
    health: dict[str, Any]
    ports: dict[str, int]

    def is_healthy(self) -> bool:
        """Whether the healthcheck passes."""
        assert self.process.poll() is None, f"{self.service} has ended"
        checked = subprocess.run(**self.health, check=False, capture_output=True, timeout=60)
        return checked.returncode == 0


class Composed:
    """The services of compose.yaml, started one by one.

    Parameters
    ----------
    directory : Path
        For their volumes and secrets; every user may enter it.
    programs : Path
        PostgreSQL's.
    image : Image, optional
        That whose programs are run; without one those of the checkout.
    **environment
        What docker/.env says.
    """

    def __init__(
        self, directory: Path, programs: Path, image: Image | None = None, **environment: str
    ) -> None:
        self.directory = directory
        self.image = image
        self.services: dict[str, Any] = {}
        self.say(**environment)
        self.running: list[Running] = []
        self._programs = programs
        self._python, self._import_path, self.account = _runner()
        if image is not None:
            self.account = {}  # `Image.command` takes that of the image
        for name in ("home", "edges", "items", "secrets", "cache", "temporary"):
            (directory / name).mkdir()
        if "NUMBA_CACHE_DIR" in os.environ and Path(os.environ["NUMBA_CACHE_DIR"]).is_dir():
            # `RUN peewit warm` of the image
            shutil.copytree(os.environ["NUMBA_CACHE_DIR"], directory / "cache" / "numba")
        self.admin_key = f"admin.{secrets.token_hex(32)}"
        for name, content in (
            ("postgres_password", secrets.token_hex(32)),
            ("admin_key", self.admin_key),
        ):
            (directory / "secrets" / name).write_text(content + "\n")  # as `make secrets`
        self._own()
        self._shared_ports = {port: free_port() for port in ("5432", "8000", "8786", "8787")}

    def substitutions(self, own_ports: Mapping[str, int]) -> dict[str, str]:
        """What differs from the file, beside programs: what stands there, and here instead."""
        return self._network(own_ports) | {
            "/var/lib/peewit": str(self.directory / "home"),
            "/var/cache/peewit": str(self.directory / "cache"),
            "/edges": str(self.directory / "edges"),
            "/items": str(self.directory / "items"),
            "/opt/peewit": str(REPOSITORY / "docker"),
            "/run/secrets": str(self.directory / "secrets"),
            "/tmp": str(self.directory / "temporary"),
        }

    def _network(self, own_ports: Mapping[str, int]) -> dict[str, str]:
        """Ports and hosts, all that differs inside an image."""
        ports = {name: str(port) for name, port in (self._shared_ports | own_ports).items()}
        hosts = {"postgres:": "127.0.0.1:", "scheduler:": "127.0.0.1:", "0.0.0.0": "127.0.0.1"}
        return ports | hosts

    def say(self, **environment: str) -> None:
        """Change what docker/.env says, for services that are started from now on."""
        self.services = interpolated(COMPOSE["services"], environment)

    def port(self, name: str) -> int:
        """The port that stands for one of those that all services share."""
        return self._shared_ports[name]

    def inside(self, path: Path) -> str:
        """A path below `edges` as the services see it."""
        return str(path) if self.image is None else f"/{path.relative_to(self.directory)}"

    def start(self, *names: str) -> None:
        """Start a replica of each service and wait until their healthchecks pass."""
        started = []
        for name in names:
            started.append(self._start_postgres() if name == "postgres" else self._start(name))
            self.running.append(started[-1])
        for each in started:
            eventually(each.is_healthy, HEALTHY_SECONDS, pause_seconds=0.5)

    def _start(self, name: str) -> Running:
        service = self.services[name]
        own_ports = {port: free_port() for port in ("9100", "8790")}
        entrypoint, variables, directory = self._of_image()
        variables |= service.get("environment", {})
        words = [*service.get("entrypoint", entrypoint), *service["command"]]
        started = self._process(words, variables, directory, own_ports)
        process = subprocess.Popen(**started, stdin=subprocess.DEVNULL)
        check = service["healthcheck"]["test"][1:]
        health = self._process(check, variables, "/", own_ports)
        return Running(service=name, process=process, health=health, ports=own_ports)

    def _of_image(self) -> tuple[list[str], dict[str, str], str]:
        """Entrypoint, variables and directory: of the image, or what its Dockerfile says."""
        if self.image is not None:
            config = self.image.config
            return config["Entrypoint"], self.image.environment, config["WorkingDir"]
        variables = dict(re.findall(r"([A-Z_]+)=(\S+?)(?: \\)?$", _IMAGE, flags=re.MULTILINE))
        del variables["PATH"]
        entrypoint = json.loads(in_dockerfile(r"ENTRYPOINT (\[.*\])"))
        return entrypoint, variables, in_dockerfile(r"WORKDIR (\S+)")

    def _process(
        self,
        words: list[str],
        variables: Mapping[str, str],
        directory: str,
        own_ports: Mapping[str, int],
    ) -> dict[str, Any]:
        """What starts a command as the user of the image: arguments of ``subprocess.Popen``."""
        if self.image is not None:
            table = self._network(own_ports)
            inside = [_replaced(word, table) for word in words]
            return {
                "args": self.image.command(inside, self._volumes, directory),
                "env": {key: _replaced(value, table) for key, value in variables.items()},
            }
        environment = {key: self._here(value, own_ports) for key, value in variables.items()}
        return {
            "args": self._command(words, own_ports),
            "env": environment | {"PATH": os.environ["PATH"], "PYTHONPATH": self._import_path},
            "cwd": self._here(directory, own_ports),
            **self.account,
        }

    def run(self, name: str, *arguments: str) -> str:
        """What a command prints, as `docker compose run --rm NAME ARGUMENTS` runs it."""
        service = self.services[name]
        entrypoint, variables, _ = self._of_image()
        variables |= service["environment"]
        started = self._process([*entrypoint, *arguments], variables, service["working_dir"], {})
        finished = subprocess.run(
            **started, check=False, capture_output=True, text=True, timeout=300
        )
        assert finished.returncode == 0, finished.stderr
        return finished.stdout

    def _start_postgres(self) -> Running:
        """What the image of PostgreSQL does: make the cluster and the database, then serve."""
        service, own = self.services["postgres"], _postgres_account()
        named = {key: self._here(value, {}) for key, value in service["environment"].items()}
        data = self.directory / "postgres"
        data.mkdir()
        if own:
            shutil.chown(data, own["user"], own["group"])
        options = ("--encoding=UTF8", "--locale=C", "--no-sync", "--auth=scram-sha-256")
        password_file = Path(named["POSTGRES_PASSWORD_FILE"])
        user = named["POSTGRES_USER"]
        subprocess.run(
            [
                self._programs / "initdb",
                f"--pgdata={data}",
                f"--username={user}",
                f"--pwfile={password_file}",
                *options,
            ],
            check=True,
            cwd="/",
            stdout=subprocess.DEVNULL,
            **own,
        )
        port = self.port("5432")
        process = subprocess.Popen(
            [
                self._programs / "postgres",
                *("-D", data, "-p", str(port), "-c", "listen_addresses=127.0.0.1"),
                *("-c", f"unix_socket_directories={data}", "-c", "fsync=off"),
            ],
            cwd="/",
            stderr=subprocess.DEVNULL,
            **own,
        )
        environment = {"PATH": f"{self._programs}:{os.environ['PATH']}", "PGPORT": str(port)}
        kind, command = service["healthcheck"]["test"]
        assert kind == "CMD-SHELL"
        health = {"args": ["/bin/sh", "-c", command], "env": environment, "cwd": "/", **own}
        running = Running(service="postgres", process=process, health=health, ports={})
        eventually(running.is_healthy)
        server = f"postgresql://{user}@127.0.0.1:{port}/postgres"
        password = password_file.read_text().rstrip()
        with psycopg.connect(server, password=password, autocommit=True) as connection:
            name = sql.Identifier(named["POSTGRES_DB"])
            connection.execute(sql.SQL("CREATE DATABASE {}").format(name))
        return running

    def _command(self, words: list[str], own_ports: Mapping[str, int]) -> list[str]:
        """A command line with the programs of the image found here."""
        programs = {
            "peewit": [self._python, "-m", "peewit"],
            "dask": [self._python, "-m", "dask"],
            "python3": [self._python],
        }
        found: list[str] = []
        for word in words:  # a healthcheck names a second program
            found += programs.get(word) or [self._here(word, own_ports)]
        return found

    def _here(self, text: str, own_ports: Mapping[str, int]) -> str:
        return _replaced(text, self.substitutions(own_ports))

    @property
    def _volumes(self) -> dict[str, Path]:
        """What is bound in the image: its volumes and secrets, and a directory for its `/tmp`."""
        places = {
            "/var/lib/peewit": "home",
            "/edges:ro": "edges",
            "/items:ro": "items",
            "/run/secrets:ro": "secrets",
            "/tmp": "temporary",
        }
        return {place: self.directory / name for place, name in places.items()}

    def _own(self) -> None:
        """Let the user of the image write where it may."""
        if self.image is None and not self.account:
            return
        user, group = map(int, in_dockerfile(r"USER (\d+:\d+)").split(":"))
        for name in ("home", "cache", "temporary"):
            for path in (self.directory / name, *(self.directory / name).rglob("*")):
                os.chown(path, user, group)

    def stop_all(self) -> dict[str, float]:
        """Send SIGTERM to all, and wait for them; seconds that each service took.

        PostgreSQL is stopped last, as compose does by ``depends_on``.
        """
        taken: dict[str, float] = {}
        others = [each for each in self.running if each.service != "postgres"]
        last = [each for each in self.running if each.service == "postgres"]
        for group in (others, last):
            began = time.monotonic()
            for each in group:
                each.process.terminate()
            for each in group:
                each.process.wait(timeout=60)
                took = time.monotonic() - began
                taken[each.service] = max(taken.get(each.service, 0.0), took)
        return taken

    def end(self) -> None:
        """Kill what still runs, PostgreSQL by its own quick stop."""
        for each in reversed(self.running):
            if each.process.poll() is None:
                if each.service == "postgres":
                    each.process.send_signal(signal.SIGQUIT)
                else:
                    kill_tree(each.process.pid)
            each.process.wait(timeout=60)


def _replaced(text: str, table: Mapping[str, str]) -> str:
    """What stands for names, and for numbers that are no part of others."""
    longest_first = sorted(table, key=len, reverse=True)
    names = (re.escape(each) + (r"(?!\d)" if each[-1].isdigit() else "") for each in longest_first)
    return re.sub(rf"(?<!\w)(?:{'|'.join(names)})", lambda found: table[found[0]], text)


def _runner() -> tuple[str, str, dict[str, Any]]:
    """An interpreter, its import path and the account: that of the image where it can be had."""
    here = str(REPOSITORY / ".src")
    if os.geteuid() != 0:
        return sys.executable, here, {}
    user, group = map(int, in_dockerfile(r"USER (\d+:\d+)").split(":"))
    account: dict[str, Any] = {"user": user, "group": group, "extra_groups": []}
    packages = sysconfig.get_path("purelib")
    for python, import_path in _interpreters(here, packages):
        program = [python, "-c", "import orjson, psycopg, peewit.service"]
        environment = {"PYTHONPATH": import_path}
        try:
            tried = subprocess.run(
                program, env=environment, cwd="/", check=False, capture_output=True, **account
            )
        except PermissionError:
            continue
        if tried.returncode == 0:
            return python, import_path, account
    return sys.executable, here, {}  # its files can be read by root alone


def _interpreters(here: str, packages: str) -> Iterator[tuple[str, str]]:
    """This one, and the system's of the same version with the packages of this one."""
    yield sys.executable, here
    same = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    yield same, f"{here}{os.pathsep}{packages}"


def _postgres_account() -> dict[str, Any]:
    """Who owns the cluster: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    found = pwd.getpwnam("postgres")
    return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
