"""Requests and tokens a minute, per API key, by the library `limits`: a sliding window counter in Redis.

The library keeps two counters a limit (`ph:limit:{<kind>/<key id>/<limit>/1/minute}` and the same with `/-1`), weights
the previous minute by what is left of it, and counts in one Lua step on Redis' own clock: two calls can never share the
last place, and the memory of a limit does not grow with it (a moving window would keep an entry a token).

What is charged, and when it is given back: docs/decisions/0015-tokens-are-charged-at-submit.md.

Failure policy: open. While Redis does not answer the call goes on unlimited and is counted; the submit behind it needs
the same Redis and answers 503 itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import redis
import structlog
from limits import RateLimitItem, RateLimitItemPerMinute
from limits.storage import RedisStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from app.errors import RateLimitExceeded
from app.lua import ScriptBook, Scripts
from app.services.api_key import ApiKey

Kind = Literal["requests", "tokens"]

_PREFIX = "ph:limit"
_MINUTE = 60.0
_SCRIPTS = ScriptBook(Path(__file__).parent / "lua")
_log = structlog.get_logger(__name__)


class LimitTooSmall(RateLimitExceeded):
    """One request alone is above the limit, so no wait can help."""

    retryable = False


@dataclass(frozen=True)
class Window:
    """The two counters of a limit as they are now.

    Attributes:
        previous, current: what was counted in the minute before and in the running one.
        previous_left, current_left: seconds for which each still counts; `current_left` is up to two minutes, because
            the running minute becomes the previous one first.
    """

    previous: int
    previous_left: float
    current: int
    current_left: float

    @property
    def used(self) -> int:
        return math.floor(self.previous * self.previous_left / _MINUTE) + self.current

    @property
    def reset_seconds(self) -> float:
        """Until nothing of it is used any more."""
        if self.current:
            return self.current_left
        return self.previous_left if self.previous else 0.0

    def wait_for(self, free: int) -> float:
        """Seconds until no more than `free` is used, if nothing else comes."""
        room = free + 1  # the weighted count is rounded down
        if self.used <= free:
            return 0.0
        if self.current <= free:
            return max(0.0, self.previous_left - (room - self.current) * _MINUTE / self.previous)
        return max(0.0, self.current_left - room * _MINUTE / self.current)


@dataclass(frozen=True)
class Standing:
    """Where a key stands with one limit after this request."""

    kind: Kind
    limit: int
    remaining: int
    reset_seconds: float


class Observer(Protocol):
    """Told about every limit that was looked at, whether or not it let the request through."""

    def stands(self, standing: Standing) -> None: ...
    def unchecked(self) -> None: ...


class Unobserved:
    """Nobody listens."""

    def stands(self, standing: Standing) -> None: ...
    def unchecked(self) -> None: ...


class RateLimits:
    """Charges submits to the limits of their keys. Keys without limits cost nothing.

    Args:
        client: jobs role; its pool is used, so its timeouts hold.
        observer: see `Observer`.
    """

    def __init__(self, client: redis.Redis, observer: Observer | None = None) -> None:
        self._storage = RedisStorage("redis://", connection_pool=client.connection_pool, key_prefix=_PREFIX)
        self._limiter = SlidingWindowCounterRateLimiter(self._storage)
        self._scripts = Scripts(client, _SCRIPTS)
        self._observer = observer or Unobserved()

    def charge(self, key: ApiKey, tokens: int, *, repeats: Callable[[], bool]) -> int:
        """Count one request and its tokens. A request that is refused for its tokens stays counted as a request.

        Args:
            key: whose limits.
            tokens: prompt and budget.
            repeats: whether the request only repeats one that was taken already, which needs no tokens. Asked when
                there are too few of them, and only then, because it costs a round trip.

        Returns:
            the tokens that were counted.

        Raises:
            RateLimitExceeded: with the seconds after which it would pass.
            LimitTooSmall: it can never pass.
        """
        with self._failing_open(key):
            if (limit := key.requests_per_minute) is not None and (refusal := self._hit("requests", key, limit, 1)):
                raise refusal
            if (limit := key.tokens_per_minute) is None:
                return 0
            refusal = self._hit("tokens", key, limit, tokens)
            if refusal is None:
                return tokens
            if not repeats():
                raise refusal
        return 0

    def give_back(self, key: ApiKey, tokens: int) -> None:
        """Uncount the tokens of a request that was not taken on; it stays counted as a request. Never raises."""
        limit = key.tokens_per_minute
        if limit is None or not tokens:
            return
        with self._failing_open(key):
            item = _item("tokens", limit)
            self._scripts.call("give_back", item.key_for(key.id), tokens)
            self._tell("tokens", limit, self._window(item, key))

    @contextmanager
    def _failing_open(self, key: ApiKey) -> Iterator[None]:
        try:
            yield
        except (redis.RedisError, OSError) as error:
            _log.warning("rate_limit_unchecked", key=key.id, error=type(error).__name__)
            self._observer.unchecked()

    def _hit(self, kind: Kind, key: ApiKey, limit: int, cost: int) -> RateLimitExceeded | None:
        """Count, or say why not."""
        item = _item(kind, limit)
        taken = self._limiter.hit(item, key.id, cost=cost)
        window = self._window(item, key)
        self._tell(kind, limit, window)
        return None if taken else _refusal(kind, limit, cost, window)

    def _window(self, item: RateLimitItem, key: ApiKey) -> Window:
        return Window(*self._storage.get_sliding_window(item.key_for(key.id), item.get_expiry()))

    def _tell(self, kind: Kind, limit: int, window: Window) -> None:
        self._observer.stands(Standing(kind, limit, max(0, limit - window.used), window.reset_seconds))


def _item(kind: Kind, limit: int) -> RateLimitItem:
    return RateLimitItemPerMinute(limit, namespace=kind)


def _refusal(kind: Kind, limit: int, cost: int, window: Window) -> RateLimitExceeded:
    if cost > limit:
        return LimitTooSmall(
            f"this request counts {cost} tokens (prompt and budget), but the API key may use {limit} a minute; "
            "lower the budget"
        )
    wait = window.wait_for(limit - cost)
    return RateLimitExceeded(
        f"the API key may use {limit} {kind} a minute; try again in {max(1, math.ceil(wait))} s", retry_after=wait
    )
