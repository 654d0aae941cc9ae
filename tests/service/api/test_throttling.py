"""Token buckets, by a clock that the tests set."""

import pytest

from peewit.service.api.throttling import (
    MAX_CALLERS,
    WRONG_KEYS,
    RateLimits,
    TokenBuckets,
    TooManyRequests,
)


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_gives_its_burst_then_its_rate() -> None:
    clock = Clock()
    buckets = TokenBuckets(per_second=2.0, burst=3.0, clock=clock)
    assert [buckets.take("a") for _ in range(3)] == [0.0] * 3
    assert buckets.take("a") == pytest.approx(0.5)
    assert buckets.take("b") == 0.0
    clock.now += 0.5
    assert buckets.take("a") == 0.0
    assert buckets.take("a") == pytest.approx(0.5)
    clock.now += 1000.0
    assert [buckets.take("a") for _ in range(4)][:3] == [0.0] * 3


def test_callers_beyond_memory_are_forgotten() -> None:
    clock = Clock()
    buckets = TokenBuckets(per_second=0.001, burst=1.0, clock=clock)
    for caller in range(MAX_CALLERS + 1):
        assert buckets.take(str(caller)) == 0.0
    assert buckets.take(str(MAX_CALLERS)) > 0.0
    assert buckets.take("0") == 0.0


def test_addresses_of_one_network_share_their_wrong_keys() -> None:
    clock = Clock()
    rates = RateLimits(None, clock=clock)
    for number in range(WRONG_KEYS):
        rates.before_key(f"2001:db8::{number:x}", "wrong")
        rates.note_wrong_key(f"2001:db8::{number:x}")
    with pytest.raises(TooManyRequests) as refused:
        rates.before_key("2001:db8::ffff", "another")
    rates.before_key("2001:db8:0:1::1", "another")
    rates.before_key("192.0.2.1", "another")
    clock.now += refused.value.retry_seconds
    rates.before_key("2001:db8::ffff", "another")


def test_a_key_is_trusted_for_a_while_only() -> None:
    clock = Clock()
    rates = RateLimits(None, clock=clock)
    rates.note_right_key("right")
    for _ in range(10 * WRONG_KEYS):
        rates.note_wrong_key("192.0.2.1")
    rates.before_key("192.0.2.1", "right")
    clock.now += 3600.0
    for _ in range(WRONG_KEYS):
        rates.note_wrong_key("192.0.2.1")
    with pytest.raises(TooManyRequests):
        rates.before_key("192.0.2.1", "right")
