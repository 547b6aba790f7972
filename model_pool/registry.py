"""The pool as the fleet sees it: each instance's heartbeat in Redis, and the ring of those whose turn comes round.

A heartbeat is a hash that vanishes when the beats stop, so a dead worker's instance leaves the pool by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from model_pool.breaker import BreakerState

BEAT_SECONDS = 1.0
SILENCE_SECONDS = 5.0


class AsyncCaller(Protocol):
    """Runs a named script; satisfied by whatever the composition root hands in."""

    async def call(self, name: str, *args: Any) -> Any: ...


@dataclass(frozen=True)
class Beat:
    """One heartbeat.

    Attributes:
        available: healthy, not draining: the instance stands in the ring, unless its breaker is open.
        capacity, in_flight: generations that it may and does run.
        tokens_per_second: over the last beats.
        started, finished, aborted: generations, as counted by whoever runs them.
        policy: of its model, for whoever passes a hint on: round_robin or least_loaded.
    """

    id: str
    model: str
    slot: int
    revision: str
    engine: str
    device: str
    state: str
    available: bool
    capacity: int
    in_flight: int
    tokens_per_second: float
    started: int
    finished: int
    aborted: int
    pid: int
    policy: str = "round_robin"

    def fields(self) -> list[str]:
        facts = {
            "slot": self.slot,
            "revision": self.revision,
            "engine": self.engine,
            "device": self.device,
            "state": self.state,
            "capacity": self.capacity,
            "in_flight": self.in_flight,
            "tokens_per_second": round(self.tokens_per_second, 2),
            "started": self.started,
            "finished": self.finished,
            "aborted": self.aborted,
            "policy": self.policy,
        }
        return [str(part) for pair in facts.items() for part in pair]


@dataclass(frozen=True)
class Heard:
    """What the fleet answers to a beat.

    Attributes:
        breaker: of this instance.
        drained: operators want it to take nothing new, until they say otherwise.
        restarts: how many restarts operators have ever ordered; one more than before is an order.
    """

    breaker: BreakerState
    drained: bool
    restarts: int


class Registry:
    """Writes this worker's instance into the pool. Redis errors pass through; the next beat mends what one missed."""

    def __init__(self, scripts: AsyncCaller) -> None:
        self._scripts = scripts

    async def beat(self, beat: Beat) -> Heard:
        """Tell the fleet, and hear what it thinks of the instance and wants of it."""
        life = int(SILENCE_SECONDS * 1000)
        facts = (life, int(beat.available), beat.pid, *beat.fields())
        breaker, drained, restarts = await self._scripts.call("beat", beat.id, beat.model, *facts)
        return Heard(BreakerState(breaker), drained == "1", int(restarts))

    async def leave(self, instance: str, model: str) -> None:
        await self._scripts.call("leave", instance, model)


def describe(fields: Mapping[str, str], breaker: str) -> dict[str, Any]:
    """One instance as operators see it, from the fields of its hash and the state of its breaker.

    Workers of another version may say less: what they leave out reads as empty or none.
    """

    def count(name: str) -> int:
        return max(0, int(fields.get(name, 0)))

    return {
        "id": fields.get("id", ""),
        "revision": fields.get("revision", ""),
        "engine": fields.get("engine", ""),
        "device": fields.get("device", ""),
        "state": fields.get("state", "unknown"),
        "breaker": breaker,
        "capacity": count("capacity"),
        "in_flight": count("in_flight"),
        "generations": {name: count(name) for name in ("started", "finished", "aborted")},
        "tokens_per_second": float(fields.get("tokens_per_second", 0)),
    }
