"""When an instance is well: the arithmetic of progress and of restarts, without processes and without waiting.

Health is progress. A server may answer its health URL while its engine is frozen; so what counts is tokens, and where
none came for one period, a one-token probe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class HealthPolicy:
    """How patient the supervisor of an instance is. Seconds throughout.

    Attributes:
        probe_seconds: without a token for so long the instance is probed, busy or idle.
        probe_timeout_seconds: a probe that takes longer has failed.
        failures: failed probes in a row that take the instance out.
        start_seconds: from the start of the process to its first answer.
        backoff_seconds: before the first restart; doubles with each further one.
        max_backoff_seconds: the longest wait before a restart.
    """

    probe_seconds: float = 10.0
    probe_timeout_seconds: float = 5.0
    failures: int = 2
    start_seconds: float = 600.0
    backoff_seconds: float = 1.0
    max_backoff_seconds: float = 60.0


class Pulse:
    """The progress of one running process: when the last token came, and how many probes have failed since.

    Times are seconds on any one monotonic clock.
    """

    def __init__(self, policy: HealthPolicy, now: float) -> None:
        self._policy = policy
        self._failures = 0
        self.token(now)

    def token(self, now: float) -> None:
        """A stream gave something, or a probe did. Called for every token, so it only notes the time."""
        self._last = now
        self._due = now + self._policy.probe_seconds
        self._failures = 0

    def suspect(self, now: float) -> None:
        """A stream stalled or broke: probe now. After a failed probe the next one is due soon anyway."""
        if self._failures == 0:
            self._due = now

    def due_in(self, now: float) -> float:
        """Seconds until the next probe; 0 or less when it is due."""
        return self._due - now

    def probe_failed(self, started: float) -> None:
        """A probe that began at `started` failed. It counts for nothing if a stream gave a token meanwhile."""
        if self._last >= started:
            return
        self._failures += 1
        # A refused connection fails at once; two of them within a millisecond would prove no more than one.
        self._due = started + self._policy.probe_timeout_seconds

    @property
    def sick(self) -> bool:
        """Whether so many probes have failed in a row that the process has to be replaced."""
        return self._failures >= self._policy.failures


class Backoff:
    """The wait before the next start: doubled by each failure, spread by chance, forgotten after a good run."""

    def __init__(self, policy: HealthPolicy, random: Callable[[], float]) -> None:
        self._policy = policy
        self._random = random
        self._failures = 0
        self._delay = 0.0

    def ended(self, ready_seconds: float) -> None:
        """A process ended that had been ready for `ready_seconds` (0: never). A good run clears what came before."""
        if ready_seconds >= max(self._policy.probe_seconds, self._delay):
            self._failures = 0

    def next_delay(self) -> float:
        """Seconds until the next start: half of the doubled wait for certain, the other half by chance."""
        exponent = min(self._failures, 32)
        self._failures += 1
        self._delay = min(self._policy.backoff_seconds * 2.0**exponent, self._policy.max_backoff_seconds)
        return self._delay * (0.5 + 0.5 * self._random())

    @property
    def is_first(self) -> bool:
        """Whether nothing has failed since the last good run."""
        return self._failures == 0
