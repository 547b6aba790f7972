"""Whatever the store does, callers see one kind of failure, and the breaker learns what it should."""

from __future__ import annotations

import pytest
import redis

from cache.breaker import BreakerState
from cache.errors import StoreUnavailable
from cache.guard import GuardedStore
from tests.support.caches import AWAY, Clock, Faulty, Watch, key


class Case:
    def __init__(self) -> None:
        self.clock, self.watch = Clock(), Watch()
        self.store = Faulty(monotonic=self.clock)
        self.guarded = GuardedStore(self.store, monotonic=self.clock, observer=self.watch)

    def fails(self, fault: BaseException | None) -> None:
        self.store.fault = fault
        with pytest.raises(StoreUnavailable):
            self.guarded.get(key())


@pytest.fixture
def case() -> Case:
    return Case()


@pytest.mark.parametrize(
    "fault", [AWAY, redis.ConnectionError("x"), redis.BusyLoadingError("x"), ConnectionRefusedError(), TimeoutError()]
)
def test_no_reply_opens_the_breaker_and_then_nobody_asks(case: Case, fault: Exception) -> None:
    for _ in range(3):
        case.fails(fault)
    for _ in range(5):
        case.fails(fault)
    assert case.store.calls == 3
    assert case.watch.failures == [("get", type(fault).__name__)] * 3
    assert case.watch.states == [BreakerState.OPEN]


@pytest.mark.parametrize(
    "fault",
    [
        redis.exceptions.OutOfMemoryError("x"), redis.ReadOnlyError("x"), redis.ResponseError("x"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x"),
    ],
)  # fmt: skip
def test_an_error_that_comes_at_once_is_no_reason_to_stop_asking(case: Case, fault: Exception) -> None:
    for _ in range(10):
        case.fails(fault)
    assert case.store.calls == 10
    assert len(case.watch.failures) == 10
    assert case.watch.states == []


def test_all_is_well_again_after_one_good_probe(case: Case) -> None:
    for _ in range(3):
        case.fails(AWAY)
    case.clock.advance(5)
    case.store.fault = None
    case.guarded.put(key(), "x", 1000)
    assert case.guarded.get(key()) == "x"
    assert case.watch.states[-1] is BreakerState.CLOSED
    assert case.guarded.untroubled


def test_a_stopped_caller_is_no_failure_and_is_not_kept_from_stopping(case: Case) -> None:
    for _ in range(3):
        case.fails(AWAY)
    case.clock.advance(5)
    case.store.fault = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        case.guarded.get(key())
    case.store.fault = None
    assert case.guarded.get(key()) is None


def test_every_method_is_guarded(case: Case) -> None:
    case.store.fault = AWAY
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            case.guarded.counts()
    case.store.fault = None
    calls = [
        lambda: case.guarded.get(key()),
        lambda: case.guarded.put(key(), "x", 1),
        lambda: case.guarded.claim(key(), 1),
        lambda: case.guarded.add_counts({"x": 1}),
        case.guarded.counts,
        case.guarded.extent,
    ]
    for call in calls:
        with pytest.raises(StoreUnavailable, match="left alone"):
            call()


def test_the_failure_says_which_call_and_nothing_of_its_content(case: Case) -> None:
    case.store.fault = redis.ResponseError("contains a secret")
    with pytest.raises(StoreUnavailable) as caught:
        case.guarded.put(key(), "a secret", 1000)
    assert str(caught.value) == "the cache's store failed at put: ResponseError"
