"""Suggestions of nodes to label."""

from typing import Self

from pydantic import Field

from peewit.service.api.schemas.base import Answer, NodeIn
from peewit.service.api.schemas.predictions import PredictionOut
from peewit.service.predictions.suggestions import Strategy, Suggestions


class SuggestionOut(Answer):
    """A node to label."""

    node: NodeIn = Field(description="A string where a float would not hold the integer.")
    prediction: PredictionOut | None = Field(description="Null while nothing is predicted of it.")


class SuggestionsOut(Answer):
    """Nodes to label, the most useful first; none of them has a label."""

    strategy: Strategy
    job: str | None = Field(description="Whose predictions were looked at; null without any.")
    model: str | None
    snapshot: int | None = Field(description="Of the predictions.")
    predicted_labels_seq: int | None = Field(description="Last label that the predictions know.")
    labels_seq: int = Field(description="Last label that was looked at.")
    embedding_snapshot: int | None = Field(
        description="The snapshot in which the nodes were located; null for margin."
    )
    suggestions: list[SuggestionOut]

    @classmethod
    def of(cls, found: Suggestions) -> Self:
        """What people see of suggestions."""
        meta = None if found.file is None else found.file.meta
        return cls.model_validate(
            {
                "strategy": found.strategy,
                "job": None if meta is None else meta.job_id,
                "model": None if meta is None else meta.model,
                "snapshot": None if meta is None else meta.snapshot,
                "predicted_labels_seq": None if meta is None else meta.labels_seq,
                "labels_seq": found.labels_seq,
                "embedding_snapshot": found.embedding_snapshot,
                "suggestions": [
                    {"node": node, "prediction": prediction}
                    for node, prediction in zip(found.nodes, found.predictions, strict=True)
                ],
            }
        )
