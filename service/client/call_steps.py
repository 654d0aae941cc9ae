"""Exchange of a call: its steps as values, without a socket, a clock or a thread.

A call is a generator. It yields steps and is sent what they came to; what it returns is the call's
answer. `peewit.service.client.blocking_client` and `peewit.service.client.async_client` carry steps
out, each in its way, and decide nothing. All else (paths, retries, errors, reading answers) is
written once, here and in `peewit.service.client.calls`.
"""

import random
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeAlias, TypeVar

import httpx

from peewit.service.client.errors import (
    PeewitError,
    RateLimited,
    ServerUnavailable,
    error_of,
    unreachable,
)

T = TypeVar("T")

_NEVER_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often and how soon a call that may be repeated is repeated.

    The pause doubles with each try, up to the longest. A server that wants a longer one
    (``Retry-After``) is not tried again.
    """

    n_retries: int = 4
    first_pause_seconds: float = 0.25
    longest_pause_seconds: float = 60.0

    def pause_seconds(self, n_failed: int, wished: float | None) -> float | None:
        """How long to wait after so many failures; None to give up."""
        if n_failed > self.n_retries:
            return None
        if wished is not None and wished > self.longest_pause_seconds:
            return None
        longest = min(self.first_pause_seconds * 2 ** (n_failed - 1), self.longest_pause_seconds)
        # Half of it at random, so that clients that failed together do not come back together.
        drawn = random.uniform(longest / 2, longest)  # noqa: S311 (no secret)
        return drawn if wished is None else max(wished, drawn)


class Body:
    """Bytes to send, made anew for each try.

    ``pieces`` begins the bytes, once per try; where they can be had only once, ``is_repeatable`` is
    False.
    """

    def __init__(
        self,
        media_type: str,
        pieces: Callable[[], Iterable[bytes]],
        *,
        n_bytes: int | None = None,
        is_repeatable: bool = True,
        encoding: str | None = None,
    ) -> None:
        self.media_type = media_type
        self._encoding = encoding
        self._pieces = pieces
        self._n_bytes = n_bytes
        self._is_repeatable = is_repeatable
        self._is_begun = False

    @property
    def headers(self) -> dict[str, str]:
        """Type, and where it is so, packing and length."""
        length = {} if self._n_bytes is None else {"Content-Length": str(self._n_bytes)}
        packed = {} if self._encoding is None else {"Content-Encoding": self._encoding}
        return {"Content-Type": self.media_type, **packed, **length}

    @property
    def can_be_sent(self) -> bool:
        """False once the only copy has been taken."""
        return self._is_repeatable or not self._is_begun

    def pieces(self) -> Generator[bytes]:
        """The bytes, from their beginning."""
        self._is_begun = True
        yield from self._pieces()

    async def pieces_between_turns(self) -> AsyncGenerator[bytes]:
        """The same for an event loop, which turns between two pieces."""
        for piece in self.pieces():
            yield piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A step: send this; what comes back is an `Answer`.

    The path is escaped already; None among params or headers leaves one out, and ``body`` is sent
    in place of ``json``. ``wait_seconds`` is how long the server may take beyond the usual.
    ``is_repeatable`` says that sending it twice does no more than sending it once, and
    ``is_streamed`` that the body of a success is left for `NextPiece`.
    """

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str | None] = field(default_factory=dict)
    json: object = None
    body: Body | None = None
    wait_seconds: float = 0.0
    is_repeatable: bool = False
    is_streamed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a request came to; ``content`` is empty while the body is left for `NextPiece`."""

    status: int
    headers: httpx.Headers
    content: bytes


class NextPiece:
    """A step: read on in the last answer; what comes back is bytes, or None at its end."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A step: do nothing for some seconds."""

    seconds: float


class AskRetries:
    """A step for `Steps` itself: what comes back is the client's `Retries`."""


@dataclass(frozen=True, slots=True)
class Item(Generic[T]):
    """A step of a `Flow`: hand this on to the caller."""

    value: T


Errand: TypeAlias = Request | NextPiece | Pause
"""A step that the client carries out."""

Step: TypeAlias = Errand | AskRetries

Call: TypeAlias = Generator[Step, Any, T]
"""A call with one answer."""

Flow: TypeAlias = Generator[Step | Item[T], Any, None]
"""A call with any number of answers, one after another."""


def answered(request: Request) -> Call[Answer]:
    """The answer to a request, whole and a success, after as many tries as are allowed."""
    return (yield from repeated(request, lambda: once(request)))


def once(request: Request) -> Call[Answer]:
    """The answer to a request that is sent once; raises what the server says is wrong."""
    answer: Answer = yield request
    if answer.status >= 300 and answer.status != httpx.codes.NOT_MODIFIED:
        raise error_of(answer.status, answer.headers, answer.content)
    return answer


def repeated(request: Request, attempt: Callable[[], Call[T]]) -> Call[T]:
    """What an attempt returns that may break off, after as many as are allowed.

    The last attempt's error is raised; attempts that would fail again are not repeated.
    """
    retries: Retries = yield AskRetries()
    n_failed = 0
    while True:
        try:
            return (yield from attempt())
        except httpx.HTTPError as error:
            failure: PeewitError = unreachable(error)
            failure.__cause__ = error
            may_repeat = request.is_repeatable or isinstance(error, _NEVER_SENT)
        except RateLimited as error:
            failure, may_repeat = error, True  # the server has taken nothing
        except ServerUnavailable as error:
            failure, may_repeat = error, request.is_repeatable
        n_failed += 1
        can_be_sent = request.body is None or request.body.can_be_sent
        pause = retries.pause_seconds(n_failed, failure.retry_after)
        if not may_repeat or not can_be_sent or pause is None:
            raise failure
        yield Pause(pause)


class Steps(Generic[T]):
    """A call that is being carried out; it has an `answer` once it has ended."""

    answer: T

    def __init__(self, call: Call[T] | Flow[T], retries: Retries) -> None:
        self._generator: Generator[Step | Item[Any], Any, Any] = call
        self._retries = retries

    def after(self, outcome: object, error: httpx.HTTPError | None) -> Errand | Item[Any] | None:
        """The step that follows what the last one came to; None at the end."""
        try:
            if error is not None:
                step = self._generator.throw(error)
            else:
                step = self._generator.send(outcome)
            while isinstance(step, AskRetries):
                step = self._generator.send(self._retries)
            return step
        except StopIteration as end:
            self.answer = end.value
            return None

    def close(self) -> None:
        """Let the call put away what it holds, wherever it is."""
        self._generator.close()
