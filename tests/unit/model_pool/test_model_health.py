"""The arithmetic of health: when a probe is due, what counts as a failure, how long a restart waits."""

from __future__ import annotations

import pytest

from model_pool.health import Backoff, HealthPolicy, Pulse

POLICY = HealthPolicy(
    probe_seconds=10, probe_timeout_seconds=5, failures=2, start_seconds=60, backoff_seconds=1, max_backoff_seconds=60
)


def test_tokens_put_the_probe_off():
    """A busy instance proves itself by its streams; only silence is probed."""
    pulse = Pulse(POLICY, now=100)

    assert pulse.due_in(104) == 6
    pulse.token(108)
    assert pulse.due_in(108) == 10


def test_two_failures_in_a_row_within_two_periods_are_the_end():
    """Frozen right after a token at 100: probes at 110 and 115, out at 120."""
    pulse = Pulse(POLICY, now=100)

    pulse.probe_failed(started=110)
    assert not pulse.sick
    assert pulse.due_in(115) == 0
    pulse.probe_failed(started=115)
    assert pulse.sick


def test_a_token_between_two_failures_forgives_the_first():
    """The failures have to be in a row."""
    pulse = Pulse(POLICY, now=100)

    pulse.probe_failed(started=110)
    pulse.token(116)
    pulse.probe_failed(started=126)
    assert not pulse.sick


def test_a_token_during_a_failed_probe_outweighs_it():
    """A probe that waits behind a long prefill says nothing against an engine whose streams flow."""
    pulse = Pulse(POLICY, now=100)

    for started in (110, 115, 120):
        pulse.token(started + 1)
        pulse.probe_failed(started)
    assert not pulse.sick


def test_a_refused_probe_is_not_repeated_in_the_same_moment():
    """Two refusals within a millisecond prove no more than one."""
    pulse = Pulse(POLICY, now=100)

    pulse.probe_failed(started=110)
    assert pulse.due_in(110.001) == pytest.approx(4.999)
    pulse.suspect(110.002)
    assert pulse.due_in(110.002) == pytest.approx(4.998)


def test_suspicion_makes_the_probe_due_now():
    """A stalled stream does not wait for the period to pass."""
    pulse = Pulse(POLICY, now=100)

    pulse.suspect(101)
    assert pulse.due_in(101) == 0


def test_the_backoff_doubles_up_to_its_limit():
    """Without luck (random 1) the whole delay is waited."""
    backoff = Backoff(POLICY, random=lambda: 1.0)

    assert [backoff.next_delay() for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]


def test_chance_takes_half_of_the_delay_at_most():
    """Instances that died together do not start together, and none starts at once."""
    assert Backoff(POLICY, random=lambda: 0.0).next_delay() == 0.5


def test_a_thousand_failures_still_give_a_number():
    """The exponent is bounded, so that a slot which fails for weeks does not end in an overflow."""
    backoff = Backoff(POLICY, random=lambda: 1.0)

    assert {backoff.next_delay() for _ in range(1200)} >= {60}


@pytest.mark.parametrize(("ready_seconds", "delay"), [(0, 4), (9.9, 4), (10, 1), (3600, 1)])
def test_a_good_run_clears_what_came_before(ready_seconds, delay):
    """A run counts as good once it has outlived a probe period; one that crashes sooner keeps the doubling."""
    backoff = Backoff(POLICY, random=lambda: 1.0)
    backoff.next_delay()
    backoff.next_delay()

    backoff.ended(ready_seconds)

    assert backoff.next_delay() == delay
    assert not backoff.is_first


def test_a_run_shorter_than_the_wait_before_it_is_not_good():
    """After a minute's wait, a run of half a minute clears nothing: restarts stay rare."""
    backoff = Backoff(POLICY, random=lambda: 1.0)
    for _ in range(7):
        backoff.next_delay()

    backoff.ended(30)

    assert backoff.next_delay() == 60
