"""The cache as callers use it: look, keep, clear, stats. Looking and keeping never raise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from sys import getsizeof

from cache import early, entry
from cache.directives import Directives
from cache.entry import Answer, Entry
from cache.errors import CacheConfigError, StoreUnavailable, UnreadableEntry
from cache.guard import GuardedStore
from cache.keys import CacheKey, Scope
from cache.local import LocalLru
from cache.observers import CacheObserver
from cache.outcomes import CacheStats, Hit, Kept, Miss, Reason, State
from cache.store import Cleared
from cache.tally import Tally
from cache.ttl import Lifetime

_MOST_LOCAL_SECONDS = 4.0
_MOST_BETA = 10.0
_NO_WISHES = Directives()
_COUNTED: dict[str, str] = {
    State.FRESH: "hits",
    State.REFRESH: "refreshes",
    State.STALE: "stale",
    Reason.BYPASS: "bypass",
    Kept.KEPT: "kept",
    Reason.UNAVAILABLE: "errors",
    Kept.UNAVAILABLE: "errors",
}


@dataclass(frozen=True, slots=True)
class CacheLimits:
    """Bounds of the cache.

    Attributes:
        entry_bytes: the largest entry kept, as JSON in UTF-8.
        local_seconds: how long a process trusts its own copy, and so how long it may miss a clear by another process.
            At most 4, so that copies are gone before a claim on early refresh ends.
        beta: eagerness of early refresh (see `cache.early`).
    """

    entry_bytes: int = 1024 * 1024
    local_seconds: float = 2.0
    beta: float = 1.0

    def __post_init__(self) -> None:
        local = 0 <= self.local_seconds <= _MOST_LOCAL_SECONDS
        if self.entry_bytes < 1 or not local or not 0 <= self.beta <= _MOST_BETA:
            ranges = f"local_seconds from 0 to {_MOST_LOCAL_SECONDS:g}, beta from 0 to {_MOST_BETA:g}"
            raise CacheConfigError(f"{self}: give entry_bytes from 1, {ranges}")


class ResponseCache:
    """Two levels of kept answers.

    Args:
        local: this process's copies.
        store: the fleet's entries.
        tally: the fleet's counters.
        lifetimes: by model name, read anew for each answer; a model that is not named has the default lifetime.
        clock: Unix seconds.
        chance: uniform in [0, 1).
        observer: told of each look and each offered answer.
    """

    def __init__(
        self,
        *,
        local: LocalLru[Entry],
        store: GuardedStore,
        tally: Tally,
        lifetimes: Mapping[str, Lifetime],
        clock: Callable[[], float],
        chance: Callable[[], float],
        observer: CacheObserver,
        limits: CacheLimits = CacheLimits(),
    ) -> None:
        self._local, self._store, self._tally = local, store, tally
        self._lifetimes = lifetimes
        self._clock, self._chance = clock, chance
        self._observer = observer
        self._limits = limits

    def look(self, key: CacheKey, directives: Directives = _NO_WISHES) -> Hit | Miss:
        """Find an answer. Waits at most for one reply of the store, or two where it gave one just before.

        Whether the request is cacheable at all is asked before (`cache.policy`).
        """
        found = self._look(key, directives)
        outcome = found.state if isinstance(found, Hit) else found.reason
        self._observer.looked(key.model, outcome)
        self._tally.count(_COUNTED.get(outcome, "misses"))
        return found

    def keep(self, key: CacheKey, answer: Answer) -> Kept:
        """Keep an answer for the next ones who ask the same, if it is complete and good."""
        outcome, size = self._keep(key, answer)
        self._observer.kept(key.model, outcome, size)
        self._tally.count(_COUNTED.get(outcome, "refused"))
        return outcome

    def clear(self, scope: Scope) -> Cleared:
        """Forget the entries of a scope. Other processes forget their copies within `local_seconds`.

        Raises:
            StoreUnavailable: some or none were removed.
        """
        try:
            return self._store.clear(scope)
        finally:
            self._local.clear(scope)  # afterwards: a look in between may have copied one

    def stats(self) -> CacheStats:
        """The state of things; never raises."""
        self._tally.flush()
        entries, size = self._local.extent()
        try:
            extent, counts = self._store.extent(), self._store.counts()
        except StoreUnavailable:
            return CacheStats(entries, size, self._store.state)
        return CacheStats(entries, size, self._store.state, True, extent.keys, extent.size, counts)

    def _look(self, key: CacheKey, directives: Directives) -> Hit | Miss:
        if not directives.may_read:
            return Miss(Reason.BYPASS)
        try:
            found = self._find(key)
        except StoreUnavailable:
            return Miss(Reason.UNAVAILABLE)
        except UnreadableEntry:
            return Miss(Reason.UNREADABLE)
        return Miss(Reason.ABSENT) if found is None else self._judge(key, found, directives)

    def _find(self, key: CacheKey) -> Entry | None:
        found = self._local.get(key)
        now = self._clock()
        if found is not None and now < found.fresh_until:
            return found
        text = self._store.get(key)
        if text is None:
            return None
        found = entry.decode(text)
        if now < found.fresh_until:
            self._copy(key, found, text)
        return found

    def _judge(self, key: CacheKey, found: Entry, directives: Directives) -> Hit | Miss:
        now = self._clock()
        age = max(0.0, now - found.stored_at)  # clocks of two hosts differ
        if directives.max_age is not None and (age > directives.max_age or directives.max_age == 0):
            return Miss(Reason.TOO_OLD)
        if now >= found.fresh_until:
            # RFC 9111, 4.2.4 and 5.2.1: without max-stale, either directive asks for a fresh one.
            strict = directives.max_age is not None or directives.only_if_cached
            return Miss(Reason.EXPIRED) if strict else Hit(found, int(age), State.STALE)
        renew = not directives.only_if_cached and self._chosen_to_renew(key, found, now)
        return Hit(found, int(age), State.REFRESH if renew else State.FRESH)

    def _chosen_to_renew(self, key: CacheKey, found: Entry, now: float) -> bool:
        seconds, beta = found.compute_ms / 1000, self._limits.beta
        if not early.due(
            now=now, fresh_until=found.fresh_until, compute_seconds=seconds, chance=self._chance(), beta=beta
        ):
            return False
        try:
            return self._store.claim(key, early.claim_ms(found.compute_ms))
        except StoreUnavailable:  # observed by the guard; the answer at hand is still fresh
            return False

    def _keep(self, key: CacheKey, answer: Answer) -> tuple[Kept, int]:
        refused = _flaw(key, answer)
        if refused is not None:
            return refused, 0
        lifetime = self._lifetimes.get(key.model, Lifetime())
        fresh_seconds = lifetime.fresh_seconds(self._chance())
        made = _entry(answer, self._clock(), fresh_seconds)
        try:
            text = entry.encode(made)
        except ValueError:
            return Kept.UNENCODABLE, 0
        size = len(text.encode())
        if size > self._limits.entry_bytes:
            return Kept.TOO_LARGE, size
        try:
            self._store.put(key, text, lifetime.kept_ms(fresh_seconds))
        except StoreUnavailable:
            return Kept.UNAVAILABLE, size
        self._copy(key, made, text)
        return Kept.KEPT, size

    def _copy(self, key: CacheKey, found: Entry, text: str) -> None:
        self._local.put(key, found, size=getsizeof(text), seconds=self._limits.local_seconds)


def _flaw(key: CacheKey, answer: Answer) -> Kept | None:
    """Why an answer is not worth keeping, or None."""
    if answer.finish_reason != "stop":
        return Kept.UNFINISHED
    if not answer.text.strip():
        return Kept.EMPTY
    if answer.continued:
        return Kept.CONTINUED
    if (answer.model, answer.revision) != (key.model, key.revision):
        return Kept.OTHER_MODEL
    return None


def _entry(answer: Answer, now: float, fresh_seconds: float) -> Entry:
    return Entry(
        text=answer.text,
        finish_reason=answer.finish_reason,
        usage=answer.usage,
        model=answer.model,
        revision=answer.revision,
        stored_at=now,
        fresh_until=now + fresh_seconds,
        compute_ms=answer.compute_ms,
    )
