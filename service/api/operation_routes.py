"""REST routes of operations, derived from their declarations."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, Final

import fastapi
from fastapi import APIRouter, Request, Response
from pydantic import Field, create_model
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import Caller, CallerHere, requires
from peewit.service.api.errors import problems
from peewit.service.api.long_poll import WaitSeconds, wait_until
from peewit.service.api.routes.query_parameters import resource
from peewit.service.api.schemas.bodies_and_problems import Body as BodyModel
from peewit.service.api.schemas.bodies_and_problems import InvalidArgument, refusing
from peewit.service.api.served_home import GraphHere, HomeHere, ServedHome
from peewit.service.catalog import GraphNotFound
from peewit.service.operations.declaration import (
    Body,
    Header,
    Mark,
    Operation,
    Parameter,
    Path,
    Query,
)
from peewit.service.operations.here import Here
from peewit.service.wire.records import Settling

_MAKERS: Final[Mapping[type[Mark], Callable[..., Any]]] = {
    Path: fastapi.Path,
    Query: fastapi.Query,
    Header: fastapi.Header,
}
_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def routes_of(tag: str, operations: Sequence[Operation[Any]]) -> APIRouter:
    """A router with a route for each operation; its signature says what it needs of the request."""
    router = resource(tag, "/v1")
    for each in operations:
        known = (GraphNotFound,) if each.has_graph else ()
        of_wait: dict[int | str, dict[str, Any]] = {}
        if each.waits and each.method != "GET" and each.status is None:
            of_wait = {
                HTTPStatus.OK: {"description": "It is done."},
                HTTPStatus.ACCEPTED: {"model": each.answer, "description": "It will be done."},
            }
        router.add_api_route(
            ("/graphs/{graph}" if each.has_graph else "") + each.path,
            _endpoint(each),
            methods=[each.method],
            name=each.name,
            dependencies=[requires(*each.scopes)],
            responses=of_wait | problems(*known, *each.raises, InvalidArgument),
            response_model=None if each.answer is type(None) else each.answer,
            status_code=_status(each),
        )
    return router


def here_of(home: ServedHome, caller: Caller) -> Here:
    """Where the operation of a request runs."""
    return Here(home=home, owner=caller.name, only=caller.only, require=caller.require)


def _endpoint(operation: Operation[Any]) -> Callable[..., Any]:
    """A function with the signature that FastAPI reads; one that waits is a coroutine."""
    in_request = operation.of(Path, Query, Header)
    names = {each.key: each.name for each in in_request}
    model = _body_model(operation)

    def bound(
        home: ServedHome, caller: Caller, graph: Any, asked: dict[str, Any]
    ) -> Callable[[], Any]:
        body = asked.pop("body", None)
        values = {names[key]: value for key, value in asked.items()}
        values |= {each.name: getattr(body, each.key) for each in operation.of(Body)}
        here = here_of(home, caller)
        return partial(operation, here, *((graph,) if operation.has_graph else ()), **values)

    def answer(
        home: ServedHome, caller: Caller, response: Response, of_graph: Any = None, **asked: Any
    ) -> Any:
        run = bound(home, caller, of_graph, asked)
        with refusing():
            value = run()
        _locate(operation, response, of_graph, value)
        return value

    async def answer_when_settled(
        request: Request,
        response: Response,
        home: ServedHome,
        caller: Caller,
        of_graph: Any = None,
        wait: float = 0.0,
        **asked: Any,
    ) -> Any:
        run = bound(home, caller, of_graph, asked)
        with refusing():
            if operation.method == "GET":
                return await wait_until(request, run, _is_settled, seconds=wait)
            value = await run_in_threadpool(run)
        _locate(operation, response, of_graph, value)
        if wait and not value.is_settled:
            look = partial(operation.look, here_of(home, caller), of_graph, value)
            value = await wait_until(request, look, _is_settled, seconds=wait)
        if operation.status is None:
            response.status_code = HTTPStatus.OK if value.is_done else HTTPStatus.ACCEPTED
        return value

    signature = [_given("home", HomeHere), _given("caller", CallerHere)]
    signature.append(_given("response", Response))
    if operation.has_graph:
        signature.append(_given("of_graph", GraphHere))
    signature += [_asked(each) for each in in_request]
    if model is not None:
        signature.append(_given("body", model))
    endpoint: Callable[..., Any] = answer
    if operation.waits:
        endpoint = answer_when_settled
        waits = inspect.Parameter("wait", _KEYWORD, annotation=WaitSeconds, default=0)
        signature += [_given("request", Request), waits]
    endpoint.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    endpoint.__doc__ = operation.doc
    endpoint.__name__ = operation.name
    return endpoint


def _status(operation: Operation[Any]) -> int | None:
    """Of a success; None leaves it to what waits."""
    if operation.status is not None:
        return operation.status
    return HTTPStatus.NO_CONTENT if operation.answer is type(None) else None


def _locate(operation: Operation[Any], response: Response, graph: Any, value: Any) -> None:
    """Say where what was made can be found."""
    if operation.location is not None:
        name = None if graph is None else graph.settings.name
        place = operation.location.format(graph=name, answer=value)
        response.headers["Location"] = f"/v1{place}"


def _is_settled(answer: Settling) -> bool:
    return answer.is_settled


def _given(name: str, kind: Any) -> inspect.Parameter:
    return inspect.Parameter(name, _KEYWORD, annotation=kind)


def _asked(each: Parameter) -> inspect.Parameter:
    mark = _MAKERS[type(each.mark)](description=each.mark.doc or None, **each.mark.rules)
    default = inspect.Parameter.empty if each.is_required else each.default
    return inspect.Parameter(
        each.key, _KEYWORD, annotation=Annotated[each.kind, mark], default=default
    )


def _body_model(operation: Operation[Any]) -> type[BodyModel] | None:
    """A schema of the fields of the body; its name is that of the operation."""
    asked = operation.of(Body)
    if not asked:
        return None
    of_fields: dict[str, Any] = {}
    for each in asked:
        default = ... if each.is_required else each.default
        described = Field(default, description=each.mark.doc or None, **each.mark.rules)
        of_fields[each.key] = each.kind, described
    name = "".join(part.title() for part in operation.name.split("_")) + "In"
    return create_model(name, __base__=BodyModel, **of_fields)
