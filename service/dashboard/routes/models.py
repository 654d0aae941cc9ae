"""The models: what each is for, and its parameters, as a job takes them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from fastapi import Request, Response

from peewit.service.api.routes.server import list_models
from peewit.service.dashboard.access import viewing
from peewit.service.dashboard.pages import page, page_router
from peewit.service.wire.server import Model
from peewit.solvers.models import DEFAULT_MODEL

router = page_router()

_BOUNDS: Final = {
    "minimum": "≥ {:g}",
    "exclusiveMinimum": "> {:g}",
    "maximum": "≤ {:g}",
    "exclusiveMaximum": "< {:g}",
}
_TYPES: Final = {"boolean": "true or false", "object": "an object of classes and numbers"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter as people read of it."""

    name: str
    accepts: str
    default: Any
    description: str


@router.get("/models", dependencies=[viewing("read")])
def show_models(request: Request) -> Response:
    """The catalogue."""
    return page(request, "models.html", models=_models(), default_model=DEFAULT_MODEL)


@cache
def _models() -> list[tuple[Model, list[Parameter]]]:
    """Each model, and what may be set of it: hyperparameters, then options of the job."""
    return [
        (model, [*_parameters(model.parameters), *_parameters(model.options)])
        for model in list_models().models
    ]


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
    """The values that a JSON Schema of a parameter allows, in words."""
    if "anyOf" in schema:
        return ", or ".join(accepted(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(str(each) for each in schema["enum"])
    bounds = [text.format(schema[rule]) for rule, text in _BOUNDS.items() if rule in schema]
    return " ".join([_TYPES.get(schema["type"], schema["type"]), *bounds])
