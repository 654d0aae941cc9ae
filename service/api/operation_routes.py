"""REST routes of operations, derived from their declarations."""

import inspect
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any

import fastapi
from fastapi import APIRouter, Request, Response
from pydantic import Field, create_model
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import Caller, CallerHere, requires
from peewit.service.api.errors import problems
from peewit.service.api.long_poll import WaitSeconds, wait_until
from peewit.service.api.schemas.bodies_and_problems import Body as BodyModel
from peewit.service.api.schemas.bodies_and_problems import refusing
from peewit.service.api.served_home import GraphHere, HomeHere, ServedHome
from peewit.service.catalog import GraphNotFound
from peewit.service.operations.declaration import Body, Operation, Parameter, Path, Query
from peewit.service.operations.here import Here
from peewit.service.problems import InvalidArgument

_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def add_routes(router: APIRouter, *operations: Operation) -> None:
    """Add a route for each operation; what it needs of the request stands in its signature."""
    for each in operations:
        known = (GraphNotFound,) if each.has_graph else ()
        of_wait: dict[int | str, dict[str, Any]] = {}
        if each.settled is not None and each.method != "GET":
            of_wait = {
                HTTPStatus.OK: {"description": "It is done."},
                HTTPStatus.ACCEPTED: {"model": each.answer, "description": "It will be done."},
            }
        router.add_api_route(
            each.path,
            _endpoint(each),
            methods=[each.method],
            name=each.name,
            dependencies=[requires(*each.scopes)],
            responses=of_wait | problems(*known, *each.raises, InvalidArgument),
            response_model=each.answer,
        )


def here_of(home: ServedHome, caller: Caller) -> Here:
    """Where the operation of a request runs."""
    return Here(home=home, owner=caller.name, only=caller.only)


def _endpoint(operation: Operation) -> Callable[..., Any]:
    """A function with the signature that FastAPI reads; one that waits is a coroutine."""
    names = {each.key: each.name for each in operation.of(Path, Query)}
    model = _body_model(operation)

    def bound(
        home: ServedHome, caller: Caller, graph: Any, asked: dict[str, Any]
    ) -> Callable[[], Any]:
        body = asked.pop("body", None)
        values = {names[key]: value for key, value in asked.items()}
        values |= {each.name: getattr(body, each.key) for each in operation.of(Body)}
        here = here_of(home, caller)
        return partial(operation, here, *((graph,) if operation.has_graph else ()), **values)

    def answer(home: ServedHome, caller: Caller, graph: Any = None, **asked: Any) -> Any:
        run = bound(home, caller, graph, asked)
        with refusing():
            return run()

    async def answer_when_settled(
        request: Request,
        response: Response,
        home: ServedHome,
        caller: Caller,
        graph: Any = None,
        wait: float = 0.0,
        **asked: Any,
    ) -> Any:
        settled = operation.settled
        assert settled is not None  # noqa: S101 - of operations that wait only
        run = bound(home, caller, graph, asked)
        with refusing():
            if operation.method == "GET":
                return await wait_until(request, run, settled, seconds=wait)
            value = await run_in_threadpool(run)
        follow = operation.follow or operation
        own = {each.name: value.id for each in follow.of(Path)}
        if wait:
            look = partial(follow, here_of(home, caller), graph, **own)
            value = await wait_until(request, look, settled, seconds=wait)
        response.status_code = HTTPStatus.OK if settled(value) else HTTPStatus.ACCEPTED
        return value

    signature = [_given("home", HomeHere), _given("caller", CallerHere)]
    if operation.has_graph:
        signature.append(_given("graph", GraphHere))
    signature += [_asked(each) for each in operation.of(Path, Query)]
    if model is not None:
        signature.append(_given("body", model))
    endpoint: Callable[..., Any] = answer
    if operation.settled is not None:
        endpoint = answer_when_settled
        waits = inspect.Parameter("wait", _KEYWORD, annotation=WaitSeconds, default=0)
        signature += [_given("request", Request), _given("response", Response), waits]
    endpoint.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    endpoint.__doc__ = operation.doc
    endpoint.__name__ = operation.name
    return endpoint


def _given(name: str, kind: Any) -> inspect.Parameter:
    return inspect.Parameter(name, _KEYWORD, annotation=kind)


def _asked(each: Parameter) -> inspect.Parameter:
    maker = fastapi.Path if isinstance(each.mark, Path) else fastapi.Query
    mark = maker(description=each.mark.doc or None, **each.mark.rules)
    default = inspect.Parameter.empty if each.is_required else each.default
    return inspect.Parameter(
        each.key, _KEYWORD, annotation=Annotated[each.kind, mark], default=default
    )


def _body_model(operation: Operation) -> type[BodyModel] | None:
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
