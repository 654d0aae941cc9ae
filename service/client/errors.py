"""Errors of calls, as exceptions whose class says what a caller can do about it.

PeewitError
  ├── InvalidArgument            something in the call breaks a rule (400, 406, 413, 415, 422)
  │     ├── BodyTooLarge         send it in pieces
  │     ├── UnknownNodes         labels of nodes that the graph does not know
  │     └── DoesNotFit           a solve that the server has no memory for
  ├── Unauthorized               the key is missing, unknown or revoked (401)
  ├── Forbidden                  the key is not for this (403)
  ├── NotFound                   (404)
  │     ├── GraphNotFound, JobNotFound, PredictionsNotFound
  │     └── NodeNotFound         unknown, newer than the snapshot, or of a kind without predictions
  ├── Conflict                   what is there excludes what was asked (409)
  │     ├── GraphExists
  │     └── NotYet               no snapshot, no features, a job that has not succeeded
  ├── RateLimited                too much waits already (429)
  ├── ServerUnavailable          not now (502, 503, 504)
  │     └── ServerUnreachable    no answer, or half of one
  ├── ServerFault                any other 5xx: its log says why
  ├── JobFailed                  a job that was waited for has failed
  ├── JobCancelled               it was cancelled, or replaced by a newer one
  └── StillWaiting               the time to wait is over; the work goes on
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import httpx

from peewit.service.client.further_answers import Refusal, record_of
from peewit.service.wire.jobs import Job

_TYPE_PREFIX: Final = "urn:peewit:problem:"
_MAX_SHOWN: Final = 200


class PeewitError(Exception):
    """A call that did not do what it was asked.

    Parameters
    ----------
    refusal : Refusal
        What the server, or in its place the client, says of it.
    request_id : str, optional
        The server's name for the request, where it gives one (``X-Request-ID``).
    retry_after : float, optional
        Seconds after which the server says another try has a chance.

    Attributes
    ----------
    status : int or None
        HTTP status; None where there was no answer, or where the call did not fail but its job.
    type, title, detail : str
        Kind of the problem, as an identifier and in words, and what is wrong this time.
    argument, rule, value : str or None
        What breaks which rule, and what stands there.
    row : int or None
        Row of the table that was sent, from 0.
    """

    def __init__(
        self, refusal: Refusal, *, request_id: str | None = None, retry_after: float | None = None
    ) -> None:
        # Not super().__init__(): `args` stay what the error was made from, which pickle needs.
        self.refusal = refusal
        self.request_id = request_id
        self.retry_after = retry_after
        self.status = refusal.status
        self.type = refusal.type
        self.title = refusal.title
        self.detail = refusal.detail
        self.argument = refusal.argument
        self.rule = refusal.rule
        self.value = refusal.value
        self.row = refusal.row

    def __str__(self) -> str:
        status = "" if self.status is None else f" ({self.status})"
        request = "" if self.request_id is None else f" [request {self.request_id}]"
        return f"{self.title}{status}: {self.detail}{request}"


class InvalidArgument(PeewitError):
    """Something in the call breaks a rule; ``argument``, ``rule``, ``value``, ``row`` say which."""


class BodyTooLarge(InvalidArgument):
    """The table is larger than the server takes at once; send it in pieces."""


class UnknownNodes(InvalidArgument):
    """Labels of nodes that the graph does not know; none of the call was taken.

    ``refusal.refused`` names the first of them, ``refusal.n_refused`` counts all.
    """


class DoesNotFit(InvalidArgument):
    """A solve that the server has no memory for; ``detail`` says what would do."""


class Unauthorized(PeewitError):
    """The key is missing, unknown, wrong or revoked."""


class Forbidden(PeewitError):
    """The key lacks the scope for this."""


class NotFound(PeewitError):
    """Nothing of this name is there."""


class GraphNotFound(NotFound):
    """No graph has this name."""


class JobNotFound(NotFound):
    """No job has this id."""


class PredictionsNotFound(NotFound):
    """Nothing has been predicted yet, or not by this model."""


class NodeNotFound(NotFound):
    """The graph does not know the node, or not since before the snapshot."""


class Conflict(PeewitError):
    """What is there excludes what was asked."""


class GraphExists(Conflict):
    """Another graph has the name."""


class NotYet(Conflict):
    """Something has to be there first: a snapshot, features, a job that succeeded."""


class RateLimited(PeewitError):
    """Too much waits already; try again after ``retry_after`` seconds."""


class ServerUnavailable(PeewitError):
    """The server, or what stands before it, cannot answer now."""


class ServerUnreachable(ServerUnavailable):
    """There was no answer, or it broke off."""


class ServerFault(PeewitError):
    """The server failed; its log says why."""


class JobFailed(PeewitError):
    """A job that was waited for has failed; ``job.error`` says why."""

    def __init__(self, job: Job) -> None:
        reason = job.error or f"the job ended as {job.status}"
        super().__init__(Refusal(title=f"Job {job.id} {job.status}", detail=reason))
        self.job = job


class JobCancelled(JobFailed):
    """It was cancelled, or replaced by a newer job that covers it."""


class StillWaiting(PeewitError, TimeoutError):
    """The time to wait is over; what was asked for goes on."""

    def __init__(self, what: str, seconds: float) -> None:
        detail = f"{what} has not ended within {seconds:g} s; it goes on"
        super().__init__(Refusal(title="Still waiting", detail=detail))
        self.args = what, seconds  # OSError, which TimeoutError is, takes none from __new__


_OF_TYPE: Final[Mapping[str, type[PeewitError]]] = {
    "body-too-large": BodyTooLarge,
    "unknown-nodes": UnknownNodes,
    "does-not-fit-the-memory": DoesNotFit,
    "graph-not-found": GraphNotFound,
    "job-not-found": JobNotFound,
    "predictions-not-found": PredictionsNotFound,
    "node-not-found": NodeNotFound,
    "node-newer-than-snapshot": NodeNotFound,
    "node-of-a-kind-without-predictions": NodeNotFound,
    "graph-exists": GraphExists,
    "no-snapshot-yet": NotYet,
    "no-features-yet": NotYet,
    "job-has-not-succeeded": NotYet,
}
_OF_STATUS: Final[Mapping[int, type[PeewitError]]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: BodyTooLarge,
    429: RateLimited,
    502: ServerUnavailable,
    503: ServerUnavailable,
    504: ServerUnavailable,
}


def error_of(status: int, headers: Mapping[str, str], content: bytes) -> PeewitError:
    """The exception for an answer that is no success; what a proxy sends becomes one, too."""
    try:
        refusal = record_of(Refusal, content)
    except ValueError:
        text = content[:_MAX_SHOWN].decode("utf-8", "replace").strip()
        refusal = Refusal(title=f"HTTP {status}", detail=text or "the answer is empty")
    return error_class(status, refusal.type)(
        replace(refusal, status=status),
        request_id=headers.get("x-request-id"),
        retry_after=_seconds(headers.get("retry-after")),
    )


def error_class(status: int, problem_type: str) -> type[PeewitError]:
    """The class for an HTTP status and the type of a problem."""
    error = _OF_TYPE.get(problem_type.removeprefix(_TYPE_PREFIX)) or _OF_STATUS.get(status)
    if error is not None:
        return error
    return InvalidArgument if 400 <= status < 500 else ServerFault


def unreachable(error: httpx.HTTPError) -> ServerUnreachable:
    """The exception for an answer that did not come, or broke off."""
    reason = str(error) or type(error).__name__
    return ServerUnreachable(Refusal(title="Server unreachable", detail=reason))


def _seconds(retry_after: str | None) -> float | None:
    """Dates, which only proxies send, are left to the usual pause."""
    return float(retry_after) if retry_after is not None and retry_after.isdecimal() else None
