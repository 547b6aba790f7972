"""A store that does not answer is left alone, and found again."""

from __future__ import annotations

import pytest

from cache.breaker import Breaker, BreakerState
from tests.support.caches import Clock


class Case:
    def __init__(self) -> None:
        self.clock = Clock(0)
        self.states: list[BreakerState] = []
        self.breaker = Breaker(monotonic=self.clock, changed=self.states.append)

    def fail(self, times: int = 1, every: float = 0) -> None:
        for _ in range(times):
            assert self.breaker.admit()
            self.breaker.failed()
            self.clock.advance(every)


@pytest.fixture
def case() -> Case:
    return Case()


def test_three_failures_within_ten_seconds_open_it_for_five(case: Case) -> None:
    case.fail(2)
    assert case.breaker.state is BreakerState.CLOSED
    case.fail()
    assert not case.breaker.admit()
    case.clock.advance(4.9)
    assert not case.breaker.admit()
    case.clock.advance(0.1)
    assert case.breaker.admit()


def test_rare_failures_do_not(case: Case) -> None:
    case.fail(10, every=5.1)
    assert case.states == []


def test_an_answer_in_between_breaks_the_row(case: Case) -> None:
    for _ in range(5):
        case.fail(2)
        case.breaker.succeeded()
    assert case.breaker.untroubled
    assert case.states == []


def test_one_probe_alone_goes_through_and_its_success_closes(case: Case) -> None:
    case.fail(3)
    case.clock.advance(5)
    assert [case.breaker.admit() for _ in range(5)] == [True, False, False, False, False]
    case.breaker.succeeded()
    assert case.breaker.admit()
    assert case.states == [BreakerState.OPEN, BreakerState.PROBING, BreakerState.CLOSED]


def test_a_failed_probe_opens_it_anew(case: Case) -> None:
    case.fail(3)
    case.clock.advance(5)
    case.fail()
    case.clock.advance(4.9)
    assert not case.breaker.admit()
    case.clock.advance(0.2)
    assert case.breaker.admit()


def test_failures_of_before_do_not_count_after_recovery(case: Case) -> None:
    case.fail(3)
    case.clock.advance(5)
    assert case.breaker.admit()
    case.breaker.succeeded()
    case.fail(2)
    assert case.breaker.state is BreakerState.CLOSED


def test_a_probe_that_was_stopped_leaves_its_place_to_another(case: Case) -> None:
    case.fail(3)
    case.clock.advance(5)
    assert case.breaker.admit()
    case.breaker.abandoned()
    assert case.breaker.admit()


def test_a_probe_that_never_comes_back_blocks_for_one_pause(case: Case) -> None:
    case.fail(3)
    case.clock.advance(5)
    assert case.breaker.admit()
    case.clock.advance(5)
    assert case.breaker.admit()


def test_late_failures_of_calls_from_before_do_not_prolong_the_pause(case: Case) -> None:
    assert all(case.breaker.admit() for _ in range(6))
    for _ in range(6):
        case.breaker.failed()
        case.clock.advance(1)
    case.clock.advance(1)
    assert case.breaker.admit()
