import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from distributed.cli import dask_scheduler, dask_worker

from peewit.service.settings import Settings
from tests.end_to_end.composed import interpolated, seconds

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docker/compose.yaml").read_text()
COMPOSE = interpolated(yaml.safe_load(TEXT), {})
PROMETHEUS = yaml.safe_load((ROOT / "docker/prometheus.yml").read_text())
DOCKERFILE = (ROOT / "docker/Dockerfile").read_text()
SERVICES: dict[str, dict] = COMPOSE["services"]

DASK_COMMANDS = {
    ("dask", "scheduler"): dask_scheduler.main,
    ("dask", "worker"): dask_worker.main,
}


def in_dockerfile(line: str) -> str:
    """What the group of the pattern matches in the last line of the Dockerfile that fits it."""
    return re.findall(rf"^{line}$", DOCKERFILE, flags=re.MULTILINE)[-1]


def peewit_commands() -> dict[str, list[str]]:
    """Arguments of each call of `peewit` in the Dockerfile and in compose.yaml, by its place."""
    calls = {
        "Dockerfile CMD": json.loads(in_dockerfile(r"CMD (\[.*\])")),
        "Dockerfile RUN": in_dockerfile("RUN peewit (.*)").split(),
        "Dockerfile HEALTHCHECK": json.loads(in_dockerfile(r" +CMD (\[.*\])"))[1:],
    }
    for name, service in SERVICES.items():
        if "entrypoint" not in service and "peewit" in service["image"]:
            calls[f"{name} command"] = service["command"]
        if service["healthcheck"]["test"][:2] == ["CMD", "peewit"]:
            calls[f"{name} healthcheck"] = service["healthcheck"]["test"][2:]
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


def test_every_service_stays_within_limits_and_comes_back() -> None:
    for name, service in SERVICES.items():
        assert {"cpus", "memory"} <= set(service["deploy"]["resources"]["limits"]), name
        assert service["restart"] == "unless-stopped", name
        assert service["healthcheck"]["test"], name


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
