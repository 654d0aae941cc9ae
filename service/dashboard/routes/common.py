"""Parts that several pages share."""

from typing import Annotated

from fastapi import Query

from peewit.service.labels.store import LabelStore
from peewit.service.tables.uploads import LabelValue

PAGE_ROWS = 50
"""Rows of one page of a table."""

_LOOKED_AT = 20

Seen = Annotated[str, Query(max_length=64, description="What the page shows already.")]


def label_of(text: str, labels: LabelStore, graph_id: str) -> LabelValue:
    """A label as it was typed, of the type that the last labels of the graph have.

    Where they are numbers, or there are none yet, what reads as a number is one.
    """
    kinds = {type(each.label) for each in labels.page(graph_id, limit=_LOOKED_AT)}
    if kinds <= {int, float}:
        for kind in (int, float) if float in kinds else (int,):
            try:
                return kind(text)
            except ValueError:
                continue
    return text
