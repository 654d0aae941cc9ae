"""Every formula and section that code, tests and pages cite stands in the page of mathematics."""

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/explanation/mathematics.md"
FOLDERS = ("service", "streaming", "solvers", "tests", "docs")

ANCHOR = re.compile(r"^\(((?:eq|sec)-[a-k]\d*p?)\)=$", re.MULTILINE)
DEFINED = re.compile(r"^\*\*\([A-K]\d+'?\)\*\*", re.MULTILINE)
FORMULA = re.compile(r"\(([A-K])([1-9]\d?)('?)\)")
SECTION = re.compile(r"\b([A-K])\.([1-9]\d?)\b|\b[Ss]ections?\s+([A-K])\b(?!\.\d)")
LINK = re.compile(r"\(#((?:eq|sec)-[a-k]\d*p?)\)")
# from Python 3.12 on the text of f-strings is a token of its own
TEXTS = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
# what a citation looks like where somebody forgot its parentheses, or put two into one pair
BARE = re.compile(
    r"(?<![\w(./-])[A-K][1-9]\d?\b(?!'?\))|\([A-K][1-9]\d?'?[,;-]|, [A-K][1-9]\d?'?\)"
)
# written so that it does not match itself
DOCUMENT = re.compile(r"\b(?:ALGO[R]ITHMS|DES[I]GN|DYN[A]MIC|ST[Y]LE|LAY[O]UT)\b")


@cache
def passages(name: str, text: str) -> list[tuple[int, str, bool]]:
    """First line, text, and whether it is prose: comments and strings of code, all of a page."""
    if not name.endswith(".py"):
        return [(1, text, False)]
    if not any(pattern.search(text) for pattern in (FORMULA, SECTION, LINK, BARE, DOCUMENT)):
        return []  # to read its tokens takes ten times as long
    return [
        (token.start[0], token.string, token.string.startswith(("#", '"""', 'r"""')))
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type in TEXTS
    ]


def cited(text: str) -> Iterator[tuple[int, str]]:
    """Where each citation begins, and the anchor that it needs."""
    for found in FORMULA.finditer(text):
        letter, number, prime = found.groups()
        yield found.start(), f"eq-{letter.lower()}{number}{'p' if prime else ''}"
    for found in SECTION.finditer(text):
        letter, number, alone = found.groups()
        yield found.start(), f"sec-{(letter or alone).lower()}{number or ''}"
    for found in LINK.finditer(text):
        yield found.start(), found[1]


def unresolved(name: str, text: str, anchors: set[str]) -> list[str]:
    """What is wrong with the citations of a file, by file and line."""
    wrong = []
    for first, passage, is_prose in passages(name, text):
        at = [(start, f"no {anchor}") for start, anchor in cited(passage) if anchor not in anchors]
        if is_prose:
            at += [(found.start(), f"bare {found[0]}") for found in BARE.finditer(passage)]
        at += [(found.start(), f"names {found[0]}") for found in DOCUMENT.finditer(passage)]
        wrong += [f"{name}:{first + passage[:start].count(chr(10))}: {what}" for start, what in at]
    return wrong


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Text of every file whose citations count."""
    paths = [ROOT / "README.md"]
    for folder in FOLDERS:
        paths += [*(ROOT / folder).rglob("*.py"), *(ROOT / folder).rglob("*.md")]
    return {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in paths}


@pytest.fixture(scope="module")
def anchors() -> set[str]:
    """Anchors of the page."""
    return set(ANCHOR.findall(PAGE.read_text("utf-8")))


def test_every_citation_has_its_anchor(texts: dict[str, str], anchors: set[str]) -> None:
    assert [each for name, text in texts.items() for each in unresolved(name, text, anchors)] == []


def test_every_formula_of_the_page_is_cited(texts: dict[str, str], anchors: set[str]) -> None:
    found = {
        anchor
        for name, text in texts.items()
        for _, passage, _ in passages(name, text)
        for _, anchor in cited(DEFINED.sub("", passage))
    }
    assert sorted(each for each in anchors if each.startswith("eq-") and each not in found) == []


def test_no_anchor_of_the_page_stands_twice() -> None:
    found = ANCHOR.findall(PAGE.read_text("utf-8"))
    assert len(found) == len(set(found))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("# by (" + "B99)", "no eq-b99"),
        ("x = 1  # see sec" + "tion J" + ".7", "no sec-j7"),
        ('"""Of section ' + 'J."""', "no sec-j"),
        ('"""The minimum (' + "B10'" + ')."""', "no eq-b10p"),
        ("# as " + "B6 has it", "bare " + "B6"),
        ("# hard or soft (" + "B6, " + "B7)", "bare (" + "B6,"),
        ('"""ALGO' + 'RITHMS, once."""', "names ALGO" + "RITHMS"),
    ],
)
def test_bad_citations_are_found(line: str, what: str) -> None:
    assert f"planted.py:3: {what}" in unresolved("planted.py", f"a = 1\n\n{line}\n", {"eq-b6"})


def test_citations_are_told_from_code_and_from_papers() -> None:
    text = "total = A1 + f(B2)  # (B6), section B.6; Saad, Algorithm 9.1, line 4; eq. (12)\n"
    assert unresolved("good.py", text, {"eq-b6", "sec-b6"}) == []
    assert (
        unresolved("page.md", "[(B6)](#eq-b6) of [section B.6](#sec-b6)", {"eq-b6", "sec-b6"}) == []
    )
