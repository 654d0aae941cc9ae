"""Steps: what a stream does at the moment, reported by the work itself as it goes on.

A step is long work with a name. One that neither ends nor moves on stands still, which only reports
from the work itself can show, not a thread beside it.
"""

from typing import Literal

Step = Literal[
    "opening the graph",
    "listing",
    "choosing files",
    "gathering pushes",
    "reading",
    "adding edges",
    "adding features",
    "erasing nodes",
    "expiring edges",
    "retracting",
    "thinning",
    "repairing after deletes",
    "compacting the log",
    "waiting for the cluster",
    "writing a checkpoint",
    "publishing a snapshot",
    "looking for work",
    "cleaning up",
]
"""What ingest can be at."""


class Steps:
    """Receives reports of steps; this base class ignores them."""

    def begin(self, step: Step, path: str | None = None) -> None:
        """Note that a step begins, or moves on where it is the same; ``path`` is its file."""

    def move_on(self) -> None:
        """Note progress within the present step: a block, an iteration, some mebibytes."""

    def end(self) -> None:
        """Note that nothing is done until the next step begins."""
