"""HTML of graphs and tables for notebooks: a few facts, bars and rows.

All text is escaped. Colors are the notebook's own, so light and dark themes both fit. It needs the
standard library alone, as the client's records use it, too.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

SHOWN_ROWS: Final = 10
"""Rows shown of a table."""

_LONGEST: Final = 60
_BAR: Final = "width:16em;max-width:60%;vertical-align:middle"
_CELL: Final = "padding:.1em .8em;border-bottom:1px solid rgba(128,128,128,.35);text-align:left"


def shown(
    title: str,
    facts: Mapping[str, Any],
    columns: Mapping[str, Sequence[Any]] | None = None,
    n_rows: int = 0,
    *,
    bars: Mapping[str, int] | None = None,
    bars_of: str = "",
) -> str:
    """HTML of a title, facts (None is left out), bars, and the first rows of a table.

    ``columns`` hold equally many values, the rows to show; ``n_rows`` is the number in all.
    ``bars`` are counts by name, and ``bars_of`` says what is counted.
    """
    known = {name: value for name, value in facts.items() if value is not None}
    listed = " · ".join(f"{escape(name)} <b>{_text(value)}</b>" for name, value in known.items())
    parts = [f"<div><b>{escape(title)}</b> {listed}</div>"]
    if bars:
        parts.append(_bars(bars, bars_of))
    if columns:
        parts.append(_table(columns))
        n_shown = len(next(iter(columns.values())))
        if n_rows > n_shown:
            parts.append(f"<div>{n_shown:,} of {n_rows:,} rows</div>")
    return f'<div style="color:inherit;line-height:1.5">{"".join(parts)}</div>'


def progress(done: float | None, label: str) -> str:
    """An element that shows which part of the whole is done; None where that is not known."""
    value = "" if done is None else f' value="{done:.3f}"'
    return f'<progress max="1"{value} aria-label="{escape(label)}" style="{_BAR}"></progress>'


def _bars(counts: Mapping[str, int], title: str) -> str:
    """A bar for each count, the others in one where there are many, and what they count."""
    ranked = list(counts.items())
    if len(ranked) > SHOWN_ROWS:
        rest = sum(count for _, count in ranked[SHOWN_ROWS - 1 :])
        ranked = [*ranked[: SHOWN_ROWS - 1], (f"{len(ranked) - SHOWN_ROWS + 1} more", rest)]
    most = max(count for _, count in ranked) or 1
    return f"<div>{escape(title)}</div>" + _rows(
        (_text(name), progress(count / most, name), _text(count)) for name, count in ranked
    )


def _rows(rows: Iterable[Iterable[str]], head: str = "") -> str:
    """A table of cells that are HTML already."""
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    style = "border-collapse:collapse;background:transparent;color:inherit"
    return (
        f'<div style="overflow-x:auto"><table style="{style}">{head}<tbody>{body}</tbody></table>'
        "</div>"
    )


def _table(columns: Mapping[str, Sequence[Any]]) -> str:
    head = "".join(f'<th scope="col" style="{_CELL}">{escape(name)}</th>' for name in columns)
    rows = zip(*columns.values(), strict=True)
    return _rows((map(_text, row) for row in rows), f"<thead><tr>{head}</tr></thead>")


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
