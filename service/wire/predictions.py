"""Predictions of nodes, and suggestions of nodes to label."""

from typing import Literal

from peewit.service.wire.labels import Label
from peewit.service.wire.records import described, record

NodeId = int | str


@record
class Prediction:
    """What is predicted for one node; fields of a `Prediction` in a file."""

    node: NodeId = described("A string where a float would not hold the integer.")
    label: Label | None = described("Null where no label reaches.")
    score: float = described("Of the winner; of real targets the number predicted.")
    margin: float | None = described("Winner minus runner-up; null of real targets.")
    reachable: bool
    variance: float | None = described("Null unless the job was asked for it.")
    scores: dict[str, float] | None = described("By class; null where there are many.")


@record
class Provenance:
    """What predictions were made from."""

    job: str
    model: str
    snapshot: int
    labels_seq: int
    features_version: int
    solver_status: str
    refined: bool = described("Whether scores are those of the full graph.")
    score: str = described("How to read scores: probability, class score or value.")
    label_column: str | None = described(
        "The column of labels that is predicted; null for the one without a name.", default=None
    )


@record
class NodePrediction(Provenance):
    """The prediction of one node, with where it comes from."""

    prediction: Prediction


@record
class Lookup(Provenance):
    """The predictions of some nodes, with where they come from."""

    predictions: tuple[Prediction, ...]
    newer: tuple[NodeId, ...] = described("Nodes that came after the snapshot.")
    unknown: tuple[NodeId, ...] = described("Nodes that the graph does not know.")


@record
class Suggestion:
    """A node to label."""

    node: NodeId = described("A string where a float would not hold the integer.")
    prediction: Prediction | None = described("Null while nothing is predicted of it.")


@record
class Suggestions:
    """Nodes to label, the most useful first; none of them has a label."""

    strategy: Literal["margin", "variance", "coverage"]
    job: str | None = described("Whose predictions were looked at; null without any.")
    model: str | None
    snapshot: int | None = described("Of the predictions.")
    predicted_labels_seq: int | None = described("Last label that the predictions know.")
    labels_seq: int = described("Last label that was looked at.")
    embedding_snapshot: int | None = described(
        "The snapshot in which the nodes were located; null for margin."
    )
    suggestions: tuple[Suggestion, ...]

    @property
    def nodes(self) -> list[NodeId]:
        """The nodes alone."""
        return [each.node for each in self.suggestions]
