"""Parts that several calls share: reading answers, pages, and waiting for an end."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import quote

import httpx

from peewit.service.client.call_steps import Call, Flow, Item, Request, answered
from peewit.service.client.errors import JobCancelled, PeewitError, ServerFault, StillWaiting
from peewit.service.client.further_answers import Refusal, record_of
from peewit.service.wire.jobs import Job
from peewit.service.wire.records import Ongoing


class _Page(Protocol):
    @property
    def next_page(self) -> str | None: ...


T = TypeVar("T")
P = TypeVar("P", bound=_Page)
S = TypeVar("S", bound=Ongoing)

Refused = tuple[type[PeewitError], str]
"""Error in place of an answer that has a refusal, and its title."""

POLL_SECONDS: Final = 20.0
"""Longest single wait: proxies end requests that say nothing for longer than half a minute."""

PAGE_SIZE: Final = 1000

_PROGRESS_SECONDS: Final = 1.0


def path(*parts: object, verb: str = "") -> str:
    """A path under /v1, with names and ids escaped; a verb stands behind a colon.

    An empty part is refused, as the path would be another one.
    """
    names = [quote(str(part), safe="") for part in parts]
    if any(name in {"", ".", ".."} for name in names):
        raise ValueError(f"names and ids must not be empty, '.' or '..', got {parts!r}")
    return "/".join(["/v1", *names]) + (verb and f":{verb}")


def get(*parts: object, **params: Any) -> Request:
    """A request that reads; parameters that are None are left out."""
    return Request(method="GET", path=path(*parts), params=params, is_repeatable=True)


def read(kind: type[T], request: Request) -> Call[T]:
    """The answer to a request, as a record."""
    return parsed(kind, (yield from answered(request)).content)


def parsed(kind: type[T], content: bytes) -> T:
    """A record from JSON; raises `ServerFault` where it is none."""
    try:
        return record_of(kind, content)
    except ValueError as error:
        detail = f"the answer must be {kind.__name__}, got {error}"
        raise ServerFault(Refusal(title="Answer not understood", detail=detail)) from error


def taken(answer: S, refused: Refused | None) -> S:
    """The answer, unless what was asked for will not come about."""
    if refused is None or answer.refusal is None:
        return answer
    error, title = refused
    said = {"detail": answer.refusal, "rule": answer.refusal, **answer.place}
    raise error(Refusal(title=title, **said))


def pages(
    kind: type[P], entries: Callable[[P], Iterable[T]], /, *parts: object, **params: Any
) -> Flow[T]:
    """All entries of a list that comes in pages."""
    number: str | None = None
    while True:
        request = get(*parts, **params, page=number, limit=PAGE_SIZE)
        page = yield from read(kind, request)
        for each in entries(page):
            yield Item(each)
        number = page.next_page
        if number is None:
            return


def is_settled(answer: Any) -> bool:
    """Whether an `Ongoing` answer will change no more."""
    return bool(answer.is_settled)


def plain(value: datetime | str) -> str:
    """A time as JSON takes it."""
    return value if isinstance(value, str) else value.isoformat()


def settled(
    kind: type[S],
    request: Request,
    follow: Callable[[S], Request],
    *,
    seconds: float | None,
    refused: Refused | None = None,
) -> Call[S]:
    """The answer to a request once it is settled, by what tells how it goes on."""
    first = taken((yield from read(kind, request)), refused)
    if seconds == 0 or first.is_settled:
        return first
    later = yield from until(kind, follow(first), seconds=seconds)
    return taken(later, refused).since(first)


def until(
    kind: type[T],
    request: Request,
    is_done: Callable[[T], bool] = is_settled,
    *,
    seconds: float | None,
    progress: Callable[[T], None] | None = None,
) -> Call[T]:
    """What a request reads once it is done, or as it stands when time is over.

    The answer has come when ``is_done``. ``seconds`` of 0 look once, None waits for ever.
    ``progress`` is shown each answer that differs from the one before; it asks about once a second.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    longest = POLL_SECONDS if progress is None else _PROGRESS_SECONDS
    seen: T | None = None
    wait = 0.0
    while True:
        value = yield from read(kind, with_wait(request, wait))
        if progress is not None and value != seen:
            progress(value)
        remaining = longest if deadline is None else deadline - time.monotonic()
        if is_done(value) or remaining <= 0:
            return value
        seen, wait = value, min(longest, remaining)


def after_job(kind: type[T], request: Request, *, seconds: float | None) -> Call[T]:
    """What a request reads once the job has ended that the server answers in its place."""
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        left = POLL_SECONDS if deadline is None else max(deadline - time.monotonic(), 0.0)
        wait = min(POLL_SECONDS, left)
        answer = yield from answered(with_wait(request, wait))
        if answer.status != httpx.codes.ACCEPTED:
            return parsed(kind, answer.content)
        job = parsed(Job, answer.content)
        if job.status == "cancelled":
            raise JobCancelled(job)
        if wait <= 0:
            raise StillWaiting(f"job {job.id}", seconds or 0.0)


def with_wait(request: Request, seconds: float) -> Request:
    """The same request with ``?wait=``."""
    params = {**request.params, "wait": seconds or None}
    return replace(request, params=params, wait_seconds=seconds)
