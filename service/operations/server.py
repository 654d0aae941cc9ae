"""Server: its models and version."""

from importlib.metadata import version
from inspect import getdoc

from peewit.service.operations.declaration import operation
from peewit.service.operations.here import Here
from peewit.service.tasks.solving.solve_options import options_schema
from peewit.service.wire.server import Model, ModelList, Version
from peewit.solvers.models.catalogue import CATALOGUE
from peewit.solvers.models.contract.model import parameter_schema


@operation("GET /models", "read", client="models", items="models")
def list_models(here: Here) -> ModelList:  # noqa: ARG001 - the same at every home
    """The catalogue: every model with the JSON Schemas of its hyperparameters and options."""
    return models()


def models() -> ModelList:
    """The models, by name."""
    return ModelList(
        models=[
            Model(
                name=name,
                description=(getdoc(model) or "").partition("\n")[0],
                uses_features=model.uses_features,
                parameters=parameter_schema(model),
                options=options_schema(model),
            )
            for name, model in sorted(CATALOGUE.items())
        ]
    )


@operation("GET /version", client="version")
def get_version(here: Here) -> Version:  # noqa: ARG001 - the same at every home
    """What runs here."""
    return Version(version=version("peewit"))
