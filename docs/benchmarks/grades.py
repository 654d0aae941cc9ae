"""How many years of school does a page or a message ask for?

The grade is that of Flesch and Kincaid, by textstat, worst first. Code, links, figures, what is
filled in, and the words of the glossary count as a word of one syllable: they make a sentence
longer, and not harder. Pages of reference, the page of mathematics, code blocks, tables and
headings are left out. Grades of messages are those of whole messages of eight words or more.

textstat comes with the extra ``bench``. The program needs nothing else of it, so ``pip install
textstat==0.7.8`` into an environment of its own is enough.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import textstat

from tests.goldens.sentences import ROOT, sentences

LEFT_OUT: Final = ("docs/reference/", "docs/explanation/mathematics.md")
LEAST_WORDS: Final = 8

_GONE: Final = re.compile(r"^(```|~~~|:::).*?^\1|<!--.*?-->|\$\$.*?\$\$", re.DOTALL | re.MULTILINE)
_GONE_LINES: Final = re.compile(r"^(?:\s*\||#|\([\w-]+\)=|\s*!\[).*$", re.MULTILINE)
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_TERM: Final = re.compile(
    r"`[^`]*`|\$[^$]+\$|\{[^{}]*\}|https?://\S+|\S*[_/=]\S*|[-−]?\d[\d,.:]*\d|\d"
)
_ITEM: Final = re.compile(r"^\s*(?:[-*·]|\d+\.) ", re.MULTILINE)


def main() -> None:
    """Print the grades."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--top", type=int, default=20, help="how many of each kind, 0 for all")
    parser.add_argument("--passages", action="store_true", help="passages of pages, too")
    asked = parser.parse_args()
    known = glossary()
    pages = {str(path.relative_to(ROOT)): list(passages(path)) for path in page_files()}
    graded = [(grade("\n".join(said), known), name) for name, said in pages.items()]
    show("pages", graded, asked.top)
    if asked.passages:
        told = [
            (grade(one, known), f"{name}: {one}") for name, said in pages.items() for one in said
        ]
        show("passages", told, asked.top)
    messages = {each.text: each for each in sentences()}
    told = [
        (grade(text, known), f"{each.file}:{each.line}: {text}")
        for text, each in messages.items()
        if len(text.split()) >= LEAST_WORDS
    ]
    show("messages", told, asked.top)


def page_files() -> Iterator[Path]:
    """README and the pages that are read from beginning to end."""
    yield ROOT / "README.md"
    for path in sorted((ROOT / "docs").rglob("*.md")):
        if not str(path.relative_to(ROOT)).startswith(LEFT_OUT):
            yield path


def passages(path: Path) -> Iterator[str]:
    """The paragraphs and items of a page."""
    text = _GONE_LINES.sub("", _GONE.sub("", path.read_text(encoding="utf-8")))
    for block in re.split(r"\n\s*\n", _ITEM.sub("\n\n", text)):
        plain = " ".join(_LINK.sub(r"\1", block).split())
        if len(plain.split()) >= LEAST_WORDS:
            yield plain


def glossary() -> re.Pattern[str]:
    """What finds the words of the glossary."""
    lines = (ROOT / "docs/reference/glossary.md").read_text(encoding="utf-8").splitlines()
    terms = [line for line in lines if re.fullmatch(r"[a-zA-Z][\w ,'-]*", line)]
    words = sorted((part.strip() for term in terms for part in term.split(",")), key=len)
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, reversed(words)))})e?s?\b", re.IGNORECASE)


def grade(text: str, known: re.Pattern[str]) -> float:
    """The grade of a text, each paragraph of it ended by a stop."""
    lines = (known.sub("term", _TERM.sub("term", line)) for line in text.splitlines())
    ended = (line if line.endswith((".", "!", "?", ":")) else line + "." for line in lines)
    return float(textstat.flesch_kincaid_grade("\n".join(ended)))


def show(kind: str, graded: list[tuple[float, str]], n_shown: int) -> None:
    """The worst, and how the grades of all lie."""
    grades = sorted(value for value, _ in graded)
    middle, tenth = grades[len(grades) // 2], grades[len(grades) * 9 // 10]
    lines = [f"{len(graded)} {kind}: median {middle:.1f}, one in ten above {tenth:.1f}"]
    lines += [f"{value:6.1f}  {name}" for value, name in sorted(graded, reverse=True)]
    sys.stdout.writelines(f"{line}\n" for line in [*lines[: n_shown + 1 if n_shown else None], ""])


if __name__ == "__main__":
    main()
