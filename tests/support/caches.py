"""Caches for tests: set clocks, chosen chances, stores that fail on command, and what was observed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import redis

from cache.breaker import BreakerState
from cache.entry import Answer, Entry, Usage
from cache.guard import GuardedStore
from cache.keys import CacheKey, cache_key
from cache.local import LocalLru
from cache.memory_store import MemoryEntryStore
from cache.response_cache import ResponseCache
from cache.store import EntryStore
from cache.tally import Tally
from cache.ttl import Lifetime

REQUEST = {"messages": [{"role": "user", "content": "hi"}], "params": {"temperature": 0, "max_tokens": 16}}


def key(tenant: str = "t", model: str = "m", revision: str = "r1", request: Mapping[str, Any] = REQUEST) -> CacheKey:
    return cache_key(tenant=tenant, model=model, revision=revision, quantization="gptq-4bit", request=request)


def answer(text: str = "hello", **changes: Any) -> Answer:
    facts: dict[str, Any] = {
        "text": text, "finish_reason": "stop", "usage": Usage(3, 5), "model": "m", "revision": "r1", "compute_ms": 500,
    }  # fmt: skip
    return Answer(**facts | changes)


@dataclass
class Clock:
    """Both clocks of a test: moved by hand."""

    now: float = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Watch:
    """An observer that remembers."""

    looks: list[tuple[str, str]] = field(default_factory=list)
    keeps: list[tuple[str, str, int]] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    states: list[BreakerState] = field(default_factory=list)

    def looked(self, model: str, outcome: str) -> None:
        self.looks.append((model, outcome))

    def kept(self, model: str, outcome: str, size: int) -> None:
        self.keeps.append((model, outcome, size))

    def store_failed(self, operation: str, error: str) -> None:
        self.failures.append((operation, error))

    def breaker_changed(self, state: BreakerState) -> None:
        self.states.append(state)


class Faulty(MemoryEntryStore):
    """The twin, which raises `fault` while one is set, and counts the calls that reach it."""

    fault: BaseException | None = None
    calls: int = 0

    def _meet(self) -> None:
        self.calls += 1
        if self.fault is not None:
            raise self.fault

    def get(self, key: CacheKey) -> str | None:
        self._meet()
        return super().get(key)

    def put(self, key: CacheKey, text: str, ttl_ms: int) -> None:
        self._meet()
        super().put(key, text, ttl_ms)

    def claim(self, key: CacheKey, ttl_ms: int) -> bool:
        self._meet()
        return super().claim(key, ttl_ms)

    def add_counts(self, counts: Mapping[str, int]) -> None:
        self._meet()
        super().add_counts(counts)

    def counts(self) -> dict[str, int]:
        self._meet()
        return super().counts()


@dataclass
class Desk:
    """One process's cache, with its parts at hand."""

    cache: ResponseCache
    store: EntryStore
    guarded: GuardedStore
    clock: Callable[[], float]
    watch: Watch


LIFETIME = Lifetime(ttl=100, jitter=0, stale_seconds=50)


def desk(
    store: EntryStore,
    clock: Callable[[], float],
    *,
    chance: Callable[[], float] = lambda: 0.5,
    lifetime: Lifetime = LIFETIME,
) -> Desk:
    """A process's cache on a store; several on one store are a fleet. Chance 0.5 renews 0.35 s before expiry."""
    watch = Watch()
    guarded = GuardedStore(store, monotonic=clock, observer=watch)
    local: LocalLru[Entry] = LocalLru(entries=100, size=100_000, monotonic=clock)
    cache = ResponseCache(
        local=local, store=guarded, tally=Tally(guarded, monotonic=clock), lifetimes={"m": lifetime}, clock=clock,
        chance=chance, observer=watch,
    )  # fmt: skip
    return Desk(cache, store, guarded, clock, watch)


AWAY = redis.TimeoutError("no reply")
