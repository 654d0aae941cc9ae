"""Features of the nodes, and the sets that they came in."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from peewit.service.wire.records import Ongoing, described, record


@record
class FeatureSet(Ongoing):
    """A set of features and what became of it."""

    id: str
    mode: Literal["replace", "add"] = described("Replaces all rows, or adds to them.")
    status: Literal["pending", "committed", "refused"]
    kind: Literal["dense", "sparse"]
    n_rows: int
    n_columns: int = described("Number of columns; in sparse rows one more than the largest index.")
    features_version: int | None = described("What the set made; null until then.")
    n_new_nodes: int | None = described("Nodes that came with it.")
    reason: str | None = described("The rule that a refused set breaks.")
    row: int | None = described("The row that breaks it, from 0.")
    value: str | None = described("What stands there.")
    created_at: datetime
    finished_at: datetime | None
    argument: str | None = described("The column that breaks it.", default=None)
    note: str | None = described(
        "What became of columns, and which describe no node or give the label away.", default=None
    )

    @property
    def is_settled(self) -> bool:
        """Whether it waits for ingest no more."""
        return self.status != "pending"

    @property
    def refusal(self) -> str | None:
        """Which rule its rows break."""
        return (self.reason or "the set was refused") if self.status == "refused" else None

    @property
    def place(self) -> Mapping[str, Any]:
        """Where they break it."""
        return {"argument": self.argument, "row": self.row, "value": self.value}


@record
class Features:
    """The features of a graph."""

    features_version: int = described("0 before the first set.")
    kind: Literal["dense", "sparse"] | None
    n_rows: int = described("Nodes that have a row.")
    n_columns: int | None
    n_missing: int = described("Nodes that have none.")
    n_pending: int = described("Sets that wait for ingest.")
    refused: FeatureSet | None = described("The last set, if it was refused.")
