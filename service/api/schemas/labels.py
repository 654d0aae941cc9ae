"""Request bodies of labels."""

from pydantic import ConfigDict

from peewit.service.api.schemas.bodies_and_problems import NodeIn
from peewit.service.operations.bodies import Body, LabelIn
from peewit.service.wire.labels import LabelOrigin, LabelReceipt
from peewit.service.wire.records import described, record


class LabelRowIn(Body):
    """A node and its label in each `label_column`, under its name; null says nothing."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int | str | float | None]

    node: NodeIn


class LabelsIn(Body):
    """Labels to put; of a node named twice the later one holds."""

    labels: list[LabelIn]


class GivenLabelIn(LabelIn):
    """A node, its label, and where that comes from, unless the query says it for all."""

    origin: LabelOrigin | None = None
    annotator: str | None = None


class LabelColumnsIn(Body):
    """Labels to put: of the column without a name, or with `label_column` of named ones."""

    labels: list[GivenLabelIn] | list[LabelRowIn]


@record
class LabelsOut(LabelReceipt):
    """What became of labels."""

    refused: tuple[str, ...] = described("Always empty: when one is refused, the answer is 422.")
