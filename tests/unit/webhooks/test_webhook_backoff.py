"""Failed deliveries come back with patience, and end."""

from __future__ import annotations

import pytest

from app.sections import WebhookSettings
from app.webhooks.backoff import Answer, Schedule, judge, parse_retry_after

SCHEDULE = Schedule(first=5, longest=100, max_attempts=4)


def middle() -> float:
    return 0.5


def test_waits_double_up_to_the_longest():
    assert [SCHEDULE.delay(attempt, middle) for attempt in range(1, 8)] == [5, 10, 20, 40, 80, 100, 100]


def test_a_late_attempt_number_does_not_overflow():
    assert SCHEDULE.delay(100_000, middle) == 100


def test_jitter_spreads_around_the_exact_wait():
    assert SCHEDULE.delay(1, lambda: 0.0) == 3.75
    assert SCHEDULE.delay(1, lambda: 1.0) == 6.25


def test_the_default_schedule_lasts_about_three_days():
    settings = WebhookSettings()
    schedule = Schedule(settings.first_retry_seconds, settings.max_retry_seconds, settings.max_attempts)
    days = sum(schedule.delay(attempt, middle) for attempt in range(1, schedule.max_attempts)) / 86_400
    assert 2.5 < days < 3.5


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_success_is_2xx(status: int):
    assert judge(Answer(status), 1, SCHEDULE, middle).outcome == "delivered"


@pytest.mark.parametrize(
    "answer", [Answer(s) for s in (100, 301, 302, 307, 308, 400, 404, 429, 500)] + [Answer(None, "dns")]
)
def test_everything_else_is_tried_again(answer: Answer):
    verdict = judge(answer, 2, SCHEDULE, middle)
    assert (verdict.outcome, verdict.delay) == ("retry", 10)


def test_gone_and_the_last_attempt_are_the_end():
    assert judge(Answer(410), 1, SCHEDULE, middle).outcome == "dead"
    assert judge(Answer(500), 3, SCHEDULE, middle).outcome == "retry"
    assert judge(Answer(500), 4, SCHEDULE, middle).outcome == "dead"
    assert judge(Answer(200), 4, SCHEDULE, middle).outcome == "delivered"


@pytest.mark.parametrize(("asked", "waited"), [(30, 30), (1, 5), (10_000, 100), (None, 5)])
def test_retry_after_lengthens_the_wait_within_bounds(asked: float | None, waited: float):
    assert judge(Answer(503, retry_after=asked), 1, SCHEDULE, middle).delay == waited


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120), (" 7 ", 7), ("Tue, 14 Nov 2023 22:13:30 GMT", 10), ("Tue, 14 Nov 2023 22:13:10 GMT", 0),
        (None, None), ("", None), ("soon", None), ("-5", None), ("1.5", None), ("٣", None),
        ("9" * 500, 999_999_999_999),
    ],
)  # fmt: skip
def test_retry_after_is_read_as_number_or_date(value: str | None, seconds: float | None):
    assert parse_retry_after(value, now=1_700_000_000) == seconds
