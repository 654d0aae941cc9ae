"""How many words of the glossary a first visit meets, on three screens and in a tutorial."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from peewit.service.dashboard.api_with_dashboard import create_app
from peewit.service.dashboard.help_words import PAGES, WORDS, page_of
from peewit.service.settings import Settings
from tests.service.api.conftest import Api, bring_communities, serving
from tests.service.dashboard.forms import look
from tests.service.dashboard.test_start import sent, tables

DOCS = Path(__file__).parents[3] / "docs"
GLOSSARY = (DOCS / "reference" / "glossary.md").read_text("utf-8")
MOST = 12
OTHER_FORMS = {"prediction": r"predict(?:s|ed|ing)?", "class": "classes", "epsilon": "ε"}
VOID = {"meta", "link", "input", "img", "br", "progress"}


class Visible(HTMLParser):
    """The text of a page that is read before anything is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self._open: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in VOID:
            return
        inside = any(name == "details" and "open" not in more for name, more in [(tag, given)])
        is_hidden = inside or tag in {"script", "style", "head", "noscript"} or "hidden" in given
        is_hidden = is_hidden or given.get("class") == "sr-only"
        before = self._open[-1][1] if self._open else False
        self._open.append((tag, tag != "summary" and (is_hidden or before)))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not (self._open and self._open[-1][1]):
            self.text.append(data)


def terms() -> list[str]:
    """All words of the glossary."""
    body = GLOSSARY.partition(":sorted:")[2]
    return re.findall(r"^(\S.*)$", body.replace("```", ""), re.MULTILINE)


def concepts(text: str) -> set[str]:
    """Words of the glossary in a text, in the plural, too."""
    forms = {term: OTHER_FORMS.get(term, re.escape(term)) for term in terms()}
    return {
        term
        for term, other in forms.items()
        if re.search(rf"(?<![\w-])(?:{re.escape(term)}s?|{other})(?![\w-])", text, re.IGNORECASE)
    }


def on_page(html: str) -> set[str]:
    parser = Visible()
    parser.feed(html)
    return concepts(" ".join(parser.text))


def kept_to_few(found: set[str], where: str) -> None:
    assert "graph" in found, "the count finds what is surely there"
    assert len(found) <= MOST, f"{where}: {sorted(found)}"


@pytest.fixture(scope="module")
def first(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    home = tmp_path_factory.mktemp("first")
    with serving(
        Settings(home=home, database_url=None, admin_key_file=None), create=create_app
    ) as api:
        yield api


@pytest.mark.slow
def test_a_first_visit_meets_at_most_twelve_words(first: Api) -> None:
    kept_to_few(on_page(look(first, "/")), "empty home")
    kept_to_few(on_page(look(first, "/start")), "start")
    kept_to_few(on_page(look(first, sent(first, tables()))), "files")
    kept_to_few(on_page(look(first, "/new-graph")), "new graph")
    bring_communities(first)
    first.solve("stable-hfs", cross_validate=0)
    kept_to_few(on_page(look(first, "/graphs/g")), "graph page after the first prediction")


def test_the_first_tutorial_meets_at_most_twelve_words() -> None:
    text = (DOCS / "tutorials" / "first-prediction.md").read_text("utf-8")
    kept_to_few(
        concepts(re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", " ", text, flags=re.DOTALL)), "tutorial"
    )


def test_help_says_words_as_the_glossary_does() -> None:
    assert len(WORDS) <= MOST
    glossary = " ".join(GLOSSARY.split())
    for name, text in WORDS.items():
        assert f" {name} {text}" in glossary, name


def test_every_page_leads_to_its_own_help(first: Api) -> None:
    help_page = look(first, "/help")
    for name in (*WORDS, *(f"page-{each}" for each in PAGES)):
        assert f'id="{name}"' in help_page
    assert 'href="/help#page-new-graph"' in look(first, "/new-graph")
    assert page_of("/graphs/g/edges/files/x") == "edges"
    assert page_of("/graphs/g") == "graph"
    assert page_of("/") == ""
