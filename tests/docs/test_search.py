"""What people look for in the pages leads to the page that tells of it."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
INDEX = re.compile(r"^```\{index\} (.+)$", re.MULTILINE)


def pages_of(word: str) -> list[str]:
    """Pages whose entries, which the search puts first, are this word."""
    return [
        path.relative_to(DOCS).as_posix()
        for path in sorted(DOCS.rglob("*.md"))
        for entries in INDEX.findall(path.read_text(encoding="utf-8"))
        if word in entries.split(", ")
    ]


@pytest.mark.parametrize(
    ("word", "page", "told"),
    [
        ("edge types", "how-to/relations.md", "kind of edges"),
        ("directed", "how-to/relations.md", "Who sends"),
        ("fraud", "tutorials/accounts.md", "frauds"),
        ("pandas", "how-to/other-libraries.md", "to_pandas()"),
        ("new node", "how-to/models-of-features.md", "New points"),
        ("confidence", "how-to/sets-and-probabilities.md", "chance"),
    ],
)
def test_a_word_of_the_search_names_the_page_that_tells_of_it(
    word: str, page: str, told: str
) -> None:
    assert pages_of(word) == [page]
    assert told in (DOCS / page).read_text(encoding="utf-8")
