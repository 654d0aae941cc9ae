"""Givers: origin and annotator of each label, where columns of its table say so.

Exports have these columns, so that labels which are put again are judged as before. A column of
such a name that holds neither text nor whole numbers, or stands twice, means something else and is
ignored.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from peewit.streaming.edges.bad_table import BadUpload, excerpt
from peewit.streaming.edges.column_mapping import bare_name

ORIGIN: Final = "origin"
ANNOTATOR: Final = "annotator"
GIVER_COLUMNS: Final = (ORIGIN, ANNOTATOR)
"""Names of the columns."""

TIME: Final = "time"
"""Usual name of the column of times, by which the last of several labels may be the latest."""

LABEL_TIME: Final = "label_time"
"""What a graph's settings call the column of times of labels, beside that of edges."""

USUAL_NAMES: Final[Mapping[str, Sequence[str]]] = {
    ORIGIN: (ORIGIN,),
    ANNOTATOR: (
        *(ANNOTATOR, "annotator_id", "annotated_by", "labeler", "labeller", "labeled_by"),
        *("labelled_by", "rater", "rater_id", "worker", "worker_id"),
    ),
    TIME: (
        *(TIME, "timestamp", "labeled_at", "labelled_at", "annotated_at", "updated_at"),
        *("created_at", "date"),
    ),
}
"""What such columns are called, in any case of letters; of these only the first is read unsaid."""

_SAYS: Final = {
    ORIGIN: "the origin of each label",
    ANNOTATOR: "who has given each label",
    TIME: "when each label was given",
}

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


def passed_over(
    names: Sequence[str], *, wanted: Sequence[str], read: Sequence[str], taken: Sequence[str]
) -> list[str]:
    """What is to be told of columns of a table that may be those wanted, and are not read.

    ``wanted`` and ``read`` are of `USUAL_NAMES`; columns ``taken`` say something else.
    """
    told = []
    for what in wanted:
        if what in read:
            continue
        like = {bare_name(each): each for each in reversed(names) if each not in taken}
        column = next((like[each] for each in USUAL_NAMES[what] if each in like), None)
        if column in GIVER_COLUMNS:
            told.append(
                f"column {column!r} is passed over, as it holds neither text nor whole numbers"
            )
        elif column is not None:
            told.append(
                f"column {column!r} is passed over; say {what}_column={column!r} where it says "
                f"{_SAYS[what]}"
            )
    return told


def _can_say(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return kind in _TEXT or pa.types.is_integer(kind) or pa.types.is_null(kind)


def _text(cell: object) -> str:
    return "" if cell is None else str(cell).strip()
