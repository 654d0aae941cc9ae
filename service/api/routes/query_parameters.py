"""Query parameters that several resources have."""

from typing import Annotated

from fastapi import APIRouter, Header, Query

from peewit.service.api.errors import any_problem
from peewit.service.jobs.job import MAX_KEY_LENGTH

ONE_GRAPH = "/v1/graphs/{graph}"

MAX_ID = 2**63 - 1
"""Databases count no further."""

IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=MAX_KEY_LENGTH,
        description="A repeated call with this key is the first one.",
    ),
]

PageSize = Annotated[int, Query(alias="limit", ge=1, le=1000, description="Most entries.")]


SrcColumn = Annotated[str | None, Query(description="Column of one end; the graph's otherwise.")]
DstColumn = Annotated[str | None, Query(description="Column of the other end.")]
WeightColumn = Annotated[str | None, Query(description="Column of the weight.")]
NodeColumn = Annotated[str | None, Query(description="Column of the node; the graph's otherwise.")]
LabelColumn = Annotated[str | None, Query(description="Column of the label.")]


def named(**columns: str | None) -> dict[str, str]:
    """Names of columns that a request gives."""
    return {name: column for name, column in columns.items() if column is not None}


def resource(tag: str, prefix: str) -> APIRouter:
    """A router for one resource; any of its routes may answer with a problem."""
    return APIRouter(prefix=prefix, tags=[tag], responses=any_problem())
