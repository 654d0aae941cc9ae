"""Features of the nodes, and the sets that they came in."""

from dataclasses import asdict
from datetime import datetime
from typing import Literal, Self

from pydantic import Field

from peewit.service.api.schemas.base import Answer
from peewit.service.inbox.feature_log import FeatureSetRecord, SetMode, SetStatus
from peewit.service.inbox.feature_sets import FeaturesStatus


class FeatureSetOut(Answer):
    """A set of features and what became of it."""

    id: str
    mode: SetMode = Field(description="Replaces all rows, or adds to them.")
    status: SetStatus
    kind: Literal["dense", "sparse"]
    n_rows: int
    n_columns: int = Field(description="Of sparse rows, one more than the largest index.")
    features_version: int | None = Field(description="What the set made; null until then.")
    n_new_nodes: int | None = Field(description="Nodes that came with it.")
    reason: str | None = Field(description="The rule that a refused set breaks.")
    row: int | None = Field(description="The row that breaks it, from 0.")
    value: str | None = Field(description="What stands there.")
    created_at: datetime
    finished_at: datetime | None

    @classmethod
    def of(cls, record: FeatureSetRecord) -> Self:
        """What people see of a set."""
        kind = "sparse" if record.is_sparse else "dense"
        return cls.model_validate({**asdict(record), "kind": kind})


class FeaturesOut(Answer):
    """The features of a graph."""

    features_version: int = Field(description="0 before the first set.")
    kind: Literal["dense", "sparse"] | None
    n_rows: int = Field(description="Nodes that have a row.")
    n_columns: int | None
    n_missing: int = Field(description="Nodes that have none.")
    n_pending: int = Field(description="Sets that wait for ingest.")
    refused: FeatureSetOut | None = Field(description="The last set, if it was refused.")

    @classmethod
    def of(cls, status: FeaturesStatus) -> Self:
        """What people see of them."""
        present = status.present
        return cls(
            features_version=status.features_version,
            kind=None if present is None else "sparse" if present.is_sparse else "dense",
            n_rows=0 if present is None else present.n_rows,
            n_columns=None if present is None else present.n_columns,
            n_missing=status.n_missing,
            n_pending=status.n_pending,
            refused=None if status.refused is None else FeatureSetOut.of(status.refused),
        )
