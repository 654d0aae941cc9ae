"""REST routes of operations, derived from their declarations."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, Final

import fastapi
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field, create_model
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import Caller, CallerHere, requires
from peewit.service.api.bodies import (
    BodyTooLarge,
    BodyTypeUnknown,
    HeldBody,
    TableBody,
    TableOrJsonBody,
    body_schema,
)
from peewit.service.api.errors import problems
from peewit.service.api.json_response import json_response
from peewit.service.api.long_poll import WaitSeconds, wait_until
from peewit.service.api.routes.query_parameters import resource
from peewit.service.api.schemas.bodies_and_problems import refusing
from peewit.service.api.served_home import GraphHere, HomeHere, ServedHome
from peewit.service.api.tables import (
    ChosenFormat,
    FormatNotOffered,
    IfNoneMatch,
    table_answer,
    table_response,
)
from peewit.service.catalog import GraphNotFound
from peewit.service.jobs.job import JobStatus
from peewit.service.operations.answers import answer_of
from peewit.service.operations.bodies import Body as BodyModel
from peewit.service.operations.declaration import (
    Body,
    Header,
    Mark,
    Operation,
    Parameter,
    Path,
    Query,
    Table,
    Whole,
)
from peewit.service.operations.here import Here
from peewit.service.operations.tables import JsonUpload, Rows
from peewit.service.problems import RETRY_SECONDS, InvalidArgument
from peewit.service.tables.uploads import BadUpload, TableTooLarge
from peewit.service.wire.jobs import Job
from peewit.service.wire.records import Ongoing
from peewit.streaming.edges.table_formats import Format
from peewit.streaming.problems import Problem

_MAKERS: Final[Mapping[type[Mark], Callable[..., Any]]] = {
    Path: fastapi.Path,
    Query: fastapi.Query,
    Header: fastapi.Header,
}
NOBODY: Final = Caller(key=None)
"""Calls what needs no key."""

_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def routes_of(tag: str, operations: Sequence[Operation[Any]]) -> APIRouter:
    """A router with a route for each operation; its signature says what it needs of the request."""
    router = resource(tag, "/v1")
    for each in operations:
        options: dict[str, Any] = {}
        if each.rows is not None:
            options["response_class"] = StreamingResponse
        for table in each.of(Table):
            options["openapi_extra"] = body_schema(table.mark.doc, json=table.mark.json)
        router.add_api_route(
            ("/graphs/{graph}" if each.has_graph else "") + each.path,
            _endpoint(each),
            methods=[each.method],
            name=each.name,
            dependencies=_dependencies(each),
            responses=_responses(each),
            response_model=None
            if each.after is not None or each.answer in {type(None), Rows}
            else each.answer,
            status_code=_status(each),
            **options,
        )
    return router


def _dependencies(operation: Operation[Any]) -> list[Any]:
    """What must hold before the body is read."""
    is_stream = operation.rows is not None
    needed = [requires(*operation.scopes, streams=is_stream)] if operation.scopes else []
    if (store := operation.room) is not None:

        def require_room(graph: GraphHere, home: HomeHere) -> None:
            getattr(home, store).require_room(graph.id)

        needed.append(Depends(require_room))
    return needed


def _responses(operation: Operation[Any]) -> dict[int | str, dict[str, Any]]:
    known: list[type[Problem]] = [GraphNotFound] if operation.has_graph else []
    responses: dict[int | str, dict[str, Any]] = {}
    if operation.rows is not None:
        known.append(FormatNotOffered)
        responses = table_answer(operation.rows, operation.unchanged)
    if operation.of(Table):
        known += [BodyTooLarge, BodyTypeUnknown, BadUpload, TableTooLarge]
    if operation.after is not None:
        responses = {
            HTTPStatus.OK: {"model": operation.answer},
            HTTPStatus.ACCEPTED: {
                "model": Job,
                "description": "The job that must end first; ask again once it has.",
            },
        }
    if operation.waits and operation.method != "GET" and operation.status is None:
        responses = {
            HTTPStatus.OK: {"description": "It is done."},
            HTTPStatus.ACCEPTED: {"model": operation.answer, "description": "It will be done."},
        }
    return responses | problems(*known, *operation.raises, InvalidArgument)


def here_of(home: ServedHome, caller: Caller) -> Here:
    """Where the operation of a request runs."""
    return Here(
        home=home,
        owner=caller.name,
        only=caller.only,
        annotator=caller.annotator,
        key=caller.key_name,
        door=caller.door,
        require=caller.require,
    )


def _endpoint(operation: Operation[Any]) -> Callable[..., Any]:
    """A function with the signature that FastAPI reads; those that wait are coroutines."""
    in_request = operation.of(Path, Query, Header)
    names = {each.key: each.name for each in in_request}

    def values_of(arguments: dict[str, Any]) -> dict[str, Any]:
        body = arguments.pop("body", None)
        values = {names[key]: value for key, value in arguments.items()}
        values |= {each.name: getattr(body, each.key) for each in operation.of(Body)}
        return values | {each.name: body for each in operation.of(Whole, Table)}

    def bound(here: Here, graph: Any, arguments: dict[str, Any]) -> Callable[[], Any]:
        return partial(operation, here, graph, **values_of(arguments))

    async def in_turn(home: ServedHome, run: Callable[[], Any], body: Any = None) -> Any:
        """What runs in a thread, once few others do and there is memory for the body."""
        async with AsyncExitStack() as held:
            if not (isinstance(body, JsonUpload) and not body.decoding_bytes):
                if operation.gate is not None:
                    await held.enter_async_context(getattr(home, operation.gate))
                if operation.of(Table):
                    await held.enter_async_context(home.decoding.held(body.decoding_bytes))
            with refusing():
                return await run_in_threadpool(run)

    def answer(
        home: ServedHome,
        response: Response,
        caller: Caller = NOBODY,
        of_graph: Any = None,
        **arguments: Any,
    ) -> Any:
        here = here_of(home, caller)
        with refusing():
            value = bound(here, of_graph, arguments)()
        _locate(operation, response, here, of_graph, value)
        return json_response(value) if isinstance(value, Mapping) else value

    def answer_with_rows(
        home: ServedHome,
        caller: Caller,
        table_format: Format,
        of_graph: Any = None,
        if_none_match: str | None = None,
        **arguments: Any,
    ) -> Any:
        with refusing():
            table = bound(here_of(home, caller), of_graph, arguments)()
            return table_response(table, table_format, if_none_match)

    async def answer_at_hand(
        home: ServedHome, caller: Caller, of_graph: Any, **arguments: Any
    ) -> Any:
        here, values = here_of(home, caller), values_of(arguments)
        with refusing():
            value: Any = operation.at_hand(here, of_graph, values)
            if value is None:
                value = await run_in_threadpool(partial(operation, here, of_graph, **values))
        return json_response(value)

    async def answer_in_turn(
        response: Response, home: ServedHome, caller: Caller, of_graph: Any = None, **arguments: Any
    ) -> Any:
        here, body = here_of(home, caller), arguments.get("body")
        value = await in_turn(home, bound(here, of_graph, arguments), body)
        _locate(operation, response, here, of_graph, value)
        return value

    async def answer_when_settled(
        request: Request,
        response: Response,
        home: ServedHome,
        caller: Caller,
        of_graph: Any = None,
        wait: float = 0.0,
        **arguments: Any,
    ) -> Any:
        here, body = here_of(home, caller), arguments.get("body")
        run = bound(here, of_graph, arguments)
        if operation.method == "GET":
            with refusing():
                return await wait_until(request, run, _is_settled, seconds=wait)
        value = operation.taken(await in_turn(home, run, body))
        _locate(operation, response, here, of_graph, value)
        if wait and not value.is_settled:
            look = partial(operation.look, here, of_graph, value)
            value = await wait_until(request, look, _is_settled, seconds=wait)
        if operation.status is None:
            response.status_code = HTTPStatus.OK if value.is_done else HTTPStatus.ACCEPTED
        return value

    async def answer_after(
        request: Request,
        response: Response,
        home: ServedHome,
        caller: Caller,
        of_graph: Any,
        wait: float = 0.0,
        **arguments: Any,
    ) -> Any:
        here = here_of(home, caller)
        first = partial(operation.job_before, here, of_graph, dict(arguments))
        job = await run_in_threadpool(first)
        if job is not None and wait:
            look = partial(home.jobs.get, job.id)
            job = await wait_until(request, look, lambda one: one.status.is_final, seconds=wait)
            if job.status.is_final and job.status is not JobStatus.CANCELLED:
                job = await run_in_threadpool(first)  # none, or the reason why it failed
        if job is not None:
            response.status_code = HTTPStatus.ACCEPTED
            response.headers["Location"] = f"/v1/jobs/{job.id}"
            response.headers["Retry-After"] = str(RETRY_SECONDS)
            return answer_of(Job, job)
        return await in_turn(home, bound(here, of_graph, arguments))

    signature = [_given("home", HomeHere)]
    if operation.scopes:
        signature.append(_given("caller", CallerHere))
    if operation.has_graph:
        signature.append(_given("of_graph", GraphHere))
    signature += [_asked(each) for each in in_request]
    if (body := _body_of(operation)) is not None:
        signature.append(_given("body", body))
    endpoint: Callable[..., Any] = answer
    if operation.rows is not None:
        endpoint = answer_with_rows
        signature.append(_given("table_format", ChosenFormat))
        if operation.unchanged is not None:
            signature.append(_given("if_none_match", IfNoneMatch, default=None))
    elif operation.quick is not None:
        endpoint = answer_at_hand
    else:
        signature.append(_given("response", Response))
    if operation.waits or operation.after is not None:
        endpoint = answer_when_settled if operation.waits else answer_after
        signature += [_given("request", Request), _given("wait", WaitSeconds, default=0)]
    elif operation.of(Table) and operation.rows is None:
        endpoint = answer_in_turn
    endpoint.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    endpoint.__doc__ = operation.doc
    endpoint.__name__ = operation.name
    return endpoint


def _status(operation: Operation[Any]) -> int | None:
    """Of a success; None leaves it to what waits."""
    if operation.status is not None:
        return operation.status
    return HTTPStatus.NO_CONTENT if operation.answer is type(None) else None


def _locate(
    operation: Operation[Any], response: Response, here: Here, graph: Any, value: Any
) -> None:
    """Say where what was made can be found, and what else there is to say."""
    response.headers.update(here.headers)
    if operation.location is not None:
        name = None if graph is None else graph.settings.name
        place = operation.location.format(graph=name, answer=value)
        response.headers["Location"] = f"/v1{place}"


def _is_settled(answer: Ongoing) -> bool:
    return answer.is_settled


def _given(name: str, kind: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, _KEYWORD, annotation=kind, default=default)


def _asked(each: Parameter) -> inspect.Parameter:
    mark = _MAKERS[type(each.mark)](description=each.mark.doc or None, **each.mark.rules)
    default = inspect.Parameter.empty if each.is_required else each.default
    return inspect.Parameter(
        each.key, _KEYWORD, annotation=Annotated[each.kind, mark], default=default
    )


def _body_of(operation: Operation[Any]) -> Any:
    """What makes the body; the name of a schema of its fields is that of the operation."""
    for table in operation.of(Table):
        if table.mark.json is None:
            return TableBody
        return TableOrJsonBody if operation.rows is None else HeldBody
    for whole in operation.of(Whole):
        return whole.kind
    body = operation.of(Body)
    if not body:
        return None
    of_fields: dict[str, Any] = {}
    for each in body:
        default = ... if each.is_required else each.default
        described = Field(default, description=each.mark.doc or None, **each.mark.rules)
        of_fields[each.key] = each.kind, described
    name = "".join(part.title() for part in operation.name.split("_")) + "In"
    return create_model(name, __base__=BodyModel, **of_fields)
