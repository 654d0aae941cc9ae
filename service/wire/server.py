"""Models, health and version of the service."""

from typing import Any

from peewit.service.wire.records import constant, described, record


@record
class Model:
    """A model of the catalogue."""

    name: str
    description: str
    uses_features: bool = described(
        "Whether it takes node features; it works on a graph without them too."
    )
    parameters: dict[str, Any] = described("JSON Schema of its hyperparameters.")
    options: dict[str, Any] = described(
        "JSON Schema of what else may stand among a job's parameters."
    )


@record
class ModelList:
    """The catalogue."""

    models: list[Model]


@record
class Health:
    """The process answers."""

    status: str = constant(default="ok")


@record
class IngestTrouble:
    """Something of ingest that stands still, or a source or graph where something fails."""

    graph: str | None = described("None where it concerns none, or the caller may not read.")
    source_id: str | None
    source: str | None = described("Its URL, without passwords.")
    doing: str | None
    seconds: float | None = described(
        "Since the last progress, or since the source was last listed; null of graphs."
    )
    error: str | None = described(
        "Why the source or graph fails; None where something stands still."
    )


@record
class Degraded:
    """Requests are served as ever, and ingest does not do all that it should."""

    status: str = constant(default="degraded")
    ingest: list[IngestTrouble]


@record
class Version:
    """What runs here."""

    name: str = constant(default="peewit")
    version: str
    api: str = constant(default="v1")
