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


def resource(tag: str, prefix: str) -> APIRouter:
    """A router for one resource; any of its routes may answer with a problem."""
    return APIRouter(prefix=prefix, tags=[tag], responses=any_problem())
