"""What is read off a declaration: a parameter that is added reaches every door."""

from types import ModuleType, SimpleNamespace
from typing import Annotated, Any

import pytest
import typer
from fastapi import FastAPI

from peewit.service.api.operation_routes import routes_of
from peewit.service.catalog import GraphRecord
from peewit.service.cli.operation_commands import add_command
from peewit.service.mcp import operation_tools
from peewit.service.operations.declaration import Operation, Query, operation
from peewit.service.operations.here import Here
from peewit.service.operations.which import Which
from peewit.service.wire.predictions import PredictionSets
from tests.goldens.client_calls import module_text

DOC = "How many of a kind that nobody needs."


def widened() -> Operation[PredictionSets]:
    """An operation with a parameter more."""

    @operation("GET /predictions/sets", "read", client="sets", tool="Sets")
    def get_sets(
        here: Here,
        graph: GraphRecord,
        which: Which,
        dummy: Annotated[int, Query(DOC, ge=1, le=9)] = 3,
    ) -> PredictionSets:
        """What sets promise."""
        raise NotImplementedError

    get_sets.call.__module__ = "peewit.service.operations.dummies"
    return get_sets


def test_a_parameter_that_is_added_reaches_the_api() -> None:
    app = FastAPI()
    app.include_router(routes_of("predictions", [widened()]))
    described = app.openapi()["paths"]["/v1/graphs/{graph}/predictions/sets"]["get"]
    (found,) = (each for each in described["parameters"] if each["name"] == "dummy")
    assert found["description"] == DOC
    assert (found["schema"]["minimum"], found["schema"]["maximum"]) == (1, 9)
    assert found["schema"]["default"] == 3


@pytest.mark.usefixtures("processes")
def test_it_reaches_the_calls_of_both_clients() -> None:
    subject = ModuleType("peewit.service.operations.dummies", "Dummies.")
    vars(subject)["get_sets"] = widened()
    text = module_text(subject)
    assert "dummy: int = 3" in text
    assert DOC in text
    assert "dummy=dummy" in text


def test_it_reaches_the_command() -> None:
    app = typer.Typer()
    add_command(app, widened(), "sets")
    command: Any = typer.main.get_command(app)
    (found,) = (each for each in command.params if "--dummy" in each.opts)
    assert (found.help, found.default) == (DOC, 3)


def test_it_reaches_the_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation_tools, "TABLE", {"predictions": [widened()]})
    client: Any = SimpleNamespace(sets=None)
    ((tool, title),) = operation_tools.operation_tools(client)
    assert title == "Sets"
    kind, field = tool.__annotations__["dummy"].__metadata__[0], tool.__annotations__["dummy"]
    assert kind.description == DOC
    assert field.__origin__ is int


def test_a_parameter_without_a_mark_is_refused() -> None:
    with pytest.raises(TypeError, match="parameter k of an operation must have a mark"):

        @operation("GET /x", "read")
        def get_x(here: Here, graph: GraphRecord, k: int = 3) -> PredictionSets:
            raise NotImplementedError
