"""The image of `make image`: made of the wheel of `make dist`, and what manifests ask of it.

`make try-image` runs this, and `test_compose.py` with the image's programs; needs buildah and root.
"""

import json
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

import pytest

from tests.end_to_end import image
from tests.end_to_end.image import Image
from tests.end_to_end.processes import REPOSITORY, eventually, free_port, kill_tree
from tests.project.test_compose import SERVICES, peewit_commands
from tests.project.test_kubernetes import CONTAINERS, environment

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not image.NAME, reason="PEEWIT_TEST_IMAGE names no image of buildah's"),
]

DISTRIBUTIONS = """
import json
from importlib.metadata import distributions
print(json.dumps({each.name: each.version for each in distributions()}))
"""
SETTINGS = """
import json
from peewit.service.settings import Settings
print(json.dumps([f"PEEWIT_{name.upper()}" for name in Settings.model_fields]))
"""
RECORD = """
from importlib.metadata import distribution
print(distribution("peewit").read_text("RECORD"))
"""
"""Name, hash and size of each file of the wheel, and of what pip added."""


@pytest.fixture(scope="module")
def inside() -> Iterator[Image]:
    with image.mounted() as found:
        yield found


@pytest.fixture
def home(inside: Image) -> Iterator[Path]:
    """An empty volume for `/var/lib/peewit`, of the image's user."""
    with TemporaryDirectory(prefix="peewit-image-") as directory:
        home = Path(directory, "home")
        home.mkdir()
        subprocess.run(["chown", inside.config["User"], home], check=True)
        yield home


def test_it_holds_the_wheel_of_dist(inside: Image) -> None:
    (wheel,) = (REPOSITORY / "dist").glob("peewit-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (record,) = (name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
        hashed = {line for line in archive.read(record).decode().split() if "sha256=" in line}
    assert len(hashed) > 100
    assert hashed <= {*inside.run("python3", "-c", RECORD).split()}


def test_the_bill_names_every_distribution_that_is_in_it(inside: Image) -> None:
    bill = json.loads((inside.root / "opt/peewit/bill.cdx.json").read_text())
    components = [bill["metadata"]["component"], *bill["components"]]
    named = {each["name"]: each["version"] for each in components}
    assert bill["bomFormat"] == "CycloneDX"
    assert named == json.loads(inside.run("python3", "-c", DISTRIBUTIONS))
    (beside,) = (REPOSITORY / "dist").glob("peewit-*.cdx.json")
    assert json.loads(beside.read_text()) == bill


def test_manifests_take_its_user_ports_volumes_and_health_check(inside: Image) -> None:
    config, api = inside.config, SERVICES["api"]
    (port,) = (each["containerPort"] for each in CONTAINERS["api"]["ports"])
    assert config["Entrypoint"] == ["peewit"]
    assert config["User"] == "10001:10001"
    assert [*config["ExposedPorts"]] == [f"{port}/tcp"]
    assert [each.rpartition(":")[2] for each in api["ports"]] == [str(port)]
    assert config["Healthcheck"]["Test"] == api["healthcheck"]["test"]
    assert [*config["Volumes"]] == [api["volumes"][0].partition(":")[2]]


def test_its_user_can_change_nothing_of_the_programs(inside: Image) -> None:
    changeable = inside.run("find", "/opt", "/usr", "-writable", "!", "-type", "l")
    assert changeable == ""


def test_its_program_reads_every_command_and_knows_every_variable(inside: Image) -> None:
    commands = [*peewit_commands().values()]
    commands += [each["args"] for each in CONTAINERS.values() if "command" not in each]
    for words in commands:
        assert "Usage: peewit" in inside.run("peewit", *words, "--help")
    for each in CONTAINERS.values():
        if "command" in each:  # of dask
            assert "Usage: dask" in inside.run(*each["command"], *each["args"], "--help")
    named = {name for role in CONTAINERS for name in environment(role)}
    named |= {name for each in SERVICES.values() for name in each.get("environment", {})}
    known = json.loads(inside.run("python3", "-c", SETTINGS))
    assert {name for name in named if name.startswith("PEEWIT_")} <= {*known}


def test_all_in_one_process_serves(inside: Image, home: Path) -> None:
    port = free_port()
    words = ["peewit", "serve", "--port", str(port)]
    command = inside.command(words, {"/var/lib/peewit": home})
    with subprocess.Popen(command, env=inside.environment) as process:
        try:
            eventually(lambda: is_ready(port), 120, pause_seconds=0.2)
            check = [*inside.config["Healthcheck"]["Test"][1:-2], str(port), "/readyz"]
            assert inside.run(*check) == ""
            process.terminate()
            assert process.wait(timeout=60) == 0
        finally:
            kill_tree(process.pid)


def is_ready(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_a_command_predicts_the_demo_without_compiling(inside: Image, home: Path) -> None:
    printed = inside.run("peewit", "demo", volumes={"/var/lib/peewit": home})
    assert "compiling" not in printed
    accuracy = printed.rpartition("accuracy")[2].split()[0]
    assert float(accuracy) > 0.9
