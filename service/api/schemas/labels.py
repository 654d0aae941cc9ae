"""Labels of nodes."""

from typing import Self

from pydantic import Field

from peewit.service.api.schemas.base import Answer, Body, NodeIn
from peewit.service.labels.store import LabelReceipt


class LabelIn(Body):
    """A node and its label: a class, or a real number for ``target=real``."""

    node: NodeIn
    label: int | str | float


class LabelsIn(Body):
    """Labels to put; of a node named twice the later one holds."""

    labels: list[LabelIn]


class LabelsOut(Answer):
    """What became of labels."""

    labels_seq: int = Field(description="Number of the graph's last label event, with these.")
    accepted: int
    refused: list[str] = Field(description="Always empty: when one is refused, the answer is 422.")

    @classmethod
    def of(cls, receipt: LabelReceipt) -> Self:
        """What people see of a receipt."""
        return cls(
            labels_seq=receipt.labels_seq, accepted=receipt.accepted, refused=list(receipt.refused)
        )
