"""HTML of graphs and tables for notebooks: a few facts and rows.

All text is escaped. Colors are the notebook's own, so light and dark themes both fit. It needs the
standard library alone, as the client's records use it, too.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

SHOWN_ROWS: Final = 10
"""Rows shown of a table."""

_LONGEST: Final = 60
_CELL: Final = "padding:.1em .8em;border-bottom:1px solid rgba(128,128,128,.35);text-align:left"


def shown(
    title: str,
    facts: Mapping[str, Any],
    columns: Mapping[str, Sequence[Any]] | None = None,
    n_rows: int = 0,
) -> str:
    """HTML of a title, facts (None is left out), and the first rows of a table.

    ``columns`` hold equally many values, the rows to show; ``n_rows`` is the number in all.
    """
    known = {name: value for name, value in facts.items() if value is not None}
    listed = " · ".join(f"{escape(name)} <b>{_text(value)}</b>" for name, value in known.items())
    parts = [f"<div><b>{escape(title)}</b> {listed}</div>"]
    if columns:
        parts.append(_table(columns))
        n_shown = len(next(iter(columns.values())))
        if n_rows > n_shown:
            parts.append(f"<div>{n_shown:,} of {n_rows:,} rows</div>")
    return f'<div style="color:inherit;line-height:1.5">{"".join(parts)}</div>'


def _table(columns: Mapping[str, Sequence[Any]]) -> str:
    head = "".join(f'<th scope="col" style="{_CELL}">{escape(name)}</th>' for name in columns)
    rows = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{_text(value)}</td>' for value in row) + "</tr>"
        for row in zip(*columns.values(), strict=True)
    )
    style = "border-collapse:collapse;background:transparent;color:inherit"
    return (
        f'<div style="overflow-x:auto"><table style="{style}">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _text(value: Any) -> str:
    """A value for people, escaped and shortened."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        text = f"{value:,}"
    elif isinstance(value, float):
        text = f"{value:.4g}"
    else:
        text = str(value)
    return escape(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")
