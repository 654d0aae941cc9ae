"""Server: its models and version.

Written from `peewit.service.operations.server`; `make generate` writes it anew.
"""

from peewit.service.client.call_steps import Call
from peewit.service.client.calls.common import get, read
from peewit.service.wire.server import Model, ModelList, Version


def models() -> Call[list[Model]]:
    """The catalogue: every model with the JSON Schemas of its hyperparameters and options."""
    return (yield from read(ModelList, get("models"))).models


def version() -> Call[Version]:
    """What runs here."""
    return (yield from read(Version, get("version")))
