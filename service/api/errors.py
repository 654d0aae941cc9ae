"""Errors as RFC 9457 problems; the only place that knows error codes.

Stores and routes raise exceptions that say what is wrong; the table here gives code, type and title
of each class. What is not in the table is our fault: 500, without details.
"""

import json
import math
from asyncio import CancelledError
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, cast

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DataError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from peewit.service.api.auth import KeyMissing, KeyRefused, ScopeMissing
from peewit.service.api.bodies import BodyTooLarge, BodyTooSlow, BodyTypeUnknown
from peewit.service.api.readiness import NotReady
from peewit.service.api.request_middleware import HostNotOne
from peewit.service.api.schemas.bodies_and_problems import InvalidArgument, Problem, argument_of
from peewit.service.api.streams import KeyRevoked
from peewit.service.api.tables import FormatNotOffered
from peewit.service.api.throttling import TooBusy, TooManyRequests
from peewit.service.catalog import GraphExists, GraphNotFound, GraphOutdated, TooManyGraphs
from peewit.service.database.disk_full_errors import is_disk_full
from peewit.service.graph_settings import GraphConflict
from peewit.service.inbox.confinement import SourceRefused
from peewit.service.inbox.erasures import ErasureNotFound
from peewit.service.inbox.feature_log import FeatureSetNotFound
from peewit.service.inbox.horizons import HorizonRefused
from peewit.service.inbox.inbox_records import (
    FileNotListed,
    PushNotFound,
    RetractionRefused,
    SourceNotFound,
    TooManySources,
)
from peewit.service.inbox.pushes import RETRY_SECONDS, BacklogFull
from peewit.service.inbox.repairs import RepairRefused
from peewit.service.jobs.job import IdempotencyConflict, UnknownJob
from peewit.service.labels.label_entry import LabelsRefused
from peewit.service.labels.second_opinions import NoFirstOpinion
from peewit.service.labels.store import BadLabels, LabelColumnNotFound
from peewit.service.predictions.colored_maps import MapNotFound
from peewit.service.predictions.label_sets import SetsNotKept
from peewit.service.predictions.left_out import NotCrossValidated
from peewit.service.predictions.predictors import JobNotSucceeded, NotInductive
from peewit.service.predictions.reader import NodeNotFound, NodeNotPredicted
from peewit.service.predictions.reasons import ReasonsNotKept
from peewit.service.predictions.store import PredictionsNotFound
from peewit.service.predictions.suggestions import EmbeddingFailed, NoEmbedding, NoMargins
from peewit.service.problems import details_of, title_of, type_of
from peewit.service.tables.uploads import BadUpload, TableTooLarge
from peewit.service.tasks.estimate import DoesNotFit, NoSnapshot
from peewit.service.tasks.kind_list import KINDS
from peewit.service.tasks.knn import ConnectedBefore, NoFeatures
from peewit.service.validation_rules import rule_of, with_argument
from peewit.streaming.edges.blocks import BadEdges
from peewit.streaming.features.checked_tables import BadFeatures
from peewit.streaming.features.store import FeaturesNotFound
from peewit.streaming.passes.raw_edge_passes import RawEdgesMovedOn
from peewit.streaming.snapshots.store import SnapshotNotFound

MEDIA_TYPE: Final = "application/problem+json"

_log = structlog.get_logger(__name__)

_MAX_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class _Kind:
    """Code, title and type of a problem."""

    status: HTTPStatus
    title: str

    @property
    def uri(self) -> str:
        return type_of(self.title)


