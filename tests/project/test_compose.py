import json
import re
import socket
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml
from click.testing import CliRunner
from distributed.cli import dask_scheduler, dask_worker
from pydantic import ByteSize, TypeAdapter

from peewit.service.jobs.job import LANES
from peewit.service.settings import Settings
from tests.end_to_end.composed import interpolated, seconds

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docker/compose.yaml").read_text()
COMPOSE = interpolated(yaml.safe_load(TEXT), {})
PROMETHEUS = yaml.safe_load((ROOT / "docker/prometheus.yml").read_text())
DOCKERFILE = (ROOT / "docker/Dockerfile").read_text()
SERVICES: dict[str, dict] = COMPOSE["services"]

DASK_COMMANDS = {("dask", "scheduler"): dask_scheduler.main, ("dask", "worker"): dask_worker.main}


def in_dockerfile(line: str) -> str:
    """What the group of the pattern matches in the last line of the Dockerfile that fits it."""
    return re.findall(rf"^{line}$", DOCKERFILE, flags=re.MULTILINE)[-1]


def n_bytes(memory: str) -> int:
    """Bytes of a limit such as 512m."""
    return int(memory[:-1]) * {"m": 2**20, "g": 2**30}[memory[-1]]


def peewit_commands() -> dict[str, list[str]]:
    """Arguments of each call of `peewit` in the Dockerfile and in compose.yaml, by its place."""
    calls = {
        "Dockerfile CMD": json.loads(in_dockerfile(r"CMD (\[.*\])")),
        "Dockerfile RUN": in_dockerfile("RUN peewit (.*)").split(),
    }
    for name, service in SERVICES.items():
        runs_peewit = "entrypoint" not in service and "peewit" in service["image"]
        if runs_peewit and service["command"] != ["--help"]:
            calls[f"{name} command"] = service["command"]
        test = service["healthcheck"].get("test", [])
        if "peewit" in test:
            calls[f"{name} healthcheck"] = test[test.index("peewit") + 1 :]
    return calls


