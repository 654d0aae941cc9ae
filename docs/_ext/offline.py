"""Pages that need no other host: formulas are MathML, which browsers draw by themselves."""

import re
from html import escape
from pathlib import Path
from typing import Any, Final

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

LOADED: Final = re.compile(
    r"""<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=["'](?:https?:)?//"""
    r"""|<link\b(?![^>]*\brel=["']canonical)[^>]*\bhref=["'](?:https?:)?//"""
    r"""|@import\s+(?:url\()?["']?(?:https?:)?//|url\(["']?(?:https?:)?//"""
)

SPELLED_OTHERWISE: Final = (
    (re.compile(r"\\([bB]igg?)(?=[(\[]|\\[{l])"), r"\\\1l"),
    (re.compile(r"\\([bB]igg?)(?=[)\]]|\\[}r])"), r"\\\1r"),
    (re.compile(r"\\dots\b"), r"\\ldots"),
    (re.compile(r"\\mathrel\b"), ""),
)
"""Commands of LaTeX that docutils does not know, and how it knows them."""

_log = logging.getLogger(__name__)


def setup(app: Sphinx) -> dict[str, Any]:
    """Draw formulas as MathML and look at what was built."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def inline(translator: Any, node: nodes.math) -> None:
    """A formula in a line."""
    translator.body.append(mathml(node, as_block=False))
    raise nodes.SkipNode


def block(translator: Any, node: nodes.math_block) -> None:
    """A formula on lines of its own, with its number where it has one."""
    translator.body.append(
        translator.starttag(node, "div", CLASS="math", STYLE="overflow: auto hidden")
    )
    if node["number"]:
        translator.body.append(f'<span class="eqno">({node["number"]})</span>')
    translator.body.append(mathml(node, as_block=True) + "</div>\n")
    raise nodes.SkipNode


def mathml(node: nodes.Element, *, as_block: bool) -> str:
    """The formula; one that cannot be read is a warning and stays as it was written."""
    formula = node.astext()
    for command, known in SPELLED_OTHERWISE:
        formula = command.sub(known, formula)
    try:
        found: str = tex2mathml(formula, as_block=as_block)
    except MathError as error:
        _log.warning("formula: %s", error, location=node)
        return f"<code>{escape(node.astext())}</code>"
    if as_block:
        return found
    return re.sub(r"<mo>([{}])</mo>", r'<mo stretchy="false">\1</mo>', found)


def check(app: Sphinx, error: Exception | None) -> None:
    """Warn of every page or style that loads something of another host."""
    if error is None and app.builder.format == "html":
        for path in sorted(Path(app.outdir).rglob("*")):
            if path.suffix in {".html", ".css"} and (
                found := LOADED.search(path.read_text(encoding="utf-8"))
            ):
                _log.warning("%s loads from another host: %s", path, found[0])
