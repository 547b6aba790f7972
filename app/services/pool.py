"""The pool as operators and the readiness check see it: instances, lines and counters, read from Redis in one go."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import redis

from app.errors import NotFound
from app.queueing import WEBHOOKS_QUEUE, own_queue, shared_queue
from app.redis_errors import translated
from app.services.lines import Line, Lines
from model_pool import breaker
from model_pool.registry import SILENCE_SECONDS, describe

_PROBE = "ph:probe"
_TRIPPED = "ph:breakers"


@dataclass(frozen=True)
class ModelState:
    """One model's line and instances.

    Attributes:
        line: who waits, and for how long.
        available: instances in the ring whose last beat is recent.
        instances: as `model_pool.registry.describe` gives them.
    """

    line: Line
    available: int
    instances: list[dict[str, Any]] = field(default_factory=list)


class Pool:
    """Reads the pool. Redis away raises `QueueUnavailable`, Redis full (in `check_writable`) `StorageFull`.

    Args:
        models: names of those that are offered; read anew at each look.
    """

    def __init__(self, client: redis.Redis, models: Collection[str]) -> None:
        self._client = client
        self._configured = models
        self._lines = Lines(client)

    def check_writable(self) -> None:
        """Write something small and short-lived, as a submit would."""
        with translated():
            self._client.set(_PROBE, "1", px=1000)

    def available(self) -> dict[str, int]:
        """Instances of each model that would take work now."""
        with translated():
            now = self._now()
            return {model: len(self._alive(model, now)) for model in self._models()}

    def states(self) -> dict[str, ModelState]:
        """Everything about each configured model."""
        with translated():
            now = self._now()
            return {model: self._state(model, now) for model in self._models()}

    def lines(self) -> dict[str, Line]:
        """The line of each configured model."""
        with translated():
            return {model: self._lines.look(model) for model in self._models()}

    def hints(self) -> dict[str, int]:
        """Messages that lie in Celery's queues (kombu keeps a queue as a list of its name)."""
        with translated():
            names = [WEBHOOKS_QUEUE, *map(shared_queue, self._models())]
            for model in self._models():
                ids = cast("list[str]", self._client.zrange(f"ph:instances:{model}", 0, -1))
                names += [own_queue(model, instance.rpartition(".")[2]) for instance in ids]
            pipeline = self._client.pipeline(transaction=False)
            for name in names:
                pipeline.llen(name)
            return dict(zip(names, pipeline.execute(), strict=True))

    def totals(self) -> dict[str, int]:
        """Numbers of the whole house: running, dead letters, webhooks waiting."""
        with translated():
            pipeline = self._client.pipeline(transaction=False)
            for key in ("ph:running", "ph:dead", "ph:outbox", "ph:deliveries:due"):
                pipeline.zcard(key)
            return dict(zip(("running", "dead", "outbox", "deliveries_due"), pipeline.execute(), strict=True))

    def _state(self, model: str, now: int) -> ModelState:
        line = self._lines.look(model)
        ids = cast("list[str]", self._client.zrange(f"ph:instances:{model}", 0, -1))
        pipeline = self._client.pipeline(transaction=False)
        for instance in ids:
            pipeline.hgetall(f"ph:instance:{instance}")
        breakers = self._breakers(ids, now)
        found = [
            describe({"id": i, **fields}, breakers[i]["state"])
            for i, fields in zip(ids, pipeline.execute(), strict=True)
            if fields
        ]
        return ModelState(line, len(self._alive(model, now)), found)

    def breakers(self) -> list[dict[str, Any]]:
        """The breaker of every known instance, and of those that have tripped and are gone since, by name.

        As `model_pool.breaker.describe` gives them.
        """
        with translated():
            now = self._now()
            pipeline = self._client.pipeline(transaction=False)
            for model in self._models():
                pipeline.zrange(f"ph:instances:{model}", 0, -1)
            pipeline.zrange(_TRIPPED, 0, -1)
            ids = sorted({i for found in pipeline.execute() for i in found})
            return list(self._breakers(ids, now).values())

    def reset_breaker(self, instance: str) -> bool:
        """Close a breaker and forget what it has counted; False when it had counted nothing."""
        with translated():
            self._client.zrem(_TRIPPED, instance)
            return bool(self._client.delete(_breaker(instance)))

    def order(self, instance: str, wish: Literal["drain", "resume", "restart"]) -> None:
        """What operators want of an instance; its worker hears of it at its next heartbeat, within about a second.

        A drained instance stays out until it is resumed, whatever restarts meanwhile.

        Raises:
            NotFound: no such instance beats.
        """
        with translated():
            orders = f"ph:orders:{instance}"
            # One that was drained and has died since may be resumed before it is back.
            known = [f"ph:instance:{instance}", *([orders] if wish == "resume" else [])]
            if not self._client.exists(*known):
                raise NotFound(f"there is no instance {instance[:80]!r}; GET /admin/pool lists them")
            match wish:
                case "drain":
                    self._client.hset(orders, "drained", "1")
                case "resume":
                    self._client.hdel(orders, "drained")
                case "restart":
                    self._client.hincrby(orders, "restart", 1)

    def _breakers(self, ids: Iterable[str], now: int) -> dict[str, dict[str, Any]]:
        known = list(ids)
        pipeline = self._client.pipeline(transaction=False)
        for instance in known:
            pipeline.hgetall(_breaker(instance))
        pairs = zip(known, pipeline.execute(), strict=True)
        return {instance: breaker.describe(instance, fields, now) for instance, fields in pairs}

    def _models(self) -> tuple[str, ...]:
        """The configured models; for a command that looks in from outside without a configuration, those in Redis."""
        found = tuple(self._configured) or sorted(cast("set[str]", self._client.smembers("ph:models")))
        return tuple(found)

    def _alive(self, model: str, now: int) -> set[str]:
        """In the ring, and heard of lately: with no worker left nobody tidies the ring."""
        ring = cast("list[str]", self._client.lrange(f"ph:ring:{model}", 0, -1))
        if not ring:
            return set()
        since = now - int(SILENCE_SECONDS * 1000)
        beats = cast("list[str]", self._client.zrangebyscore(f"ph:instances:{model}", since, "+inf"))
        return set(ring) & set(beats)

    def _now(self) -> int:
        seconds, micros = self._client.time()
        return seconds * 1000 + micros // 1000


def _breaker(instance: str) -> str:
    return f"ph:breaker:{instance}"
