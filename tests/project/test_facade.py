"""What `peewit` offers by its name: all that people use from Python, loaded when asked for."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import peewit
from peewit.solvers import estimators
from peewit.streaming.calls import sparsify_call

FACADE = Path(__file__).parents[2] / ".src" / "peewit" / "__init__.py"


def typed_names() -> list[str]:
    """Names that type checkers see: those under ``if TYPE_CHECKING``."""
    (block,) = (node for node in ast.parse(FACADE.read_text()).body if isinstance(node, ast.If))
    return [
        name
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        for name in (estimators.__all__ if alias.name == "*" else [alias.name])
    ]


def test_every_name_loads_and_has_a_type() -> None:
    assert sorted(typed_names()) == sorted(peewit.__all__)
    assert {name: getattr(peewit, name).__name__ for name in peewit.__all__} == {
        name: name for name in peewit.__all__
    }
    assert {each for each in dir(peewit) if not each.startswith("__")} == set(peewit.__all__)


def test_all_estimators_are_offered() -> None:
    assert set(estimators.__all__) <= set(peewit.__all__)
    assert peewit.sparsify is sparsify_call.sparsify


@pytest.mark.usefixtures("processes")
def test_importing_loads_the_standard_library_alone() -> None:
    code = (
        "import sys; before = set(sys.modules); import peewit; "
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert set(done.stdout.split()) <= {"peewit"} | sys.stdlib_module_names
