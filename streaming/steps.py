"""Steps: what a stream does at the moment, told by the work itself as it goes on.

A step is long work with a name. Who is told of one that neither ends nor moves on knows that the
work stands still, which no thread beside it can tell.
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
    """Is told what is done; this one keeps it to itself."""

    def begin(self, step: Step, path: str | None = None) -> None:
        """Note that a step begins, or that the present one moves on where it is the same.

        Parameters
        ----------
        step : Step
            What is done.
        path : str, optional
            The file that it is done with.
        """

    def move_on(self) -> None:
        """Note progress within the present step: a block, an iteration, some mebibytes."""

    def end(self) -> None:
        """Note that nothing is done until the next step begins."""
