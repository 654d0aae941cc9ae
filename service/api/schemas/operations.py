"""The service itself: its models, health and version."""

from typing import Any, Literal

from pydantic import Field

from peewit.service.api.schemas.base import Answer


class ModelOut(Answer):
    """A model of the catalogue."""

    name: str
    description: str
    uses_features: bool = Field(
        description="Whether it takes node features; it works on a graph without them too."
    )
    parameters: dict[str, Any] = Field(description="JSON Schema of its hyperparameters.")
    options: dict[str, Any] = Field(
        description="JSON Schema of what else may stand among a job's parameters."
    )


class ModelList(Answer):
    """The catalogue."""

    models: list[ModelOut]


class Health(Answer):
    """The process answers."""

    status: Literal["ok"] = "ok"


class VersionOut(Answer):
    """What runs here."""

    name: Literal["peewit"] = "peewit"
    version: str
    api: Literal["v1"] = "v1"
