"""Errors as RFC 9457 problems, and what FastAPI and SQLAlchemy raise in place of ours.

Stores and routes raise a `Problem`, whose class carries its status and title. What is none, and not
among the foreign ones here, is a fault of ours: 500, without details.
"""

import json
import math
from asyncio import CancelledError
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DataError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from peewit.service.api.schemas import bodies_and_problems as schemas
from peewit.service.api.throttling import TooBusy
from peewit.service.database.disk_full_errors import is_disk_full
from peewit.service.problems import (
    RETRY_SECONDS,
    DatabaseAway,
    InvalidArgument,
    details_of,
    type_of,
)
from peewit.service.tasks.kind_list import KINDS
from peewit.service.validation_rules import rule_of, with_argument
from peewit.streaming.problems import Problem

MEDIA_TYPE: Final = "application/problem+json"

_FOREIGN: Final = (
    RequestValidationError,
    DataError,
    OperationalError,
    PoolTimeoutError,
    ClientDisconnect,
    HTTPException,
    OSError,
)
_RETRY: Final = {"Retry-After": str(RETRY_SECONDS)}
_MAX_SHOWN: Final = 200

_log = structlog.get_logger(__name__)


def install(app: FastAPI) -> None:
    """Have every error of an application answered with a problem."""
    for kind in (Problem, *_FOREIGN):
        app.add_exception_handler(kind, known_error)


def known_error(request: Request, error: Exception) -> Response:
    """The problem of an exception; raises it again where it is a fault of ours."""
    answer = answer_of(request, error)
    if answer is None:
        raise error
    return answer


def answer_of(request: Request, error: Exception) -> Response | None:
    """The problem that an exception of a route leads to; None for a fault of ours."""
    path = request.url.path
    if is_disk_full(error):
        _log.error("disk full", path=path, error=str(error))
        detail = "the disk of the server is full and nothing was stored; try again once it has room"
        return _respond(request, HTTPStatus.INSUFFICIENT_STORAGE, "Disk full", detail, _RETRY)
    match error:
        case Problem():
            if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(error, TooBusy):
                _log.error(error.title.lower(), path=path, exc_info=error)
            return _answer(request, error)
        case RequestValidationError():
            return _answer(request, _BrokenRules(error))
        case DataError():  # a NUL, which PostgreSQL has no room for in text
            rule = "every argument must be text that the database can hold"
            return _answer(request, InvalidArgument(rule))
        case OperationalError() | PoolTimeoutError():
            # Every request meets it while the database is away, so that one line must do.
            cause = " ".join(str(getattr(error, "orig", error)).split())
            _log.warning(DatabaseAway.title.lower(), path=path, error=cause)
            away = DatabaseAway("the database does not answer; try again in a moment")
            return _answer(request, away)
        case ClientDisconnect():
            return _respond(request, HTTPStatus.BAD_REQUEST, "Body broke off", str(error))
        case HTTPException():
            return _of_framework(request, error)
        case _:
            return None


def unhandled(request: Request, error: BaseException) -> Response:
    """The answer to a fault of ours; who asks for it has logged the exception."""
    if isinstance(error, CancelledError):
        detail = "the server stops and could not wait for the request; send it again"
        status = HTTPStatus.SERVICE_UNAVAILABLE
        return _respond(request, status, "Server stops", detail, _RETRY)
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    return _respond(request, status, "Internal error", "the server failed; its log says why")


def problems(*kinds: type[Problem]) -> dict[int | str, dict[str, Any]]:
    """What OpenAPI says of some errors of a route, for ``responses``."""
    titles: dict[int, list[str]] = {}
    for kind in kinds:
        titles.setdefault(kind.status, []).append(kind.title)
    return {status: _response(" · ".join(dict.fromkeys(each))) for status, each in titles.items()}


def any_problem() -> dict[int | str, dict[str, Any]]:
    """The same for those that any route may have."""
    return {"default": _response("An error, as RFC 9457 says")}


