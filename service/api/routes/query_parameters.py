"""Routers of resources, which refuse query parameters that no route of theirs has."""

from collections.abc import Iterator

from fastapi import APIRouter, Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from peewit.service.api.errors import any_problem, problems
from peewit.service.problems import InvalidArgument


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
