"""The models: which to take, all of them by family, and the parameters of one with a solve."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import HTTPException, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from peewit.service.api.auth import CallerHere
from peewit.service.api.served_home import HomeHere
from peewit.service.dashboard.access import viewing
from peewit.service.dashboard.model_guide import (
    FAMILIES,
    QUESTIONS,
    Answered,
    advice,
    given,
    line_of,
)
from peewit.service.dashboard.pages import back_to, form_of, page, page_router
from peewit.service.dashboard.routes.jobs import submit_solve, value_of
from peewit.service.jobs.job import LABEL_COLUMN
from peewit.service.operations.server import models
from peewit.service.problems import InvalidArgument
from peewit.service.wire.server import Model
from peewit.solvers.models.catalogue import DEFAULT_MODEL

router = page_router()

_BOUNDS: Final = {
    "minimum": "≥ {:g}",
    "exclusiveMinimum": "> {:g}",
    "maximum": "≤ {:g}",
    "exclusiveMaximum": "< {:g}",
}
_TYPES: Final = {"boolean": "true or false", "object": "an object of classes and numbers"}
_SET: Final = "set."

GraphName = Annotated[str, Query(max_length=63)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter as the page describes it."""

    name: str
    accepts: str
    default: Any
    description: str


@router.get("/models", dependencies=[viewing("read")])
def show_models(request: Request, answers: Answered, graph: GraphName = "") -> Response:
    """Which model to take, and all of them."""
    return page(
        request,
        "models.html",
        models=_models(),
        families=FAMILIES,
        questions=QUESTIONS,
        answers=given(answers),
        advice=advice(answers),
        default_model=DEFAULT_MODEL,
        graph_name=graph,
    )


@router.get("/models/{model}", dependencies=[viewing("read")])
def show_model(request: Request, model: str, home: HomeHere, graph: GraphName = "") -> Response:
    """One model: its parameters, and a form that solves with it; the address may set some."""
    shown, parameters, options = _model(model)
    query = request.query_params
    return page(
        request,
        "model.html",
        model=shown,
        line=line_of(shown.name),
        parts=[("Parameters", parameters), ("Ask for more than labels", options)],
        graphs=[each for each in home.catalog.list() if each.progress.snapshot is not None],
        graph_name=graph,
        chosen={name.removeprefix(_SET): query[name] for name in query if name.startswith(_SET)},
        prefix=_SET,
        default_model=DEFAULT_MODEL,
    )


@router.post("/models/{model}", dependencies=[viewing("label")])
async def solve(request: Request, model: str, home: HomeHere, caller: CallerHere) -> Response:
    """Solve a graph with it; what is left empty has its default."""
    form = await form_of(request)
    if not form.get("graph"):
        raise InvalidArgument("graph must be chosen", argument="graph")
    graph = await run_in_threadpool(home.catalog.get, form["graph"])
    parameters = {
        name.removeprefix(_SET): value_of(value.strip())
        for name, value in form.items()
        if name.startswith(_SET) and value.strip()
    }
    if column := form.get("label_column", ""):
        parameters[LABEL_COLUMN] = column
    job = await run_in_threadpool(submit_solve, graph, home, caller, model, parameters)
    return back_to(f"/jobs/{job.id}")


def _model(name: str) -> tuple[Model, list[Parameter], list[Parameter]]:
    of_name = _models().get(name)
    if of_name is None:
        raise HTTPException(
            HTTPStatus.NOT_FOUND, f"there is no model {name!r}; the page Models has all of them"
        )
    return of_name


@cache
def _models() -> dict[str, tuple[Model, list[Parameter], list[Parameter]]]:
    """Each model, its hyperparameters, and the other options of its job."""
    return {
        model.name: (model, _parameters(model.parameters), _parameters(model.options))
        for model in models().models
    }


def _parameters(schema: Mapping[str, Any]) -> list[Parameter]:
    return [
        Parameter(
            name=name,
            accepts=accepted(each),
            default=each.get("default"),
            description=each.get("description", ""),
        )
        for name, each in schema["properties"].items()
    ]


def accepted(schema: Mapping[str, Any]) -> str:
    """The values that a parameter's JSON Schema allows, in words."""
    if "anyOf" in schema:
        return ", or ".join(accepted(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(str(each) for each in schema["enum"])
    if "pattern" in schema:
        return "CLASS=SHARE,..."
    bounds = [text.format(schema[rule]) for rule, text in _BOUNDS.items() if rule in schema]
    return " ".join([_TYPES.get(schema["type"], schema["type"]), *bounds])