def _response(description: str) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{schemas.Problem.__name__}"}
    return {"description": description, "content": {MEDIA_TYPE: {"schema": schema}}}


def _of_framework(request: Request, error: HTTPException) -> Response:
    """Unknown paths and methods; and what FastAPI wraps while it reads a body."""
    cause = error.__cause__
    if isinstance(cause, Exception) and (answer := answer_of(request, cause)):
        return answer
    status = HTTPStatus(error.status_code)
    if status is HTTPStatus.BAD_REQUEST:  # FastAPI's word for bytes that are no text
        return _answer(request, InvalidArgument("the body must be JSON in UTF-8"))
    headers = dict(error.headers or {})
    if status is HTTPStatus.NOT_FOUND and error.detail == status.phrase:
        detail = f"nothing is at {request.url.path}; /docs shows what there is"
    elif status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_methods_of(request))
        detail = f"{request.url.path} takes {headers['Allow']}, got {request.method}"
    else:
        detail = str(error.detail)
    return _respond(request, status, status.phrase, detail, headers)


def _methods_of(request: Request) -> list[str]:
    """All methods that the path takes; a route knows its own only."""
    routes = request.app.routes
    return [
        method
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes
        )
    ]


def _answer(request: Request, problem: Problem) -> Response:
    retry = problem.retry_seconds
    later = {} if retry is None else {"Retry-After": str(math.ceil(retry))}
    headers = {**problem.problem_headers, **later}
    return _respond(request, problem.status, problem.title, details_of(problem), headers)


def _respond(
    request: Request,
    status: int,
    title: str,
    details: str | Mapping[str, Any],
    headers: Mapping[str, str] | None = None,
) -> Response:
    known = {"type": type_of(title), "title": title, "status": int(status)}
    fields = {"detail": details} if isinstance(details, str) else details
    body = {**known, **fields, "request_id": request.state.request_id}
    return Response(
        # The standard library, since a value may be half of a surrogate pair, which orjson refuses.
        json.dumps({name: value for name, value in body.items() if value is not None}),
        status_code=int(status),
        media_type=MEDIA_TYPE,
        headers=headers,
    )


class _BrokenRules(InvalidArgument):
    """The first rule that is broken, and all of them in ``errors``."""

    def __init__(self, error: RequestValidationError) -> None:
        self._broken = [_broken_rule(each) for each in error.errors()]
        first = self._broken[0]
        received = "" if "value" not in first else f", got {first['value']}"
        has_received = received and received in first["rule"]
        detail = with_argument(first["argument"] or "", first["rule"])
        super().__init__(detail if has_received else detail + received)

    @property
    def problem_members(self) -> Mapping[str, Any]:
        return {**self._broken[0], "errors": self._broken if len(self._broken) > 1 else None}


def _broken_rule(error: Mapping[str, Any]) -> dict[str, Any]:
    rule = rule_of(error)
    location = tuple(error["loc"])
    if location[:1] == ("body",) and location[1:2] and location[1] in KINDS:
        location = ("body", *location[2:])  # which kind of job the body was taken for
    if error["type"] == "kind":
        location = (*location, "kind")
    if location == ("body",) and error["type"].endswith("_type"):
        rule = "the body must be a JSON object, with Content-Type: application/json"
    if error["type"] == "json_invalid":
        rule = f"the body must be JSON ({error['ctx']['error']}, at character {location[1]})"
        location = ("body",)
    # The first part says where the argument stands: body, query, path or header.
    place = ".".join(str(part) for part in location[1:])
    argument = schemas.argument_of(error.get("ctx", {}).get("error")) or place or None
    broken: dict[str, Any] = {"argument": argument, "rule": rule}
    if isinstance(error["input"], str | int | float):
        broken["value"] = str(error["input"])[:_MAX_SHOWN]
    return broken
