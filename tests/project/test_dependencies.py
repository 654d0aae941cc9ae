import ast
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.project.sources import ROOT, import_statements

PACKAGES = ("service", "streaming", "solvers", ".src/peewit")

# Imported beside the library that is made of them and chooses their versions.
COMES_WITH = {"click": "typer", "docutils": "sphinx", "starlette": "fastapi"}


@pytest.fixture(scope="module")
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def pins() -> dict[str, Requirement]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(requirement.name): requirement for requirement in requirements}


def declared(project: dict, extras: Iterable[str]) -> list[Requirement]:
    """Requirements of the project with these extras, and with the extras that those name."""
    lines = list(project["dependencies"])
    waiting, taken = list(extras), set()
    while waiting:
        extra = waiting.pop()
        if extra not in taken:
            taken.add(extra)
            lines += project["optional-dependencies"][extra]
            waiting += [
                name
                for line in project["optional-dependencies"][extra]
                if (requirement := Requirement(line)).name == project["name"]
                for name in requirement.extras
            ]
    requirements = [Requirement(line) for line in lines]
    return [requirement for requirement in requirements if requirement.name != project["name"]]


def closure(requirements: list[Requirement]) -> set[str]:
    """Names of the requirements and of everything they need on this machine."""
    names: set[str] = set()
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = list(requirements)
    while waiting:
        requirement = waiting.pop()
        key = (canonicalize_name(requirement.name), frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        names.add(key[0])
        for line in metadata.requires(requirement.name) or ():
            needed = Requirement(line)
            extras = requirement.extras or {""}
            if needed.marker is None or any(
                needed.marker.evaluate({"extra": extra}) for extra in extras
            ):
                waiting.append(needed)
    return names


def imported_modules(package: str) -> Iterator[tuple[str, Path]]:
    """Top-level name of every absolute import, and the file that has it."""
    for path in (ROOT / package).rglob("*.py"):
        for statement in import_statements(path):
            if isinstance(statement, ast.Import):
                for alias in statement.names:
                    yield alias.name.partition(".")[0], path
            elif statement.module and statement.level == 0:
                yield statement.module.partition(".")[0], path


@cache
def providers_of_modules() -> Mapping[str, list[str]]:
    """Distributions that hold each top-level module on this machine."""
    return metadata.packages_distributions()


def undeclared_imports(package: str, requirements: list[Requirement]) -> set[str]:
    names = {canonicalize_name(requirement.name) for requirement in requirements}
    distributions = providers_of_modules()
    undeclared = set()
    for module, path in imported_modules(package):
        if module in sys.stdlib_module_names or module in ("docs", "peewit", "tests"):
            continue
        # what is not installed is taken to be called like its module
        providers = {canonicalize_name(name) for name in distributions.get(module, (module,))}
        if not names & (providers | {COMES_WITH.get(module)}):
            undeclared.add(f"{module} ({path.relative_to(ROOT)})")
    return undeclared


def test_constraints_pin_one_exact_version_each(pins: dict[str, Requirement]) -> None:
    loose = [
        str(pin)
        for pin in pins.values()
        if pin.url or [specifier.operator for specifier in pin.specifier] != ["=="]
    ]
    assert loose == []


def test_constraints_satisfy_every_declared_dependency(
    project: dict, pins: dict[str, Requirement]
) -> None:
    for requirement in declared(project, project["optional-dependencies"]):
        pin = pins[canonicalize_name(requirement.name)]
        (version,) = (specifier.version for specifier in pin.specifier)
        assert requirement.specifier.contains(version), f"{requirement} excludes {pin}"


def test_constraints_pin_what_the_dependencies_need_in_turn(
    project: dict, pins: dict[str, Requirement]
) -> None:
    assert closure(declared(project, ("test", "dev"))) - set(pins) == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_imported_library_is_a_declared_dependency(package: str, project: dict) -> None:
    extras = ("cluster", "delta", "iceberg", "kafka", "knn", "mcp", "networkx", "otel")
    assert undeclared_imports(package, declared(project, extras)) == set()


@pytest.mark.parametrize(("package", "extras"), [("tests", ["test"]), ("docs", ["dev", "bench"])])
def test_every_library_of_tests_and_pages_is_declared(
    package: str, extras: list[str], project: dict
) -> None:
    assert undeclared_imports(package, declared(project, extras)) == set()
