"""The first use of a term on a page is a link to the glossary, once and in plain text alone."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("sphinx")  # of the extra docs, as docutils
nodes, utils = pytest.importorskip("docutils.nodes"), pytest.importorskip("docutils.utils")

extension = pytest.importorskip("docs._ext.glossary_links")

PAGE = Path(__file__).parents[2] / "docs" / f"{extension.GLOSSARY}.md"


def links(*parts: Any, page: str = "how-to/x") -> list[tuple[str, str]]:
    """Terms that the parts of a page are linked to, and the words that are."""
    document = utils.new_document("x")
    document += list(parts)
    document.settings.env = SimpleNamespace(
        docname=page, doc2path=lambda name: PAGE.parents[1] / f"{name}.md", note_dependency=str
    )
    extension.GlossaryLinks(document).apply()
    found = [node for node in document.findall() if node.tagname == "pending_xref"]
    return [(node["reftarget"], node.astext()) for node in found]


def test_words_of_every_day_that_are_left_out_are_terms() -> None:
    assert set(extension.terms(PAGE.read_text())) >= extension.EVERYDAY


def test_the_first_use_of_a_term_is_a_link_in_the_plural_as_well() -> None:
    text = "Snapshots keep a sparsifier; a snapshot is numbered, a live source is followed."
    assert links(nodes.paragraph("", text), nodes.paragraph("", "One more sparsifier.")) == [
        ("snapshot", "Snapshots"),
        ("sparsifier", "sparsifier"),
        ("live source", "live source"),
    ]


def test_code_titles_links_and_parts_of_words_are_left_alone() -> None:
    paragraph = nodes.paragraph("", "", nodes.literal("", "snapshot"), nodes.Text(" supermodel"))
    paragraph += nodes.reference("", "epsilon", refuri="x")
    assert links(nodes.section("", nodes.title("", "A snapshot"), paragraph)) == []


def test_the_glossary_links_to_nothing_in_itself() -> None:
    assert links(nodes.paragraph("", "A snapshot."), page=extension.GLOSSARY) == []
