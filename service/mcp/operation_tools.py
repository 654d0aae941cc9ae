"""Tools of operations: calls of the client, described as the declarations say."""

import inspect
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import fields
from typing import Annotated, Any, get_type_hints

from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel, Field, TypeAdapter, create_model

from peewit.service.client import AsyncClient
from peewit.service.mcp.tools import GraphName
from peewit.service.operations.declaration import Operation, Parameter
from peewit.service.operations.table import TABLE

Tool = Callable[..., Awaitable[CallToolResult]]


def operation_tools(client: AsyncClient) -> Iterator[tuple[Tool, str]]:
    """Each operation that agents are offered, as a tool, and its title."""
    for operations in TABLE.values():
        for each in operations:
            if each.tool is not None:
                yield _tool(client, each), each.tool


def _tool(client: AsyncClient, operation: Operation[Any]) -> Tool:
    call = getattr(client, operation.client)
    adapter: TypeAdapter[Any] = TypeAdapter(operation.answer)

    async def tool(graph: str, **arguments: Any) -> CallToolResult:
        answer = adapter.dump_python(await call(graph, **arguments), mode="json")
        text = adapter.dump_json(answer).decode()
        return CallToolResult(
            content=[TextContent(type="text", text=text)], structured_content=answer
        )

    keyword = inspect.Parameter.KEYWORD_ONLY
    answered = Annotated[CallToolResult, _model_of(operation.answer)]
    parameters = [inspect.Parameter("graph", keyword, annotation=GraphName)]
    parameters += [_asked(each) for each in operation.parameters]
    tool.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # read by inspect
        parameters, return_annotation=answered
    )
    tool.__annotations__ = {each.name: each.annotation for each in parameters}
    tool.__annotations__["return"] = answered
    tool.__name__ = operation.name
    tool.__doc__ = operation.doc
    return tool


def _model_of(record: type[Any]) -> type[BaseModel]:
    """The same fields as a model, of which the protocol makes a schema."""
    hints = get_type_hints(record)
    described: dict[str, Any] = {
        each.name: (hints[each.name], Field(description=each.metadata.get("description")))
        for each in fields(record)
    }
    return create_model(record.__name__, __doc__=record.__doc__, **described)


def _asked(each: Parameter) -> inspect.Parameter:
    kind = each.kind if each.mark.given_as is None else each.mark.given_as
    field = Field(description=each.mark.doc or None, **each.mark.rules)
    default = inspect.Parameter.empty if each.is_required else each.default
    return inspect.Parameter(
        each.name,
        inspect.Parameter.KEYWORD_ONLY,
        annotation=Annotated[kind, field],
        default=default,
    )
