"""Parts that several pages share."""

from typing import Annotated

from fastapi import Query

from peewit.service.labels.store import LabelStore
from peewit.service.tables.uploads import LabelValue
from peewit.service.tables.uploads.labels import MAX_COLUMN_BYTES

PAGE_ROWS = 50
"""Rows of one page of a table."""

Seen = Annotated[str, Query(max_length=64, description="What the page shows already.")]


Column = Annotated[
    str, Query(alias="label_column", max_length=MAX_COLUMN_BYTES, description="Empty: the unnamed.")
]


def label_of(text: str, labels: LabelStore, graph_id: str, column: str = "") -> LabelValue:
    """A label as it was typed, of the kind that the labels of the column have.

    Where there are none yet, what reads as a whole number is one.
    """
    are_text = labels.are_text(graph_id, column=column)
    if not are_text:
        for kind in (int,) if are_text is None else (int, float):
            try:
                return kind(text)
            except ValueError:
                continue
    return text
