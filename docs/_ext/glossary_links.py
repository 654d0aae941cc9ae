"""Links to the glossary: on every page the first use of each of its terms is one."""

import re
from pathlib import Path
from typing import Any, Final

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

GLOSSARY: Final = "reference/glossary"

BLOCK: Final = re.compile(r"^```\{glossary\}\n(.*?)^```$", re.DOTALL | re.MULTILINE)

EVERYDAY: Final = frozenset(
    {
        *("arrival", "attempt", "auto", "block", "bucket", "buffer", "card", "coin", "component"),
        *("home", "key", "lane", "map", "part", "probe", "push", "refine", "room", "source"),
        *("surplus", "tune", "window"),
    }
)
"""Terms that are words of every day as well, which a text may mean."""

NOT_IN: Final = (
    *(addnodes.desc, addnodes.pending_xref, nodes.FixedTextElement, nodes.emphasis, nodes.literal),
    *(nodes.math, nodes.math_block, nodes.raw, nodes.reference, nodes.table, nodes.title),
)
"""Where a word is no link: it is one already, stands for itself, names a page, or is a head."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Link terms when pages are read."""
    app.add_transform(GlossaryLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def terms(glossary: str) -> list[str]:
    """Terms that the source of the page of the glossary explains."""
    lines = "\n".join(BLOCK.findall(glossary)).splitlines()
    return [line for line in lines if line and not line.startswith((" ", ":"))]


def linked(known: list[str]) -> re.Pattern[str]:
    """Finds terms in a text, in the singular or plural; longer ones first."""
    longest_first = sorted(set(known) - EVERYDAY, key=len, reverse=True)
    words = "|".join(re.escape(term) for term in longest_first)
    return re.compile(rf"(?<![\w-])({words})(?:e?s)?(?![\w-])", re.IGNORECASE)


class GlossaryLinks(SphinxTransform):
    """Makes the first use of each term in the text of a page a link to the glossary."""

    default_priority = 820  # after those that make links

    def apply(self, **further: Any) -> None:
        """Link the terms of one page."""
        del further
        page = Path(self.env.doc2path(GLOSSARY))
        self.env.note_dependency(str(page))
        if self.env.docname == GLOSSARY:
            return
        known = terms(page.read_text(encoding="utf-8"))
        by_name = {term.lower(): term for term in known}
        pattern, seen = linked(known), set()
        for text in list(self.document.findall(nodes.Text)):
            if _is_plain(text):
                pieces = _pieces(text.astext(), pattern, by_name, seen, self.env.docname)
                if len(pieces) > 1:
                    text.parent.replace(text, pieces)


def _is_plain(text: nodes.Text) -> bool:
    node: Any = text.parent
    while node is not None:
        if isinstance(node, NOT_IN):
            return False
        node = node.parent
    return True


def _pieces(
    text: str, pattern: re.Pattern[str], by_name: dict[str, str], seen: set[str], page: str
) -> list[nodes.Node]:
    """The text with a link in place of each term that is not seen before."""
    pieces: list[nodes.Node] = []
    end = 0
    for found in pattern.finditer(text):
        term = by_name[found[1].lower()]
        if term in seen:
            continue
        seen.add(term)
        link = addnodes.pending_xref(
            "", refdomain="std", reftype="term", reftarget=term, refexplicit=True, refdoc=page
        )
        link += nodes.inline("", found[0], classes=["xref", "std", "std-term"])
        pieces += [nodes.Text(text[end : found.start()]), link]
        end = found.end()
    return [*pieces, nodes.Text(text[end:])]
