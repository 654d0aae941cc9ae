"""Routers of resources, which refuse query parameters that no route of theirs has."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, get_args, get_origin

from fastapi import APIRouter, Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from peewit.service.api.errors import any_problem, problems
from peewit.service.problems import InvalidArgument

_SEVERAL: Final = {list, tuple, set, Sequence}


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

    Also one that stands twice, of which the last would count.
    """
    if not request.url.query:
        return
    route: APIRoute = request.scope["route"]
    known = dict(_named_in(route.dependant))
    for name in request.query_params:
        if name in known and not known[name] and len(request.query_params.getlist(name)) > 1:
            values = " and ".join(each[:80] for each in request.query_params.getlist(name)[:2])
            raise InvalidArgument(
                f"{name} must stand once in a query, got {values}", argument=name[:80]
            )
        if name not in known:
            takes = f"one of {', '.join(sorted(known))}" if known else "left out"
            raise InvalidArgument(
                f"parameters of this query must be {takes}, got {name[:80]!r}", argument=name[:80]
            )


def _named_in(dependant: Dependant) -> Iterator[tuple[str, bool]]:
    """Parameters of a query, and whether each may stand several times."""
    for field in dependant.query_params:
        yield field.alias, _takes_several(field.field_info.annotation)
    for each in dependant.dependencies:
        yield from _named_in(each)


def _takes_several(annotation: Any) -> bool:
    return get_origin(annotation) in _SEVERAL or any(map(_takes_several, get_args(annotation)))