def run_peewit(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "peewit", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_image_runs_peewit() -> None:
    assert json.loads(in_dockerfile(r"ENTRYPOINT (\[.*\])")) == ["peewit"]


def test_the_image_has_the_extra_of_dask_services() -> None:
    assert "cluster" in in_dockerfile("ARG EXTRAS=(.*)").split(",")


# `--help` at the end parses the words before it, prints and does nothing else
@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(("place", "arguments"), peewit_commands().items())
def test_every_command_of_the_images_is_one_of_peewit(place: str, arguments: list[str]) -> None:
    finished = run_peewit(*arguments, "--help")
    assert finished.returncode == 0, f"{place}: {finished.stderr}"
    assert "COMMAND [ARGS]" not in finished.stdout, f"{place}: not a command but a group of them"


@pytest.mark.usefixtures("processes")
def test_a_wrong_option_before_help_is_refused() -> None:
    assert run_peewit("worker", "--no-such-option", "--help").returncode == 2


@pytest.mark.parametrize("name", ["scheduler", "dask-worker"])
def test_every_dask_command_is_one_of_dask(name: str) -> None:
    command = DASK_COMMANDS[tuple(SERVICES[name]["entrypoint"])]
    result = CliRunner().invoke(command, [*SERVICES[name]["command"], "--help"])
    assert result.exit_code == 0, result.output


def test_every_variable_of_the_services_is_a_setting() -> None:
    named = {
        variable
        for service in SERVICES.values()
        for variable in service.get("environment", {})
        if variable.startswith("PEEWIT_")
    } | set(re.findall(r"\b(PEEWIT_\w+)=", DOCKERFILE))
    assert named <= {f"PEEWIT_{field.upper()}" for field in Settings.model_fields}


def test_every_service_stays_within_limits_that_can_be_set() -> None:
    for name, service in yaml.safe_load(TEXT)["services"].items():
        limits = service["deploy"]["resources"]["limits"]
        prefix = f"${{PEEWIT_{name.upper().replace('-', '_')}"
        assert limits["cpus"].startswith(f"{prefix}_CPUS:-"), name
        assert limits["memory"].startswith(f"{prefix}_MEMORY:-"), name


def test_what_runs_by_default_fits_two_processors_and_eight_gigabytes() -> None:
    limits = {
        name: service["deploy"]["resources"]["limits"]
        for name, service in SERVICES.items()
        if "profiles" not in service
    }
    assert set(limits) == {"postgres", "api", "ingest", "worker"}
    assert max(float(each["cpus"]) for each in limits.values()) <= 2  # docker refuses more
    assert sum(n_bytes(each["memory"]) for each in limits.values()) <= 7 * 2**30
    for service in SERVICES.values():
        assert float(service["deploy"]["resources"]["limits"]["cpus"]) <= 2


def test_a_worker_has_room_for_both_processes_that_solve() -> None:
    child = TypeAdapter(ByteSize).validate_python(
        SERVICES["worker"]["environment"]["PEEWIT_CHILD_MEMORY_BYTES"]
    )
    worker = n_bytes(SERVICES["worker"]["deploy"]["resources"]["limits"]["memory"])
    assert len(LANES) * child <= 0.98 * worker
    told = SERVICES["api"]["environment"]["PEEWIT_CHILD_MEMORY_BYTES"]
    assert told == SERVICES["worker"]["environment"]["PEEWIT_CHILD_MEMORY_BYTES"]


def test_services_that_stay_come_back_and_are_looked_at() -> None:
    for name, service in SERVICES.items():
        if name == "cli":
            assert service["restart"] == "no"
            assert service["healthcheck"] == {"disable": True}
        else:
            assert service["restart"] == "unless-stopped", name
            assert service["healthcheck"]["test"], name


def test_edges_and_items_are_where_commands_are_run() -> None:
    for name in ("api", "ingest", "worker", "cli", "dask-worker"):
        places = [volume.split(":")[1:] for volume in SERVICES[name]["volumes"]]
        assert places == [["/var/lib/peewit"], ["/edges", "ro"], ["/items", "ro"]], name
    cli = SERVICES["cli"]
    assert cli["profiles"] == ["tools"]
    assert "entrypoint" not in cli  # what follows `run --rm cli` are words of peewit
    of_ingest = SERVICES["ingest"]["environment"]
    for variable, value in cli["environment"].items():
        assert variable == "PEEWIT_LOG_FORMAT" or value == of_ingest[variable]


def test_who_waits_for_a_service_of_a_profile_can_do_without_it() -> None:
    for name, service in SERVICES.items():
        for other, how in service.get("depends_on", {}).items():
            profiles = SERVICES[other].get("profiles", [])
            is_together = set(profiles) >= set(service.get("profiles", [])) != set()
            assert not profiles or is_together or how["required"] is False, (name, other)
    for role in ("ingest", "worker"):
        assert SERVICES[role]["environment"]["PEEWIT_SCHEDULER"] == ""


def test_health_is_asked_for_where_the_role_answers() -> None:
    ports = {
        "api": (SERVICES["api"]["command"], "8000", "/readyz"),
        "scheduler": (SERVICES["scheduler"]["command"], "8787", "/health"),
        "dask-worker": (SERVICES["dask-worker"]["command"], "8790", "/health"),
        "ingest": (SERVICES["ingest"]["environment"].values(), "9100", "/healthz"),
        "worker": (SERVICES["worker"]["environment"].values(), "9100", "/healthz"),
    }
    for name, (told, port, path) in ports.items():
        assert any(word.removeprefix(":") == port for word in told), name
        words = SERVICES[name]["healthcheck"]["test"][1:]
        assert words[5:] == (["peewit", "health", name] if path == "/healthz" else []), name
        assert words[:5] == ["python3", "-IS", "/opt/peewit/healthcheck.py", port, path], name
    own = json.loads(in_dockerfile(r" +CMD (\[.*\])"))
    assert own == SERVICES["api"]["healthcheck"]["test"][1:]


def test_the_check_that_runs_all_day_is_in_the_image() -> None:
    assert (
        in_dockerfile("COPY (docker/healthcheck.py .*)").split()[1] == "/opt/peewit/healthcheck.py"
    )
    assert "!docker/healthcheck.py" in (ROOT / ".dockerignore").read_text().splitlines()


def health_check(port: int, *command: str) -> subprocess.CompletedProcess[str]:
    """What the check of ``/healthz`` says, and each module that it loads."""
    script = str(ROOT / "docker/healthcheck.py")
    return subprocess.run(
        [sys.executable, "-IS", "-X", "importtime", script, str(port), "/healthz", *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(("status", "exit_code"), [(200, 0), (503, 1)])
def test_a_check_asks_once_and_loads_the_standard_library_alone(
    status: int, exit_code: int
) -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/healthz" else 404)
            self.end_headers()
            self.wfile.write(b"no fresh heartbeat")

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        checked = health_check(server.server_port)
        thread.join()
    assert checked.returncode == exit_code
    assert ("/healthz: no fresh heartbeat" in checked.stderr) == (exit_code == 1)
    loaded = re.findall(r"^import time: +\d+ .*\| +(\w+)", checked.stderr, flags=re.MULTILINE)
    assert set(loaded) <= sys.stdlib_module_names
    assert 10 < len(loaded) < 120  # `peewit health` loads seven hundred


@pytest.mark.usefixtures("processes")
def test_a_check_of_a_port_where_nobody_listens_fails() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        checked = health_check(taken.getsockname()[1], sys.executable, "-c", "exit(0)")
    assert checked.returncode == 1
    assert "refused" in checked.stderr


@pytest.mark.usefixtures("processes")
def test_where_no_answer_comes_the_command_decides() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert health_check(port, sys.executable, "-c", "exit(7)").returncode == 7
        assert "timed out" in health_check(port).stderr


def test_secrets_reach_the_services_as_files_only() -> None:
    for name, service in SERVICES.items():
        for secret in service.get("secrets", []):
            assert secret in COMPOSE["secrets"], f"{name} asks for {secret}"
        for variable, value in service.get("environment", {}).items():
            if variable.endswith("_FILE"):
                assert value.removeprefix("/run/secrets/") in service["secrets"], name
            else:
                assert "PASSWORD" not in variable, name
                assert "KEY" not in variable, name


def test_the_example_of_settings_says_what_holds_without_it() -> None:
    example = (ROOT / "docker/.env.example").read_text()
    told = dict(re.findall(r"^(\w+)=(.*)$", example, flags=re.MULTILINE))
    assert told == dict(re.findall(r"\$\{(\w+):-([^}]*)\}", TEXT))
    assert not {name for name in told if "PASSWORD" in name or "KEY" in name}


def test_a_stop_leaves_time_for_all_that_the_api_does_in_it() -> None:
    api = SERVICES["api"]
    defaults = Settings()
    longest = 10 + defaults.finish_seconds  # the drain that the example allows
    assert longest < seconds(api["stop_grace_period"])
    assert "At most 10" in (ROOT / "docker/.env.example").read_text()


def test_prometheus_asks_every_role_where_it_shows_its_metrics() -> None:
    asked = {
        name: discovered["port"]
        for scraped in PROMETHEUS["scrape_configs"]
        for discovered in scraped["dns_sd_configs"]
        for name in discovered["names"]
    }
    shown = {
        name: int(service["environment"]["PEEWIT_METRICS_PORT"])
        for name, service in SERVICES.items()
        if "PEEWIT_METRICS_PORT" in service.get("environment", {})
    }
    command = SERVICES["api"]["command"]
    assert asked == shown | {"api": int(command[command.index("--port") + 1])}
    files = {
        scraped["authorization"]["credentials_file"].removeprefix("/run/secrets/")
        for scraped in PROMETHEUS["scrape_configs"]
        if "authorization" in scraped
    }
    assert files == set(SERVICES["prometheus"]["secrets"])


def test_prometheus_runs_only_when_it_is_asked_for_and_reads_its_file() -> None:
    prometheus = SERVICES["prometheus"]
    assert prometheus["profiles"] == ["metrics"]
    (source, place, _), *_ = (volume.split(":") for volume in prometheus["volumes"])
    assert (ROOT / "docker" / source).is_file()
    assert f"--config.file={place}" in prometheus["command"]
    for volume in prometheus["volumes"]:
        name = volume.partition(":")[0]
        assert name.startswith(".") or name in COMPOSE["volumes"]


def test_ports_of_the_host_are_those_of_loopback() -> None:
    for name, service in SERVICES.items():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), name
