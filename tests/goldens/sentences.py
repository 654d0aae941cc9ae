"""All that the program says to people, gathered from the code and the page's files.

A sentence here is a text of the program of three words in a row or more, wherever it stands: in
an error, a notice, a help text, a description, a hint of the page. What stands in braces is filled
in when it is said; ` | ` parts what a page says in turn. ``python -m tests.goldens.sentences``
prints each with its file and line.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
_FOLDERS: Final = ("service", "streaming", "solvers")
_PAGE: Final = Path("service/dashboard")

_WORD: Final = r"(?:[A-Za-z][a-z'-]*|\{[^{}]*\}|\d[\d,.]*)"
_SENTENCE: Final = re.compile(rf"(?<![\w.<]){_WORD}(?:[,;:]? {_WORD}){{2,}}")
_PLAIN: Final = re.compile(r"(?<![\w{.'-])[a-z]{2,}(?![\w}(=])")
_CODE: Final = re.compile(r"SELECT |<\w+ |<div|: var\(|=> |^--|^[A-Z]+ (?:-|FILE)|http://\S+/v1")
_WRITTEN: Final = re.compile(r"`make generate` writes it")
_FILLED: Final = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_TAG: Final = re.compile(r"\{%-?\s*(\w+)(.*?)%\}|\{#.*?#\}", re.DOTALL)
_LITERAL: Final = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`')
_READ_OUT: Final = {"alt", "aria-label", "data-lasts", "placeholder", "title"}
_INLINE: Final = {"a", "abbr", "b", "code", "em", "i", "kbd", "small", "span", "strong", "time"}


class Sentence(NamedTuple):
    """What is said, and the file and line where it is written."""

    file: str
    line: int
    text: str


def sentences() -> Iterator[Sentence]:
    """Every sentence, by files and lines."""
    for folder in _FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            found = _of_file(path)
            name = str(path.relative_to(ROOT))
            for line, text in sorted(set(found)):
                plain = " ".join(text.split())
                if is_sentence(plain):
                    yield Sentence(name, line, plain)


def is_sentence(text: str) -> bool:
    """Whether a text is one for people."""
    has_words = len(_PLAIN.findall(text)) >= 2 and _SENTENCE.search(text) is not None
    return has_words and _CODE.search(text) is None


def page(said: Iterable[Sentence]) -> str:
    """The list: the sentences of each file below its name, each once."""
    files: dict[str, list[str]] = {}
    for each in said:
        texts = files.setdefault(each.file, [])
        if each.text not in texts:
            texts.append(each.text)
    return "\n".join(
        f"## {file}\n" + "".join(f"{text}\n" for text in texts) for file, texts in files.items()
    )


def _of_file(path: Path) -> Iterator[tuple[int, str]]:
    if path.suffix == ".py":
        text = path.read_text(encoding="utf-8")
        if not _WRITTEN.search(text):
            yield from _of_code(text)
    elif path.suffix == ".html":
        yield from _of_template(path.read_text(encoding="utf-8"))
    elif path.suffix == ".js" and not path.name.endswith(".min.js"):
        yield from _literals(path.read_text(encoding="utf-8"))


def _of_code(source: str) -> Iterator[tuple[int, str]]:
    """Texts of a module, whole where they are put together; of docstrings those that are shown."""
    before = list(accumulate(('"' in line for line in source.splitlines()), initial=0))

    def below(node: ast.AST) -> Iterator[tuple[int, str]]:
        if isinstance(node, ast.stmt):
            if before[node.end_lineno or node.lineno] == before[node.lineno - 1]:
                return  # no line of it holds a text, as most do not
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.decorator_list:
                yield from _shown_docstring(node)
        if isinstance(node, ast.expr) and (text := _text(node)) is not None:
            yield node.lineno, text
            for each in ast.walk(node):
                if isinstance(each, ast.FormattedValue):
                    yield from below(each.value)
            return
        for child in ast.iter_child_nodes(node):
            if not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):
                yield from below(child)

    yield from below(ast.parse(source))


def _shown_docstring(node: ast.FunctionDef | ast.ClassDef) -> Iterator[tuple[int, str]]:
    """That of an operation, a command or a record, which help and reference show."""
    marks = {ast.unparse(each).partition("(")[0].rpartition(".")[2] for each in node.decorator_list}
    if marks & {"operation", "command", "record"}:
        said, _, _ = (ast.get_docstring(node) or "").partition("\n\nParameters")
        yield node.lineno, said


def _text(node: ast.expr) -> str | None:
    """What a literal, or a sum of such, says; None of other expressions."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(
            _filled(each.value) if isinstance(each, ast.FormattedValue) else _text(each) or ""
            for each in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = [_text(side) for side in (node.left, node.right)]
        if any(side is not None for side in sides):
            return "".join(
                _filled(side) if text is None else text
                for side, text in zip((node.left, node.right), sides, strict=True)
            )
    return None


def _filled(value: ast.expr) -> str:
    """The name of what is filled in: the last of the names that it is made of."""
    names = re.findall(r"[A-Za-z_]\w*", ast.unparse(value))
    return "{" + (names[0] if len(names) == 1 else _last_name(value)) + "}"


def _last_name(value: ast.expr) -> str:
    if isinstance(value, ast.Attribute):
        return value.attr
    if isinstance(value, ast.Name):
        return value.id
    if isinstance(value, ast.Call) and value.args:
        return _last_name(value.args[0])
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
        return str(value.slice.value)
    return "…"


def _of_template(text: str) -> Iterator[tuple[int, str]]:
    """What a template says: its text by blocks, its attributes, and literals of its tags."""
    for tag in [*_TAG.finditer(text), *_FILLED.finditer(text)]:
        first = text.count("\n", 0, tag.start()) + 1
        for _, said in _literals(tag[0]):
            yield first, said
    reader = _Blocks(convert_charrefs=True)
    plain = _FILLED.sub(lambda found: "{" + _filled_name(found[1]) + "}", text)
    reader.feed(_TAG.sub(lambda found: " | " if found[1] in {"else", "elif"} else "", plain))
    reader.close()
    yield from reader.found


def _filled_name(expression: str) -> str:
    """The last name of what a template fills in, before its filters."""
    names = re.findall(r"\w+", expression.partition("|")[0].replace('"', ""))
    return names[-1] if names else "…"


def _literals(text: str) -> Iterator[tuple[int, str]]:
    for found in _LITERAL.finditer(text):
        said = re.sub(r"\$\{[^{}]*\}", "{…}", found[1] or found[2] or "")
        yield text.count("\n", 0, found.start()) + 1, said


class _Blocks(HTMLParser):
    """The texts of the blocks of a page, and of attributes."""

    def __init__(self, *, convert_charrefs: bool) -> None:
        super().__init__(convert_charrefs=convert_charrefs)
        self.found: list[tuple[int, str]] = []
        self._line, self._block = 0, ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        line, _ = self.getpos()
        self.found += [(line, value) for name, value in attrs if value and name in _READ_OUT]
        self._end(tag)

    def handle_endtag(self, tag: str) -> None:
        self._end(tag)

    def handle_data(self, data: str) -> None:
        self._line = self._line or self.getpos()[0]
        self._block += data

    def close(self) -> None:
        super().close()
        self._end("")

    def _end(self, tag: str) -> None:
        if tag not in _INLINE:
            self.found.append((self._line, self._block))
            self._line, self._block = 0, ""


if __name__ == "__main__":
    sys.stdout.writelines(f"{each.file}:{each.line}: {each.text}\n" for each in sentences())
