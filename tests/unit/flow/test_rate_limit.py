"""What the two counters of a limit say: how much is used, when it is free again."""

from __future__ import annotations

from dataclasses import replace

import fakeredis
import pytest
import redis

from app.errors import RateLimitExceeded
from app.flow.rate_limit import LimitTooSmall, RateLimits, Standing, Window
from app.services.keys import DEV_KEY


class Watch:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.seen: list[Standing] = []
        self.missed = 0

    def stands(self, standing: Standing) -> None:
        self.seen.append(standing)

    def unchecked(self) -> None:
        self.missed += 1


@pytest.fixture
def client() -> fakeredis.FakeRedis:
    return fakeredis.FakeRedis(decode_responses=True)


@pytest.mark.parametrize(
    ("window", "used", "reset"),
    [
        (Window(0, 0, 0, 0), 0, 0),
        (Window(0, 0, 7, 110), 7, 110),
        (Window(10, 30, 0, 0), 5, 30),
        (Window(10, 6, 3, 66), 4, 66),
    ],
)
def test_the_minute_before_counts_for_what_is_left_of_it(window: Window, used: int, reset: float) -> None:
    assert (window.used, window.reset_seconds) == (used, reset)


@pytest.mark.parametrize(
    "window", [Window(10, 30, 0, 0), Window(10, 45, 3, 105), Window(0, 0, 10, 120), Window(7, 1, 10, 61)]
)
@pytest.mark.parametrize("free", [0, 3, 9])
def test_after_the_wait_it_is_free_and_not_much_before(window: Window, free: int) -> None:
    wait = window.wait_for(free)
    assert later(window, wait + 0.001).used <= free
    if wait:
        assert later(window, wait - 0.01).used > free


def later(window: Window, seconds: float) -> Window:
    """The counters after some time without requests, as the library keeps them."""
    if not window.current or seconds < window.current_left - 60:
        left = max(0.0, window.previous_left - seconds)
        return replace(window, previous_left=left, current_left=max(0.0, window.current_left - seconds))
    return Window(window.current, max(0.0, window.current_left - seconds), 0, 0)


def never() -> bool:
    """A request that repeats nothing."""
    return False


def test_a_key_without_limits_costs_nothing(client: fakeredis.FakeRedis) -> None:
    watch = Watch()
    RateLimits(client, watch).charge(DEV_KEY, 1_000_000, repeats=never)
    assert (client.keys("*"), watch.seen) == ([], [])


def test_requests_and_tokens_are_counted_until_they_are_used_up(client: fakeredis.FakeRedis) -> None:
    watch = Watch()
    limits = RateLimits(client, watch)
    key = replace(DEV_KEY, requests_per_minute=3, tokens_per_minute=100)
    limits.charge(key, 60, repeats=never)
    assert [(s.kind, s.limit, s.remaining) for s in watch.seen] == [("requests", 3, 2), ("tokens", 100, 40)]
    with pytest.raises(RateLimitExceeded) as caught:
        limits.charge(key, 60, repeats=never)
    assert (caught.value.retryable, 0 < (caught.value.retry_after or 0) <= 120) == (True, True)
    limits.charge(key, 40, repeats=never)
    with pytest.raises(RateLimitExceeded, match="3 requests a minute"):
        limits.charge(key, 1, repeats=never)
    assert all(0 < client.pttl(name) <= 120_000 for name in client.keys("ph:limit:*"))


def test_one_key_does_not_use_up_anothers_limit(client: fakeredis.FakeRedis) -> None:
    limits = RateLimits(client)
    for name in ("a", "b"):
        limits.charge(replace(DEV_KEY, id=name, requests_per_minute=1), 1, repeats=never)


def test_a_request_above_the_whole_limit_is_not_to_be_repeated(client: fakeredis.FakeRedis) -> None:
    with pytest.raises(LimitTooSmall) as caught:
        RateLimits(client).charge(replace(DEV_KEY, tokens_per_minute=10), 11, repeats=never)
    assert (caught.value.retryable, caught.value.retry_after, caught.value.code) == (False, None, "rate_limit_exceeded")


@pytest.mark.parametrize("error", [redis.TimeoutError, redis.ConnectionError, redis.ResponseError, OSError])
def test_without_redis_everything_passes_and_is_counted(
    client: fakeredis.FakeRedis, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    watch = Watch()
    limits = RateLimits(client, watch)

    def away(*_: object, **__: object) -> bool:
        raise error("away")

    monkeypatch.setattr(limits._limiter, "hit", away)
    limits.charge(replace(DEV_KEY, requests_per_minute=1), 1, repeats=never)
    assert (watch.missed, watch.seen) == (1, [])


def test_a_repetition_needs_no_tokens(client: fakeredis.FakeRedis) -> None:
    limits = RateLimits(client)
    key = replace(DEV_KEY, tokens_per_minute=100)
    assert limits.charge(key, 60, repeats=never) == 60
    assert limits.charge(key, 60, repeats=lambda: True) == 0
    assert limits.charge(key, 101, repeats=lambda: True) == 0
    assert limits.charge(key, 40, repeats=never) == 40


def test_a_repetition_is_a_request_like_any_other(client: fakeredis.FakeRedis) -> None:
    limits = RateLimits(client)
    key = replace(DEV_KEY, requests_per_minute=1)
    limits.charge(key, 1, repeats=never)
    with pytest.raises(RateLimitExceeded, match="1 requests a minute"):
        limits.charge(key, 1, repeats=lambda: True)


def test_what_is_given_back_can_be_used_again_and_the_request_stays_counted(client: fakeredis.FakeRedis) -> None:
    watch = Watch()
    limits = RateLimits(client, watch)
    key = replace(DEV_KEY, requests_per_minute=5, tokens_per_minute=100)
    limits.give_back(key, limits.charge(key, 90, repeats=never))
    assert [(s.kind, s.remaining) for s in watch.seen] == [("requests", 4), ("tokens", 10), ("tokens", 100)]
    assert limits.charge(key, 100, repeats=never) == 100


def test_no_more_is_given_back_than_the_minute_holds(client: fakeredis.FakeRedis) -> None:
    limits = RateLimits(client)
    key = replace(DEV_KEY, tokens_per_minute=100)
    limits.give_back(key, 50)
    assert client.keys("*") == []
    limits.charge(key, 10, repeats=never)
    limits.give_back(key, 50)
    limits.charge(key, 100, repeats=never)
    with pytest.raises(RateLimitExceeded):
        limits.charge(key, 1, repeats=never)
    assert all(0 < client.pttl(name) <= 120_000 for name in client.keys("*"))
