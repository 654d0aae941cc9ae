"""The statements of the project's own code, each file parsed once."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def syntax_tree(path: Path) -> ast.Module:
    """What a file says."""
    return ast.parse(path.read_text("utf-8"))


@cache
def import_statements(path: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """Every import of a file, wherever it stands."""
    found = _statements(syntax_tree(path))
    return tuple(each for each in found if isinstance(each, ast.Import | ast.ImportFrom))


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """All statements below a node; expressions, of which there are ten times as many, hold none."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        below = getattr(node, name, None)
        for each in below if isinstance(below, list) else ():
            if isinstance(each, ast.stmt):
                yield each
            yield from _statements(each)
