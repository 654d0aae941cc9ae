"""Givers: origin and annotator of each label, where columns of its table say so.

Exports have these columns, so that labels which are put again are judged as before. A column of
such a name that holds neither text nor whole numbers, or stands twice, means something else and is
ignored.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from peewit.streaming.edges.bad_table import BadUpload, excerpt

ORIGIN: Final = "origin"
ANNOTATOR: Final = "annotator"
GIVER_COLUMNS: Final = (ORIGIN, ANNOTATOR)
"""Names of the columns."""

TIME: Final = "time"
"""Usual name of the column of times, by which the last of several labels may be the latest."""

LABEL_TIME: Final = "label_time"
"""What a graph's settings call the column of times of labels, beside that of edges."""

KEY: Final = "key"
"""A column of exports that is not read: the key of a label is that of whoever puts it."""

_TEXT: Final = (pa.string(), pa.large_string(), pa.string_view())


class Giver(NamedTuple):
    """Origin and annotator of one label, as the row has them; empty where it has none."""

    origin: str = ""
    annotator: str = ""


def left_to_rows(*, origin: str | None, annotator: str | None) -> tuple[str, ...]:
    """The giver columns to read: those without one value for all rows."""
    said = {ORIGIN: origin, ANNOTATOR: annotator}
    return tuple(name for name in GIVER_COLUMNS if said[name] is None)


def giver_columns(schema: pa.Schema, names: Sequence[str]) -> list[str]:
    """Those of some columns that a table has, of usual ones with a type that givers can have."""
    return [
        name
        for name in names
        if schema.names.count(name) == 1
        and (name not in GIVER_COLUMNS or _can_say(schema.field(name).type))
    ]


def require_giver(column: pa.Array, name: str, giver: str) -> None:
    """Raise `BadUpload` where a column that somebody has named has no type of givers."""
    if not _can_say(column.type):
        rule = f"column {name!r} must hold text or whole numbers, got type {excerpt(column.type)}"
        raise BadUpload(rule, argument=f"{giver}_column")


def read_givers(
    columns: Mapping[str, Sequence[Any]], n_rows: int, seen: dict[Giver, Giver]
) -> list[Giver]:
    """Giver of each row, from the giver columns that there are.

    Equal givers are one object, which ``seen`` keeps for later rows of the table.
    """
    nothing = [None] * n_rows
    cells = zip(columns.get(ORIGIN, nothing), columns.get(ANNOTATOR, nothing), strict=True)
    givers = (Giver(_text(origin), _text(annotator)) for origin, annotator in cells)
    return [seen.setdefault(giver, giver) for giver in givers]


def _can_say(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return kind in _TEXT or pa.types.is_integer(kind) or pa.types.is_null(kind)


def _text(cell: object) -> str:
    return "" if cell is None else str(cell).strip()
