"""Parts that several calls share: reading answers, pages, and waiting for an end."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeVar
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError

from peewit.service.client.answers import Refusal
from peewit.service.client.errors import ServerFault
from peewit.service.client.exchange import Call, Flow, Item, Request, answered

T = TypeVar("T")

POLL_SECONDS: Final = 20.0
"""Longest single wait: proxies end requests that say nothing for longer than half a minute."""

PAGE_SIZE: Final = 1000

_PROGRESS_SECONDS: Final = 1.0

_ADAPTERS: Final[dict[Any, TypeAdapter[Any]]] = {}
"""Made when the first answer of a kind comes; all of them would cost the import a second."""


def path(*parts: object, verb: str = "") -> str:
    """A path under /v1, with names and ids escaped; a verb stands behind a colon.

    Raises
    ------
    ValueError
        A part is empty, and the path would be another one.
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
        answer: T = _adapter_of(kind).validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        detail = f"the answer must be {kind.__name__}, got {first['msg']} {place}".rstrip()
        raise ServerFault(Refusal(title="Answer not understood", detail=detail)) from error
    return answer


def _adapter_of(kind: Any) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def pages(kind: type[T], name: str, *parts: object, **params: Any) -> Flow[T]:
    """Everything in a list that comes in pages."""
    page: str | None = None
    while True:
        request = get(*parts, **params, page=page, limit=PAGE_SIZE)
        document = yield from read(dict[str, Any], request)
        for each in document[name]:
            yield Item(_adapter_of(kind).validate_python(each))
        page = document["next_page"]
        if page is None:
            return


def until(
    kind: type[T],
    request: Request,
    is_done: Callable[[T], bool],
    *,
    seconds: float | None,
    progress: Callable[[T], None] | None = None,
) -> Call[T]:
    """What a request reads once it is done, or as it stands when time is over.

    Parameters
    ----------
    kind : type
        Of the answers.
    request : Request
        Takes ``?wait=``.
    is_done : callable
        Tells whether an answer will not change any more.
    seconds : float or None
        Longest wait; 0 looks once, None waits for ever.
    progress : callable, optional
        Is shown each answer that differs from the one before; asks about once a second.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    longest = POLL_SECONDS if progress is None else _PROGRESS_SECONDS
    seen: T | None = None
    wait = 0.0
    while True:
        value = yield from read(kind, _with_wait(request, wait))
        if progress is not None and value != seen:
            progress(value)
        remaining = longest if deadline is None else deadline - time.monotonic()
        if is_done(value) or remaining <= 0:
            return value
        seen, wait = value, min(longest, remaining)


def _with_wait(request: Request, seconds: float) -> Request:
    """The same request with ``?wait=``."""
    params = {**request.params, "wait": seconds or None}
    return replace(request, params=params, wait_seconds=seconds)
