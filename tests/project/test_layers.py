"""Rooms stand in layers: few names in each, imports run down only, and so nowhere in a circle."""

import ast
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter

import pytest

from tests.project.sources import ROOT, import_statements

MOST_NAMES = 8
"""In one layer; more of them are a list that nobody reads."""

CONTRACTS = [
    contract
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    if contract["type"] == "layers"
]


def floors(contract: dict) -> dict[str, int]:
    """Height of each room by its name, the ground being 0."""
    return {
        name.strip(" ()"): height
        for height, layer in enumerate(reversed(contract["layers"]))
        for name in layer.replace("|", ":").split(":")
    }


def arrows(container: str) -> Iterator[tuple[str, str, str]]:
    """Importing room, imported room and the importing file, wherever the two differ."""
    folder = ROOT.joinpath(*container.split(".")[1:])
    packages = ("service", "streaming", "solvers") if container == "peewit" else (".",)
    for path in (path for package in packages for path in (folder / package).rglob("*.py")):
        rooms = path.relative_to(folder).with_suffix("").parts
        for statement in import_statements(path):
            for name in imported(statement):
                if name.startswith(f"{container}."):
                    target = name.removeprefix(f"{container}.").split(".")[0]
                    if target != rooms[0]:
                        yield rooms[0], target, str(path.relative_to(ROOT))


def imported(statement: ast.Import | ast.ImportFrom) -> list[str]:
    """Modules that a statement imports, and the names that it takes from them."""
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    if statement.module:
        return [f"{statement.module}.{alias.name}" for alias in statement.names]
    return []


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract["containers"][0])
def test_imports_run_down_and_no_layer_is_crowded(contract: dict) -> None:
    (container,) = contract["containers"]
    heights = floors(contract)
    crowded = [layer for layer in contract["layers"] if layer.count("(") > MOST_NAMES]
    found = [arrow for arrow in arrows(container) if arrow[0] != "__init__"]
    upward = [arrow for arrow in found if heights[arrow[0]] < heights.get(arrow[1], -1)]
    assert crowded == []
    assert len(found) >= 2
    assert upward == []
    rooms: dict[str, set[str]] = {}
    for room, target, _ in found:
        if target in heights:
            rooms.setdefault(room, set()).add(target)
    TopologicalSorter(rooms).prepare()  # raises CycleError: names between ":" may import each other


MOST_MODULES = 25
"""In one folder; more of them are a list that nobody reads."""


@pytest.mark.parametrize("package", ["service", "streaming", "solvers"])
def test_no_folder_holds_more_modules_than_one_can_look_over(package: str) -> None:
    folders = [path for path in (ROOT / package).rglob("*") if path.is_dir()]
    crowded = {
        str(folder.relative_to(ROOT)): n_modules
        for folder in [ROOT / package, *folders]
        if (n_modules := len([*folder.glob("*.py")]) - 1) > MOST_MODULES
    }
    assert not crowded
