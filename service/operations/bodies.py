"""Base of bodies that are read as they are written."""

from pydantic import BaseModel, ConfigDict

from peewit.service.wire.labels import Label
from peewit.service.wire.predictions import NodeId


class Body(BaseModel):
    """A body: what it does not know it refuses, and "1" is no number."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class LabelIn(Body):
    """A node and its label: a class, or a real number for ``target=real``."""

    node: NodeId
    label: Label


class LabelsIn(Body):
    """Labels to put; of a node named twice the later one holds."""

    labels: list[LabelIn]