_STATUS: Final[dict[type[Exception], HTTPStatus]] = {
    ClientDisconnect: HTTPStatus.BAD_REQUEST,
    HostNotOne: HTTPStatus.BAD_REQUEST,
    BodyTooSlow: HTTPStatus.REQUEST_TIMEOUT,
    KeyMissing: HTTPStatus.UNAUTHORIZED,
    KeyRefused: HTTPStatus.UNAUTHORIZED,
    KeyRevoked: HTTPStatus.UNAUTHORIZED,
    ScopeMissing: HTTPStatus.FORBIDDEN,
    GraphNotFound: HTTPStatus.NOT_FOUND,
    SourceNotFound: HTTPStatus.NOT_FOUND,
    FileNotListed: HTTPStatus.NOT_FOUND,
    PushNotFound: HTTPStatus.NOT_FOUND,
    ErasureNotFound: HTTPStatus.NOT_FOUND,
    FeatureSetNotFound: HTTPStatus.NOT_FOUND,
    SnapshotNotFound: HTTPStatus.NOT_FOUND,
    FeaturesNotFound: HTTPStatus.NOT_FOUND,
    UnknownJob: HTTPStatus.NOT_FOUND,
    PredictionsNotFound: HTTPStatus.NOT_FOUND,
    MapNotFound: HTTPStatus.NOT_FOUND,
    NodeNotFound: HTTPStatus.NOT_FOUND,
    LabelColumnNotFound: HTTPStatus.NOT_FOUND,
    NodeNotPredicted: HTTPStatus.NOT_FOUND,
    FormatNotOffered: HTTPStatus.NOT_ACCEPTABLE,
    GraphExists: HTTPStatus.CONFLICT,
    GraphConflict: HTTPStatus.CONFLICT,
    GraphOutdated: HTTPStatus.CONFLICT,
    TooManyGraphs: HTTPStatus.CONFLICT,
    TooManySources: HTTPStatus.CONFLICT,
    RetractionRefused: HTTPStatus.CONFLICT,
    HorizonRefused: HTTPStatus.CONFLICT,
    RepairRefused: HTTPStatus.CONFLICT,
    RawEdgesMovedOn: HTTPStatus.CONFLICT,
    NoSnapshot: HTTPStatus.CONFLICT,
    NoEmbedding: HTTPStatus.CONFLICT,
    EmbeddingFailed: HTTPStatus.CONFLICT,
    NoFeatures: HTTPStatus.CONFLICT,
    ConnectedBefore: HTTPStatus.CONFLICT,
    JobNotSucceeded: HTTPStatus.CONFLICT,
    NotCrossValidated: HTTPStatus.CONFLICT,
    SetsNotKept: HTTPStatus.CONFLICT,
    ReasonsNotKept: HTTPStatus.CONFLICT,
    IdempotencyConflict: HTTPStatus.CONFLICT,
    BodyTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    TableTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    BodyTypeUnknown: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    BadFeatures: HTTPStatus.UNPROCESSABLE_ENTITY,
    BadEdges: HTTPStatus.UNPROCESSABLE_ENTITY,
    BadUpload: HTTPStatus.UNPROCESSABLE_ENTITY,
    BadLabels: HTTPStatus.UNPROCESSABLE_ENTITY,
    NoFirstOpinion: HTTPStatus.CONFLICT,
    LabelsRefused: HTTPStatus.UNPROCESSABLE_ENTITY,
    NoMargins: HTTPStatus.UNPROCESSABLE_ENTITY,
    NotInductive: HTTPStatus.UNPROCESSABLE_ENTITY,
    DoesNotFit: HTTPStatus.UNPROCESSABLE_ENTITY,
    SourceRefused: HTTPStatus.UNPROCESSABLE_ENTITY,
    InvalidArgument: HTTPStatus.UNPROCESSABLE_ENTITY,
    RequestValidationError: HTTPStatus.UNPROCESSABLE_ENTITY,
    DataError: HTTPStatus.UNPROCESSABLE_ENTITY,
    TooManyRequests: HTTPStatus.TOO_MANY_REQUESTS,
    BacklogFull: HTTPStatus.TOO_MANY_REQUESTS,
    TooBusy: HTTPStatus.SERVICE_UNAVAILABLE,
    NotReady: HTTPStatus.SERVICE_UNAVAILABLE,
    OperationalError: HTTPStatus.SERVICE_UNAVAILABLE,
    PoolTimeoutError: HTTPStatus.SERVICE_UNAVAILABLE,
}
_KINDS: Final = {kind: _Kind(status, title_of(kind)) for kind, status in _STATUS.items()}
_CUT: Final = _Kind(HTTPStatus.SERVICE_UNAVAILABLE, "Server stops")
_DISK_FULL: Final = _Kind(HTTPStatus.INSUFFICIENT_STORAGE, "Disk full")
_FAULT: Final = _Kind(HTTPStatus.INTERNAL_SERVER_ERROR, "Internal error")


def install(app: FastAPI) -> None:
    """Answer every error of an application with a problem."""
    for kind in _KINDS:
        app.add_exception_handler(kind, known_error)
    app.add_exception_handler(OSError, _of_disk)
    app.add_exception_handler(HTTPException, _of_framework)


def answer_of(request: Request, error: Exception) -> Response | None:
    """The problem of an exception of a route; None for a fault of ours."""
    if isinstance(error, HTTPException):
        return _of_framework(request, error)
    if isinstance(error, tuple(_KINDS)):
        return known_error(request, error)
    return _of_disk(request, error) if is_disk_full(error) else None


def problems(*kinds: type[Exception]) -> dict[int | str, dict[str, Any]]:
    """OpenAPI of some errors of a route, for ``responses``."""
    titles: dict[int | str, list[str]] = {}
    for kind in kinds:
        titles.setdefault(int(_KINDS[kind].status), []).append(_KINDS[kind].title)
    return {status: _response(" · ".join(dict.fromkeys(each))) for status, each in titles.items()}


def any_problem() -> dict[int | str, dict[str, Any]]:
    """OpenAPI of the errors that any route may have."""
    return {"default": _response("An error, as RFC 9457 says")}


def _response(description: str) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{Problem.__name__}"}
    return {"description": description, "content": {MEDIA_TYPE: {"schema": schema}}}


def _of_disk(request: Request, error: Exception) -> Response:
    """The problem of a full disk; raises other errors, which are faults of ours."""
    if not is_disk_full(error):
        raise error
    _log.error("disk full", path=request.url.path, error=str(error))
    detail = "the disk of the server is full and nothing was stored; try again once it has room"
    return _answer(request, _DISK_FULL, {"detail": detail}, {"Retry-After": str(RETRY_SECONDS)})


