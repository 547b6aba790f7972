"""The circuit breaker of an instance: its records, and its rules as a pure function.

In production the rules are one Lua step each on Redis' clock, inside the very step that claims, writes or ends a run
(`app/jobs/lua/lib/breaker.lua`), so that the whole fleet shares one breaker; that text is tested against this one.

    closed ──(enough runs in the window, too many of them faults of different generations)──▶ open
    open ──(cool-down over, or the failed process replaced)──▶ half open, which lets at most `probes` runs through
    half open ──(a probe gave tokens)──▶ closed
    half open ──(a probe met a fault)──▶ open, with twice the cool-down, up to a bound
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

BUCKETS = 10


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Outcome(StrEnum):
    """What a run says of its instance. A client's mistake, a cancel, a deadline or a drain says neither."""

    GOOD = "good"
    FAULT = "fault"


@dataclass(frozen=True)
class BreakerPolicy:
    """When a breaker trips and how it recovers. Milliseconds.

    Attributes:
        window: how far back runs count, in ten steps.
        minimum: runs in the window before anything is judged.
        error_rate: share of faults from which on the breaker trips.
        cool_down, longest_cool_down: of the first opening, and of any.
        probes: runs at once for the whole fleet while half open.
    """

    window: int
    minimum: int
    error_rate: float
    cool_down: int
    longest_cool_down: int
    probes: int

    def encode(self) -> str:
        """The form in which a claim carries it."""
        parts = (self.window, self.minimum, self.error_rate, self.cool_down, self.longest_cool_down, self.probes)
        return ",".join(f"{part:g}" if isinstance(part, float) else str(part) for part in parts)


@dataclass(frozen=True)
class Breaker:
    """One breaker at rest between two outcomes.

    Attributes:
        counts: bucket number to (runs, faults), while closed.
        until: end of the cool-down in ms, or None while closed.
        cool_down: length of that cool-down.
        probes: runs that hold a probe's place.
    """

    counts: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    until: int | None = None
    cool_down: int = 0
    probes: frozenset[str] = frozenset()

    def state(self, now: int) -> BreakerState:
        if self.until is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if now < self.until else BreakerState.HALF_OPEN


def admits(breaker: Breaker, policy: BreakerPolicy, now: int) -> bool:
    """Whether another run may begin."""
    state = breaker.state(now)
    return state is BreakerState.CLOSED or (state is BreakerState.HALF_OPEN and len(breaker.probes) < policy.probes)


def after(
    breaker: Breaker, policy: BreakerPolicy, run: str, outcome: Outcome, now: int, *, again: bool = False
) -> Breaker:
    """The breaker once a run's outcome is known. Runs from before the last opening change nothing.

    `again`: this very generation has failed on the instance before. Two requests that kill whatever runs them would
    else look like an instance that fails everybody.
    """
    if breaker.until is not None:
        if run not in breaker.probes:
            return breaker
        return Breaker() if outcome is Outcome.GOOD else _open(2 * breaker.cool_down, policy, now)
    if again and outcome is Outcome.FAULT:
        return breaker
    counts = _counted(breaker.counts, policy, outcome, now)
    runs, faults = (sum(pair[i] for pair in counts.values()) for i in (0, 1))
    if outcome is Outcome.FAULT and runs >= policy.minimum and faults / runs >= policy.error_rate:
        return _open(policy.cool_down, policy, now)
    return Breaker(counts)


def _open(cool_down: int, policy: BreakerPolicy, now: int) -> Breaker:
    length = min(cool_down, policy.longest_cool_down)
    return Breaker(until=now + length, cool_down=length)


def _counted(
    counts: Mapping[int, tuple[int, int]], policy: BreakerPolicy, outcome: Outcome, now: int
) -> dict[int, tuple[int, int]]:
    bucket = now // max(1, policy.window // BUCKETS)
    kept = {at: pair for at, pair in counts.items() if at > bucket - BUCKETS}
    runs, faults = kept.get(bucket, (0, 0))
    kept[bucket] = (runs + 1, faults + (outcome is Outcome.FAULT))
    return kept


def describe(instance: str, fields: Mapping[str, str], now: int) -> dict[str, Any]:
    """One breaker as operators see it, from the fields of its hash (none: closed).

    `retry_in` is the rest of the cool-down in seconds while open, else None; `runs` and `faults` are those of the
    window while closed.
    """
    until = int(fields["until"]) if "until" in fields else None
    state = Breaker(until=until).state(now)
    counted = {name: int(n) for name, n in fields.items() if name[:1] in "gf" and name[1:].isdigit()}
    return {
        "name": instance,
        "state": state.value,
        "runs": sum(counted.values()),
        "faults": sum(n for name, n in counted.items() if name[0] == "f"),
        "probes": sum(name.startswith("p:") for name in fields),
        "retry_in": round((until - now) / 1000, 1) if until is not None and state is BreakerState.OPEN else None,
    }
