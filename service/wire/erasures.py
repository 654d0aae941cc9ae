"""Erasures of nodes."""

from datetime import datetime
from typing import Literal

from peewit.service.wire.records import Ongoing, described, record


@record
class SourcesHolding:
    """Files of sources, which stay as they are: they are not ours."""

    holding: list[str] = described("Files that still hold one of the nodes.")
    unread: list[str] = described("Files that could not be looked through.")


@record
class Erasure(Ongoing):
    """Nodes that are to be forgotten, without their names."""

    id: str
    n_nodes: int = described("Nodes that were named.")
    n_known: int = described("Those of them that the graph knew.")
    status: Literal["hidden", "erased"] = described(
        "hidden: no answer shows the nodes any more. erased: no file of the graph holds them."
    )
    created_at: datetime
    erase_by: datetime = described("Until when files are to be overwritten.")
    erased_at: datetime | None
    sources: SourcesHolding | None = described("Known once the nodes are erased.")

    @property
    def is_settled(self) -> bool:
        """Whether the nodes are erased."""
        return self.status == "erased"


@record
class ErasureList:
    """Erasures of a graph, newest first."""

    erasures: list[Erasure]
