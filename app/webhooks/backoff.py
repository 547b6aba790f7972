"""When a failed delivery is tried again, and when it is given up. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Literal

Outcome = Literal["delivered", "retry", "dead"]
_JITTER = 0.25
_LONGEST_EXPONENT = 63


@dataclass(frozen=True)
class Schedule:
    """Exponential with jitter. All times in seconds.

    Attributes:
        first: wait after the first failed attempt; it doubles with every further one.
        longest: the most that one wait may be, a receiver's `Retry-After` included.
        max_attempts: attempts in all, the first included.
    """

    first: float
    longest: float
    max_attempts: int

    def delay(self, attempt: int, random: Callable[[], float]) -> float:
        """The wait after a failed attempt, within a quarter of the exact doubling.

        Args:
            attempt: its number, from 1.
            random: uniform in [0, 1). Spread keeps the deliveries of one outage from returning as one wave.
        """
        exact = min(self.first * 2.0 ** min(attempt - 1, _LONGEST_EXPONENT), self.longest)
        return exact * (1 - _JITTER + 2 * _JITTER * random())


@dataclass(frozen=True)
class Answer:
    """How an attempt went: the receiver's status, or the error that kept it from answering."""

    status: int | None = None
    error: str = ""
    retry_after: float | None = None


@dataclass(frozen=True)
class Verdict:
    """What becomes of the delivery; `delay` in seconds counts for `retry` only."""

    outcome: Outcome
    delay: float = 0.0


def judge(answer: Answer, attempt: int, schedule: Schedule, random: Callable[[], float]) -> Verdict:
    """2xx is delivered. 410 (the receiver is gone) and the last attempt are the end. All else is tried again.

    A redirect is a failure like any other. `Retry-After` can lengthen the wait but never shorten it.
    """
    status = answer.status or 0
    if HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        return Verdict("delivered")
    if status == HTTPStatus.GONE or attempt >= schedule.max_attempts:
        return Verdict("dead")
    delay = max(schedule.delay(attempt, random), min(answer.retry_after or 0.0, schedule.longest))
    return Verdict("retry", delay)


def parse_retry_after(value: str | None, now: float) -> float | None:
    """Seconds to wait after RFC 9110, section 10.2.3 (a number or a date), or None when absent or unreadable."""
    if not value:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    return max(0.0, moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() - now)
