"""Givers: where each label of a table comes from and who gave it, where columns of it say so.

What is exported has these columns, so that labels that are put again are judged by as before.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

ORIGIN: Final = "origin"
ANNOTATOR: Final = "annotator"
GIVER_COLUMNS: Final = (ORIGIN, ANNOTATOR)
"""Names of the columns."""


class Giver(NamedTuple):
    """What one row says of where its label comes from, as it stands there; empty for nothing."""

    origin: str = ""
    annotator: str = ""


def left_to_rows(*, origin: str | None, annotator: str | None) -> tuple[str, ...]:
    """The columns to read: those of which nobody has said one value for all rows."""
    said = {ORIGIN: origin, ANNOTATOR: annotator}
    return tuple(name for name in GIVER_COLUMNS if said[name] is None)


def read_givers(columns: Mapping[str, Sequence[Any]], n_rows: int) -> list[Giver]:
    """Givers of rows, by the cells of those of `GIVER_COLUMNS` that there are.

    Equal ones are one object, however many rows there are.
    """
    nothing = [None] * n_rows
    cells = zip(columns.get(ORIGIN, nothing), columns.get(ANNOTATOR, nothing), strict=True)
    seen: dict[Giver, Giver] = {}
    givers = (Giver(_text(origin), _text(annotator)) for origin, annotator in cells)
    return [seen.setdefault(giver, giver) for giver in givers]


def _text(cell: object) -> str:
    return "" if cell is None else str(cell).strip()