def known_error(request: Request, error: Exception) -> Response:
    """The problem of an exception of the table."""
    if is_disk_full(error):
        return _of_disk(request, error)
    kind = next(_KINDS[each] for each in type(error).__mro__ if each in _KINDS)
    if isinstance(error, OperationalError | PoolTimeoutError):
        # Every request meets it while the database is away, so that one line must do.
        cause = " ".join(str(getattr(error, "orig", error)).split())
        _log.warning(kind.title.lower(), path=request.url.path, error=cause)
    elif kind.status >= HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(error, TooBusy):
        _log.error(kind.title.lower(), path=request.url.path, exc_info=error)
    return _answer(request, kind, _details(error), _headers(error))


def _of_framework(request: Request, raised: Exception) -> Response:
    """The problem of unknown paths and methods, and of what FastAPI wraps while it reads a body."""
    error = cast("HTTPException", raised)  # it is registered for this class only
    cause = error.__cause__
    if isinstance(cause, Exception) and isinstance(cause, tuple(_KINDS)):
        return known_error(request, cause)
    status = HTTPStatus(error.status_code)
    if status is HTTPStatus.BAD_REQUEST:  # FastAPI's word for bytes that are no text
        detail = "the body must be JSON in UTF-8"
        return _answer(request, _KINDS[RequestValidationError], {"detail": detail}, {})
    headers = dict(error.headers or {})
    if status is HTTPStatus.NOT_FOUND and error.detail == status.phrase:
        detail = f"nothing is at {request.url.path}; /docs shows what there is"
    elif status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_methods_of(request))
        detail = f"{request.url.path} takes {headers['Allow']}, got {request.method}"
    else:
        detail = str(error.detail)
    return _answer(request, _Kind(status, status.phrase), {"detail": detail}, headers)


def _methods_of(request: Request) -> list[str]:
    """All methods of the path; a route knows only its own."""
    routes = request.app.routes
    return [
        method
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes
        )
    ]


def unhandled(request: Request, error: BaseException) -> Response:
    """The answer to an exception in no table, which the caller has logged."""
    if isinstance(error, CancelledError):
        cut = {"detail": "the server stops and could not wait for the request; send it again"}
        return _answer(request, _CUT, cut, {"Retry-After": str(RETRY_SECONDS)})
    return _answer(request, _FAULT, {"detail": "the server failed; its log says why"}, {})


def _answer(
    request: Request, kind: _Kind, details: Mapping[str, Any], headers: Mapping[str, str]
) -> Response:
    known = {"type": kind.uri, "title": kind.title, "status": int(kind.status)}
    body = {**known, **details, "request_id": request.state.request_id}
    return Response(
        # The standard library, since a value may be half of a surrogate pair, which orjson refuses.
        json.dumps({name: value for name, value in body.items() if value is not None}),
        status_code=int(kind.status),
        media_type=MEDIA_TYPE,
        headers=dict(headers),
    )


def _details(error: Exception) -> Mapping[str, Any]:
    match error:
        case RequestValidationError():
            return _of_validation(error)
        case DataError():  # a NUL, which PostgreSQL has no room for in text
            return {"detail": "every argument must be text that the database can hold"}
        case OperationalError() | PoolTimeoutError():
            return {"detail": "the database does not answer; try again in a moment"}
        case _:
            return details_of(error)


def _of_validation(error: RequestValidationError) -> dict[str, Any]:
    """The first broken rule, and all of them in ``errors``."""
    broken = [_broken_rule(each) for each in error.errors()]
    first = broken[0]
    received = "" if "value" not in first else f", got {first['value']}"
    has_received = received and received in first["rule"]
    detail = with_argument(first["argument"] or "", first["rule"])
    return {
        "detail": detail if has_received else detail + received,
        **first,
        "errors": broken if len(broken) > 1 else None,
    }


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
    argument = argument_of(error.get("ctx", {}).get("error")) or place or None
    broken: dict[str, Any] = {"argument": argument, "rule": rule}
    if isinstance(error["input"], str | int | float):
        broken["value"] = str(error["input"])[:_MAX_SHOWN]
    return broken


def _headers(error: Exception) -> dict[str, str]:
    challenge = 'Bearer realm="peewit"'
    match error:
        case KeyMissing():
            return {"WWW-Authenticate": challenge}
        case BodyTooSlow():
            return {"Connection": "close"}  # what still comes of it is no other request
        case KeyRefused() | KeyRevoked():
            return {"WWW-Authenticate": f'{challenge}, error="invalid_token"'}
        case ScopeMissing(scope=scope):
            return {"WWW-Authenticate": f'{challenge}, error="insufficient_scope", scope="{scope}"'}
        case TooManyRequests(retry_seconds=seconds) | TooBusy(retry_seconds=seconds):
            return {"Retry-After": str(math.ceil(seconds))}
        case BacklogFull() | OperationalError() | PoolTimeoutError():
            return {"Retry-After": str(RETRY_SECONDS)}
        case _:
            return {}
