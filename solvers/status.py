"""Status of an iterative method: how it ended.

Failing to converge is a result with a status; only wrong input raises.
"""

from enum import Enum


class Status(Enum):
    """How an iterative method ended; the value is the name used in records."""

    CONVERGED = "converged"
    MAX_ITER = "max-iter"
    STAGNATED = "stagnated"
    ILL_CONDITIONED = "ill-conditioned"
    CANCELLED = "cancelled"

    @property
    def message(self) -> str:
        """One sentence about what happened."""
        return _MESSAGES[self]

    @property
    def advice(self) -> str:
        """What to try next; empty if nothing is wrong."""
        return _ADVICE[self]


def first_failure(*statuses: Status) -> Status:
    """The first status that is not converged, or converged."""
    return next((status for status in statuses if status is not Status.CONVERGED), Status.CONVERGED)


_MESSAGES = {
    Status.CONVERGED: "the accuracy or the stop rule asked for was reached",
    Status.MAX_ITER: "the iteration limit was reached before the residual asked for",
    Status.STAGNATED: "the residual stopped falling before it reached the one asked for",
    Status.ILL_CONDITIONED: "weights lie so far apart that rounding decides some of the scores",
    Status.CANCELLED: "the run was cancelled",
}
_ADVICE = {
    Status.CONVERGED: "",
    Status.MAX_ITER: "raise max_iter; or try another preconditioner for a Laplacian system",
    Status.STAGNATED: "raise rtol or penalties, use float64, or narrow the range of weights",
    Status.ILL_CONDITIONED: "narrow the range of weights: leave out the lightest edges, cap the "
    "heaviest, or take hfs with graph_penalty 0, which such weights harm least",
    Status.CANCELLED: "submit the run again; a start from the returned scores resumes it",
}
