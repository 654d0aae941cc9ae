"""The table of threats in the documentation names tests that there are."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def threats() -> list[list[str]]:
    """The cells of each row of the table."""
    page = (ROOT / "docs" / "explanation" / "security.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def test_there_is_a_table() -> None:
    assert len(threats()) >= 12


@pytest.mark.parametrize("threat", threats(), ids=lambda threat: threat[1][:40])
def test_every_threat_names_tests_that_exist(threat: list[str]) -> None:
    assert len(threat) == 4
    named = NAMED.findall(threat[3])
    assert named
    for path, name in named:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in {each.name for each in tree.body if isinstance(each, ast.FunctionDef)}, path
