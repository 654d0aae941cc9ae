"""Rate limit of each caller: token buckets in the memory of this process.

Several API processes count separately, which multiplies a caller's rate. Health and readiness are
never counted, as they ask for no key.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from ipaddress import IPv6Address, ip_network
from ipaddress import ip_address as parsed_address
from typing import Final

from peewit.streaming.problems import Problem

MAX_CALLERS: Final = 10_000
"""Callers that are remembered; the one silent for longest is forgotten first."""

WRONG_KEYS: Final = 10
"""Wrong keys in a row that one address may try at once."""

WRONG_KEYS_PER_SECOND: Final = 0.2
"""Wrong keys per second after that."""

KEYLESS: Final = 100
"""Refused calls without a key that one address may make at once."""

KEYLESS_PER_SECOND: Final = 10.0
"""Calls per second after that."""

_BURST_SECONDS: Final = 2.0
_TRUSTED_SECONDS: Final = 600.0


class TooManyRequests(Problem, RuntimeError):
    """The caller is over its rate limit."""

    status = 429
    title = "Too many requests"

    def __init__(self, rule: str, retry_seconds: float) -> None:
        super().__init__(f"{rule}; try again in {retry_seconds:.1f} seconds")
        self.retry_seconds = retry_seconds


class TooBusy(Problem, RuntimeError):
    """All callers together ask for more than this process takes on at a time."""

    status = 503
    title = "Too busy"

    def __init__(self, rule: str, retry_seconds: float) -> None:
        super().__init__(f"{rule}; try again in {retry_seconds:g} seconds")
        self.retry_seconds = retry_seconds


class TokenBuckets:
    """A bucket of tokens for each caller, refilled at ``per_second`` up to ``burst``.

    ``clock`` is monotonic, in seconds; ``burst`` is at least 1.
    """

    def __init__(self, per_second: float, burst: float, clock: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = max(burst, 1.0)
        self._clock = clock
        self._lock = threading.Lock()
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_seconds(self, caller: str) -> float:
        """Seconds until the caller has a token; 0 when it has one."""
        with self._lock:
            return max((1.0 - self._tokens(caller)) / self._per_second, 0.0)

    def take(self, caller: str) -> float:
        """Take a token and return 0, or return the seconds until there is one."""
        with self._lock:
            tokens = self._tokens(caller)
            if tokens < 1.0:
                return (1.0 - tokens) / self._per_second
            self._left[caller] = tokens - 1.0, self._clock()
            self._left.move_to_end(caller)
            if len(self._left) > MAX_CALLERS:
                self._left.popitem(last=False)
            return 0.0

    def _tokens(self, caller: str) -> float:
        left, since = self._left.get(caller, (self._burst, self._clock()))
        return min(self._burst, left + (self._clock() - since) * self._per_second)


class RateLimits:
    """Rate limits of one API process.

    ``per_second`` are the requests of one key, or of one address without a key; twice as many may
    come at once, and None counts nothing.
    """

    def __init__(
        self, per_second: float | None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._per_second = per_second
        self._calls = (
            None
            if per_second is None
            else TokenBuckets(per_second, per_second * _BURST_SECONDS, clock)
        )
        self._failures = TokenBuckets(WRONG_KEYS_PER_SECOND, WRONG_KEYS, clock)
        self._keyless = TokenBuckets(KEYLESS_PER_SECOND, KEYLESS, clock)
        self._trusted: OrderedDict[bytes, float] = OrderedDict()
        self._lock = threading.Lock()

    def admit(self, caller: str) -> None:
        """Count a call; raises `TooManyRequests`."""
        if self._calls is None:
            return
        seconds = self._calls.take(caller)
        if seconds:
            raise TooManyRequests(
                f"PEEWIT_RATE_LIMIT must be kept, of {self._per_second:g} requests per second of "
                f"one key or address, got more of {caller}",
                seconds,
            )

    def note_missing_key(self, address: str) -> None:
        """Count a call that is refused for want of a key; raises `TooManyRequests`."""
        seconds = self._keyless.take(network_of(address))
        if seconds:
            raise TooManyRequests(
                f"calls must have a key, got more than {KEYLESS} without one from this address",
                seconds,
            )

    def before_key(self, address: str, key: str) -> None:
        """Raise `TooManyRequests` for an address that has sent too many wrong keys.

        A key that was right a few minutes ago passes: others behind the same address must not lock
        it out.
        """
        seconds = self._failures.wait_seconds(network_of(address))
        if seconds and not self._is_trusted(key):
            raise TooManyRequests(
                f"keys must be right, got more than {WRONG_KEYS} wrong ones from this address",
                seconds,
            )

    def note_wrong_key(self, address: str) -> None:
        """Count a wrong key."""
        self._failures.take(network_of(address))

    def note_right_key(self, key: str) -> None:
        """Remember the hash of a right key for a while."""
        with self._lock:
            self._trusted[digest_of(key)] = self._clock()
            self._trusted.move_to_end(digest_of(key))
            if len(self._trusted) > MAX_CALLERS:
                self._trusted.popitem(last=False)

    def _is_trusted(self, key: str) -> bool:
        with self._lock:
            seen_at = self._trusted.get(digest_of(key))
        return seen_at is not None and self._clock() - seen_at < _TRUSTED_SECONDS


def digest_of(key: str) -> bytes:
    """Hash by which a key or a cookie is remembered; it may hold half of a surrogate pair."""
    return sha256(key.encode("utf-8", "surrogatepass")).digest()


def network_of(address: str) -> str:
    """Network of one caller's addresses: the /64 of an IPv6 address, else the address."""
    try:
        parsed = parsed_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(ip_network((int(parsed), 64), strict=False))
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)
