"""Nothing unpickles what could come from outside."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNPICKLING = {"pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}


def faults(text: str) -> list[int]:
    """Lines that import what unpickles, or allow numpy to."""
    if not any(name in text for name in (*UNPICKLING, "allow_pickle")):
        return []
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {(node.module or "").partition(".")[0]}
        else:
            names = set()
        if names & UNPICKLING:
            found.append(node.lineno)
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            is_off = isinstance(node.value, ast.Constant) and node.value.value is False
            if not is_off:
                found.append(node.lineno)
    return found


@pytest.mark.parametrize(
    "line", ["import pickle", "from joblib import load", "np.load(p, allow_pickle=True)"]
)
def test_the_search_finds_what_it_is_for(line: str) -> None:
    assert faults(line) == [1]


def test_no_module_unpickles_files() -> None:
    modules = [
        path for name in ("service", "streaming", "solvers") for path in (ROOT / name).rglob("*.py")
    ]
    told = {
        str(path.relative_to(ROOT)): lines
        for path in modules
        if (lines := faults(path.read_text()))
    }
    assert len(modules) > 100
    assert told == {}
