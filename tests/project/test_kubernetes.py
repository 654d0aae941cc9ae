"""Manifests for Kubernetes: valid, and in step with the image, the settings and compose.yaml."""

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from pydantic import ByteSize, TypeAdapter

from peewit.service.jobs.job import LANES
from peewit.service.settings import Settings
from tests.project.test_compose import SERVICES, in_dockerfile, n_bytes, run_peewit

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "docker/kubernetes").rglob("*.yaml"))
OBJECTS: dict[tuple[str, str], Any] = {
    (each["kind"], each["metadata"]["name"]): each
    for file in FILES
    for each in yaml.safe_load_all(file.read_text())
}
PODS: dict[str, Any] = {
    name.removeprefix("peewit-"): each["spec"]["template"]["spec"]
    for (kind, name), each in OBJECTS.items()
    if kind == "Deployment"
}
CONTAINERS: dict[str, Any] = {name: pod["containers"][0] for name, pod in PODS.items()}
SHARED: dict[str, str] = OBJECTS["ConfigMap", "peewit"]["data"]
COMPONENT = "app.kubernetes.io/component"
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def environment(role: str) -> dict[str, str]:
    own = {each["name"]: each["value"] for each in CONTAINERS[role].get("env", [])}
    return SHARED | own if "envFrom" in CONTAINERS[role] else own


def own_bytes(memory: str) -> int:
    """Bytes of a limit such as 512Mi."""
    return TypeAdapter(ByteSize).validate_python(f"{memory}B")


@pytest.mark.parametrize("found", OBJECTS.values(), ids=[name for _, name in OBJECTS])
def test_manifests_are_valid(found: dict[str, Any]) -> None:
    kubernetes_validate.validate(found, kubernetes_validate.latest_version(), strict=True)


def test_a_wrong_field_would_be_found() -> None:
    wrong = OBJECTS["Deployment", "peewit-api"] | {"replicas": 2}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, kubernetes_validate.latest_version(), strict=True)


def test_every_service_of_compose_that_stays_has_its_pods() -> None:
    stays = set(SERVICES) - {"cli", "postgres", "prometheus"}
    assert set(PODS) == stays


def test_selectors_are_the_labels_of_the_pods() -> None:
    for (kind, name), found in OBJECTS.items():
        if kind == "Deployment":
            labels = found["spec"]["template"]["metadata"]["labels"]
            assert found["spec"]["selector"]["matchLabels"] == labels == found["metadata"]["labels"]
        if kind == "Service":
            deployment = OBJECTS["Deployment", f"peewit-{found['spec']['selector'][COMPONENT]}"]
            assert deployment["spec"]["selector"]["matchLabels"] == found["spec"]["selector"], name


def test_every_variable_is_a_setting_and_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for role in ("api", "ingest", "worker"):
        for name, value in environment(role).items():
            monkeypatch.setenv(name, value)
    known = {f"PEEWIT_{field.upper()}" for field in Settings.model_fields}
    named = {name for role in PODS for name in environment(role)}
    assert named <= known
    read = Settings()
    assert read.home == Path("/var/lib/peewit")
    assert read.metrics_port == 9100
    grace = PODS["api"]["terminationGracePeriodSeconds"]
    assert read.drain_seconds + read.finish_seconds < grace


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("role", ["api", "ingest", "worker"])
def test_commands_are_those_of_peewit(role: str) -> None:
    finished = run_peewit(*CONTAINERS[role]["args"], "--help")
    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize("role", ["scheduler", "dask-worker"])
def test_dask_is_called_as_by_compose(role: str) -> None:
    container, service = CONTAINERS[role], SERVICES[role]
    assert container["command"] == service["entrypoint"]
    expected = [
        word.replace("tcp://scheduler", "tcp://peewit-scheduler") for word in service["command"]
    ]
    assert container["args"] == expected


def test_probes_ask_as_compose_does_and_where_something_listens() -> None:
    for role, container in CONTAINERS.items():
        ports = {port["name"]: str(port["containerPort"]) for port in container["ports"]}
        test = SERVICES[role]["healthcheck"]["test"]
        for name in PROBES:
            probe = container.get(name)
            if probe is None:
                continue
            if "exec" in probe:
                assert ["CMD", *probe["exec"]["command"]] == test, role
                assert probe["timeoutSeconds"] >= 10
            else:
                asked = probe["httpGet"]
                assert ports[asked["port"]] == test[4], role
                assert asked["path"] in {test[5], "/healthz"}, role
        assert "livenessProbe" in container, role


def test_ingest_and_workers_are_not_killed_while_they_compute() -> None:
    for role in ("ingest", "worker"):
        assert "exec" in CONTAINERS[role]["livenessProbe"]


def test_pods_run_the_image_as_its_user_and_gain_nothing() -> None:
    user = int(in_dockerfile(r"USER (\d+):\d+"))
    for role, pod in PODS.items():
        assert pod["securityContext"]["runAsNonRoot"], role
        assert pod["securityContext"]["runAsUser"] == user
        assert CONTAINERS[role]["image"] in SERVICES[role]["image"]
        own = CONTAINERS[role]["securityContext"]
        assert own == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def test_volumes_are_mounted_where_settings_say() -> None:
    for role in ("api", "ingest", "worker", "dask-worker"):
        claims = {
            each["name"]: each["persistentVolumeClaim"]["claimName"]
            for each in PODS[role]["volumes"]
            if "persistentVolumeClaim" in each
        }
        for name in claims.values():
            modes = OBJECTS["PersistentVolumeClaim", name]["spec"]["accessModes"]
            assert modes == ["ReadWriteMany"]
        places = {each["name"]: each["mountPath"] for each in CONTAINERS[role]["volumeMounts"]}
        assert places["home"] == SHARED["PEEWIT_HOME"]
        assert places["edges"] == SHARED["PEEWIT_SOURCE_ROOTS"]
        if role != "dask-worker":
            for variable in ("PEEWIT_DATABASE_PASSWORD_FILE", "PEEWIT_ADMIN_KEY_FILE"):
                file = environment(role).get(variable)
                assert file is None or file.startswith(f"{places['secrets']}/")


def test_limits_are_those_of_compose_and_leave_room_for_both_that_solve() -> None:
    for role, container in CONTAINERS.items():
        limits = container["resources"]["limits"]
        expected = SERVICES[role]["deploy"]["resources"]["limits"]
        assert float(limits["cpu"]) == float(expected["cpus"]), role
        assert own_bytes(limits["memory"]) == n_bytes(expected["memory"]), role
    child = TypeAdapter(ByteSize).validate_python(SHARED["PEEWIT_CHILD_MEMORY_BYTES"])
    worker = own_bytes(CONTAINERS["worker"]["resources"]["limits"]["memory"])
    assert len(LANES) * child <= 0.98 * worker
