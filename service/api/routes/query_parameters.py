"""Query parameters that several resources have."""

from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from peewit.service.api.auth import Caller
from peewit.service.api.errors import any_problem, problems
from peewit.service.jobs.job import MAX_KEY_LENGTH
from peewit.service.labels.annotators import annotator_name
from peewit.service.problems import InvalidArgument

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
OpColumn = Annotated[
    str | None, Query(description="Column that says insert, delete or set; the graph's otherwise.")
]
TimeColumn = Annotated[
    str | None, Query(description="Column of the time, in graphs with a window by time.")
]
NodeColumn = Annotated[str | None, Query(description="Column of the node; the graph's otherwise.")]
ColumnOfLabels = Annotated[str | None, Query(description="Column of the label.")]

NamedColumn = Annotated[
    str | None,
    Query(
        alias="label_column",
        min_length=1,
        description="A named column of labels; the one without a name otherwise.",
    ),
]
NamedColumns = Annotated[
    list[str] | None,
    Query(
        alias="label_column",
        description="Named columns of labels, each a column of the table; may be given several "
        "times. Cells without a value say nothing.",
    ),
]

AnnotatorName = Annotated[
    str | None,
    Query(
        description="Who has given the labels, where a tool brings those of others; the name of "
        "the key otherwise."
    ),
]


def given_by(caller: Caller, name: str | None) -> str | None:
    """Who gives the labels of a call."""
    return caller.annotator if name is None else annotator_name(name)


def named(**columns: str | None) -> dict[str, str]:
    """Names of columns that a request gives."""
    return {name: column for name, column in columns.items() if column is not None}


def resource(tag: str, prefix: str) -> APIRouter:
    """A router for one resource; any of its routes may answer with a problem."""
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        responses=any_problem() | problems(InvalidArgument),
        dependencies=[Depends(require_known_parameters)],
    )


def require_known_parameters(request: Request) -> None:
    """Refuse a query with a parameter that does nothing: it may be a known one, misspelled.

    Raises
    ------
    InvalidArgument
        There is one.
    """
    if not request.url.query:
        return
    route: APIRoute = request.scope["route"]
    known = set(_named_in(route.dependant))
    for name in request.query_params:
        if name not in known:
            takes = f"one of {', '.join(sorted(known))}" if known else "left out"
            raise InvalidArgument(
                f"parameters of this query must be {takes}, got {name[:80]!r}", argument=name[:80]
            )


def _named_in(dependant: Dependant) -> Iterator[str]:
    yield from (each.alias for each in dependant.query_params)
    for each in dependant.dependencies:
        yield from _named_in(each)
