"""Cache of what was read from the database, valid until something is committed.

A server answers thousands of small requests a second from the same few rows: a key, a graph, its
newest job. Asking whether a commit has come in between is far cheaper than reading the rows. So an
answer from here is never older than the request that it is for.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from time import monotonic
from typing import Any, Final, TypeVar, cast

from peewit.service.database.engine import Database
from peewit.service.database.revision import Revision

MAX_AGE_SECONDS: Final = 30.0
"""Nothing is kept longer, so that writes of a load (the last use of a key) happen."""

_MAX_VALUES: Final = 4096
_NOTHING: Final = object()
_Value = TypeVar("_Value")

_arrival: ContextVar[float | None] = ContextVar("arrival", default=None)


@contextmanager
def arriving() -> Iterator[None]:
    """Mark the start of a request: it may be answered from what was read since then."""
    token = _arrival.set(monotonic())
    try:
        yield
    finally:
        _arrival.reset(token)


class Recent:
    """Cached values by key, read from the database alone; any number of threads may ask."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = Lock()
        self._revisions = Revision(database)
        self._revision: object = None
        self._looked_at = float("-inf")
        self._began_at = float("-inf")
        self._values: dict[Hashable, Any] = {}

    def get(self, key: Hashable, load: Callable[[], _Value]) -> _Value:
        """The value of a key, loaded unless it is known.

        The key says all that ``load`` depends on besides the database. What ``load`` raises is not
        kept.
        """
        values = self._present()
        value = values.get(key, _NOTHING)
        if value is _NOTHING:
            # A commit from now on changes the revision, so these values no longer count.
            value = load()
            if len(values) >= _MAX_VALUES:
                values.clear()
            values[key] = value
        return cast("_Value", value)

    def is_cached(self, key: Hashable) -> bool:
        """Whether `get` would answer at once, without waiting for the database."""
        arrived_at = _arrival.get()
        is_checked = arrived_at is not None and self._looked_at >= arrived_at
        if not (is_checked or self._database.is_sqlite):
            return False
        return key in self._present()

    def close(self) -> None:
        """Forget everything and close the connection."""
        with self._lock:
            self._values = {}
            self._looked_at = float("-inf")
            self._revisions.close()

    def _present(self) -> dict[Hashable, Any]:
        """The values that hold now, or held when the request of this context was on its way."""
        arrived_at = _arrival.get()
        with self._lock:
            asked_at = monotonic()
            if arrived_at is None or self._looked_at < arrived_at:
                revision = self._revisions.present()
                self._looked_at = asked_at
                if revision != self._revision or asked_at - self._began_at > MAX_AGE_SECONDS:
                    self._revision, self._values, self._began_at = revision, {}, asked_at
            return self._values
