"""Predictions of nodes and of new points."""

from typing import Annotated

from pydantic import Field

from peewit.service.api.schemas.base import Answer, Body, NodeIn

MAX_LOOKUP: int = 10_000
"""Nodes in one lookup; more come as a table."""


class PointIn(Body):
    """A point: all of its numbers, or those that are not 0 and where they stand."""

    features: list[float] | None = None
    indices: list[int] | None = None
    values: list[float] | None = None


class PointsIn(Body):
    """New points, all dense or all sparse."""

    points: list[PointIn]


class LookupIn(Body):
    """Nodes to look up."""

    nodes: Annotated[list[NodeIn], Field(min_length=1, max_length=MAX_LOOKUP)]


class PredictionOut(Answer):
    """What is predicted for one node; fields of a `Prediction` in a file."""

    node: NodeIn = Field(description="A string where a float would not hold the integer.")
    label: int | str | float | None = Field(description="Null where no label reaches.")
    score: float = Field(description="Of the winner; of real targets the number predicted.")
    margin: float | None = Field(description="Winner minus runner-up; null of real targets.")
    reachable: bool
    variance: float | None = Field(description="Null unless the job was asked for it.")
    scores: dict[str, float] | None = Field(description="By class; null where there are many.")


class Provenance(Answer):
    """What predictions were made from."""

    job: str
    model: str
    snapshot: int
    labels_seq: int
    features_version: int
    solver_status: str
    refined: bool = Field(description="Whether scores are those of the full graph.")
    score: str = Field(description="How to read scores: probability, class score or value.")


class NodePrediction(Provenance):
    """The prediction of one node, with where it comes from."""

    prediction: PredictionOut


class LookupOut(Provenance):
    """The predictions of some nodes, with where they come from."""

    predictions: list[PredictionOut]
    newer: list[NodeIn] = Field(description="Nodes that came after the snapshot.")
    unknown: list[NodeIn] = Field(description="Nodes that the graph does not know.")
