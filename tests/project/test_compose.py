import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from distributed.cli import dask_scheduler, dask_worker

from service.settings import Settings

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())
DOCKERFILE = (ROOT / "docker/Dockerfile").read_text()
SERVICES: dict[str, dict] = COMPOSE["services"]

DASK_COMMANDS = {
    ("dask", "scheduler"): dask_scheduler.main,
    ("dask", "worker"): dask_worker.main,
}


def in_dockerfile(line: str) -> str:
    """What the group of the pattern matches in the last line of the Dockerfile that fits it."""
    return re.findall(rf"^{line}$", DOCKERFILE, flags=re.MULTILINE)[-1]


def lapwing_commands() -> dict[str, list[str]]:
    """Arguments of each call of `lapwing` in the Dockerfile and in compose.yaml, by its place."""
    calls = {
        "Dockerfile CMD": json.loads(in_dockerfile(r"CMD (\[.*\])")),
        "Dockerfile RUN": in_dockerfile("RUN lapwing (.*)").split(),
        "Dockerfile HEALTHCHECK": json.loads(in_dockerfile(r" +CMD (\[.*\])"))[1:],
    }
    for name, service in SERVICES.items():
        if "entrypoint" not in service and "lapwing" in service["image"]:
            calls[f"{name} command"] = service["command"]
        if service["healthcheck"]["test"][:2] == ["CMD", "lapwing"]:
            calls[f"{name} healthcheck"] = service["healthcheck"]["test"][2:]
    return calls


def run_lapwing(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "service.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_image_runs_lapwing() -> None:
    assert json.loads(in_dockerfile(r"ENTRYPOINT (\[.*\])")) == ["lapwing"]


# `--help` at the end parses the words before it, prints and does nothing else
@pytest.mark.parametrize(("place", "arguments"), lapwing_commands().items())
def test_every_command_of_the_images_is_one_of_lapwing(place: str, arguments: list[str]) -> None:
    finished = run_lapwing(*arguments, "--help")
    assert finished.returncode == 0, f"{place}: {finished.stderr}"
    assert "COMMAND [ARGS]" not in finished.stdout, f"{place}: not a command but a group of them"


def test_a_wrong_option_before_help_is_refused() -> None:
    assert run_lapwing("worker", "--no-such-option", "--help").returncode == 2


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
        if variable.startswith("LAPWING_")
    } | set(re.findall(r"\b(LAPWING_\w+)=", DOCKERFILE))
    assert named <= {f"LAPWING_{field.upper()}" for field in Settings.model_fields}


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
